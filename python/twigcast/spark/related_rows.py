"""Messages on their way through their life cycles: packed, related to earlier ones, as Arrow batches. Without Spark.

Spark moves a message between these steps as the name of its group and one binary column, so that columns of any type
come out as they went in, and nothing is converted but once.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.errors import RejectedMessage
from twigcast.lifecycle.chains import Advance, Effect
from twigcast.lifecycle.facts import MessageFacts, ProfileReader
from twigcast.lifecycle.profiles import profile_of_text, profile_text
from twigcast.limits import Limits
from twigcast.publication import microseconds
from twigcast.reading.conversion import to_document
from twigcast.spark.chain_tables import ChainGroup, natural
from twigcast.spark.lifecycle_settings import LifecycleSettings
from twigcast.spark.matching import ANSWERS, BatchAnswer, BatchMatcher, MessageColumns, RowRejection
from twigcast.spark.schemas import MATCHES, REJECTED, RELATED_DELIVERIES

PACKED: Final = pa.schema(
    [
        ("group", pa.string()),
        ("moment", pa.int64()),
        ("place", pa.string()),
        ("packed", pa.binary()),
        ("event_time", pa.timestamp("us", "UTC")),
    ]
)
"""A message: its group, what puts it in order within that, all about it, and when it was published."""

_RELATED_DELIVERY: Final = pa.struct([RELATED_DELIVERIES.field(name) for name in ("key", "payload", "relation")])
RELATED_ANSWERS: Final = pa.schema(
    [
        ("effect", pa.string()),
        ("trouble", pa.string()),
        ANSWERS.field("matches"),
        ("deliveries", pa.list_(_RELATED_DELIVERY)),
        ANSWERS.field("rejected"),
    ]
)
"""The columns that :func:`twigcast.spark.relate_messages` adds to each message."""

_UNIDENTIFIED: Final = "it does not say which message it is"
_NOT_REPEATED: Final = (Effect.DUPLICATE, Effect.SUPERSEDED)


class PackedMessage(NamedTuple):
    """A message with its answer, before it is related."""

    own: dict[str, Any]
    """The columns of the user."""
    message_id: str
    at: int | None
    """When it was published, in microseconds since 1970; ``None`` for the time of the micro-batch."""
    facts: MessageFacts | None
    """``None``: it is rejected."""
    nodes: dict[str, int | None]
    """How many nodes each matching subscription selects, if that was counted."""
    payloads: dict[str, str | None]
    """By key of those who rewrite it, or get the message itself, what they get."""
    document: str | None
    """The message itself, if who gets it is to have it."""
    undecided: tuple[str, ...]
    rejected: dict[str, Any] | None
    size: int
    repairs: int


class RelatedMessage(NamedTuple):
    """A message after it was related, or a matter that is over by the time."""

    own: dict[str, Any] | None
    """``None``: it is no message, but the end of a matter by the time."""
    message_id: str
    effect: str | None
    trouble: str | None
    matches: list[dict[str, Any]]
    deliveries: list[dict[str, Any]]
    rejected: dict[str, Any] | None
    size: int
    repairs: int


@dataclass(frozen=True, slots=True)
class MessagePacker:
    """A packer of matched messages."""

    settings: LifecycleSettings
    columns: MessageColumns
    own: tuple[str, ...]
    """The columns of the user that travel with the messages."""
    whole: bool
    files: bool
    """Whether the times of files put messages in order."""

    def pack(self, matcher: BatchMatcher, batch: pa.RecordBatch, limits: Limits) -> Iterator[pa.RecordBatch]:
        """Yields rows of :data:`PACKED` for messages, in any order."""
        reader = _profile_reader(profile_text(self.settings.read), limits)
        for answer in matcher.answers(batch, self.columns, carry=True):
            yield self._packed(answer, reader)

    def _packed(self, answer: BatchAnswer, reader: ProfileReader) -> pa.RecordBatch:
        carried = answer.messages.carried
        assert carried is not None, "the columns of the user are carried"
        own = carried.select(list(self.own)).to_pylist() if self.own else [{}] * carried.num_rows
        groups = self._groups(carried)
        moments = self._moments(carried)
        ids = answer.messages.ids.to_pylist()
        rows: list[tuple[object, ...]] = []
        for row, message in enumerate(self._messages(answer, own, ids, reader)):
            if row not in answer.left_out:
                moment, place = moments[row]
                place = f"{place}{natural(message.message_id or '')}"
                rows.append((groups[row], moment, place, pickle.dumps(message), message.at))
        columns = list(zip(*rows, strict=True)) or [()] * len(PACKED)
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, PACKED, strict=True)], schema=PACKED
        )

    def _messages(
        self, answer: BatchAnswer, own: Sequence[dict[str, Any]], ids: Sequence[str], reader: ProfileReader
    ) -> Iterator[PackedMessage]:
        messages = answer.messages
        offsets = answer.offsets.to_pylist()
        keys = answer.keys.take(answer.slots).to_pylist()
        nodes = [None] * len(keys) if answer.nodes is None else answer.nodes.to_pylist()
        payloads = answer.payload_column().to_pylist()
        times = None if messages.times is None or self.settings.published is None else messages.times.to_pylist()
        repairs = _repairs(messages.places, len(ids))
        by_row = {one.row: one for one in answer.rejections}
        for row, (columns, message_id) in enumerate(zip(own, ids, strict=True)):
            part = slice(offsets[row], offsets[row + 1])
            xml = messages.xml[row].as_py() or b""
            rejection = by_row.get(row)
            facts = None
            if rejection is None or rejection.undecided:
                try:
                    facts = reader.read(xml)
                except RejectedMessage as error:
                    rejection = RowRejection.of(row, messages.located(row, error))
            yield PackedMessage(
                columns,
                message_id,
                None if times is None else times[row],
                facts,
                dict(zip(keys[part], nodes[part], strict=True)) if facts is not None else {},
                {key: one for key, one in zip(keys[part], payloads[part], strict=True) if one is not None},
                to_document(xml).decode().removeprefix("\ufeff") if self.whole and facts is not None else None,
                () if rejection is None else rejection.undecided,
                None if rejection is None else _rejected(rejection, messages.xml[row].as_py()),
                len(xml),
                repairs[row],
            )

    def _groups(self, carried: pa.RecordBatch) -> list[str]:
        """Returns the group of each message; another profile begins anew."""
        profile = self.settings.read
        name = f"{profile.name}\n{','.join(profile.identity)}"
        if self.settings.by is None:
            return [name] * carried.num_rows
        return [f"{name}\n{value}" for value in carried.column(self.settings.by).cast(pa.string()).to_pylist()]

    def _moments(self, carried: pa.RecordBatch) -> list[tuple[int, str]]:
        """Returns what puts each message in order, before its id does: a number or time, or a text."""
        settings = self.settings
        if settings.order is not None:
            return _order(carried.column(settings.order))
        if settings.published is not None:
            return _order(carried.column(settings.published))
        if self.files and "_metadata" in carried.schema.names:
            return _order(pc.struct_field(carried.column("_metadata"), "modification_time"))
        return [(0, "")] * carried.num_rows


def relate(group: ChainGroup, packed: Iterable[bytes], now: float) -> Iterator[RelatedMessage]:
    """Yields what follows from messages of a group, which are in order.

    Args:
        group: The chains of the group.
        packed: The messages.
        now: The time, for those that do not say when they were published.
    """
    for one in packed:
        message: PackedMessage = pickle.loads(one)  # noqa: S301 - of this job
        matches = [{"key": key, "nodes": nodes} for key, nodes in message.nodes.items()]
        if message.facts is None:
            yield RelatedMessage(
                message.own, message.message_id, None, None, [], [], message.rejected, message.size, message.repairs
            )
            continue
        at = now if message.at is None else message.at / 1_000_000
        step = group.enter(
            message.facts, list(message.nodes), at=at, message_id=message.message_id, undecided=message.undecided
        )
        yield RelatedMessage(
            message.own,
            message.message_id,
            step.effect.value,
            message.facts.trouble or (None if message.facts.identity is not None else _UNIDENTIFIED),
            matches,
            _deliveries(step, message),
            message.rejected,
            message.size,
            message.repairs,
        )


def expired(group: ChainGroup, due: int, now: float) -> Iterator[RelatedMessage]:
    """Yields the matters that are over at a time that was registered, unless that is news to nobody."""
    for one in group.wake(due, now):
        if one.step.deliveries:
            told = [_delivery(key, None, relation) for key, relation in one.step.deliveries]
            yield RelatedMessage(None, one.message_id, one.step.effect.value, None, [], told, None, 0, 0)


def _deliveries(step: Advance[str], message: PackedMessage) -> list[dict[str, Any]]:
    return [
        _delivery(one.key, message.payloads.get(one.key, message.document), one.relation) for one in step.deliveries
    ]


def _delivery(key: str, payload: str | None, relation: Any) -> dict[str, Any]:
    return {"key": key, "payload": payload, "relation": None if relation is None else str(relation)}


@dataclass(frozen=True, slots=True)
class RelatedAnswer:
    """Some messages after they were related, with the rows that a sink writes."""

    messages: Sequence[RelatedMessage]

    @classmethod
    def of(cls, packed: pa.Array) -> "RelatedAnswer":
        """Returns the messages that Spark has moved."""
        return cls([pickle.loads(one) for one in packed.to_pylist()])  # noqa: S301 - of this job

    @property
    def rejections(self) -> Sequence[RelatedMessage]:
        """The messages that could not be processed, or on which a subscription is undecided."""
        return [one for one in self.messages if one.rejected is not None]

    def counts(self) -> dict[str, int]:
        """Returns the numbers that are not those of rows, as a task reports them."""
        return {
            # A matter that is over by the time is no message.
            "messages": sum(one.own is not None for one in self.messages),
            "bytes": sum(one.size for one in self.messages),
            "repairs": sum(one.repairs for one in self.messages),
            "not_repeated": sum(one.effect in _NOT_REPEATED for one in self.messages),
            "unidentified": sum(one.trouble is not None for one in self.messages),
        }

    def matches(self) -> Iterator[pa.RecordBatch]:
        """Yields rows of :data:`~twigcast.spark.schemas.MATCHES`."""
        yield _rows(MATCHES, ({"message_id": one.message_id, **row} for one in self.messages for row in one.matches))

    def deliveries(self) -> pa.RecordBatch:
        """Returns rows of :data:`~twigcast.spark.schemas.RELATED_DELIVERIES`."""
        rows = ({"message_id": one.message_id, **row} for one in self.messages for row in one.deliveries)
        return _rows(RELATED_DELIVERIES, rows)

    def rejected(self) -> pa.RecordBatch:
        """Returns rows of :data:`~twigcast.spark.schemas.REJECTED`."""
        return _rows(REJECTED, ({"message_id": one.message_id, **(one.rejected or {})} for one in self.rejections))

    def by_message(self, own: pa.Schema, message_id: str) -> pa.RecordBatch:
        """Returns a row per message: the columns of the user, then those of :data:`RELATED_ANSWERS`.

        Of a matter that is over by the time, only the id of its latest message is known.
        """
        kind = own.field(message_id).type if message_id in own.names else None
        columns = []
        for field in own:
            values = [None if one.own is None else one.own[field.name] for one in self.messages]
            if field.name == message_id and kind is not None:
                ids = pa.array([one.message_id for one in self.messages], pa.string())
                columns.append(ids.cast(kind))
            else:
                columns.append(pa.array(values, field.type))
        answers = [
            {"effect": one.effect, "trouble": one.trouble, "matches": one.matches, "deliveries": one.deliveries,
             "rejected": one.rejected}
            for one in self.messages
        ]  # fmt: skip
        added = pa.RecordBatch.from_pylist(answers, RELATED_ANSWERS)
        return pa.RecordBatch.from_arrays([*columns, *added.columns], schema=pa.schema([*own, *RELATED_ANSWERS]))


def _rows(schema: pa.Schema, rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema)


def _rejected(rejection: RowRejection, xml: bytes | None) -> dict[str, Any]:
    return {"reason": rejection.reason, "line": rejection.line, "column": rejection.column, "xml": xml}


def _repairs(places: pa.StructArray | None, count: int) -> list[int]:
    if places is None:
        return [0] * count
    return [number or 0 for number in pc.struct_field(places, "repairs").to_pylist()]


def _order(column: pa.Array) -> list[tuple[int, str]]:
    """Returns what puts messages in order by a column of numbers, times or texts. What has none is of now."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return [(0, f"{natural(text or '')}\0") for text in column.to_pylist()]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    else:
        column = column.cast(pa.int64())
    return [(microseconds(None) if value is None else value, "") for value in column.to_pylist()]


@lru_cache(maxsize=4)
def _profile_reader(profile: str, limits: Limits) -> ProfileReader:
    """Returns a reader, which a worker keeps: its expressions are compiled once."""
    return ProfileReader(profile_of_text(profile), limits)
