"""A stream of files: every version once, in the same micro-batch however often it is asked for, also after a kill."""

import json
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from twigcast.errors import PipelineError, SourceError
from twigcast.spark import file_offsets
from twigcast.spark.file_offsets import FileLog, Offset
from twigcast.spark.file_stream import FileStreamReader
from twigcast.spark.schemas import PLACED_MESSAGES
from twigcast.spark.sources.frames import TaskPartition

COLUMNS = PLACED_MESSAGES.names


def put(folder: Path, *names: str, text: str = "<a/>", age: float = 3_600) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        changed = time.time() - age
        os.utime(path, (changed, changed))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def log_path(tmp_path: Path) -> str:
    return str(tmp_path / "log" / "files.jsonl")


MakeReader = Callable[..., FileStreamReader]


@pytest.fixture(params=["log", "checkpoint"])
def reader_of(request: pytest.FixtureRequest, folder: Path, log_path: str) -> Iterator[MakeReader]:
    """Makes readers of the folder, and stops them at the end."""
    with ExitStack() as stack:

        def make(**options: str) -> FileStreamReader:
            kept = {"log": log_path} if request.param == "log" else {}
            reader = FileStreamReader({"path": str(folder), "maxFilesPerTrigger": "2", **kept, **options}, COLUMNS)
            stack.callback(reader.stop)
            return reader

        yield make


def latest(reader: FileStreamReader, start: Offset) -> Offset:
    """The next offset, as it comes back from the checkpoint."""
    offset: Offset = json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))
    return offset


def read(reader: FileStreamReader, start: Offset, end: Offset) -> list[dict[str, object]]:
    """The rows of a micro-batch."""
    rows = []
    for partition in reader.partitions(start, end):
        assert isinstance(partition, TaskPartition)
        for batch in reader.read(partition):
            rows += batch.to_pylist()
    return rows


def micro_batches(reader: FileStreamReader, start: Offset | None = None) -> list[list[object]]:
    """The ids of all micro-batches that there are now."""
    start = reader.initialOffset() if start is None else start
    found = []
    while (end := latest(reader, start)) != start:
        found.append([row["message_id"] for row in read(reader, start, end)])
        start = end
    return found


def test_micro_batches_are_bounded(folder: Path, reader_of: MakeReader) -> None:
    put(folder, *(f"{number}.xml" for number in range(5)))
    assert micro_batches(reader_of()) == [["0.xml", "1.xml"], ["2.xml", "3.xml"], ["4.xml"]]


def test_micro_batches_are_bounded_in_bytes(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "0.xml", "1.xml", "2.xml", "3.xml", text=f"<a>{'x' * 100}</a>")
    reader = reader_of(maxFilesPerTrigger="9", maxBytesPerTrigger="250")
    assert micro_batches(reader) == [["0.xml", "1.xml"], ["2.xml", "3.xml"]]


