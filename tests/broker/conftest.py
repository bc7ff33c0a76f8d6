"""What the tests of the broker share: a fresh store of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.postgresql import PostgresqlServer
from twigcast.broker.store.store import Store, open_store


@pytest.fixture(params=["sqlite", "postgresql"])
def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a store can be made: once for each kind."""
    if request.param == "sqlite":
        yield str(tmp_path / "store")
    else:
        server: PostgresqlServer = request.getfixturevalue("postgresql_server")
        yield server.url(server.database)
        server.drop_schema(server.database)


@pytest.fixture
def open_again(store_address: str) -> Iterator[Callable[[], Store]]:
    """Opens the store of ``store_address``; what is still open after the test is closed."""
    opened: list[Store] = []

    def open_() -> Store:
        opened.append(open_store(store_address))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(open_again: Callable[[], Store]) -> Store:
    """An empty store, once of each kind."""
    return open_again()
