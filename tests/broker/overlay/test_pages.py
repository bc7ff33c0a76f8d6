"""What the API, the console and the metrics tell of an overlay; around a node that floods."""

from __future__ import annotations

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
    found = Two(north, south, south.token(Scope.ADMIN))
    wait(lambda: south.do(second.report()).links)
    north.publish(b"<feed><item/></feed>", message_id="m1")
    wait(lambda: south.store.message_by_id(1, "m1"))
    wait(lambda: len(south.store.overlay_roots()) and south.do(second.report()).dials[0].reason)
    yield found
    for broker, overlay in ((south, second), (north, first)):
        broker.do(overlay.stop())
        broker.stop()


def wait(condition: Callable[[], object]) -> None:
    import time

    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def get(broker: BrokerWithConsole, path: str, token: str) -> httpx2.Response:
    return httpx2.get(f"{broker.url}{path}", headers={"authorization": f"Bearer {token}"})


def test_the_api_tells_of_links_brokers_and_troubles(two: Two) -> None:
    answer = get(two.south, "/overlay", two.token)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["name"] == "south<b>"
    (link,) = found["links"]
    assert (link["name"], link["dialed"], link["secure"], link["table"]) == ("north", True, False, 1)
    assert link["received_frames"] > 0
    (missing,) = found["not_reached"]
    assert missing["url"] == "grpc://127.0.0.1:1"
    assert missing["reason"]
    assert (found["stored"], found["published"]) == (1, 0)
    neighbours = {broker["name"]: broker["neighbours"] for broker in found["brokers"]}
    assert neighbours["south<b>"] == [{"name": "north", "cost": 1}]


def test_the_api_tells_the_way_of_a_message(two: Two) -> None:
    stored = two.south.store.message_by_id(1, "m1")
    assert stored is not None
    found = get(two.south, f"/overlay/messages/{stored.seq}", two.token).json()
    assert (found["root"], found["number"], found["passed"]) == ("north", 1, ["north", "south<b>"])
    assert found["links"] == [{"neighbour": "north", "behind": True, "taken": True, "wanted": ["everything"]}]
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
    assert "it goes there: it is wanted there" in words
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
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, address
        assert watched.complaints == []
        context.close()
