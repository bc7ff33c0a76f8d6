"""A stream from a real Kafka broker, killed in the middle and started again: each message lands exactly once.

``tests/services/kafka.sh`` fetches a Kafka server and Spark's connector; `make test` runs it.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq

from twigcast.spark.session import check_java

pytestmark = [pytest.mark.spark, pytest.mark.services]

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / "build" / "kafka"
MESSAGES = 3_000
WAIT_SECONDS = 300.0

PROGRAM = """
import os, signal, sys
from pathlib import Path
from twigcast.spark import KafkaTopics, Stream, run_pipeline
from twigcast.spark.session import open_session

task, jars, servers, folder, count = sys.argv[1:]


class Killed(KafkaTopics):
    # It is killed before Spark notes that its first micro-batch is done.

    writes = 0

    def write(self, kind, rows, origin):
        super().write(kind, rows, origin)
        Killed.writes += 1
        if task == "forward-killed" and Killed.writes == 2:
            os.killpg(0, signal.SIGKILL)


spark = open_session("local[2]", log=Path(folder, f"{task}.log"), settings={"spark.jars": jars})
if task == "publish":
    rows = spark.range(int(count)).selectExpr("cast(id as string) key", "concat('<m n=\\"', id, '\\"/>') value")
    rows.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "feed").save()
elif task == "collect":
    rows = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "answers,dead")
    rows = rows.option("includeHeaders", "true").load().selectExpr(
        "topic", "cast(key as string) key", "cast(value as string) value",
        "map_from_entries(transform(headers, h -> struct(h.key, cast(h.value as string)))) headers")
    rows.coalesce(1).write.json(str(Path(folder, "collected")))
elif task.startswith("forward"):
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "feed")
    stream = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 400)
    messages = stream.load().selectExpr(
        "concat(topic, '-', partition, '-', offset) message_id",
        "if(cast(cast(key as string) as int) % 1000 = 999, '<m', cast(value as string)) xml")
    sink = Killed(servers=servers, deliveries="answers", rejected="dead")
    run_pipeline(messages, Path(folder, "subscriptions.jsonl"), sink=sink,
                 stream=Stream(once=True, checkpoint=Path(folder, "forwarded")))
else:
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "feed")
    stream = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 400)
    messages = stream.load().selectExpr("concat(topic, '-', partition, '-', offset) message_id", "value xml")
    run_pipeline(messages, Path(folder, "subscriptions.jsonl"), Path(folder, "out"), stream=Stream(once=True))
"""

SERVER = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[str]:
    """The address of a Kafka broker."""
    if not (JARS / "server").is_dir() or not (JARS / "connector").is_dir():
        pytest.fail("no Kafka in build/kafka: run tests/services/kafka.sh, which fetches it")
    check_java()
    broker, controller = _free_ports(2)
    settings = tmp_path / "server.properties"
    settings.write_text(SERVER.format(broker=broker, controller=controller, folder=tmp_path))
    java = ["java", "-Xmx512m", "-cp", f"{JARS}/server/*"]
    identity = ["-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(settings)]
    subprocess.run([*java, "kafka.tools.StorageTool", "format", *identity], check=True, capture_output=True)
    with (tmp_path / "kafka.log").open("wb") as log:
        server = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
    try:
        _wait_for(broker, server)
        yield f"127.0.0.1:{broker}"
    finally:
        server.kill()
        server.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait_for(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        assert server.poll() is None, "the Kafka server ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the Kafka server does not answer")


def _start(task: str, servers: str, folder: Path) -> "subprocess.Popen[bytes]":
    jars = ",".join(sorted(map(str, (JARS / "connector").glob("*.jar"))))
    command = [sys.executable, "-c", PROGRAM, task, jars, servers, str(folder), str(MESSAGES)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.Popen(command, env=environment, start_new_session=True)


def _messages_in(summary: Path) -> int:
    """The messages that a pipeline says it has processed; none before it says anything."""
    return int(json.loads(summary.read_text())["messages"]) if summary.exists() else 0


def test_each_message_lands_once_whatever_is_killed(servers: str, tmp_path: Path) -> None:
    rows = [
        {"key": "all", "query": "/m"},
        {"key": "some", "query": "for $m in /m[@n mod 7 = 0] return <s>{ $m/@n }</s>"},
    ]
    (tmp_path / "subscriptions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert _start("publish", servers, tmp_path).wait(WAIT_SECONDS) == 0

    stream = _start("stream", servers, tmp_path)
    summary_file = tmp_path / "out" / "summary.json"
    deadline = time.monotonic() + WAIT_SECONDS
    while not _messages_in(summary_file):  # counted after the commit of the first of several micro-batches
        assert stream.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(stream.pid, signal.SIGKILL)
    stream.wait()
    assert 0 < _messages_in(summary_file) < MESSAGES, "it was killed in the middle"

    assert _start("stream", servers, tmp_path).wait(WAIT_SECONDS) == 0
    summary = json.loads(summary_file.read_text())
    assert (summary["messages"], summary["rejected"]) == (MESSAGES, 0)
    matches = pq.read_table(tmp_path / "out" / "matches").to_pylist()
    assert len({row["message_id"] for row in matches}) == MESSAGES
    assert len({(row["message_id"], row["key"]) for row in matches}) == len(matches)
    requested = len(range(0, MESSAGES, 7))
    assert Counter(row["key"] for row in matches) == {"all": MESSAGES, "some": requested}
    assert len(set(pq.read_table(tmp_path / "out" / "deliveries").column("payload").to_pylist())) == requested


def test_kafka_to_kafka_at_least_once_with_ids(servers: str, tmp_path: Path) -> None:
    """A micro-batch that is sent again has the ids that it had before, so readers take each answer once."""
    made = {"key": "some", "query": "for $m in /m[@n mod 7 = 0] return <s>{ $m/@n }</s>"}
    (tmp_path / "subscriptions.jsonl").write_text(json.dumps(made) + "\n")
    assert _start("publish", servers, tmp_path).wait(WAIT_SECONDS) == 0
    assert _start("forward-killed", servers, tmp_path).wait(WAIT_SECONDS) == -signal.SIGKILL
    assert _start("forward", servers, tmp_path).wait(WAIT_SECONDS) == 0
    assert _start("collect", servers, tmp_path).wait(WAIT_SECONDS) == 0

    (collected,) = (tmp_path / "collected").glob("*.json")
    records = [json.loads(line) for line in collected.read_text().splitlines()]
    answers = [record for record in records if record["topic"] == "answers"]
    by_id = {record["headers"]["id"]: record for record in answers}
    assert len(answers) > len(by_id), "the first micro-batch was sent twice"
    for record in answers:
        first = by_id[record["headers"]["id"]]
        assert (record["key"], record["value"]) == (first["key"], first["value"])
        assert {name: record["headers"][name] for name in ("message_id", "run", "batch")} == {
            name: first["headers"][name] for name in ("message_id", "run", "batch")
        }
    assert sorted(record["value"] for record in by_id.values()) == sorted(
        f'<s n="{number}"/>' for number in range(0, MESSAGES, 7)
    )
    assert {(record["key"], record["headers"]["subscription"]) for record in answers} == {("some", "some")}
    dead = {record["headers"]["id"]: record for record in records if record["topic"] == "dead"}
    assert len(dead) == MESSAGES // 1000
    assert all(record["value"] == "<m" and record["headers"]["reason"] for record in dead.values())
    assert all(record["key"] == record["headers"]["message_id"] for record in dead.values())
