"""What Spark programs of one's own use: the format by name, and answers beside the program's own columns."""

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException

from twigcast import SubscriptionSet
from twigcast.errors import SourceError
from twigcast.spark import (
    deliveries,
    match_messages,
    matches,
    read_messages,
    register_match_function,
    rejected,
    run_pipeline,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOON = dt.datetime(2026, 3, 1, 12)
ORDERS = [
    (1, "north", NOON, "<order><total>250</total></order>", ["a"]),
    (2, "south", NOON + dt.timedelta(minutes=3), "<order><total>20</total></order>", None),
    (3, "north", NOON + dt.timedelta(minutes=11), "<order><total>300</total></order>", []),
    (4, "south", NOON + dt.timedelta(minutes=12), "<order><total>1</order>", ["b", "c"]),
    (5, None, NOON, None, None),
]
DDL = "number bigint, region string, at timestamp, body string, tags array<string>"


@pytest.fixture
def orders(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame(ORDERS, DDL)


@pytest.fixture
def population() -> SubscriptionSet:
    return SubscriptionSet(
        [("large", "/order[total > 100]"), ("receipt", "for $o in /order return <r>{ $o/total/text() }</r>")]
    )


def test_all_columns_stay_beside_the_answers(orders: "DataFrame", population: SubscriptionSet) -> None:
    answers = match_messages(orders, population, message_id="number", xml="body").cache()
    assert answers.columns == [*orders.columns, "matches", "deliveries", "rejected"]
    assert sorted(map(tuple, answers.select(*orders.columns).collect()), key=lambda row: row[0]) == ORDERS
    found = {(row.number, row.region, row.key) for row in matches(answers, xml="body").collect()}
    assert found == {(1, "north", "large"), (1, "north", "receipt"), (2, "south", "receipt"), (3, "north", "large"),
                     (3, "north", "receipt")}  # fmt: skip
    payloads = {(row.number, row.payload) for row in deliveries(answers, xml="body").collect()}
    assert payloads == {(1, "<r>250</r>"), (2, "<r>20</r>"), (3, "<r>300</r>")}
    refused = {(row.number, row.at, bytes(row.xml or b"")) for row in rejected(answers, xml="body").collect()}
    assert refused == {(4, ORDERS[3][2], b"<order><total>1</order>"), (5, NOON, b"")}
    answers.unpersist()


def test_windows_and_joins_of_spark_work_on_answers(
    spark: "SparkSession", orders: "DataFrame", population: SubscriptionSet
) -> None:
    from pyspark.sql.functions import col, count, window

    answers = match_messages(orders, population, message_id="number", xml="body")
    counts = matches(answers, xml="body").where("key = 'large'").groupBy(window("at", "10 minutes"))
    assert sorted(row.n for row in counts.agg(count("*").alias("n")).collect()) == [1, 1]
    owners = spark.createDataFrame([("large", "ann")], "key string, owner string")
    joined = matches(answers, xml="body").join(owners, "key").select(col("number"), col("owner"))
    assert {tuple(row) for row in joined.collect()} == {(1, "ann"), (3, "ann")}


def test_a_stream_is_matched_in_foreach_batch_and_beside_a_watermark(
    spark: "SparkSession", orders: "DataFrame", population: SubscriptionSet, tmp_path: Path
) -> None:
    orders.write.parquet(str(tmp_path / "orders"))
    stream = spark.readStream.schema(DDL).parquet(str(tmp_path / "orders")).withWatermark("at", "1 hour")
    answers = match_messages(stream, population, message_id="number", xml="body")
    seen: set[tuple[int, str]] = set()

    def take(batch: "DataFrame", _: int) -> None:
        seen.update((row.number, row.key) for row in matches(batch, xml="body").collect())

    query = answers.writeStream.foreachBatch(take).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert seen == {(1, "large"), (1, "receipt"), (2, "receipt"), (3, "large"), (3, "receipt")}


def test_columns_that_cannot_be_used_are_named(
    spark: "SparkSession", orders: "DataFrame", population: SubscriptionSet
) -> None:
    with pytest.raises(SourceError, match="there is no column message_id; the columns are number, region"):
        match_messages(orders, population, xml="body")
    with pytest.raises(SourceError, match="the column tags must be string or binary"):
        match_messages(orders, population, message_id="number", xml="tags")
    clash = orders.withColumnRenamed("tags", "Matches")
    with pytest.raises(SourceError, match="there is one already: rename it"):
        match_messages(clash, population, message_id="number", xml="body")


def test_the_format_is_found_by_name(spark: "SparkSession", tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(3):
            (tmp_path / name / f"{number}.xml").write_text(f"<{name}><i n='{number}'/><i/></{name}>")
    reader = spark.read.format("twigcast")
    assert reader.load(str(tmp_path / "a")).count() == 3
    both = reader.load([str(tmp_path / "a"), (tmp_path / "b").as_uri()])
    assert both.count() == 6
    assert both.columns == ["message_id", "xml", "problem", "_metadata"]
    assert {row.message_id for row in both.collect()} == {"0.xml", "1.xml", "2.xml"}
    assert reader.load(str(tmp_path / "?" / "1.xml")).count() == 2
    assert reader.option("record", "i").load(str(tmp_path / "b")).count() == 6
    frame = spark.read.format("twigcast").option("include", "2*").load(str(tmp_path / "a"))
    assert [row.message_id for row in frame.collect()] == ["2.xml"]
    assert sorted(map(tuple, spark.read.format("twigcast").load(str(tmp_path / "a")).collect())) == sorted(
        map(tuple, read_messages(spark, tmp_path / "a").collect())
    )


def test_a_stream_of_the_format_lives_in_its_checkpoint(spark: "SparkSession", tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()

    def run(*, clean: bool = False) -> list[tuple[str, str]]:
        stream = spark.readStream.format("twigcast").option("settleSeconds", "0.1").option("maxFilesPerTrigger", "2")
        if clean:
            stream = stream.option("cleanSource", "archive").option("sourceArchiveDir", str(tmp_path / "done"))
        rows: list[tuple[str, str]] = []

        def take(batch: "DataFrame", number: int) -> None:
            found = batch.select("message_id", "xml", "_metadata.path").collect()
            rows.extend((row.message_id, bytes(row.xml).decode()) for row in found)

        query = stream.load(str(inbox)).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).foreachBatch(take).start().awaitTermination()
        return sorted(rows)

    for number in range(3):
        (inbox / f"{number}.xml").write_text(f"<a>{number}</a>")
    assert run() == [("0.xml", "<a>0</a>"), ("1.xml", "<a>1</a>"), ("2.xml", "<a>2</a>")]
    assert run() == []
    (inbox / "1.xml").write_text("<a>new</a>")
    (inbox / "3.xml").write_text("<a>3</a>")
    assert run(clean=True) == [("1.xml", "<a>new</a>"), ("3.xml", "<a>3</a>")]
    # The last micro-batch of a run is known to be written when the next run begins.
    assert sorted(path.name for path in inbox.iterdir()) == ["0.xml"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "say where the messages are"),
        ({"path": "/no/such/folder"}, "No such file"),
        ({"path": "/no/such/*.xml"}, "nothing matches the pattern"),
        ({"path": "/", "recrod": "i"}, "there is no option recrod; the options are documents, dtd"),
        ({"path": "/", "messageBytesMax": "1 MB"}, "must be a number of bytes, not '1 MB'"),
    ],
)
def test_options_that_cannot_be_used_are_named(spark: "SparkSession", options: dict[str, str], reason: str) -> None:
    with pytest.raises(PySparkException, match=reason):
        spark.read.format("twigcast").options(**options).load().count()


def test_messages_are_matched_in_sql(spark: "SparkSession", orders: "DataFrame", population: SubscriptionSet) -> None:
    orders.createOrReplaceTempView("orders")
    register_match_function(spark, population)
    rows = spark.sql(
        "SELECT * FROM twigcast_match(TABLE(SELECT number AS message_id, body AS xml FROM orders)) "
        "ORDER BY message_id, key"
    ).collect()
    by_id = [(row.message_id, row.key, row.payload, row.problem is not None) for row in rows]
    assert by_id == [
        ("1", "large", None, False),
        ("1", "receipt", "<r>250</r>", False),
        ("2", "receipt", "<r>20</r>", False),
        ("3", "large", None, False),
        ("3", "receipt", "<r>300</r>", False),
        ("4", None, None, True),
        ("5", None, None, True),
    ]


def test_repairs_of_each_message_are_in_its_place(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(b"<n>\x01\x02</n>")
    (tmp_path / "b.xml").write_bytes(b"<n/>")
    reader = spark.read.format("twigcast")
    strict = reader.load(str(tmp_path)).select("_metadata.repairs").collect()
    assert [row.repairs for row in strict] == [None, None]
    frame = reader.option("tolerant", "true").load(str(tmp_path))
    found = {row.message_id: row.repairs for row in frame.select("message_id", "_metadata.repairs").collect()}
    assert found == {"a.xml": 2, "b.xml": 0}
    summary = run_pipeline(frame, SubscriptionSet({"n": "//n"}), tmp_path / "out", spark=spark)
    assert (summary.matches, summary.repairs) == (2, 2)
