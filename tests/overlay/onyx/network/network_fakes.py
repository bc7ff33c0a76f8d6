"""A node that only remembers, drivers around it, and certificates for them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import trustme

from twigcast.overlay.core import Effects, SetTimer
from twigcast.overlay.onyx.network.driver import Driver
from twigcast.overlay.onyx.network.settings import NetworkSettings
from twigcast.overlay.onyx.network.tls import Certificates, Target

QUICK = NetworkSettings(
    ping_seconds=0.05,
    pause_seconds_min=0.02,
    pause_seconds_max=0.1,
    refused_seconds=0.2,
    greeting_seconds=3.0,
    silence_seconds=2.0,
)

NOTHING = Effects([], [], [])


class FakeNode:
    """Remembers all that it is told; what it answers is set from outside."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.answer: Callable[[int, Any], Effects] = lambda sender, message: NOTHING

    def link_up(self, neighbour: int, cost: int, now: float) -> Effects:
        self.events.append(("up", neighbour))
        return NOTHING

    def link_cost(self, neighbour: int, cost: int, now: float) -> Effects:
        self.events.append(("cost", neighbour, cost))
        return NOTHING

    def link_down(self, neighbour: int, now: float) -> Effects:
        self.events.append(("down", neighbour))
        return NOTHING

    def receive(self, sender: int, message: Any, now: float) -> Effects:
        self.events.append(("message", sender, message))
        return self.answer(sender, message)

    def wake(self, timer: Hashable, now: float) -> Effects:
        self.events.append(("wake", timer))
        return Effects([], [SetTimer(0.01, timer)] if timer == "again" else [], [])

    def messages(self) -> list[Any]:
        return [event[2] for event in self.events if event[0] == "message"]

    def count(self, kind: str) -> int:
        return sum(event[0] == kind for event in self.events)


def driver(
    name: str,
    *,
    node: FakeNode | None = None,
    join: Iterable[Driver | Target] = (),
    instance: bytes | None = None,
    incarnation: int = 1,
    certificates: Certificates | None = None,
    settings: NetworkSettings = QUICK,
    deliver: Callable[[Sequence[Any]], None] = lambda items: None,
) -> Driver:
    """A driver on loopback, with any free port."""
    targets = [
        other if isinstance(other, Target) else Target("127.0.0.1", other.port or 0, certificates is not None)
        for other in join
    ]
    return Driver(
        node or FakeNode(),
        name=name,
        instance=name.encode().ljust(16, b"-")[:16] if instance is None else instance,
        incarnation=incarnation,
        software="test",
        deliver=deliver,
        settings=settings,
        certificates=certificates,
        listen=("127.0.0.1", 0),
        join=targets,
    )


@contextlib.asynccontextmanager
async def running(*drivers: Driver) -> AsyncIterator[None]:
    """Drivers at work."""
    for one in drivers:
        await one.start()
    try:
        yield
    finally:
        for one in drivers:
            await one.stop()


async def until(condition: Callable[[], object], seconds: float = 40.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.005)


def certificates(folder: Path, name: str, authority: trustme.CA, *, names: Sequence[str] | None = None) -> Certificates:
    """Files for one broker."""
    created = authority.issue_cert(*(names or [name, "127.0.0.1"]))
    files = Certificates(folder / f"{name}.pem", folder / f"{name}.key", folder / f"{name}-authority.pem")
    created.private_key_pem.write_to_path(files.key)
    for blob in created.cert_chain_pems:
        blob.write_to_path(files.certificate, append=True)
    authority.cert_pem.write_to_path(files.authority)
    return files
