"""Three brokers in a row, one overlay, on one machine: what the way over the others adds.

Subscriptions are spread over the three; each message is published at the first and matches one subscription at each.
So a delivery at the second has passed one link, one at the third two, and what the third is later is a hop:
over the network, through the routing table, and back to the network, while the second broker stores the message itself.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.broker import Helper, Served, publish
from benchmarks.broker_load import Load
from benchmarks.measure import Row
from twigcast.broker.model import NewSubscription
from twigcast.broker.store.store import open_store

NAMES = ("first", "second", "third")
MESSAGE_BYTES = 2_048
SUBSCRIBERS = 10
"""Of each broker; each holds a stream."""
PROPAGATIONS = 10
MISSED = 100
"""Messages that are published while the third broker is down."""


def query(position: int, number: int) -> str:
    """The query of a subscription: every other one compares a value too."""
    topic = f"{NAMES[position]}-{number}"
    if number % 2:
        return f"/alerts/alert[@topic='{topic}']/info[severity > {number % 3}]"
    return f"//alert[@topic='{topic}']/area[geocode]"


def message(numbers: tuple[int, int, int]) -> str:
    """A message that one subscription of each broker matches."""
    alerts = "".join(
        f"<alert topic='{name}-{number}'><info><severity>5</severity></info>"
        "<area><geocode>06037</geocode></area></alert>"
        for name, number in zip(NAMES, numbers, strict=True)
    )
    line = "<para>Water is expected to rise above the marks of the last flood.</para>"
    return f"<alerts>{alerts}{line * ((MESSAGE_BYTES - len(alerts)) // len(line))}</alerts>"


def fill(folder: Path, position: int, count: int) -> None:
    """A store with the subscriptions of one broker."""
    store = open_store(folder)
    try:
        for first in range(0, count, 20_000):
            new = [
                NewSubscription(1, f"k{n}", query(position, n), subscriber=f"s{n % SUBSCRIBERS}")
                for n in range(first, min(first + 20_000, count))
            ]
            with store.transaction() as transaction:
                transaction.add_subscriptions(new, at=time.time())
    finally:
        store.close()


class Member:
    """One of the brokers, as a process that can be killed and started again.

    Args:
        folder: For its store.
        position: Which one.
        join: The overlay port of the one before.
    """

    def __init__(self, folder: Path, position: int, join: int | None) -> None:
        self.name = NAMES[position]
        self._folder = folder
        self._join = join
        self._ports = [_free_port(), _free_port()]
        self._token = folder / f"{self.name}.token"
        self._process: subprocess.Popen[str]

    @property
    def overlay_port(self) -> int:
        """Where others reach it."""
        return self._ports[1]

    def start(self) -> Served:
        """Start it, until it listens."""
        port, overlay_port = self._ports
        arguments = ["--store", str(self._folder / self.name), "--port", str(port), "--token-file", str(self._token)]
        arguments += ["--overlay-identity", self.name, "--overlay-listen", f"127.0.0.1:{overlay_port}"]
        arguments += [] if self._join is None else ["--join", f"127.0.0.1:{self._join}"]
        began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "twigcast", "serve", *arguments, "--log-level", "warning"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout, "it is a pipe"
        result = re.search(r"at http://(\S+)", self._process.stdout.readline())
        if result is None:
            raise SystemExit(f"the broker {self.name} did not start")
        seconds = time.monotonic() - began
        return Served(self._process, result[1], self._token.read_text(encoding="ascii").strip(), seconds)

    def kill(self) -> None:
        """End it at once."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)


