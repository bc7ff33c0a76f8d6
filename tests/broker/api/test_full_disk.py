"""A full disk beneath a broker: publishing is refused with a clear error, nothing is lost, and it goes on by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.broker.api.conftest import SETTINGS
from tests.broker.api.running import RunningBroker, check_problem, until
from tests.broker.store.test_faults import small_disk
from tests.services.postgresql import PostgresqlServer
from twigcast.broker.config import load
from twigcast.broker.store.store import open_store


def run_full(address: str, ballast: Path) -> None:
    """Fill the disk through the API, see what is told, make room, and look for all that was accepted."""
    store = open_store(address)
    broker = RunningBroker(store, load({**SETTINGS, "store": address}))
    try:
        party = broker.party()
        party.subscribe("all", "/a")
        accepted = []
        for number in range(10_000):
            body = f"<a>{os.urandom(20_000).hex()}</a>"
            answer = party.http.post("/messages", content=body, params={"id": f"m{number}"})
            if answer.status_code != 201:
                break
            accepted.append(f"m{number}")
        result = check_problem(answer, 507, "store-full")
        assert "no space" in result["detail"]
        assert "retry-after" in answer.headers
        for _ in range(3):
            assert party.http.post("/messages", content=body).status_code == 507
        assert party.http.get("/ready").status_code == 503
        # What is there is still read and delivered.
        (first,) = party.pull("all", limit=1)
        assert first["message"] == accepted[0]
        ballast.unlink()
        until(lambda: party.http.get("/ready").status_code == 200, 30)
        assert party.publish("<a>at last</a>", id="last")["status"] == "accepted"
        party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "all", "ids": [first["id"]]})
        got = {first["message"]: None}
        while len(got) < len(accepted) + 1:
            some = party.pull("all", limit=50, visibility=600)
            got.update(dict.fromkeys(item["message"] for item in some))
            party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "all", "ids": [item["id"] for item in some]})
        assert list(got) == [*accepted, "last"]
    finally:
        broker.stop()
        store.close()


@pytest.mark.slow
def test_on_sqlite(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 12) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(4 << 20))
        run_full(str(disk / "store"), ballast)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_on_postgresql(postgresql_server: PostgresqlServer) -> None:
    with small_disk(Path(postgresql_server.folder) / "disk-api", 24) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(4 << 20))
        database = postgresql_server.new_database_at(disk / "space")
        run_full(postgresql_server.url(database), ballast)
        postgresql_server.drop_space(database)
