"""What a million keys of a window take in the broker: bytes of its store, and memory while messages come."""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Row
from twigcast.broker.broker import Broker
from twigcast.broker.model import NewSubscription, StoredSubscription, Submission
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import Store, open_store
from twigcast.windows.declarations import read_window
from twigcast.windows.states import Remembered, WindowState

TENANT = 1
AT_ONCE = 10_000


def fill(store: Store, number: int, keys: int) -> None:
    """Stores a state with two messages for each key, as two of three that have come."""
    now = time.time()
    for first in range(0, keys, AT_ONCE):
        states = []
        for key in range(first, min(first + AT_ONCE, keys)):
            entries = Remembered(now, 10 * key), Remembered(now + 1.5, 10 * key + 1)
            states.append(((number, f"gauge-{key:08}"), WindowState(now + 3_600, entries)))
        with store.transaction() as transaction:
            transaction.set_windows(states)


async def _measure(keys: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        store = open_store(str(path))
        broker = Broker(store, HubOptions())
        await broker.start()
        when = read_window({"at_least": 3, "within": "1 h", "by": "/gauge/@id"})
        (added,) = await broker.subscribe([NewSubscription(TENANT, "high", "/gauge", window=when)])
        assert isinstance(added, StoredSubscription)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        empty = store.database.size()
        await asyncio.to_thread(fill, store, added.id, keys)
        size = store.database.size() - empty
        begun = time.perf_counter()
        count = 2_000
        for first in range(0, count, 100):
            bodies = [f"<gauge id='gauge-{(7_919 * n) % keys:08}'/>".encode() for n in range(first, first + 100)]
            await broker.publish([Submission(TENANT, body) for body in bodies])
        seconds = time.perf_counter() - begun
        await asyncio.sleep(2.5)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        await broker.stop()
        store.close()
    return {
        "keys": keys,
        "store_MB": size / 1e6,
        "memory_grown_MB": grown / 1e3,
        "messages": count,
        "us": seconds / count * 1e6,
    }


def measure(keys: int) -> list[Row]:
    """Bytes for so many keys, and the time of messages that each are of another one."""
    return [asyncio.run(_measure(keys))]
