"""Matching Arrow batches: the engine's raw buffers, wrapped as Arrow arrays without copying.

Messages that the engine cannot scan as they are (other encodings, entity declarations) are converted and matched in a
second batch, whose rows then take the places of the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from twigcast._core import BatchResult
from twigcast.engine.external import Answers, match_count
from twigcast.engine.external import match_batch as ask_batch
from twigcast.engine.key_tables import GroupTable, KeyTable
from twigcast.errors import MissingExtra, RejectedMessage, TwigcastError, UndecidedSubscription, UnreadableMessage
from twigcast.reading.conversion import to_utf8

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as missing:
    raise MissingExtra("pyarrow", "arrow") from missing

if TYPE_CHECKING:
    from twigcast.subscriptions import SubscriptionSet

ERROR_TYPE: Final = pa.struct(
    [("code", pa.string()), ("reason", pa.string()), ("line", pa.int32()), ("column", pa.int32())]
)
"""Why a message was rejected; ``line`` and ``column`` are null where no place is meant."""

UNDECIDED_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("reason", pa.string())]))
"""Subscriptions that could not be decided on a message."""

KEYS_TYPE: Final = pa.list_(pa.dictionary(pa.int32(), pa.string()))
GROUPS_TYPE: Final = pa.list_(pa.dictionary(pa.int32(), pa.list_(pa.string())))
NODES_TYPE: Final = pa.list_(pa.int32())
PAYLOADS_TYPE: Final = pa.list_(pa.dictionary(pa.int32(), pa.large_binary()))

# To make a type takes longer than one would think: for a batch of one message, all of them a tenth of the time.
_INT32: Final = pa.int32()
_KEY_TYPE: Final = KEYS_TYPE.value_type
_PAYLOAD_TYPE: Final = PAYLOADS_TYPE.value_type

_OFFSET: Final = Struct("<q")

_PADDING_MAX: Final = 64
"""Bytes that there may be behind the data of an array."""

_KEPT_NULLS_MAX: Final = 1_024

_NO_MESSAGE: Final = UnreadableMessage("there is no message: it is null")


class _BatchOptions(NamedTuple):
    """What to answer with."""

    deliver: bool
    nodes: bool
    threads: int


class _Messages(NamedTuple):
    """Messages as one array, and its buffers as the engine takes them: with nothing before or behind it in them."""

    array: pa.LargeBinaryArray
    offsets: bytes
    data: bytes | memoryview

    @classmethod
    def of(cls, xml: pa.LargeBinaryArray) -> Self:
        """The messages of an array."""
        _, offsets, data = xml.buffers()
        if _is_part(xml, offsets, data):
            xml = pa.concat_arrays([xml])
            _, offsets, data = xml.buffers()
        plain = bytes(8) if offsets is None else offsets.to_pybytes()
        return cls(xml, plain, b"" if data is None else memoryview(data).cast("B"))


def match_batch(
    subscriptions: SubscriptionSet, messages: Any, *, deliver: bool, nodes: bool, grouped: bool, threads: int
) -> pa.RecordBatch:
    """Match many messages at once: see :meth:`twigcast.SubscriptionSet.match_batch`."""
    if threads < 0:
        raise ValueError(f"threads must not be negative, as {threads} is")
    xml = _Messages.of(_message_column(messages))
    requested = _BatchOptions(deliver, nodes, threads)
    if grouped and (deliver or nodes):
        raise ValueError("payloads and nodes are told by key, not by group")
    if grouped and not subscriptions.engine.has_external:
        return _match_groups(subscriptions, xml, threads)
    answers = _match_keys(subscriptions, xml, requested)
    return _each_its_own_group(answers) if grouped else answers


def _match_keys(subscriptions: SubscriptionSet, xml: _Messages, requested: _BatchOptions) -> pa.RecordBatch:
    table = subscriptions.tables.keys()
    first, keys = _ask(subscriptions, xml, requested, table)
    answers = _wrap(first, {**dict(first.errors), **_nulls(xml.array)}, keys, requested)
    if first.needs_conversion:
        plain, failures = _converted(xml.array, first.needs_conversion, subscriptions.limits.message_bytes_max)
        second, keys = _ask(subscriptions, _Messages.of(plain), requested, table)
        delayed = _wrap(second, {**dict(second.errors), **failures}, keys, requested)
        answers = _replace_rows(answers, first.needs_conversion, delayed)
    return answers


def _match_groups(subscriptions: SubscriptionSet, messages: _Messages, threads: int) -> pa.RecordBatch:
    result, groups = _ask_groups(subscriptions, messages, threads)
    xml = messages.array
    errors = {**dict(result.errors), **_nulls(xml)}
    if result.needs_conversion:
        # All again: answers with different dictionaries of groups cannot be put together.
        rows = result.needs_conversion
        plain, failures = _converted(xml, rows, subscriptions.limits.message_bytes_max)
        order = list(range(len(xml)))
        for number, row in enumerate(rows):
            order[row] = len(xml) + number
        xml = pa.concat_arrays([xml, plain]).take(pa.array(order, pa.int64()))
        result, groups = _ask_groups(subscriptions, _Messages.of(xml), threads)
        errors = {**dict(result.errors), **errors, **{rows[number]: error for number, error in failures.items()}}
    offsets, count = pa.py_buffer(result.key_offsets), len(xml)
    validity = _bitmap(row not in errors for row in range(count)) if errors else None
    numbers = pa.Array.from_buffers(_INT32, len(result.matches), [None, pa.py_buffer(result.matches)])
    values = pa.DictionaryArray.from_arrays(numbers, groups, safe=False)
    columns = {
        "groups": pa.Array.from_buffers(GROUPS_TYPE, count, [validity, offsets], len(errors), children=[values]),
        "matches": pa.Array.from_buffers(_INT32, count, [validity, pa.py_buffer(result.match_counts)], len(errors)),
        "error": _errors(errors, count),
        "undecided": _undecided(result, count),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _ask_groups(subscriptions: SubscriptionSet, xml: _Messages, threads: int) -> tuple[BatchResult, pa.ListArray]:
    table, count = subscriptions.tables.groups(), len(xml.array)
    result = subscriptions.engine.match_batch(
        xml.offsets, xml.data, count, None, False, False, min(threads, count), (table.version, 0, 0), True
    )
    if result.groups is None:
        return result, table.arrow()
    groups = GroupTable(-1, *result.groups).arrow()
    subscriptions.tables.note_grouped(len(groups.values))
    return result, groups


def _each_its_own_group(answers: pa.RecordBatch) -> pa.RecordBatch:
    """Keys as groups of one key each."""
    keys = answers.column("keys")
    names = keys.values.dictionary
    alone = pa.ListArray.from_arrays(pa.array(range(len(names) + 1), pa.int32()), names)
    values = pa.DictionaryArray.from_arrays(keys.values.indices, alone)
    groups = pa.ListArray.from_arrays(keys.offsets, values, mask=keys.is_null())
    columns = {"groups": groups, "matches": keys.value_lengths()}
    columns |= {name: answers.column(name) for name in ("error", "undecided")}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def keys_of_groups(groups: pa.ListArray) -> pa.ListArray:
    """The keys of each message, as ``list<dictionary<int32, string>>``, from the column ``groups``."""
    lengths = pc.fill_null(groups.value_lengths(), 0)
    # Where there are null rows and no groups, Arrow would have to make an empty dictionary of lists, which it cannot.
    members = groups.flatten() if pc.sum(lengths).as_py() else groups.values[:0]
    by_group = members.dictionary
    positions = pa.ListArray.from_arrays(by_group.offsets, pa.array(range(len(by_group.values)), pa.int32()))
    named = positions.take(members.indices)
    ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    keys = pa.DictionaryArray.from_arrays(named.flatten(), by_group.values, safe=False)
    mask = groups.is_null() if groups.null_count else None
    return pa.ListArray.from_arrays(named.offsets.take(ends), keys, mask=mask)


def _nulls(xml: pa.LargeBinaryArray) -> dict[int, TwigcastError]:
    rows = pc.indices_nonzero(xml.is_null()).to_pylist() if xml.null_count else []
    return dict.fromkeys(rows, _NO_MESSAGE)


def _converted(
    xml: pa.LargeBinaryArray, rows: Iterable[int], bytes_max: int
) -> tuple[pa.LargeBinaryArray, dict[int, TwigcastError]]:
    """Some rows as plain UTF-8, and which of these could not be converted."""
    plain: list[bytes] = []
    failures: dict[int, TwigcastError] = {}
    for row in rows:
        try:
            plain.append(to_utf8(xml[row].as_py(), bytes_max))
        except RejectedMessage as error:
            failures[len(plain)] = error
            plain.append(b"")
    return pa.array(plain, pa.large_binary()), failures


def _message_column(messages: Any) -> pa.LargeBinaryArray:
    """The messages as one array."""
    if isinstance(messages, pa.LargeBinaryArray):
        return messages
    if isinstance(messages, pa.RecordBatch | pa.Table):
        messages = messages.column("xml")
    if isinstance(messages, pa.ChunkedArray):
        messages = messages.combine_chunks()
    if not isinstance(messages, pa.Array):
        raise TypeError(f"messages must be an Arrow array or record batch, not {type(messages).__name__}")
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if not any(is_kind(messages.type) for is_kind in (*kinds, pa.types.is_string_view, pa.types.is_binary_view)):
        raise TypeError(f"messages must be strings or binary, not {messages.type}")
    return messages.cast(pa.large_binary())


def _is_part(xml: pa.LargeBinaryArray, offsets: pa.Buffer | None, data: pa.Buffer | None) -> bool:
    """Is there more in the array's buffers than what belongs to it?"""
    if xml.offset:
        return True
    if offsets is None or data is None or not len(xml):
        return data is not None and data.size > 0
    # Arrow can tell how many bytes are used, but takes as long for that as for all the rest here.
    (first,), (last,) = _OFFSET.unpack_from(offsets), _OFFSET.unpack_from(offsets, _OFFSET.size * len(xml))
    return bool(first > 0 or last + _PADDING_MAX < data.size)


