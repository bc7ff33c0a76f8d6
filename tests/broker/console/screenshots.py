"""Makes the pictures of the console that the documentation shows.

::

    python -m tests.broker.console.screenshots docs/broker

A broker of its own is under a little load for some minutes first, so that the charts have something to show.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.broker.console.chromium import chromium
from tests.broker.console.running import BrokerWithConsole
from twigcast.broker.model import SubscriptionState

SECONDS: Final = 310
"""How long the load goes on: as far back as the charts reach."""

A_SECOND: Final = 5

CAP: Final = "urn:oasis:names:tc:emergency:cap:1.2"
SEVERE: Final = "//cap:info[cap:severity='Severe']/cap:headline"
SUMS: Final = """for $lot in /lot group by $seller := $lot/@seller
return <sold by="{ $seller }">{ count($lot/bid), max($lot/bid) }</sold>"""
LOCAL: Final = """for $s in /story where $s/@section = 'local'
return <headline section="local">{ $s/head/title }{ $s//person }</headline>"""

SUBSCRIPTIONS: Final = {
    "flood-desk": f"//cap:info[cap:event='Flood'][cap:severity='Severe']|{CAP}",
    "front-page": "/story[@priority >= 4]/head/title",
    "harbour-master": f"//cap:info[contains(cap:headline, 'Harbour')]|{CAP}",
    "headlines": LOCAL,
    "high-bids": "/lot[bid > 900]",
    "people": "//person",
    "sport": "/story[@section = 'sport']",
}
PLACES: Final = ("Harbour district", "Saltmarsh", "Lower town", "Mill bridge")
EVENTS: Final = ("High wind", "Flood", "Fog", "Ice")
SECTIONS: Final = ("local", "sport", "world", "arts")
PEOPLE: Final = ("Ines Okafor", "Jonas Lind", "Mara Petrov", "Teo Brandt")


class Load:
    """Messages of three sources, the same for the same seed.

    Args:
        broker: Where they are published.
        seed: Of the choices.
    """

    def __init__(self, broker: BrokerWithConsole, seed: int = 7) -> None:
        self._broker = broker
        self._chance = random.Random(seed)
        self._number = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let messages come, and be fetched."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    def _go_on(self) -> None:
        while not self._over.wait(self._chance.expovariate(A_SECOND)):
            self.publish()
            if self._chance.random() < 0.3:
                self._fetch(self._chance.choice(list(SUBSCRIPTIONS)))

    def _fetch(self, key: str) -> None:
        result = self._broker.store.subscription(1, key)
        assert result is not None
        queue, broker = result.queue_id, self._broker
        deliveries = broker.do(broker.broker.pull(queue, limit=20, wait=0, visibility=60))
        broker.do(broker.broker.acknowledge(queue, [delivery.id for delivery in deliveries]))

    def publish(self) -> None:
        """Publish the next one."""
        self._number += 1
        name, source, body = self._chance.choice((self._alert, self._story, self._story, self._lot))()
        if self._chance.random() < 0.01:
            body = body[:-9]
        self._broker.publish(body.encode(), source=source, message_id=f"{name}-{self._number}")

    def _alert(self) -> tuple[str, str, str]:
        position, event = self._chance.choice(PLACES), self._chance.choice(EVENTS)
        severity = self._chance.choice(("Severe", "Moderate", "Minor"))
        headline = f"{event} warning for {position}"
        return (
            "coast",
            "coastwatch",
            f'<?xml version="1.0" encoding="UTF-8"?>\n<alert xmlns="{CAP}">\n  <identifier>coast-{self._number}'
            "</identifier>\n  <sender>warnings@coastwatch.example</sender>\n  <info>\n    <category>Met</category>\n"
            f"    <event>{event}</event>\n    <severity>{severity}</severity>\n    <headline>{headline}</headline>\n"
            f"    <area>\n      <areaDesc>{position}</areaDesc>\n    </area>\n  </info>\n</alert>\n",
        )

    def _story(self) -> tuple[str, str, str]:
        section, person = self._chance.choice(SECTIONS), self._chance.choice(PEOPLE)
        return (
            "story",
            "newsroom",
            f'<story section="{section}" priority="{self._chance.randrange(1, 6)}">\n  <head><title>{person} on the '
            f"{self._chance.choice(('new bridge', 'long winter', 'old mill', 'last match'))}</title></head>\n  <body>\n"
            f"    <p>Yesterday <person>{person}</person> spoke about it.</p>\n  </body>\n</story>\n",
        )

    def _lot(self) -> tuple[str, str, str]:
        bids = "".join(
            f"\n  <bid>{self._chance.randrange(1, 100) * 10}</bid>" for _ in range(self._chance.randrange(1, 5))
        )
        seller = self._chance.choice(PEOPLE).split()[1].lower()
        return "lot", "auctions", f'<lot seller="{seller}">\n  <title>Clock, brass, about 1890</title>{bids}\n</lot>\n'


def fill(broker: BrokerWithConsole, load: Load) -> None:
    """Subscriptions, and something that needs attention."""
    for key, text in SUBSCRIPTIONS.items():
        query, _, namespace = text.partition("|")
        broker.subscribe(key, query, namespaces={"cap": namespace} if namespace else {})
    broker.subscribe("sold", SUMS, dialect="xquery")
    pictures = broker.subscribe("captions", "//caption", subscriber="pictures")
    broker.do(broker.broker.set_state(pictures, SubscriptionState.PAUSED))
    archive = broker.webhook("archive", "/story", "https://archive.example/in")
    for _ in range(30):
        load.publish()
    reason = "attempt 8 failed: the host archive.example does not resolve"
    broker.dead_letter("archive", reason)
    broker.do(broker.broker.set_state(archive, SubscriptionState.SUSPENDED, reason))


@contextmanager
def signed_in(browser: Browser, broker: BrokerWithConsole, token: str, width: int, height: int) -> Iterator[Page]:
    """A page of the console of this size."""
    size: ViewportSize = {"width": width, "height": height}
    context = browser.new_context(viewport=size, color_scheme="light", reduced_motion="reduce")
    page = context.new_page()
    page.goto(broker.url)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    yield page
    context.close()


def workbench(broker: BrokerWithConsole, query: str, dialect: str) -> str:
    """The address of the workbench with a query."""
    more = {"namespaces": f"cap = {CAP}"} if "cap:" in query else {}
    return f"{broker.url}/console/workbench?{urlencode({'query': query, 'dialect': dialect, 'count': '50', **more})}"


def desktop(browser: Browser, broker: BrokerWithConsole, token: str, folder: Path) -> None:
    """The pictures of a wide window."""
    with signed_in(browser, broker, token, 1280, 1130) as page:
        page.wait_for_timeout(3_000)
        page.screenshot(path=folder / "console-overview.png")
    with signed_in(browser, broker, token, 1280, 1230) as page:
        for name, query, dialect in (
            ("console-workbench", SEVERE, "xpath"),
            ("console-xquery", SUMS, "xquery"),
        ):
            page.goto(workbench(broker, query, dialect))
            expect(page.get_by_role("heading", name="messages match").first).to_be_visible(timeout=30_000)
            page.screenshot(path=folder / f"{name}.png")
    with signed_in(browser, broker, token, 1280, 900) as page:
        page.goto(f"{broker.url}/console/subscriptions")
        page.get_by_role("link", name="headlines").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("headlines")
        page.screenshot(path=folder / "console-subscription.png")


def phone(browser: Browser, broker: BrokerWithConsole, token: str, folder: Path) -> None:
    """Three pages of a phone, side by side."""
    parts = []
    with signed_in(browser, broker, token, 360, 780) as page:
        page.wait_for_timeout(3_000)
        parts.append(page.screenshot())
        page.goto(workbench(broker, SEVERE, "xpath"))
        page.get_by_text("A query", exact=True).evaluate("(found) => found.parentElement.scrollIntoView()")
        parts.append(page.screenshot())
        page.goto(f"{broker.url}/console/subscriptions")
        parts.append(page.screenshot())
    # One after the other, with a gap, as one picture.
    page = browser.new_page(viewport={"width": 3 * 360 + 2 * 24, "height": 780})
    images = "".join(f'<img src="data:image/png;base64,{b64encode(part).decode()}">' for part in parts)
    page.set_content(f'<body style="margin: 0; display: flex; gap: 24px; background: #cad1dc">{images}</body>')
    page.screenshot(path=folder / "console-phone.png")


def main() -> None:
    """``python -m tests.broker.console.screenshots FOLDER [SECONDS]``."""
    folder, seconds = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    with tempfile.TemporaryDirectory() as store:
        broker = BrokerWithConsole(Path(store) / "store")
        try:
            load = Load(broker)
            fill(broker, load)
            token = broker.token(name="Ada's laptop")
            with load.running():
                time.sleep(seconds)
                with chromium() as browser:
                    desktop(browser, broker, token, folder)
                    phone(browser, broker, token, folder)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
