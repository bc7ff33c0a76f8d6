"""Stored values of others are only ever text in a page: bodies, keys, queries, names, ids, reasons, namespaces."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from tests.broker.console.conftest import Party
from tests.broker.console.running import Page
from twigcast.broker.console.pages import HEADERS
from twigcast.broker.model import Source
from twigcast.broker.sources.reports import PollReport, Refusal

EVIL = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>&amp;</textarea></title></pre>{{7*7}}"
BIDI = "\u202egpj.exe"

PAGES = [
    "/",
    "/console/messages",
    "/console/messages?source={evil}",
    "/console/messages/one?seq={seq}",
    "/console/messages/one?seq={seq}&key={evil}",
    "/console/messages/one?seq={seq}&key=nothing{evil}",
    "/console/messages/find?id={evil}",
    "/console/subscriptions",
    "/console/subscriptions?search={evil}",
    "/console/subscriptions?state={evil}",
    "/console/subscriptions/one?key={evil}",
    "/console/subscriptions/one?key=no{evil}",
    "/console/subscriptions/edit?key={evil}",
    "/console/subscriptions/new?key={evil}&query={evil}&namespaces={evil}&kind={evil}&url={evil}",
    "/console/workbench?query={evil}",
    "/console/workbench?query=//a&namespaces={evil}",
    "/console/workbench?query=//a&message={seq}&count=50",
    "/console/workbench?query=string(//b)='{evil}'&message={seq}",
    "/console/workbench?key={evil}&message={seq}",
    "/console/workbench?query=for $a in //a return <r>{{ $a/b }}</r>",
    "/console/workbench?query=//a&when={evil}",
    '/console/workbench?query=//a&message={seq}&when={{"changed": "//b", "by": "/*"}}',
    '/console/workbench?query=//a&message={seq}&when={{"throttle": "1 s", "by": "//b"}}',
    "/console/sources",
    "/console/consumers",
    "/console/consumers?subscriber={evil}",
    "/console/sources/one?name={evil}",
    "/console/dead-letters",
    "/console/dead-letters?key={evil}",
    "/console/dead-letters/one?id={letter}",
    "/console/rejected",
    "/console/rejected/one?id={rejected}",
    "/console/tokens",
    "/console/sign-in?next={evil}",
]


@pytest.fixture
def addresses(party: Party) -> list[str]:
    """Pages full of hostile values."""
    broker = party.broker
    query = f'//a[b != "{EVIL.replace(chr(34), "")}"]'
    broker.subscribe(EVIL, query, tenant_id=party.tenant_id, namespaces={"p": EVIL})
    broker.webhook(f"hook {EVIL}", "//a", f"http://x.example/?{quote(EVIL)}", tenant_id=party.tenant_id)
    value = EVIL.replace("&amp;", "").replace("<", "&lt;").replace(chr(34), "")
    body = f'<a t="{value}">{BIDI}<b><![CDATA[{EVIL}]]></b></a>'
    seq = party.publish(body.encode(), source=EVIL, message_id=EVIL)[0]
    (letter,) = broker.dead_letter(f"hook {EVIL}", EVIL, tenant_id=party.tenant_id)
    (rejected,) = party.publish(f"<a>{EVIL}".encode(), source=EVIL, message_id=f"{EVIL}2")
    tenant_id = party.tenant_id

    def put(transaction: object) -> object:
        url = f"http://x.example/{EVIL}"
        source = Source(0, tenant_id, EVIL, "rss", url, 60, EVIL, follow=[EVIL], follow_hosts=[EVIL])
        return transaction.put_source(source)  # type: ignore[attr-defined]

    source = broker.do(broker.broker.change(put))
    report = PollReport(1.0, warnings=[EVIL], error=EVIL, refused=[Refusal(EVIL, EVIL, 1, 2)], refused_count=1)
    state = {
        "last_error": EVIL,
        "failures": 3,
        "warnings": [EVIL],
        "reports": [report.as_dict() | {"skipped": {EVIL: 1}}],
    }
    broker.do(broker.broker.change(lambda t: t.set_source_state(source.id, state)))  # type: ignore[attr-defined]
    broker.token(tenant_id=party.tenant_id, name=EVIL)
    return [
        address.format(evil=quote(EVIL, safe=""), seq=seq, letter=letter, rejected=rejected).replace(" ", "%20")
        for address in PAGES
    ]


def _check(page: Page, address: str) -> None:
    assert page.status in (200, 404, 422), (address, page.status, page.text[:300])
    tree = page.tree
    assert not tree.xpath("//img[not(@src) or not(starts-with(@src, '/console/static/'))]"), address
    for script in tree.xpath("//script"):
        assert script.get("type") == "application/json" or script.get("src", "").startswith("/console/static/"), address
        assert script.get("type") == "application/json" or not (script.text or "").strip(), address
    handlers = [name for element in tree.iter() for name in getattr(element, "attrib", {}) if name.startswith("on")]
    assert not handlers, (address, handlers)
    assert not tree.xpath("//@style"), address
    assert "49" not in re.findall(r"\{\{7\*7\}\}|49\b(?=</textarea)", page.text), address
    for link in tree.xpath("//@href | //@src | //@action | //@formaction"):
        assert re.match(r"/(?!/)|#", link), (address, link)


def test_hostile_values_are_only_text(party: Party, addresses: list[str]) -> None:
    for address in addresses:
        page = party.person.get(address)
        _check(page, address)
        for name, value in HEADERS.items():
            assert page.response.headers[name] == value, (address, name)


def test_what_is_shown_is_what_was_sent(party: Party, addresses: list[str]) -> None:
    folded = re.sub(r"\s+", " ", EVIL)
    for address in addresses:
        if "sign-in" in address or "for%20$a" in address or "id=" in address or address == "/":
            continue
        page = party.person.get(address)
        values = " ".join(page.tree.xpath("//input/@value"))
        assert folded[:28] in page.words or folded[:28] in values, address


def test_characters_that_turn_the_text_around_are_made_visible(party: Party, addresses: list[str]) -> None:
    (address,) = [a for a in addresses if "messages/one" in a and "key" not in a]
    page = party.person.get(address)
    assert "\u202e" not in page.text
    assert page.all("//span[@class='x-unseen'][.='U+202E']")


def test_live_updates_are_escaped_too(party: Party, addresses: list[str]) -> None:
    answer = party.person.get("/console/live?sample=0&message=0").response.json()
    assert "<script>" not in answer["rows"]
    assert "&lt;script&gt;" in answer["rows"]


def test_downloads_are_never_shown_in_the_browser(party: Party) -> None:
    seq = party.publish(b"<a/>", message_id=EVIL)[0]
    (rejected,) = party.publish(b"<html><script>alert(1)</script>", message_id=f"{EVIL}3")
    for address in (f"/console/messages/download?seq={seq}", f"/console/rejected/download?id={rejected}"):
        response = party.person.get(address).response
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.headers["content-disposition"].startswith("attachment")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in response.headers["content-security-policy"]
    assert response.content == b"<html><script>alert(1)</script>"
