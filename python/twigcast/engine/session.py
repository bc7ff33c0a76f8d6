"""The one path to the compiled engine: it converts messages, calls the engine and Saxon, and merges their answers.

Single messages, batches, the tasks of Spark and the broker each hold an :class:`EngineSession`. Threads may match, add
and remove at the same time. An answer is that of one moment: it keeps the keys of that moment.
"""

from __future__ import annotations

import threading
import warnings
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self, TypeVar

from twigcast._core import Answer, BatchResult, Engine, QueryCheck, Results
from twigcast.answers import Deliveries, DeliveryEnvelope, FrozenAnswer, ListedResults, Match, Node
from twigcast.engine.external import QueryEvaluator, check_query, native_or_external, replies, shared_saxon
from twigcast.envelope import Envelope
from twigcast.errors import (
    NeedsConversion,
    QueryError,
    QueryLimitExceeded,
    QueryWarning,
    RejectedMessage,
    SubscriptionChanged,
    TwigcastError,
    UndecidedSubscription,
)
from twigcast.forking import renew_in_children
from twigcast.limits import Limits
from twigcast.message_nodes import MessageNodes
from twigcast.publication import microseconds
from twigcast.reading.conversion import both_forms, to_utf8
from twigcast.reading.options import ReadOptions
from twigcast.reading.preparation import prepared_forms
from twigcast.reading.repair_counts import RepairCounts
from twigcast.reading.text import MessageLike, as_bytes
from twigcast.registration import (
    ENGINE_DIALECTS,
    NO_PARAMS,
    AddReport,
    Dialect,
    EngineDialect,
    Params,
    RefusedSubscription,
    Subscription,
    SubscriptionWarning,
    as_subscription,
    text_error,
)

if TYPE_CHECKING:
    from datetime import datetime

    from twigcast.xquery.saxon import Saxon

_ADDED_AT_ONCE: Final = 2_000
"""Subscriptions handed to the engine in one call: few, so that lists of them leave no holes in memory."""

_CONVERTED_BYTES: Final = 4 << 20
"""Bytes of converted messages that are matched together, unless a single one is larger."""

_NONE: Final[frozenset[str]] = frozenset()
_AS_THEY_ARE: Final = ReadOptions()

T = TypeVar("T")


class MessageBuffers(NamedTuple):
    """Messages one after the other, as the engine takes them."""

    offsets: bytes
    """64-bit integers, one more than there are messages; ``data`` begins where the first one points."""

    data: bytes | memoryview
    message_count: int

    @classmethod
    def of(cls, messages: Sequence[bytes]) -> Self:
        """Lays messages out."""
        offsets = array("q", accumulate(map(len, messages), initial=0))
        return cls(offsets.tobytes(), b"".join(messages), len(messages))

    def message(self, row: int) -> bytes:
        """Returns one message."""
        offsets = memoryview(self.offsets).cast("q")
        return bytes(self.data[offsets[row] - offsets[0] : offsets[row + 1] - offsets[0]])


class BatchPart(NamedTuple):
    """The engine's answer to some messages of a batch."""

    rows: Sequence[int]
    """The rows of the batch that the rows of ``result`` stand for."""

    result: BatchResult

    errors: Sequence[tuple[int, TwigcastError]]
    """The messages that were rejected, by row of ``result``."""

    converted_elsewhere: Collection[int] = ()
    """Rows of ``result`` that say nothing, since another part has the answer to the converted message."""


@dataclass(frozen=True, slots=True)
class FrozenQueries:
    """The queries that one message matched, and the message: they answer about its nodes, without the set."""

    message: bytes
    """In UTF-8."""

    queries: Mapping[str, Subscription | None]
    """The matching subscriptions by key, in order; ``None`` for those that were replaced or removed before the copy."""

    limits: Limits

    published: int
    """In microseconds since 1970."""

    def nodes(self, key: str) -> list[Node]:
        """Returns the nodes that a subscription's query selects: see :meth:`twigcast.Match.nodes`."""
        if key not in self.queries:
            return []  # whether there was such a subscription that did not match is not known any more
        subscription = self.queries[key]
        if subscription is None:
            raise SubscriptionChanged(key)
        return self._session([subscription]).nodes(self.message, key, published=self.published)

    def node_counts(self) -> dict[str, int]:
        """Returns how many nodes each subscription selects, by key, without those that changed before the copy."""
        session = self._session([subscription for subscription in self.queries.values() if subscription is not None])
        counts = session.node_counts(self.message, self.published)
        return {key: counts[key] for key in self.queries if key in counts}

    def _session(self, subscriptions: Iterable[Subscription]) -> EngineSession:
        session = EngineSession.empty(self.limits, is_quiet=True)
        for one in subscriptions:
            dialect = one.dialect or "xpath"
            session.add(one.key, one.query, one.namespaces, dialect, is_checked=True, params=one.params)
        return session