def _ask(
    subscriptions: SubscriptionSet, xml: _Messages, requested: _BatchOptions, table: KeyTable
) -> tuple[Answers, pa.StringArray]:
    """The engine's answer, and the keys that its slots stand for: those of the table, unless that is out of date."""
    count = len(xml.array)
    result = ask_batch(
        subscriptions.engine,
        xml.offsets,
        xml.data,
        count,
        deliver=requested.deliver,
        nodes=requested.nodes,
        threads=min(requested.threads, count),
        known=table.at_hand,
    )
    return result, subscriptions.tables.of_answer(table, result).arrow()


def _wrap(
    result: Answers, errors: dict[int, TwigcastError], keys: pa.StringArray, requested: _BatchOptions
) -> pa.RecordBatch:
    """The engine's buffers as a record batch. ``keys`` are what the slots stand for."""
    offsets = pa.py_buffer(result.key_offsets)
    count = offsets.size // 4 - 1
    matches = match_count(result)
    validity = _bitmap(row not in errors for row in range(count)) if errors else None

    def lists(list_type: pa.DataType, values: pa.Array) -> pa.Array:
        return pa.Array.from_buffers(list_type, count, [validity, offsets], len(errors), children=[values])

    outcome = pa.DictionaryArray.from_buffers(_KEY_TYPE, matches, [None, _slots(result)], keys)
    columns = {"keys": lists(KEYS_TYPE, outcome)}
    if requested.nodes:
        counts = pa.Array.from_buffers(_INT32, matches, [None, pa.py_buffer(result.node_counts)])
        columns["nodes"] = lists(NODES_TYPE, counts)
    if requested.deliver:
        columns["payloads"] = lists(PAYLOADS_TYPE, payload_column(result))
    columns["error"] = _errors(errors, count)
    columns["undecided"] = _undecided(result, count)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _slots(result: Answers) -> pa.Buffer:
    """The slots, where they are."""
    return pa.py_buffer(result.matches if isinstance(result, BatchResult) else result.slots)


