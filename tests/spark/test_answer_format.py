"""The sink of Spark: micro-batches land once and as a whole, whatever is killed, and rows say where they come from."""

import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from tests.seeds import seed_or
from twigcast.errors import OutputError, SourceError
from twigcast.spark.answer_format import AnswerFolder, AnswerOptions, StagedAnswers
from twigcast.spark.schemas import KINDS, MATCHES
from twigcast.spark.summary import TaskReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Killed(BaseException):
    """Stands for a kill: nothing in the product catches it."""


def staged(staging: Path, partition: int, keys: list[str], day: str = "") -> StagedAnswers:
    """What a task has staged."""
    path = staging / "tasks" / day / "matches" / f"part-{partition}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"message_id": ["m"] * len(keys), "key": keys, "nodes": pa.nulls(len(keys), pa.int32())}, MATCHES)
    pq.write_table(table, path)
    report = TaskReport(partition, 1, messages=1, matches=len(keys), deliveries=0, rejected=0, bytes=10)
    return StagedAnswers(report, [("matches", day, str(path))], "s")


def commit(path: Path, batch: int, keys: list[str], run: str = "s", *, overwrite: bool = False) -> None:
    folder = AnswerFolder(path)
    staging = path / "_staging" / f"{run}-{batch}-{random.random()}"
    with folder.opened():
        if batch <= folder.last_batch(run):
            return
        messages = [staged(staging, number, [key]) for number, key in enumerate(keys)]
        folder.commit(staging, run, batch, messages, 5, overwrite=overwrite)


def keys_in(path: Path) -> list[str]:
    return sorted(pq.read_table(path / "matches").column("key").to_pylist())


def test_rows_say_their_run_and_micro_batch(tmp_path: Path) -> None:
    commit(tmp_path, 0, ["a", "b"])
    commit(tmp_path, 1, ["c"])
    rows = pq.read_table(tmp_path / "matches").to_pylist()
    assert sorted((row["key"], str(row["run"]), int(row["batch"])) for row in rows) == [
        ("a", "s", 0), ("b", "s", 0), ("c", "s", 1)
    ]  # fmt: skip
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["batch"], summary["matches"], summary["messages"], summary["subscriptions"]) == (1, 3, 3, 5)
    assert not any((tmp_path / "_staging").iterdir())
    for kind in KINDS:
        pq.read_table(tmp_path / kind)


def kill_at(monkeypatch: pytest.MonkeyPatch, name: str, call: int) -> None:
    """Be killed at the n-th call of a method of paths."""
    original = getattr(Path, name)
    calls = 0

    def wrapper(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return original(*args, **kwargs)

    monkeypatch.setattr(Path, name, wrapper)


@pytest.mark.parametrize("name", ["rename", "replace"])
@pytest.mark.parametrize("call", range(1, 7))
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_commit_killed_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int, overwrite: bool
) -> None:
    """Neither the old nor the new is lost, and no reader sees a part of either."""
    commit(tmp_path, 0, ["old"])
    old, new = ["old"], (["b", "c"] if overwrite else ["b", "c", "old"])
    with monkeypatch.context() as patch:
        kill_at(patch, name, call)
        with suppress(Killed):
            commit(tmp_path, 1, ["b", "c"], overwrite=overwrite)
    if (tmp_path / "matches").exists():  # a table that is replaced is away for a moment
        assert keys_in(tmp_path) in (old, new)
    with AnswerFolder(tmp_path).opened():
        assert keys_in(tmp_path) in (old, new)
    commit(tmp_path, 1, ["b", "c"], overwrite=overwrite)
    assert keys_in(tmp_path) == new
    assert json.loads((tmp_path / "summary.json").read_text())["batch"] == 1


def test_several_runs_share_a_folder_and_one_can_replace_all(tmp_path: Path) -> None:
    commit(tmp_path, 0, ["a"], run="one")
    commit(tmp_path, 0, ["b"], run="two")
    assert keys_in(tmp_path) == ["a", "b"]
    commit(tmp_path, 0, ["c"], run="three", overwrite=True)
    assert keys_in(tmp_path) == ["c"]
    commit(tmp_path, 0, [], run="four", overwrite=True)
    assert keys_in(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "name a folder"),
        ({"path": "s3a://bucket/x", "subscriptions": "s"}, "name a folder"),
        ({"path": "/tmp/x"}, "say where the subscriptions are"),
        ({"path": "/tmp/x", "subscriptions": "s", "partition": "hour"}, "partition must be day or none"),
        ({"path": "/tmp/x", "subscriptions": "s", "dialect": "sql"}, "dialect must be xpath or xquery"),
        ({"path": "/tmp/x", "subscriptions": "s", "nodse": "1"}, "there is no option nodse"),
        ({"path": "/tmp/x", "subscriptions": "s", "eventTime": "at"}, "there is no column at"),
    ],
)
def test_options_are_checked(options: dict[str, str], reason: str) -> None:
    schema = StructType().add("message_id", "string").add("xml", "string")
    with pytest.raises((OutputError, SourceError), match=reason):
        AnswerOptions.of_spark(options, schema)


def test_other_peoples_files_and_other_pipelines_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("years of work")
    with pytest.raises(OutputError, match="not empty"), AnswerFolder(tmp_path).opened():
        pass
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_twigcast.json").write_text('{"mode": "batch"}\n')
    with pytest.raises(OutputError, match="batch pipeline"), AnswerFolder(tmp_path / "out").opened():
        pass


