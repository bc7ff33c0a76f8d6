"""A standalone master with two executor processes, one of which is killed again and again while a stream runs."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import pyspark

from tests.seeds import printed_seed
from tests.spark.test_answer_format import Feed, Poll

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS = 300
KILLS = int(os.environ.get("TWIGCAST_KILLS", "2"))

PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession

work = Path(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
messages = spark.readStream.format("twigcast").option("settleSeconds", "0.05").option("maxFilesPerTrigger", "20")
query = messages.load(str(work / "in")).repartition(4).writeStream.format("twigcast")
query = query.option("subscriptions", str(work / "subscriptions.jsonl"))
query = query.option("checkpointLocation", str(work / "checkpoint"))
query = query.trigger(processingTime="100 milliseconds").start(str(work / "out"))
while not (work / "stop").exists():
    query.awaitTermination(1)
query.processAllAvailable()
query.stop()
"""


def executors(mark: str) -> list[int]:
    """The processes of the executors of one application, which all have a mark in their command lines."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:  # it has ended
            continue
        if "CoarseGrainedExecutorBackend" in command and mark in command:
            found.append(int(folder.name))
    return sorted(found)


def wait_until(process: "subprocess.Popen[bytes]", ready: object, what: str) -> None:
    end = time.monotonic() + RUN_SECONDS
    while not ready():  # type: ignore[operator]
        assert process.poll() is None, "the stream ended"
        assert time.monotonic() < end, what
        time.sleep(0.05)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are found by /proc")
def test_executors_killed_at_random_moments_lose_and_double_nothing(tmp_path: Path) -> None:
    seed = printed_seed()
    chance = random.Random(seed)
    lines = [{"key": "a", "query": "/a"}, {"key": "b", "query": "/a/b"}]
    (tmp_path / "subscriptions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "program.py").write_text(PROGRAM)
    mark = f"twigcast-test-{os.getpid()}-{seed}"
    command: list[str | Path] = [Path(pyspark.__file__).parent / "bin" / "spark-submit"]
    command += ["--master", "local-cluster[2,1,600]", "--executor-memory", "600m"]
    command += ["--conf", "spark.ui.enabled=false", "--conf", f"spark.executor.extraJavaOptions=-Dtwigcast.mark={mark}"]
    command += ["--conf", "spark.task.maxFailures=20", "--conf", "spark.deploy.maxExecutorRetries=-1"]
    command += ["--conf", "spark.python.worker.reuse=true", tmp_path / "program.py", tmp_path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYSPARK_PYTHON": sys.executable}
    feed, poll = Feed(tmp_path / "in"), Poll(tmp_path / "out" / "matches")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    feed.start()
    poll.start()
    try:
        for _ in range(KILLS):
            batches = len(poll.seen)
            wait_until(process, lambda before=batches: len(poll.seen) > before, "no micro-batch comes")
            wait_until(process, lambda: len(executors(mark)) == 2, "there are no two executors")
            time.sleep(chance.random())
            os.kill(chance.choice(executors(mark)), signal.SIGKILL)
        feed.stopped.set()
        feed.join()
        (tmp_path / "stop").touch()
        assert process.wait(RUN_SECONDS) == 0, (tmp_path / "log").read_text()[-2000:]
    finally:
        feed.stopped.set()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        poll.stopped.set()
        poll.join()
    rows = pq.read_table(tmp_path / "out" / "matches").to_pylist()
    assert len(rows) == 2 * feed.count
    assert {(row["message_id"], row["key"]) for row in rows} == {
        (f"{number:05d}.xml", key) for number in range(feed.count) for key in "ab"
    }
    assert all(len(counts) == 1 for counts in poll.seen.values()), poll.seen
