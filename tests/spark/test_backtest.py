"""Back-tests say what a broker's replay would have delivered, and who would get more or less."""

import asyncio
import datetime as dt
import gzip
import json
import os
import random
import subprocess
import sys
import zipfile
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from tests.broker.hub.hubs import TENANT, drain, publish, run, running, subscribe
from tests.seeds import printed_seed
from tests.spark.test_sharding import rows
from twigcast import SubscriptionSet
from twigcast.broker.store.store import open_store
from twigcast.errors import PipelineError, RefusedSubscriptions, SourceError
from twigcast.spark import LivingPopulation, ReadOptions, backtest, ship_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {
    "even": "/m[@n mod 2 = 0]",
    "texts": "for $m in /m where $m/@n > 30 return <r>{ $m/@n }</r>",
    "few": "//x[y]",
    "none": "/other",
    "night": "/m[time:within($now, 'Mo-Su 00:00-12:00', 'UTC')]",
}
RUN_SECONDS = 300


def message(source: random.Random, number: int) -> str:
    """A message of one of five days."""
    at = f"2026-03-{1 + number % 5:02}T{source.randrange(24):02}:00:00Z"
    return f"<m n='{number}' at='{at}'><x>{'<y/>' if source.random() < 0.2 else ''}</x></m>"


def test_answers_are_those_of_the_replay_of_a_broker(spark: "SparkSession", tmp_path: Path) -> None:
    source = random.Random(printed_seed())
    bodies = [message(source, number) for number in range(60)]
    replayed: list[tuple[str, str, str | None]] = []
    store = open_store(str(tmp_path / "store"))

    async def play() -> None:
        async with running(store) as broker:
            accepted = await publish(broker, *bodies)
            for key, query in QUERIES.items():
                subscription = await subscribe(broker, key, query, replay_from=accepted[0].seq)
                while broker.metrics.replays:
                    await asyncio.sleep(0.002)
                for one in await drain(broker, subscription.queue_id):
                    payload = None if one.payload is None else one.payload.decode()
                    replayed.append((key, str(one.id.seq), payload))

    run(play())
    stored = store.messages(TENANT, after=0, up_to=1_000, limit=1_000, bytes_max=1 << 20)
    store.close()
    assert len(stored) == 60
    frame = spark.createDataFrame(
        [(str(one.seq), bytearray(one.xml), dt.datetime.fromtimestamp(one.received)) for one in stored],
        "message_id string, xml binary, received timestamp",
    )
    with backtest(frame, SubscriptionSet(QUERIES), published="received", samples=100) as report:
        assert rows(report.samples, "key", "message_id", "payload") == sorted(replayed, key=str)
        assert report.delivered == len(replayed)
        counts = {row["key"]: row["delivered"] for row in report.counts.collect()}
    assert set(counts) >= {"even", "texts"}
    assert sum(counts.values()) == len(replayed)


def test_archives_folders_patterns_and_records_are_counted_by_day(spark: "SparkSession", tmp_path: Path) -> None:
    source = random.Random(printed_seed())
    bodies = [message(source, number) for number in range(20)]
    (tmp_path / "one").mkdir()
    for number, body in enumerate(bodies[:5]):
        (tmp_path / "one" / f"{number}.xml").write_text(body)
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        for number, body in enumerate(bodies[5:10]):
            archive.writestr(f"{number}.xml", body)
    (tmp_path / "three.xml.gz").write_bytes(gzip.compress(f"<feed>{''.join(bodies[10:])}</feed>".encode()))
    paths = [tmp_path / "one" / "?.xml", tmp_path / "two.zip", tmp_path / "three.xml.gz"]
    with backtest(paths, SubscriptionSet(QUERIES), time="/m/@at", read=ReadOptions(record="m"), spark=spark) as report:
        assert (report.messages, report.rejected, report.undated) == (20, 0, 0)
        even = rows(report.counts.where("key = 'even'"), "day", "delivered")
    assert even == [(date(2026, 3, day), 2) for day in range(1, 6)]


def test_the_day_of_a_file_is_that_of_its_change(spark: "SparkSession", tmp_path: Path) -> None:
    for number, day in enumerate((3, 3, 9)):
        file = tmp_path / f"{number}.xml"
        file.write_text(f"<m n='{number}'/>")
        at = dt.datetime(2026, 5, day, 23, 30, tzinfo=dt.UTC).timestamp()
        os.utime(file, (at, at))
    night = {"night": "/m[time:within($now, 'Mo-Su 23:00-24:00', 'UTC')]"}
    with backtest(tmp_path, SubscriptionSet(night), spark=spark) as report:
        assert rows(report.counts, "day", "key", "delivered") == [
            (date(2026, 5, 3), "night", 2),
            (date(2026, 5, 9), "night", 1),
        ]


