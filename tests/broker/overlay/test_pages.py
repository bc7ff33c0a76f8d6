"""What the API, the console and the metrics tell of an overlay; around a node that floods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect
from prometheus_client.parser import text_string_to_metric_families

from tests.broker.console.chromium import DESKTOP, PHONE, Watched, chromium
from tests.broker.console.running import BrokerWithConsole, Person
from tests.broker.overlay.flooding import FloodingNode
from tests.broker.overlay.overlays import QUICK
from twigcast.broker.model import Scope
from twigcast.broker.overlay.metrics import OverlayCollector
from twigcast.broker.overlay.service import Overlay
from twigcast.broker.overlay.settings import OverlaySettings
from twigcast.overlay.onyx.network.tls import Target


@dataclass
class Two:
    """Two brokers with consoles, in one overlay."""

    north: BrokerWithConsole
    south: BrokerWithConsole
    token: str


def join(broker: BrokerWithConsole, name: str, *targets: Target) -> Overlay:
    """Let a broker be part of an overlay."""
    settings = OverlaySettings(name, ("127.0.0.1", 0), "", targets, None, QUICK, 2.0)
    overlay = Overlay(broker.broker, settings, FloodingNode)
    broker.do(overlay.start())
    broker.app.state.context.overlay = overlay
    broker.app.state.context.registry.register(OverlayCollector(overlay))
    return overlay


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Two brokers; one of them also dials where nobody is. A message has come from the other one."""
    folder: Path = tmp_path_factory.mktemp("overlay")
    north, south = (BrokerWithConsole(folder / name) for name in ("north", "south"))
    first = join(north, "north")
    nobody = Target("127.0.0.1", 1, secure=False)
    second = join(south, "south<b>", Target("127.0.0.1", first.port or 0, secure=False), nobody)
    south.subscribe("k", "//item")
    result = Two(north, south, south.token(Scope.ADMIN))
    wait(lambda: south.do(second.report()).links)
    north.publish(b"<feed><item/></feed>", message_id="m1")
    wait(lambda: south.store.message_by_id(1, "m1"))
    wait(lambda: len(south.store.overlay_roots()) and south.do(second.report()).dials[0].reason)
    yield result
    for broker, overlay in ((south, second), (north, first)):
        broker.do(overlay.stop())
        broker.stop()


def wait(condition: Callable[[], object]) -> None:
    import time

    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def get(broker: BrokerWithConsole, path: str, token: str) -> httpx2.Response:
    return httpx2.get(f"{broker.url}{path}", headers={"authorization": f"Bearer {token}"})


def test_the_api_tells_of_links_brokers_and_troubles(two: Two) -> None:
    answer = get(two.south, "/overlay", two.token)
    assert answer.status_code == 200, answer.text
    result = answer.json()
    assert result["name"] == "south<b>"
    (link,) = result["links"]
    assert (link["name"], link["dialed"], link["secure"], link["table"]) == ("north", True, False, 1)
    assert (link["messages_sent"], link["messages_left_out"]) == (0, 0)
    assert link["received_frames"] > 0
    (missing,) = result["not_reached"]
    assert missing["url"] == "grpc://127.0.0.1:1"
    assert missing["reason"]
    assert (result["stored"], result["published"]) == (1, 0)
    neighbours = {broker["name"]: broker["neighbours"] for broker in result["brokers"]}
    assert neighbours["south<b>"] == [{"name": "north", "cost": 1}]


def test_the_api_tells_the_way_of_a_message(two: Two) -> None:
    stored = two.south.store.message_by_id(1, "m1")
    assert stored is not None
    result = get(two.south, f"/overlay/messages/{stored.seq}", two.token).json()
    assert (result["root"], result["number"], result["passed"]) == ("north", 1, ["north", "south<b>"])
    (link,) = result["links"]
    assert link == {"neighbour": "north", "behind": True, "taken": True, "wanted": ["everything"], "reduced": None}
    assert get(two.south, "/overlay/messages/99", two.token).status_code == 404


def test_who_may_not_ask_is_refused(two: Two, tmp_path: Path) -> None:
    assert httpx2.get(f"{two.south.url}/overlay").status_code == 401
    tenant = two.north.tenant("other")
    token = two.north.token(Scope.ADMIN, tenant_id=tenant)
    assert get(two.north, "/overlay", token).status_code == 403
    alone = BrokerWithConsole(tmp_path / "alone")
    try:
        answer = get(alone, "/overlay", alone.token(Scope.ADMIN))
        assert answer.status_code == 404
        assert "part of no overlay" in answer.text
        person = Person(alone)
        person.sign_in(alone.token(Scope.ADMIN))
        assert "Overlay" not in person.get("/").words
        assert person.get("/console/overlay").status == 404
        person.http.close()
    finally:
        alone.stop()


