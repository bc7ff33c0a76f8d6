"""A small broker over a real store, and what it takes to push from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker.push.small_broker import SmallBroker
from twigcast.broker.store.open import open_store


@pytest.fixture
def open_broker(tmp_path: Path) -> Iterator[Callable[[], SmallBroker]]:
    """Opens a broker over one store, as often as it is called: each time it closes the one before."""
    opened: list[SmallBroker] = []

    def open_() -> SmallBroker:
        if opened:
            opened[-1].store.close()
        opened.append(SmallBroker(open_store(tmp_path / "store")))
        return opened[-1]

    yield open_
    if opened:
        opened[-1].store.close()


@pytest.fixture
def broker(open_broker: Callable[[], SmallBroker]) -> SmallBroker:
    return open_broker()


@pytest.fixture
def anyio_backend() -> str:
    """What tests that are coroutines run on."""
    return "asyncio"
