"""The one path to the compiled engine: it converts messages, asks the engine, asks Saxon, and merges their answers.

Single messages, batches, the tasks of Spark and the broker each hold an :class:`EngineSession`. Threads may match, add
and remove at the same time. An answer is that of one moment: it keeps the keys of that moment.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self, TypeVar

from twigcast._core import BatchResult, Engine, QueryCheck, Results
from twigcast.answers import Deliveries, DeliveryEnvelope, ListedResults, Match, Node
from twigcast.engine.external import QueryEvaluator, check_query, native_or_external, replies
from twigcast.envelope import Envelope
from twigcast.errors import (
    NeedsConversion,
    QueryError,
    QueryLimitExceeded,
    RejectedMessage,
    TwigcastError,
    UndecidedSubscription,
)
from twigcast.limits import Limits
from twigcast.reading.conversion import to_utf8
from twigcast.reading.text import MessageLike, as_bytes
from twigcast.registration import (
    AddReport,
    Dialect,
    RefusedSubscription,
    Subscription,
    SubscriptionWarning,
    as_subscription,
    text_error,
)
from twigcast.xquery.saxon import shared

if TYPE_CHECKING:
    from twigcast.xquery.saxon import Saxon

_ADDED_AT_ONCE: Final = 2_000
"""Subscriptions handed to the engine in one call: few, so that lists of them leave no holes in memory."""

_CONVERTED_BYTES: Final = 4 << 20
"""Bytes of converted messages that are matched together, unless a single one is larger."""

_NONE: Final[frozenset[str]] = frozenset()

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


class EngineSession:
    """An engine, and how its caller asks it.

    Args:
        engine: The compiled engine.
        limits: Its limits.
        saxon: Returns the process that checks queries in XQuery.
        evaluator: Evaluates external queries; if ``None``, ``saxon`` does.
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        *,
        saxon: Callable[[], Saxon] = shared,
        evaluator: QueryEvaluator | None = None,
    ) -> None:
        self.engine = engine
        """The compiled engine, for what needs neither conversion nor Saxon."""
        self.limits = limits
        self.changing = threading.RLock()
        """Held while the population changes."""
        self._saxon = saxon
        self._evaluator = evaluator

    @classmethod
    def empty(cls, limits: Limits, evaluator: QueryEvaluator | None = None) -> Self:
        """Returns a session of an engine without subscriptions."""
        return cls(Engine(limits.as_dict()), limits, evaluator=evaluator)

    @classmethod
    def load(cls, path: str, limits: Limits) -> Self:
        """Returns a session of the engine in a snapshot file.

        Raises:
            SnapshotError: The file cannot be read, is damaged, or is of a version that this one cannot read.
        """
        return cls(Engine.load(path, limits.as_dict()), limits)

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
    ) -> str | None:
        """Adds a subscription and returns a warning, if there is one.

        Args:
            key: Its key.
            query: Its query.
            namespaces: Prefix to namespace.
            dialect: How the query is read.
            replace: Whether it may take the place of a subscription with this key.
            is_checked: Whether Saxon has accepted the query, if it is one for Saxon.

        Raises:
            DuplicateKey: The key is taken.
            QueryError: The query is refused.
            InvalidKey: The key is no text.
            MissingExtra: The dialect is ``xquery``, and Saxon is not installed.
        """
        saxon = self._saxon() if dialect == "xquery" and not is_checked else None

        def attempt(as_: Dialect) -> str | None:
            return self.engine.add(key, query, dict(namespaces), as_, replace)

        def accept() -> None:
            if saxon is not None:
                saxon.check(query, namespaces)

        try:
            with self.changing:
                return native_or_external(attempt, dialect, accept)
        except UnicodeEncodeError:
            raise text_error(Subscription(key, query, namespaces)) from None

    def add_many(
        self, subscriptions: Iterable[object], namespaces: Mapping[str, str], dialect: Dialect, *, replace: bool = False
    ) -> AddReport:
        """Adds many subscriptions.

        Args:
            subscriptions: Subscriptions, or tuples of key, query and (if need be) namespaces.
            namespaces: Prefix to namespace, for all; those of a subscription come on top.
            dialect: The dialect of those that name none.
            replace: Whether they may take the place of subscriptions with their keys.

        Raises:
            MissingExtra: A query in XQuery is one for Saxon, and Saxon is not installed.
            TypeError: An item is no subscription.
        """
        namespaces = dict(namespaces)
        refused: list[RefusedSubscription] = []
        warnings: list[SubscriptionWarning] = []
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
            warnings += [
                SubscriptionWarning(as_subscription(items[index]).key, first + index, text)
                for index, text in sorted(found)
            ]
            first += len(items)
        return AddReport(first - len(refused), refused, warnings)

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
            return None, self.add(item.key, item.query, {**namespaces, **item.namespaces}, "xquery", replace=replace)
        except TwigcastError as last:
            return last, None

    def discard(self, key: str) -> bool:
        """Removes a subscription if there is one, and returns whether there was."""
        with self.changing:
            return self.engine.remove(key)

    def check_query(self, query: str, namespaces: Mapping[str, str], dialect: Dialect) -> QueryCheck:
        """Reads a query without adding it: see :func:`~twigcast.engine.external.check_query`."""
        return check_query(query, namespaces, dialect, self._saxon)

    # Single messages --------------------------------------------------------------------------------------------------

    def ask(self, message: MessageLike, question: Callable[[bytes], T]) -> tuple[bytes, T]:
        """Asks about one message. Returns the message as the engine read it, in UTF-8, and the answer.

        Raises:
            RejectedMessage: The message is malformed, or over a limit.
        """
        xml = as_bytes(message)
        try:
            return xml, question(xml)
        except NeedsConversion:
            xml = to_utf8(xml, self.limits.message_bytes_max)
            return xml, question(xml)

    def match(self, message: MessageLike) -> Match:
        """Returns the subscriptions that a message matches.

        Raises:
            RejectedMessage: The message is malformed, or over a limit.
        """
        xml, answer = self.ask(message, self.engine.answer)
        undecided, dropped = answer.undecided, _NONE
        if answer.external:
            evaluated = list(replies(answer.external, lambda _: xml, self._processor()))
            dropped = frozenset(match.key for match, reply in evaluated if reply.result is None)
            undecided += [(match.key, reply.error) for match, reply in evaluated if reply.error is not None]
        return Match(answer, dropped, undecided, partial(self.nodes, xml, since=answer), partial(self.node_counts, xml))

    def nodes(self, message: MessageLike, key: str, since: object = None) -> list[Node]:
        """Returns the nodes that a subscription's query selects in a message, in document order.

        Args:
            message: The message.
            key: The key of the subscription.
            since: An answer of the engine: the subscription must be the one that this was given with.

        Raises:
            UnknownKey: There is no such subscription.
            SubscriptionChanged: It was replaced or removed since.
            UndecidedSubscription: Evaluating the query took too long.
            RejectedMessage: The message is malformed, or over a limit.
        """
        xml, selected = self.ask(message, lambda xml: self.engine.nodes(xml, key, since))
        return [Node(node.kind, node.name, node.start, node.end, node.line, node.column, xml) for node in selected]

    def node_counts(self, message: MessageLike) -> dict[str, int]:
        """Returns how many nodes each matching subscription selects, by key.

        Raises:
            RejectedMessage: The message is malformed, or over a limit.
        """
        xml, counts = self.ask(message, self.engine.node_counts)
        if not self.engine.has_external:
            return dict(counts)
        match = self.match(xml)
        return {key: count for key, count in counts if key in match}

    def deliver(
        self, message: MessageLike, envelope: Envelope | None = None, message_id: str = "", *, whole: bool = False
    ) -> Deliveries:
        """Returns what each matching subscriber gets of a message.

        Args:
            message: The message.
            envelope: An element to put around each result.
            message_id: What the envelope calls the message.
            whole: Whether messages that are delivered as they are get an envelope too.

        Raises:
            RejectedMessage: The message is malformed, or over a limit.
        """
        source = as_bytes(message)
        if envelope is None or envelope.query is None:
            around = None if envelope is None else DeliveryEnvelope(envelope, message_id, whole)
            return Deliveries(source, *self._results(source), around)
        # No other thread changes the population meanwhile, so these are the queries that matched.
        with self.changing:
            results, undecided = self._results(source)
            stored = {key: self.engine.query(key) for key in set(results.keys())}
        queries = {key: query.query for key, query in stored.items() if query is not None}
        return Deliveries(source, results, undecided, DeliveryEnvelope(envelope, message_id, whole, queries))

    def _results(self, source: bytes) -> tuple[Results | ListedResults, list[tuple[str, str]]]:
        """Returns the results of a message, and keys and reasons of undecided subscriptions."""
        xml, results = self.ask(source, self.engine.results)
        if not results.external:
            return results, results.undecided
        payloads, undecided = [results[index] for index in range(len(results))], list(results.undecided)
        rows = dict(enumerate(zip(results.keys(), results.payload_indices(), strict=True)))
        for match, reply in replies(results.external, lambda _: xml, self._processor()):
            if reply.error is not None:
                undecided.append((match.key, reply.error))
            if reply.result is None:
                del rows[match.position]
            else:
                rows[match.position] = match.key, len(payloads)
                payloads.append(reply.result)
        keys, indices = [key for key, _ in rows.values()], [index for _, index in rows.values()]
        return ListedResults(keys, indices, payloads), undecided

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
    ) -> Iterator[BatchPart]:
        """Matches many messages. The first part is about all; further ones, if any, about those to be converted.

        Args:
            messages: The messages.
            deliver: Whether to answer with payloads.
            nodes: Whether to answer with the number of selected nodes.
            threads: How many threads share the work.
            naming: Whether matches are slots, or positions in a table of keys.

        Raises:
            MissingExtra: There are queries in XQuery, and Saxon is not installed.
        """
        first = self._ask_batch(messages, deliver, nodes, threads, naming)
        to_convert = first.needs_conversion
        yield BatchPart(range(messages.message_count), first, first.errors, to_convert)
        start = 0
        while start < len(to_convert):
            plain, errors = self.convert(map(messages.message, to_convert[start:]), _CONVERTED_BYTES)
            result = self._ask_batch(MessageBuffers.of(plain), deliver, nodes, threads, naming)
            rejected = [(row, error) for row, error in result.errors if row not in errors]
            yield BatchPart(to_convert[start : start + len(plain)], result, [*rejected, *errors.items()])
            start += len(plain)

    def _ask_batch(
        self, buffers: MessageBuffers, deliver: bool, nodes: bool, threads: int, naming: Literal["slots", "keys"]
    ) -> BatchResult:
        offsets, data, count = buffers
        result = self.engine.match_batch(
            offsets, data, count, deliver=deliver, nodes=nodes, threads=min(threads, count), naming=naming
        )
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

    def _merged(self, result: BatchResult, buffers: MessageBuffers) -> BatchResult:
        """Returns an answer with the results of external queries in it."""
        results: dict[int, bytes | None] = {}
        failures: list[tuple[int, TwigcastError]] = []
        for match, reply in replies(result.external, buffers.message, self._processor()):
            if reply.error is not None:
                failures.append((match.row, UndecidedSubscription(match.key, reply.error)))
            results[match.position] = reply.result
        return result.merge(results, failures)
