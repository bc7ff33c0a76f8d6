"""The pipeline is killed for real, at random moments, and started again: nothing is lost and nothing doubled.

``TWIGCAST_TEST_KILLS`` sets how often each test kills before it lets the pipeline come to its end (once by default).
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq

from tests.lifecycle.model import AREAS, PROFILE, Model, history
from tests.seeds import printed_seed
from twigcast.demo.__main__ import write_subscriptions
from twigcast.demo.messages import feed
from twigcast.demo.subscriptions import subscriptions
from twigcast.errors import MissingJava, TwigcastError
from twigcast.registration import Subscription
from twigcast.spark.session import check_java
from twigcast.subscriptions import SubscriptionSet

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("TWIGCAST_TEST_KILLS", "1"))
WAIT_SECONDS = 600.0
PACKAGE = Path(__file__).resolve().parents[2] / "python"

Row = tuple[Any, ...]


@pytest.fixture(scope="module", autouse=True)
def _java() -> None:
    try:
        check_java()
    except MissingJava as missing:
        pytest.skip(str(missing))


@pytest.fixture
def chance() -> random.Random:
    return random.Random(printed_seed())


@pytest.fixture
def messages() -> dict[str, bytes]:
    """A feed, as it will have come in when all is over."""
    return {name.replace("/", "-"): xml for name, xml in feed(3, 240)}


@pytest.fixture
def population(tmp_path: Path) -> Path:
    path = tmp_path / "subscriptions.jsonl"
    write_subscriptions(path, subscriptions(3, 100))
    return path


def expected(messages: dict[str, bytes]) -> tuple[set[Row], set[Row], set[Row]]:
    """The three tables as the library makes them."""
    result = SubscriptionSet(subscriptions(3, 100))
    matches, deliveries, rejected = set(), set(), set()
    for name, xml in messages.items():
        try:
            matches |= {(name, key) for key in result.match(xml).keys}
            deliveries |= {(name, one.key, one.payload.decode()) for one in result.deliver(xml) if one.rewritten}
        except TwigcastError:
            rejected.add((name, xml))
    return matches, deliveries, rejected


def on_disk(output: Path) -> tuple[set[Row], set[Row], set[Row]]:
    tables = []
    for kind, columns in (
        ("matches", ["message_id", "key"]),
        ("deliveries", ["message_id", "key", "payload"]),
        ("rejected", ["message_id", "xml"]),
    ):
        rows = [tuple(row.values()) for row in pq.read_table(output / kind, columns=columns).to_pylist()]
        assert len(rows) == len(set(rows)), f"{kind} are doubled"
        tables.append(set(rows))
    return tables[0], tables[1], tables[2]


def _is_complete(output: Path, messages: dict[str, bytes]) -> bool:
    return on_disk(output) == expected(messages)


class Pipeline:
    """``twigcast pipeline`` as a process of its own."""

    def __init__(self, *arguments: object) -> None:
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        command = [sys.executable, "-m", "twigcast", "pipeline", "--master", "local[2]", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )

    def wait_until(self, happened: Callable[[], bool]) -> bool:
        """Wait for something; false if the pipeline came to its end before."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not happened():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, "the pipeline does not get anywhere"
            time.sleep(0.01)
        return True

    def kill(self, what: str, complete: Callable[[], bool] = lambda: False) -> None:
        """As ``kill -9`` does: the ``driver`` alone, ``java`` alone, or ``all``.

        Without Java the driver lives to tell, unless the work is ``complete``: then it ends as ever.
        """
        print("killing", what)
        if what == "java" and (java := self._java()) is not None:
            os.kill(java, signal.SIGKILL)
            status = self.finish()
            assert status == 2 or (status == 3 and complete())
            return
        if what == "driver":
            self.process.kill()
        else:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _java(self) -> int | None:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next((int(child) for child in children if b"java" in Path(f"/proc/{child}/cmdline").read_bytes()), None)

    def finish(self) -> int:
        """Let it come to its end; the exit status."""
        _, reported = self.process.communicate(timeout=WAIT_SECONDS)
        sys.stderr.write(reported.decode())
        return self.process.returncode


@pytest.fixture
def started() -> Iterator[Callable[..., Pipeline]]:
    """Starts pipelines, and sees to it that none is left."""
    running: list[Pipeline] = []

    def start(*arguments: object) -> Pipeline:
        running.append(Pipeline(*arguments))
        return running[-1]

    yield start
    for pipeline in running:
        if pipeline.process.poll() is None:
            pipeline.kill("all")


