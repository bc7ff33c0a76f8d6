"""Pipelines whose answers Spark writes, with a sink that keeps them: what they write, return, and refuse."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from twigcast.errors import OutputError, PipelineError, SourceError
from twigcast.spark import Stream, run_pipeline, start_pipeline
from twigcast.spark.sinks.frame_sink import FrameSink, RowOrigin
from twigcast.subscriptions import SubscriptionSet

if TYPE_CHECKING:
    from twigcast.spark.progress import Progress

RUN_SECONDS = 240


@dataclass(frozen=True)
class KeptSink(FrameSink):
    """A sink that keeps rows in this process."""

    run: str | None = None
    event_time: str | None = None
    fails: bool = False
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    origins: list[tuple[str, RowOrigin]] = field(default_factory=list)

    def kinds(self) -> tuple[str, ...]:
        return ("matches", "deliveries", "rejected")

    def open(self, spark: SparkSession) -> None:
        pass

    def write(self, kind: str, rows: DataFrame, origin: RowOrigin) -> None:
        if self.fails:
            raise OutputError("kept", "the disk is full")
        self.origins.append((kind, origin))
        self.rows[kind] += [row.asDict() for row in rows.collect()]


class Said:
    """Remembers what a pipeline says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def progress(self, progress: "Progress") -> None:
        pass

    def finished(self) -> None:
        pass


SUBSCRIPTIONS = SubscriptionSet({"all": "/m", "made": "for $m in /m return <r>{ $m/@n }</r>"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.xml").write_text(f"<m n='{number}'/>" if number else "<m")
    return tmp_path


@pytest.mark.spark
def test_a_batch_job_writes_each_kind_with_its_origin(spark: "SparkSession", folder: Path) -> None:
    sink = KeptSink(run="it's monday")
    summary = run_pipeline(str(folder / "in"), SUBSCRIPTIONS, sink=sink, spark=spark)
    assert (summary.messages, summary.matches, summary.deliveries, summary.rejected) == (3, 4, 2, 1)
    assert (summary.subscriptions, summary.bytes) == (2, 2 * len("<m n='1'/>") + 2)
    assert [kind for kind, _ in sink.origins] == ["deliveries", "rejected", "matches"]
    assert {(row["message_id"], row["key"]) for row in sink.rows["matches"]} == {
        (name, key) for name in ("1.xml", "2.xml") for key in ("all", "made")
    }
    assert {row["payload"] for row in sink.rows["deliveries"]} == {"<r n='1'/>", "<r n='2'/>"}
    (bad,) = sink.rows["rejected"]
    assert (bad["message_id"], bytes(bad["xml"])) == ("0.xml", b"<m")
    assert {(row["run"], row["batch"]) for rows in sink.rows.values() for row in rows} == {("it's monday", 0)}


@pytest.mark.spark
def test_a_stream_is_a_query_of_spark(spark: "SparkSession", folder: Path) -> None:
    """Only the first micro-batch after a start may have been written before."""
    sink, said = KeptSink(), Said()
    frame = spark.readStream.schema("message_id string, xml string").option("maxFilesPerTrigger", 1)
    (folder / "rows").mkdir()
    for number in range(3):
        row = {"message_id": str(number), "xml": f"<m n='{number}'/>"}
        (folder / "rows" / f"{number}.json").write_text(json.dumps(row))
    stream = Stream(once=True, checkpoint=folder / "checkpoint", name="orders")
    messages = frame.json(str(folder / "rows"))
    query = start_pipeline(messages, SUBSCRIPTIONS, sink, stream=stream, reporter=said)
    assert isinstance(query, StreamingQuery)
    assert query.name == "orders"
    query.awaitTermination()
    batches = [origin for kind, origin in sink.origins if kind == "matches"]
    assert [(origin.batch, origin.may_be_there) for origin in batches] == [(0, True), (1, False), (2, False)]
    assert {origin.run for origin in batches} == {str(query.id)}
    assert sorted(row["message_id"] for row in sink.rows["matches"] if row["key"] == "all") == ["0", "1", "2"]
    assert [line.partition(",")[0] for line in said.lines] == [f"batch {number}: 1 messages" for number in range(3)]


@pytest.mark.spark
def test_an_error_of_the_sink_is_the_error_of_the_pipeline(spark: "SparkSession", folder: Path) -> None:
    stream = Stream(once=True, checkpoint=folder / "checkpoint")
    with pytest.raises(OutputError, match="the disk is full"):
        run_pipeline(str(folder / "in"), SUBSCRIPTIONS, sink=KeptSink(fails=True), stream=stream, spark=spark)
    sink = KeptSink()
    summary = run_pipeline(str(folder / "in"), SUBSCRIPTIONS, sink=sink, stream=stream, spark=spark)
    assert summary.messages == 3, "the micro-batch that failed is run again"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("run", "error", "reason"),
    [
        (lambda s, m: run_pipeline(m, s, "out", sink=KeptSink()), PipelineError, "not both"),
        (lambda s, m: run_pipeline(m, s), PipelineError, "where the answers go"),
        (lambda s, m: run_pipeline(m, s, sink=KeptSink(event_time="at")), SourceError, "no column at; the columns are"),
        (
            lambda s, m: start_pipeline(m, s, KeptSink(), stream=Stream()),
            PipelineError,
            "is not a streaming one",
        ),
        (
            lambda s, m: start_pipeline("/tmp", s, KeptSink(), stream=Stream(), spark=m.sparkSession),
            PipelineError,
            r"Stream\(checkpoint=FOLDER\)",
        ),
        (
            lambda s, m: start_pipeline("/tmp", s, KeptSink(run="x"), stream=Stream(), spark=m.sparkSession),
            PipelineError,
            "leave the name of the run out",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    spark: "SparkSession", run: Callable[[SubscriptionSet, DataFrame], object], error: type[Exception], reason: str
) -> None:
    messages = spark.createDataFrame([("a", "<a/>")], "message_id string, xml string")
    with pytest.raises(error, match=reason):
        run(SUBSCRIPTIONS, messages)


WATCHED = """
import sys
from pathlib import Path
from urllib.request import urlopen
from twigcast import SubscriptionSet
from twigcast.spark import Stream, start_pipeline
from twigcast.spark.session import STREAM_SETTINGS, open_session
from tests.spark.test_frame_pipeline import KeptSink

work = Path(sys.argv[1])
spark = open_session("local[1]", log=work / "log", settings=STREAM_SETTINGS)
stream = Stream(checkpoint=work / "checkpoint", name="orders")
query = start_pipeline(str(work / "in"), SubscriptionSet({"all": "/m"}), KeptSink(), stream=stream, spark=spark)
while not query.recentProgress:
    query.awaitTermination(0.2)  # raises the error of a stream that failed
url = spark.sparkContext.uiWebUrl
print(urlopen(url + "/metrics/prometheus/").read().decode())
print(urlopen(url + "/StreamingQuery/").read().decode())
query.stop()
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_can_be_watched(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(folder)], capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "inputRate" in done.stdout, done.stdout[:3000]
    assert "orders" in done.stdout[done.stdout.index("<html") :]
