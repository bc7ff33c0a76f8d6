"""The console in a real browser: scripts, live updates, keyboard, narrow screens, both colour schemes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.broker.console.chromium import DESKTOP, PHONE, Watched, chromium
from tests.broker.console.running import BrokerWithConsole
from twigcast.broker.lookup_tables import LookupSettings, read_table, stored_form
from twigcast.broker.model import Scope, Source, SubscriptionState
from twigcast.broker.sources.reports import PollReport, Refusal

ALERT = "<alert><area>harbour</area><severity>high</severity></alert>"
CALM = "<alert><area>inland</area><severity>low</severity></alert>"
LONG = "W" * 300


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as result:
        yield result


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerWithConsole]:
    result = BrokerWithConsole(tmp_path_factory.mktemp("browser") / "store")
    yield result
    result.stop()


def _enter(
    browser: Browser, broker: BrokerWithConsole, token: str, *, phone: bool = False, dark: bool = False
) -> Watched:
    context = browser.new_context(
        viewport=PHONE if phone else DESKTOP,  # type: ignore[arg-type]  # a TypedDict
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    watched = Watched(context)
    watched.page.goto(broker.url)
    watched.page.get_by_label("Token").fill(token)
    watched.page.get_by_role("button", name="Sign in").click()
    expect(watched.page.get_by_role("heading", level=1)).to_have_text("Overview")
    return watched


@pytest.fixture
def watched(browser: Browser, broker: BrokerWithConsole) -> Iterator[Watched]:
    """A desktop, signed in to a tenant of its own; nothing may go wrong on any page."""
    tenant_id = broker.tenant(f"tenant {len(broker.store.tenants())}")
    token = broker.token(tenant_id=tenant_id)
    result = _enter(browser, broker, token)
    result.tenant_id = tenant_id  # type: ignore[attr-defined]
    result.token = token  # type: ignore[attr-defined]
    yield result
    assert result.complaints == []
    result.page.context.close()


def _publish(broker: BrokerWithConsole, watched: Watched, body: str, message_id: str) -> None:
    """Publish through the API."""
    response = httpx2.post(
        f"{broker.url}/messages?id={message_id}&source=desk",
        content=body,
        headers={"authorization": f"Bearer {watched.token}", "content-type": "application/xml"},  # type: ignore[attr-defined]
    )
    assert response.status_code in (200, 201, 202), response.text


def test_what_is_published_appears_live(broker: BrokerWithConsole, watched: Watched) -> None:
    page = watched.page
    expect(page.get_by_text("Three steps to the first delivery")).to_be_visible()
    _publish(broker, watched, ALERT, "first")
    expect(page.get_by_role("link", name="first")).to_be_visible()
    _publish(broker, watched, "<img src='x' onerror='alert(1)'/>", "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    expect(page.get_by_role("link", name="<img src=x onerror=alert(1)>")).to_be_visible()
    expect(page.locator("[data-total=messages]")).to_have_text("2", timeout=10_000)
    # The charts are drawn, and their text alternative tells the latest values.
    expect(page.locator(".plot svg path.line").first).to_be_attached()
    expect(page.locator(".plot").first).to_have_attribute("aria-label", "Messages a second: accepted 0, rejected 0")
    watched.turn_to("Messages")
    _publish(broker, watched, CALM, "third")
    expect(page.get_by_role("row").nth(1)).to_contain_text("third")


def test_a_query_is_checked_tried_and_subscribed(broker: BrokerWithConsole, watched: Watched) -> None:
    _publish(broker, watched, ALERT, "high-one")
    _publish(broker, watched, CALM, "low-one")
    page = watched.page
    watched.turn_to("Workbench")
    page.get_by_label("Query", exact=True).press_sequentially("//alert[severity = 'hi", delay=5)
    expect(page.locator("#verdict")).to_contain_text("Column")
    mark = page.locator("#verdict .caret-line").inner_text().splitlines()
    assert mark[0].strip() == "//alert[severity = 'hi"
    assert "^" in mark[1]
    page.get_by_label("Query", exact=True).press_sequentially("gh']/area", delay=5)
    expect(page.get_by_role("heading", name="1 of 2 messages matches")).to_be_visible()
    assert page.locator(".xml mark").all_inner_texts() == ["<", "area", ">", "harbour", "</", "area", ">"]
    page.get_by_role("link", name="low-one").first.click()
    expect(page.get_by_role("heading", name="Does not match low-one")).to_be_visible()
    expect(page.locator(".explanation")).to_contain_text('severity is "low"')
    assert "query=" in page.url
    page.reload()
    expect(page.get_by_role("heading", name="Does not match low-one")).to_be_visible()

    page.get_by_role("button", name="Subscribe…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("New subscription")
    expect(page.get_by_label("Address of the webhook")).to_be_hidden()
    page.get_by_label("Posted to a webhook").check()
    expect(page.get_by_label("Address of the webhook")).to_be_visible()
    page.get_by_label("Fetched by the subscriber").check()
    page.get_by_label("Key").fill("from the bench")
    page.get_by_role("button", name="Subscribe", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Subscribed as from the bench")
    _publish(broker, watched, ALERT, "high-two")
    page.reload()
    expect(page.get_by_role("link", name="high-two")).to_be_visible()


def test_a_rewritten_result_is_shown_as_it_is_typed(broker: BrokerWithConsole, watched: Watched) -> None:
    _publish(broker, watched, ALERT, "only")
    page = watched.page
    page.goto(f"{broker.url}/console/workbench")
    page.get_by_label("Query", exact=True).fill("for $a in //alert return <place>{ $a/area/text() }</place>")
    expect(page.get_by_role("group", name="The result")).to_contain_text("<place>harbour</place>")


def test_a_dead_letter_is_retried(broker: BrokerWithConsole, watched: Watched) -> None:
    tenant_id: int = watched.tenant_id  # type: ignore[attr-defined]
    broker.webhook("hook", "//alert", "http://127.0.0.1:9/", tenant_id=tenant_id)
    redriven = broker.redriven()
    broker.publish(ALERT.encode(), CALM.encode(), tenant_id=tenant_id)
    broker.dead_letter("hook", "it answered 500", tenant_id=tenant_id)
    page = watched.page
    watched.turn_to("Dead letters")
    expect(page.get_by_role("row")).to_have_count(3)
    page.get_by_role("button", name="Retry").first.click()
    expect(page.get_by_role("status")).to_contain_text("1 delivery is tried again")
    expect(page.get_by_role("row")).to_have_count(2)
    assert [d.key for d in redriven] == ["hook"]
    # Removing is asked about; Escape takes the question back.
    page.locator("summary", has_text="Remove").click()
    expect(page.get_by_role("button", name="Remove it")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Remove it")).to_be_hidden()
    page.locator("summary", has_text="Remove").click()
    page.get_by_role("button", name="Remove it").click()
    expect(page.get_by_text("Every delivery has reached its subscriber")).to_be_visible()


def test_the_keyboard_reaches_everything(watched: Watched) -> None:
    page = watched.page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for _ in range(40):
        page.keyboard.press("Tab")
        outline = page.evaluate(
            "document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle"
        )
        assert outline is True or outline != "none"


def test_a_session_that_ended_leads_to_the_door(broker: BrokerWithConsole, watched: Watched) -> None:
    page = watched.page
    page.context.clear_cookies()
    expect(page.get_by_role("heading", name="Sign in to the console")).to_be_visible()
    # The browser reports the refused poll; that is what it is.
    watched.complaints[:] = [c for c in watched.complaints if "401" not in c]


PAGES = [
    "/",
    "/console/messages",
    "/console/messages/one?seq={seq}&key=a%20" + LONG,
    "/console/subscriptions",
    "/console/subscriptions/one?key=a%20" + LONG,
    "/console/subscriptions/new",
    "/console/consumers",
    "/console/consumers?subscriber=a%20" + LONG,
    "/console/workbench?query=//area&message={seq}",
    "/console/workbench?query=//area[" + LONG,
    "/console/sources",
    "/console/sources/one?name=" + LONG,
    "/console/tables",
    "/console/tables/one?name=" + LONG,
    "/console/dead-letters",
    "/console/dead-letters/one?id={letter}",
    "/console/rejected",
    "/console/rejected/one?id={rejected}",
    "/console/rejected/one?id={binary}",
    "/console/tokens",
    "/console/tenants",
    "/docs",
]


@pytest.mark.parametrize(("phone", "dark"), [(True, False), (False, True)])
def test_every_page_fits_and_is_legible(browser: Browser, broker: BrokerWithConsole, phone: bool, dark: bool) -> None:
    positions = _long_things(broker)
    watched = _enter(browser, broker, broker.token(name=LONG), phone=phone, dark=dark)
    page = watched.page
    for address in PAGES:
        page.goto(broker.url + address.format(**positions))
        assert watched.overflow() == [], address
        assert page.evaluate(CONTRAST) == [], address
    if phone:
        page.goto(broker.url)
        menu = page.get_by_role("button", name="Menu")
        expect(menu).to_have_attribute("aria-expanded", "false")
        expect(page.get_by_role("link", name="Tenants")).to_be_hidden()
        menu.click()
        page.get_by_role("link", name="Tenants").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Tenants")
    assert watched.complaints == []
    page.context.close()


CONTRAST = """() => {
  // Text against what is behind it, as WCAG 2 counts (4.5 : 1, or 3 : 1 for large text).
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (color) => {
    probe.clearRect(0, 0, 1, 1); probe.fillStyle = color; probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data];
  };
  const lightness = ([r, g, b]) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [x, y, z] = [r, g, b].map((v) => linear(v / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = read(getComputedStyle(e).backgroundColor);
      if (color[3] > 250) return color;
    }
    return read(matchMedia("(prefers-color-scheme: dark)").matches ? "#000" : "#fff");
  };
  const bad = new Set();
  for (const element of document.querySelectorAll("main *, nav *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest(".visually-hidden, svg")) continue;
    const style = getComputedStyle(element);
    const [a, b] = [lightness(read(style.color)), lightness(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.7 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.add(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return [...bad];
}"""


def _long_things(broker: BrokerWithConsole) -> dict[str, int]:
    """Values without a place to break a line at."""
    if broker.store.subscription(1, f"a {LONG}") is None:
        broker.subscribe(f"a {LONG}", f"/alert/area[. = '{LONG}']", namespaces={"p": LONG})
        broker.webhook(f"b {LONG}", "//area", f"http://x.example/{LONG}")
        body = f"<alert><area {LONG.lower()}='{LONG}'>{LONG}</area><{LONG}/></alert>".encode()
        broker.publish(body, source=LONG, message_id=LONG)
        broker.dead_letter(f"b {LONG}", LONG)
        broker.publish(b"<a>" + LONG.encode() + b"</b>", bytes(range(256)), source=LONG)
        existing = broker.store.subscription(1, f"b {LONG}")
        assert existing is not None
        broker.do(broker.broker.set_state(existing, SubscriptionState.SUSPENDED, LONG))
        feed = Source(0, 1, LONG, "atom", f"http://x.example/{LONG}", follow=[LONG], follow_hosts=[LONG])
        table = read_table(f"{LONG},b\n{LONG},{LONG}\n".encode(), "csv")
        broker.do(
            broker.broker.change(
                lambda transaction: transaction.put_lookup_table(
                    1, LONG, table, stored_form(table), at=1.0, tables_max=9
                )
            )
        )
        lookup = {"table": LONG, "key": f"//{LONG}", "element": "row"}
        feed = replace(feed, lookups=[asdict(LookupSettings.of(lookup))])
        source = broker.do(broker.broker.change(lambda transaction: transaction.put_source(feed)))
        report = PollReport(1.0, took=3, refused=[Refusal(LONG, LONG, 1, 2)], refused_count=30, warnings=[LONG])
        report.skipped[LONG] = 7
        names = frozenset({LONG})
        broker.do(
            broker.broker.change(
                lambda transaction: transaction.add_token(
                    *(1, LONG, frozenset(Scope), b"a digest"),
                    at=1.0,
                    sources=names,
                    subscribers=names,
                    certificates=frozenset({"a1" * 32, "b2" * 32}),
                )
            )
        )
        state = {"last_poll": 1.0, "last_error": LONG, "warnings": [LONG], "reports": [report.as_dict()]}
        broker.do(broker.broker.change(lambda transaction: transaction.set_source_state(source.id, state)))
    rejected = [one.id for one in broker.store.rejected(1, limit=2)]
    return {
        "seq": broker.store.messages(1, limit=1)[0].seq,
        "letter": broker.store.dead_letters(1, limit=1)[0].id,
        "rejected": min(rejected),
        "binary": max(rejected),
    }
