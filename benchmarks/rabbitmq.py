"""What one would build instead of the broker: RabbitMQ, with filter processes that hold lxml's compiled XPaths.

Each filter process holds 1,000 subscriptions and gets every message from a durable queue of its own; it publishes a
persistent message for each match to the durable queue of the subscriber, and acknowledges what it got. Both happen in
transactions of several messages, so that, as in the broker, one write to the disk serves many. 100,000 subscriptions
would need a hundred such processes, more than a small machine carries; so it is measured with one and two, and the
processor time of a process tells what a hundred of them would take.

Needs ``rabbitmq-server`` (Debian's package) and pika; where it cannot be had, the row of the results says why.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import queue
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lxml import etree

from benchmarks.measure import Row

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
QUERIES_PER_FILTER = 1_000
QUEUES = 200
START_SECONDS_MAX = 90.0
START_ATTEMPTS = 3
PORTS = range(20_000, 30_000)
"""Below those that the system gives to connections: thousands of these are just ending when RabbitMQ is to start."""

COMMIT_MESSAGES = 20
"""Messages in one transaction of a publisher or filter."""

ANSWER_SECONDS_MAX = 300.0


class Unavailable(Exception):
    """RabbitMQ cannot be measured here.

    Args:
        reason: Why.
    """


@contextmanager
def serving() -> Iterator[int]:
    """A RabbitMQ of the benchmark's own; its port.

    Raises:
        Unavailable: It does not start.
    """
    base = Path(__file__).resolve().parents[1] / "build"
    base.mkdir(exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="rabbitmq-", dir=base))
    process = None
    try:
        process, port = _started(home)
        yield port
    finally:
        if process is not None:
            _end(process)
        shutil.rmtree(home, ignore_errors=True)


def _started(home: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A server that answers, and its port."""
    reason = ""
    for attempt in range(START_ATTEMPTS):
        port = _free_port()
        folder = home / str(attempt)
        folder.mkdir()
        with (folder / "output").open("wb") as output:
            # Nothing is read from standard input, which may be a pipe of whoever started the benchmark.
            process = subprocess.Popen(
                [str(SERVER)],
                env=_environment(folder, port),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            _wait_for(process, port)
        except Unavailable as error:
            has_ended = process.poll() is not None
            _end(process)
            reason = f"{error}{_last_line(folder / 'output')}"
            if not has_ended:
                # It is too slow, not in somebody's way.
                break
        except BaseException:
            _end(process)
            raise
        else:
            return process, port
    raise Unavailable(reason)


def _free_port() -> int:
    """A port that is free, as is the one after it."""
    for _ in range(100):
        port = random.choice(PORTS)
        if _is_free(port) and _is_free(port + 1):
            return port
    raise Unavailable("no port is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _environment(home: Path, port: int) -> dict[str, str]:
    (home / "plugins").write_text("[].\n", encoding="ascii")
    return {
        **os.environ,
        "HOME": str(home),
        "RABBITMQ_NODENAME": f"benchmark{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(port + 1),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            _connect(port).close()
            return
        except OSError:
            pass
        except _pika().exceptions.AMQPError:
            pass
        if process.poll() is not None:
            raise Unavailable(f"it ended with status {process.returncode}")
        if time.monotonic() > deadline:
            raise Unavailable(f"it did not answer within {START_SECONDS_MAX:.0f} s")
        time.sleep(0.5)


def _last_line(output: Path) -> str:
    """The last line that a server has written, as the end of a sentence."""
    lines = output.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"; its last words: {last[:200]}" if last else ""


def _pika() -> Any:
    return importlib.import_module("pika")


def _connect(port: int) -> Any:
    pika = _pika()
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))


def _persistent() -> Any:
    return _pika().BasicProperties(delivery_mode=2)


def filter_messages(port: int, number: int, queries: list[str], reported: Any) -> None:
    """One filter process, until it gets an empty message; tells its processor seconds."""
    paths = [(etree.XPath(query), f"subscriber{index % QUEUES}") for index, query in enumerate(queries)]
    connection = _connect(port)
    channel = connection.channel()
    channel.tx_select()
    channel.basic_qos(prefetch_count=100)
    began = time.process_time()
    waiting = 0
    for method, _, body in channel.consume(f"filter{number}", inactivity_timeout=0.01):
        if body:
            root = etree.fromstring(body)
            for path, subscriber in paths:
                if path(root):
                    channel.basic_publish("", subscriber, body, _persistent())
        if method is not None:
            channel.basic_ack(method.delivery_tag)
            waiting += 1
        is_last = method is not None and not body
        if waiting and (method is None or waiting >= COMMIT_MESSAGES or is_last):
            channel.tx_commit()
            waiting = 0
        if is_last:
            break
    reported.put(time.process_time() - began)
    connection.close()


def measure_filters(filters: int, queries: list[str], bodies: list[bytes], messages: int, matches: int) -> Row:
    """Messages through RabbitMQ and filter processes, until all deliveries lie in the queues of the subscribers.

    Args:
        filters: Filter processes.
        queries: As many as they hold together.
        bodies: Messages, which are published in turn.
        messages: How many are published.
        matches: Queries that each message matches.

    Raises:
        Unavailable: RabbitMQ does not start.
    """
    with serving() as port:
        channel = _connect(port).channel()
        channel.exchange_declare("messages", "fanout", durable=True)
        for name in [f"subscriber{n}" for n in range(QUEUES)] + [f"filter{n}" for n in range(filters)]:
            channel.queue_declare(name, durable=True)
        for number in range(filters):
            channel.queue_bind(f"filter{number}", "messages")
        channel.tx_select()
        # New processes: what runs in this one beside the benchmark is not to be copied.
        fresh = multiprocessing.get_context("spawn")
        reported: Any = fresh.Queue()
        processes = [
            fresh.Process(
                target=filter_messages,
                args=(port, n, queries[n * QUERIES_PER_FILTER : (n + 1) * QUERIES_PER_FILTER], reported),
            )
            for n in range(filters)
        ]
        for process in processes:
            process.start()
        _wait_for_filters(channel, filters)
        began = time.monotonic()
        for number in range(messages):
            channel.basic_publish("messages", "", bodies[number % len(bodies)], _persistent())
            if number % COMMIT_MESSAGES == 0:
                channel.tx_commit()
        channel.basic_publish("messages", "", b"", _persistent())
        channel.tx_commit()
        try:
            used = [reported.get(timeout=ANSWER_SECONDS_MAX) for _ in processes]
            seconds = time.monotonic() - began
        except queue.Empty:
            raise SystemExit(f"the filters behind RabbitMQ did not end within {ANSWER_SECONDS_MAX:.0f} s") from None
        finally:
            for process in processes:
                process.join(5)
                process.kill()
        delivered = sum(
            channel.queue_declare(f"subscriber{n}", passive=True).method.message_count for n in range(QUEUES)
        )
    if delivered != messages * matches:
        raise SystemExit(f"RabbitMQ delivered {delivered} and not {messages * matches}")
    return {
        "what": f"RabbitMQ, {filters} lxml filter{'s' if filters > 1 else ''}",
        "subscriptions": filters * QUERIES_PER_FILTER,
        "accepted_per_s": messages / seconds,
        "delivered_per_s": delivered / seconds,
        "filter_cpu_us_per_message": 1e6 * sum(used) / messages,
    }


def _wait_for_filters(channel: Any, filters: int) -> None:
    """Wait until all filters listen: their start is not measured."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while any(
        channel.queue_declare(f"filter{n}", durable=True, passive=True).method.consumer_count == 0
        for n in range(filters)
    ):
        if time.monotonic() > deadline:
            raise SystemExit("the filters behind RabbitMQ did not start")
        time.sleep(0.1)


def missing() -> str | None:
    """What is needed and not there."""
    if not SERVER.exists():
        return "rabbitmq-server is not installed"
    if importlib.util.find_spec("pika") is None:
        return "pika is not installed"
    return None
