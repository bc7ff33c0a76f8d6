"""``/consumers``, and the metrics of lag."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import httpx2
import pytest

from tests.broker.api.running import Party, RunningBroker, until
from twigcast.broker.model import Scope
from twigcast.client import Client

SAMPLE = re.compile(r'^(twigcast_\w+)(?:\{tenant="([^"]*)"\})? ([0-9.e+-]+)$', re.MULTILINE)


def consumer(party: Party, subscriber: str) -> dict[str, Any]:
    result: dict[str, Any] = party.ok("GET", f"/consumers/{subscriber}")
    return result


def samples(broker: RunningBroker) -> dict[tuple[str, str], float]:
    text = broker.operator.get("/metrics").text
    return {(name, tenant): float(value) for name, tenant, value in SAMPLE.findall(text)}


def test_a_consumer_is_described_by_what_waits_and_who_fetches(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("k", "/a")
    idle = consumer(party, "k")
    assert idle == {
        "subscriber": "k",
        "kind": "pull",
        "queue": "ordered",
        "pending": 0,
        "oldest": None,
        "oldest_pending_seconds": None,
        "in_flight": 0,
        "attempts": 0,
        "next_retry": None,
        "readers": 0,
        "connected_since": None,
    }
    first = party.publish("<a>0</a>")
    party.publish("<a>1</a>")
    time.sleep(0.1)  # so that it has an age
    waiting = consumer(party, "k")
    assert (waiting["pending"], waiting["oldest"]) == (2, first["seq"])
    assert 0.1 <= waiting["oldest_pending_seconds"] < 20
    leased = party.pull("k", limit=1, visibility=30)
    assert consumer(party, "k")["in_flight"] == 1
    party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "k", "ids": [leased[0]["id"]]})
    done = consumer(party, "k")
    assert (done["pending"], done["in_flight"], done["oldest"]) == (1, 0, first["seq"] + 1)
    with httpx2.stream(
        "GET", f"{party.url}/deliveries/stream?subscriber=k", headers=party.headers(Scope.SUBSCRIBE), timeout=20
    ):
        until(lambda: consumer(party, "k")["readers"] == 1)
        since = datetime.fromisoformat(consumer(party, "k")["connected_since"])
        assert 0 <= (datetime.now(UTC) - since).total_seconds() < 20
    until(lambda: consumer(party, "k")["connected_since"] is None)


def test_consumers_are_listed_in_pages(party_on_each_store: Party) -> None:
    party = party_on_each_store
    for n in range(7):
        party.subscribe(f"k{n}", "/a")
    party.subscribe("other", "/a", subscriber="k0")
    party.publish("<a/>")
    names: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = party.ok("GET", "/consumers", params={"limit": 3, **after})
        names += [item["subscriber"] for item in page["consumers"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert names == [f"k{n}" for n in range(7)]
    (one,) = party.ok("GET", "/consumers", params={"subscriber": "k0"})["consumers"]
    assert one["pending"] == 2
    assert party.ok("GET", "/consumers", params={"subscriber": "none"})["consumers"] == []
    party.problem("GET", "/consumers/none", 404, "not-found")


def test_nobody_sees_the_consumers_of_others(broker: RunningBroker) -> None:
    one, other = broker.party(), broker.party()
    one.subscribe("private", "/a")
    one.publish("<a/>")
    assert other.ok("GET", "/consumers")["consumers"] == []
    for verb in ("purge", "skip", "redrive", "seek"):
        body = {"now": True} if verb == "seek" else {}
        other.problem("POST", f"/consumers/private/{verb}", 404, "not-found", json=body)
    with one.client(Scope.PUBLISH) as publisher:
        assert publisher.get("/consumers").status_code == 403
    assert consumer(one, "private")["pending"] == 1


@pytest.mark.parametrize("shared", [False, True])
def test_purge_leaves_nothing_and_what_comes_later_counts(party_on_each_store: Party, shared: bool) -> None:
    party = party_on_each_store
    party.subscribe("a", "/a", subscriber="desk")
    if shared:
        party.subscribe("b", "/a", subscriber="desk")
    for _ in range(3):
        party.publish("<a/>")
    party.pull("desk", limit=1)
    assert party.ok("POST", "/consumers/desk/purge") == {"count": 6 if shared else 3}
    state = consumer(party, "desk")
    assert (state["pending"], state["in_flight"]) == (0, 0)
    assert party.pull("desk", wait=0) == []
    party.publish("<a>new</a>")
    assert {item["xml"] for item in party.pull("desk")} == {"<a>new</a>"}


def test_skip_makes_dead_letters_or_drops(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("k", "/a")
    for n in range(5):
        party.publish(f"<a>{n}</a>")
    assert party.ok("POST", "/consumers/k/skip", json={}) == {"count": 1}
    letters = party.ok("GET", "/dead-letters")["dead_letters"]
    assert [(letter["xml"], letter["reason"]) for letter in letters] == [("<a>0</a>", "it was skipped")]
    assert party.ok("POST", "/consumers/k/skip", json={"count": 2, "dead_letter": False}) == {"count": 2}
    assert len(party.ok("GET", "/dead-letters")["dead_letters"]) == 1
    assert [item["xml"] for item in party.pull("k")] == ["<a>3</a>", "<a>4</a>"]
    assert party.ok("POST", "/consumers/k/skip", json={"count": 10}) == {"count": 2}
    assert party.ok("POST", "/consumers/k/skip", json={"count": 10}) == {"count": 0}
    party.problem("POST", "/consumers/k/skip", 422, "invalid", json={"count": 0})


def test_seek_is_for_a_subscription_that_is_alone(party: Party) -> None:
    party.subscribe("k", "/a")
    party.publish("<a>0</a>")
    party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "k", "up_to": party.pull("k")[0]["id"]})
    party.ok("POST", "/consumers/k/seek", json={"after": 0})
    assert [item["xml"] for item in party.pull("k")] == ["<a>0</a>"]
    party.ok("POST", "/consumers/k/seek", json={"now": True})
    assert consumer(party, "k")["pending"] == 0
    party.subscribe("l", "/a", subscriber="k")
    party.problem("POST", "/consumers/k/seek", 409, "conflict", json={"now": True})


def test_what_was_skipped_can_be_pulled_again_once_it_is_redriven(party: Party) -> None:
    party.subscribe("k", "/a")
    party.subscribe("l", "/b", subscriber="k")
    for xml in ("<a>0</a>", "<b>1</b>", "<a>2</a>"):
        party.publish(xml)
    assert party.ok("POST", "/consumers/k/skip", json={"count": 2}) == {"count": 2}
    (rest,) = party.pull("k")
    party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "k", "ids": [rest["id"]]})
    assert party.ok("POST", "/consumers/k/redrive") == {"count": 2}
    assert party.ok("GET", "/dead-letters")["dead_letters"] == []
    again = party.pull("k")
    assert [item["xml"] for item in again] == ["<a>0</a>", "<b>1</b>"]
    party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "k", "ids": [item["id"] for item in again]})
    assert consumer(party, "k")["pending"] == 0


class Hook(BaseHTTPRequestHandler):
    """A receiver that refuses what the test says."""

    refused: ClassVar[set[bytes]] = set()
    got: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if body not in self.refused:
            self.got.append(body)
        self.send_response(500 if body in self.refused else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stays silent."""


