"""Batches of messages are put together before they are matched: the same messages, in the same order, within bounds."""

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from twigcast.spark import jobs
from twigcast.spark.jobs import join_batches, message_bytes

SEED = 5


def batch(ids: range, size: int, kind: pa.DataType, *, problem: bool = False) -> pa.RecordBatch:
    columns = {"message_id": pa.array(map(str, ids)), "xml": pa.array([b"x" * size] * len(ids), kind)}
    if problem:
        columns["problem"] = pa.nulls(len(ids), pa.string())
    return pa.record_batch(columns)


def random_batches(chance: random.Random) -> list[pa.RecordBatch]:
    created = []
    start = 0
    for _ in range(chance.randint(0, 30)):
        ids = range(start, start + chance.choice((0, 1, 3, 40, 256)))
        size = chance.choice((0, 10, 1_000, 30_000))
        # A column of another type, or one more, comes with another file.
        kind = chance.choice((pa.binary(), pa.binary(), pa.string()))
        created.append(batch(ids, size, kind, problem=chance.random() < 0.2))
        start = ids.stop
    return created


@pytest.mark.parametrize("seed", range(SEED, SEED + 20))
def test_the_same_messages_within_bounds(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rows_max, bytes_max = 300, 100_000
    monkeypatch.setattr(jobs, "_JOINED_ROWS_MAX", rows_max)
    monkeypatch.setattr(jobs, "_JOINED_BYTES_MAX", bytes_max)
    before = random_batches(random.Random(seed))
    after = list(join_batches(iter(before)))
    assert [row for one in after for row in one.to_pylist()] == [row for one in before for row in one.to_pylist()]
    assert sum(message_bytes(one.column("xml")) for one in after) == sum(
        message_bytes(one.column("xml")) for one in before
    )
    largest_rows = max((one.num_rows for one in before), default=0)
    largest_bytes = max((one.nbytes for one in before), default=0)
    for one in after:
        assert one.num_rows <= max(rows_max, largest_rows)
        assert one.nbytes <= max(bytes_max, largest_bytes) + 1_000  # offsets of the messages


def test_small_batches_are_put_together_and_large_ones_left_alone() -> None:
    small = [batch(range(n, n + 10), 100, pa.binary()) for n in range(0, 1_000, 10)]
    assert [one.num_rows for one in join_batches(iter(small))] == [1_000]
    large = [batch(range(3), 2 << 20, pa.binary()) for _ in range(3)]
    assert [one.num_rows for one in join_batches(iter(large))] == [3, 3, 3]
    assert list(join_batches(iter([]))) == []


def test_batches_are_handed_on_before_all_are_read() -> None:
    taken = []

    def source() -> Iterator[pa.RecordBatch]:
        for n in range(10):
            taken.append(n)
            yield batch(range(n * 1_000, (n + 1) * 1_000), 10, pa.binary())

    first = next(join_batches(source()))
    assert first.num_rows == 1_000
    assert taken == [0, 1]
