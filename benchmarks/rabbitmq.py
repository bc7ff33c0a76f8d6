"""What one would build instead of the broker: RabbitMQ, with filter processes that hold lxml's compiled XPaths.

Each filter process holds 1,000 subscriptions and gets every message from a durable queue of its own; it publishes a
persistent message for each match to the durable queue of the subscriber, with publisher confirms, and acknowledges what
it got. 100,000 subscriptions would need a hundred such processes, more than a small machine carries; so it is measured
with one and two, and the processor time of a process tells what a hundred of them would take.

Needs ``rabbitmq-server`` (Debian's package) and pika; without them there are no figures.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
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
START_SECONDS_MAX = 60.0


@contextmanager
def serving() -> Iterator[int]:
    """A RabbitMQ of the benchmark's own; its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    base = Path(__file__).resolve().parents[1] / "build"
    base.mkdir(exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="rabbitmq-", dir=base))
    (home / "plugins").write_text("[].\n", encoding="ascii")
    environment = {
        **os.environ,
        "HOME": str(home),
        "RABBITMQ_NODENAME": f"benchmark{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(port + 1 if port < 65_000 else port - 1),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
    }
    process = subprocess.Popen([str(SERVER)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield port
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(home, ignore_errors=True)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            _connect(port).close()
            return
        except OSError:
            pass
        except _pika().exceptions.AMQPError:
            pass
        if time.monotonic() > deadline:
            raise SystemExit("RabbitMQ did not start")
        time.sleep(0.5)


def _pika() -> Any:
    return importlib.import_module("pika")


def _connect(port: int) -> Any:
    pika = _pika()
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))


def _persistent() -> Any:
    return _pika().BasicProperties(delivery_mode=2)


def filter_messages(port: int, number: int, queries: list[str], told: Any) -> None:
    """One filter process, until it gets an empty message; tells its processor seconds."""
    paths = [(etree.XPath(query), f"subscriber{index % QUEUES}") for index, query in enumerate(queries)]
    connection = _connect(port)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=100)
    began = time.process_time()
    for method, _, body in channel.consume(f"filter{number}"):
        if body:
            root = etree.fromstring(body)
            for path, queue in paths:
                if path(root):
                    channel.basic_publish("", queue, body, _persistent())
        channel.basic_ack(method.delivery_tag)
        if not body:
            break
    told.put(time.process_time() - began)
    connection.close()


def measure_filters(filters: int, queries: list[str], bodies: list[bytes], messages: int, matches: int) -> Row:
    """Messages through RabbitMQ and filter processes, until all deliveries lie in the queues of the subscribers.

    Args:
        filters: Filter processes.
        queries: As many as they hold together.
        bodies: Messages, which are published in turn.
        messages: How many are published.
        matches: Queries that each message matches.
    """
    with serving() as port:
        channel = _connect(port).channel()
        channel.exchange_declare("messages", "fanout", durable=True)
        for name in [f"subscriber{n}" for n in range(QUEUES)] + [f"filter{n}" for n in range(filters)]:
            channel.queue_declare(name, durable=True)
        for number in range(filters):
            channel.queue_bind(f"filter{number}", "messages")
        channel.confirm_delivery()
        told: Any = multiprocessing.Queue()
        processes = [
            multiprocessing.Process(
                target=filter_messages,
                args=(port, n, queries[n * QUERIES_PER_FILTER : (n + 1) * QUERIES_PER_FILTER], told),
            )
            for n in range(filters)
        ]
        for process in processes:
            process.start()
        began = time.monotonic()
        for number in range(messages):
            channel.basic_publish("messages", "", bodies[number % len(bodies)], _persistent())
        channel.basic_publish("messages", "", b"", _persistent())
        used = [told.get() for _ in processes]
        seconds = time.monotonic() - began
        for process in processes:
            process.join()
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


def missing() -> str | None:
    """What is needed and not there."""
    if not SERVER.exists():
        return "rabbitmq-server is not installed"
    if importlib.util.find_spec("pika") is None:
        return "pika is not installed"
    return None
