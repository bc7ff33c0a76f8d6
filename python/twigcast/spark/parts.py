"""What a task does: match its messages and write the answers straight to Parquet, in a staging folder.

Answers are written by the Python worker that has them, not sent back through the JVM: with 200 matches a message that
is four times faster. A task names its files after its partition and attempt, and reports them in one row; only
reported files are ever committed, so attempts that fail, or run twice, leave nothing behind.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext

from twigcast.spark.matching import BatchAnswer, BatchMatcher
from twigcast.spark.schemas import KINDS
from twigcast.spark.snapshots import Snapshot, load_session

REPORT_DDL: Final = (
    "partition int, attempt bigint, messages bigint, matches bigint, deliveries bigint, rejected bigint, bytes bigint"
)
REPORT: Final = pa.schema(
    [("partition", pa.int32())]
    + [(name, pa.int64()) for name in ("attempt", "messages", "matches", "deliveries", "rejected", "bytes")]
)

COMPRESSION: Final = "zstd"
_COMPRESSION_LEVEL: Final = 1
_ROWS_MAX: Final = 1 << 18
_BYTES_MAX: Final = 32 << 20
"""A row group is written once it has this many rows or bytes."""


_GATHERED_ROWS_MAX: Final = 1_024
_GATHERED_BYTES_MAX: Final = 4 << 20
"""Messages that are matched at a time, at most, unless they came together."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What one task did."""

    partition: int
    attempt: int
    messages: int
    matches: int
    deliveries: int
    rejected: int
    bytes: int

    def file_name(self) -> str:
        """Name of the files that the task wrote in the folder of each kind that it has rows of."""
        return part_name(self.partition, self.attempt)

    def rows(self, kind: str) -> int:
        """How many rows of a kind it wrote."""
        return {"matches": self.matches, "deliveries": self.deliveries, "rejected": self.rejected}[kind]


def part_name(partition: int, attempt: int) -> str:
    """Name of a staged file."""
    return f"part-{partition:05d}.{attempt}.parquet"


class PartWriter:
    """Writes rows of one kind to one Parquet file, which is made with the first row."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= _ROWS_MAX or self._waiting_bytes >= _BYTES_MAX:
            self._flush()

    def close(self) -> None:
        """Finish the file."""
        if self._waiting:
            self._flush()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(
                self._path, self._schema, compression=COMPRESSION, compression_level=_COMPRESSION_LEVEL
            )
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self.rows += self._waiting_rows
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


class AnswerWriter:
    """Writes answers as matches, deliveries and rejected messages."""

    def __init__(self, staging: Path, partition: int, attempt: int) -> None:
        name = part_name(partition, attempt)
        self._writers = {kind: PartWriter(staging / kind / name, schema) for kind, schema in KINDS.items()}

    def write(self, answers: BatchAnswer) -> None:
        """Add answers."""
        for batch in answers.matches():
            self._writers["matches"].write(batch)
        self._writers["deliveries"].write(answers.deliveries())
        if answers.rejections:
            self._writers["rejected"].write(answers.rejected())

    def close(self) -> dict[str, int]:
        """Finish the files; the number of rows of each kind."""
        for writer in self._writers.values():
            writer.close()
        return {kind: writer.rows for kind, writer in self._writers.items()}


def answer_writing(
    read: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    snapshot: Snapshot,
    staging: str,
    *,
    nodes: bool,
    count: Callable[[int], None],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow`` that matches the messages of a task and answers with its report.

    Args:
        read: Gets the messages from what the task is handed: ``message_id``, ``xml`` and perhaps ``problem``.
        snapshot: The subscriptions.
        staging: Folder for the files; tasks and driver see it under this path.
        nodes: Whether to count selected nodes.
        count: Told how many messages the task did, at its end.
    """

    def write_answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        partition, attempt = context.partitionId(), context.taskAttemptId()
        matcher = BatchMatcher(load_session(snapshot), nodes=nodes, envelope=snapshot.envelope, whole=snapshot.whole)
        writer = AnswerWriter(Path(staging), partition, attempt)
        messages = size = 0
        for batch in gathered(read(batches)):
            for answers in matcher.answers(batch):
                writer.write(answers)
            messages += batch.num_rows
            size += message_bytes(batch.column("xml"))
        rows = writer.close()
        count(messages)
        report = [partition, attempt, messages, rows["matches"], rows["deliveries"], rows["rejected"], size]
        yield pa.RecordBatch.from_arrays(
            [pa.array([value], field.type) for value, field in zip(report, REPORT, strict=True)], schema=REPORT
        )

    return write_answers


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same messages in fewer batches: what is done once for each batch costs as much as matching a hundred."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        full = rows + batch.num_rows > _GATHERED_ROWS_MAX or size + batch.nbytes > _GATHERED_BYTES_MAX
        if waiting and (full or batch.schema != waiting[0].schema):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def message_bytes(xml: pa.Array) -> int:
    """Bytes of the messages in a column."""
    return pc.sum(pc.binary_length(xml)).as_py() or 0


def write_empty(path: Path, kind: str) -> None:
    """Write a file of no rows, so that a folder can be read whatever came out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(KINDS[kind].empty_table(), path, compression=COMPRESSION)
