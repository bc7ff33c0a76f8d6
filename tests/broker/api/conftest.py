"""Running brokers for the tests of the API: one for all tests of a kind of store, with a tenant of its own for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.api.running import Party, RunningBroker
from tests.services.postgresql import PostgresqlServer
from twigcast.broker.config import load
from twigcast.broker.store.store import open_store

SETTINGS: dict[str, Any] = {
    "port": 0,
    "body_bytes_max": 1_000_000,
    "batch_messages_max": 1_000,
    "allow_private_urls": True,
    "stop_seconds": 5,
}


@pytest.fixture(scope="session")
def sqlite_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker on SQLite."""
    yield from _running(str(tmp_path_factory.mktemp("broker") / "store"))


@pytest.fixture(scope="session")
def postgresql_broker(postgresql_server: PostgresqlServer) -> Iterator[RunningBroker]:
    """A broker on PostgreSQL."""
    database = postgresql_server.new_database()
    yield from _running(postgresql_server.url(database))
    postgresql_server.drop(database)


def _running(address: str) -> Iterator[RunningBroker]:
    store = open_store(address)
    broker = RunningBroker(store, load({**SETTINGS, "store": address}))
    yield broker
    broker.stop()
    store.close()


@pytest.fixture
def broker(sqlite_broker: RunningBroker) -> RunningBroker:
    """A broker that other tests use too."""
    return sqlite_broker


@pytest.fixture
def party(broker: RunningBroker) -> Party:
    """A tenant of its own."""
    return broker.party()


@pytest.fixture(params=["sqlite", "postgresql"])
def party_on_each_store(request: pytest.FixtureRequest) -> Party:
    """A tenant of its own, once on each kind of store."""
    broker: RunningBroker = request.getfixturevalue(f"{request.param}_broker")
    return broker.party()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Callable[..., RunningBroker]]:
    """Starts brokers of the test's own, with settings of its own."""
    started: list[RunningBroker] = []

    def start(**settings: Any) -> RunningBroker:
        address = str(tmp_path / f"store-{len(started)}")
        started.append(RunningBroker(open_store(address), load({**SETTINGS, "store": address, **settings})))
        return started[-1]

    yield start
    for broker in started:
        broker.stop()
        broker.store.close()
