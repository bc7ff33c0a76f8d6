"""The broker as a process, under load from other processes of the same machine.

Subscriptions belong to 200 subscribers, each of which holds one stream of Server-Sent Events; each message matches ten
of them. What one would build instead is measured beside it: see :mod:`benchmarks.rabbitmq`.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks import rabbitmq
from benchmarks.broker_load import Load
from benchmarks.measure import Row
from twigcast.broker.delivery.channels import PullSettings
from twigcast.broker.model import DeliverySettings, NewSubscription
from twigcast.broker.store.store import open_store

SUBSCRIBERS = 200
MATCHES = 10
"""Subscriptions that a message matches."""

MESSAGE_BYTES = 4_096
STREAMS_IDLE = 5_000
ROUND_SECONDS = 10.0

WORK = "<alert>" + "<para>Water is expected to rise.</para>" * 25 + "</alert>"
"""A message of 1 KB for the workers of a shared queue."""

_TICKS = os.sysconf("SC_CLK_TCK")


def query(number: int) -> str:
    """The query of a subscription: of each ten with one topic, half have a nested path or a value to compare."""
    topic = number // MATCHES
    if number % 2:
        return f"/alert[@topic='t{topic}']/info[severity > {number % 3}]"
    return f"//alert[@topic='t{topic}']/area[geocode]"


def message(topic: int) -> str:
    """A message of about 4 KB that ten subscriptions match."""
    head = f"<alert topic='t{topic}'><info><severity>5</severity></info><area><geocode>06037</geocode></area>"
    line = "<para>Water is expected to rise above the marks of the last flood.</para>"
    count = (MESSAGE_BYTES - len(head) - len("</alert>")) // len(line)
    return head + line * count + "</alert>"


def fill(folder: Path, count: int) -> None:
    """A store with subscriptions."""
    store = open_store(folder)
    try:
        (tenant, *_) = store.tenants()
        for first in range(0, count, 20_000):
            new = [
                # Those of one topic belong to different subscribers.
                NewSubscription(tenant.id, f"k{n}", query(n), subscriber=f"s{(n * 7919) % SUBSCRIBERS}")
                for n in range(first, min(first + 20_000, count))
            ]
            with store.transaction() as transaction:
                transaction.add_subscriptions(new, at=time.time())
    finally:
        store.close()


@dataclass
class Served:
    """A broker that runs."""

    process: subprocess.Popen[str]
    address: str
    token: str
    start_seconds: float
    start_processor_seconds: float = 0.0
    """What it took until it listened, where that is measured."""

    def processor_seconds(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_mb(self) -> float:
        """Memory that it holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        result = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert result, "a process has a size"
        return int(result[1]) / 1024


