"""Messages that tasks read themselves are those that Spark reads, however their files are cut."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twigcast.errors import PipelineError, SourceError
from twigcast.limits import Limits
from twigcast.reading.messages import MessageFile
from twigcast.reading.options import ReadOptions
from twigcast.spark import run_pipeline
from twigcast.spark.message_format import read_messages
from twigcast.spark.sources import open_source, parquet, plan
from twigcast.spark.sources.files import plan_files
from twigcast.spark.sources.parquet import ParquetSource, RowGroupRange
from twigcast.spark.sources.plan import ReadPlan, plan_reader, plan_source, write_plan
from twigcast.spark.sources.source import TASKS_MAX, TaskInput
from twigcast.subscriptions import SubscriptionSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 41


def bodies(count: int, seed: int = SEED) -> list[bytes]:
    """Messages of sizes from a few bytes to some kilobytes."""
    chance = random.Random(seed)
    return [f"<m n='{number}'>{'x' * int(chance.expovariate(1 / 900))}</m>".encode() for number in range(count)]


def rows_of(batches: Any) -> list[tuple[str, bytes | None, str | None]]:
    """Id, body and problem of the messages in some batches."""
    results = []
    for batch in batches:
        for row in batch.to_pylist():
            xml = row["xml"]
            results.append((str(row["message_id"]), xml.encode() if isinstance(xml, str) else xml, row.get("problem")))
    return results


def read_parts(parts: list[TaskInput]) -> list[tuple[str, bytes | None, str | None]]:
    """What the tasks of a plan read, each from its line of the plan."""
    source = ParquetSource("anywhere")
    return rows_of(batch for part in parts for batch in source.read(TaskInput.of_line(part.line())))


def ranges(part: TaskInput) -> list[RowGroupRange]:
    """What a task reads of which files."""
    return [RowGroupRange(*fields) for fields in part.parts]


def parquet_parts(path: Path) -> list[TaskInput]:
    """The plan for a place that tasks can read."""
    parts = ParquetSource(str(path)).plan(10_000)
    assert parts is not None
    return parts


@pytest.mark.parametrize(("megabytes", "tasks", "expected"), [(1, 6, 8), (60, 6, 10), (60, 60, 8), (10_000, 6, 64)])
def test_a_task_reads_neither_too_little_nor_too_much(megabytes: int, tasks: int, expected: int) -> None:
    assert parquet._task_bytes(megabytes << 20, tasks) == expected << 20


def test_all_that_there_is_has_few_enough_tasks() -> None:
    assert (1 << 50) // parquet._task_bytes(1 << 50, 6) <= TASKS_MAX


@pytest.mark.slow
@pytest.mark.parametrize("group", [1, 7, 100, 5_000])
@pytest.mark.parametrize("stretch", [300, 2_000, 20_000, 1 << 30])
def test_every_row_group_is_read_once_however_a_file_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int, stretch: int
) -> None:
    monkeypatch.setattr(parquet, "_TASK_BYTES_MIN", stretch)
    monkeypatch.setattr(parquet, "TASKS_MAX", 10_000)
    created = bodies(300)
    path = tmp_path / "messages.parquet"
    pq.write_table(pa.table({"message_id": range(300), "xml": created}), path, row_group_size=group)
    parts = parquet_parts(path)
    assert len(parts) == -(-path.stat().st_size // stretch)
    assert read_parts(parts) == [(str(number), xml, None) for number, xml in enumerate(created)]


def test_small_files_go_together_and_large_ones_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_TASK_BYTES_MIN", 20_000)
    monkeypatch.setattr(parquet, "_TASK_FILES_MAX", 3)
    requested = []
    for number, count in enumerate([1, 2, 300, 1, 1, 1, 1, 1]):
        created = bodies(count, number)
        names = [f"{number}.{at}" for at in range(count)]
        pq.write_table(
            pa.table({"xml": created, "message_id": names}), tmp_path / f"{number}.parquet", row_group_size=20
        )
        requested += [(name, xml, None) for name, xml in zip(names, created, strict=True)]
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden.parquet").write_bytes(b"no Parquet at all")
    parts = parquet_parts(tmp_path)
    assert read_parts(parts) == requested
    assert max(len(ranges(part)) for part in parts) == 3
    assert len({one.path for part in parts for one in ranges(part)}) == 8
    assert len([part for part in parts if str(tmp_path / "2.parquet") in {one.path for one in ranges(part)}]) > 3


@pytest.mark.parametrize("ids", [pa.string(), pa.large_string(), pa.int32(), pa.uint64()])
@pytest.mark.parametrize("xml", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_types_of_columns(
    spark: "SparkSession", tmp_path: Path, ids: "pa.DataType[Any]", xml: "pa.DataType[Any]"
) -> None:
    columns = {
        "more": pa.array([1.5, 2.5, None]),
        "xml": pa.array(["<a>é</a>", None, "<b/>"]).cast(xml),
        "problem": pa.array([None, None, "it is late"]),
        "message_id": pa.array([1, 22, 333]).cast(ids),
    }
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table(columns), path)
    by_tasks = [(i, x, p) for i, x, p in read_parts(parquet_parts(path))]
    by_spark = [
        (row.message_id, row.xml.encode() if isinstance(row.xml, str) else row.xml and bytes(row.xml), row.problem)
        for row in read_messages(spark, path).collect()
    ]
    assert by_tasks == by_spark


@pytest.mark.parametrize(
    "columns",
    [
        {"message_id": pa.array([1.0]), "xml": ["<a/>"]},
        {"message_id": pa.array([1]).cast(pa.timestamp("us")), "xml": ["<a/>"]},
        {"message_id": ["1"], "xml": pa.array(["<a/>"]).dictionary_encode()},
        {"message_id": ["1"]},
        {"xml": ["<a/>"]},
    ],
)
def test_other_columns_are_left_to_spark(tmp_path: Path, columns: dict[str, Any]) -> None:
    pq.write_table(pa.table(columns), tmp_path / "one.parquet")
    assert ParquetSource(str(tmp_path / "one.parquet")).plan(6) is None


def test_places_that_are_left_to_spark(spark: "SparkSession", tmp_path: Path) -> None:
    table = pa.table({"message_id": ["1", "2"], "xml": ["<a/>", "<b/>"], "day": [1, 2]})
    pq.write_to_dataset(table, tmp_path / "nested", partition_cols=["day"])
    pq.write_table(table, tmp_path / "nested" / "x.parquet")
    (tmp_path / "among").mkdir()
    pq.write_table(table, tmp_path / "among" / "x.parquet")
    (tmp_path / "among" / "README").write_text("what this is")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and nothing else")
    for name in ("nested", "among", "damaged.parquet", "nothing.parquet"):
        assert ParquetSource(str(tmp_path / name)).plan(6) is None
    source = open_source(f"file://{tmp_path}/among/x.parquet")
    assert source.plan(6) is None
    work = plan_source(spark, source, tmp_path)
    assert work.rows.columns == ["message_id", "xml"]


def test_a_plan_survives_being_written(tmp_path: Path) -> None:
    odd = 'caf\udce9\n"x".xml'  # a name that is no text
    files = [MessageFile(f"/in/{odd}", "file", odd, 3), MessageFile("/in/b.zip", "zip", "b/", 0)]
    [part] = plan_files(files, ReadOptions(), Limits())
    assert [MessageFile(*fields) for fields in TaskInput.of_line(part.line()).parts] == files
    part = TaskInput(((f"/in/{odd}", 0, 7), ("/in/b", 1 << 40, 1 << 41)))
    assert TaskInput.of_line(part.line()) == part
    positions = write_plan(str(tmp_path / "plan"), [part] * 3)
    assert positions == [0, len(part.line()), 2 * len(part.line())]


def test_a_task_that_does_not_see_the_plan_says_so(tmp_path: Path) -> None:
    read = plan_reader(ParquetSource("x"), str(tmp_path / "nowhere"), [0])
    with pytest.raises(SourceError, match="must share the output folder"):
        list(read(iter([pa.RecordBatch.from_pydict({"id": [0]})])))


@pytest.fixture(scope="module")
def population() -> SubscriptionSet:
    return SubscriptionSet([("all", "/m"), *((f"n{number}", f"/m[@n='{number}']") for number in range(0, 600, 3))])


def outcome(output: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of each table."""
    return {
        kind: Counter(tuple(row.values()) for row in pq.read_table(output / kind).to_pylist())
        for kind in ("matches", "deliveries", "rejected")
    }