def test_a_webhook_that_fails_shows_its_attempts_and_goes_on_after_a_skip(
    own_broker: Callable[..., RunningBroker],
) -> None:
    broker = own_broker(push_retry_seconds=60, push_breaker_failures=100)
    party = broker.party()
    Hook.refused, Hook.got = {b"<a>0</a>"}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        party.subscribe("hook", "/a", delivery={"kind": "webhook", "url": url})
        party.publish("<a>0</a>")
        party.publish("<a>1</a>")
        until(lambda: consumer(party, "hook")["next_retry"] is not None)
        state = consumer(party, "hook")
        assert (state["kind"], state["pending"], state["attempts"]) == ("webhook", 2, 1)
        assert datetime.fromisoformat(state["next_retry"]) > datetime.now(UTC)
        metrics = samples(broker)
        assert metrics["twigcast_push_lanes_failing", ""] == 1
        assert metrics["twigcast_push_attempts_failed_max", ""] == 1
        assert party.ok("POST", "/consumers/hook/skip", json={}) == {"count": 1}
        until(lambda: Hook.got == [b"<a>1</a>"])
        until(lambda: consumer(party, "hook")["pending"] == 0)
        assert samples(broker)["twigcast_push_lanes_failing", ""] == 0
        Hook.refused = set()
        assert party.ok("POST", "/consumers/hook/redrive") == {"count": 1}
        until(lambda: Hook.got == [b"<a>1</a>", b"<a>0</a>"])
        until(lambda: party.ok("GET", "/dead-letters")["dead_letters"] == [])
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_metrics_of_lag_are_by_tenant(own_broker: Callable[..., RunningBroker]) -> None:
    broker = own_broker()
    party, quiet = broker.party(), broker.party()
    quiet.subscribe("q", "/b")
    for n in range(30):
        party.subscribe(f"k{n:02}", "/a" if n % 2 else "/a | /b")
    before = len(samples(broker))
    party.publish("<a/>")
    party.publish("<b/>")
    party.pull("k00", limit=1)

    def of(name: str, tenant: str = party.name) -> float:
        return samples(broker)[f"twigcast_{name}", tenant]

    until(lambda: of("consumers_behind") == 30, 20)
    assert (of("consumer_pending"), of("consumer_pending_max")) == (45, 2)
    assert 0 < of("consumer_oldest_seconds_max") < 60
    assert (of("consumers_behind", quiet.name), of("consumer_oldest_seconds_max", quiet.name)) == (0, 0)
    assert of("deliveries_in_flight", "") == 1
    assert of("consumer_lag_age_seconds", "") < 30
    assert len(samples(broker)) == before, "no subscriber has a series of its own"
    behind = party.ok("GET", "/consumers", params={"behind": True, "limit": 5})
    assert [item["subscriber"] for item in behind["consumers"]] == [f"k{n:02}" for n in (0, 2, 4, 6, 8)]
    for n in range(30):
        party.ok("POST", f"/consumers/k{n:02}/purge")
    assert party.ok("GET", "/consumers", params={"behind": True})["consumers"] == []
    until(lambda: of("consumers_behind") == 0, 20)
    assert of("deliveries_in_flight", "") == 0


