"""The public face of the engine: a set of subscriptions that messages are matched against.

A :class:`SubscriptionSet` keeps its settings and an engine session, and nothing else. Parts that only some programs
use, such as explanations, are imported by the methods that need them, so that importing the package is quick.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from twigcast._core import ThrottledSubscription
from twigcast.answers import Deliveries, Match, Node
from twigcast.arrow_types import ArrowArray, ArrowTable, MatchBatch
from twigcast.engine.session import EngineSession
from twigcast.envelope import Envelope
from twigcast.errors import QueryWarning, SnapshotError, UnknownKey
from twigcast.limits import Limits
from twigcast.notebook import ROWS_MAX, html_code, html_table
from twigcast.progress import track
from twigcast.reading.document_types import EntitySet
from twigcast.reading.options import ReadOptions
from twigcast.reading.repair_counts import RepairCounts
from twigcast.reading.streams import ByteStream
from twigcast.reading.text import MessageLike, as_bytes
from twigcast.registration import (
    ENGINE_DIALECTS,
    AddReport,
    Dialect,
    Numbers,
    Params,
    RefusedSubscription,
    Subscription,
    Subscriptions,
    SubscriptionWarning,
    require_str,
)
from twigcast.subscription_items import (
    SubscriptionReader,
    checked_namespaces,
    checked_params,
    dialect_with_numbers,
)

if TYPE_CHECKING:
    from datetime import datetime

    from twigcast.engine.records import RecordMatches
    from twigcast.engine.statistics import EngineStatistics
    from twigcast.explanation.explainer import Explanation, NearMisses
    from twigcast.query_check import QueryReport


_WARNINGS_MAX: Final = 10
"""Warnings that a constructor gives one by one: where thousands of queries look wrong, nobody would read all."""


class SubscriptionSet:
    """A set of subscriptions that messages are matched against, all at once.

    Args:
        subscriptions: The first subscriptions, as for :meth:`add_many`; all must be accepted.
        namespaces: Prefix to namespace, for all queries; the empty prefix gives the default namespace of element names.
        dialect: How queries are read.
        numbers: ``"xs:double"`` for the dialect ``doubles``: texts that are compared with numbers may have exponents.
        limits: What keeps hostile messages and queries from exhausting the machine.
        entities: ``"html"`` to read the entities of HTML and ISO, such as ``&nbsp;``, in every message.
        dtd: The file of a DTD whose entities and attributes every message has.
        tolerant: Whether to repair what is seen often in messages: a blank line before the XML declaration, entities of
            HTML, stray control characters, and bytes of Windows-1252. :attr:`repairs` counts the repairs.

    Raises:
        QueryError: A query is refused.
        InvalidContext: The namespaces cannot be used, or there is no such dialect.
        MissingExtra: The dialect is ``xquery``, and Saxon is not installed.
        ReadOptionError: There are no such entities.
        SourceError: The file of the DTD cannot be read.

    Warns:
        QueryWarning: A query can never match, always matches, or otherwise looks wrong.

    A set can be used from several threads, pickled, and used by a forked process. Questions are answered by the set as
    it was when they were asked; changes wait for other changes only.
    """

    def __init__(
        self,
        subscriptions: Subscriptions = (),
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect = "xpath",
        numbers: Numbers | None = None,
        limits: Limits | None = None,
        entities: EntitySet | None = None,
        dtd: str | os.PathLike[str] | None = None,
        tolerant: bool = False,
    ) -> None:
        if limits is not None and not isinstance(limits, Limits):
            raise TypeError(f"limits must be Limits, not {type(limits).__name__}")
        dialect = dialect_with_numbers(dialect, numbers)
        if dialect == "xquery":
            from twigcast.xquery.saxon import require

            require()
        self._namespaces = checked_namespaces(namespaces)
        self._dialect = dialect
        reading = _reading(entities, dtd, tolerant=tolerant)
        self._session = EngineSession.empty(limits or Limits(), reading=reading)
        report = self.add_many(subscriptions)
        report.raise_if_refused()
        for shown in report.warnings[:_WARNINGS_MAX]:
            warnings.warn(f"{shown.key}: {shown.text}", QueryWarning, stacklevel=2)
        if more := len(report.warnings[_WARNINGS_MAX:]):
            others = f"{more:,} more subscriptions look wrong; the report of add_many() has the warnings of all"
            warnings.warn(others, QueryWarning, stacklevel=2)

    # The population ---------------------------------------------------------------------------------------------------

    def add(
        self,
        key: str,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        group: str = "",
        params: Params | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        """Adds a subscription. It takes part from the next message on.

        Args:
            key: The subscriber's own identifier.
            query: XPath, or For-Where-Return.
            namespaces: Prefix to namespace for this query, on top of those of the set.
            group: Whom it belongs to: see :attr:`Subscription.group`.
            params: The values of ``$name`` in the query, by name: see :attr:`Subscription.params`.
            numbers: ``"xs:double"`` to read its query in the dialect ``doubles``.

        Raises:
            DuplicateKey: The key is taken.
            InvalidKey: The key is no text that UTF-8 can hold.
            QueryError: The query is refused.
            InvalidContext: The namespaces or the parameters cannot be used.

        Warns:
            QueryWarning: The query can never match, always matches, or otherwise looks wrong.
        """
        dialect = dialect_with_numbers(self._dialect, numbers)
        self._add(Subscription(key, query, namespaces or {}, dialect, group, params or {}), replace=False)

    def replace(
        self,
        key: str,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        group: str = "",
        params: Params | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        """Gives a subscription another query, or adds it where there is none. Arguments are as for :meth:`add`.

        Raises:
            QueryError: The query is refused. The subscription keeps the query that it had.

        Warns:
            QueryWarning: As for :meth:`add`.
        """
        dialect = dialect_with_numbers(self._dialect, numbers)
        self._add(Subscription(key, query, namespaces or {}, dialect, group, params or {}), replace=True)

    def _add(self, new: Subscription, *, replace: bool) -> None:
        require_str(new.group, "group")
        own = checked_namespaces(new.namespaces)
        warning = self._session.add(
            new.key,
            new.query,
            {**self._namespaces, **own} if own else self._namespaces,
            new.dialect or self._dialect,
            replace=replace,
            group=new.group,
            params=checked_params(new.params),
        )
        if warning is not None:
            warnings.warn(f"{new.key}: {warning}", QueryWarning, stacklevel=3)

    def add_many(self, subscriptions: Subscriptions, *, replace: bool = False, progress: bool = False) -> AddReport:
        """Adds many subscriptions, much faster than one by one, and reports which were refused and which look wrong.

        A fault of one subscription, even a key that is not a string, refuses only that one; all others are added.

        Args:
            subscriptions: Queries by key (``{"desk": "/a"}``), or records by key; or :class:`Subscription` objects,
                tuples of key, query and (if need be) namespaces, dialect, group and params, or records, which are
                mappings with ``key``, ``query`` and perhaps ``namespaces``, ``dialect``, ``group``, ``params`` and
                ``numbers``; or a table with columns of these names, of pandas or of any library that has
                ``__arrow_c_stream__`` or ``__arrow_c_array__``.
            replace: Whether a subscription whose key is taken takes the place of the old one.
            progress: Whether to show how many were added, in a notebook or on a terminal.

        Raises:
            TypeError: They are in none of these forms, or an item is no subscription at all. Those before it may have
                been added.
            ValueError: A table has no column ``key`` or ``query``.
            MissingExtra: They are in an Arrow table, and pyarrow is not installed.
        """
        reader = SubscriptionReader(subscriptions)
        total = len(subscriptions) if isinstance(subscriptions, Sized) else None
        items = track(reader, "subscriptions", total=total) if progress else reader
        report = self._session.add_many(items, self._namespaces, self._dialect, replace=replace)
        if not reader.refused and not reader.warnings:
            return report
        refused = [RefusedSubscription(r.subscription, r.error, reader.index(r.index)) for r in report.refused]
        found = [SubscriptionWarning(w.key, reader.index(w.index), w.text) for w in report.warnings]
        return AddReport(
            report.added,
            sorted([*reader.refused, *refused], key=lambda one: one.index),
            sorted([*reader.warnings, *found], key=lambda one: one.index),
        )

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
        return Subscription(
            key, stored.query, stored.namespaces, ENGINE_DIALECTS[stored.dialect], stored.group, stored.params
        )

    def _has(self, key: str) -> bool:
        """Returns whether there is a subscription with a key that must be a string."""
        require_str(key, "key")
        return key in self._session.engine

    def __repr__(self) -> str:
        return f"<SubscriptionSet of {len(self):,}>"

    def _repr_html_(self) -> str:
        shown = [self._session.engine.query(key) and self[key] for key in self.keys()[:ROWS_MAX]]
        rows = [(one.key, html_code(one.query)) for one in shown if one is not None]
        caption = f"{len(self):,} subscription{'' if len(self) == 1 else 's'}"
        return html_table(caption, ["key", "query"], rows, len(self))

    @property
    def version(self) -> int:
        """A number that grows with each change of the population."""
        return self._session.engine.version

    @property
    def limits(self) -> Limits:
        """The limits of this set."""
        return self._session.limits

    @property
    def repairs(self) -> dict[str, int]:
        """The number of repairs that ``tolerant`` has made, by kind. Each call with a message makes them."""
        return dict(self._session.repairs.by_kind)

    def describe(self, key: str) -> QueryReport:
        """Returns how a subscription runs among the others, and what looks wrong with its query.

        Raises:
            UnknownKey: There is no such subscription.
        """
        from twigcast.query_check import QueryReport

        if not self._has(key):
            raise UnknownKey(key)
        report = QueryReport.of(self._session.engine.describe(key))
        for throttled in self.throttled():
            if throttled.key == key:
                aside = f"it is set aside for {throttled.messages} messages, since it was too expensive on "
                aside += f"{throttled.overruns}; a condition on a value beside the expensive one would help"
                return replace(report, warnings=(*report.warnings, aside))
        return report

    def throttled(self) -> list[ThrottledSubscription]:
        """Returns the subscriptions that are set aside on the next message, since they overran on several.

        Each has a ``key``, the number of ``overruns``, and in ``messages`` for how many messages more it is set aside.
        Until then it is undecided on each message on which it would have to be evaluated. A cheaper query takes part at
        once when it replaces the other.
        """
        return self._session.engine.throttled()

    def statistics(self) -> EngineStatistics:
        """Returns counts and sizes of the structures that the subscriptions share."""
        from twigcast.engine.statistics import EngineStatistics

        counts = self._session.engine.statistics()
        return EngineStatistics(**{field.name: counts[field.name] for field in fields(EngineStatistics)})

    # Messages ---------------------------------------------------------------------------------------------------------

    def match(self, message: MessageLike, *, published: datetime | None = None) -> Match:
        """Returns the subscriptions that a message matches.

        Args:
            message: ``bytes``, a buffer of them, or a value of an Arrow array; text, whose encoding declaration no
                longer counts; the path of a file, as ``pathlib.Path``; an open file, of which the rest is read (both
                may be compressed with gzip, bzip2, xz or zstd); or an element or a tree of lxml or of ``xml.etree``,
                without what follows its end tag.
            published: When the message was published, which is ``$now`` to queries; without it, the present.

        Raises:
            MalformedMessage: It is not well-formed XML. If a text looks like the path of a file, the error says so.
            SourceError: The file cannot be read.
            MessageLimitExceeded: It is over a limit.
        """
        return self._session.match(message, published)

    async def amatch(self, message: MessageLike, *, published: datetime | None = None) -> Match:
        """Returns what :meth:`match` does, from a thread of the event loop's executor: the loop goes on meanwhile.

        Going to a thread and back takes longer than matching a message of a few kilobytes does. Where messages are
        small, call :meth:`match` itself; where they are many, give a list of them to :meth:`match_batch` in a thread.

        Raises:
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
        """
        import asyncio  # where there is an event loop, it has been imported already

        return await asyncio.to_thread(self.match, message, published=published)

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

    def explain(self, message: MessageLike, key: str, *, published: datetime | None = None) -> Explanation:
        """Returns why a message matches a subscription, or the first step that fails and what comes nearest.

        Args:
            message: The message.
            key: The subscription.
            published: When the message was published, as for :meth:`match`.

        Raises:
            UnknownKey: There is no such subscription.
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
            UndecidedSubscription: The query could not be decided on the message within the limits.
        """
        from twigcast.explanation.explainer import explain_with

        subscription = self[key]
        alone = EngineSession.empty(self.limits, reading=self._session.reading, is_quiet=True)
        dialect = subscription.dialect or self._dialect
        return explain_with(alone, replace(subscription, dialect=dialect), message, self.describe(key), published)

    def nearest(self, message: MessageLike, count: int = 10, *, progress: bool = False) -> NearMisses:
        """Returns the subscriptions that a message does not match but comes nearest to, with explanations.

        All queries share one reading of the message. Those of them that only Saxon understands are left out.

        Args:
            message: The message.
            count: How many to explain.
            progress: Whether to show how far it is, in a notebook or on a terminal.

        Raises:
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
        """
        from twigcast.explanation.explainer import nearest

        xml = self._session.prepared(as_bytes(message, self.limits.message_bytes_max))
        matching = set(self.match(xml).keys)
        others = [key for key in self.keys() if key not in matching]
        keys = track(others, "subscriptions", total=len(others)) if progress else others
        return nearest(self._session, xml, partial(self.explain, xml), keys, count)

    def deliver(
        self,
        message: MessageLike,
        *,
        envelope: Envelope | None = None,
        message_id: str = "",
        whole: bool = False,
        published: datetime | None = None,
    ) -> Deliveries:
        """Returns what each matching subscriber gets: the result of a For-Where-Return query, else the message itself.

        Results are written when they are first looked at, or all at once by :meth:`Deliveries.arrow`.

        Args:
            message: The message.
            envelope: An element to put around each result.
            message_id: What the envelope calls the message.
            whole: Whether messages that are delivered as they are get an envelope too.
            published: When the message was published, as for :meth:`match`.

        Raises:
            MalformedMessage: The message is not well-formed XML.
            MessageLimitExceeded: It is over a limit.
        """
        if envelope is not None and not isinstance(envelope, Envelope):
            raise TypeError(f"envelope must be Envelope, such as Envelope('delivery'), not {type(envelope).__name__}")
        require_str(message_id, "message_id")
        return self._session.deliver(message, envelope, message_id, whole=whole, published=published)

    def match_records(
        self,
        document: os.PathLike[str] | ByteStream | bytes | bytearray | memoryview | str,
        options: str | ReadOptions,
        *,
        repairs: RepairCounts | None = None,
    ) -> RecordMatches:
        """Matches the records of one large document while it is read, so that memory is bounded by one record.

        Cutting and matching are one pass, faster than matching the document as a whole. Iterating yields a
        :class:`~twigcast.engine.records.RecordMatch` for each record that matches or cannot be used, in order;
        ``count`` is the number of records that have been read.

        Args:
            document: The path of a file, as ``pathlib.Path``, or an open file in binary, both perhaps compressed; or
                the bytes or the text of the document.
            options: The elements that are records, such as ``item`` or ``/feed/entry``, or all options: see
                :class:`~twigcast.reading.options.ReadOptions`. Where these are, what the set knows of entities does
                not count.
            repairs: Counts the repairs; if ``None``, :attr:`repairs` does.

        Raises:
            ReadOptionError: The records cannot be read.
            SourceError: The file cannot be read.
            TypeError: The document is in none of these forms.
        """
        from twigcast.engine.records import RecordMatches, as_document

        if isinstance(options, str):
            options = replace(self._session.reading, record=options)
        elif not isinstance(options, ReadOptions):
            raise TypeError(f"options must be str or ReadOptions, not {type(options).__name__}")
        counts = self._session.repairs if repairs is None else repairs
        return RecordMatches(self._session, as_document(document), options, counts)

    def match_batch(
        self,
        messages: Iterable[MessageLike | None] | ArrowTable | ArrowArray,
        *,
        column: str = "xml",
        deliver: bool = False,
        nodes: bool = False,
        grouped: bool = False,
        threads: int = 1,
        published: datetime | Sequence[datetime] | ArrowArray | None = None,
    ) -> MatchBatch:
        """Matches many messages at once, from and to Arrow.

        Args:
            messages: Messages as strings or binary: an array, a stream of arrays, or a table, of pyarrow or of any
                library that has ``__arrow_c_array__`` or ``__arrow_c_stream__`` (polars, DuckDB); a frame of pandas; or
                an iterable (a list, an array of numpy, a column of pandas) of messages as for :meth:`match`. ``None``,
                NaN and null are no message.
            column: The column of a table that holds the messages.
            deliver: Whether to answer with payloads too.
            nodes: Whether to answer with the number of selected nodes too.
            grouped: Whether to answer in groups of keys that share a query: where many do, naming each key for each
                message takes far longer than matching. Not together with ``deliver`` or ``nodes``.
            threads: How many threads share the work; 0 is one.
            published: When the messages were published, which is ``$now`` to queries: a time for all, or a list or an
                Arrow array with one for each; without it, the present.

        Returns:
            A record batch with a row per message:

            - ``keys``: ``list<dictionary<int32, string>>``, null where the message was rejected;
            - ``groups`` (``grouped``, in place of ``keys``): ``list<dictionary<int32, list<string>>>``, null where the
              message was rejected; the keys of a message are those of all its groups, each once
              (:func:`twigcast.engine.arrow.keys_of_groups` gives them as ``keys`` would);
            - ``matches`` (``grouped``): ``int32``, the number of these keys, null where the message was rejected;
            - ``nodes`` (if requested): ``list<int32>``, selected nodes per key;
            - ``payloads`` (if requested): ``list<dictionary<int32, large_binary>>`` per key, null for the message
              itself; subscriptions that get the same payload share it;
            - ``error``: ``struct<code: string, reason: string, line: int32, column: int32>``, null where all is well;
            - ``undecided``: ``list<struct<key: string, reason: string>>``, subscriptions that failed on the message,
              null (nearly always) where none did.

            A message that is null is rejected.

        Raises:
            MissingExtra: pyarrow is not installed.
            TypeError: The messages are not strings or binary, or an item is no message.
            ValueError: ``threads`` is negative, the column is missing, or ``grouped`` is requested together with
                payloads or nodes.
        """
        # pyarrow is optional, and takes longer to import than all the rest.
        from twigcast.engine.arrow import match_batch

        answer: MatchBatch = match_batch(
            self._session,
            messages,
            column=column,
            deliver=deliver,
            nodes=nodes,
            grouped=grouped,
            threads=threads,
            published=published,
        )
        return answer

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
        entities: EntitySet | None = None,
        dtd: str | os.PathLike[str] | None = None,
        tolerant: bool = False,
    ) -> SubscriptionSet:
        """Reads a set from a snapshot file. Namespaces and dialect are for subscriptions that are added later.

        Raises:
            SnapshotError: The file cannot be read, is damaged, or is of a version that this one cannot read.
        """
        loaded = cls(
            namespaces=namespaces, dialect=dialect, limits=limits, entities=entities, dtd=dtd, tolerant=tolerant
        )
        loaded._session = EngineSession.load(os.fspath(path), loaded.limits, reading=loaded._session.reading)
        return loaded

    def __reduce__(self) -> tuple[Any, ...]:
        reading = self._session.reading
        settings = {
            "namespaces": self._namespaces,
            "dialect": self._dialect,
            "limits": self.limits,
            "entities": reading.entities,
            "dtd": reading.dtd,
            "tolerant": reading.tolerant,
        }
        return _from_snapshot, (self._snapshot(), settings)

    def _snapshot(self) -> bytes:
        import tempfile
        from pathlib import Path

        with tempfile.TemporaryDirectory(prefix="twigcast-") as folder:
            path = Path(folder, "snapshot")
            self.save(path)
            return path.read_bytes()


def _reading(entities: EntitySet | None, dtd: str | os.PathLike[str] | None, *, tolerant: bool) -> ReadOptions:
    """Returns the options with which a set reads messages; raises at once if the DTD is wrong."""
    path = None if dtd is None else os.path.abspath(os.fspath(dtd))  # noqa: PTH100 - as the user wrote it, but absolute
    reading = ReadOptions(entities=entities, dtd=path, tolerant=tolerant)
    if path is not None:
        reading.types.declarations()
    return reading


def _from_snapshot(data: bytes, settings: dict[str, Any]) -> SubscriptionSet:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="twigcast-") as folder:
        path = Path(folder, "snapshot")
        try:
            path.write_bytes(data)
        except OSError as error:
            raise SnapshotError(str(path), f"it cannot be written: {error.strerror}") from error
        return SubscriptionSet.load(path, **settings)
