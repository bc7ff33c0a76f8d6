"""What earlier releases wrote is opened by this one. The files are made by write.py, with the Python of a release."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import pytest

from tests.broker.api.conftest import SETTINGS
from tests.broker.api.running import RunningBroker
from twigcast import SubscriptionSet
from twigcast.broker.config import load
from twigcast.broker.store.store import open_store

FILES = Path(__file__).parent / "files"
RELEASES = ["0.1.0"]
ALERT = b"<alert xmlns='urn:demo:alerts'><area>Mill</area><severity>4</severity></alert>"


def open_old_store(release: str, folder: Path) -> str:
    packed = (FILES / f"store-{release}.sqlite.xz").read_bytes()
    folder.mkdir(mode=0o700)
    # The name that the store has in its folder is found out by making one.
    open_store(str(folder)).close()
    (file,) = (path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:15] == b"SQLite format 3")
    file.write_bytes(lzma.decompress(packed))
    return str(folder)


def pull(broker: RunningBroker, subscriber: str) -> list[dict[str, Any]]:
    answer = broker.operator.get("/deliveries", params={"subscriber": subscriber, "wait": 5})
    assert answer.status_code == 200, answer.text
    deliveries: list[dict[str, Any]] = answer.json()["deliveries"]
    return deliveries


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_a_store_is_opened_and_goes_on(release: str, tmp_path: Path) -> None:
    address = open_old_store(release, tmp_path / "store")
    store = open_store(address)
    # The messages are from the day on which they were written.
    settings = {**SETTINGS, "store": address, "retention_seconds": 1e10, "overlay_retention_factor": 1}
    broker = RunningBroker(store, load(settings))
    try:
        subscriptions = {one["key"]: one for one in broker.operator.get("/subscriptions").json()["subscriptions"]}
        assert {key: one["state"] for key, one in subscriptions.items()} == dict.fromkeys(
            ("hook", "places", "severe"), "active"
        )
        assert subscriptions["hook"]["delivery"]["url"] == "http://127.0.0.1:9/"
        assert [one["seq"] for one in pull(broker, "severe")] == [1, 3]
        # What was acknowledged stays so.
        assert [one["xml"] for one in pull(broker, "places")] == ["<place>Hill</place>", "<place>Harbour</place>"]
        sent = broker.operator.post("/messages?id=m3", content=ALERT, headers={"Content-Type": "application/xml"})
        assert sent.json()["status"] == "duplicate"
        sent = broker.operator.post("/messages", content=ALERT, headers={"Content-Type": "application/xml"})
        assert (sent.json()["seq"], sent.json()["matches"]) == (4, 3)
        errors = broker.operator.get("/subscriptions/hook/errors").json()
        assert errors
    finally:
        broker.stop()
        store.close()


@pytest.mark.parametrize("release", RELEASES)
def test_a_snapshot_is_read_and_saved_in_the_form_of_today(release: str, tmp_path: Path) -> None:
    subscriptions = SubscriptionSet.load(FILES / f"snapshot-{release}.twigcast")
    assert sorted(subscriptions) == ["places", "plain", "severe"]
    assert subscriptions.match(ALERT).keys == ["severe", "places"]
    assert subscriptions.match(b"<note n='2'/>").keys == ["plain"]
    assert [one.payload for one in subscriptions.deliver(ALERT)][1] == b"<place>Mill</place>"
    subscriptions.save(tmp_path / "snapshot")
    assert sorted(SubscriptionSet.load(tmp_path / "snapshot")) == sorted(subscriptions)
