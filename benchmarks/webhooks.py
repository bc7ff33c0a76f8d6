"""Webhooks: how many deliveries a second one subscriber gets, next door and 100 ms away.

The broker runs with its outbound services on a store on SQLite; the receiver is a process of its own, which answers
each request after a while. All deliveries are pending when the clock starts, and it stops when all are acknowledged.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection

from benchmarks.measure import Row
from twigcast.broker.broker import Broker
from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.model import DeliverySettings, NewSubscription, StoredSubscription, Submission
from twigcast.broker.outbound import OutboundServices, OutboundSettings
from twigcast.broker.store.store import open_store

BODY = b"<alert>" + b"<para>Water is expected to rise.</para>" * 25 + b"</alert>"
"""A message of 1 KB."""

_CASES = [
    # name, seconds until the answer, settings, deliveries
    ("local, one after the other", 0.0, {}, 1_000),
    ("local, 16 in flight", 0.0, {"max_in_flight": 16}, 2_000),
    ("local, in order, batches of 20", 0.0, {"batch_max": 20}, 10_000),
    ("local, 4 in flight, batches of 20", 0.0, {"max_in_flight": 4, "batch_max": 20}, 10_000),
    ("100 ms, one after the other", 0.1, {}, 50),
    ("100 ms, 64 in flight", 0.1, {"max_in_flight": 64}, 3_000),
    ("100 ms, in order, batches of 100", 0.1, {"batch_max": 100}, 4_000),
    ("100 ms, 16 in flight, batches of 20", 0.1, {"max_in_flight": 16, "batch_max": 20}, 10_000),
]


def _receive(delay: float, port: Connection) -> None:
    """Answers all requests with 204, each after a while; its port is sent first."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                if delay:
                    await asyncio.sleep(delay)
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


async def _deliver(folder: str, port: int, settings: dict[str, int], count: int) -> tuple[float, int]:
    """Returns the seconds until all deliveries are acknowledged, and the number of requests."""
    store = open_store(folder)
    broker = Broker(store)
    await broker.start()
    delivery = DeliverySettings("webhook", f"http://127.0.0.1:{port}/", "secret", options=settings)
    (added,) = await broker.subscribe([NewSubscription(1, "hook", "/alert", delivery=delivery)])
    assert isinstance(added, StoredSubscription)
    for _ in range(0, count, 50):
        await broker.publish([Submission(1, BODY)] * 50)
    outbound = OutboundServices(broker, OutboundSettings(policy=UrlPolicy(allow_private=True)))
    start = time.perf_counter()
    await outbound.start()
    while outbound.pusher.counts.delivered < count or store.pending_count(added.queue_id):
        await asyncio.sleep(0.01)
    seconds = time.perf_counter() - start
    attempts = outbound.pusher.counts.attempts
    await outbound.stop()
    await broker.stop()
    store.close()
    return seconds, attempts


def measure() -> list[Row]:
    """Each way of sending, with a receiver of its own."""
    context = multiprocessing.get_context("spawn")
    rows: list[Row] = []
    for name, delay, settings, count in _CASES:
        ours, theirs = context.Pipe()
        receiver = context.Process(target=_receive, args=(delay, theirs), daemon=True)
        receiver.start()
        try:
            with tempfile.TemporaryDirectory() as folder:
                seconds, attempts = asyncio.run(_deliver(folder, ours.recv(), settings, count))
        finally:
            receiver.terminate()
            receiver.join()
        rows.append(
            {
                "webhook": name,
                "deliveries": count,
                "requests": attempts,
                "seconds": seconds,
                "per_second": count / seconds,
            }
        )
    return rows
