"""Delta and Iceberg tables: a stream that is killed between any two tables lands each micro-batch once.

``tests/services/tables.sh`` fetches both formats, and the newest Spark that Iceberg is published for. `make
test-tables` calls it and runs these; `make test` skips them, since it would fetch a second Spark.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from twigcast.errors import RejectedMessage
from twigcast.spark.sinks.tables import DeltaTables, IcebergTables
from twigcast.subscriptions import SubscriptionSet

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
FETCHED = ROOT / "build" / "tables"
FILES, EACH = 6, 5
RUN_SECONDS = 300
SUBSCRIPTIONS = {
    "few": "/m[@n mod 7 = 0]",
    "all": "/m",
    "made": "for $m in /m where $m/@n mod 3 = 0 return <r>{ $m/@n }</r>",
}
SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}
PROGRAM = """
import json, os, signal, sys
from dataclasses import replace
from pathlib import Path
from twigcast.errors import OutputError
from twigcast.spark import DeltaTables, IcebergTables, Stream, run_pipeline
from twigcast.spark.session import open_session

kind, jars, folder, settings, kill, write = sys.argv[1:]
work = Path(folder)
settings = {**json.loads(settings), "spark.jars": jars, "spark.sql.warehouse.dir": str(work / "lake"),
            "spark.sql.catalog.lake.warehouse": str(work / "lake"), "spark.sql.session.timeZone": "Asia/Tokyo"}
spark = open_session("local[2]", log=work / "spark.log", settings=settings)
made = DeltaTables if kind == "delta" else IcebergTables
database = str(work / "lake" / "answers") if kind == "delta" else "lake.answers"
base = made(database=database, by_day=True, sort_by_key=True, event_time="at")
writes = 0


class Killed(made):
    def write(self, table, rows, origin):
        global writes
        super().write(table, rows, origin)
        if table == kill:
            writes += 1
            if writes == int(write):
                os.killpg(0, signal.SIGKILL)


def rows(table):
    return [json.loads(line) for line in spark.table(table).toJSON().collect()]


schema = "message_id string, xml string, at timestamp"
messages = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(work / "in"))
stream = Stream(once=True, checkpoint=work / "checkpoint")
sink = Killed(database=base.database, by_day=True, sort_by_key=True, event_time="at")
summary = run_pipeline(messages, work / "subscriptions.jsonl", sink=sink, stream=stream)
result = {"summary": summary.as_dict()}
names = ("matches", "deliveries", "rejected")
result["stream"] = {name: rows(base.table(name)) for name in names}
base.compact(spark)
result["compacted"] = {name: rows(base.table(name)) for name in names}
batch = spark.read.schema(schema).json(str(work / "in"))
for _ in range(2):
    run_pipeline(batch, work / "subscriptions.jsonl", sink=replace(base, run="it's monday"))
result["named"] = {name: rows(base.table(name)) for name in names}
spark.sql(f"CREATE TABLE {replace(base, prefix='bad_').table('matches')} (message_id int) USING {kind}")
try:
    run_pipeline(batch, work / "subscriptions.jsonl", sink=replace(base, prefix="bad_"))
except OutputError as error:
    result["error"] = str(error)
