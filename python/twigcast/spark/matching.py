"""Arrow batches of messages matched against a subscription set, without Spark.

The engine takes the buffers of a batch as they are, and its answers are buffers. Python objects are created only for
the few messages that are rejected or have to be converted first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from twigcast._core import BatchResult
from twigcast.engine.arrow import NULL_MESSAGE, int32_array, message_buffers, payload_column
from twigcast.engine.session import BatchPart, EngineSession
from twigcast.envelope import Envelope
from twigcast.errors import LimitExceeded, MalformedMessage, TwigcastError, UndecidedSubscription
from twigcast.publication import microseconds
from twigcast.reading.conversion import to_document
from twigcast.reading.prolog import without_prolog
from twigcast.reading.records import located
from twigcast.spark.enveloping import EnvelopeWriter
from twigcast.spark.schemas import DELIVERIES, MATCH_ROWS, MATCHES, REJECTED

_ROWS_PER_BATCH_MAX: Final = 1 << 18
"""Matches in one Arrow batch of an answer."""

_STEP_FIRST: Final = 32
_STEP_MAX: Final = 1 << 14
"""Messages that the engine gets at a time: at first, and at most."""

_ANSWER_BYTES_LOW: Final = 8 << 20
_ANSWER_BYTES_HIGH: Final = 64 << 20
"""After an answer below and above these sizes, the engine gets more and fewer messages."""

_MATCH: Final = pa.struct([MATCHES.field("key"), MATCHES.field("nodes")])
_DELIVERY: Final = pa.struct([DELIVERIES.field("key"), DELIVERIES.field("payload")])
_REJECTION: Final = pa.struct([REJECTED.field(name) for name in ("reason", "line", "column", "xml")])
ANSWERS: Final = pa.schema(
    [
        ("matches", pa.list_(_MATCH)),
        ("deliveries", pa.list_(_DELIVERY)),
        ("rejected", _REJECTION),
    ]
)
"""The columns that :func:`twigcast.spark.match_messages` adds to each message."""
_NO_DELIVERIES: Final = pa.RecordBatch.from_pylist([], DELIVERIES)


@dataclass(frozen=True, slots=True)
class RowRejection:
    """The reason why the message in one row was rejected."""

    row: int
    reason: str
    line: int | None = None
    column: int | None = None

    undecided: tuple[str, ...] = ()
    """The keys of the subscriptions that are undecided, if all others were decided."""

    @classmethod
    def of(cls, row: int, error: TwigcastError) -> "RowRejection":
        """Returns the rejection for an error."""
        reason = str(getattr(error, "reason", error))
        if isinstance(error, LimitExceeded):
            reason = f"{reason} ({error.remedy})"
        return cls(row, reason, getattr(error, "line", None), getattr(error, "column", None))


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """The names of the columns that hold messages."""

    message_id: str = "message_id"
    """Ids, of any type that casts to a string."""

    xml: str = "xml"
    """Messages: strings, whatever encoding they declare, or binary."""

    problem: str = "problem"
    """The reason why a message could not be read (string), or null; the column may be missing."""

    published: str | None = None
    """When messages were published (timestamp), or null for now, as it is if there is no column."""


MESSAGE_COLUMNS: Final = MessageColumns()


@dataclass(frozen=True, slots=True)
class Messages:
    """Some messages of a batch, with the columns that travel with them."""

    ids: pa.StringArray
    """Id of each message."""

    xml: pa.LargeBinaryArray
    """The messages, unchanged."""

    carried: pa.RecordBatch | None = None
    """Further columns of the caller, by message; they reach the rows of the answer as they are."""

    times: pa.Int64Array | None = None
    """When each message was published, in microseconds since 1970."""

    places: pa.StructArray | None = None
    """Where records begin in their documents, as :data:`~twigcast.spark.schemas.METADATA` has it."""

    def __len__(self) -> int:
        return len(self.xml)

    def part(self, start: int, end: int) -> "Messages":
        """Returns the messages from one position to another."""
        carried = None if self.carried is None else self.carried.slice(start, end - start)
        places = None if self.places is None else self.places[start:end]
        times = None if self.times is None else self.times[start:end]
        return Messages(self.ids[start:end], self.xml[start:end], carried, times, places)

    def take(self, rows: pa.Int64Array) -> "Messages":
        """Returns the messages in some rows."""
        carried = None if self.carried is None else self.carried.take(rows)
        places = None if self.places is None else self.places.take(rows)
        times = None if self.times is None else self.times.take(rows)
        return Messages(self.ids.take(rows), self.xml.take(rows), carried, times, places)

    def located(self, row: int, error: TwigcastError) -> TwigcastError:
        """Returns an error of a message with its place in the document that the message was cut from."""
        place = None if self.places is None else self.places[row].as_py()
        if place is None or place["line"] is None or not isinstance(error, MalformedMessage):
            return error
        return located(error, place["line"], place["column"], place["added"])


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """The answer of a subscription set to some messages."""

    messages: Messages

    offsets: pa.Int32Array
    """Where the matches of each message begin in ``slots``; one more than there are messages."""

    keys: pa.StringArray
    """All keys of the population, by slot."""

    slots: pa.Int32Array
    """Slot of each match, message after message."""

    nodes: pa.Int32Array | None
    """Number of selected nodes of each match, if they were counted."""

    has_payload: pa.BooleanArray | None
    """By match, whether it has a payload; ``None`` if none has."""

    payloads: pa.StringArray
    """Payloads, in the order of the matches that have one."""

    rejections: Sequence[RowRejection]
    """Messages that could not be processed, or on which a subscription is undecided."""

    left_out: frozenset[int] = frozenset()
    """Rows that another answer holds."""

    def matches(self) -> Iterator[pa.RecordBatch]:
        """Yields rows of :data:`~twigcast.spark.schemas.MATCHES`, in the order of the messages."""
        parents = _parents(self.offsets, self.slots)
        for start in range(0, len(self.slots), _ROWS_PER_BATCH_MAX):
            part = slice(start, start + _ROWS_PER_BATCH_MAX)
            keys = self.keys.take(self.slots[part])
            nodes = pa.nulls(len(keys), pa.int32()) if self.nodes is None else self.nodes[part]
            yield pa.RecordBatch.from_arrays([self.messages.ids.take(parents[part]), keys, nodes], schema=MATCHES)

    def deliveries(self) -> pa.RecordBatch:
        """Returns rows of :data:`~twigcast.spark.schemas.DELIVERIES`, in the order of the messages."""
        if self.has_payload is None:
            return _NO_DELIVERIES
        rewritten = pc.indices_nonzero(self.has_payload)
        ids = self.messages.ids.take(_parents(self.offsets, self.slots).take(rewritten))
        keys = self.keys.take(self.slots.take(rewritten))
        return pa.RecordBatch.from_arrays([ids, keys, self.payloads], schema=DELIVERIES)

    def rejected(self) -> pa.RecordBatch:
        """Returns rows of :data:`~twigcast.spark.schemas.REJECTED`."""
        rows = pa.array([rejection.row for rejection in self.rejections], pa.int64())
        columns = [
            self.messages.ids.take(rows),
            pa.array([rejection.reason for rejection in self.rejections], pa.string()),
            pa.array([rejection.line for rejection in self.rejections], pa.int64()),
            pa.array([rejection.column for rejection in self.rejections], pa.int64()),
            self.messages.xml.take(rows).cast(pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=REJECTED)

    def message_rows(self) -> pa.Int64Array:
        """Returns the row of the message, by match."""
        return _parents(self.offsets, self.slots)

    def payload_column(self) -> pa.StringArray:
        """Returns the payload of each match, null where the message itself is delivered."""
        if self.has_payload is None:
            return pa.nulls(len(self.slots), pa.string())
        numbers = pc.subtract(pc.cumulative_sum(self.has_payload.cast(pa.int32())), 1)
        return self.payloads.take(pc.if_else(self.has_payload, numbers, None))

    def match_rows(self) -> Iterator[pa.RecordBatch]:
        """Yields rows of :data:`~twigcast.spark.schemas.MATCH_ROWS`: matches in their order, then rejections."""
        payloads = self.payload_column()
        start = 0
        for batch in self.matches():
            part = payloads[start : start + batch.num_rows]
            start += batch.num_rows
            columns = [*batch.columns, part, pa.nulls(batch.num_rows, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, schema=MATCH_ROWS)
        rejected = self.rejected()
        if rejected.num_rows:
            nothing = [pa.nulls(rejected.num_rows, field.type) for field in MATCH_ROWS][1:4]
            columns = [rejected.column("message_id"), *nothing, rejected.column("reason")]
            yield pa.RecordBatch.from_arrays(columns, schema=MATCH_ROWS)

    def by_message(self) -> Iterator[pa.RecordBatch]:
        """Yields a row per message with all about it: the carried columns, then those of :data:`ANSWERS`."""
        offsets = self.offsets.to_pylist()
        start = 0
        for end in range(1, len(offsets)):
            if end == len(offsets) - 1 or offsets[end + 1] - offsets[start] > _ROWS_PER_BATCH_MAX:
                yield self._rows(start, end)
                start = end

    def _rows(self, start: int, end: int) -> pa.RecordBatch:
        offsets = self.offsets[start : end + 1]
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        keys = self.keys.take(self.slots[first:last])
        nodes = pa.nulls(len(keys), pa.int32()) if self.nodes is None else self.nodes[first:last]
        matches = pa.StructArray.from_arrays([keys, nodes], fields=list(_MATCH))
        local = pc.subtract(offsets, offsets[0])
        columns = [
            pa.ListArray.from_arrays(local, matches, type=ANSWERS.field("matches").type),
            self._delivery_column(first, keys, local),
            self._rejection_column(start, end),
        ]
        carried = self.messages.part(start, end).carried
        assert carried is not None, "answers by message belong to a batch whose columns are carried"
        batch = pa.RecordBatch.from_arrays([*carried.columns, *columns], schema=pa.schema([*carried.schema, *ANSWERS]))
        if not self.left_out:
            return batch
        return batch.filter(pa.array([row not in self.left_out for row in range(start, end)]))

    def _delivery_column(self, first: int, keys: pa.StringArray, match_offsets: pa.Int32Array) -> pa.ListArray:
        """Returns the deliveries of the messages whose matches begin with the ``first`` one."""
        kind = ANSWERS.field("deliveries").type
        if self.has_payload is None:
            offsets = pa.repeat(pa.scalar(0, pa.int32()), len(match_offsets))
            return pa.ListArray.from_arrays(offsets, pa.array([], _DELIVERY), type=kind)
        has_payload = self.has_payload[first : first + len(keys)]
        rewritten = pc.indices_nonzero(has_payload)
        before = pc.sum(self.has_payload[:first]).as_py() or 0
        fragments = self.payloads[before : before + len(rewritten)]
        deliveries = pa.StructArray.from_arrays([keys.take(rewritten), fragments], fields=list(_DELIVERY))
        counted = pc.cumulative_sum(has_payload.cast(pa.int32()))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), counted]).take(match_offsets)
        return pa.ListArray.from_arrays(offsets, deliveries, type=kind)

    def _rejection_column(self, start: int, end: int) -> pa.StructArray:
        rejections = [rejection for rejection in self.rejections if start <= rejection.row < end]
        if not rejections:
            return pa.nulls(end - start, _REJECTION)
        column: list[dict[str, object] | None] = [None] * (end - start)
        for rejection in rejections:
            column[rejection.row - start] = {
                "reason": rejection.reason,
                "line": rejection.line,
                "column": rejection.column,
                "xml": self.messages.xml[rejection.row].as_py(),
            }
        return pa.array(column, _REJECTION)


def _times(messages: pa.RecordBatch, column: str | None) -> pa.Int64Array | None:
    """Returns when messages were published, in microseconds since 1970."""
    if column is None:
        return None
    # Spark's timestamps are of UTC, also those without a zone in Arrow.
    times = messages.column(column).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return times.fill_null(microseconds(None))


class BatchMatcher:
    """A matcher of batches of messages against one subscription set.

    Args:
        session: The engine session of the set, which does not change meanwhile.
        deliver: Whether to rewrite messages.
        nodes: Whether to count the selected nodes.
        envelope: An element to put around each payload.
        whole: Whether subscriptions that rewrite nothing get the message itself as payload.
    """

    def __init__(
        self,
        session: EngineSession,
        *,
        deliver: bool = True,
        nodes: bool = False,
        envelope: Envelope | None = None,
        whole: bool = False,
    ) -> None:
        self._whole = whole
        self._session = session
        self._deliver = deliver
        self._nodes = nodes
        self._keys = session.engine.key_table().arrow()
        self._envelopes = None if envelope is None else EnvelopeWriter(envelope, session, self._keys)
        self._step = _STEP_FIRST

    @property
    def keys(self) -> pa.StringArray:
        """All keys of the population, by slot."""
        return self._keys

    def answers(
        self, messages: pa.RecordBatch, columns: MessageColumns = MESSAGE_COLUMNS, *, carry: bool = False
    ) -> Iterator[BatchAnswer]:
        """Yields the answers to messages. Each message is in exactly one of them, in no particular order.

        Messages have ``message_id`` (any type that casts to a string), ``xml`` (string or binary, large or not) and
        perhaps ``problem`` (string).
        """
        ids = messages.column(columns.message_id).cast(pa.string())
        xml = messages.column(columns.xml).cast(pa.large_binary())
        times = _times(messages, columns.published)
        waiting = Messages(ids, xml, messages if carry else None, times, _places(messages))
        unusable = _problems(messages, columns.problem, xml)
        if unusable:
            rows = pa.array([rejection.row for rejection in unusable], pa.int64())
            numbered = [RowRejection(row, rejection.reason) for row, rejection in enumerate(unusable)]
            yield BatchAnswer(
                messages=waiting.take(rows),
                offsets=pa.array([0] * (len(rows) + 1), pa.int32()),
                keys=self._keys,
                slots=pa.array([], pa.int32()),
                nodes=None,
                has_payload=None,
                payloads=pa.array([], pa.string()),
                rejections=numbered,
            )
            waiting = waiting.take(pa.array(sorted(set(range(len(xml))).difference(rows.to_pylist())), pa.int64()))
        start = 0
        while start < len(waiting):
            end = min(start + self._step, len(waiting))
            yield from self._match(waiting.part(start, end))
            start = end

    def _match(self, messages: Messages) -> Iterator[BatchAnswer]:
        published = None if messages.times is None else messages.times.to_pylist()
        parts = self._session.match_batch(
            message_buffers(messages.xml),
            deliver=self._deliver,
            nodes=self._nodes,
            naming="slots",
            published=published,
        )
        first = next(parts)
        query_bytes = self._adapt(first.result, messages.xml)
        if len(messages) > 1 and query_bytes > _ANSWER_BYTES_HIGH:
            # Envelopes repeat the query of each match: only now it turns out that these are too many bytes at once.
            half = len(messages) // 2
            yield from self._match(messages.part(0, half))
            yield from self._match(messages.part(half, len(messages)))
            return
        yield self._collect(messages, first)
        for part in parts:
            yield self._collect(messages.take(pa.array(part.rows, pa.int64())), part)

    def _adapt(self, result: BatchResult, xml: pa.LargeBinaryArray) -> int:
        """Sets how many messages the engine gets next, by the size of an answer.

        Returns the bytes of the queries in the envelopes of the answer.
        """
        matches = len(result.matches)
        size = 8 * matches + (_delivered_bytes(result) if _has_payloads(result) else 0)
        if self._whole:
            size += matches * xml.nbytes // len(xml)
        query_bytes = 0 if self._envelopes is None else self._envelopes.query_bytes(int32_array(result.matches))
        size += query_bytes
        if size > _ANSWER_BYTES_HIGH:
            self._step = max(1, self._step // 4)
        elif size < _ANSWER_BYTES_LOW:
            self._step = min(_STEP_MAX, self._step * 2)
        return query_bytes

    def _collect(self, messages: Messages, part: BatchPart) -> BatchAnswer:
        result = part.result
        slots = int32_array(result.matches)
        has_payload, payloads = None, pa.array([], pa.string())
        if self._deliver and (self._whole or _has_payloads(result)):
            has_payload, payloads = self._payloads(messages, result, slots)
        return BatchAnswer(
            messages=messages,
            offsets=int32_array(result.match_offsets),
            keys=self._keys,
            slots=slots,
            nodes=int32_array(result.node_counts) if self._nodes else None,
            has_payload=has_payload,
            payloads=payloads,
            rejections=[RowRejection.of(row, messages.located(row, error)) for row, error in part.errors]
            + _undecided_rejections(result.failures),
            left_out=frozenset(part.converted_elsewhere),
        )

    def _payloads(
        self, messages: Messages, result: BatchResult, slots: pa.Int32Array
    ) -> tuple[pa.BooleanArray, pa.StringArray]:
        """Returns which matches have a payload, and these payloads as they are delivered."""
        supplied = payload_column(result, pa.dictionary(pa.int32(), pa.large_string()))
        has_payload = supplied.is_valid()
        payloads = supplied.filter(has_payload).dictionary_decode().cast(pa.string())
        parents = _parents(int32_array(result.match_offsets), slots)
        if self._whole and len(payloads) < len(slots):
            has_payload, payloads = self._with_messages(supplied, messages.xml, parents)
        if self._envelopes is not None:
            rewritten = pc.indices_nonzero(has_payload)
            payloads = self._envelopes.wrap(payloads, messages.ids.take(parents.take(rewritten)), slots.take(rewritten))
        return has_payload, payloads

    def _with_messages(
        self, supplied: pa.DictionaryArray, xml: pa.LargeBinaryArray, parents: pa.Int64Array
    ) -> tuple[pa.BooleanArray, pa.StringArray]:
        """Returns a payload for each match: the result or, if there is none, the message."""
        rows = parents.filter(supplied.is_null())
        distinct = rows.unique()
        prepare = to_document if self._envelopes is None else without_prolog
        texts = [prepare(message).decode().removeprefix("\ufeff") for message in xml.take(distinct).to_pylist()]
        messages = pa.array(texts, pa.string()).take(pc.index_in(parents, distinct))
        rewritten = supplied.dictionary_decode().cast(pa.string())
        return pa.repeat(True, len(supplied)), pc.coalesce(rewritten, messages)


def repair_count(messages: pa.RecordBatch) -> int:
    """Returns how many repairs were made in messages, if their column of places says so."""
    places = _places(messages)
    return 0 if places is None else pc.sum(pc.struct_field(places, "repairs")).as_py() or 0


def _places(messages: pa.RecordBatch) -> pa.StructArray | None:
    """Returns the column of places, if messages have it as a source of this package makes it."""
    if "_metadata" not in messages.schema.names:
        return None
    places = messages.column("_metadata")
    if not pa.types.is_struct(places.type):
        return None
    has_all = all(places.type.get_field_index(name) >= 0 for name in ("repairs", "line", "column", "added"))
    return places if has_all else None


def _problems(messages: pa.RecordBatch, column: str, xml: pa.LargeBinaryArray) -> list[RowRejection]:
    """Returns rejections of the rows that hold no message to match."""
    if column in messages.schema.names:
        problems = messages.column(column)
        if problems.null_count < len(problems):
            return [
                RowRejection(row, NULL_MESSAGE if reason is None else reason)
                for row, reason in enumerate(problems.to_pylist())
                if reason is not None or not xml[row].is_valid
            ]
    if not xml.null_count:
        return []
    return [RowRejection(row, NULL_MESSAGE) for row in pc.indices_nonzero(pc.is_null(xml)).to_pylist()]


def _undecided_rejections(failures: Sequence[tuple[int, TwigcastError]]) -> list[RowRejection]:
    """Returns one rejection for each message on which subscriptions are undecided, beside its other answers."""
    by_row: dict[int, list[TwigcastError]] = {}
    for row, error in failures:
        by_row.setdefault(row, []).append(error)
    return [
        RowRejection(
            row,
            str(errors[0]) + (f" (and {len(errors) - 1:,} more)" if len(errors) > 1 else ""),
            undecided=tuple(error.key for error in errors if isinstance(error, UndecidedSubscription)),
        )
        for row, errors in by_row.items()
    ]


def _has_payloads(result: BatchResult) -> bool:
    return len(result.payload_offsets) > 1


def _parents(offsets: pa.Int32Array, slots: pa.Int32Array) -> pa.Int64Array:
    """Returns the row of the message, by match."""
    return pc.list_parent_indices(pa.ListArray.from_arrays(offsets, slots))


def _delivered_bytes(result: BatchResult) -> int:
    """Returns the bytes of all payloads; one that several subscriptions get counts for each."""
    payloads = payload_column(result)
    total = pc.sum(pc.binary_length(payloads.dictionary).take(payloads.indices)).as_py()
    return int(total or 0)
