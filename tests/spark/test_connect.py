"""Everything works over Spark Connect, where the program has no Java process and Spark's own objects are far away."""

import ast
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS = 300
OF_JAVA = {"sparkContext", "SparkContext", "_jvm", "_jdf", "_jsc", "_sc", "_jsparkSession", "rdd"}
"""Names that a program over Spark Connect does not have."""

PROGRAM = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from twigcast import SubscriptionSet
from twigcast.errors import PipelineError
from twigcast.spark import (KafkaTopics, LivingPopulation, Stream, backtest, deliveries, match_messages, matches,
                            read_messages, register_match_function, rejected, run_pipeline)

work = Path(sys.argv[1])
spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
assert ".connect." in type(spark).__module__
population = SubscriptionSet({"all": "/m", "made": "for $m in /m return <r>{ $m/@n }</r>"})
result = {}


def pairs(frame, *columns):
    return sorted([str(value) for value in row] for row in frame.select(*columns).collect())


messages = read_messages(spark, work / "in")
answers = match_messages(messages, population)
result["matches"] = pairs(matches(answers), "message_id", "key")
result["deliveries"] = pairs(deliveries(answers), "message_id", "payload")
result["rejected"] = pairs(rejected(answers), "message_id")
population.add("one", "/m[@n = 1]")
result["changed"] = pairs(matches(match_messages(messages, population)).where("key = 'one'"), "message_id")
with backtest(messages, population, against=SubscriptionSet({"all": "/m"})) as report:
    result["backtest"] = [report.delivered, report.lost, report.rejected]
    result["counts"] = pairs(report.counts, "key", "lost")
with LivingPopulation(work / "rules") as rules:
    rules.change([{"op": "put", "key": "all", "query": "/m"}])
    rules.change([{"op": "put", "key": "all", "query": "/m[@n = 1]"}])
    lively = matches(match_messages(messages, rules.snapshot(spark)))
    result["living"] = pairs(lively, "message_id", "population_version")
register_match_function(spark, population)
messages.select("message_id", "xml").createOrReplaceTempView("feed")
found = spark.sql("SELECT message_id, key FROM twigcast_match(TABLE(SELECT * FROM feed)) WHERE key IS NOT NULL")
result["sql"] = pairs(found, "message_id", "key")
summary = run_pipeline(str(work / "in"), str(work / "subscriptions.jsonl"), work / "out", spark=spark)
result["pipeline"] = [summary.messages, summary.matches, summary.deliveries, summary.rejected]

messages.write.format("twigcast").option("subscriptions", str(work / "subscriptions.jsonl")).mode("append").save(
    str(work / "sink"))
stream = spark.readStream.format("twigcast").option("settleSeconds", "0").load(str(work / "in"))
query = stream.writeStream.format("twigcast").option("subscriptions", str(work / "subscriptions.jsonl"))
query = query.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True)
query.start(str(work / "streamed")).awaitTermination()
stream = spark.readStream.format("twigcast").option("settleSeconds", "0").load(str(work / "in"))
query = matches(match_messages(stream, population)).select("message_id", "key").writeStream.format("parquet")
query = query.option("checkpointLocation", str(work / "checkpoint-2")).trigger(availableNow=True)
query.start(str(work / "matched")).awaitTermination()
result["stream"] = pairs(spark.read.parquet(str(work / "matched")), "message_id", "key")
for name in ("sink", "streamed"):
    result[name] = pairs(spark.read.parquet(str(work / name / "matches")), "message_id", "key")
try:
    run_pipeline(stream, population, sink=KafkaTopics(servers="localhost:1", deliveries="x"),
                 stream=Stream(checkpoint=work / "c"), spark=spark)
except PipelineError as error:
    result["refused"] = str(error)
(work / "result.json").write_text(json.dumps(result))
spark.stop()
"""


def test_nothing_reaches_for_java() -> None:
    """The sources name nothing that only a program beside its Java process has."""
    found = []
    for path in sorted((ROOT / "python" / "twigcast" / "spark").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.attr] if isinstance(node, ast.Attribute) else []
            if isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names]
            found += [f"{path.name}:{node.lineno}: {name}" for name in names if name in OF_JAVA]  # type: ignore[attr-defined]
    assert not found


@pytest.mark.spark
@pytest.mark.slow
def test_a_program_over_spark_connect(tmp_path: Path) -> None:
    missing = [name for name in ("grpc_status", "zstandard") if find_spec(name) is None]
    if missing:
        pytest.fail(f"Spark Connect needs {', '.join(missing)}: install requirements/dev.txt")
    (tmp_path / "in").mkdir()
    for number in range(4):
        (tmp_path / "in" / f"{number}.xml").write_text(f"<m n='{number}'/>" if number < 3 else "<m")
    lines = [{"key": "all", "query": "/m"}, {"key": "made", "query": "for $m in /m return <r>{ $m/@n }</r>"}]
    (tmp_path / "subscriptions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_SECONDS, check=False,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if not line.lstrip().startswith("at ")]
    assert done.returncode == 0, "\n".join(said[-60:])
    result: dict[str, Any] = json.loads((tmp_path / "result.json").read_text())
    names = [f"{number}.xml" for number in range(3)]
    both = sorted([name, key] for name in names for key in ("all", "made"))
    assert result["matches"] == both
    assert result["deliveries"] == [[name, f"<r n='{number}'/>"] for number, name in enumerate(names)]
    assert result["rejected"] == [["3.xml"]]
    assert result["changed"] == [["1.xml"]]
    assert result["backtest"] == [7, 4, 1]
    assert result["counts"] == [["all", "0"], ["made", "3"], ["one", "1"]]
    assert result["living"] == [["1.xml", "2"]]
    assert result["sql"] == result["stream"] == sorted([*both, ["1.xml", "one"]])
    assert result["sink"] == result["streamed"] == both
    assert result["pipeline"] == [4, 6, 3, 1]
    assert "match_messages" in result["refused"]
