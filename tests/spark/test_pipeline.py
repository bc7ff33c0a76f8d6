"""The pipeline says what the library says, whatever the messages come from, and keeps what it cannot process."""

import csv
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twigcast.demo.__main__ import write_feed, write_subscriptions
from twigcast.demo.messages import feed
from twigcast.demo.subscriptions import subscriptions
from twigcast.errors import (
    OutputError,
    PipelineError,
    RefusedSubscriptions,
    SourceError,
    SubscriptionFileError,
    TwigcastError,
)
from twigcast.limits import Limits
from twigcast.reading.messages import Message, RejectedInput, read_messages
from twigcast.registration import Subscription
from twigcast.spark import ReadOptions, Stream, deliveries, match_messages, matches, rejected, run_pipeline
from twigcast.spark.progress import Progress
from twigcast.subscription_files import load_subscriptions
from twigcast.subscriptions import SubscriptionSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED = 23
Row = tuple[Any, ...]
Tables = tuple[set[Row], set[Row], set[Row]]


class Told:
    """Remembers what a pipeline has to tell."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.progressed: list[Progress] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def progress(self, progress: Progress) -> None:
        self.progressed.append(progress)

    def finished(self) -> None:
        self.lines.append("finished")


@pytest.fixture(scope="module")
def population() -> SubscriptionSet:
    return SubscriptionSet(subscriptions(SEED, 300))


@pytest.fixture(scope="module")
def feed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("feed") / "messages"
    write_feed(folder, feed(SEED, 160))
    (folder / "damaged.zip").write_bytes(b"PK and nothing else")
    return folder


def by_library(
    population: SubscriptionSet, messages: Iterable[Message | RejectedInput], *, nodes: bool = False
) -> Tables:
    """The three tables as the library makes them."""
    result: Tables = (set(), set(), set())
    for message in messages:
        if isinstance(message, RejectedInput):
            result[2].add((message.id, message.error.reason, None, None, message.xml))
            continue
        try:
            match = population.match(message.xml)
            counts = match.node_counts() if nodes else dict.fromkeys(match.keys)
            result[0].update((message.id, key, count) for key, count in counts.items())
            result[1].update(
                (message.id, one.key, one.payload.decode()) for one in population.deliver(message.xml) if one.rewritten
            )
        except TwigcastError as error:
            details = error.details()
            result[2].add((message.id, details["reason"], details.get("line"), details.get("column"), message.xml))
    return result


def on_disk(output: Path) -> Tables:
    tables = []
    for kind in ("matches", "deliveries", "rejected"):
        table = pq.read_table(output / kind)
        # The run and the micro-batch that a stream wrote a row in are the names of folders.
        columns = [name for name in table.column_names if name not in {"run", "batch"}]
        rows = [tuple(row.values()) for row in table.select(columns).to_pylist()]
        assert len(rows) == len(set(rows))
        tables.append(set(rows))
    return tables[0], tables[1], tables[2]


def test_a_folder_of_messages(
    spark: "SparkSession", population: SubscriptionSet, feed_folder: Path, tmp_path: Path
) -> None:
    reported = Told()
    summary = run_pipeline(feed_folder, population, tmp_path / "out", spark=spark, reporter=reported)
    requested = by_library(population, read_messages([feed_folder]))
    assert on_disk(tmp_path / "out") == requested
    assert all(requested)
    assert (summary.messages, summary.subscriptions, summary.refused) == (161, 300, 0)
    assert (summary.matches, summary.deliveries, summary.rejected) == tuple(map(len, requested))
    assert summary.bytes == sum(len(message.xml) for message in read_messages([feed_folder]))
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert written == summary.as_dict()
    assert {"messages", "matches", "deliveries", "rejected", "subscriptions", "bytes", "seconds"} <= written.keys()
    assert reported.lines[-1] == "finished"
    assert all(0 <= one.tasks_done <= one.tasks for one in reported.progressed)


def test_spark_reads_what_was_written(
    spark: "SparkSession", population: SubscriptionSet, feed_folder: Path, tmp_path: Path
) -> None:
    summary = run_pipeline(feed_folder, population, tmp_path / "out", spark=spark)
    assert spark.read.parquet(str(tmp_path / "out" / "matches")).count() == summary.matches
    types = {
        field.name: field.dataType.simpleString()
        for field in spark.read.parquet(str(tmp_path / "out" / "rejected")).schema
    }
    assert types == {"message_id": "string", "reason": "string", "line": "bigint", "column": "bigint", "xml": "binary"}


def test_a_dataframe_and_parquet(spark: "SparkSession", population: SubscriptionSet, tmp_path: Path) -> None:
    messages = list(feed(SEED + 1, 90))
    table = pa.table({"message_id": [name for name, _ in messages], "xml": [xml for _, xml in messages]})
    pq.write_table(table, tmp_path / "messages.parquet")
    requested = by_library(population, (Message(*message) for message in messages), nodes=True)
    frame = spark.read.parquet(str(tmp_path / "messages.parquet"))
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    sources: list[DataFrame | Path] = [frame, frame.repartition(5), tmp_path / "messages.parquet"]
    for number, source in enumerate(sources):
        run_pipeline(source, population, tmp_path / str(number), spark=spark, nodes=True)
        assert on_disk(tmp_path / str(number)) == requested
    assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == before


def test_match_messages_takes_the_time_of_publication_from_a_column(spark: "SparkSession") -> None:
    alert = "<alert><expires>2026-11-30T09:00:00Z</expires></alert>"
    frame = spark.sql(
        f"select id message_id, '{alert}' xml, timestamp_seconds(1796025600 + 7200 * id) sent from range(3)"
    )
    answers = match_messages(frame, SubscriptionSet([("valid", "/alert[expires > $now]")]), published="sent")
    assert sorted(row.message_id for row in matches(answers).select("message_id").collect()) == [0]
    with pytest.raises(SourceError, match="must be timestamp, not missing"):
        match_messages(frame, SubscriptionSet(), published="sent_at")


def test_match_messages_in_one_pass(spark: "SparkSession", population: SubscriptionSet) -> None:
    messages = list(feed(SEED + 2, 60))
    frame = spark.createDataFrame(messages, "message_id string, xml binary")
    answers = match_messages(frame, population, nodes=True).cache()
    requested = by_library(population, (Message(*message) for message in messages), nodes=True)
    assert {tuple(row) for row in matches(answers).collect()} == requested[0]
    assert {tuple(row) for row in deliveries(answers).collect()} == requested[1]
    assert {(*row[:4], bytes(row.xml)) for row in rejected(answers).collect()} == requested[2]
    assert answers.count() == len(messages)
    answers.unpersist()


WITH_PARAMETERS: list[dict[str, Any]] = [
    {
        "key": "anna",
        "query": "/alert[event = $events and severity >= $least]",
        "params": {"events": ["F", "S"], "least": 2},
    },
    {"key": "ben", "query": "/alert[event = $events and severity >= $least]", "params": {"events": ["W"], "least": 1}},
    {
        "key": "cleo",
        "query": "for $a in /alert where $a/event = $events return <m least='3'>{ $a/severity }</m>",
        "params": {"events": ["S"]},
    },
    {"key": "dora", "query": "/alert[severity = 1]", "params": None},
]
"""Rows of a population, whose values are each row's own."""