def test_the_registry_is_asked_over_http(tmp_path: Path) -> None:
    """Any broker registers, tells and refuses; whoever publishes as a registered source has to show its key."""
    broker = BrokerWithConsole(tmp_path / "holder")
    settings = OverlaySettings(
        "holder", ("127.0.0.1", 0), "", (), None, QUICK, 2.0, url=broker.url, holders=("holder",)
    )
    overlay = Overlay(broker.broker, settings)
    broker.do(overlay.start())
    broker.app.state.context.overlay = overlay
    token = broker.token(Scope.ADMIN)
    person = httpx2.Client(base_url=broker.url, headers={"authorization": f"Bearer {token}"}, timeout=30)
    try:
        assert person.get("/overlay/sources").json() == {"sources": []}
        dtd = "<!ELEMENT feed (item*)><!ELEMENT item EMPTY>"
        answer = person.put("/overlay/sources/wire%2Fone", json={"dtd": dtd, "rate": 2, "size": 50})
        assert answer.status_code == 200, answer.text
        key = answer.json()["key"]
        assert answer.json()["broker"] == {"name": "holder", "url": broker.url}
        wait(lambda: person.get("/overlay/sources").json()["sources"])
        (entry,) = person.get("/overlay/sources").json()["sources"]
        assert (entry["name"], entry["root"], entry["dtd"]) == ("wire/one", "holder", None)
        assert person.get("/overlay/sources/wire%2Fone").json()["dtd"] == dtd
        assert person.get("/overlay/sources/two").status_code == 404
        assert person.put("/overlay/sources/bad", json={"dtd": "<!ELEMENT"}).status_code == 422

        def publish(key: str | None, lines: bool = False) -> httpx2.Response:
            headers = {} if key is None else {"Twigcast-Source-Key": key}
            if lines:
                line = b'{"xml": "<feed/>", "source": "wire/one"}'
                headers["content-type"] = "application/x-ndjson"
                return person.post("/messages", content=line, headers=headers)
            headers["content-type"] = "application/xml"
            return person.post("/messages", params={"source": "wire/one"}, content=b"<feed/>", headers=headers)

        for lines in (False, True):
            assert publish(None, lines).status_code == 403
            assert publish("sk_no", lines).status_code == 403
            assert publish(key, lines).status_code in (200, 201)
        refused = person.put("/sources/wire%2Fone", json={"kind": "atom", "url": "https://example.org/feed"})
        assert refused.status_code == 403, refused.text
        choice = person.post("/overlay/choice", json={"query": "//item"})
        assert choice.json() == {"broker": {"name": "holder", "url": broker.url}, "backup": None}
        assert person.post("/overlay/choice", json={"query": "//item["}).json()["code"] == "query-syntax"
        assert person.put("/overlay/profiles/desk", json={"query": "//item", "place": [1, 2]}).status_code == 200
        assert person.delete("/overlay/profiles/desk").status_code == 204
        assert person.delete("/overlay/brokers/nobody").status_code == 404
        result = person.get("/overlay").json()
        assert (result["registry"]["role"], result["sources"]) == ("leader", 1)
        assert result["trouble_counts"]["source"] == 1
        visitor = Person(broker)
        visitor.sign_in(token)
        words = visitor.get("/console/overlay").words
        assert "wire/one" in words
        assert "publishes as the source 'wire/one', and shows no key for it" in words
        visitor.http.close()
        assert person.delete("/overlay/sources/wire%2Fone").status_code == 403
        gone = person.delete("/overlay/sources/wire%2Fone", headers={"Twigcast-Source-Key": key})
        assert gone.status_code == 204
        wait(lambda: publish(None).status_code == 201)
    finally:
        person.close()
        broker.do(overlay.stop())
        broker.stop()


def test_metrics_are_told(two: Two) -> None:
    text = get(two.south, "/metrics", two.token).text
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("twigcast_overlay")
    }
    assert values["twigcast_overlay_messages_stored_total",] == 1
    assert values["twigcast_overlay_links",] == 1
    assert values["twigcast_overlay_not_reached",] == 1
    assert values["twigcast_overlay_link_received_bytes_total", "north"] > 0
    assert values["twigcast_overlay_link_form", "received", "text", "north"] == 1
    assert ("twigcast_overlay_link_round_trip_seconds", "north") in values


def test_pages_show_it(two: Two) -> None:
    person = Person(two.south)
    person.sign_in(two.token)
    page = person.get("/console/overlay")
    assert page.status == 200
    assert "south<b>" in page.words
    assert "grpc://127.0.0.1:1 is not reached" in page.words
    assert page.all("//svg//circle")
    assert not page.all("//h1//b | //svg//b")
    stored = two.south.store.message_by_id(1, "m1")
    assert stored is not None
    words = person.get(f"/console/messages/one?seq={stored.seq}").words
    assert "north → south<b>" in words
    assert "Number 1 of north" in words
    assert "it goes there: a routing query there matches it" in words
    person.http.close()


@pytest.mark.parametrize("phone", [False, True])
def test_a_browser_shows_it_without_complaint(two: Two, phone: bool) -> None:
    stored = two.south.store.message_by_id(1, "m1")
    assert stored is not None
    with chromium() as browser:
        context = browser.new_context(viewport=PHONE if phone else DESKTOP)  # type: ignore[arg-type]  # a TypedDict
        watched = Watched(context)
        page = watched.page
        page.goto(two.south.url)
        page.get_by_label("Token").fill(two.token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        for address, heading in (
            ("/console/overlay", "Overlay"),
            (f"/console/messages/one?seq={stored.seq}", "m1"),
        ):
            page.goto(two.south.url + address)
            expect(page.get_by_role("heading", level=1)).to_have_text(heading)
            if address == "/console/overlay":
                # It keeps itself up to date: flows are told once it has looked twice.
                expect(page.locator("[data-flow]")).to_have_text(re.compile(r"messages a second"), timeout=60_000)
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, address
        assert watched.complaints == []
        context.close()