def payload_column(result: Answers, kind: pa.DictionaryType = _PAYLOAD_TYPE) -> pa.DictionaryArray:
    """The payload of each match, null for the message itself. ``kind``: of large binary, or of large string."""
    offsets = pa.py_buffer(result.payload_offsets)
    buffers = [None, offsets, pa.py_buffer(result.payloads)]
    different = pa.Array.from_buffers(kind.value_type, offsets.size // 8 - 1, buffers)
    numbers = pa.py_buffer(result.payload_numbers)
    validity = pa.py_buffer(result.payload_validity) if result.payload_validity else None
    return pa.DictionaryArray.from_buffers(kind, numbers.size // 4, [validity, numbers], different)


def _errors(errors: dict[int, TwigcastError], count: int) -> pa.StructArray:
    if not errors:
        return _no_errors(count) if count <= _KEPT_NULLS_MAX else pa.nulls(count, ERROR_TYPE)
    return pa.array([errors[row].details() if row in errors else None for row in range(count)], ERROR_TYPE)


# To make so many nulls takes longer than small batches do otherwise; and arrays never change. They are kept by their
# number alone, since for Arrow to hash a type takes nearly as long.
@lru_cache(maxsize=16)
def _no_errors(count: int) -> pa.StructArray:
    return pa.nulls(count, ERROR_TYPE)


@lru_cache(maxsize=16)
def _none_undecided(count: int) -> pa.ListArray:
    return pa.nulls(count, UNDECIDED_TYPE)


def _undecided(result: Answers, count: int) -> pa.ListArray:
    if not result.failures:
        return _none_undecided(count) if count <= _KEPT_NULLS_MAX else pa.nulls(count, UNDECIDED_TYPE)
    by_row: list[list[dict[str, object]] | None] = [None] * count
    for row, failure in result.failures:
        if isinstance(failure, UndecidedSubscription):
            by_row[row] = [*(by_row[row] or []), {"key": failure.key, "reason": failure.reason}]
    return pa.array(by_row, UNDECIDED_TYPE)


def _replace_rows(answers: pa.RecordBatch, rows: list[int], replacements: pa.RecordBatch) -> pa.RecordBatch:
    """``answers`` with row ``rows[n]`` replaced by row *n* of ``replacements``."""
    order = list(range(answers.num_rows))
    for number, row in enumerate(rows):
        order[row] = answers.num_rows + number
    columns = [
        pa.concat_arrays([first, second]).take(pa.array(order, pa.int64()))
        for first, second in zip(answers.columns, replacements.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=answers.schema)


def _bitmap(bits: Iterable[bool]) -> pa.Buffer:
    return pa.array(bits, pa.bool_()).buffers()[1]