def test_two_populations_are_compared_on_the_same_messages(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(4):
        (tmp_path / "in" / f"{number}.xml").write_text(f"<m n='{number}' at='2026-03-01T00:00:00Z'/>")
    (tmp_path / "in" / "bad.xml").write_text("<m")
    today = {"large": "/m[@n > 1]", "same": "/m", "shown": "for $m in /m[@n = 1] return <r>{ $m/@n }</r>"}
    tomorrow = {**today, "large": "/m[@n > 2]", "shown": today["shown"].replace("r>", "s>"), "new": "/m"}
    (tmp_path / "tomorrow.json").write_text(json.dumps(tomorrow))
    with backtest(
        tmp_path / "in",
        SubscriptionSet(today),
        against=tmp_path / "tomorrow.json",
        time="//@at",
        samples=1,
        spark=spark,
    ) as report:
        assert (report.delivered, report.delivered_against) == (7, 10)
        assert (report.gained, report.lost, report.changed, report.rejected) == (4, 1, 1, 1)
        assert rows(report.counts, "key", "before", "after", "gained", "lost", "changed") == [
            ("large", 2, 1, 0, 1, 0),
            ("new", 0, 4, 4, 0, 0),
            ("same", 4, 4, 0, 0, 0),
            ("shown", 1, 1, 0, 0, 1),
        ]
        assert rows(report.samples.where("change <> 'gained'"), "key", "change", "message_id", "before", "after") == [
            ("large", "lost", "2.xml", None, None),
            ("shown", "changed", "1.xml", "<r n='1'/>", "<s n='1'/>"),
        ]
        assert rows(report.rejections, "message_id") == [("bad.xml",)]
        details = {row["key"]: len(row["samples"]) for row in report.details.collect()}
    assert details == {"large": 1, "new": 1, "same": 0, "shown": 1}


def test_what_cannot_be_back_tested_is_refused_with_what_to_do(spark: "SparkSession", tmp_path: Path) -> None:
    population = SubscriptionSet({"all": "/*"})
    (tmp_path / "a.xml").write_text("<m/>")
    with pytest.raises(SourceError, match="nothing matches the pattern"):
        backtest(tmp_path / "*.zip", population, spark=spark)
    with pytest.raises(PipelineError, match="must be a path to it, such as //pubDate"):
        backtest(tmp_path, population, time="1 + 1", spark=spark)
    with pytest.raises(PipelineError, match="give the path to the time: time="):
        backtest(tmp_path, population, published="at", spark=spark)
    with pytest.raises(PipelineError, match="give time or published"):
        backtest(tmp_path, population, time="//a", published="at", spark=spark)
    with pytest.raises(PipelineError, match="say where the messages are"):
        backtest([], population, spark=spark)
    (tmp_path / "bad.jsonl").write_text('{"key": "a", "query": "/a["}\n')
    with pytest.raises(RefusedSubscriptions):
        backtest(tmp_path / "a.xml", population, against=tmp_path / "bad.jsonl", spark=spark)


def test_the_command_prints_lines_and_tells_by_its_status(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<m at='2026-03-01'><t>x</t></m>")
    (tmp_path / "rules.jsonl").write_text('{"key": "t", "query": "for $t in //t return <u>{ $t/text() }</u>"}\n')
    command = [sys.executable, "-m", "twigcast", "backtest", "--master", "local[1]", "--messages", "a.xml"]

    def done(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
        )

    answer = done("-s", "rules.jsonl", "--time", "/m/@at", "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert json.loads(answer.stdout) == {
        "day": "2026-03-01",
        "key": "t",
        "delivered": 1,
        "undecided": 0,
        "samples": [{"message_id": "a.xml", "payload": "<u>x</u>"}],
    }
    nothing = done("-q", "/other")
    assert nothing.returncode == 4
    assert "delivered      0" in nothing.stdout
    refused = done("-q", "/m", "--time", "count(//a)")
    assert refused.returncode == 2
    assert "must be a path" in refused.stderr


def test_a_micro_batch_is_compared_with_a_shipped_set_and_a_living_population(
    spark: "SparkSession", tmp_path: Path
) -> None:
    frame = spark.createDataFrame([("1", "<a/>"), ("2", "<b/>")], "message_id string, xml string")
    today = ship_snapshot(spark, SubscriptionSet({"x": "/a", "y": "/b"}))
    with LivingPopulation(tmp_path) as tomorrow:
        tomorrow.change([{"op": "put", "key": key, "query": "/c"} for key in ("y", "x", "z")])
        tomorrow.change([{"op": "remove", "key": "y"}, {"op": "put", "key": "x", "query": "/*"}])
        with backtest(frame, today, against=tomorrow) as report:
            assert (report.undated, report.gained, report.lost) == (2, 1, 1)
            assert rows(report.counts, "day", "key", "gained", "lost") == [(None, "x", 1, 0), (None, "y", 0, 1)]
