"""A running broker over a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.services.postgresql import PostgresqlServer
from twigcast.broker.broker import Broker
from twigcast.broker.store.store import open_store

OpenBroker = Callable[[], Awaitable[Broker]]


@pytest.fixture
def anyio_backend() -> str:
    """What tests that are coroutines run on."""
    return "asyncio"


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where the store is: in a folder, or (for tests marked ``both_stores``) once in PostgreSQL too."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield str(tmp_path / "store")
    else:
        server: PostgresqlServer = request.getfixturevalue("postgresql_server")
        yield server.url(server.database)
        server.drop_schema(server.database)


both_stores = pytest.mark.parametrize("address", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
async def open_broker(address: str) -> AsyncIterator[OpenBroker]:
    """Starts a broker over one store, as often as it is called; the one before is stopped."""
    opened: list[Broker] = []

    async def stop() -> None:
        for broker in opened:
            await broker.stop()
            broker.store.close()
        opened.clear()

    async def open_() -> Broker:
        await stop()
        broker = Broker(open_store(address))
        await broker.start()
        opened.append(broker)
        return broker

    yield open_
    await stop()


@pytest.fixture
async def broker(open_broker: OpenBroker) -> Broker:
    """A running broker."""
    return await open_broker()