def test_a_stream_that_is_killed_and_started_again(
    tmp_path: Path,
    messages: dict[str, bytes],
    population: Path,
    chance: random.Random,
    started: Callable[..., Pipeline],
) -> None:
    """At the end it is told to stop, and does so in order."""
    inbox, output = tmp_path / "inbox", tmp_path / "output"
    inbox.mkdir()
    options = ["--stream", "-m", inbox, "-s", population, "-o", output, "--files-per-batch", 20, "--interval", 0]
    waiting = list(messages.items())

    def arrive(count: int) -> None:
        for name, xml in [waiting.pop() for _ in range(min(count, len(waiting)))]:
            (inbox / f".{name}").write_bytes(xml)
            (inbox / f".{name}").rename(inbox / name)

    def commits() -> int:
        return len(list((output / "_commits").glob("*.json")))

    def reached(requested: int) -> bool:
        return (output / "_checkpoint" / "offsets").is_dir() and commits() >= requested

    def done() -> bool:
        summary = output / "summary.json"
        return summary.exists() and json.loads(summary.read_text())["messages"] >= len(messages)

    for _ in range(KILLS):
        arrive(len(messages) // (KILLS + 1))
        requested = commits() + chance.choice((0, 1, 2))
        pipeline = started(*options)
        assert pipeline.wait_until(partial(reached, requested))
        time.sleep(chance.uniform(0.0, 0.5))
        pipeline.kill(chance.choice(["driver", "java", "all"]))
    arrive(len(waiting))
    pipeline = started(*options)
    assert pipeline.wait_until(done)
    pipeline.process.send_signal(signal.SIGTERM)
    assert pipeline.finish() == 3
    assert on_disk(output) == expected(messages)


def test_what_is_followed_survives_kills(
    tmp_path: Path, chance: random.Random, started: Callable[..., Pipeline]
) -> None:
    """Messages that update and cancel each other: after a kill the stream knows what came before, and tells it once."""
    inbox, output = tmp_path / "inbox", tmp_path / "output"
    inbox.mkdir()
    made = history(chance, 48, expiring=False)
    areas = {f"k{number}": AREAS[number % len(AREAS)] for number in range(8)}
    write_subscriptions(tmp_path / "s.jsonl", [Subscription(key, f"//area = '{area}'") for key, area in areas.items()])
    (tmp_path / "profile.json").write_text(json.dumps(PROFILE))
    model, wanted = Model(), set()
    for number, message in enumerate(made):
        told = model.enter(message, areas, dict.fromkeys(areas, True), number)
        wanted |= {(f"{number:04}.xml", key, relation or None) for key, relation in told.items()}
    options = ["--stream", "-m", inbox, "-s", tmp_path / "s.jsonl", "-o", output, "--files-per-batch", 8]
    options += ["--profile", tmp_path / "profile.json"]
    waiting = list(enumerate(made))

    def arrive(count: int) -> None:
        for number, message in waiting[:count]:
            (inbox / f".{number}").write_text(message.xml)
            (inbox / f".{number}").rename(inbox / f"{number:04}.xml")
        del waiting[:count]

    def commits() -> int:
        return len(list((output / "_commits").glob("*.json")))

    def reached(requested: int) -> bool:
        return (output / "_checkpoint" / "offsets").is_dir() and commits() >= requested

    for _ in range(KILLS):
        arrive(len(made) // (KILLS + 1))
        requested = commits() + chance.choice((0, 1, 2, 3))
        pipeline = started(*options)
        assert pipeline.wait_until(partial(reached, requested))
        time.sleep(chance.uniform(0.0, 1.0))
        pipeline.kill(chance.choice(["driver", "java", "all"]))
    arrive(len(waiting))
    assert started(*options, "--once").finish() == 0
    rows = pq.read_table(output / "deliveries", columns=["message_id", "key", "relation"]).to_pylist()
    found = [tuple(row.values()) for row in rows]
    assert len(found) == len(set(found)), "once"
    assert set(found) == wanted


def test_a_batch_that_is_killed_and_started_again(
    tmp_path: Path,
    messages: dict[str, bytes],
    population: Path,
    chance: random.Random,
    started: Callable[..., Pipeline],
) -> None:
    inbox, output = tmp_path / "inbox", tmp_path / "output"
    inbox.mkdir()
    for name, xml in messages.items():
        (inbox / name).write_bytes(xml)
    options = ["-m", inbox, "-s", population, "-o", output]
    for _ in range(KILLS):
        pipeline = started(*options)
        assert pipeline.wait_until((output / "_staging").is_dir)
        time.sleep(chance.uniform(0.0, 3.0))
        if pipeline.process.poll() is None:
            pipeline.kill(chance.choice(["driver", "java", "all"]), partial(_is_complete, output, messages))
    assert started(*options).finish() == 3
    assert on_disk(output) == expected(messages)
    assert sorted(path.name for path in output.iterdir() if not path.name.startswith("_")) == [
        "deliveries",
        "matches",
        "rejected",
        "summary.json",
    ]
