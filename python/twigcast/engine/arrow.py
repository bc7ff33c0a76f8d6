"""Matching Arrow batches: the engine's buffers, wrapped as Arrow arrays without copying."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from twigcast.arrow_types import ArrowColumn
from twigcast.engine.session import BatchPart, EngineSession, MessageBuffers
from twigcast.errors import (
    MissingExtra,
    RejectedMessage,
    SourceError,
    TwigcastError,
    UndecidedSubscription,
    UnreadableMessage,
)
from twigcast.publication import microseconds_of_each
from twigcast.reading.text import as_bytes, is_null

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as missing:
    raise MissingExtra("pyarrow", "arrow") from missing

if TYPE_CHECKING:
    from twigcast._core import BatchResult, NumberBuffer

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

# Making a type is slow: making all of them would take a tenth of the time of a batch of one message.
_INT32: Final = pa.int32()
_KEY_TYPE: Final = KEYS_TYPE.value_type
_PAYLOAD_TYPE: Final = PAYLOADS_TYPE.value_type

_OFFSET: Final = Struct("<q")

_CACHED_NULLS_MAX: Final = 1_024

_DECLARES_ENCODING: Final = r"^<\?xml[ \t\r\n][^>]*[ \t\r\n]encoding"

NULL_MESSAGE: Final = "there is no message: it is null"
"""Why a row without a message is rejected."""

_NO_MESSAGE: Final = UnreadableMessage(NULL_MESSAGE)


def match_batch(
    session: EngineSession,
    messages: Any,
    *,
    column: str = "xml",
    deliver: bool = False,
    nodes: bool = False,
    grouped: bool = False,
    threads: int = 1,
    published: Any = None,
) -> pa.RecordBatch:
    """Matches many messages at once: see :meth:`twigcast.SubscriptionSet.match_batch`."""
    if not isinstance(threads, int):
        raise TypeError(f"threads must be int, not {type(threads).__name__}")
    if threads < 0:
        raise ValueError(f"threads must not be negative, as {threads} is")
    if grouped and (deliver or nodes):
        raise ValueError("an answer in groups has neither payloads nor nodes, which go by key")
    xml, errors = _message_array(messages, column, session.limits.message_bytes_max)
    times = microseconds_of_each(published, len(xml))
    if session.reading.changes_messages:
        plain, failures = session.prepare(message.as_py() for message in xml)
        xml, errors = pa.array(plain, pa.large_binary()), {**errors, **failures}
    if grouped and not session.engine.has_external:
        return _match_groups(session, xml, errors, threads, times)
    parts = session.match_batch(message_buffers(xml), deliver=deliver, nodes=nodes, threads=threads, published=times)
    answers = _wrapped(next(parts), errors, deliver=deliver, nodes=nodes)
    for part in parts:
        its_errors = {index: errors[row] for index, row in enumerate(part.rows) if row in errors}
        answers = _replaced(answers, part.rows, _wrapped(part, its_errors, deliver=deliver, nodes=nodes))
    return _each_its_own_group(answers) if grouped else answers


def _match_groups(
    session: EngineSession,
    xml: pa.LargeBinaryArray,
    errors: dict[int, TwigcastError],
    threads: int,
    published: list[int],
) -> pa.RecordBatch:
    count = len(xml)

    def matched(messages: pa.LargeBinaryArray) -> BatchResult:
        return session.engine.match_batch(
            *message_buffers(messages), threads=min(threads, count), naming="groups", published=published
        )

    result = matched(xml)
    if result.needs_conversion:
        # All are matched again: arrays with different dictionaries of lists cannot be concatenated.
        rows = result.needs_conversion
        plain, failures = session.convert(xml[row].as_py() for row in rows)
        xml = pa.concat_arrays([xml, pa.array(plain, pa.large_binary())]).take(_order(count, rows))
        result = matched(xml)
        errors = {**errors, **{rows[index]: error for index, error in failures.items()}}
    errors = {**dict(result.errors), **errors}
    assert result.keys is not None, "the matches are positions in a table"
    validity = _bitmap(row not in errors for row in range(count)) if errors else None
    values = pa.DictionaryArray.from_arrays(int32_array(result.matches), result.keys.arrow(), safe=False)
    buffers = [validity, pa.py_buffer(result.match_offsets)]
    counts = [validity, pa.py_buffer(result.match_counts)]
    columns = {
        "groups": pa.Array.from_buffers(GROUPS_TYPE, count, buffers, len(errors), children=[values]),
        "matches": pa.Array.from_buffers(_INT32, count, counts, len(errors)),
        "error": _errors(errors, count),
        "undecided": _undecided_column(result, count),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _each_its_own_group(answers: pa.RecordBatch) -> pa.RecordBatch:
    """Returns keys as groups of one key each."""
    keys = answers.column("keys")
    names = keys.values.dictionary
    alone = pa.ListArray.from_arrays(pa.array(range(len(names) + 1), pa.int32()), names)
    values = pa.DictionaryArray.from_arrays(keys.values.indices, alone)
    groups = pa.ListArray.from_arrays(keys.offsets, values, mask=keys.is_null())
    columns = {"groups": groups, "matches": keys.value_lengths()}
    columns |= {name: answers.column(name) for name in ("error", "undecided")}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def keys_of_groups(
    groups: ArrowColumn[list[list[str]] | None] | ArrowColumn[object],
) -> ArrowColumn[list[str] | None]:
    """Returns the keys of each message, as ``list<dictionary<int32, string>>``, from the column ``groups``."""
    keys: ArrowColumn[list[str] | None] = _keys_of_groups(groups)
    return keys


def _keys_of_groups(groups: pa.ListArray) -> pa.ListArray:
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


def _message_array(messages: Any, column: str, bytes_max: int) -> tuple[pa.LargeBinaryArray, dict[int, TwigcastError]]:
    """Returns the messages as one array, and the errors of those that there are not, by row."""
    errors: dict[int, TwigcastError] = {}
    if not isinstance(messages, pa.LargeBinaryArray):
        array = _arrow_array(messages, column)
        if array is None:
            is_frame = hasattr(messages, "itertuples")
            array, errors = _listed(messages[column] if is_frame else messages, bytes_max)
        messages = array
    if messages.null_count:
        nulls = pc.indices_nonzero(messages.is_null()).to_pylist()
        errors = {**dict.fromkeys(nulls, _NO_MESSAGE), **errors}
    return messages, errors


def _arrow_array(messages: Any, column: str) -> pa.LargeBinaryArray | None:
    """Returns messages in Arrow as one array; ``None`` if they are not in Arrow."""
    if not isinstance(messages, pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table):
        if hasattr(messages, "itertuples") and hasattr(messages, "columns"):
            return _column_of_pandas(messages, column)
        if hasattr(messages, "__arrow_c_stream__"):
            messages = pa.chunked_array(messages)
        elif hasattr(messages, "__arrow_c_array__"):
            messages = pa.array(messages)
        else:
            return None
    messages = _named_column(messages, column)
    if isinstance(messages, pa.ChunkedArray):
        chunks = map(_run_ends_decoded, messages.chunks)
        messages = pa.chunked_array(chunks, _run_ends_decoded(pa.nulls(0, messages.type)).type).combine_chunks()
    messages = _run_ends_decoded(messages)
    if pa.types.is_dictionary(messages.type):
        # Arrow decodes no dictionary of views, which polars has; plain strings it does.
        values = messages.dictionary
        if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
            values = values.cast(pa.large_binary())
        messages = values.take(messages.indices)
    if pa.types.is_null(messages.type):
        return pa.nulls(len(messages), pa.large_binary())
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    others = (pa.types.is_string_view, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    if not any(is_kind(messages.type) for is_kind in (*kinds, *others)):
        raise TypeError(f"messages must be strings or binary, not {messages.type}")
    is_text = any(is_kind(messages.type) for is_kind in (kinds[0], kinds[1], pa.types.is_string_view))
    return _encoded(messages) if is_text else messages.cast(pa.large_binary())


def _run_ends_decoded(array: pa.Array) -> pa.Array:
    """Returns an array row by row, if it was written in runs of equal rows."""
    return pc.run_end_decode(array) if pa.types.is_run_end_encoded(array.type) else array


def _column_of_pandas(frame: Any, column: str) -> pa.LargeBinaryArray | None:
    """Returns the column of messages of a frame as one array; ``None`` if it is not in Arrow."""
    _check_column(list(frame.columns), column)  # other columns may be of kinds that Arrow does not have
    try:
        array = pa.Array.from_pandas(frame[column])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None  # texts and bytes are mixed
    return _arrow_array(array, column)


def _encoded(texts: Any) -> pa.LargeBinaryArray:
    """Returns decoded texts as messages: the encodings that they declare no longer hold."""
    texts = texts.cast(pa.large_string())
    messages = texts.cast(pa.large_binary())
    declaring = pc.match_substring_regex(texts, _DECLARES_ENCODING).fill_null(False)
    rows = pc.indices_nonzero(declaring).to_pylist()
    if not rows:
        return messages
    undeclared = pa.array([as_bytes(texts[row].as_py()) for row in rows], pa.large_binary())
    return pc.replace_with_mask(messages, declaring, undeclared)


def _named_column(messages: Any, column: str) -> Any:
    """Returns the column of messages of a table, or of an array of structures; any other array as it is."""
    is_table = isinstance(messages, pa.RecordBatch | pa.Table)
    if not is_table and not pa.types.is_struct(messages.type):
        return messages
    names = messages.schema.names if is_table else [field.name for field in messages.type]
    _check_column(names, column)
    return messages.column(column) if is_table else pc.struct_field(messages, column)


def _check_column(names: list[Any], column: str) -> None:
    if names.count(column) != 1:
        raise ValueError(f"messages must have one column {column!r}, and have {', '.join(map(repr, names))}")


def _listed(messages: Any, bytes_max: int) -> tuple[pa.LargeBinaryArray, dict[int, TwigcastError]]:
    """Returns the messages of an iterable as one array, and errors by row."""
    if isinstance(messages, str | bytes | bytearray | memoryview) or not isinstance(messages, Iterable):
        what = f"Arrow data or an iterable of messages or None, not {type(messages).__name__}"
        raise TypeError(f"messages must be {what}")
    if isinstance(messages, Mapping):
        raise TypeError("messages must be in order, and a mapping would be taken for its keys: pass mapping.values()")
    errors: dict[int, TwigcastError] = {}
    plain: list[bytes | None] = []
    for row, message in enumerate(messages):
        try:
            plain.append(None if _is_missing(message) else as_bytes(message, bytes_max))
        except RejectedMessage as error:
            errors[row] = error
            plain.append(None)
        except SourceError as error:
            errors[row] = UnreadableMessage(str(error))
            plain.append(None)
        except TypeError as error:
            raise TypeError(f"messages[{row}]: {error}") from None
    return pa.array(plain, pa.large_binary()), errors


def _is_missing(message: object) -> bool:
    """Returns whether there is no message: ``None``, or what columns of numpy and pandas hold in its place."""
    return (
        message is None
        or (isinstance(message, float) and message != message)
        or type(message).__name__ == "NAType"
        or is_null(message)
    )


def message_buffers(xml: pa.LargeBinaryArray) -> MessageBuffers:
    """Returns the buffers of an array, without anything before or behind its messages."""
    _, offsets, data = xml.buffers()
    if offsets is None or data is None or not len(xml):
        return MessageBuffers(bytes(8 * (len(xml) + 1)), b"", len(xml))
    its_own = offsets.slice(8 * xml.offset, 8 * (len(xml) + 1)).to_pybytes()
    (first,), (last,) = _OFFSET.unpack_from(its_own), _OFFSET.unpack_from(its_own, 8 * len(xml))
    return MessageBuffers(its_own, memoryview(data).cast("B")[first:last], len(xml))


def _wrapped(part: BatchPart, errors: dict[int, TwigcastError], *, deliver: bool, nodes: bool) -> pa.RecordBatch:
    """Returns the engine's buffers as a record batch. ``errors`` come before those of the part."""
    result = part.result
    errors = {**dict(part.errors), **errors}
    offsets = pa.py_buffer(result.match_offsets)
    count, matches = len(part.rows), len(result.matches)
    validity = _bitmap(row not in errors for row in range(count)) if errors else None

    def lists(list_type: pa.DataType, values: pa.Array) -> pa.Array:
        return pa.Array.from_buffers(list_type, count, [validity, offsets], len(errors), children=[values])

    assert result.keys is not None, "the matches are positions in a table"
    keys = pa.DictionaryArray.from_buffers(
        _KEY_TYPE, matches, [None, pa.py_buffer(result.matches)], result.keys.arrow()
    )
    columns = {"keys": lists(KEYS_TYPE, keys)}
    if nodes:
        columns["nodes"] = lists(NODES_TYPE, int32_array(result.node_counts))
    if deliver:
        columns["payloads"] = lists(PAYLOADS_TYPE, payload_column(result))
    columns["error"] = _errors(errors, count)
    columns["undecided"] = _undecided_column(result, count)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def int32_array(numbers: NumberBuffer) -> pa.Int32Array:
    """Returns numbers of the engine as an Arrow array in the same memory."""
    return pa.Array.from_buffers(_INT32, len(numbers), [None, pa.py_buffer(numbers)])


