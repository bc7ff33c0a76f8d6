"""The pipeline under ``spark-submit``, with executors in processes of their own: package and snapshot reach them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from twigcast.demo.__main__ import write_feed, write_subscriptions
from twigcast.demo.messages import feed
from twigcast.demo.subscriptions import subscriptions
from twigcast.errors import MissingJava
from twigcast.reading.messages import Message, read_messages
from twigcast.spark.session import check_java
from twigcast.subscriptions import SubscriptionSet

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS_MAX = 600


@pytest.mark.spark
def test_on_a_cluster_of_two_executors(tmp_path: Path) -> None:
    try:
        check_java()
    except MissingJava as missing:
        pytest.skip(str(missing))
    write_feed(tmp_path / "feed", feed(5, 100))
    write_subscriptions(tmp_path / "subscriptions.jsonl", subscriptions(5, 60))
    home = Path(pyspark.__file__).parent
    command = [home / "bin" / "spark-submit", "--master", "local-cluster[2,1,1024]", "--conf", "spark.ui.enabled=false"]
    command += [REPOSITORY / "python" / "twigcast" / "__main__.py", "pipeline", "--messages", tmp_path / "feed"]
    command += ["--subscriptions", tmp_path / "subscriptions.jsonl", "--output", tmp_path / "output"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY / "python"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
    }
    done = subprocess.run(
        list(map(str, command)), env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 3, done.stderr[-3_000:]
    population = SubscriptionSet(subscriptions(5, 60))
    requested = set()
    for message in read_messages([tmp_path / "feed"]):
        assert isinstance(message, Message)
        try:
            requested |= {(message.id, key) for key in population.match(message.xml).keys}
        except ValueError:  # a rejected message
            continue
    rows = pq.read_table(tmp_path / "output" / "matches", columns=["message_id", "key"]).to_pylist()
    assert {tuple(row.values()) for row in rows} == requested
    assert len(rows) == len(requested) == json.loads((tmp_path / "output" / "summary.json").read_text())["matches"]
