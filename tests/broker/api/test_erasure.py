"""Erasing a tenant with all that it has stored, and the clock, over HTTP and in the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.api.running import Party, RunningBroker, until
from tests.broker.hub.hubs import publish, run, running, subscribe
from twigcast.broker.errors import Conflict, UnknownObject
from twigcast.broker.model import NewSubscription, Scope, Source, Submission
from twigcast.broker.store.store import Store
from twigcast.broker.tokens import create_token
from twigcast.client import Client

MARK = "trace-of-the-tenant"


def fill(party: Party) -> None:
    """Leave something in every table that has a tenant."""
    key = f"{MARK}-key"
    party.subscribe(key, f"/a[. != '{MARK}-query']")
    party.subscribe(
        "hook", "/a", delivery={"kind": "webhook", "url": "http://127.0.0.1:9/", "secret": f"{MARK}-secret"}
    )
    party.subscribe("rewritten", f"for $x in /a return <r m='{MARK}-payload'>{{$x}}</r>")
    by = f"concat('{MARK}-by-', string-length(/a))"
    party.subscribe("counted", "/a", when={"at_least": 1_000, "within": "300 d", "by": by})
    party.subscribe("valued", "/a", when={"changed": f"concat('{MARK}-value-', name(/a))"})
    party.subscribe("kept", f"for $x in /a return <d m='{MARK}-kept'>{{$x}}</d>", when={"digest": "366 d", "by": by})
    for number in range(5):
        party.publish(f"<a>{MARK}-body-{number}{'x' * 3_000}</a>", id=f"{MARK}-id-{number}", source=f"{MARK}-source")
    party.http.post("/messages", content=f"<a>{MARK}-rejected", headers={"Content-Type": "application/xml"})
    party.ok("PUT", f"/sources/{MARK}-feed", 201, json={"kind": "atom", "url": "http://127.0.0.1:9/", "paused": True})


def counts(store: Store, tenant_id: int) -> dict[str, int]:
    """The rows of a tenant in each table."""
    tables = ("tenants", "tokens", "sources", "messages", "rejected", "lanes", "subscriptions", "dead_letters")
    return {
        table: store.one(
            f"SELECT COUNT(*) FROM {table} WHERE {'id' if table == 'tenants' else 'tenant_id'} = ?", (tenant_id,)
        )[0]
        for table in tables
    }


def known_for_windows(store: Store) -> dict[str, tuple[int, int]]:
    """The rows of what is known for windows, by table: all of them, and those of subscriptions that are no more."""
    gone = "subscription_id NOT IN (SELECT id FROM subscriptions)"
    return {
        table: (
            store.one(f"SELECT COUNT(*) FROM {table}")[0],
            store.one(f"SELECT COUNT(*) FROM {table} WHERE {gone}")[0],
        )
        for table in ("window_states", "kept_messages")
    }


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_tenant_is_erased_and_no_other(kind: str, request: pytest.FixtureRequest) -> None:
    broker: RunningBroker = request.getfixturevalue(f"{kind}_broker")
    gone, other = broker.party(), broker.party()
    for party in (gone, other):
        fill(party)
    deliveries = broker.store.one("SELECT COUNT(*) FROM deliveries")[0]
    before = counts(broker.store, other.id)
    windows = known_for_windows(broker.store)
    assert all(count or table == "dead_letters" for table, count in counts(broker.store, gone.id).items())
    size = broker.store.one("SELECT value FROM counters WHERE name = 'bytes'")[0]
    with Client(broker.url, broker.operator_token) as client:
        assert client.erase_tenant(gone.name)
        with pytest.raises(UnknownObject):
            client.erase_tenant(gone.name)
        with pytest.raises(Conflict, match="first tenant"):
            client.erase_tenant("default")
        assert gone.name not in {tenant.name for tenant in client.tenants()}
        client.create_tenant(gone.name)
        assert client.erase_tenant(gone.name), "its name can be used again"
    assert set(counts(broker.store, gone.id).values()) == {0}
    assert counts(broker.store, other.id) == before
    assert known_for_windows(broker.store) == {
        "window_states": (windows["window_states"][0] - 3, 0), "kept_messages": (windows["kept_messages"][0] - 5, 0)
    }  # fmt: skip
    assert broker.store.one("SELECT COUNT(*) FROM deliveries")[0] == deliveries - 15
    assert (
        broker.store.one("SELECT value FROM counters WHERE name = 'bytes'")[0]
        == size - broker.store.statistics(other.id).bytes
    )
    assert gone.http.get("/me").status_code == 401
    assert len(other.pull("rewritten")) == 5


def test_nothing_is_left_in_the_files(own_broker: Callable[..., RunningBroker], tmp_path: Path) -> None:
    broker = own_broker()
    party = broker.party()
    fill(party)
    folder = tmp_path / "store-0"
    assert any(MARK.encode() in path.read_bytes() for path in folder.iterdir())
    with Client(broker.url, broker.operator_token) as client:
        assert client.erase_tenant(party.name)
    for path in folder.iterdir():
        assert MARK.encode() not in path.read_bytes(), path


def test_a_stream_of_the_tenant_ends(broker: RunningBroker) -> None:
    party = broker.party()
    party.subscribe("k", "/a")
    with party.http.stream("GET", "/deliveries/stream", params={"subscriber": "k"}) as response:
        assert response.status_code == 200
        broker.operator.delete(f"/tenants/{party.name}").raise_for_status()
        for _ in response.iter_raw():
            pass


def test_an_erasure_goes_on_after_a_restart(open_again: Callable[[], Store]) -> None:
    store = open_again()
    with store.transaction() as transaction:
        tenant = transaction.add_tenant("gone", {})
        transaction.put_source(Source(0, tenant.id, "s", "push"))

    async def begin() -> None:
        async with running(store) as broker:
            subscription = await subscribe(broker, "k", "//a", tenant_id=tenant.id)
            for _ in range(3):
                await publish(broker, *["<a/>"] * 500, tenant_id=tenant.id)
            (delivery,) = await broker.pull(subscription.queue_id, limit=1, wait=0, visibility=60)
            await broker.dead_letter([(delivery, 1, "why")])
            await broker.change(lambda transaction: transaction.begin_erasure(tenant.id))

    run(begin())
    store.close()
    store = open_again()
    assert store.erased_tenants() == [tenant.id]
    assert counts(store, tenant.id)["messages"] == 1_500

    async def go_on() -> None:
        async with running(store) as broker:
            with pytest.raises(UnknownObject, match="erased"):
                await broker.publish([Submission(tenant.id, b"<a/>")])
            with pytest.raises(UnknownObject, match="erased"):
                await broker.subscribe([NewSubscription(tenant.id, "late", "//a")])
            with pytest.raises(UnknownObject):
                await broker.change(lambda transaction: transaction.put_source(Source(0, tenant.id, "late", "push")))
            with pytest.raises(UnknownObject):
                await asyncio.to_thread(create_token, store, tenant.id, "late", frozenset({Scope.ADMIN}))
            async with asyncio.timeout(30):
                while store.erased_tenants():
                    await asyncio.sleep(0.02)

    run(go_on())
    assert set(counts(store, tenant.id).values()) == {0}
    assert store.one("SELECT COUNT(*) FROM deliveries") == (0,)
    assert store.one("SELECT value FROM counters WHERE name = 'bytes'") == (0,)


def test_the_clock_is_confirmed(own_broker: Callable[..., RunningBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    broker = own_broker()
    party = broker.party()
    assert party.http.get("/clock").status_code == 403
    party.publish("<a/>")
    with Client(broker.url, broker.operator_token) as client:
        clock = broker.service.broker._retention.clock
        broker.call(broker.service.broker._retention.once)
        assert client.clock().is_confirmed
        monkeypatch.setattr(clock, "_wall", lambda: time.time() + 30 * 86_400)
        broker.call(broker.service.broker._retention.once)
        state = client.clock()
        assert not state.is_confirmed
        assert state.step_seconds == pytest.approx(30 * 86_400, abs=5)
        assert "twigcast_retention_held 1.0" in broker.operator.get("/metrics").text
        assert party.ok("GET", "/messages")["messages"], "nothing has expired"
        monkeypatch.setattr(clock, "_wall", time.time)
        assert client.confirm_clock().is_confirmed
        until(lambda: "twigcast_retention_held 0.0" in broker.operator.get("/metrics").text)


def test_an_export_says_that_a_secret_is_left_out(party: Party) -> None:
    hook = {"kind": "webhook", "url": "http://127.0.0.1:9/", "secret": "shared"}
    party.subscribe("signed", "/a", delivery=hook)
    party.subscribe("unsigned", "/a", delivery={"kind": "webhook", "url": "http://127.0.0.1:9/"})
    with Client(party.url, party.tokens[Scope.ADMIN]) as client:
        exported = {line["key"]: line for line in client.export_subscriptions()}
        assert exported["signed"]["delivery"]["secret_left_out"] is True
        assert "secret_left_out" not in exported["unsigned"]["delivery"]
        assert "shared" not in str(exported)
        assert client.import_subscriptions(exported.values(), replace=True).replaced == 2
        assert client.subscription("signed").delivery["signed"] is True, "the secret has stayed"
        for key in exported:
            client.unsubscribe(key)
        report = client.import_subscriptions(exported.values())
        assert (report.added, report.refused) == (1, 1)
        assert (report.errors[0].key, report.errors[0].code) == ("signed", "invalid")
        assert "delivery.secret" in report.errors[0].reason
        exported["signed"]["delivery"]["secret"] = "again"
        assert client.import_subscriptions([exported["signed"]]).added == 1
        assert client.subscription("signed").delivery["signed"] is True