class EngineSession:
    """An engine, and how its caller uses it.

    Args:
        engine: The compiled engine.
        limits: Its limits.
        saxon: Returns the process that checks queries in XQuery.
        evaluator: Evaluates external queries; if ``None``, ``saxon`` does.
        reading: Whether messages are repaired, and what is known of their document types.
        is_quiet: Whether nobody is warned of what comparisons meet in messages, of which no text may be shown.
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        *,
        saxon: Callable[[], Saxon] = shared_saxon,
        evaluator: QueryEvaluator | None = None,
        reading: ReadOptions = _AS_THEY_ARE,
        is_quiet: bool = False,
    ) -> None:
        self.engine = engine
        """The compiled engine, for what needs neither conversion nor Saxon."""
        self.limits = limits
        self.reading = reading
        self.repairs = RepairCounts()
        """The counts of repairs so far."""
        self._prepares = reading.changes_messages
        self.changing = threading.RLock()
        """Held while the population changes."""
        self._counting = threading.Lock()
        self._saxon = saxon
        self._evaluator = evaluator
        self._is_quiet = is_quiet
        self._unread_count = 0
        self._unread_paths: set[str] = set()
        renew_in_children(self)

    def renew_locks(self) -> None:
        """Lets a forked process change the population, which another thread may have been changing when it began."""
        self.changing = threading.RLock()
        self._counting = threading.Lock()

    @classmethod
    def empty(
        cls,
        limits: Limits,
        evaluator: QueryEvaluator | None = None,
        *,
        reading: ReadOptions = _AS_THEY_ARE,
        is_quiet: bool = False,
    ) -> Self:
        """Returns a session of an engine without subscriptions."""
        return cls(Engine(limits.as_dict()), limits, evaluator=evaluator, reading=reading, is_quiet=is_quiet)

    @classmethod
    def load(cls, path: str, limits: Limits, *, reading: ReadOptions = _AS_THEY_ARE) -> Self:
        """Returns a session of the engine in a snapshot file.

        Raises:
            SnapshotError: The file cannot be read, is damaged, or is of a version that this one cannot read.
        """
        return cls(Engine.load(path, limits.as_dict()), limits, reading=reading)

    # The population ---------------------------------------------------------------------------------------------------

    def add(
        self,
        key: str,
        query: str,
        namespaces: Mapping[str, str],
        dialect: Dialect,
        *,
        replace: bool = False,
        is_checked: bool = False,
        group: str = "",
        params: Params = NO_PARAMS,
    ) -> str | None:
        """Adds a subscription and returns a warning, if there is one.

        Arguments and errors are those of `SubscriptionSet.add`. `is_checked` says whether Saxon has accepted the query,
        if it is one for Saxon; `group` to whom it belongs.
        """
        saxon = self._saxon() if dialect == "xquery" and not is_checked else None

        def attempt(as_: EngineDialect) -> str | None:
            return self.engine.add(key, query, dict(namespaces), as_, replace, group, params)

        def accept() -> None:
            if saxon is not None:
                saxon.check(query, namespaces, params)

        try:
            with self.changing:
                return native_or_external(attempt, dialect, accept)
        except UnicodeEncodeError:
            raise text_error(Subscription(key, query, namespaces)) from None

    def add_many(
        self, subscriptions: Iterable[object], namespaces: Mapping[str, str], dialect: Dialect, *, replace: bool = False
    ) -> AddReport:
        """Adds many subscriptions, or tuples of key, query and perhaps namespaces, as `SubscriptionSet.add_many` does.

        A subscription's own namespaces and dialect come before those for all.
        """
        namespaces = dict(namespaces)
        refused: list[RefusedSubscription] = []
        looking_wrong: list[SubscriptionWarning] = []
        remaining = iter(subscriptions)
        first = 0
        while items := list(islice(remaining, _ADDED_AT_ONCE)):
            with self.changing:
                outcome = self.engine.add_many(items, namespaces, dialect, replace)
                found = outcome.warnings
                for index, error in outcome.refused:
                    item = as_subscription(items[index])
                    last, warning = self._retried(item, error, namespaces, dialect, replace=replace)
                    if last is not None:
                        refused.append(RefusedSubscription(item, last, first + index))
                    elif warning is not None:
                        found = [*found, (index, warning)]
            looking_wrong += [
                SubscriptionWarning(as_subscription(items[index]).key, first + index, text)
                for index, text in sorted(found)
            ]
            first += len(items)
        return AddReport(first - len(refused), refused, looking_wrong)

    def _retried(
        self, item: Subscription, error: Exception, namespaces: Mapping[str, str], dialect: Dialect, *, replace: bool
    ) -> tuple[TwigcastError | None, str | None]:
        """Adds what the engine refused as an external query, if it may be one. Returns the error, or the warning."""
        if isinstance(error, UnicodeEncodeError):
            return text_error(item), None
        assert isinstance(error, TwigcastError), "the engine refuses with nothing else"
        is_external = (item.dialect or dialect) == "xquery" and isinstance(error, QueryError)
        if not is_external or isinstance(error, QueryLimitExceeded):
            return error, None
        self._saxon()  # that it is not installed is no fault of the query
        try:
            declared = {**namespaces, **item.namespaces}
            added = self.add(
                item.key, item.query, declared, "xquery", replace=replace, group=item.group, params=item.params
            )
            return None, added
        except TwigcastError as last:
            return last, None

    def discard(self, key: str) -> bool:
        """Removes a subscription if there is one, and returns whether there was."""
        with self.changing:
            return self.engine.remove(key)

    def check_query(
        self, query: str, namespaces: Mapping[str, str], dialect: Dialect, params: Params = NO_PARAMS
    ) -> QueryCheck:
        """Reads a query without adding it: see :func:`~twigcast.engine.external.check_query`."""
        return check_query(query, namespaces, dialect, params, limits=self.limits, saxon=self._saxon)

    # Single messages --------------------------------------------------------------------------------------------------

    def ask(self, message: MessageLike, question: Callable[[bytes], T]) -> tuple[bytes, T]:
        """Asks about one message. Returns the message as the engine read it, in UTF-8, and the answer."""
        xml = self.prepared(as_bytes(message, self.limits.message_bytes_max))
        try:
            return xml, question(xml)
        except NeedsConversion:
            xml = to_utf8(xml, self.limits.message_bytes_max)
            return xml, question(xml)

    def prepared(self, source: bytes) -> bytes:
        """Returns a message as the options of reading want it, and counts its repairs.

        Raises:
            RejectedMessage: It cannot be converted.
        """
        return self._prepared_forms(source)[0] if self._prepares else source

    def _prepared_forms(self, source: bytes) -> tuple[bytes, bytes | None]:
        """Returns a message as :meth:`prepared` does, and as it is delivered, if more was done than to repair it."""
        repairs = RepairCounts()
        forms = prepared_forms(source, self.reading, self.limits.message_bytes_max, repairs)
        if repairs:
            with self._counting:
                self.repairs.by_kind.update(repairs.by_kind)
        return forms

    def match(self, message: MessageLike, published: datetime | None = None) -> Match:
        """Returns the subscriptions that a message matches, which was published at a time, or is now.

        Raises:
            RejectedMessage: The message is malformed, or over a limit.
        """
        at = microseconds(published)
        xml, answer = self.ask(message, lambda xml: self.engine.answer(xml, at))
        undecided, dropped = answer.undecided, _NONE
        if answer.external:
            evaluated = list(replies(answer.external, lambda _: xml, self._processor()))
            dropped = frozenset(match.key for match, reply in evaluated if not reply.matches)
            undecided += [(match.key, reply.error) for match, reply in evaluated if reply.error is not None]
        if self.engine.unread_count != self._unread_count:
            self._warn_of_unread()
        find_nodes = partial(self.nodes, xml, since=answer, published=at)
        count_nodes = partial(self.node_counts, xml, at)
        freeze = partial(self._frozen, xml, answer, dropped, undecided, at)
        return Match(answer, dropped, undecided, find_nodes, count_nodes, freeze)

    def _frozen(
        self,
        xml: bytes,
        answer: Answer,
        dropped: frozenset[str],
        undecided: Sequence[tuple[str, str]],
        published: int,
    ) -> Match:
        """Returns a match of its own for an answer, with the queries that are still those of the answer."""
        queries = {
            key: None
            if q is None
            else Subscription(key, q.query, q.namespaces, ENGINE_DIALECTS[q.dialect], params=q.params)
            for key, q in answer.queries()
            if key not in dropped
        }
        kept = FrozenQueries(xml, queries, self.limits, published)
        return Match(
            FrozenAnswer(tuple(queries), answer.visits), frozenset(), tuple(undecided), kept.nodes, kept.node_counts
        )

    def nodes(self, message: MessageLike, key: str, since: object = None, published: int | None = None) -> list[Node]:
        """Returns the nodes that a subscription's query selects in a message, in document order.

        `since` is an answer of the engine: the subscription must be the one that this was given with. Errors are those
        of `Match.nodes`.
        """
        xml, selected = self.ask(message, lambda xml: self.engine.nodes(xml, key, since, published))
        stored = self.engine.query(key)
        shared = MessageNodes(xml, has_default=stored is not None and bool(stored.namespaces.get("")))
        return [Node(n.kind, n.name, n.start, n.end, n.line, n.column, xml, shared) for n in selected]

    def node_counts(self, message: MessageLike, published: int | None = None) -> dict[str, int]:
        """Returns how many nodes each matching subscription selects, by key."""
        xml, counts = self.ask(message, lambda xml: self.engine.node_counts(xml, published))
        if not self.engine.has_external:
            return dict(counts)
        match = self.match(xml)
        return {key: count for key, count in counts if key in match}

    def deliver(
        self,
        message: MessageLike,
        envelope: Envelope | None = None,
        message_id: str = "",
        *,
        whole: bool = False,
        published: datetime | None = None,
    ) -> Deliveries:
        """Returns what each matching subscriber gets of a message, as `SubscriptionSet.deliver` does.

        Raises:
            RejectedMessage: The message is malformed, or over a limit.
        """
        at = microseconds(published)
        source = as_bytes(message, self.limits.message_bytes_max)
        if envelope is None or envelope.query is None:
            around = None if envelope is None else DeliveryEnvelope(envelope, message_id, whole)
            return Deliveries(*self._results(source, at), around)
        # No other thread changes the population meanwhile, so these are the queries that matched.
        with self.changing:
            document, results, undecided = self._results(source, at)
            stored = {key: self.engine.query(key) for key in set(results.keys())}
        queries = {key: query.query for key, query in stored.items() if query is not None}
        around = DeliveryEnvelope(envelope, message_id, whole, queries)
        return Deliveries(document, results, undecided, around)

    def _results(
        self, source: bytes, published: int
    ) -> tuple[bytes | Callable[[], bytes], Results | ListedResults, list[tuple[str, str]]]:
        """Returns a message as it is delivered whole, its results, and keys and reasons of undecided subscriptions."""
        xml, whole = self._prepared_forms(source) if self._prepares else (source, None)
        document: bytes | Callable[[], bytes]
        try:
            results = self.engine.results(xml, published)
            document = results.document if whole is None else whole
        except NeedsConversion:
            xml, document = both_forms(xml, self.limits.message_bytes_max)
            results = self.engine.results(xml, published)
        if self.engine.unread_count != self._unread_count:
            self._warn_of_unread()
        if not results.external:
            return document, results, results.undecided
        payloads, undecided = [results[index] for index in range(len(results))], list(results.undecided)
        rows = dict(enumerate(zip(results.keys(), results.payload_indices(), strict=True)))
        for match, reply in replies(results.external, lambda _: xml, self._processor()):
            if reply.error is not None:
                undecided.append((match.key, reply.error))
            if not reply.matches:
                del rows[match.position]
            elif reply.result is not None:
                rows[match.position] = match.key, len(payloads)
                payloads.append(reply.result)
        keys, indices = [key for key, _ in rows.values()], [index for _, index in rows.values()]
        return document, ListedResults(keys, indices, payloads), undecided

    def _warn_of_unread(self) -> None:
        """Warns, once for each path, of values with exponents that comparisons have read as no number."""
        self._unread_count = self.engine.unread_count
        if self._is_quiet:
            return
        for path, value in self.engine.unread_numbers():
            if path in self._unread_paths:
                continue
            self._unread_paths.add(path)
            at = f" at {path}" if path else ""
            what = f"a query compares {value!r}{at} as a number, but to XPath 1.0 an exponent makes it none (NaN)"
            cure = "xs:double(...) reads it, and so does numbers='xs:double'"
            warnings.warn(f"{what}; {cure}", QueryWarning, stacklevel=4)

    def _processor(self) -> QueryEvaluator:
        return self._saxon() if self._evaluator is None else self._evaluator

    # Batches ----------------------------------------------------------------------------------------------------------

    def match_batch(
        self,
        messages: MessageBuffers,
        *,
        deliver: bool = False,
        nodes: bool = False,
        threads: int = 1,
        naming: Literal["slots", "keys"] = "keys",
        published: Sequence[int] | None = None,
        yields: bool = False,
    ) -> Iterator[BatchPart]:
        """Matches many messages. The first part is about all; further ones, if any, about those to be converted.

        `naming` says whether matches are slots, or positions in a table of keys; `published` when each message was
        published, in microseconds since 1970, if that is not now; `yields` whether others come first at the processor.

        Raises:
            MissingExtra: There are queries in XQuery, and Saxon is not installed.
        """
        times = [microseconds(None)] * messages.message_count if published is None else published
        first = self._ask_batch(messages, deliver, nodes, threads, naming, times, yields)
        to_convert = first.needs_conversion
        yield BatchPart(range(messages.message_count), first, first.errors, to_convert)
        start = 0
        while start < len(to_convert):
            plain, errors = self.convert(map(messages.message, to_convert[start:]), _CONVERTED_BYTES)
            its_times = [times[row] for row in to_convert[start : start + len(plain)]]
            result = self._ask_batch(MessageBuffers.of(plain), deliver, nodes, threads, naming, its_times, yields)
            rejected = [(row, error) for row, error in result.errors if row not in errors]
            yield BatchPart(to_convert[start : start + len(plain)], result, [*rejected, *errors.items()])
            start += len(plain)

    def _ask_batch(
        self,
        buffers: MessageBuffers,
        deliver: bool,
        nodes: bool,
        threads: int,
        naming: Literal["slots", "keys"],
        published: Sequence[int],
        yields: bool,
    ) -> BatchResult:
        offsets, data, count = buffers
        result = self.engine.match_batch(
            offsets,
            data,
            count,
            deliver=deliver,
            nodes=nodes,
            threads=min(threads, count),
            naming=naming,
            published=published,
            yields=yields,
        )
        if self.engine.unread_count != self._unread_count:
            self._warn_of_unread()
        return self._merged(result, buffers) if result.external else result

    def convert(
        self, messages: Iterable[bytes], bytes_enough: int | None = None
    ) -> tuple[list[bytes], dict[int, TwigcastError]]:
        """Converts messages to UTF-8 that the engine reads. Returns them, and errors by index: those are empty.

        It stops once it has ``bytes_enough``.
        """
        plain: list[bytes] = []
        errors: dict[int, TwigcastError] = {}
        size = 0
        for message in messages:
            try:
                plain.append(to_utf8(message, self.limits.message_bytes_max))
            except RejectedMessage as error:
                errors[len(plain)] = error
                plain.append(b"")
            size += len(plain[-1])
            if bytes_enough is not None and size >= bytes_enough:
                break
        return plain, errors

    def prepare(self, messages: Iterable[bytes | None]) -> tuple[list[bytes | None], dict[int, TwigcastError]]:
        """Returns messages as :meth:`prepared` does, and errors by index: in place of those there is no message."""
        plain: list[bytes | None] = []
        errors: dict[int, TwigcastError] = {}
        for message in messages:
            try:
                plain.append(None if message is None else self.prepared(message))
            except RejectedMessage as error:
                errors[len(plain)] = error
                plain.append(None)
        return plain, errors

    def _merged(self, result: BatchResult, buffers: MessageBuffers) -> BatchResult:
        """Returns an answer with the results of external queries in it."""
        results: dict[int, bytes | None] = {}
        failures: list[tuple[int, TwigcastError]] = []
        for match, reply in replies(result.external, buffers.message, self._processor()):
            if reply.error is not None:
                failures.append((match.row, UndecidedSubscription(match.key, reply.error)))
            # Where a condition holds, the match stays as it is.
            if not reply.holds:
                results[match.position] = reply.result
        return result.merge(results, failures)
