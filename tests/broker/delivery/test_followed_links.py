"""Links of feeds to full documents: followed where the source says so, and no further than it says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.broker.delivery.conftest import OpenBroker, both_stores
from tests.broker.delivery.feed_site import ids, polled, register, rejected, reports, state, stored
from tests.broker.delivery.pushing import quick, running, subscribe, until
from tests.broker.delivery.receiver import Got, Receiver, Reply
from twigcast.broker.broker import Broker
from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.errors import UrlRefused
from twigcast.broker.sources import poll as polling
from twigcast.broker.sources.entries import EntryLink, read_feed
from twigcast.broker.sources.links import LinkPolicy, document_id, link_to_follow
from twigcast.broker.sources.poll import PollLimits

pytestmark = pytest.mark.anyio

CAP = "application/cap+xml"
ALERT = "urn:oasis:names:tc:emergency:cap:1.2"


@pytest.fixture(autouse=True)
def _attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "_CHECK_SECONDS", 0.05)


def alert(identifier: str, sent: str = "2026-11-01T10:00:00+00:00", event: str = "Flood") -> bytes:
    return (
        f"<alert xmlns='{ALERT}'><identifier>{identifier}</identifier><sender>w@x.example</sender><sent>{sent}</sent>"
        f"<info><event>{event}</event></info></alert>"
    ).encode()


def entry(name: str, href: str, updated: str = "2026-11-01T10:00:00Z", kind: str = CAP) -> str:
    link = f"<link type='{kind}' href='{href}'/>" if href else ""
    return f"<entry><id>{name}</id><title>t</title><updated>{updated}</updated>{link}</entry>"


@dataclass
class Hub:
    """A server of an index and the alerts that it names."""

    entries: list[str] = field(default_factory=list)
    alerts: dict[str, bytes] = field(default_factory=dict)
    replies: dict[str, Reply] = field(default_factory=dict)
    head: str = ""
    server: Receiver = field(init=False)

    def __post_init__(self) -> None:
        self.server = Receiver(self.reply)

    def reply(self, got: Got) -> Reply:
        if got.path == "/index":
            feed = f"<feed xmlns='http://www.w3.org/2005/Atom' {self.head}>{''.join(self.entries)}</feed>"
            tag = f'"{hash(feed)}"'
            if got.headers.get("if-none-match") == tag:
                return Reply(304)
            return Reply(200, {"ETag": tag}, feed.encode())
        if got.path in self.replies:
            return self.replies[got.path]
        return Reply(200, {"Content-Type": CAP}, self.alerts[got.path]) if got.path in self.alerts else Reply(404)

    def fetched(self) -> Counter[str]:
        return Counter(got.path for got in self.server.got if got.path != "/index")

    async def register(self, broker: Broker, **more: Any) -> None:
        await register(broker, f"{self.server.url}/index", "atom", **{"follow": [CAP], **more})


@both_stores
async def test_n20_the_alerts_behind_an_index_are_published_once(open_broker: OpenBroker) -> None:
    broker = await open_broker()
    hub = Hub([entry("e2", "a/2"), entry("e1b", "/a/1"), entry("e1", "/a/1")], {"/a/1": alert("1"), "/a/2": alert("2")})
    async with hub.server:
        async with running(broker):
            subscription = await subscribe(broker, "k", None, "//*[local-name() = 'event'][. = 'Flood']")
            await hub.register(broker)
            await until(lambda: len(ids(broker)) == 2)
            await polled(broker)
            assert ids(broker) == [f"w@x.example,{n},2026-11-01T10:00:00+00:00" for n in "12"]
            assert stored(broker)[0].xml == alert("1")
            assert broker.store.pending_count(subscription.queue_id) == 2
        broker = await open_broker()
        async with running(broker):
            hub.entries.insert(0, entry("e3", "/a/3"))
            hub.alerts["/a/3"] = alert("3")
            await until(lambda: len(ids(broker)) == 3)
            await polled(broker)
            assert hub.fetched() == {"/a/1": 1, "/a/2": 1, "/a/3": 1}


async def test_without_the_setting_the_entries_are_published(broker: Broker) -> None:
    hub = Hub([entry("e1", "/a/1")], {"/a/1": alert("1")})
    async with hub.server, running(broker):
        await hub.register(broker, follow=[])
        await until(lambda: ids(broker) == ["e1"])
        assert not hub.fetched()
        await hub.register(broker)
        await until(lambda: len(ids(broker)) == 2)
        assert stored(broker)[1].xml == alert("1"), "and from then on the documents, also of entries that are known"


async def test_an_entry_without_such_a_link_is_published_itself(broker: Broker) -> None:
    hub = Hub([entry("none", ""), entry("page", "/a/1", kind="text/html")])
    async with hub.server, running(broker):
        await hub.register(broker)
        await until(lambda: ids(broker) == ["page", "none"])
        assert not hub.fetched()


async def test_updated_entries_bring_their_documents_again_where_the_source_is_set_so(broker: Broker) -> None:
    hub = Hub([entry("e1", "/a/1")], {"/a/1": alert("1")})
    async with hub.server, running(broker):
        await hub.register(broker, updates="updated")
        await until(lambda: len(ids(broker)) == 1)
        hub.entries = [entry("e1", "/a/1", "2026-11-01T11:00:00Z")]
        await until(lambda: hub.fetched()["/a/1"] == 2)
        await polled(broker)
        assert len(ids(broker)) == 1, "the same document is no update"
        hub.alerts["/a/1"] = alert("1", event="Fire")
        hub.entries = [entry("e1", "/a/1", "2026-11-01T12:00:00Z")]
        await until(lambda: len(ids(broker)) == 2)
        assert stored(broker)[1].xml == alert("1", event="Fire")
        hub.alerts["/a/1"] = alert("1", sent="2026-11-01T13:00:00+00:00")
        hub.entries = [entry("e1", "/a/1", "2026-11-01T13:00:00Z")]
        await until(lambda: len(ids(broker)) == 3)
        assert ids(broker)[2] == "w@x.example,1,2026-11-01T13:00:00+00:00"
        await polled(broker)
        assert sum(report["updated"] for report in reports(broker)) == 2


async def test_a_document_that_fails_is_tried_again_and_given_up(broker: Broker) -> None:
    hub = Hub([entry("e3", "/a/3"), entry("e2", "/a/2"), entry("e1", "/a/1")], {"/a/1": alert("1"), "/a/3": alert("3")})
    async with hub.server, running(broker):
        await hub.register(broker)
        await until(lambda: len(ids(broker)) == 2)
        await until(lambda: hub.fetched()["/a/2"] >= 2)
        assert (await polled(broker))["last_error"] is None, "the source itself is well"
        assert "404 (attempt 1)" in reports(broker)[-1]["refused"][0]["reason"]
        await until(lambda: hub.fetched()["/a/2"] == 5)
        await polled(broker)
        await polled(broker)
        assert hub.fetched()["/a/2"] == 5
        assert hub.fetched()["/a/1"] == 1
        assert "if-none-match" in hub.server.got[-1].headers


async def test_documents_of_a_server_that_is_away_are_asked_for_until_they_come(broker: Broker) -> None:
    settings = quick()
    settings = replace(settings, polls=replace(settings.polls, limits=PollLimits(links_max=2)))
    away = {f"/a/{n}": Reply(503) for n in "123"}
    hub = Hub([entry(n, f"/a/{n}") for n in "54321"], {f"/a/{n}": alert(n) for n in "12345"}, away)
    async with hub.server, running(broker, settings):
        await hub.register(broker)
        await until(lambda: [name[:13] for name in ids(broker)] == [f"w@x.example,{n}" for n in "45"])
        await until(lambda: sum(hub.fetched().values()) >= 20)
        hub.replies.clear()
        await until(lambda: len(ids(broker)) == 5)


async def test_a_document_that_comes_later_is_published(broker: Broker) -> None:
    hub = Hub([entry("e1", "/a/1")])
    async with hub.server, running(broker):
        await hub.register(broker)
        await until(lambda: hub.fetched()["/a/1"] == 2)
        hub.alerts["/a/1"] = alert("1")
        await until(lambda: len(ids(broker)) == 1)
        await polled(broker)
        assert not state(broker)["links"]


async def test_what_is_no_xml_behind_a_link_is_rejected_with_its_reason(broker: Broker) -> None:
    hub = Hub([entry("e1", "/a/1")], {"/a/1": b"<p>sorry<br></p>"})
    async with hub.server, running(broker):
        await hub.register(broker)
        await until(lambda: len(rejected(broker)) == 1)
        await polled(broker)
        assert (len(rejected(broker)), hub.fetched()["/a/1"]) == (1, 1)
        assert reports(broker)[-1]["refused"][0]["id"] == f"{hub.server.url}/a/1"


@pytest.mark.parametrize(
    ("href", "reason"),
    [
        ("file:///etc/passwd", "only http:// and https://"),
        ("ftp://127.0.0.1/x", "only http:// and https://"),
        ("http://user:pw@127.0.0.1/", "credentials"),
        ("http://169.254.169.254/latest/meta-data", "not the host of the feed"),
        ("http://127.0.0.1:1/", "not the host of the feed"),
        ("//localhost/x", "not the host of the feed"),
        ("http://2130706433/", "unusual form"),
        ("/to-elsewhere", "not the host of the feed"),
    ],
)
async def test_links_elsewhere_are_refused_and_told(broker: Broker, href: str, reason: str) -> None:
    elsewhere = Reply(302, {"Location": "http://127.0.0.2:1/alert"})
    hub = Hub([entry("e2", href), entry("e1", "/a/1")], {"/a/1": alert("1")}, {"/to-elsewhere": elsewhere})
    async with hub.server, running(broker):
        await hub.register(broker)
        await until(lambda: len(ids(broker)) == 1)
        now = await polled(broker)
        assert now["last_error"] is None
        (refusal,) = reports(broker)[-1]["refused"]
        assert reason in refusal["reason"]


async def test_inner_addresses_stay_closed_whatever_hosts_are_named(broker: Broker) -> None:
    async with Receiver(lambda got: Reply(200, {}, alert("1"))) as inner:
        hub = Hub()
        async with hub.server, running(broker, quick(policy=UrlPolicy.of(permitted=["127.0.0.1"]))):
            hub.entries = [entry("e1", f"http://127.0.0.2:{inner.port}/"), entry("e0", "http://[::1]/")]
            await hub.register(broker, follow_hosts=["*"])
            await until(lambda: bool(reports(broker)) and reports(broker)[-1]["refused_count"] == 2)
            assert all("public" in refusal["reason"] for refusal in reports(broker)[-1]["refused"])
            assert inner.got == []


async def test_hosts_that_the_source_names_are_asked(broker: Broker) -> None:
    async with Receiver(lambda got: Reply(200, {}, alert("1"))) as other:
        hub = Hub()
        async with hub.server, running(broker):
            hub.entries = [entry("e1", f"{other.url}/a")]
            await hub.register(broker)
            await until(lambda: bool(reports(broker)))
            assert other.got == []
            await hub.register(broker, follow_hosts=[f"127.0.0.1:{other.port}"])
            await until(lambda: len(ids(broker)) == 1)


async def test_a_poll_follows_only_so_many_links_and_the_next_goes_on(broker: Broker) -> None:
    settings = quick()
    settings = replace(settings, polls=replace(settings.polls, limits=PollLimits(links_max=3)))
    names = [str(number) for number in range(10)]
    hub = Hub([entry(name, f"/a/{name}") for name in names], {f"/a/{name}": alert(name) for name in names})
    async with hub.server, running(broker, settings):
        await hub.register(broker, interval=3_600.0)
        await until(lambda: len(ids(broker)) == 10)
        await until(lambda: sum(report["took"] for report in reports(broker)) == 10)
        assert max(report["took"] for report in reports(broker)) == 3
        assert set(hub.fetched().values()) == {1}


async def test_time_for_links_that_is_over_ends_no_source(broker: Broker) -> None:
    settings = quick()
    settings = replace(settings, polls=replace(settings.polls, limits=PollLimits(links_seconds_max=0.0)))
    hub = Hub([entry("e1", "/a/1")], {"/a/1": alert("1")})
    async with hub.server, running(broker, settings):
        await hub.register(broker)
        await until(lambda: len(reports(broker)) > 0)
        await polled(broker)
        assert len(hub.server.got) < 100, "it is no loop without pauses"
        assert "if-none-match" not in hub.server.got[-1].headers, "the feed is not done with"


async def test_documents_over_the_limit_are_refused(broker: Broker) -> None:
    settings = quick()
    settings = replace(settings, polls=replace(settings.polls, limits=PollLimits(100_000, 1_000)))
    hub = Hub([entry("e1", "/a/1")], {"/a/1": alert("1", event="x" * 2_000)})
    async with hub.server, running(broker, settings):
        await hub.register(broker)
        await until(lambda: bool(reports(broker)))
        assert "longer than 1,000 bytes" in reports(broker)[-1]["refused"][0]["reason"]


async def test_links_are_relative_to_the_base_of_the_feed(broker: Broker) -> None:
    hub = Hub([entry("e1", "1")], {"/deep/er/1": alert("1")}, head="xml:base='/deep/er/'")
    async with hub.server, running(broker):
        await hub.register(broker)
        await until(lambda: len(ids(broker)) == 1)


async def test_enclosures_and_plain_links_of_rss(broker: Broker) -> None:
    feed = (
        b"<rss><channel><item><guid>1</guid><link>http://x.example/a b?q=\xc3\xa9#f</link>"
        b"<enclosure url='/e' type='application/cap+xml' length='1'/></item></channel></rss>"
    )
    (one,) = read_feed(feed, entry_bytes_max=1 << 20).entries
    url = "http://x.example/feed"
    chosen = {pattern: link_to_follow(one, [pattern]) for pattern in (CAP, "*/*", "application/*", "text/xml")}
    resolved = {pattern: link.resolved(url) for pattern, link in chosen.items() if link}
    assert resolved == {
        CAP: "http://x.example/e",
        "application/*": "http://x.example/e",
        "*/*": "http://x.example/a%20b?q=%C3%A9",
    }
    assert EntryLink("http://[bad").resolved(url) is None


@pytest.mark.parametrize(
    ("url", "permitted"),
    [
        ("https://x.example/a", True),
        ("http://x.example/a", True),
        ("http://x.example:8443/a", True),
        ("http://x.example:22/a", False),
        ("http://y.example/", True),
        ("http://y.example:99/", True),
        ("http://z.example/", False),
        ("http://z.example:81/", True),
        ("http://a.w.example/", True),
        ("http://w.example.evil/", False),
    ],
)
async def test_where_links_may_lead(url: str, permitted: bool) -> None:
    policy = LinkPolicy(("https://x.example:8443/feed",), ["y.example", "z.example:81", "*.w.example"])
    if permitted:
        policy.check(url)
    else:
        with pytest.raises(UrlRefused):
            policy.check(url)


async def test_the_id_of_a_document() -> None:
    url = "http://x.example/a"
    assert document_id(alert("7"), url) == "w@x.example,7,2026-11-01T10:00:00+00:00"
    assert document_id(b"<alert><identifier>7</identifier></alert>", url) == url
    assert document_id(b"<a><sender>1</sender><identifier>7</identifier><sent>2</sent></a>", url) == url
    assert document_id(b"<a", url) == url
