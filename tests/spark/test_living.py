"""A population that lives while Spark matches: each micro-batch has one version, in its commit and in its rows."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from tests.seeds import printed_seed
from twigcast.errors import PipelineError
from twigcast.spark import LivingPopulation, Stream, match_messages, matches, run_pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("TWIGCAST_TEST_KILLS", "2"))
RUN_SECONDS = 240


def put(key: str, query: str) -> dict[str, Any]:
    return {"op": "put", "key": key, "query": query}


def found(answers: "DataFrame") -> set[tuple[str, str, int]]:
    return {(row.message_id, row.key, row.population_version) for row in answers.collect()}


def test_workers_go_from_version_to_version(spark: "SparkSession", tmp_path: Path) -> None:
    frame = spark.createDataFrame([("1", "<a n='1'/>"), ("2", "<b/>")], "message_id string, xml string")
    with LivingPopulation(tmp_path) as population:
        population.change([put("a", "/a"), put("b", "/b")])
        first = population.snapshot(spark)
        assert found(matches(match_messages(frame, first))) == {("1", "a", 1), ("2", "b", 1)}
        population.change([put("b", "/a[@n = 1]"), put("a", "/a["), {"op": "remove", "key": "none"}])
        answers = match_messages(frame, population.snapshot(spark))
        assert found(matches(answers)) == {("1", "a", 2), ("1", "b", 2)}
        assert found(matches(match_messages(frame, first))) == {("1", "a", 1), ("2", "b", 1)}
        assert [(row.key, row.query, row.population_version) for row in population.refused(spark).collect()] == [
            ("a", "/a[", 2)
        ]


def test_a_stream_of_changes_is_followed(spark: "SparkSession", tmp_path: Path) -> None:
    changes = tmp_path / "changes"
    changes.mkdir()
    rows = [{"version": 1, **put("a", "/a")}, {"version": 2, **put("b", "/b")}, {"version": 3, **put("b", "/b[")}]
    (changes / "1.json").write_text("\n".join(json.dumps(row) for row in rows))
    schema = "op string, version long, key string, query string"
    with LivingPopulation(tmp_path / "log") as population:

        def followed() -> None:
            stream = spark.readStream.schema(schema).json(str(changes))
            population.follow(stream, name="rules", checkpoint=tmp_path / "c", once=True).awaitTermination()

        followed()
        assert (population.version, len(population)) == (1, 2)
        assert [row.source_version for row in population.refused(spark).collect()] == [3]
        (changes / "2.json").write_text(json.dumps({"version": 4, "op": "remove", "key": "a"}))
        followed()
        assert list(population.position("rules").waiting) == []
        assert len(population) == 1
        with pytest.raises(PipelineError, match="is not a streaming one"):
            population.follow(spark.createDataFrame([], schema), name="x", checkpoint=tmp_path / "c2")
        stream = spark.readStream.schema("key string, query string").json(str(changes))
        with pytest.raises(PipelineError, match="no column op; the columns are key, query"):
            population.follow(stream, name="x", checkpoint=tmp_path / "c2")


def test_versions_stand_in_the_commits_and_rows_of_a_stream(spark: "SparkSession", tmp_path: Path) -> None:
    inbox, output = tmp_path / "inbox", tmp_path / "out"
    inbox.mkdir()
    with LivingPopulation(tmp_path / "log") as population:
        for number, query in enumerate(["/m", "/m[@n > 0]", "/other"]):
            (inbox / f"{number}.xml").write_text(f"<m n='{number}'/>")
            population.change([put("k", query)])
            run_pipeline(inbox, population, output, stream=Stream(once=True), spark=spark)
    rows = spark.read.parquet(str(output / "matches"))
    assert found(rows) == {("0.xml", "k", 1), ("1.xml", "k", 2)}
    records = [json.loads(path.read_text()) for path in sorted((output / "_commits").glob("*.json"))]
    assert [record["population_version"] for record in records] == [1, 2, 3]


PROGRAM = """
import random, sys, threading, time
from pathlib import Path
from twigcast.spark import LivingPopulation, Stream, open_session, run_pipeline
folder, seed = Path(sys.argv[1]), sys.argv[2]
population = LivingPopulation(folder / "log")

def churn():
    batch = population.position("feed").batch
    while True:
        batch += 1
        source = random.Random(f"{seed} {batch}")
        keys = [f"k{source.randrange(50)}" for _ in range(100)]
        population.take([{"op": "remove", "key": key} if source.random() < 0.3 else
            {"op": "put", "key": key, "query": f"/m[@n mod 7 = {source.randrange(7)}]"} for key in keys], "feed", batch)
        time.sleep(0.1)

def feed():
    number = len(list((folder / "inbox").glob("*.xml")))
    while True:
        path = folder / f"{number}.new"
        path.write_text(f"<m n='{number}'/>")
        path.rename(folder / "inbox" / f"{number}.xml")
        number += 1
        time.sleep(0.05)

for work in (churn, feed):
    threading.Thread(target=work, daemon=True).start()
spark = open_session("local[2]", log=folder / "spark.log")
print("started", flush=True)
run_pipeline(folder / "inbox", population, folder / "out",
             stream=Stream(interval_seconds=0.1, files_per_batch=5), spark=spark)
"""


def models(seed: int, batches: int) -> list[dict[str, int]]:
    """The remainder by key after each micro-batch of changes."""
    model: dict[str, int] = {}
    after = [dict(model)]
    for batch in range(batches):
        source = random.Random(f"{seed} {batch}")
        for key in [f"k{source.randrange(50)}" for _ in range(100)]:
            if source.random() < 0.3:
                model.pop(key, None)
            else:
                model[key] = source.randrange(7)
        after.append(dict(model))
    return after


@pytest.mark.slow
def test_under_churn_and_kills_rows_are_those_of_the_version_they_name(spark: "SparkSession", tmp_path: Path) -> None:
    """A driver is killed at random moments: in the end each message was matched once, with the version it names."""
    seed = printed_seed()
    source = random.Random(seed)
    (tmp_path / "inbox").mkdir()
    deadline = time.monotonic() + RUN_SECONDS
    for life in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        committed = len(list((tmp_path / "out" / "matches").glob("run=*/batch=*")))
        while len(list((tmp_path / "out" / "matches").glob("run=*/batch=*"))) < committed + 1:
            assert time.monotonic() < deadline, life
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(source.uniform(0, 1.5))
        process.send_signal(signal.SIGKILL)
        process.wait(RUN_SECONDS)
        process.stdout.close()
    with LivingPopulation(tmp_path / "log") as population:
        run_pipeline(tmp_path / "inbox", population, tmp_path / "out", stream=Stream(once=True), spark=spark)
        after = models(seed, population.version)
    rows = spark.read.parquet(str(tmp_path / "out" / "matches")).collect()
    got: dict[str, list[tuple[str, int]]] = {}
    for row in rows:
        got.setdefault(row.message_id, []).append((row.key, row.population_version))
    assert len(got) > 10
    for message, pairs in got.items():
        (version,) = {version for _, version in pairs}
        remainder = int(message.removesuffix(".xml")) % 7
        wanted = sorted(key for key, number in after[version].items() if number == remainder)
        assert sorted(key for key, _ in pairs) == wanted, message
    missing = {path.name for path in (tmp_path / "inbox").iterdir()} - got.keys()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["messages"] == len(got) + len(missing)
    assert len({version for pairs in got.values() for _, version in pairs}) > 3
