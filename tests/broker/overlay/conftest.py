"""Stores for the brokers of an overlay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.overlay.overlays import NewStore
from twigcast.broker.store.store import Store, open_store


@pytest.fixture
def new_store(tmp_path: Path) -> Iterator[NewStore]:
    """Opens stores by name."""
    opened: list[Store] = []

    def open_(name: str) -> Store:
        opened.append(open_store(tmp_path / name))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()
