"""Brokers of one process that form an overlay: what the tests share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.broker.overlay.flooding import FloodingNode
from twigcast.broker.broker import Broker
from twigcast.broker.options import HubOptions
from twigcast.broker.overlay.broker_node import BrokerNode
from twigcast.broker.overlay.service import Overlay
from twigcast.broker.overlay.settings import OverlaySettings
from twigcast.broker.store.store import Store
from twigcast.overlay.onyx.network.settings import NetworkSettings
from twigcast.overlay.onyx.network.tls import Target
from twigcast.overlay.onyx.wire.exchange import FormPreferences

NewStore = Callable[[str], Store]
"""Opens a store by name; it is closed after the test."""

QUICK = NetworkSettings(ping_seconds=0.1, pause_seconds_min=0.02, pause_seconds_max=0.1, refused_seconds=0.3)


@dataclass(slots=True)
class Part:
    """A broker of an overlay."""

    broker: Broker
    overlay: Overlay

    @property
    def node(self) -> Any:
        """Its node; to be looked at only."""
        return self.overlay._inside.node

    @property
    def target(self) -> Target:
        """Where it is reached."""
        return Target("127.0.0.1", self.overlay.port or 0, secure=False)


@asynccontextmanager
async def part(
    store: Store,
    name: str | None,
    *join: Target,
    node_class: type[BrokerNode] = FloodingNode,
    port: int = 0,
    more: dict[str, Any] | None = None,
    forms: Sequence[str] = (),
    **options: Any,
) -> AsyncIterator[Part]:
    """A broker on a store that stays open, as a part of an overlay."""
    broker = Broker(store, HubOptions(**options))
    await broker.start()
    chosen: dict[str, Any] = {"forms": FormPreferences.parse(forms)} | (more or {})
    settings = OverlaySettings(name, ("127.0.0.1", port), "", join, None, QUICK, 2.0, **chosen)
    overlay = Overlay(broker, settings, node_class)
    try:
        await overlay.start()
        try:
            yield Part(broker, overlay)
        finally:
            await overlay.stop()
    finally:
        await broker.stop()


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.01)
