"""The hub, as a subscriber sees it: sentences of the W3C Recommendation, each held against a real callback."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
import pytest
from lxml import etree

from tests.broker.delivery.conftest import OpenBroker, both_stores
from tests.broker.delivery.http_face import BASE, client_of, feed_url
from tests.broker.delivery.pushing import TENANT, letters, publish, quick, running, subscribe, until
from tests.broker.delivery.receiver import HANG, Got, Receiver, Reply
from tests.broker.delivery.test_atom import A, checked, contents
from twigcast.broker.broker import Broker
from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.delivery.websub_hub import LeaseBounds
from twigcast.broker.model import Source, StoredSubscription, SubscriptionState, WebSubRequest
from twigcast.broker.outbound import OutboundSettings

pytestmark = pytest.mark.anyio


@dataclass
class Callback:
    """A subscriber that agrees to everything, unless told otherwise."""

    status: int = 200
    """Of answers to content."""
    agrees: bool = True
    echo: Callable[[str], str] = field(default=lambda challenge: challenge)
    server: Receiver = field(init=False)

    def __post_init__(self) -> None:
        self.server = Receiver(self._reply)

    def _reply(self, got: Got) -> Reply:
        if got.method == "POST":
            return Reply(self.status)
        if not self.agrees:
            return Reply(404)
        return Reply(200, body=self.echo(got.query.get("hub.challenge", "")).encode())

    def asked(self, mode: str) -> list[Got]:
        return [got for got in self.server.got if got.method == "GET" and got.query.get("hub.mode") == mode]

    @property
    def content(self) -> list[Got]:
        return [got for got in self.server.got if got.method == "POST"]


@dataclass
class Scene:
    broker: Broker
    client: httpx2.AsyncClient
    callback: Callback
    topic: str

    @property
    def url(self) -> str:
        return f"{self.callback.server.url}/cb?a=1"

    async def ask(self, mode: str, **more: str | list[str]) -> httpx2.Response:
        form = {"hub.mode": mode, "hub.topic": self.topic, "hub.callback": self.url}
        form |= {f"hub.{name}": value for name, value in more.items()}  # type: ignore[misc]
        return await self.client.post("/websub", data=form, headers={"Authorization": ""})

    def subscriptions(self) -> list[StoredSubscription]:
        return [s for s in self.broker.store.all_subscriptions(pushed_only=True) if s.delivery.kind == "websub"]

    async def subscribed(self, **more: str | list[str]) -> StoredSubscription:
        assert (await self.ask("subscribe", **more)).status_code == 202
        await until(lambda: len(self.subscriptions()) == 1)
        return self.subscriptions()[0]


@asynccontextmanager
async def scene(
    broker: Broker, settings: OutboundSettings | None = None, query: str = "//a", callback: Callback | None = None
) -> AsyncIterator[Scene]:
    callback = callback or Callback()
    async with callback.server, running(broker, settings) as outbound, client_of(broker, outbound) as client:
        if broker.store.subscription(TENANT, "news") is None:
            await subscribe(broker, "news", None, query)
        yield Scene(broker, client, callback, await feed_url(client, "news"))


@both_stores
async def test_a_request_that_was_accepted_is_verified_after_a_restart(open_broker: OpenBroker) -> None:
    broker = await open_broker()
    callback = Callback()
    answer = callback.server.reply
    callback.server.reply = lambda _: Reply(HANG)
    async with callback.server:
        async with running(broker) as outbound, client_of(broker, outbound) as client:
            await subscribe(broker, "news", None)
            s = Scene(broker, client, callback, await feed_url(client, "news"))
            assert (await s.ask("subscribe", secret="s3cret", lease_seconds="3600")).status_code == 202
            await callback.server.count(1)
        assert s.subscriptions() == []
        callback.server.reply = answer
        broker = await open_broker()
        assert len(broker.store.websub_requests()) == 1
        async with running(broker):
            await until(lambda: broker.store.websub_requests() == [])
            (result,) = broker.store.all_subscriptions(pushed_only=True)
            assert (result.delivery.topic, result.delivery.url, result.delivery.secret) == (s.topic, s.url, "s3cret")
            assert len(callback.asked("subscribe")) == 2
        # What was carried out is not carried out again.
        broker = await open_broker()
        async with running(broker):
            await asyncio.sleep(0.05)
        assert len(callback.server.got) == 2


async def test_a_request_whose_topic_has_gone_is_denied_after_a_restart(open_broker: OpenBroker) -> None:
    broker = await open_broker()
    callback = Callback()
    async with callback.server:
        with broker.store.transaction() as transaction:
            form = {
                "hub.mode": ["subscribe"],
                "hub.topic": [f"{BASE}/feeds/1-x/subscriptions/gone"],
                "hub.callback": [f"{callback.server.url}/cb"],
            }
            transaction.add_websub_request(WebSubRequest(BASE, form))
        async with running(broker):
            await until(lambda: len(callback.asked("denied")) == 1)
        assert broker.store.websub_requests() == []


@both_stores
async def test_the_topic_of_a_source_stores_deliveries_of_that_source_only(broker: Broker) -> None:
    async with scene(broker) as s:
        with broker.store.transaction() as transaction:
            for name in ("mine", "other"):
                transaction.put_source(Source(0, TENANT, name, "push", interval=1.0))
        s.topic = await feed_url(s.client, "mine", kind="sources")
        subscription = await s.subscribed()
        await publish(broker, "<b>1</b>", source="other")
        await publish(broker, "<b>2</b>", source="mine")
        await publish(broker, "<b>3</b>", source="other")
        await s.callback.server.wait(lambda _: len(s.callback.content) == 1)
        assert contents(checked(s.callback.content[0].body)) == [b"<b>2</b>"]
        rows = [d.message.source for d in broker.store.recent_deliveries(subscription.id, 9)]
        assert rows == ["mine"]
        assert [m.matches for m in broker.store.messages(TENANT, limit=9)] == [0, 1, 0]


async def test_discovery_subscription_distribution_and_its_end(broker: Broker) -> None:
    async with scene(broker) as s:
        result = await s.client.get(s.topic)
        assert 'rel="hub"' in result.headers["link"]
        assert f'<{s.topic}>; rel="self"' in result.headers["link"]
        subscription = await s.subscribed(lease_seconds="3600", secret="s3cret")
        (asked,) = s.callback.asked("subscribe")
        assert asked.path == "/cb"
        assert asked.target.startswith("/cb?a=1&hub."), "the callback's own parameters stay in front"
        assert asked.query["hub.topic"] == s.topic
        assert asked.query["hub.lease_seconds"] == "3600"
        assert len(asked.query["hub.challenge"]) >= 32
        assert subscription.delivery.secret == "s3cret"
        await publish(broker, "<a>1</a>", "<b/>", "<a>2</a>")
        await s.callback.server.wait(lambda _: sum(len(contents(checked(g.body))) for g in s.callback.content) == 2)
        for got in s.callback.content:
            assert got.target == "/cb?a=1"
            assert got.headers["content-type"] == "application/atom+xml"
            assert got.headers["link"] == f'<{BASE}/websub>; rel="hub", <{s.topic}>; rel="self"'
            digest = hmac.new(b"s3cret", got.body, hashlib.sha256).hexdigest()
            assert got.headers["x-hub-signature"] == f"sha256={digest}"
        entries = [entry for got in s.callback.content for entry in reversed(contents(checked(got.body)))]
        assert entries == [b"<a>1</a>", b"<a>2</a>"]
        feed_ids = {
            entry.findtext(f"{A}id")
            for entry in etree.fromstring((await s.client.get(s.topic)).content).iter(f"{A}entry")
        }
        pushed_ids = {
            entry.findtext(f"{A}id")
            for got in s.callback.content
            for entry in etree.fromstring(got.body).iter(f"{A}entry")
        }
        assert pushed_ids == feed_ids, "who reads both knows what is the same"
        assert (await s.ask("unsubscribe")).status_code == 202
        await until(lambda: s.subscriptions() == [])
        (asked,) = s.callback.asked("unsubscribe")
        assert asked.query["hub.topic"] == s.topic
        await publish(broker, "<a>3</a>")
        await asyncio.sleep(0.1)
        assert len(s.callback.content) == len([g for g in s.callback.content if b"<a>3</a>" not in g.body])


async def test_what_is_not_confirmed_changes_nothing(broker: Broker) -> None:
    async with scene(broker) as s:
        for agrees, echo in ((False, None), (True, lambda c: "other"), (True, lambda c: c + " "), (True, lambda c: "")):
            s.callback.agrees = agrees
            s.callback.echo = echo or (lambda c: c)
            before = len(s.callback.asked("subscribe"))
            assert (await s.ask("subscribe")).status_code == 202, "the answer does not depend on the verification"
            await until(lambda before=before: len(s.callback.asked("subscribe")) > before)  # type: ignore[misc]
            await asyncio.sleep(0.05)
            assert s.subscriptions() == []
        s.callback.agrees, s.callback.echo = True, lambda c: c
        subscription = await s.subscribed(secret="one")
        s.callback.agrees = False
        await s.ask("unsubscribe")
        await s.ask("subscribe", secret="two")
        await until(lambda: len(s.callback.asked("unsubscribe")) == 1 and len(s.callback.asked("subscribe")) >= 6)
        await asyncio.sleep(0.05)
        assert s.subscriptions() == [subscription]
        challenges = [got.query["hub.challenge"] for got in s.callback.asked("subscribe")]
        assert len(set(challenges)) == len(challenges), "used once"


async def test_asking_again_renews_and_replaces_the_secret(broker: Broker) -> None:
    async with scene(broker) as s:
        first = await s.subscribed(secret="one", lease_seconds="100")
        await s.ask("subscribe", secret="two", lease_seconds="1000")
        await until(lambda: s.subscriptions()[0].delivery.secret == "two")
        (second,) = s.subscriptions()
        assert second.id == first.id
        assert (second.delivery.expires or 0) > (first.delivery.expires or 0) + 800
        await s.ask("subscribe")
        await until(lambda: s.subscriptions()[0].delivery.secret is None)
        await publish(broker, "<a/>")
        await s.callback.server.wait(lambda _: len(s.callback.content) == 1)
        assert "x-hub-signature" not in s.callback.content[0].headers


MISTAKES: list[tuple[dict[str, str | list[str]], int, str]] = [
    ({"hub.mode": "subscribe"}, 400, "hub.callback"),
    ({"hub.mode": "other"}, 400, "hub.mode"),
    ({"hub.mode": ""}, 400, "hub.mode"),
    ({"hub.topic": ""}, 400, "hub.topic"),
    ({"hub.topic": "http://elsewhere.example/feed"}, 404, "no feed of this broker"),
    ({"hub.topic": f"{BASE}/feeds/1-AAAA/subscriptions/news"}, 404, "no such topic"),
    ({"hub.callback": "ftp://x.example/"}, 400, "http"),
    ({"hub.callback": "http://10.0.0.1/"}, 400, "public"),
    ({"hub.callback": ["http://a.example/", "http://b.example/"]}, 400, "more than once"),
    ({"hub.lease_seconds": "-1"}, 400, "lease_seconds"),
    ({"hub.lease_seconds": "ten"}, 400, "lease_seconds"),
    ({"hub.secret": "x" * 200}, 400, "200 bytes"),
    ({"hub.filter": "//a["}, 400, "hub.filter"),
    ({"hub.filter": "a) or (b"}, 400, "hub.filter"),
    ({"hub.filter": "//p:a"}, 400, "hub.filter"),
    ({"hub.filter": "for $a in //a return $a"}, 400, "hub.filter"),
    ({"hub.filter": "//p:a", "hub.filter_namespace": "p"}, 400, "filter_namespace"),
]


async def test_mistakes_are_told_in_plain_text(broker: Broker) -> None:
    settings = quick(policy=UrlPolicy.of(permitted=["127.0.0.1"]))
    async with scene(broker, settings) as s:
        for form, status, reason in MISTAKES:
            good = {"hub.mode": "subscribe", "hub.topic": s.topic, "hub.callback": s.url}
            answer = await s.client.post("/websub", data=form if "hub.mode" in form else {**good, **form})
            assert answer.status_code == status, answer.text
            assert answer.headers["content-type"].startswith("text/plain")
            assert reason in answer.text
        assert s.callback.server.got == []


async def test_names_are_resolved_only_for_topics_and_inner_addresses_are_not_told(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Anyone may ask the hub: it must not map the network that it is in."""
    resolved: list[str] = []

    async def resolver(host: str, port: int) -> list[str]:
        resolved.append(host)
        return ["10.1.2.3"]

    policy = UrlPolicy.of(permitted=["127.0.0.1"])
    async with scene(broker, quick(policy=replace(policy, resolver=resolver))) as s:
        form = {"hub.mode": "subscribe", "hub.topic": f"{BASE}/feeds/none", "hub.callback": "http://inner.example/"}
        assert (await s.client.post("/websub", data=form)).status_code == 404
        assert resolved == []
        with caplog.at_level("INFO", "twigcast.broker.delivery.addresses"):
            answer = await s.client.post("/websub", data={**form, "hub.topic": s.topic})
        assert (answer.status_code, resolved) == (400, ["inner.example"])
        assert "inner.example leads to no public address" in answer.text
        assert "10.1.2.3" not in answer.text
        assert "10.1.2.3" in caplog.text, "its operator finds it in the log"


