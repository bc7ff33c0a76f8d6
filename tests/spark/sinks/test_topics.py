"""The records that the sink of Kafka topics makes; ``tests/end_to_end/test_pipeline_kafka.py`` sends them."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from twigcast.errors import OutputError
from twigcast.spark.sinks.topics import KafkaTopics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "name a topic"),
        ({"deliveries": "a", "key": "topic"}, "key must be subscription or message_id"),
        ({"deliveries": "a", "options": {"Topic": "b"}}, "the option topic is set by"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(OutputError, match=reason):
        KafkaTopics(servers="broker:9092", **settings)  # type: ignore[arg-type]


def test_kinds_without_a_topic_are_left_out() -> None:
    assert KafkaTopics(servers="broker:9092", rejected="dead").kinds() == ("rejected",)


@pytest.mark.spark
def test_records_have_keys_and_headers(spark: "SparkSession") -> None:
    rows = spark.sql("SELECT 'm' message_id, 'k' key, '<p/>' payload, 'r' run, 7L batch, now() event_time")
    again = spark.sql("SELECT 'm' message_id, 'k' key, '<p/>' payload, 'r' run, 8L batch, now() event_time")
    sink = KafkaTopics(servers="broker:9092", deliveries="a", rejected="b")
    (record,) = sink.records("deliveries", rows).collect()
    headers = {header["key"]: bytes(header["value"]).decode() for header in record["headers"]}
    assert (record["key"], record["value"]) == ("k", "<p/>")
    assert {name: headers[name] for name in ("message_id", "subscription", "run", "batch")} == {
        "message_id": "m", "subscription": "k", "run": "r", "batch": "7"
    }  # fmt: skip
    (second,) = sink.records("deliveries", again).collect()
    assert headers["id"] in {bytes(header["value"]).decode() for header in second["headers"]}
    bad = spark.sql(
        "SELECT 'm' message_id, 'why' reason, 3L line, cast(null as bigint) `column`, cast('<m' as binary) xml, "
        "'r' run, 7L batch"
    )
    (record,) = sink.records("rejected", bad).collect()
    headers = {header["key"]: bytes(header["value"]).decode() for header in record["headers"]}
    assert (record["key"], bytes(record["value"])) == ("m", b"<m")
    assert headers.keys() == {"id", "message_id", "reason", "line", "run", "batch"}
    assert KafkaTopics(servers="s", deliveries="a", key="message_id").records("deliveries", rows).first()["key"] == "m"  # type: ignore[index]


@pytest.mark.spark
def test_records_say_what_a_window_tells_of_and_have_an_id_each(spark: "SparkSession") -> None:
    columns = "message_id string, key string, payload string, action string, window_key string, at timestamp, "
    columns += "stands_for array<string>, old string, new string, run string, batch bigint"
    at = datetime(2026, 11, 30, 2, tzinfo=UTC)
    rows = [
        ("m", "k", "<p/>", None, None, None, None, None, None, "r", 7),
        ("m", "k", None, "deliver", "Lea", at, ["l", "m"], "1", "2", "r", 7),
        ("m", "k", "<digest/>", "release", "Lea", at, ["m"], None, None, "r", 7),
        (None, "k", "<absence/>", "absent", "", at, [], None, None, "r", 7),
    ]
    sink = KafkaTopics(servers="broker:9092", deliveries="a")
    found = [
        {header["key"]: bytes(header["value"]).decode() for header in record["headers"]}
        for record in sink.records("deliveries", spark.createDataFrame(rows, columns)).collect()
    ]
    assert len({one["id"] for one in found}) == 4
    assert found[0].keys() == {"id", "message_id", "subscription", "run", "batch"}
    told = {name: found[1][name] for name in ("action", "window_key", "stands_for", "old", "new")}
    assert told == {"action": "deliver", "window_key": "Lea", "stands_for": '["l","m"]', "old": "1", "new": "2"}
    assert "message_id" not in found[3]


@pytest.mark.spark
def test_without_the_connector_the_error_says_what_to_do(spark: "SparkSession") -> None:
    with pytest.raises(OutputError, match=r"--packages org\.apache\.spark:spark-sql-kafka-0-10_2\.13"):
        KafkaTopics(servers="broker:9092", deliveries="a").open(spark)