@contextmanager
def serving(folder: Path, bytecode: Path | None = None) -> Iterator[Served]:
    """A real ``twigcast serve``, from its start to its end; ``bytecode``: where that of all modules is kept."""
    token_file = folder.with_suffix(".token")
    environment = dict(os.environ)
    if bytecode is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    began = time.monotonic()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "twigcast", "serve", "--store", str(folder), "--port", "0"),
            *("--token-file", str(token_file), "--set", "retention_seconds=0", "--log-level", "warning"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout, "it is a pipe"
        result = re.search(r"at http://(\S+)", process.stdout.readline())
        if result is None:
            raise SystemExit("the broker did not start")
        seconds = time.monotonic() - began
        served = Served(process, result[1], token_file.read_text(encoding="ascii").strip(), seconds)
        served.start_processor_seconds = served.processor_seconds()
        yield served
    finally:
        process.terminate()
        process.wait(30)


class Helper:
    """A process of :mod:`benchmarks.broker_load`."""

    def __init__(self, task: str, served: Served, **arguments: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.broker_load", task],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._say(json.dumps({"address": served.address, "token": served.token, **arguments}))

    def _pipe(self, pipe: IO[str] | None) -> IO[str]:
        assert pipe, "it is a pipe"
        return pipe

    def _say(self, line: str) -> None:
        self._pipe(self._process.stdin).write(line + "\n")
        self._pipe(self._process.stdin).flush()

    def hear(self) -> str:
        """The next line that it tells."""
        line = self._pipe(self._process.stdout).readline()
        if not line:
            raise SystemExit("a helper of the benchmark has ended early")
        return line.strip()

    def ask(self) -> dict[str, float]:
        """What it has to tell since the last time."""
        self._say("")
        answer: dict[str, float] = json.loads(self.hear())
        return answer

    def end(self) -> None:
        """End it."""
        self._pipe(self._process.stdin).close()
        self._pipe(self._process.stdout).close()
        self._process.kill()
        self._process.wait()


def measure_load(subscriptions: int, loads: dict[str, Load]) -> list[Row]:
    """Messages accepted and delivered under loads, by name."""
    rows = []
    with new_folder() as folder:
        fill(folder, subscriptions)
        with serving(folder) as served:
            readers = Helper("read", served, subscribers=[f"s{n}" for n in range(SUBSCRIBERS)])
            readers.hear()
            topics = subscriptions // MATCHES
            bodies = [message((n * 104_729) % topics) for n in range(500)]
            # What is learnt from the first messages is learnt.
            publish(served, bodies, Load(8, 2.0))
            for name, load in loads.items():
                time.sleep(1.0)
                readers.ask()
                before = served.processor_seconds()
                done = publish(served, bodies, load)
                used = served.processor_seconds() - before
                rows.append(_row(name, subscriptions, done, used, _all_of(readers, done), served))
            readers.end()
    return rows


def _all_of(readers: Helper, done: dict[str, float]) -> dict[str, float]:
    """What the readers got, once they have got all; the time that took counts."""
    requested = done["sent"] * MATCHES
    parts: list[dict[str, float]] = []
    began = time.monotonic()
    while sum(part["count"] for part in parts) < requested:
        if time.monotonic() - began > 60:
            raise SystemExit(f"of {requested:,.0f} deliveries only {sum(p['count'] for p in parts):,.0f} came")
        time.sleep(0.05)
        parts.append(readers.ask())
    delayed = time.monotonic() - began
    first = parts[0]
    return {**first, "count": sum(part["count"] for part in parts), "late_s": delayed}


def publish(served: Served, bodies: list[str], load: Load) -> dict[str, float]:
    """Publishes messages from a process of its own, and returns what it measured."""
    publisher = Helper("publish", served, bodies=bodies, load=vars(load))
    answer: dict[str, float] = json.loads(publisher.hear())
    publisher.end()
    return answer


def _row(
    name: str, subscriptions: int, done: dict[str, float], used: float, got: dict[str, float], served: Served
) -> Row:
    return {
        "what": name,
        "subscriptions": subscriptions,
        "accepted_per_s": done["accepted"] / done["seconds"],
        "delivered_per_s": got["count"] / (done["seconds"] + got["late_s"]),
        "p50_ms": got.get("p50_ms"),
        "p99_ms": got.get("p99_ms"),
        "broker_cpu_us_per_message": 1e6 * used / done["accepted"],
        "resident_mb": served.resident_mb(),
    }


def measure_shared(count: int, cases: Sequence[tuple[int, int]]) -> list[Row]:
    """Deliveries that workers of a shared queue get and acknowledge: so many of them, so many deliveries a pull."""
    rows: list[Row] = []
    with new_folder() as folder:
        store = open_store(folder)
        settings = PullSettings(queue="shared").model_dump(exclude={"kind"})
        new = NewSubscription(1, "work", "//alert", delivery=DeliverySettings(options=settings))
        with store.transaction() as transaction:
            transaction.add_subscriptions([new], at=time.time())
        store.close()
        with serving(folder) as served:
            for workers, limit in cases:
                publish(served, [WORK], Load(2, 60.0, batch=100, requests_max=count // 100))
                before = served.processor_seconds()
                helper = Helper("work", served, subscriber="work", workers=workers, limit=limit)
                done: dict[str, float] = json.loads(helper.hear())
                helper.end()
                if done["count"] != count:
                    raise SystemExit(f"of {count:,} deliveries the workers got {done['count']:,.0f}")
                rows.append(
                    {
                        "what": f"shared queue, {workers} workers, {limit} deliveries a pull",
                        "subscriptions": 1,
                        "delivered_per_s": count / done["seconds"],
                        "broker_cpu_us_per_message": 1e6 * (served.processor_seconds() - before) / count,
                    }
                )
    return rows


def measure_start(subscriptions: int) -> Row:
    """The start with many stored subscriptions, until it listens.

    Modules are compiled beforehand, as those of an installed package are.
    """
    with new_folder() as folder:
        bytecode = folder.with_suffix(".bytecode")
        with serving(folder, bytecode):
            pass
        fill(folder, subscriptions)
        with serving(folder, bytecode) as served:
            return {
                "what": "start",
                "subscriptions": subscriptions,
                "start_s": served.start_seconds,
                "start_cpu_s": served.start_processor_seconds,
                "resident_mb": served.resident_mb(),
            }


def measure_idle() -> Row:
    """Memory with many streams on which nothing comes."""
    _allow_files(2 * STREAMS_IDLE + 200)
    with new_folder() as folder:
        store = open_store(folder)
        with store.transaction() as transaction:
            new = [NewSubscription(1, f"idle{n}", f"//never[@n='{n}']") for n in range(STREAMS_IDLE)]
            transaction.add_subscriptions(new, at=time.time())
        store.close()
        with serving(folder) as served:
            before = served.resident_mb()
            streams = Helper("idle", served, subscribers=[f"idle{n}" for n in range(STREAMS_IDLE)])
            streams.hear()
            time.sleep(2.0)
            used = served.processor_seconds()
            time.sleep(20.0)
            used = served.processor_seconds() - used
            row = {
                "what": f"{STREAMS_IDLE:,} idle streams",
                "subscriptions": STREAMS_IDLE,
                "resident_mb": served.resident_mb(),
                "resident_mb_before": before,
                "processor_percent": 100 * used / 20.0,
            }
            streams.end()
    return row


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


@contextmanager
def new_folder() -> Iterator[Path]:
    """A folder for a store, until it is not needed any more."""
    # Beside the project, not in a temporary folder: that may lie in memory, where a commit costs nothing.
    base = Path(__file__).resolve().parents[1] / "build"
    base.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="broker-", dir=base))
    try:
        yield folder / "store"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_peer(filters: int, messages: int) -> Row:
    """RabbitMQ with lxml, for as many subscriptions as its filter processes hold."""
    count = filters * rabbitmq.QUERIES_PER_FILTER
    bodies = [message(n % (count // MATCHES)).encode() for n in range(100)]
    return rabbitmq.measure_filters(filters, [query(n) for n in range(count)], bodies, messages, MATCHES)


def measure(*, quick: bool = False) -> list[Row]:
    """All figures of the broker and of its peer."""
    seconds = 2.0 if quick else ROUND_SECONDS
    one_by_one = "one message a request, 32 connections"
    loads = {
        one_by_one: Load(32, seconds),
        "the same, 2,000 a second": Load(64, seconds, rate=2_000),
        "the same, 1,000 a second": Load(64, seconds, rate=1_000),
        "50 messages a request, 2 connections": Load(2, seconds, batch=50),
    }
    rows = measure_load(2_000 if quick else 100_000, loads)
    rows += measure_shared(2_000 if quick else 20_000, [(1, 100), (8, 100), (8, 10)])
    if not quick:
        rows += [measure_start(0), measure_start(1_000_000), measure_idle()]
        rows += measure_load(rabbitmq.QUERIES_PER_FILTER, {one_by_one: loads[one_by_one]})
    return rows + measure_peers((1,) if quick else (1, 2), 200 if quick else 2_000)


def measure_peers(filters: Sequence[int], messages: int) -> list[Row]:
    """What one would build instead, with these numbers of filter processes; a row that says why where it cannot be."""
    if (reason := rabbitmq.missing()) is not None:
        return [{"what": f"RabbitMQ with lxml: {reason}"}]
    rows: list[Row] = []
    for count in filters:
        try:
            rows.append(measure_peer(count, messages))
        except rabbitmq.Unavailable as error:
            return [*rows, {"what": f"RabbitMQ did not start: {error}"}]
    return rows
