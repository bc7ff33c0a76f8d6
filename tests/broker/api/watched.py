"""A broker in a process of its own, whose event loop is watched.

Usage: python -m tests.broker.api.watched STORE

It prints its address and a token, and then, for each line on standard input, for how long at most something has held
the event loop since the last line, in milliseconds.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import uvloop

from twigcast.broker.config import load
from twigcast.broker.model import Scope
from twigcast.broker.serving import BrokerServer, Service, listening_socket, tune
from twigcast.broker.store.store import open_store
from twigcast.broker.tokens import create_token, first_start

BEAT_SECONDS = 0.002


class LoopWatch:
    """A heartbeat of the event loop."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        while True:
            due, used = time.perf_counter() + BEAT_SECONDS, time.process_time()
            await asyncio.sleep(BEAT_SECONDS)
            # On a machine with other work, a process waits too: what counts is time that this one worked meanwhile.
            late = min(time.perf_counter() - due, time.process_time() - used)
            self.longest = max(self.longest, late)

    def report(self) -> None:
        """Answers to lines on standard input; in a thread."""
        while sys.stdin.readline():
            longest, self.longest = self.longest, 0.0
            print(1e3 * longest, flush=True)


async def serve(address: str) -> None:
    settings = load({"store": address, "port": 0, "allow_private_urls": True, "log_level": "error"})
    store = open_store(address)
    service = Service(settings, store)
    await service.start()
    tune()
    first_start(store)
    _, token = create_token(store, 1, "watched", frozenset(Scope))
    watch = LoopWatch()
    with listening_socket(settings) as listener:
        host, port = listener.getsockname()[:2]

        def on_start() -> None:
            print(f"http://{host}:{port} {token}", flush=True)
            threading.Thread(target=watch.report, daemon=True).start()

        beat = asyncio.create_task(watch.run())
        await BrokerServer(settings, service, on_start).serve(sockets=[listener])
        beat.cancel()
    await service.stop()
    store.close()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
