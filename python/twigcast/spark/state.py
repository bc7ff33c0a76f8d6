"""The state of Spark's streams: what must be set for it, and tables in it."""

import pickle
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from twigcast.errors import MissingExtra, PipelineError
from twigcast.publication import microseconds
from twigcast.spark.chain_tables import KeyedTable

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, TimerValues

STATE_STORE: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKS: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STATE_SETTINGS: Final = {
    STATE_STORE: ROCKS,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
PARTITIONS: Final = "spark.sql.shuffle.partitions"

WATERMARK: Final = "spark.watermarkDelayMs"
"""In the metadata of a column: by how many milliseconds a message may be late."""

RELATED_DDL: Final = "packed binary"
_RELATED: Final = pa.schema([("packed", pa.binary())])
_ROWS_PER_BATCH: Final = 500


def check_state_store(messages: DataFrame) -> None:
    """Raises an error if a stream cannot keep state.

    Raises:
        MissingExtra: Protobuf is not installed, by which workers reach it.
        PipelineError: Its session has another state store.
    """
    if messages.isStreaming:
        check_protobuf()
    if messages.isStreaming and messages.sparkSession.conf.get(STATE_STORE, None) != ROCKS:
        raise PipelineError(f"set {STATE_STORE} to {ROCKS}: the state of this stream needs it")


def check_protobuf() -> None:
    """Raises :class:`MissingExtra` if what workers reach the state by is not installed."""
    try:
        import_module("google.protobuf")
    except ImportError:
        raise MissingExtra("protobuf", "spark") from None


def watermark_of(messages: DataFrame, column: str | None) -> int | None:
    """Returns by how many milliseconds messages of a stream may be late by a column; ``None`` if nothing says so."""
    if column is None or not messages.isStreaming:
        return None
    found = [one.metadata for one in messages.schema.fields if one.name == column]
    return found[0].get(WATERMARK) if found and found[0] else None


def watermarked(schema: pa.Schema, watermark: int | None) -> StructType:
    """Returns the columns of rows whose ``event_time`` has the watermark of the messages, if these have one."""
    metadata = {} if watermark is None else {WATERMARK: watermark}
    return StructType(
        [
            StructField(one.name, one.dataType, metadata=metadata if one.name == "event_time" else None)
            for one in from_arrow_schema(schema).fields
        ]
    )


class StateTable(KeyedTable[Any, Any]):
    """A table in the state of Spark."""

    def __init__(self, state: "MapState") -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        """Returns a value, or ``None`` if there is none."""
        value = self._state.getValue((key,))
        return None if value is None else value[0]

    def put(self, key: Any, value: Any) -> None:
        """Sets a value."""
        self._state.updateValue((key,), (value,))

    def remove(self, key: Any) -> None:
        """Removes a value that is there."""
        self._state.removeKey((key,))


def seconds_now() -> float:
    """Returns the present, in seconds since 1970."""
    return microseconds(None) / 1_000_000


def milliseconds_now(times: "TimerValues", *, has_watermark: bool) -> int:
    """Returns the time that is due in a stream: of the watermark, or of the micro-batch."""
    return times.getCurrentWatermarkInMs() if has_watermark else times.getCurrentProcessingTimeInMs()


def packed_in_order(frames: Iterable[Any]) -> list[Any]:
    """Returns the packed messages of a group in a micro-batch, in order."""
    rows = sorted(
        (moment, place, packed)
        for frame in frames
        for moment, place, packed in zip(frame["moment"], frame["place"], frame["packed"], strict=True)
    )
    return [packed for _, _, packed in rows]


def packed_batches(rows: Iterable[object]) -> Iterator[pa.RecordBatch]:
    """Yields rows packed, as Arrow batches of one column."""
    for packed in _packed(rows):
        yield pa.RecordBatch.from_arrays([pa.array(packed, pa.binary())], schema=_RELATED)


def packed_frames(rows: Iterable[object]) -> Iterator[Any]:
    """Yields rows packed, as Pandas has them."""
    import pandas as pd  # type: ignore[import-untyped]  # workers that keep no state do without it

    for packed in _packed(rows):
        yield pd.DataFrame({"packed": packed})


def _packed(rows: Iterable[object]) -> Iterator[list[bytes]]:
    """Yields rows as Spark moves them on, some at a time."""
    packed: list[bytes] = []
    for row in rows:
        packed.append(pickle.dumps(row))
        if len(packed) >= _ROWS_PER_BATCH:
            yield packed
            packed = []
    if packed:
        yield packed