(work / "result.json").write_text(json.dumps(result))
"""


def program(kind: str, folder: Path, kill: str = "", write: int = 0) -> int:
    """Runs the program to its end, or until it kills itself after a write to a table."""
    jars = ",".join(map(str, (FETCHED / kind).glob("*.jar")))
    if not jars:
        pytest.skip("no tables in build/tables: `make test-tables` fetches them (600 MB), and runs this")
    paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    if kind == "iceberg":
        paths.insert(0, str(FETCHED / "spark-4.1"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with (folder / "program.log").open("ab") as log:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, kind, jars, str(folder), json.dumps(SETTINGS[kind]), kill, str(write)],
            cwd=folder, env=environment, stdout=log, stderr=log, timeout=RUN_SECONDS, start_new_session=True,
        ).returncode  # fmt: skip


def write_input(folder: Path) -> list[tuple[str, str]]:
    """Writes messages, each file later than the one before, and returns them."""
    (folder / "in").mkdir()
    messages = []
    for file in range(FILES):
        lines = []
        for number in range(file * EACH, (file + 1) * EACH):
            message = (f"m{number}", f"<m n='{number}'/>" if number % 11 else "<m")
            messages.append(message)
            at = f"2026-03-0{1 + number % 2}T23:30:00Z"
            lines.append(json.dumps({"message_id": message[0], "xml": message[1], "at": at}))
        path = folder / "in" / f"{file}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (1_000_000 + file, 1_000_000 + file))
    (folder / "subscriptions.jsonl").write_text(
        "\n".join(json.dumps({"key": key, "query": query}) for key, query in SUBSCRIPTIONS.items())
    )
    return messages


def by_library(
    messages: list[tuple[str, str]],
) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str, str]], set[str]]:
    population = SubscriptionSet(SUBSCRIPTIONS)
    matches: Counter[tuple[str, str]] = Counter()
    deliveries: Counter[tuple[str, str, str]] = Counter()
    rejected = set()
    for message_id, xml in messages:
        try:
            matches.update((message_id, key) for key in population.match(xml).keys)
            deliveries.update(
                (message_id, one.key, one.payload.decode()) for one in population.deliver(xml) if one.rewritten
            )
        except RejectedMessage:
            rejected.add(message_id)
    return matches, deliveries, rejected


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_each_micro_batch_lands_once_whatever_is_killed(kind: str, tmp_path: Path) -> None:
    messages = write_input(tmp_path)
    matches, deliveries, rejected = by_library(messages)
    assert deliveries
    assert rejected
    for table, write in (
        ("deliveries", 2),
        ("matches", 3),
    ):  # between two tables; after the last, before Spark notes it
        assert program(kind, tmp_path, table, write) == -signal.SIGKILL
    assert program(kind, tmp_path) == 0, (tmp_path / "program.log").read_text()[-3000:]
    result = json.loads((tmp_path / "result.json").read_text())

    for tables in (result["stream"], result["compacted"]):
        assert Counter((row["message_id"], row["key"]) for row in tables["matches"]) == matches
        assert Counter((row["message_id"], row["key"], row["payload"]) for row in tables["deliveries"]) == deliveries
        assert Counter(row["message_id"] for row in tables["rejected"]) == Counter(rejected)
    _origins_are_right(result["stream"])
    named = [row for row in result["named"]["matches"] if row["run"] == "it's monday"]
    assert Counter((row["message_id"], row["key"]) for row in named) == matches
    assert len(result["named"]["matches"]) == 2 * matches.total()
    assert "bad_matches" in result["error"]
    assert "message_id of type string, and has int" in result["error"]
    _files_are_sorted(tmp_path / "lake")


def _origins_are_right(tables: dict[str, list[dict[str, Any]]]) -> None:
    """Each row says where it comes from: one run, its micro-batch, its day in UTC, whatever zone the session has."""
    rows = [row for table in tables.values() for row in table]
    assert len({row["run"] for row in rows}) == 1
    for row in rows:
        number = int(row["message_id"][1:])
        assert row["batch"] == number // EACH
        assert row["day"] == f"2026-03-0{1 + number % 2}"
        assert row["event_time"].startswith(f"2026-03-0{2 + number % 2}T08:30:00")


def _files_are_sorted(lake: Path) -> None:
    files = [path for path in lake.rglob("*.parquet") if "/matches/" in str(path) and "_delta_log" not in str(path)]
    several = 0
    for path in files:
        keys = pq.ParquetFile(path).read(["key"]).column("key").to_pylist()
        several += len(set(keys)) > 1
        if len(set(keys)) > 1 and len(keys) <= 3 * EACH:  # compaction does not sort
            assert keys == sorted(keys), path
    assert several


def test_tables_say_their_names() -> None:
    assert DeltaTables(database="a.b", prefix="x_").table("matches") == "a.b.x_matches"
    assert DeltaTables(database="s3a://a/b", prefix="x_").table("matches") == "delta.`s3a://a/b/x_matches`"
    assert IcebergTables(database="lake.a").kinds() == ("matches", "deliveries", "rejected")