def test_the_pipeline_is_the_same_whoever_reads(
    spark: "SparkSession", tmp_path: Path, population: SubscriptionSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_TASK_BYTES_MIN", 5_000)
    monkeypatch.setattr(plan, "_TASKS_PER_CORE", 10_000)
    path = tmp_path / "messages.parquet"
    created = [*bodies(600), b"<broken", None]
    pq.write_table(pa.table({"message_id": range(602), "xml": created}), path, row_group_size=50)
    supplied: list[ReadPlan] = []
    original = plan.plan_source

    def remember(*arguments: Any) -> ReadPlan:
        supplied.append(original(*arguments))
        return supplied[-1]

    monkeypatch.setattr("twigcast.spark.pipeline.plan_source", remember)
    by_tasks = run_pipeline(path, population, tmp_path / "tasks", spark=spark)
    [work] = supplied
    assert work.rows.columns == ["id"]
    assert work.rows.rdd.getNumPartitions() == len(parquet_parts(path)) > 2
    by_spark = run_pipeline(spark.read.parquet(str(path)), population, tmp_path / "spark", spark=spark)
    assert outcome(tmp_path / "tasks") == outcome(tmp_path / "spark")
    reported = [{**summary.as_dict(), "seconds": 0} for summary in (by_tasks, by_spark)]
    assert reported[0] == reported[1]
    assert (by_tasks.messages, by_tasks.matches, by_tasks.rejected) == (602, 800, 2)
    assert {child.name for child in (tmp_path / "tasks").iterdir()} == {
        "matches",
        "deliveries",
        "rejected",
        "summary.json",
        "_twigcast.json",
    }
    assert json.loads((tmp_path / "tasks" / "summary.json").read_text())["messages"] == 602


def test_a_file_that_is_unlike_the_first_stops_the_pipeline(
    spark: "SparkSession", tmp_path: Path, population: SubscriptionSet
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"message_id": [1], "xml": ["<a/>"]}), folder / "0.parquet")
    pq.write_table(pa.table({"message_id": [1], "body": ["<a/>"]}), folder / "1.parquet")
    with pytest.raises(PipelineError, match=r"1\.parquet.*there is no column xml"):
        run_pipeline(folder, population, tmp_path / "out", spark=spark)
    (folder / "1.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(PipelineError, match=r"1\.parquet.*not Parquet that can be read"):
        run_pipeline(folder, population, tmp_path / "out", spark=spark)
    assert not (tmp_path / "out" / "summary.json").exists()
