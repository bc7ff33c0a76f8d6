"""Polling real servers: what is new is published once, whatever happens in between."""

from __future__ import annotations

import asyncio
import gzip
import random
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.broker.delivery.conftest import OpenBroker, both_stores
from tests.broker.delivery.feed_site import Site, ids, register, rounds, rss, source, state, stored
from tests.broker.delivery.http_face import client_of
from tests.broker.delivery.pushing import TENANT, quick, running, subscribe, until
from tests.broker.delivery.receiver import HANG, Got, Receiver, Reply
from tests.seeds import printed_seed
from twigcast.broker.broker import Broker
from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.delivery.http_client import Timeouts
from twigcast.broker.model import Source
from twigcast.broker.sources import poll as polling
from twigcast.broker.sources.poll import PollLimits, PollSettings

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that are registered are seen soon; the API tells at once, these tests do not."""
    monkeypatch.setattr(polling, "_CHECK_SECONDS", 0.05)


async def test_new_entries_are_published_once_oldest_first(broker: Broker) -> None:
    site = Site(rss("2", "1"))
    async with site.server, running(broker):
        subscription = await subscribe(broker, "k", None, "/item[title = '3']")
        await register(broker, site.server.url)
        await until(lambda: len(ids(broker)) == 2)
        assert ids(broker) == ["1", "2"]
        assert stored(broker)[0].source == "feed"
        assert stored(broker)[0].xml == b"<item><guid>1</guid><title>1</title></item>"
        await rounds(site)
        assert "if-none-match" in site.server.got[-1].headers
        assert site.server.got[-1].headers["accept-encoding"] == "gzip"
        site.body = rss("3", "2", "1")
        await until(lambda: len(ids(broker)) == 3)
        await until(lambda: broker.store.pending_count(subscription.queue_id) == 1)
        site.body = rss("4")
        await until(lambda: len(ids(broker)) == 4)
        site.body = rss("4", "3", "2", "1")
        await rounds(site, 3)
        assert ids(broker) == ["1", "2", "3", "4"], "entries that return are known"
        await until(lambda: state(broker).get("last_error") is None)
        assert state(broker)["last_success"]


async def test_entries_that_return_are_known_when_their_messages_have_expired(broker: Broker) -> None:
    site = Site(rss("1"))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["1"])
        site.body = rss()
        await rounds(site, 3)
        await broker.change(lambda t: t.expire(before=time.time() + 1, bytes_max=None, limit=100, at=time.time()))
        assert ids(broker) == []
        site.body = rss("1")
        await rounds(site, 3)
        assert ids(broker) == []


@both_stores
async def test_a_restart_publishes_nothing_twice(open_broker: OpenBroker) -> None:
    site = Site(rss("2", "1"), validates=False)
    async with site.server:
        broker = await open_broker()
        async with running(broker):
            await register(broker, site.server.url)
            await until(lambda: len(ids(broker)) == 2)
        broker = await open_broker()
        # As after a kill between publishing and remembering:
        await broker.change(lambda t: t.set_source_state(source(broker).id, {}))
        site.body = rss("3", "2", "1")
        async with running(broker):
            await until(lambda: len(ids(broker)) == 3)
            await rounds(site)
        assert ids(broker) == ["1", "2", "3"]


async def test_gzip_redirects_and_validators_by_time(broker: Broker) -> None:
    def reply(got: Got) -> Reply:
        if got.path == "/old":
            return Reply(301, {"Location": "/new"})
        if got.headers.get("if-modified-since"):
            return Reply(304)
        headers = {"Content-Encoding": "gzip", "Last-Modified": "Sat, 28 Nov 2026 03:00:00 GMT"}
        return Reply(200, headers, gzip.compress(rss("1")))

    async with Receiver(reply) as server, running(broker):
        await register(broker, f"{server.url}/old")
        await until(lambda: ids(broker) == ["1"])
        await server.wait(lambda got: any("if-modified-since" in g.headers for g in got))
        await until(lambda: state(broker).get("failures") == 0)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(500), "status 500"),
        (Reply(404), "status 404"),
        (Reply(HANG), "within"),
        (Reply(200, body=b"<html><body/></html>"), "no RSS or Atom"),
        (Reply(200, body=b"<rss>" + b"x" * 3_000), "longer than"),
        (Reply(302, {"Location": "http://127.0.0.2:1/"}), "public"),
    ],
)
async def test_failures_are_told_and_end(broker: Broker, reply: Reply, reason: str) -> None:
    failing = True
    settings = quick(timeouts=Timeouts(0.3, 0.3, 0.5), policy=UrlPolicy.of(permitted=["127.0.0.1"]))
    settings = replace(settings, polls=replace(settings.polls, limits=PollLimits(2_000, 2_000)))
    async with (
        Receiver(lambda got: reply if failing else Reply(200, body=rss("1"))) as server,
        running(broker, settings),
    ):
        await register(broker, server.url)
        await until(lambda: reason in str(state(broker).get("last_error")))
        await until(lambda: state(broker)["failures"] >= 2)
        failing = False
        await until(lambda: ids(broker) == ["1"])
        await until(lambda: state(broker)["last_error"] is None)
        assert state(broker)["failures"] == 0


async def test_failing_sources_are_asked_less_and_less(broker: Broker) -> None:
    times: list[float] = []

    def reply(got: Got) -> Reply:
        times.append(time.monotonic())
        return Reply(500)

    async with Receiver(reply) as server, running(broker):
        await register(broker, server.url)
        await server.count(5)
        waits = [later - earlier for earlier, later in pairwise(times[1:])]
        assert waits[2] > 2 * waits[0], waits


async def test_retry_after_is_honoured_by_polls(broker: Broker) -> None:
    async with Receiver(lambda got: Reply(429, {"Retry-After": "100"})) as server, running(broker):
        await register(broker, server.url)
        await until(lambda: "429" in str(state(broker).get("last_error")))
        await asyncio.sleep(0.5)
        assert len(server.got) == 1


async def test_a_malformed_feed_is_kept_once_and_its_whole_entries_published(broker: Broker) -> None:
    site = Site(rss("2", "1").replace(b"</channel>", b"<oops></channel>"), validates=False)
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: len(broker.store.rejected(TENANT, limit=10)) == 1)
        await rounds(site, 2)
        (rejected,) = broker.store.rejected(TENANT, limit=10)
        assert rejected.body == site.body
        assert rejected.source == "feed"
        assert rejected.line == 1
        assert ids(broker) == ["1", "2"]
        assert "line 1" in state(broker)["last_error"]
        site.body = rss("3", "2", "1")
        await until(lambda: ids(broker) == ["1", "2", "3"])


async def test_entries_that_cannot_be_processed_are_rejected_once(broker: Broker) -> None:
    # Well-formed, but its prefix is not declared: only the engine objects.
    feed = rss("1").replace(b"</channel>", b"<item><guid>bad</guid><x:y/></item></channel>")
    site = Site(feed, validates=False)
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["1"])
        await rounds(site, 3)
        (rejected,) = broker.store.rejected(TENANT, limit=10)
        assert b"<guid>bad</guid>" in rejected.body


async def test_a_folder_is_read_file_by_file(broker: Broker) -> None:
    files = {"a.xml": b"<a>1</a>", "b b.xml": b"<a>2</a>", "c.xml.gz": gzip.compress(b"<a>3</a>")}
    missing = {"b b.xml"}

    def reply(got: Got) -> Reply:
        name = got.path.removeprefix("/d/").replace("%20", " ")
        if not name:
            links = "".join(f'<a href="{file.replace(" ", "%20")}">x</a>' for file in files)
            return Reply(200, {"Content-Type": "text/html"}, f"<html>{links}</html>".encode())
        return Reply(404) if name in missing else Reply(200, body=files[name])

    async with Receiver(reply) as server, running(broker):
        await register(broker, f"{server.url}/d/", "http-folder")
        await until(lambda: len(ids(broker)) == 2)
        assert [(m.message_id, m.xml) for m in stored(broker)] == [("a.xml", b"<a>1</a>"), ("c.xml.gz", b"<a>3</a>")]
        await until(lambda: state(broker).get("last_error") == "b b.xml: the server answered with status 404")
        missing.clear()
        files["bad.xml"] = b"<a>"
        await until(lambda: "b b.xml" in ids(broker))
        await until(lambda: len(broker.store.rejected(TENANT, limit=10)) == 1)
        before = len(server.got)
        await server.count(before + 3)
        assert {got.path for got in server.got[before:]} == {"/d/"}, "files are fetched once"


async def test_large_folders_come_in_parts(broker: Broker) -> None:
    names = [f"{number}.xml" for number in range(450)]

    def reply(got: Got) -> Reply:
        return Reply(200, {}, "\n".join(names).encode() if got.path == "/d/" else b"<a/>")

    async with Receiver(reply) as server, running(broker):
        await register(broker, f"{server.url}/d/", "http-folder", interval=3_600.0)
        await until(lambda: len(ids(broker)) == 450, seconds=20)
        assert sum(got.path == "/d/" for got in server.got) == 3


async def test_nothing_is_forgotten_where_a_poll_brought_nothing(broker: Broker) -> None:
    """Not by an answer that says nothing is new, by a failure, nor by a feed that breaks off."""
    names = [f"e{number}" for number in range(2_500)]
    site = Site(rss(*names))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: len(state(broker).get("seen", ())) == 2_500)
        await rounds(site, 2)
        site.status = 500
        await until(lambda: "500" in str(state(broker)["last_error"]))
        site.status, site.body = 200, rss(*names)[:1_000]
        await until(lambda: "line" in str(state(broker)["last_error"]))
        assert len(state(broker)["seen"]) == 2_501, "and the broken feed itself"
        site.body = rss("new")
        await until(lambda: state(broker)["last_error"] is None)
        assert len(state(broker)["seen"]) == 1_001, "a thousand beyond what it shows"


async def test_sources_come_change_pause_and_go(broker: Broker) -> None:
    one, two = Site(rss("1"), validates=False), Site(rss("2"), validates=False)
    async with one.server, two.server, running(broker) as outbound:
        await register(broker, one.server.url, interval=3_600.0)
        await until(lambda: ids(broker) == ["1"])
        await register(broker, two.server.url, interval=3_600.0)
        await until(lambda: ids(broker) == ["1", "2"])
        two.body = rss("3")
        outbound.poller.poll_now(url=two.server.url)
        await until(lambda: ids(broker) == ["1", "2", "3"])
        await broker.change(lambda t: t.put_source(Source(0, TENANT, "feed", "rss", two.server.url, 0.05, paused=True)))
        await asyncio.sleep(0.2)
        before = len(two.server.got)
        await asyncio.sleep(0.2)
        assert len(two.server.got) == before
        await register(broker, two.server.url)
        await two.server.count(before + 2)
        await broker.change(lambda t: t.delete_source(source(broker).id))
        await asyncio.sleep(0.2)
        before = len(two.server.got)
        await asyncio.sleep(0.2)
        assert len(two.server.got) == before


async def test_pings_of_anyone_are_heard_no_more_often_than_polls_may_be(broker: Broker) -> None:
    settings = quick()
    settings = replace(settings, polls=replace(settings.polls, interval_min=0.3))
    site = Site(rss("1"), validates=False)
    async with site.server, running(broker, settings) as outbound:
        await register(broker, site.server.url, interval=3_600.0)
        await site.server.count(1)
        began = time.monotonic()
        while time.monotonic() < began + 1.0:
            assert outbound.poller.poll_now(url=site.server.url) == 1
            await asyncio.sleep(0.01)
        assert 3 <= len(site.server.got) <= 5


async def test_many_sources_share_few_polls(broker: Broker) -> None:
    settings = quick()
    settings = replace(settings, polls=PollSettings(concurrency=3, interval_min=0.05, random=random.Random(7)))
    async with Receiver(lambda got: Reply(200, {}, rss(got.path), 0.01)) as server, running(broker, settings):
        for number in range(30):
            await register(broker, f"{server.url}/{number}", name=f"s{number}", interval=3_600.0)
        await until(lambda: len(ids(broker)) == 30)
        assert server.active_most <= 3


async def test_random_feeds_lose_nothing_and_double_nothing(broker: Broker) -> None:
    seed = printed_seed()
    chance = random.Random(seed)
    shown: list[str] = []
    everything: list[str] = []

    def reply(got: Got) -> Reply:
        if chance.random() < 0.2:
            return Reply(chance.choice([500, 503, 404]))
        if len(everything) < 60:
            for _ in range(chance.randrange(4)):
                everything.append(f"e{len(everything)}")
                shown.insert(0, everything[-1])
            if chance.random() < 0.3:
                chance.shuffle(shown)
        return Reply(200, {}, rss(*shown))

    settings = quick()
    settings = replace(settings, polls=PollSettings(interval_min=0.01, random=chance))
    async with Receiver(reply) as server, running(broker, settings) as outbound:
        await register(broker, server.url, interval=0.01)

        def done() -> bool:
            outbound.poller.poll_now(url=server.url)
            return len(everything) >= 60 and len(ids(broker)) >= len(everything)

        await until(done, seconds=20)
        assert sorted(ids(broker)) == sorted(everything)


async def test_sources_are_polled_as_soon_as_they_are_registered(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "_CHECK_SECONDS", 3_600.0)
    site = Site(rss("1"))
    async with site.server, running(broker) as outbound, client_of(broker, outbound) as client:
        body = {"kind": "rss", "url": site.server.url, "interval": 3_600}
        assert (await client.put("/sources/feed", json=body)).status_code == 201
        await until(lambda: ids(broker) == ["1"])
        site.body = rss("2", "1")
        ping = {"hub.mode": "publish", "hub.url": source(broker).url or ""}
        assert (await client.post("/websub", data=ping)).status_code == 202
        await until(lambda: ids(broker) == ["1", "2"])
        assert (await client.post("/sources/feed/pause")).status_code == 200
        await asyncio.sleep(0.1)
        await client.post("/websub", data=ping)
        await asyncio.sleep(0.2)
        assert len(site.server.got) == 2
        assert (await client.post("/sources/feed/resume")).status_code == 200
        assert (await client.get("/sources/feed")).json()["paused"] is False
        assert (await client.delete("/sources/feed")).status_code == 204
        refused = await client.put("/sources/other", json={**body, "url": "http://user:pw@x.example/"})
        assert (refused.status_code, refused.json()["code"]) == (422, "url-refused")