def payload_column(result: BatchResult, kind: pa.DictionaryType = _PAYLOAD_TYPE) -> pa.DictionaryArray:
    """Returns the payload of each match, of one of two dictionary types; null for the message itself."""
    buffers = [None, pa.py_buffer(result.payload_offsets), pa.py_buffer(result.payloads)]
    different = pa.Array.from_buffers(kind.value_type, len(result.payload_offsets) - 1, buffers)
    validity = pa.py_buffer(result.payload_validity) if len(result.payload_validity) else None
    indices = [validity, pa.py_buffer(result.payload_indices)]
    return pa.DictionaryArray.from_buffers(kind, len(result.payload_indices), indices, different)


def _errors(errors: dict[int, TwigcastError], count: int) -> pa.StructArray:
    if not errors:
        return _no_errors(count) if count <= _CACHED_NULLS_MAX else pa.nulls(count, ERROR_TYPE)
    return pa.array([errors[row].details() if row in errors else None for row in range(count)], ERROR_TYPE)


# Making so many nulls takes longer than a small batch does otherwise; and arrays never change. They are cached by their
# length alone, since for Arrow to hash a type takes nearly as long.
@lru_cache(maxsize=16)
def _no_errors(count: int) -> pa.StructArray:
    return pa.nulls(count, ERROR_TYPE)


