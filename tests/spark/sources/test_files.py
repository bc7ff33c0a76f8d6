"""Reading messages into Spark: every file, member and record once, under its id; what cannot be read is a problem."""

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twigcast.errors import SourceError
from twigcast.limits import Limits
from twigcast.reading.messages import Message, MessageFile
from twigcast.reading.messages import read_messages as read_with_library
from twigcast.reading.options import ReadOptions
from twigcast.spark.message_format import read_messages
from twigcast.spark.sources import files, open_source
from twigcast.spark.sources.files import FileSource, plan_files
from twigcast.spark.sources.parquet import ParquetSource
from twigcast.spark.sources.source import TaskInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_feed(folder: Path) -> None:
    """Files, folders and archives, some of them damaged."""
    folder.mkdir()
    for number in range(40):
        (folder / f"m{number:02d}.xml").write_text(f"<m><n>{number}</n></m>")
    (folder / "sub").mkdir()
    (folder / "sub" / "deep.xml").write_text("<deep/>")
    (folder / "sub" / "empty.xml").write_bytes(b"")
    (folder / "binary.xml").write_bytes(bytes(range(256)))
    (folder / "one.xml.gz").write_bytes(gzip.compress(b"<zipped/>"))
    (folder / "cut.xml.gz").write_bytes(gzip.compress(os.urandom(5000))[:3000])
    (folder / "damaged.zip").write_bytes(b"PK\x03\x04 and then nothing")
    with zipfile.ZipFile(folder / "some.zip", "w") as archive:
        for number in range(5):
            archive.writestr(f"in/{number}.xml", f"<z>{number}</z>")
    with tarfile.open(folder / "some.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("t.xml")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"<t/>"))
    (folder / "dangling.xml").symlink_to(folder / "nowhere")


def with_library(path: Path, **options: Any) -> dict[str, tuple[bytes, bool]]:
    return {
        item.id: (item.xml, isinstance(item, Message)) for item in read_with_library([path], ReadOptions(**options))
    }


def with_spark(
    spark: "SparkSession", path: Path, limits: Limits | None = None, **options: Any
) -> dict[str, tuple[bytes, bool]]:
    rows = read_messages(spark, path, ReadOptions(**options), limits=limits).collect()
    results = {row.message_id: (bytes(row.xml), row.problem is None) for row in rows}
    assert len(results) == len(rows)
    return results


def test_a_folder_is_read_as_the_library_reads_it(spark: "SparkSession", tmp_path: Path) -> None:
    make_feed(tmp_path / "feed")
    results = with_spark(spark, tmp_path / "feed")
    assert results == with_library(tmp_path / "feed")
    assert sorted(name for name, (_, good) in results.items() if not good) == [
        "cut.xml.gz",
        "damaged.zip",
        "dangling.xml",
    ]
    assert with_spark(spark, tmp_path / "feed", include="m1*.xml") == with_library(tmp_path / "feed", include="m1*.xml")


@pytest.mark.parametrize("name", ["some.zip", "some.tar.gz", "one.xml.gz", "m00.xml"])
def test_single_files_and_archives(spark: "SparkSession", tmp_path: Path, name: str) -> None:
    make_feed(tmp_path / "feed")
    assert with_spark(spark, tmp_path / "feed" / name) == with_library(tmp_path / "feed" / name)


def test_records_of_a_large_file(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "large.xml"
    records = "".join(f"<r n='{n}'>{'x' * 500}</r>" for n in range(3_000))
    path.write_text(f"<all xmlns='urn:x'>{records}</all>")
    results = with_spark(spark, path, record="r")
    assert len(results) == 3_000
    assert results == with_library(path, record="r")


def test_messages_over_the_limit_are_problems(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "small.xml").write_text("<a/>")
    (tmp_path / "large.xml").write_text(f"<a>{'x' * 2_000}</a>")
    results = with_spark(spark, tmp_path, Limits(message_bytes_max=1_000))
    assert {name: good for name, (_, good) in results.items()} == {"small.xml": True, "large.xml": False}


def test_parquet(spark: "SparkSession", tmp_path: Path) -> None:
    table = pa.table({"other": [1, 2], "message_id": [10, 20], "xml": ["<a/>", None]})
    pq.write_table(table, tmp_path / "one.parquet")
    (tmp_path / "folder").mkdir()
    pq.write_table(table, tmp_path / "folder" / "part-0.parquet")
    for path in (tmp_path / "one.parquet", tmp_path / "folder"):
        rows = read_messages(spark, path).collect()
        assert [tuple(row) for row in rows] == [("10", "<a/>"), ("20", None)]
    with pytest.raises(SourceError, match="records are cut out of files"):
        read_messages(spark, tmp_path / "one.parquet", ReadOptions(record="r"))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"id": ["1"], "xml": ["<a/>"]}, "no column message_id; the columns are id, xml"),
        ({"message_id": ["1"]}, "no column xml"),
        ({"message_id": ["1"], "xml": [3]}, "must be string or binary, not bigint"),
    ],
)
def test_parquet_without_the_columns(
    spark: "SparkSession", tmp_path: Path, columns: dict[str, list[object]], reason: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "odd.parquet")
    with pytest.raises(SourceError, match=reason):
        read_messages(spark, tmp_path / "odd.parquet")