@pytest.mark.spark
def test_a_frame_is_matched_and_written_in_one_pass(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "subscriptions.jsonl").write_text(
        '{"key": "made", "query": "for $a in /a return <b>{ $a/text() }</b>"}\n{"key": "all", "query": "/a"}\n'
    )
    noon = dt.datetime(2026, 3, 1, 12)
    rows = [("1", "<a>x</a>", noon), ("2", "<a>y</a>", noon + dt.timedelta(days=1)), ("3", "<a>", None)]
    frame = spark.createDataFrame(rows, "message_id string, xml string, at timestamp").repartition(2)
    writer = frame.write.format("twigcast").option("subscriptions", str(tmp_path / "subscriptions.jsonl"))
    writer = writer.option("partition", "day").option("eventTime", "at").option("sortByKey", "true")
    out = tmp_path / "out"
    writer.mode("append").save(str(out))
    writer.mode("append").save(str(out))
    assert spark.read.parquet(str(out / "matches")).select("run").distinct().count() == 2
    writer.mode("overwrite").save(str(out))
    matches = spark.read.parquet(str(out / "matches"))
    assert {"run", "batch", "day"} <= set(matches.columns)
    found = sorted((row.message_id, row.key, str(row.day)) for row in matches.collect())
    assert found == [("1", "all", "2026-03-01"), ("1", "made", "2026-03-01"), ("2", "all", "2026-03-02"),
                     ("2", "made", "2026-03-02")]  # fmt: skip
    for file in (out / "matches").rglob("*.parquet"):
        keys = pq.ParquetFile(file).read(["key"]).column("key").to_pylist()
        assert keys == sorted(keys)
    payloads = {(row.message_id, row.payload) for row in spark.read.parquet(str(out / "deliveries")).collect()}
    assert payloads == {("1", "<b>x</b>"), ("2", "<b>y</b>")}
    (rejected,) = spark.read.parquet(str(out / "rejected")).collect()
    assert (rejected.message_id, rejected.day) == ("3", None)


STREAM = """
import sys
from pathlib import Path
from twigcast.spark.session import open_session

work = Path(sys.argv[1])
spark = open_session("local[2]", log=work / "spark.log")
at_once = "500" if sys.argv[2] == "once" else "7"
messages = spark.readStream.format("twigcast").option("settleSeconds", "0.05").option("maxFilesPerTrigger", at_once)
query = messages.load(str(work / "in")).writeStream.format("twigcast").outputMode("append")
query = query.option("subscriptions", str(work / "subscriptions.jsonl"))
query = query.option("checkpointLocation", str(work / "checkpoint"))
if sys.argv[2] == "once":
    query.trigger(availableNow=True).start(str(work / "out")).awaitTermination()
else:
    query.trigger(processingTime="50 milliseconds").start(str(work / "out")).awaitTermination()
"""


class Feed(threading.Thread):
    """Puts numbered files into a folder until it is stopped."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        folder.mkdir()
        self.folder = folder
        self.count = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.2):
            (self.folder / f"_{self.count}").write_text("<a><b/></a>")
            (self.folder / f"_{self.count}").rename(self.folder / f"{self.count:05d}.xml")
            self.count += 1


class Poll(threading.Thread):
    """Reads a table until it is stopped: how many rows each micro-batch was seen with."""

    def __init__(self, table: Path) -> None:
        super().__init__()
        self.table = table
        self.seen: dict[int, set[int]] = {}
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.005):
            for folder in self.table.glob("run=*/batch=*"):
                rows = sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))
                self.seen.setdefault(int(folder.name.partition("=")[2]), set()).add(rows)


@pytest.mark.spark
@pytest.mark.slow
def test_a_driver_killed_at_random_moments_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Each micro-batch that a reader sees in a table is whole, throughout; in the end each message is there once."""
    seed = seed_or(1)
    print(f"seed {seed}")
    chance = random.Random(seed)
    (tmp_path / "subscriptions.jsonl").write_text('{"key": "a", "query": "/a"}\n{"key": "b", "query": "/a/b"}\n')
    (tmp_path / "stream.py").write_text(STREAM)
    feed, poll = Feed(tmp_path / "in"), Poll(tmp_path / "out" / "matches")
    feed.start()
    poll.start()
    kills = int(os.environ.get("TWIGCAST_TEST_KILLS", "2"))
    for _ in range(kills):
        process = subprocess.Popen(
            [sys.executable, str(tmp_path / "stream.py"), str(tmp_path), "on"], start_new_session=True
        )
        batches = len(poll.seen)
        deadline = time.monotonic() + 120
        while len(poll.seen) <= batches and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.05)
        time.sleep(chance.random() * 2)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    feed.stopped.set()
    feed.join()
    subprocess.run([sys.executable, str(tmp_path / "stream.py"), str(tmp_path), "once"], check=True, timeout=300)
    poll.stopped.set()
    poll.join()
    count = feed.count
    rows = pq.read_table(tmp_path / "out" / "matches").to_pylist()
    assert len(rows) == 2 * count
    assert {(row["message_id"], row["key"]) for row in rows} == {
        (f"{number:05d}.xml", key) for number in range(count) for key in "ab"
    }
    assert len(poll.seen) >= kills
    assert all(len(counts) == 1 for counts in poll.seen.values()), poll.seen