@lru_cache(maxsize=16)
def _none_undecided(count: int) -> pa.ListArray:
    return pa.nulls(count, UNDECIDED_TYPE)


def _undecided_column(result: BatchResult, count: int) -> pa.ListArray:
    if not result.failures:
        return _none_undecided(count) if count <= _CACHED_NULLS_MAX else pa.nulls(count, UNDECIDED_TYPE)
    by_row: list[list[dict[str, object]] | None] = [None] * count
    for row, failure in result.failures:
        if isinstance(failure, UndecidedSubscription):
            by_row[row] = [*(by_row[row] or []), {"key": failure.key, "reason": failure.reason}]
    return pa.array(by_row, UNDECIDED_TYPE)


def _replaced(answers: pa.RecordBatch, rows: Sequence[int], replacements: pa.RecordBatch) -> pa.RecordBatch:
    """Returns ``answers`` with row ``rows[n]`` replaced by row *n* of ``replacements``."""
    order = _order(answers.num_rows, rows)
    columns = [
        pa.concat_arrays([first, second]).take(order)
        for first, second in zip(answers.columns, replacements.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=answers.schema)


def _order(count: int, rows: Sequence[int]) -> pa.Int64Array:
    """Returns the order that puts item ``count + n`` of a list in row ``rows[n]``."""
    order = list(range(count))
    for number, row in enumerate(rows):
        order[row] = count + number
    return pa.array(order, pa.int64())


def _bitmap(bits: Iterable[bool]) -> pa.Buffer:
    return pa.array(bits, pa.bool_()).buffers()[1]
