"""The public face of the engine: a set of subscriptions that messages are matched against.

A :class:`SubscriptionSet` keeps no state of its own but settings and a table of keys by slot. A *slot* is the small
number that the engine knows a subscription by; numbers are used again after a removal, so an answer in slots is only
good together with the table of the same engine version. Threads may match, add and remove at the same time: an answer
about matches holds on to the keys as they were; of answers in slots the version is asked for before and after, and in
the rare case that it changed the question is asked again, at last with changes held off.
"""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from twigcast import _core
from twigcast.answers import Deliveries, DeliveryEnvelope, Match, Matching, Named, Node, Told
from twigcast.engine.key_tables import KeyTableCache, ToldByEngine
from twigcast.envelope import Envelope
from twigcast.errors import (
    NeedsConversion,
    QueryWarning,
    SnapshotError,
    TwigcastError,
    UndecidedSubscription,
    UnknownKey,
)
from twigcast.limits import Limits
from twigcast.reading.conversion import to_utf8
from twigcast.reading.text import MessageLike, as_bytes
from twigcast.registration import (
    DIALECTS,
    Dialect,
    Given,
    RefusedSubscription,
    Subscription,
    as_subscription,
    is_text,
    no_text,
    runs,
)
from twigcast.single_answers import ask_single
from twigcast.xquery.adding import add as add_query
from twigcast.xquery.adding import add_many as add_queries
from twigcast.xquery.adding import add_pairs
from twigcast.xquery.saxon import require as require_saxon

if TYPE_CHECKING:
    import pyarrow as pa

    from twigcast.explanation import Explanation

_BULK: Final = 2_000
"""Queries handed to the engine at a time by ``add_many``: few, so that lists of them leave no holes in the memory."""

T = TypeVar("T")