def test_where_there_is_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        read_messages(spark, tmp_path / "nothing")
    with pytest.raises(SourceError, match="not standard input"):
        open_source("-")
    assert read_messages(spark, tmp_path).count() == 0


def test_names_that_are_no_text(spark: "SparkSession", tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.xml"))).write_text("<a/>")
    (row,) = read_messages(spark, tmp_path).collect()
    assert (row.message_id, bytes(row.xml)) == ("caf\\xe9.xml", b"<a/>")


class TestPlan:
    """Which task reads what."""

    def plan(self, sizes: list[int]) -> list[list[int]]:
        results = [MessageFile(f"/f/{number}", "file", str(number), size) for number, size in enumerate(sizes)]
        planned = plan_files(results, ReadOptions(), Limits())
        tasks = [[MessageFile(*fields) for fields in task.parts] for task in planned]
        assert [file for task in tasks for file in task] == results
        return [[file.size for file in task] for task in tasks]

    def test_nothing(self) -> None:
        assert self.plan([]) == []

    def test_small_files_go_together(self) -> None:
        assert [len(part) for part in self.plan([100] * 5_000)] == [2_000, 2_000, 1_000]

    def test_large_files_stand_alone(self) -> None:
        mega = 1 << 20
        assert self.plan([mega, 10 * mega, mega, mega]) == [[mega], [10 * mega], [mega, mega]]

    def test_a_large_document_is_read_in_parts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "_PART_BYTES", 1_000)
        monkeypatch.setattr(files, "_TASK_BYTES_MIN", 1_500)
        document = "<r xmlns='urn:r'>" + "".join(f"<i>{number}<!-- <i> --></i>" for number in range(500)) + "</r>"
        (tmp_path / "d.xml").write_text(document)
        source = FileSource(str(tmp_path / "d.xml"), ReadOptions(record="i"))
        source.has_places = True
        tasks = [TaskInput.of_line(task.line()) for task in source.plan(2)]
        assert len(tasks) > 4
        rows = [row for task in tasks for batch in source.read(task) for row in batch.to_pylist()]
        whole = list(read_with_library([tmp_path / "d.xml"], ReadOptions(record="i")))
        assert [(row["message_id"], row["xml"]) for row in rows] == [(item.id, item.xml) for item in whole]
        places = [(row["_metadata"]["offset"], row["_metadata"]["length"]) for row in rows]
        cut = [document[offset : offset + length] for offset, length in places]
        assert cut == [f"<i>{number}<!-- <i> --></i>" for number in range(500)]
        (tmp_path / "d.xml").write_text(document.replace("499", "490"))
        os.utime(tmp_path / "d.xml", (0, 0))
        assert all("written anew" in row["problem"] for batch in source.read(tasks[1]) for row in batch.to_pylist())

    def test_much_to_read_makes_larger_tasks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "TASKS_MAX", 10)
        assert len(self.plan([3 << 20] * 200)) <= 11


def test_the_registry_tells_files_from_parquet(tmp_path: Path) -> None:
    (tmp_path / "messages.zip").touch()
    for path in ("s3a://bucket/messages", "x/messages.parquet"):
        assert isinstance(open_source(path), ParquetSource)
    for file_path in (tmp_path / "messages.zip", tmp_path):
        assert isinstance(open_source(file_path), FileSource)
    (tmp_path / "part-0.parquet").touch()
    assert isinstance(open_source(tmp_path), ParquetSource)