def test_goes_on_after_a_kill(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml", "b.xml", "c.xml")
    killed = reader_of()
    first = latest(killed, killed.initialOffset())
    assert latest(killed, killed.initialOffset()) == first
    killed.stop()
    put(folder, "0.xml")
    reader = reader_of()
    assert [row["message_id"] for row in read(reader, reader.initialOffset(), first)] == ["a.xml", "b.xml"]
    assert micro_batches(reader, first) == [["c.xml", "0.xml"]]


def test_an_entry_that_spark_had_not_heard_of_comes_first(folder: Path, log_path: str) -> None:
    put(folder, "a.xml", "b.xml", "c.xml")
    options = {"path": str(folder), "log": log_path, "maxFilesPerTrigger": "2"}
    killed = FileStreamReader(options, COLUMNS)
    latest(killed, killed.initialOffset())
    killed.stop()
    put(folder, "0.xml")
    reader = FileStreamReader(options, COLUMNS)
    assert micro_batches(reader) == [["a.xml", "b.xml"], ["c.xml", "0.xml"]]
    reader.stop()


def test_a_file_written_anew_is_read_again(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml", "b.xml")
    reader = reader_of()
    first = latest(reader, reader.initialOffset())
    put(folder, "a.xml", text="<a>new</a>", age=1_800)
    second = latest(reader, first)
    assert [(row["message_id"], row["xml"]) for row in read(reader, first, second)] == [("a.xml", b"<a>new</a>")]
    assert latest(reader, second) == second
    reader.stop()
    assert micro_batches(reader_of(), second) == []


def test_a_file_replaced_before_it_is_read_is_told(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml")
    reader = reader_of()
    first = latest(reader, reader.initialOffset())
    put(folder, "a.xml", text="<a>new</a>", age=1_800)
    (row,) = read(reader, reader.initialOffset(), first)
    assert "written anew" in str(row["problem"])
    assert micro_batches(reader, first) == [["a.xml"]]


def test_available_now_takes_what_is_there_now(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml", "b.xml")
    put(folder, "c.xml", age=0)
    reader = reader_of(settleSeconds="0.2")
    reader.prepareForTriggerAvailableNow()
    put(folder, "d.xml")
    assert micro_batches(reader) == [["a.xml", "b.xml"], ["c.xml"]]


def test_a_file_that_vanishes_is_a_problem_row(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml", "b.xml")
    reader = reader_of()
    first = latest(reader, reader.initialOffset())
    (folder / "a.xml").unlink()
    rows = read(reader, reader.initialOffset(), first)
    assert [(row["message_id"], row["problem"] is None) for row in rows] == [("a.xml", False), ("b.xml", True)]


def test_copies_for_tasks_only_read(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml")
    reader = reader_of()
    (partition,) = reader.partitions(reader.initialOffset(), latest(reader, reader.initialOffset()))
    assert isinstance(partition, TaskPartition)
    copy = pickle.loads(pickle.dumps(reader))
    (row,) = [row for batch in copy.read(partition) for row in batch.to_pylist()]
    place = row["_metadata"]
    info = (folder / "a.xml").stat()
    assert (place["path"], place["offset"], place["length"]) == (str(folder / "a.xml"), 0, 4)
    assert int(place["modification_time"].timestamp() * 1e6) == info.st_mtime_ns // 1_000


def test_files_that_are_done_are_moved_or_deleted(folder: Path, tmp_path: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml", "sub/b.xml", "c.xml")
    reader = reader_of(cleanSource="archive", sourceArchiveDir=str(tmp_path / "done"))
    first = latest(reader, reader.initialOffset())
    assert (folder / "a.xml").exists()
    second = latest(reader, first)
    assert not (folder / "a.xml").exists()
    kept = tmp_path / "done" / (folder / "a.xml").relative_to("/")
    assert kept.read_text() == "<a/>"
    reader.commit(second)
    assert [path.name for path in folder.rglob("*.xml")] == []
    put(folder, "a.xml", age=60)
    third = latest(reader, second)
    assert [row["message_id"] for row in read(reader, second, third)] == ["a.xml"]
    assert latest(reader, third) == third
    assert len(list(kept.parent.glob("a.xml*"))) == 2
    reader.stop()
    put(folder, "d.xml")
    deleting = reader_of(cleanSource="delete")
    fourth = latest(deleting, third)
    deleting.commit(fourth)
    assert not (folder / "d.xml").exists()


def test_a_file_written_anew_is_not_moved_away_unread(folder: Path, reader_of: MakeReader) -> None:
    put(folder, "a.xml")
    reader = reader_of(cleanSource="delete")
    first = latest(reader, reader.initialOffset())
    put(folder, "a.xml", text="<a>new</a>", age=60)
    reader.commit(first)
    assert micro_batches(reader, first) == [["a.xml"]]
    assert not (folder / "a.xml").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cleanSource": "move"}, "cleanSource must be"),
        ({"cleanSource": "archive"}, "belong together"),
        ({"sourceArchiveDir": "x"}, "belong together"),
        ({"maxFilesPerTrigger": "many"}, "must be a number"),
        ({"batchFilesMax": "7"}, "there is no option batchfilesmax"),
    ],
)
def test_options_are_checked(folder: Path, options: dict[str, str], reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        FileStreamReader({"path": str(folder), **options}, COLUMNS)


def test_files_are_not_moved_to_where_they_are_found_again(folder: Path) -> None:
    options = {"path": str(folder), "cleanSource": "archive"}
    with pytest.raises(SourceError, match="begin its name with _"):
        FileStreamReader({**options, "sourceArchiveDir": str(folder / "done")}, COLUMNS)
    FileStreamReader({**options, "sourceArchiveDir": str(folder / "_done")}, COLUMNS)


def test_more_files_than_an_offset_holds_are_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_offsets, "FILES_MAX", 3)
    put(folder, *(f"{number}.xml" for number in range(6)))
    reader = FileStreamReader({"path": str(folder), "maxFilesPerTrigger": "2"}, COLUMNS)
    second = latest(reader, first := latest(reader, reader.initialOffset()))
    for name in ("0.xml", "1.xml"):
        (folder / name).unlink()
    third = latest(reader, second)
    assert third != second != first
    put(folder, "7.xml")
    with pytest.raises(PipelineError, match="option cleanSource"):
        latest(reader, third)


@pytest.mark.parametrize("kept", [1, 10, -1])
def test_an_entry_cut_off_by_a_kill_is_dropped(folder: Path, log_path: str, kept: int) -> None:
    put(folder, "a.xml", "b.xml")
    options = {"path": str(folder), "log": log_path, "maxFilesPerTrigger": "1"}
    reader = FileStreamReader(options, COLUMNS)
    assert micro_batches(reader) == [["a.xml"], ["b.xml"]]
    reader.stop()
    lines = Path(log_path).read_bytes().splitlines(keepends=True)
    Path(log_path).write_bytes(b"".join(lines[:-1]) + lines[-1][:kept])
    again = FileStreamReader(options, COLUMNS)
    assert micro_batches(again, {"entries": 1}) == [["b.xml"]]
    again.stop()


def test_a_log_cut_off_before_its_first_line_was_whole(folder: Path, log_path: str) -> None:
    Path(log_path).parent.mkdir()
    Path(log_path).write_text('{"pat')
    FileLog(log_path, [str(folder)]).close()
    assert json.loads(Path(log_path).read_text()) == {"paths": [str(folder)]}


def test_a_log_of_an_earlier_release_knows_its_files(folder: Path, log_path: str) -> None:
    put(folder, "a.xml", "b.xml")
    Path(log_path).parent.mkdir()
    entry = [[str(folder / "a.xml"), "file", "a.xml", 4]]
    Path(log_path).write_text(f"{json.dumps({'folder': str(folder)})}\n{json.dumps(entry)}\n")
    reader = FileStreamReader({"path": str(folder), "log": log_path}, COLUMNS)
    assert micro_batches(reader, {"entries": 1}) == [["b.xml"]]
    reader.stop()


def test_a_log_belongs_to_its_paths(folder: Path, log_path: str, tmp_path: Path) -> None:
    FileLog(log_path, [str(folder)]).close()
    (tmp_path / "other").mkdir()
    with pytest.raises(PipelineError, match="is the record of"):
        FileLog(log_path, [str(tmp_path / "other")])


def test_one_holder_at_a_time(folder: Path, log_path: str) -> None:
    log = FileLog(log_path, [str(folder)])
    with pytest.raises(PipelineError, match="in use"):
        FileLog(log_path, [str(folder)], lock_seconds=0.1)
    threading.Timer(0.2, log.close).start()
    FileLog(log_path, [str(folder)], lock_seconds=10).close()