class SubscriptionSet:
    """A set of subscriptions that messages are matched against, all at once.

    Args:
        subscriptions: The first subscriptions, as for :meth:`add_many`; all must be accepted.
        namespaces: Prefix to namespace, for all queries; the empty prefix gives the default namespace of element names.
        dialect: How queries are read.
        limits: What keeps hostile messages and queries from exhausting the machine.

    Raises:
        MissingExtra: The dialect is ``xquery``, and Saxon is not installed.

    A set can be used from several threads, and pickled.
    """

    def __init__(
        self,
        subscriptions: Iterable[Given] = (),
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect = "xpath",
        limits: Limits | None = None,
    ) -> None:
        if limits is not None and not isinstance(limits, Limits):
            raise TypeError(f"limits must be Limits, not {type(limits).__name__}")
        if dialect == "xquery":
            require_saxon()
        self._namespaces = dict(namespaces or {})
        self._dialect = dialect
        self._limits = limits or Limits()
        self.engine = _core.Engine(self._limits.as_dict())
        """The compiled engine; internal."""
        self._changing = threading.RLock()
        self.tables = KeyTableCache(self.engine)
        """Keys by slot and by query; internal."""
        for refused in self.add_many(subscriptions):
            raise refused.error

    # The population ---------------------------------------------------------------------------------------------------

    def add(self, key: str, query: str, *, namespaces: Mapping[str, str] | None = None) -> None:
        """Add a subscription. It takes part from the next message on.

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
        self._register(Subscription(key, query, namespaces or {}), replace=False)

    def replace(self, key: str, query: str, *, namespaces: Mapping[str, str] | None = None) -> None:
        """Give a subscription another query, or add it where there is none. Arguments as for :meth:`add`.

        Raises:
            QueryError: The query is refused. The subscription keeps the query that it had.
        """
        self._register(Subscription(key, query, namespaces or {}), replace=True)

    def _register(self, subscription: Subscription, *, replace: bool) -> None:
        namespaces = self._namespaces_of(subscription)
        dialect = subscription.dialect or self._dialect
        try:
            with self._changing:
                doubts = add_query(
                    self.engine, subscription.key, subscription.query, namespaces, dialect, replace=replace
                )
        except UnicodeEncodeError:
            raise no_text(subscription) from None
        for doubt in doubts:
            warnings.warn(f"{subscription.key}: {doubt}", QueryWarning, stacklevel=3)

    def add_many(
        self,
        subscriptions: Iterable[Given],
        *,
        replace: bool = False,
    ) -> list[RefusedSubscription]:
        """Add many subscriptions, much faster than one by one. Returns those that were refused, with their errors.

        Args:
            subscriptions: :class:`Subscription` objects, or tuples of key, query and (if need be) namespaces.
            replace: Whether a subscription whose key is taken takes the place of the old one.
        """
        refused: list[RefusedSubscription] = []
        remaining = iter(subscriptions)
        index = 0
        while supplied := list(islice(remaining, _BULK)):
            for position, error in self._add_given(supplied, replace=replace):
                refused.append(RefusedSubscription(as_subscription(supplied[position]), error, index + position))
            index += len(supplied)
        return refused

    def _add_given(self, supplied: list[Given], *, replace: bool) -> list[tuple[int, TwigcastError]]:
        """The positions and errors of those refused."""
        try:
            with self._changing:
                refused = add_pairs(self.engine, supplied, self._namespaces, self._dialect, replace=replace)
        except UnicodeEncodeError:
            # Nothing was added yet. Which of them it is, the long way tells.
            refused = None
        if refused is not None:
            return refused
        return self._add_group([as_subscription(item) for item in supplied], replace=replace)

    def _add_plain(
        self,
        keys: Sequence[str],
        queries: Sequence[str],
        dialect: Dialect,
        namespaces: Sequence[Mapping[str, str]],
        *,
        replace: bool,
    ) -> list[tuple[int, TwigcastError]]:
        with self._changing:
            return add_queries(self.engine, keys, queries, namespaces, dialect, replace=replace)

    def _add_group(self, group: list[Subscription], *, replace: bool) -> list[tuple[int, TwigcastError]]:
        refused: list[tuple[int, TwigcastError]] = []
        for first, last in runs([s.dialect or self._dialect for s in group]):
            run = list(enumerate(group[first:last], start=first))
            try:
                refused += self._add_run(run, replace=replace)
            except UnicodeEncodeError:
                broken = [(position, no_text(s)) for position, s in run if not is_text(s)]
                good = [(position, s) for position, s in run if is_text(s)]
                refused += sorted(broken + self._add_run(good, replace=replace), key=lambda item: item[0])
        return refused

    def _add_run(self, run: list[tuple[int, Subscription]], *, replace: bool) -> list[tuple[int, TwigcastError]]:
        """Add subscriptions of one dialect, each with its position; the positions and errors of those refused."""
        if not run:
            return []
        subscriptions = [subscription for _, subscription in run]
        shared = not any(s.namespaces for s in subscriptions)
        namespaces = [self._namespaces] if shared else [self._namespaces_of(s) for s in subscriptions]
        keys, queries = [s.key for s in subscriptions], [s.query for s in subscriptions]
        dialect = subscriptions[0].dialect or self._dialect
        errors = self._add_plain(keys, queries, dialect, namespaces, replace=replace)
        return [(run[position][0], error) for position, error in errors]

    def _namespaces_of(self, subscription: Subscription) -> Mapping[str, str]:
        return {**self._namespaces, **subscription.namespaces} if subscription.namespaces else self._namespaces

    def remove(self, key: str) -> None:
        """Remove a subscription. It takes no part from the next message on.

        Raises:
            UnknownKey: There is no such subscription.
        """
        if not self.discard(key):
            raise UnknownKey(key)

    def discard(self, key: str) -> bool:
        """Remove a subscription if it is there; whether it was."""
        with self._changing:
            return key in self.engine and self.engine.remove(key)

    def keys(self) -> list[str]:
        """All keys, in the order in which the engine holds them."""
        return self.engine.keys()

    def __len__(self) -> int:
        return len(self.engine)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self.engine

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, key: str) -> Subscription:
        """The subscription with a key, with all namespaces that its query was read with.

        Raises:
            UnknownKey: There is no such subscription.
        """
        result = self.engine.query(key) if key in self.engine else None
        if result is None:
            raise UnknownKey(key)
        query, namespaces, dialect = result
        return Subscription(key, query, namespaces, DIALECTS[dialect])

    def __repr__(self) -> str:
        return f"<SubscriptionSet of {len(self):,}>"

    @property
    def version(self) -> int:
        """Grows with each change of the population."""
        return self.engine.version

    @property
    def limits(self) -> Limits:
        """The limits of this set."""
        return self._limits

    def describe(self, key: str) -> dict[str, str]:
        """How a subscription runs: ``route``, ``normal_form`` and ``reason``.

        Raises:
            UnknownKey: There is no such subscription.
        """
        if key not in self.engine:
            raise UnknownKey(key)
        return self.engine.describe(key)

    def statistics(self) -> dict[str, int]:
        """Counts and sizes in bytes of the structures that the subscriptions share."""
        return self.engine.statistics()

    # Messages ---------------------------------------------------------------------------------------------------------

    def match(self, message: MessageLike) -> Match:
        """The subscriptions that a message matches.

        Raises:
            MalformedMessage: It is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
        """
        matching: Matching
        if self.engine.has_external:
            xml, single = self._ask(message, partial(ask_single, self.engine, self.tables))
            matching, undecided = Named(single.keys()), single.failures
        else:
            xml, (matching, undecided) = self._ask(message, self.engine.answer)
        return Match(matching, undecided, partial(self.nodes, xml), partial(self.count_nodes, xml))

    def nodes(self, message: MessageLike, key: str) -> list[Node]:
        """The nodes that a subscription's query selects in a message, in document order.

        Positions in a message that is not plain UTF-8 refer to the message as converted to it: see ``Node.message``.

        Raises:
            UnknownKey: There is no such subscription.
            UndecidedSubscription: Evaluating the query took too long.
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
        """
        if key not in self.engine:
            raise UnknownKey(key)
        xml, results = self._ask(message, lambda xml: self.engine.nodes(xml, key))
        return [Node(*position, message=xml) for position in results]

    def explain(self, message: MessageLike, key: str) -> Explanation:
        """Why a message matches a subscription, or the first step that fails and what comes nearest.

        Raises:
            UnknownKey: There is no such subscription.
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
            UndecidedSubscription: The query could not be decided on the message within the limits.
        """
        # Explanations are built on subscription sets.
        from twigcast.explanation import explain

        asked = self[key]
        return explain(
            asked.query,
            message,
            namespaces=asked.namespaces,
            dialect=asked.dialect or self._dialect,
            limits=self._limits,
        )

    def count_nodes(self, message: MessageLike) -> dict[str, int]:
        """How many nodes each matching subscription selects in a message, by key.

        Raises:
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
        """
        _, single = self._ask(message, partial(ask_single, self.engine, self.tables, nodes=True))
        return dict(zip(single.keys(), single.node_counts, strict=True))

    def deliver(
        self, message: MessageLike, *, envelope: Envelope | None = None, message_id: str = "", whole: bool = False
    ) -> Deliveries:
        """What each matching subscriber gets: the result of a For-Where-Return query, else the message itself.

        Results are made when they are looked at, one by one; or all at once: see :meth:`Deliveries.joined_payloads`.

        Args:
            message: The message.
            envelope: An element to put around each result.
            message_id: What the envelope calls the message.
            whole: Whether messages that are delivered as they are get an envelope too.

        Raises:
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
            TypeError: The envelope is none.
        """
        source = as_bytes(message)
        if envelope is not None and not isinstance(envelope, Envelope):
            raise TypeError(f"an envelope is an Envelope, such as Envelope('delivery'), and not {envelope!r}")
        if envelope is None or envelope.query is None:
            wrapping = None if envelope is None else DeliveryEnvelope(envelope, message_id, whole)
            return Deliveries(source, *self._delivered(source), wrapping)
        # No other thread changes the set meanwhile, so these are the queries that matched.
        with self._changing:
            count, reported, payloads, undecided = self._delivered(source)
            keys = reported.keys()
            queries = {key: self[key].query for key in keys}
        return Deliveries(
            source, count, reported, payloads, undecided, DeliveryEnvelope(envelope, message_id, whole, queries)
        )

    def _delivered(
        self, source: bytes
    ) -> tuple[int, Told, Sequence[bytes] | _core.Results, list[UndecidedSubscription]]:
        """How many deliveries, who gets which, the results, and subscriptions without."""
        payloads: Sequence[bytes] | _core.Results
        reported: Told
        if self.engine.has_external:
            _, single = self._ask(source, partial(ask_single, self.engine, self.tables, deliver=True))
            count, reported, payloads, failed = len(single.slots), single, single.payloads, single.failures
        else:
            table = self.tables.now()
            _, (results, failed) = self._ask(source, self.engine.results)
            count, reported, payloads = results.delivery_count, ToldByEngine(self.tables, table, results), results
        return count, reported, payloads, [UndecidedSubscription(key, reason) for key, reason in failed]

    def match_batch(
        self,
        messages: pa.Array | pa.ChunkedArray | pa.RecordBatch,
        *,
        deliver: bool = False,
        nodes: bool = False,
        grouped: bool = False,
        threads: int = 1,
    ) -> pa.RecordBatch:
        """Match many messages at once, from and to Arrow.

        Args:
            messages: Messages as strings or binary, large or not; of a record batch, its column ``xml``.
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
            - ``matches`` (``grouped``): ``int32``, how many keys that are, null where the message was rejected;
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
            ValueError: ``threads`` is negative, or ``grouped`` is asked for together with payloads or nodes.
        """
        # pyarrow is optional, and takes longer to import than all the rest.
        from twigcast.engine.arrow import match_batch

        return match_batch(self, messages, deliver=deliver, nodes=nodes, grouped=grouped, threads=threads)

    def _ask(self, message: MessageLike, question: Callable[[bytes], T]) -> tuple[bytes, T]:
        """A question about one message: the message in UTF-8, and the answer."""
        xml = as_bytes(message)
        try:
            return xml, question(xml)
        except NeedsConversion:
            xml = to_utf8(xml, self._limits.message_bytes_max)
            return xml, question(xml)

    # Snapshots --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the set to a snapshot file, at once or not at all.

        Raises:
            SnapshotError: The file cannot be written.
        """
        self.engine.save(os.fspath(path))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect = "xpath",
        limits: Limits | None = None,
    ) -> SubscriptionSet:
        """Read a set from a snapshot file. The settings are for subscriptions that are added later.

        Raises:
            SnapshotError: The file cannot be read, is damaged, or is of a version that this one cannot read.
        """
        loaded = cls(namespaces=namespaces, dialect=dialect, limits=limits)
        loaded.engine = _core.Engine.load(os.fspath(path), loaded._limits.as_dict())
        loaded.tables = KeyTableCache(loaded.engine)
        return loaded

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_snapshot, (self._snapshot(), self._namespaces, self._dialect, self._limits)

    def _snapshot(self) -> bytes:
        with tempfile.TemporaryDirectory(prefix="twigcast-") as folder:
            path = Path(folder, "snapshot")
            self.save(path)
            return path.read_bytes()


def _from_snapshot(data: bytes, namespaces: dict[str, str], dialect: Dialect, limits: Limits) -> SubscriptionSet:
    with tempfile.TemporaryDirectory(prefix="twigcast-") as folder:
        path = Path(folder, "snapshot")
        try:
            path.write_bytes(data)
        except OSError as error:
            raise SnapshotError(str(path), f"it cannot be written: {error.strerror}") from error
        return SubscriptionSet.load(path, namespaces=namespaces, dialect=dialect, limits=limits)
