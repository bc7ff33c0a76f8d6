"""Life cycles on Spark against the model that judges library and broker: batch jobs, streams, and pipelines."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from tests.lifecycle.model import AREAS, PROFILE, Made, Model, history
from tests.seeds import printed_seed
from tests.spark.streamed_files import set_order
from twigcast import SubscriptionSet
from twigcast.errors import LifecycleProfileError, PipelineError, SourceError
from twigcast.spark import (
    LifecycleSettings,
    Stream,
    deliveries,
    relate_messages,
    run_pipeline,
)
from twigcast.spark.lifecycles import state_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUBSCRIBERS = {f"k{number}": AREAS[number % len(AREAS)] for number in range(8)}
DDL = "message_id string, xml string, at timestamp, source string"

Told = dict[str, dict[str, str]]
"""By id of a message, what it is to each subscription that gets it."""


def population(areas: Mapping[str, str]) -> SubscriptionSet:
    return SubscriptionSet({key: f"//area = '{area}'" for key, area in areas.items()})


def rows(messages: Sequence[Made], first: int = 0, source: str = "s") -> list[tuple[Any, ...]]:
    return [
        (f"m{number}", message.xml, datetime.fromtimestamp(number + 1, UTC), source)
        for number, message in enumerate(messages, first)
    ]


def told(found: Iterator[Mapping[str, Any]]) -> tuple[Told, list[str]]:
    """Returns what messages are to whom, and who is told of the end by the time, in any order."""
    by_message: Told = defaultdict(dict)
    ended = []
    for row in found:
        if row["effect"] == "expired" and row["at"] is None:
            ended.append(row["key"])
        else:
            assert row["key"] not in by_message[row["message_id"]], "once"
            by_message[row["message_id"]][row["key"]] = row["relation"] or ""
    return dict(by_message), sorted(ended)


def expected(
    batches: Sequence[Sequence[tuple[int, Made]]], follows: Mapping[str, bool], times: Sequence[float | None]
) -> tuple[Told, list[str]]:
    """Returns what the model says of messages in micro-batches, each with the time that is reached after it."""
    model, by_message, ended = Model(), dict[str, dict[str, str]](), list[str]()
    for batch, time in zip(batches, times, strict=True):
        for number, message in batch:
            if result := model.enter(message, SUBSCRIBERS, follows, number + 1):
                by_message[f"m{number}"] = result
        for line in model.expire(int(time), SUBSCRIBERS, follows) if time is not None else ():
            ended += line.partition(" of ")[0].split(",") if line.partition(" of ")[0] else []
    return by_message, sorted(ended)


@pytest.mark.spark
def test_a_batch_job_does_what_the_model_does(spark: SparkSession) -> None:
    random_ = random.Random(printed_seed())
    messages = history(random_, 300)
    follows = {key: random_.random() < 0.7 for key in SUBSCRIBERS}
    frame = spark.createDataFrame(random_.sample(rows(messages), len(messages)), DDL).repartition(3)
    settings = LifecycleSettings(profile=PROFILE, follow=follows, published="at")
    answers = relate_messages(frame, population(SUBSCRIBERS), settings)
    assert answers.columns == [
        "message_id", "at", "source", "effect", "trouble", "matches", "deliveries", "rejected",
    ]  # fmt: skip
    found = told(row.asDict() for row in deliveries(answers).collect())
    assert found == expected([list(enumerate(messages))], follows, [1e9])


@pytest.mark.spark
def test_a_stream_with_a_watermark_does_what_the_model_does(spark: SparkSession, tmp_path: Path) -> None:
    random_ = random.Random(printed_seed())
    messages = history(random_, 120)
    follows = {key: random_.random() < 0.7 for key in SUBSCRIBERS}
    batches, start = [], 0
    while start < len(messages):
        end = start + random_.randrange(15, 40)
        batches.append(list(enumerate(messages))[start:end])
        start = end
    (tmp_path / "in").mkdir()
    for number, batch in enumerate(batches):
        shuffled = random_.sample(rows([one for _, one in batch], batch[0][0]), len(batch))
        table = pa.Table.from_pylist(
            [dict(zip(("message_id", "xml", "at", "source"), row, strict=True)) for row in shuffled]
        )
        pq.write_table(table, tmp_path / "in" / f"{number:03}.parquet", coerce_timestamps="us")
    set_order(tmp_path / "in")
    stream = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    settings = LifecycleSettings(profile=PROFILE, follow=follows, published="at")
    found: list[dict[str, Any]] = []

    def take(batch: DataFrame, _: int) -> None:
        found.extend(row.asDict() for row in deliveries(batch).collect())

    with pytest.raises(PipelineError, match="RocksDB"):
        relate_messages(stream, population(SUBSCRIBERS), settings)
    with state_settings(spark, settings):
        answers = relate_messages(stream.withWatermark("at", "0 seconds"), population(SUBSCRIBERS), settings)
        query = answers.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
    times = [float(batch[-1][0] + 1) for batch in batches]
    assert told(iter(found)) == expected(batches, follows, times)


@pytest.mark.spark
def test_a_pipeline_goes_on_where_it_was_with_other_subscriptions(spark: SparkSession, tmp_path: Path) -> None:
    """Three runs of one stream: each takes its subscriptions from a file that changed, and knows what came before."""
    random_ = random.Random(printed_seed())
    messages = history(random_, 60, expiring=False)
    follows = {key: random_.random() < 0.7 for key in SUBSCRIBERS}
    settings = LifecycleSettings(profile=PROFILE, follow=follows)
    model, wanted, areas = Model(), dict[str, dict[str, str]](), dict(SUBSCRIBERS)
    (tmp_path / "in").mkdir()
    for run in range(3):
        for number in range(20 * run, 20 * run + 20):
            (tmp_path / "in" / f"m{number}").write_text(messages[number].xml)
            if result := model.enter(messages[number], areas, follows, number):
                wanted[f"m{number}"] = result
        lines = [json.dumps({"key": key, "query": f"//area = '{area}'"}) for key, area in areas.items()]
        (tmp_path / "subscriptions.jsonl").write_text("\n".join(lines))
        summary = run_pipeline(
            tmp_path / "in", tmp_path / "subscriptions.jsonl", tmp_path / "out",
            stream=Stream(once=True), lifecycle=settings, spark=spark,
        )  # fmt: skip
        for key in random_.sample(sorted(SUBSCRIBERS), 4):
            areas[key] = random_.choice(AREAS)
        areas.pop(random_.choice(sorted(areas)))
    found = pq.read_table(tmp_path / "out" / "deliveries").to_pylist()
    got: Told = defaultdict(dict)
    for row in found:
        got[row["message_id"]][row["key"]] = row["relation"] or ""
    assert dict(got) == wanted
    assert (summary.messages, summary.deliveries) == (60, len(found))
    assert sum(map(len, got.values())) == len(found), "once"


@pytest.mark.spark
def test_what_cannot_be_followed_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    from twigcast.envelope import Envelope

    frame = spark.createDataFrame([("a", "<m/>", None, None)], DDL)
    with pytest.raises(LifecycleProfileError, match="there is no such profile"):
        LifecycleSettings(profile="cpa")
    with pytest.raises(SourceError, match="there is no column region; the columns are message_id"):
        relate_messages(frame, population({}), LifecycleSettings(profile="cap", by="region"))
    with pytest.raises(SourceError, match="the column source must be timestamp"):
        relate_messages(frame, population({}), LifecycleSettings(profile="cap", published="source"))
    with pytest.raises(SourceError, match="the answers add a column effect"):
        relate_messages(frame.withColumnRenamed("source", "effect"), population({}), LifecycleSettings(profile="cap"))
    with pytest.raises(PipelineError, match="envelope"):
        run_pipeline(
            frame, population({}), tmp_path / "out",
            lifecycle=LifecycleSettings(profile="cap"), envelope=Envelope("e"), spark=spark,
        )  # fmt: skip