def ask(served: Served, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
    """A request to a broker; its answer."""
    request = urllib.request.Request(
        f"http://{served.address}{path}",
        body,
        {"Authorization": f"Bearer {served.token}", "Content-Type": kind},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - it is http
        text = answer.read()
    return json.loads(text) if text else None


def wait(condition: Any, seconds: float = 120.0) -> float:
    """Wait for a condition; how long it took."""
    began = time.monotonic()
    while True:
        with suppress(urllib.error.URLError, ConnectionError):
            if condition():
                return time.monotonic() - began
        if time.monotonic() - began > seconds:
            raise SystemExit("it did not come about in time")
        time.sleep(0.01)


@contextmanager
def three(subscriptions: int) -> Iterator[tuple[list[Member], list[Served], float]]:
    """Three brokers that know what the others want; how long their routing queries took to make."""
    base = Path(__file__).resolve().parents[1] / "build"
    base.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="overlay-", dir=base))
    members: list[Member] = []
    try:
        for position, name in enumerate(NAMES):
            fill(folder / name, position, subscriptions // 3)
            members.append(Member(folder, position, members[-1].overlay_port if members else None))
        served = [member.start() for member in members]
        began = time.monotonic()
        for one in served:
            wait(lambda one=one: _knows_all(one, subscriptions // 3), 600)
        yield members, served, time.monotonic() - began
    finally:
        for member in members:
            member.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _knows_all(served: Served, each: int) -> bool:
    """Whether a broker knows what the others want, and not only that they want everything for now."""
    result = ask(served, "GET", "/overlay")
    reached = sum(broker["towards"] is not None for broker in result["brokers"])
    tables = [link["table"] for link in result["links"]]
    return bool(reached == 2 and not result["wishes_waiting"] and min(tables) >= each)


def measure_hops(served: list[Served], subscriptions: int, rate: float, seconds: float) -> list[Row]:
    """Ages of deliveries at each broker, and what a hop adds."""
    readers = [Helper("read", one, subscribers=[f"s{n}" for n in range(SUBSCRIBERS)]) for one in served]
    for reader in readers:
        reader.hear()
    each = subscriptions // 3
    bodies = [message(((n * 7_919) % each, (n * 104_729) % each, (n * 1_299_709) % each)) for n in range(500)]
    publish(served[0], bodies, Load(8, 3.0, rate=rate / 4))
    time.sleep(2.0)
    for reader in readers:
        reader.ask()
    before = [one.processor_seconds() for one in served]
    done = publish(served[0], bodies, Load(32, seconds, rate=rate))
    time.sleep(2.0)
    ages = [reader.ask() for reader in readers]
    used = [one.processor_seconds() - was for one, was in zip(served, before, strict=True)]
    for reader in readers:
        reader.end()
    rows: list[Row] = [
        {
            "what": f"delivered at the {name} broker",
            "links": position,
            "subscriptions": subscriptions,
            "published_per_s": done["accepted"] / done["seconds"],
            "complete": age["count"] >= done["sent"],
            "p50_ms": age.get("p50_ms"),
            "p99_ms": age.get("p99_ms"),
            "cpu_us_per_message": 1e6 * cpu / done["sent"],
            "resident_mb": one.resident_mb(),
        }
        for position, (name, age, cpu, one) in enumerate(zip(NAMES, ages, used, served, strict=True))
    ]
    hop: Row = {"what": "a hop (third against second)", "links": 1, "subscriptions": subscriptions}
    for name in ("p50_ms", "p99_ms"):
        hop[name] = ages[2].get(name, 0.0) - ages[1].get(name, 0.0)
    return [*rows, hop]


def measure_propagation(served: list[Served]) -> Row:
    """From the answer to a subscription at the third broker to the publication at the first that it gets first."""
    times = []
    for number in range(PROPAGATIONS):
        key = f"new-{number}"
        body = json.dumps({"key": key, "query": f"/alerts/alert[@topic='{key}']"}).encode()
        ask(served[2], "POST", "/subscriptions", body)
        began = time.monotonic()
        text = f"<alerts><alert topic='{key}'/></alerts>".encode()
        sent: dict[str, float] = {}

        def arrived(key: str = key, text: bytes = text, sent: dict[str, float] = sent) -> str | None:
            answer = ask(served[0], "POST", "/messages", text, "application/xml")
            sent[answer["id"]] = time.monotonic()
            result = ask(served[2], "GET", f"/deliveries?subscriber={key}&limit=1")["deliveries"]
            return result[0]["message"] if result else None

        first = None
        while first is None:
            first = arrived()
            if time.monotonic() - began > 60:
                raise SystemExit("a new subscription gets nothing")
        times.append(sent[first] - began)
    times.sort()
    return {
        "what": "a new subscription, until it counts two links away",
        "links": 2,
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[-1],
    }


def measure_restart(members: list[Member], served: list[Served]) -> Row:
    """The third broker is killed, misses messages, and is started: until its subscriber has got them all."""
    body = json.dumps({"key": "missed", "query": "//alert[@topic='missed']"}).encode()
    ask(served[2], "POST", "/subscriptions", body)
    time.sleep(2.0)
    members[2].kill()
    for _ in range(MISSED):
        ask(served[0], "POST", "/messages", b"<alerts><alert topic='missed'/></alerts>", "application/xml")
    began = time.monotonic()
    again = members[2].start()
    listening = time.monotonic() - began
    taken = 0

    def all_there() -> bool:
        nonlocal taken
        results = ask(again, "GET", "/deliveries?subscriber=missed&limit=1000&bodies=false")["deliveries"]
        taken += len(results)
        return taken >= MISSED

    wait(all_there)
    return {
        "what": f"started again after a kill, {MISSED} messages missed",
        "start_s": listening,
        "served_again_s": time.monotonic() - began,
    }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as result:
        return int(result.getsockname()[1])


def measure(*, quick: bool = False) -> list[Row]:
    """All figures of the overlay."""
    subscriptions = 3_000 if quick else 99_999
    rate, seconds = (200.0, 3.0) if quick else (1_000.0, 15.0)
    with three(subscriptions) as (members, served, created):
        rows = measure_hops(served, subscriptions, rate, seconds)
        rows.append(measure_propagation(served))
        rows.append(measure_restart(members, served))
        rows.append(
            {"what": "routing queries made, after the start", "subscriptions": subscriptions, "start_s": created}
        )
    return rows