def test_the_lag_is_known_after_a_restart(own_broker: Callable[..., RunningBroker]) -> None:
    broker = own_broker()
    party = broker.party()
    party.subscribe("k", "/a")
    party.publish("<a/>")
    address = broker.settings.store
    broker.stop()
    broker.store.close()
    from tests.broker.api.running import RunningBroker as Running
    from twigcast.broker.store.store import open_store

    again = Running(open_store(address), broker.settings)
    try:
        until(lambda: samples(again)["twigcast_consumers_behind", party.name] == 1, 20)
    finally:
        again.stop()
        again.store.close()


@pytest.mark.slow
def test_the_client_has_calls_for_consumers(party: Party) -> None:
    party.subscribe("k", "/a")
    party.subscribe("l", "/a")
    for n in range(3):
        party.publish(f"<a>{n}</a>")
    with Client(party.url, party.tokens[Scope.SUBSCRIBE]) as client:
        assert [(one.subscriber, one.pending) for one in client.consumers()] == [("k", 3), ("l", 3)]
        assert client.skip("k") == 1
        assert client.skip("k", 1, dead_letter=False) == 1
        assert client.consumer("k").pending == 1
        assert client.purge("k") == 1
        until(lambda: [one.subscriber for one in client.furthest_behind(5)] == ["l"], 20)
