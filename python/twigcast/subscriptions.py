"""The public face of the engine: a set of subscriptions that messages are matched against.

A :class:`SubscriptionSet` keeps its settings and an engine session, and nothing else.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twigcast.answers import Deliveries, Match, Node
from twigcast.engine.session import EngineSession
from twigcast.envelope import Envelope
from twigcast.errors import QueryWarning, SnapshotError, UnknownKey
from twigcast.explanation.explainer import Explanation, explain_with
from twigcast.limits import Limits
from twigcast.query_check import QueryReport
from twigcast.reading.text import MessageLike
from twigcast.registration import (
    DIALECTS,
    AddReport,
    Dialect,
    Subscription,
    SubscriptionLike,
    require_str,
)
from twigcast.xquery.saxon import require as require_saxon

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """Counts of the structures that the subscriptions of a set share, and their sizes in bytes."""

    subscriptions: int
    contexts: int
    """Different settings (namespaces and dialect) of subscriptions."""
    queries: int
    """Different queries."""
    recent_queries: int
    """Queries in the recent segment of the index."""
    dead_queries: int
    """Removed queries that stay in the main segment until it is merged."""
    nfa_states: int
    nfa_bytes: int
    twigs: int
    branches: int
    branch_bytes: int
    triggers: int
    crowded_states: int
    """States whose triggers are looked up in a table."""
    accesses: int
    """Queries that values lead to, counted by path."""
    access_bytes: int
    conditions: int
    """Different conditions that these verify."""
    evaluated_always: int
    """Queries that are evaluated on each message."""
    condition_bytes: int
    atom_bytes: int
    registry_bytes: int
    """Bytes of keys, query texts and subscribers."""
    compiled_bytes: int
    matchers: int
    """Matchers that no thread uses now; each has caches of its own."""
    cache_bytes: int
    cache_overflows: int
    """How often the caches of a matcher were full and began anew."""
    dfa_states: int


class SubscriptionSet:
    """A set of subscriptions that messages are matched against, all at once.

    Args:
        subscriptions: The first subscriptions, as for :meth:`add_many`; all must be accepted.
        namespaces: Prefix to namespace, for all queries; the empty prefix gives the default namespace of element names.
        dialect: How queries are read.
        limits: What keeps hostile messages and queries from exhausting the machine.

    Raises:
        QueryError: A query is refused.
        MissingExtra: The dialect is ``xquery``, and Saxon is not installed.

    A set can be used from several threads, and pickled.
    """

    def __init__(
        self,
        subscriptions: Mapping[str, str] | Iterable[SubscriptionLike] = (),
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect = "xpath",
        limits: Limits | None = None,
    ) -> None:
        if limits is not None and not isinstance(limits, Limits):
            raise TypeError(f"limits must be Limits, not {type(limits).__name__}")
        require_str(dialect, "dialect")
        if dialect not in DIALECTS:
            raise ValueError(f"dialect must be 'xpath', 'legacy' or 'xquery', not {dialect!r}")
        if dialect == "xquery":
            require_saxon()
        self._namespaces = _checked(namespaces)
        self._dialect = dialect
        self._session = EngineSession.empty(limits or Limits())
        self.add_many(subscriptions).raise_if_refused()

    # The population ---------------------------------------------------------------------------------------------------

    def add(self, key: str, query: str, *, namespaces: Mapping[str, str] | None = None) -> None:
        """Adds a subscription. It takes part from the next message on.

        Args:
            key: The subscriber's own identifier.
            query: XPath, or For-Where-Return.
            namespaces: Prefix to namespace for this query, on top of those of the set.

        Raises:
            DuplicateKey: The key is taken.
            QueryError: The query is refused.

        Warns:
            QueryWarning: The query can never match, always matches, or otherwise looks wrong.
        """
        self._add(key, query, namespaces, replace=False)

    def replace(self, key: str, query: str, *, namespaces: Mapping[str, str] | None = None) -> None:
        """Gives a subscription another query, or adds it where there is none. Arguments are as for :meth:`add`.

        Raises:
            QueryError: The query is refused. The subscription keeps the query that it had.

        Warns:
            QueryWarning: As for :meth:`add`.
        """
        self._add(key, query, namespaces, replace=True)

    def _add(self, key: str, query: str, namespaces: Mapping[str, str] | None, *, replace: bool) -> None:
        declared = {**self._namespaces, **_checked(namespaces)} if namespaces else self._namespaces
        warning = self._session.add(key, query, declared, self._dialect, replace=replace)
        if warning is not None:
            warnings.warn(f"{key}: {warning}", QueryWarning, stacklevel=3)

    def add_many(
        self, subscriptions: Mapping[str, str] | Iterable[SubscriptionLike], *, replace: bool = False
    ) -> AddReport:
        """Adds many subscriptions, much faster than one by one, and reports which were refused.

        Args:
            subscriptions: Queries by key, or :class:`Subscription` objects, or tuples of key, query and (if need be)
                namespaces.
            replace: Whether a subscription whose key is taken takes the place of the old one.

        Raises:
            TypeError: An item is no subscription. Those before it may have been added.
        """
        items = subscriptions.items() if isinstance(subscriptions, Mapping) else subscriptions
        return self._session.add_many(items, self._namespaces, self._dialect, replace=replace)

    def remove(self, key: str) -> None:
        """Removes a subscription. It no longer takes part from the next message on.

        Raises:
            UnknownKey: There is no such subscription.
        """
        if not self.discard(key):
            raise UnknownKey(key)

    def discard(self, key: str) -> bool:
        """Removes a subscription if there is one, and returns whether there was."""
        return self._has(key) and self._session.discard(key)

    def keys(self) -> list[str]:
        """Returns all keys, in the order in which the engine holds them."""
        return self._session.engine.keys()

    def __len__(self) -> int:
        return len(self._session.engine)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self._session.engine

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, key: str) -> Subscription:
        """Returns the subscription with a key, with all namespaces that its query was read with.

        Raises:
            UnknownKey: There is no such subscription.
        """
        stored = self._session.engine.query(key) if self._has(key) else None
        if stored is None:
            raise UnknownKey(key)
        return Subscription(key, stored.query, stored.namespaces, DIALECTS[stored.dialect])

    def _has(self, key: str) -> bool:
        """Returns whether there is a subscription with a key that must be a string."""
        require_str(key, "key")
        return key in self._session.engine

    def __repr__(self) -> str:
        return f"<SubscriptionSet of {len(self):,}>"

    @property
    def version(self) -> int:
        """A number that grows with each change of the population."""
        return self._session.engine.version

    @property
    def limits(self) -> Limits:
        """The limits of this set."""
        return self._session.limits

    def describe(self, key: str) -> QueryReport:
        """Returns how a subscription runs, and what looks wrong with its query.

        Raises:
            UnknownKey: There is no such subscription.
        """
        if not self._has(key):
            raise UnknownKey(key)
        return QueryReport.of(self._session.engine.describe(key))

    def statistics(self) -> EngineStatistics:
        """Returns counts and sizes of the structures that the subscriptions share."""
        counts = self._session.engine.statistics()
        return EngineStatistics(**{field.name: counts[field.name] for field in fields(EngineStatistics)})

    # Messages ---------------------------------------------------------------------------------------------------------

    def match(self, message: MessageLike) -> Match:
        """Returns the subscriptions that a message matches.

        Raises:
            MalformedMessage: It is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
        """
        return self._session.match(message)

    def nodes(self, message: MessageLike, key: str) -> list[Node]:
        """Returns the nodes that a subscription's query selects in a message, in document order.

        Positions in a message that is not plain UTF-8 refer to the message as converted to it: see ``Node.message``.

        Raises:
            UnknownKey: There is no such subscription.
            UndecidedSubscription: Evaluating the query took too long.
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
        """
        if not self._has(key):
            raise UnknownKey(key)
        return self._session.nodes(message, key)

    def node_counts(self, message: MessageLike) -> dict[str, int]:
        """Returns how many nodes each matching subscription selects in a message, by key.

        Raises:
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
        """
        return self._session.node_counts(message)

    def explain(self, message: MessageLike, key: str) -> Explanation:
        """Returns why a message matches a subscription, or the first step that fails and what comes nearest.

        Raises:
            UnknownKey: There is no such subscription.
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
            UndecidedSubscription: The query could not be decided on the message within the limits.
        """
        subscription = self[key]
        alone = EngineSession.empty(self.limits)
        dialect = subscription.dialect or self._dialect
        return explain_with(alone, subscription.query, message, subscription.namespaces, dialect)

    def deliver(
        self, message: MessageLike, *, envelope: Envelope | None = None, message_id: str = "", whole: bool = False
    ) -> Deliveries:
        """Returns what each matching subscriber gets: the result of a For-Where-Return query, else the message itself.

        Results are written when they are first looked at, or all at once by :meth:`Deliveries.arrow`.

        Args:
            message: The message.
            envelope: An element to put around each result.
            message_id: What the envelope calls the message.
            whole: Whether messages that are delivered as they are get an envelope too.

        Raises:
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
        """
        if envelope is not None and not isinstance(envelope, Envelope):
            raise TypeError(f"envelope must be Envelope, such as Envelope('delivery'), not {type(envelope).__name__}")
        require_str(message_id, "message_id")
        return self._session.deliver(message, envelope, message_id, whole=whole)

    def match_batch(
        self,
        messages: Any,
        *,
        column: str = "xml",
        deliver: bool = False,
        nodes: bool = False,
        grouped: bool = False,
        threads: int = 1,
    ) -> pa.RecordBatch:
        """Matches many messages at once, from and to Arrow.

        Args:
            messages: Messages as strings or binary: an array, a stream of arrays, or a table, of pyarrow or of any
                library that has ``__arrow_c_array__`` or ``__arrow_c_stream__``; or an iterable of ``bytes``, ``str``
                or ``None``.
            column: The column of a table that holds the messages.
            deliver: Whether to answer with payloads too.
            nodes: Whether to answer with the number of selected nodes too.
            grouped: Whether to answer in groups of keys that share a query: where many do, naming each key for each
                message takes far longer than matching. Not together with ``deliver`` or ``nodes``.
            threads: How many threads share the work; 0 is one.

        Returns:
            A record batch with a row per message:

            - ``keys``: ``list<dictionary<int32, string>>``, null where the message was rejected;
            - ``groups`` (``grouped``, in place of ``keys``): ``list<dictionary<int32, list<string>>>``, null where the
              message was rejected; the keys of a message are those of all its groups, each once
              (:func:`twigcast.engine.arrow.keys_of_groups` gives them as ``keys`` would);
            - ``matches`` (``grouped``): ``int32``, the number of these keys, null where the message was rejected;
            - ``nodes`` (if asked for): ``list<int32>``, selected nodes per key;
            - ``payloads`` (if asked for): ``list<dictionary<int32, large_binary>>`` per key, null for the message
              itself; subscriptions that get the same payload share it;
            - ``error``: ``struct<code: string, reason: string, line: int32, column: int32>``, null where all is well;
            - ``undecided``: ``list<struct<key: string, reason: string>>``, subscriptions that failed on the message,
              null (nearly always) where none did.

            A message that is null is rejected.

        Raises:
            MissingExtra: pyarrow is not installed.
            TypeError: The messages are not strings or binary.
            ValueError: ``threads`` is negative, the column is missing, or ``grouped`` is asked for together with
                payloads or nodes.
        """
        # pyarrow is optional, and takes longer to import than all the rest.
        from twigcast.engine.arrow import match_batch

        return match_batch(
            self._session, messages, column=column, deliver=deliver, nodes=nodes, grouped=grouped, threads=threads
        )

    # Snapshots --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the set to a snapshot file, at once or not at all.

        Raises:
            SnapshotError: The file cannot be written.
        """
        self._session.engine.save(os.fspath(path))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect = "xpath",
        limits: Limits | None = None,
    ) -> SubscriptionSet:
        """Reads a set from a snapshot file. The settings are for subscriptions that are added later.

        Raises:
            SnapshotError: The file cannot be read, is damaged, or is of a version that this one cannot read.
        """
        loaded = cls(namespaces=namespaces, dialect=dialect, limits=limits)
        loaded._session = EngineSession.load(os.fspath(path), loaded.limits)
        return loaded

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_snapshot, (self._snapshot(), self._namespaces, self._dialect, self.limits)

    def _snapshot(self) -> bytes:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="twigcast-") as folder:
            path = Path(folder, "snapshot")
            self.save(path)
            return path.read_bytes()


def _checked(namespaces: Mapping[str, str] | None) -> dict[str, str]:
    """Returns namespaces that are strings by strings."""
    if namespaces is None:
        return {}
    if not isinstance(namespaces, Mapping):
        raise TypeError(f"namespaces must be a mapping of str to str, not {type(namespaces).__name__}")
    for prefix, uri in namespaces.items():
        require_str(prefix, "a prefix in namespaces")
        require_str(uri, "a namespace in namespaces")
    return dict(namespaces)


def _from_snapshot(data: bytes, namespaces: dict[str, str], dialect: Dialect, limits: Limits) -> SubscriptionSet:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="twigcast-") as folder:
        path = Path(folder, "snapshot")
        try:
            path.write_bytes(data)
        except OSError as error:
            raise SnapshotError(str(path), f"it cannot be written: {error.strerror}") from error
        return SubscriptionSet.load(path, namespaces=namespaces, dialect=dialect, limits=limits)