WRITTEN_OUT = [
    ("anna", "/alert[(event = 'F' or event = 'S') and severity >= 2]"),
    ("ben", "/alert[event = 'W' and severity >= 1]"),
    ("cleo", "for $a in /alert where $a/event = 'S' return <m least='3'>{ $a/severity }</m>"),
    ("dora", "/alert[severity = 1]"),
]
"""The same with the values in the queries."""


@pytest.mark.parametrize("form", ["parquet", "jsonl", "csv", "rows"])
def test_each_row_of_a_population_has_its_own_parameters(spark: "SparkSession", tmp_path: Path, form: str) -> None:
    messages = [
        (f"{event}{severity}", f"<alert><event>{event}</event><severity>{severity}</severity></alert>".encode())
        for event in "FSWX"
        for severity in range(4)
    ]
    file = tmp_path / f"population.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(WITH_PARAMETERS), file)
    elif form == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in WITH_PARAMETERS))
    elif form == "csv":
        with file.open("w", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(["key", "query", "params"])
            for row in WITH_PARAMETERS:
                writer.writerow([row["key"], row["query"], json.dumps(row["params"]) if row["params"] else ""])
    population = SubscriptionSet(WITH_PARAMETERS) if form == "rows" else load_subscriptions(file)[0]
    requested = by_library(SubscriptionSet(WRITTEN_OUT), (Message(*message) for message in messages))
    assert {key for _, key, _ in requested[0]} == {"anna", "ben", "cleo", "dora"}
    frame = spark.createDataFrame(messages, "message_id string, xml binary")
    answers = match_messages(frame, population).cache()
    assert {(row.message_id, row.key, None) for row in matches(answers).collect()} == requested[0]
    assert {tuple(row) for row in deliveries(answers).collect()} == requested[1]
    answers.unpersist()
    summary = run_pipeline(frame, population if form == "rows" else file, tmp_path / "out", spark=spark)
    assert {(row[0], row[1], None) for row in on_disk(tmp_path / "out")[0]} == requested[0]
    assert on_disk(tmp_path / "out")[1] == requested[1]
    assert (summary.subscriptions, summary.refused) == (4, 0)


def test_records_of_a_large_file(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "auctions.xml"
    records = "".join(f"<auction n='{n}'><bid>{n}</bid></auction>" for n in range(2_000))
    path.write_text(f"<site>{records}</site>")
    population = SubscriptionSet([("high", "/auction[bid > 1989]"), ("all", "//bid")])
    summary = run_pipeline(path, population, tmp_path / "out", spark=spark, read=ReadOptions(record="auction"))
    assert (summary.messages, summary.matches) == (2_000, 2_010)
    assert on_disk(tmp_path / "out") == by_library(population, read_messages([path], ReadOptions(record="auction")))


def test_hostile_messages_are_rejected_and_the_rest_goes_on(spark: "SparkSession", tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    laughs = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 12))
    hostile = {
        "laughs.xml": f"<!DOCTYPE a [<!ENTITY l0 'ha'>{laughs}]><a>&l11;</a>".encode(),
        "deep.xml": b"<a>" * 100_000 + b"</a>" * 100_000,
        "nul.xml": b"<a>\0</a>",
        "empty.xml": b"",
        "bom-only.xml": b"\xef\xbb\xbf",
        "utf16-cut.xml": "<a><b/></a>".encode("utf-16")[:-3],
        "wrong-encoding.xml": b"<?xml version='1.0' encoding='utf-8'?><a>caf\xe9</a>",
        "no-such-encoding.xml": b"<?xml version='1.0' encoding='klingon'?><a/>",
        "cut.xml": b"<a><b></b>",
        "large.xml": b"<a>" + b"x" * 2_000_000 + b"</a>",
        "external.xml": f"<!DOCTYPE a [<!ENTITY e SYSTEM '{(tmp_path / 'secret').as_uri()}'>]><a>&e;<b/></a>".encode(),
    }
    good = {
        "good.xml": b"<a><b/></a>",
        "long-attribute.xml": b"<a x='" + b"y" * 1_000_000 + b"'><b/></a>",
        "latin1.xml": "<?xml version='1.0' encoding='iso-8859-1'?><a>caf\xe9<b/></a>".encode("iso-8859-1"),
        "utf16.xml": "<a><b/></a>".encode("utf-16"),
        "bom.xml": b"\xef\xbb\xbf<a><b/></a>",
        "entity.xml": b"<!DOCTYPE a [<!ENTITY e '<b/>'>]><a>&e;</a>",
    }
    (tmp_path / "secret").write_text("<b>never read</b>")
    for name, data in (hostile | good).items():
        (folder / name).write_bytes(data)
    queries = [("b", "/a/b"), ("secret", "//b[. = 'never read']")]
    population = SubscriptionSet(queries, limits=Limits(message_bytes_max=1_500_000))
    summary = run_pipeline(folder, population, tmp_path / "out", spark=spark)
    results, _, turned_away = on_disk(tmp_path / "out")
    assert {row[:2] for row in results} == {(name, "b") for name in good}
    assert {row[0] for row in turned_away} == hostile.keys()
    assert summary.rejected == len(hostile)
    assert {row[0]: row[4] for row in turned_away if row[0] != "large.xml"} == {
        name: data for name, data in hostile.items() if name != "large.xml"
    }
    assert all(row[1] for row in turned_away)


def test_no_messages_and_no_subscriptions(
    spark: "SparkSession", population: SubscriptionSet, feed_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert run_pipeline(tmp_path / "empty", population, tmp_path / "out1", spark=spark).messages == 0
    assert on_disk(tmp_path / "out1") == (set(), set(), set())
    summary = run_pipeline(feed_folder, SubscriptionSet(), tmp_path / "out2", spark=spark)
    assert (summary.messages, summary.matches, summary.subscriptions) == (161, 0, 0)
    assert summary.rejected == len(on_disk(tmp_path / "out2")[2]) > 0


def test_running_again_gives_the_same_files(
    spark: "SparkSession", population: SubscriptionSet, feed_folder: Path, tmp_path: Path
) -> None:
    def contents() -> dict[str, bytes]:
        return {str(path.relative_to(tmp_path)): path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")}

    run_pipeline(feed_folder, population, tmp_path / "out", spark=spark)
    first = contents()
    run_pipeline(feed_folder, population, tmp_path / "out", spark=spark)
    assert contents() == first


class TestSubscriptionFiles:
    """Subscriptions that are wrong are told of, and never dropped in silence."""

    def files(self, tmp_path: Path) -> tuple[Path, Path]:
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "a.xml").write_text("<a><b/></a>")
        path = tmp_path / "subscriptions.jsonl"
        write_subscriptions(path, [Subscription("good", "/a/b"), Subscription("bad", "/a[")])
        with path.open("a") as file:
            file.write('{"key": "no query"}\nno json\n{"key": "good", "query": "//b"}\n')
        return tmp_path / "in", path

    def test_fail(self, spark: "SparkSession", tmp_path: Path) -> None:
        messages, path = self.files(tmp_path)
        with pytest.raises(RefusedSubscriptions, match="4 subscriptions were refused"):
            run_pipeline(messages, path, tmp_path / "out", spark=spark)
        assert not (tmp_path / "out" / "summary.json").exists()

    def test_skip(self, spark: "SparkSession", tmp_path: Path) -> None:
        messages, path = self.files(tmp_path)
        reported = Told()
        summary = run_pipeline(
            messages, path, tmp_path / "out", spark=spark, on_bad_subscription="skip", reporter=reported
        )
        assert (summary.subscriptions, summary.refused, summary.matches) == (1, 4, 1)
        assert sum(line.startswith("left out: ") for line in reported.lines) == 4

    def test_many_are_not_all_told(self, spark: "SparkSession", tmp_path: Path) -> None:
        messages, path = self.files(tmp_path)
        write_subscriptions(path, (Subscription(str(number), "/a[") for number in range(50)))
        reported = Told()
        run_pipeline(messages, path, tmp_path / "out", spark=spark, on_bad_subscription="skip", reporter=reported)
        assert "left out: 30 more subscriptions; twigcast check -s lists all of them" in reported.lines

    def test_a_snapshot(self, spark: "SparkSession", tmp_path: Path, population: SubscriptionSet) -> None:
        messages, _ = self.files(tmp_path)
        SubscriptionSet([("b", "//b")]).save(tmp_path / "set")
        assert run_pipeline(messages, tmp_path / "set", tmp_path / "out", spark=spark).matches == 1

    def test_no_file(self, spark: "SparkSession", tmp_path: Path) -> None:
        messages, _ = self.files(tmp_path)
        with pytest.raises(SubscriptionFileError, match="cannot be read"):
            run_pipeline(messages, tmp_path / "nothing.jsonl", tmp_path / "out", spark=spark)


def test_wrong_usage_is_told_before_the_work_begins(
    spark: "SparkSession", population: SubscriptionSet, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "file").write_text("")
    frame = spark.createDataFrame([("1", "<a/>")], "message_id string, xml string")
    with pytest.raises(SourceError):
        run_pipeline(tmp_path / "nothing", population, tmp_path / "out", spark=spark)
    with pytest.raises(OutputError):
        run_pipeline(tmp_path / "in", population, tmp_path / "file", spark=spark)
    with pytest.raises(TypeError, match="stream must be Stream, not bool"):
        run_pipeline(tmp_path / "in", population, tmp_path / "out", spark=spark, stream=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="read must be ReadOptions, not str"):
        run_pipeline(tmp_path / "in", population, tmp_path / "out", spark=spark, read="item")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="watches a folder"):
        run_pipeline(tmp_path / "file", population, tmp_path / "out", spark=spark, stream=Stream())
    with pytest.raises(PipelineError, match="not a streaming one"):
        run_pipeline(frame, population, tmp_path / "out", spark=spark, stream=Stream())
    with pytest.raises(SourceError, match="no column xml"):
        run_pipeline(frame.drop("xml"), population, tmp_path / "out", spark=spark)
    assert not (tmp_path / "out" / "summary.json").exists()


def test_a_failure_in_a_worker_is_told_in_a_sentence(
    spark: "SparkSession", population: SubscriptionSet, feed_folder: Path, tmp_path: Path
) -> None:
    """Here: the folder that tasks write to becomes a file under their feet."""
    frame = spark.createDataFrame([("1", "<a/>")], "message_id string, xml string")
    everything = SubscriptionSet([("all", "/*")])

    def spoil(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for staging in (tmp_path / "out" / "_staging").iterdir():
            shutil.rmtree(staging)
            staging.write_text("")
        yield from batches

    with pytest.raises(PipelineError, match="Not a directory") as reported:
        run_pipeline(frame.mapInArrow(spoil, frame.schema), everything, tmp_path / "out", spark=spark)
    assert "\n" not in str(reported.value)
    assert run_pipeline(frame, everything, tmp_path / "out", spark=spark).matches == 1


class TestStream:
    """Streams, in one process; what kills do to them is tested end to end."""

    def put(self, folder: Path, *numbers: int) -> None:
        folder.mkdir(exist_ok=True)
        for number in numbers:
            new = folder / f".{number}.new"
            new.write_text(f"<a n='{number}'><b/></a>" if number % 5 else "<a>")
            new.rename(folder / f"{number:03d}.xml")

    def test_each_run_takes_what_is_new(self, spark: "SparkSession", tmp_path: Path) -> None:
        population = SubscriptionSet([("b", "//b"), ("a", "/a")])
        for first, last in ((0, 20), (20, 30), (30, 30)):
            self.put(tmp_path / "in", *range(first, last))
            stream = Stream(once=True, files_per_batch=7)
            summary = run_pipeline(tmp_path / "in", population, tmp_path / "out", spark=spark, stream=stream)
            assert summary.messages == last
            assert on_disk(tmp_path / "out") == by_library(population, read_messages([tmp_path / "in"]))
            assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary.as_dict()
        assert len(list((tmp_path / "out" / "_commits").iterdir())) >= 4

    def test_changed_subscriptions_are_picked_up(self, spark: "SparkSession", tmp_path: Path) -> None:
        path = tmp_path / "subscriptions.jsonl"
        write_subscriptions(path, [Subscription("first", "//b")])
        self.put(tmp_path / "in", 1)
        reported = Told()

        def change(text: str) -> None:
            """At the end of a micro-batch, bring the next one."""
            reported.lines.append(text)
            if text.startswith("batch 0"):
                write_subscriptions(path, [Subscription("second", "/a"), Subscription("third", "//b")])
                self.put(tmp_path / "in", 2)
            elif text.startswith("batch 1"):
                path.write_text("no json\n")
                self.put(tmp_path / "in", 3)
            elif text.startswith("batch 2"):
                raise PipelineError("that will do")

        reporter = Told()
        reporter.say = change  # type: ignore[method-assign]
        options: dict[str, Any] = {"stream": Stream(interval_seconds=0.05), "on_bad_subscription": "skip"}
        with pytest.raises(PipelineError, match="that will do"):
            run_pipeline(tmp_path / "in", path, tmp_path / "out", spark=spark, reporter=reporter, **options)
        assert "2 subscriptions from now on" in reported.lines
        assert {row[:2] for row in on_disk(tmp_path / "out")[0]} == {
            ("001.xml", "first"),
            ("002.xml", "second"),
            ("002.xml", "third"),
        }

    def test_bad_subscriptions_stop_a_stream_that_is_to_fail(self, spark: "SparkSession", tmp_path: Path) -> None:
        path = tmp_path / "subscriptions.jsonl"
        write_subscriptions(path, [Subscription("b", "//b")])
        self.put(tmp_path / "in", 1)
        reporter = Told()

        def spoil(text: str) -> None:
            if text.startswith("batch 0"):
                write_subscriptions(path, [Subscription("b", "//b["), Subscription("c", "//b")])
                self.put(tmp_path / "in", 2)

        reporter.say = spoil  # type: ignore[method-assign]
        stream = Stream(interval_seconds=0.05)
        with pytest.raises(RefusedSubscriptions):
            run_pipeline(tmp_path / "in", path, tmp_path / "out", spark=spark, stream=stream, reporter=reporter)
        write_subscriptions(path, [Subscription("c", "//b")])
        run_pipeline(tmp_path / "in", path, tmp_path / "out", spark=spark, stream=Stream(once=True))
        assert {row[:2] for row in on_disk(tmp_path / "out")[0]} == {("001.xml", "b"), ("002.xml", "c")}

    def test_a_stream_without_its_checkpoint_is_refused(self, spark: "SparkSession", tmp_path: Path) -> None:
        population = SubscriptionSet([("b", "//b")])
        self.put(tmp_path / "in", 1)
        options: dict[str, Any] = {"spark": spark, "stream": Stream(once=True)}
        run_pipeline(tmp_path / "in", population, tmp_path / "out", **options)
        shutil.rmtree(tmp_path / "out" / "_checkpoint")
        with pytest.raises(OutputError, match="checkpoint"):
            run_pipeline(tmp_path / "in", population, tmp_path / "out", **options)

    def test_a_streaming_dataframe(self, spark: "SparkSession", tmp_path: Path) -> None:
        """Any source of Spark will do; here, its own for text files."""
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "lines.txt").write_text("<a/>\n<a><b/></a>\nno xml\n")
        frame = spark.readStream.text(str(tmp_path / "in")).selectExpr("md5(value) message_id", "value xml")
        summary = run_pipeline(frame, SubscriptionSet([("b", "//b")]), tmp_path / "out", stream=Stream(once=True))
        assert (summary.messages, summary.matches, summary.rejected) == (3, 1, 1)


SLOPPY = {
    "a.xml": b"\n<?xml version='1.0'?><n>&nbsp;\x01</n>",
    "b.xml": b"<n>\xfc</n>",
    "c.xml": b"<n>right</n>",
}


def test_repairs_are_counted_in_the_summary(spark: "SparkSession", tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, xml in SLOPPY.items():
        (folder / name).write_bytes(xml)
    pq.write_table(pa.table({"message_id": list(SLOPPY), "xml": list(SLOPPY.values())}), tmp_path / "in.parquet")
    population = SubscriptionSet({"n": "//n"})
    for number, source in enumerate((folder, tmp_path / "in.parquet")):
        summary = run_pipeline(source, population, tmp_path / f"strict {number}", spark=spark)
        assert (summary.matches, summary.rejected, summary.repairs) == (1, 2, 0)
        assert "repairs" not in summary.table()
        read = ReadOptions(tolerant=True)
        summary = run_pipeline(source, population, tmp_path / f"tolerant {number}", spark=spark, read=read)
        assert (summary.matches, summary.rejected, summary.repairs) == (3, 0, 4)
        assert "repairs        4" in summary.table()
        written = json.loads((tmp_path / f"tolerant {number}" / "summary.json").read_text())
        assert written["repairs"] == 4
    once = Stream(once=True)
    summary = run_pipeline(folder, population, tmp_path / "stream", spark=spark, stream=once, read=read)
    assert (summary.matches, summary.repairs) == (3, 4)


def test_repairs_of_records_are_counted(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "feed.xml"
    items = b"".join(b"<i>%d\x01 %s</i>" % (number, b"text " * 50) for number in range(9_000))
    path.write_bytes(b"\n<?xml version='1.0'?><r>" + items + b"<!--\x02--></r>")
    read = ReadOptions(record="i", tolerant=True)
    summary = run_pipeline(path, SubscriptionSet({"i": "//i"}), tmp_path / "out", spark=spark, read=read)
    assert (summary.messages, summary.rejected, summary.repairs) == (9_000, 0, 9_002)


@pytest.mark.parametrize("stream", [None, Stream(once=True)])
def test_errors_of_records_are_where_the_document_has_them(
    spark: "SparkSession", tmp_path: Path, stream: Stream | None
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.xml").write_bytes(b"<r xml:lang='de'>\n<i>1</i>\n  <i><k></i>\n<i>\n\xe9</i><i>1</i></r>")
    read = ReadOptions(record="i")
    summary = run_pipeline(
        folder, SubscriptionSet({"i": "/i"}), tmp_path / "out", spark=spark, read=read, stream=stream
    )
    assert (summary.matches, summary.rejected) == (2, 2)
    rows = spark.read.parquet(str(tmp_path / "out" / "rejected")).collect()
    assert {(row["message_id"], row["line"], row["column"]) for row in rows} == {("a.xml#2", 3, 9), ("a.xml#3", 5, 1)}