async def test_what_is_no_form_is_refused(broker: Broker) -> None:
    async with scene(broker) as s:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        for headers, body, status in (
            ({"Content-Type": "application/json"}, b"{}", 415),
            (kind, b"hub.mode=%FF", 400),
            (kind, b"hub.mode=subscribe&" * 101, 400),
            (kind, b"x" * 70_000, 413),
        ):
            assert (await s.client.post("/websub", content=body, headers=headers)).status_code == status
        answer = await s.ask("subscribe", unknown="ignored")
        assert answer.status_code == 202, "parameters that are not understood are ignored"


async def test_a_renewal_that_comes_as_the_lease_ends_subscribes_anew(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(broker) as s:
        await s.subscribed()
        replace = broker.replace

        async def too_late(existing: StoredSubscription, **settings: Any) -> StoredSubscription:
            monkeypatch.undo()
            await broker.unsubscribe(existing)
            return await replace(existing, **settings)

        (before,) = s.subscriptions()
        monkeypatch.setattr(broker, "replace", too_late)
        await s.ask("subscribe")
        await until(lambda: [result.id for result in s.subscriptions() if result.id != before.id] != [])
        assert s.callback.asked("denied") == []


async def test_leases_have_bounds_end_and_are_announced(broker: Broker) -> None:
    settings = quick(leases=LeaseBounds(shortest=0.4, longest=1_000, default=500))
    async with scene(broker, settings) as s:
        await s.subscribed(lease_seconds="999999999")
        await s.ask("subscribe")
        await until(lambda: len(s.callback.asked("subscribe")) == 2)
        assert [got.query["hub.lease_seconds"] for got in s.callback.asked("subscribe")] == ["1000", "500"]
        await until(lambda: 0 < (s.subscriptions()[0].delivery.expires or 0) - time.time() < 501)
        await broker.unsubscribe(s.subscriptions()[0])
        s.callback.server.got.clear()
        settings.leases.granted(None)
        await s.subscribed(lease_seconds="1")
        await until(lambda: s.subscriptions() == [], seconds=5)
        await until(lambda: len(s.callback.asked("denied")) == 1)
        (denied,) = s.callback.asked("denied")
        assert denied.query["hub.topic"] == s.topic
        assert "lease" in denied.query["hub.reason"]


@both_stores
async def test_leases_end_after_a_restart_too(open_broker: OpenBroker) -> None:
    callback = Callback()
    broker = await open_broker()
    async with scene(broker, callback=callback) as s:
        await s.subscribed(lease_seconds="2")
    callback.server = Receiver(callback._reply)
    broker = await open_broker()
    assert len(list(broker.store.all_subscriptions(pushed_only=True))) == 1, "no hub runs that could end it"
    async with scene(broker, callback=callback) as s:
        await until(lambda: s.subscriptions() == [], seconds=5)


async def test_b03_failing_deliveries_do_not_end_a_subscription(broker: Broker) -> None:
    async with scene(broker) as s:
        s.callback.status = 500
        subscription = await s.subscribed()
        await publish(broker, "<a>1</a>")
        await until(lambda: len(letters(broker)) == 1)
        assert letters(broker)[0].body == b"<a>1</a>"
        assert s.subscriptions()[0].state is SubscriptionState.ACTIVE
        s.callback.status = 204
        await publish(broker, "<a>2</a>")
        await s.callback.server.wait(lambda _: b'<a xmlns="">2</a>' in s.callback.content[-1].body)
        await broker.redrive([letters(broker)[0].id])
        await s.callback.server.wait(lambda _: b'<a xmlns="">1</a>' in s.callback.content[-1].body)
        await until(lambda: letters(broker) == [])
        s.callback.status = 410
        await publish(broker, "<a>3</a>")
        await until(lambda: s.subscriptions()[0].state is SubscriptionState.SUSPENDED)
        s.callback.status = 200
        await s.ask("subscribe")
        await until(lambda: s.subscriptions()[0].state is SubscriptionState.ACTIVE)
        await s.callback.server.wait(lambda _: b'<a xmlns="">3</a>' in s.callback.content[-1].body)
        assert s.subscriptions()[0].id == subscription.id


@both_stores
async def test_a_filter_narrows_the_topic(broker: Broker) -> None:
    async with scene(broker, query="//a | //b") as s:
        subscription = await s.subscribed(filter="//p:severe or @x = 1", filter_namespace=["p=urn:p", "q=urn:q"])
        assert subscription.query == "(//a | //b) and (//p:severe or @x = 1)"
        await publish(
            broker,
            "<a/>",
            "<a xmlns:z='urn:p'><z:severe/></a>",
            "<c xmlns:z='urn:p'><z:severe/></c>",
            "<b><severe/></b>",
        )
        await publish(broker, "<b><severe xmlns='urn:p'/></b>")
        await s.callback.server.wait(lambda _: sum(len(contents(checked(g.body))) for g in s.callback.content) == 2)
        # The topic changes; who narrows it hears of what it is now.
        news = broker.store.subscription(TENANT, "news")
        assert news is not None
        await broker.replace(news, query="//c", namespaces={}, dialect="xpath", delivery=news.delivery)
        await until(lambda: s.subscriptions()[0].query == "(//c) and (//p:severe or @x = 1)")
        await broker.replace(
            news, query="for $a in //a return <z>{$a}</z>", namespaces={}, dialect="xpath", delivery=news.delivery
        )
        await until(lambda: len(s.callback.asked("denied")) == 1)
        assert "rewrites" in s.callback.asked("denied")[0].query["hub.reason"]
        assert s.subscriptions() == []
        answer = await s.ask("subscribe", filter="//a")
        assert (answer.status_code, "rewrites" in answer.text) == (400, True)


async def test_a_topic_that_rewrites_is_distributed_rewritten(broker: Broker) -> None:
    async with scene(broker, query="for $b in //b return <z>{$b}</z>") as s:
        await s.subscribed()
        await publish(broker, "<a><b>1</b></a>")
        await s.callback.server.wait(lambda _: len(s.callback.content) == 1)
        assert contents(checked(s.callback.content[0].body)) == [b"<z><b>1</b></z>"]


async def test_a_topic_that_pauses_or_goes_takes_its_subscribers_along(broker: Broker) -> None:
    async with scene(broker) as s:
        await s.subscribed()
        news = broker.store.subscription(TENANT, "news")
        assert news is not None
        news = await broker.set_state(news, SubscriptionState.PAUSED)
        await until(lambda: s.subscriptions()[0].state is SubscriptionState.PAUSED)
        await broker.set_state(news, SubscriptionState.ACTIVE)
        await until(lambda: s.subscriptions()[0].state is SubscriptionState.ACTIVE)
        await broker.unsubscribe(news)
        await until(lambda: len(s.callback.asked("denied")) == 1)
        assert s.subscriptions() == []
        assert (await s.ask("subscribe")).status_code == 404


async def test_the_topic_of_a_source_has_its_messages_only(broker: Broker) -> None:
    async with scene(broker) as s:
        await broker.change(lambda t: t.put_source(Source(0, TENANT, "gauges", "push", interval=60)))
        s.topic = await feed_url(s.client, "gauges", "sources")
        subscription = await s.subscribed(filter="//a")
        await publish(broker, "<a>1</a>", "<b/>", source="gauges")
        await publish(broker, "<a>other</a>", source="other")
        await publish(broker, "<a>2</a>", source="gauges")
        await s.callback.server.wait(lambda _: sum(len(contents(checked(g.body))) for g in s.callback.content) == 2)
        await until(lambda: broker.store.pending_count(subscription.queue_id) == 0)
        assert all(b"other" not in got.body for got in s.callback.content)


async def test_b01_what_is_published_between_reading_and_subscribing_is_in_the_feed(broker: Broker) -> None:
    """w3c/websub#174: who reads the feed again once the subscription is confirmed has missed nothing."""
    async with scene(broker) as s:
        checked((await s.client.get(s.topic)).content)
        await publish(broker, "<a>between</a>")
        await s.subscribed()
        assert contents(checked((await s.client.get(s.topic)).content)) == [b"<a>between</a>"]
