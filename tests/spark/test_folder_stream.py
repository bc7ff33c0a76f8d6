"""The record of a watched folder: every file once, in the same micro-batch however often it is asked for."""

import json
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from twigcast.errors import PipelineError
from twigcast.spark.folder_stream import FolderLog, FolderReader
from twigcast.spark.sources.frames import TaskPartition


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("<a/>")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def log_path(tmp_path: Path) -> str:
    return str(tmp_path / "log" / "files.jsonl")


def names(log: FolderLog, start: int, end: int) -> list[str]:
    return [source.id for source in log.files(start, end)]


def test_entries_stay_as_they_were_written(folder: Path, log_path: str) -> None:
    put(folder, "a.xml", "b.xml", "sub/c.xml", ".hidden", "_temporary")
    with FolderLog(log_path, str(folder)) as log:
        log.append(log.pending()[:2])
        put(folder, "0.xml")
        log.append(log.pending())
    (folder / "a.xml").unlink()
    with FolderLog(log_path, str(folder)) as again:
        assert len(again) == 2
        assert (names(again, 0, 1), names(again, 1, 2)) == (["a.xml", "b.xml"], ["0.xml", "sub/c.xml"])
        assert not again.pending()


@pytest.mark.parametrize("kept", [1, 10, -1])
def test_an_entry_cut_off_by_a_kill_is_dropped(folder: Path, log_path: str, kept: int) -> None:
    with FolderLog(log_path, str(folder)) as log:
        for name in ("a.xml", "b.xml"):
            put(folder, name)
            log.append(log.pending())
    lines = Path(log_path).read_bytes().splitlines(keepends=True)
    Path(log_path).write_bytes(b"".join(lines[:-1]) + lines[-1][:kept])
    with FolderLog(log_path, str(folder)) as again:
        assert [source.id for source in again.pending()] == ["b.xml"]
        again.append(again.pending())
    with FolderLog(log_path, str(folder)) as third:
        assert (names(third, 0, 1), names(third, 1, 2)) == (["a.xml"], ["b.xml"])


def test_a_log_cut_off_before_its_first_line_was_whole(folder: Path, log_path: str) -> None:
    put(folder, "a.xml")
    Path(log_path).parent.mkdir()
    Path(log_path).write_text('{"fol')
    with FolderLog(log_path, str(folder)) as log:
        assert len(log) == 0
    assert json.loads(Path(log_path).read_text()) == {"folder": str(folder)}


def test_a_log_belongs_to_one_folder(folder: Path, log_path: str, tmp_path: Path) -> None:
    FolderLog(log_path, str(folder)).close()
    (tmp_path / "other").mkdir()
    with pytest.raises(PipelineError, match="is the record of"):
        FolderLog(log_path, str(tmp_path / "other"))


def test_one_holder_at_a_time(folder: Path, log_path: str) -> None:
    with FolderLog(log_path, str(folder)) as log:
        with pytest.raises(PipelineError, match="in use"):
            FolderLog(log_path, str(folder), lock_seconds=0.1)
        threading.Timer(0.2, log.close).start()
        FolderLog(log_path, str(folder), lock_seconds=10).close()


MakeReader = Callable[..., FolderReader]


@pytest.fixture
def reader_of(folder: Path, log_path: str) -> Iterator[MakeReader]:
    """Makes readers of the folder, and stops them at the end."""
    with ExitStack() as stack:

        def make(files_max: int = 2) -> FolderReader:
            reader = FolderReader({"path": str(folder), "log": log_path, "batchFilesMax": str(files_max)})
            stack.callback(reader.stop)
            return reader

        yield make


def read(reader: FolderReader, start: int, end: int) -> list[dict[str, object]]:
    """The rows of a micro-batch."""
    rows = []
    for partition in reader.partitions({"entries": start}, {"entries": end}):
        assert isinstance(partition, TaskPartition)
        for batch in reader.read(partition):
            rows += batch.to_pylist()
    return rows


def ids(reader: FolderReader, start: int, end: int) -> list[object]:
    return [row["message_id"] for row in read(reader, start, end)]


def test_micro_batches_are_bounded(folder: Path, reader_of: MakeReader) -> None:
    put(folder, *(f"{number}.xml" for number in range(5)))
    reader = reader_of()
    offset = reader.initialOffset()
    for expected in (1, 2, 3, 3):
        offset = reader.latestOffset(offset, ReadAllAvailable())
        assert offset == {"entries": expected}
    assert ids(reader, 0, 1) == ["0.xml", "1.xml"]
    assert ids(reader, 1, 3) == ["2.xml", "3.xml", "4.xml"]
    assert not reader.partitions(offset, offset)


def test_an_entry_that_spark_had_not_heard_of_comes_first(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml", "b.xml", "c.xml")
    killed = reader_of()
    killed.latestOffset({"entries": 0}, ReadAllAvailable())
    killed.stop()
    put(folder, "0.xml")
    reader = reader_of()
    assert reader.latestOffset({"entries": 0}, ReadAllAvailable()) == {"entries": 1}
    assert ids(reader, 0, 1) == ["a.xml", "b.xml"]
    assert reader.latestOffset({"entries": 1}, ReadAllAvailable()) == {"entries": 2}
    assert ids(reader, 1, 2) == ["0.xml", "c.xml"]


def test_available_now_takes_what_is_there_now(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml", "b.xml", "c.xml")
    reader = reader_of()
    reader.prepareForTriggerAvailableNow()
    put(folder, "d.xml")
    last = 0
    while (latest := reader.latestOffset({"entries": last}, ReadAllAvailable())["entries"]) != last:
        last = latest
    assert ids(reader, 0, last) == ["a.xml", "b.xml", "c.xml"]


def test_a_file_that_vanishes_is_a_problem_row(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml", "b.xml")
    reader = reader_of()
    reader.latestOffset({"entries": 0}, ReadAllAvailable())
    (folder / "a.xml").unlink()
    rows = read(reader, 0, 1)
    assert [(row["message_id"], row["problem"] is None) for row in rows] == [("a.xml", False), ("b.xml", True)]


def test_copies_for_tasks_leave_the_log_alone(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml")
    reader = reader_of()
    reader.latestOffset({"entries": 0}, ReadAllAvailable())
    (partition,) = reader.partitions({"entries": 0}, {"entries": 1})
    assert isinstance(partition, TaskPartition)
    copy = pickle.loads(pickle.dumps(reader))
    assert sum(batch.num_rows for batch in copy.read(partition)) == 1
