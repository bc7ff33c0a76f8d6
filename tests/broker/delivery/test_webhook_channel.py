"""Webhooks against a real server that behaves, misbehaves, is slow, or is not there."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import random
import socket
import time
from collections import Counter
from dataclasses import replace
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote

import pytest

from tests.broker.delivery.conftest import OpenBroker, both_stores
from tests.broker.delivery.pushing import errors, letters, now, publish, quick, running, subscribe, until
from tests.broker.delivery.receiver import DROP, HANG, Got, Receiver, Reply, answers
from tests.seeds import printed_seed
from twigcast.broker.broker import Broker
from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.delivery.host_scheduler import Backoff, HostLimits
from twigcast.broker.delivery.http_client import Timeouts, parse_retry_after
from twigcast.broker.delivery.push import PushSettings
from twigcast.broker.delivery.webhook import WebhookSettings, sign, verify
from twigcast.broker.errors import Invalid
from twigcast.broker.model import DeliverySettings, NewSubscription, StoredSubscription, SubscriptionState
from twigcast.broker.outbound import OutboundSettings

pytestmark = pytest.mark.anyio


def messages(receiver: Receiver) -> list[bytes]:
    return [got.body for got in receiver.got]


async def test_deliveries_arrive_in_order_with_what_identifies_them(broker: Broker) -> None:
    async with Receiver() as receiver, running(broker):
        key = "flood desk/\u00e9"
        subscription = await subscribe(broker, key, f"{receiver.url}/hook?x=1", "//a", secret="s3cret")
        seqs = await publish(broker, "<a>1</a>", "<b/>", "<a>2</a>", "<a>3</a>")
        await receiver.count(3)
        assert messages(receiver) == [b"<a>1</a>", b"<a>2</a>", b"<a>3</a>"]
        got = receiver.got[0]
        assert (got.method, got.target) == ("POST", "/hook?x=1")
        assert got.headers["content-type"] == "application/xml"
        assert got.headers["webhook-id"] == f"{seqs[0]}-{subscription.id}"
        assert unquote(got.headers["twigcast-key"]) == key
        message = broker.store.message(1, seqs[0])
        assert message is not None
        assert got.headers["twigcast-message"] == message.message_id
        assert got.headers["twigcast-source"] == "default"
        assert got.headers["twigcast-redelivered"] == "false"
        stamp = int(got.headers["webhook-timestamp"])
        assert abs(stamp - time.time()) < 30
        assert verify("s3cret", got.headers, got.body)
        assert not verify("s3cret", got.headers, got.body + b" ")
        assert not verify("other", got.headers, got.body)
        assert not verify("s3cret", {**got.headers, "webhook-timestamp": str(stamp - 1)}, got.body)
        assert not verify("s3cret", {**got.headers, "webhook-id": "9-9"}, got.body)
        await until(lambda: broker.store.pending_count(subscription.queue_id) == 0)


async def add_hook(broker: Broker, key: str, url: str, **settings: Any) -> StoredSubscription:
    """A webhook with settings as a subscriber gives them."""
    chosen = WebhookSettings(kind="webhook", url=url, **settings)
    delivery = await chosen.checked(UrlPolicy(allow_private=True))
    (added,) = await broker.subscribe([NewSubscription(1, key, "/*", delivery=delivery)])
    assert isinstance(added, StoredSubscription), added
    return added


def test_signatures_are_those_of_standard_webhooks() -> None:
    """The example of the specification, with a secret in base64."""
    secret, webhook_id, stamp = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
    body = b'{"test": 2432232314}'
    assert sign(secret, webhook_id, stamp, body) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    headers = {"webhook-id": webhook_id, "webhook-timestamp": str(stamp)}
    headers["webhook-signature"] = sign(secret, webhook_id, stamp, body)
    assert not verify(secret, headers, body), "it was recorded long ago"
    assert verify(secret, headers, body, tolerance=float("inf"))
    for wrong in ({}, {"webhook-timestamp": "x"}, {"webhook-timestamp": "-5"}, {"webhook-signature": ""}):
        assert not verify(secret, {**headers, **wrong} if wrong else {}, body, tolerance=float("inf"))
    now = int(time.time())
    for age, is_fresh in ((0, True), (290, True), (-290, True), (310, False), (-310, False)):
        headers = {"Webhook-Id": "i", "Webhook-Timestamp": str(now - age)}
        headers["Webhook-Signature"] = f"v2,other {sign('s', 'i', now - age, body)}"
        assert verify("s", headers, body) is is_fresh


async def test_while_a_secret_is_replaced_both_sign(broker: Broker) -> None:
    async with Receiver() as receiver, running(broker):
        await add_hook(broker, "k", receiver.url, secret="new", previous_secret="old")
        await publish(broker, "<a/>")
        await receiver.count(1)
        (got,) = receiver.got
        assert len(got.headers["webhook-signature"].split(" ")) == 2
        assert verify("new", got.headers, got.body)
        assert verify("old", got.headers, got.body)
        assert not verify("older", got.headers, got.body)
    with pytest.raises(Invalid, match="no secret that replaces it"):
        await WebhookSettings(kind="webhook", url="http://h/", previous_secret="old").checked(UrlPolicy())


async def test_batches_are_json_in_order(broker: Broker) -> None:
    async with Receiver() as receiver:
        subscription = await add_hook(broker, "k", receiver.url, secret="s", batch_max=4)
        seqs = await publish(broker, *(f"<a>{n}\u20ac</a>" for n in range(10)))
        async with running(broker):
            await receiver.wait(lambda got: sum(len(json.loads(one.body)["deliveries"]) for one in got) >= 10)
        batches = [json.loads(got.body)["deliveries"] for got in receiver.got]
        assert [len(batch) for batch in batches] == [4, 4, 2]
        items = [item for batch in batches for item in batch]
        assert [item["seq"] for item in items] == seqs
        assert [item["xml"] for item in items] == [f"<a>{n}\u20ac</a>" for n in range(10)]
        assert items[0]["id"] == f"{seqs[0]}-{subscription.id}"
        first = receiver.got[0]
        assert first.headers["content-type"] == "application/json"
        assert first.headers["webhook-id"] == f"{items[0]['id']}..{items[3]['id']}"
        assert verify("s", first.headers, first.body)


async def test_several_in_flight_and_what_fails_holds_up_nobody(broker: Broker) -> None:
    bad = {b"<a>3</a>": 2, b"<a>7</a>": 99}  # how often each fails

    def reply(got: Got) -> Reply:
        if bad.get(got.body, 0) > 0:
            bad[got.body] -= 1
            return Reply(503)
        return Reply(delay=0.05)

    async with Receiver(reply) as receiver, running(broker):
        subscription = await add_hook(broker, "k", receiver.url, max_in_flight=5)
        seqs = await publish(broker, *(f"<a>{n}</a>" for n in range(40)))
        await until(lambda: broker.store.pending_count(subscription.queue_id) == 0)
        assert 2 <= receiver.active_most <= 5
        (letter,) = letters(broker)
        assert (letter.seq, letter.attempts, letter.body) == (seqs[7], 3, b"<a>7</a>")
        taken = Counter(messages(receiver))
        assert taken == Counter({f"<a>{n}</a>".encode(): 3 if n in (3, 7) else 1 for n in range(40)})
        flags = [got.headers["twigcast-redelivered"] for got in receiver.got if got.body == b"<a>3</a>"]
        assert flags == ["false", "true", "true"]
        assert len(errors(broker, subscription)) == 5


async def test_what_comes_later_does_not_wait_for_what_failed(broker: Broker) -> None:
    backoff = Backoff(first=60.0, longest=60.0, random=random.Random(1))
    settings = replace(quick(), push=PushSettings(3, 600.0, backoff, HostLimits(breaker_failures=1_000)))
    async with Receiver(lambda got: Reply(503 if b"bad" in got.body else 200)) as receiver, running(broker, settings):
        subscription = await add_hook(broker, "k", receiver.url, max_in_flight=2)
        await publish(broker, "<bad/>")
        await receiver.count(1)
        for number in range(20):
            await publish(broker, f"<a>{number}</a>")
            await receiver.count(number + 2)
        assert Counter(messages(receiver)) == Counter([b"<bad/>", *(f"<a>{n}</a>".encode() for n in range(20))])
        await until(lambda: broker.store.pending_count(subscription.queue_id) == 1)


async def test_gone_suspends_also_without_order(broker: Broker) -> None:
    async with Receiver(lambda got: Reply(410)) as receiver:
        subscription = await add_hook(broker, "k", receiver.url, max_in_flight=3, batch_max=2)
        await publish(broker, *["<a/>"] * 9)
        async with running(broker) as outbound:
            await until(lambda: now(broker, subscription).state is SubscriptionState.SUSPENDED)
            assert outbound.pusher.counts.suspended == 1
        assert broker.store.pending_count(subscription.queue_id) == 9
        assert letters(broker) == []


async def test_rewritten_results_say_whether_they_are_documents(broker: Broker) -> None:
    async with Receiver() as receiver, running(broker):
        await subscribe(broker, "one", f"{receiver.url}/one", "for $b in /a/b[1] return <c>{$b}</c>")
        await subscribe(broker, "many", f"{receiver.url}/many", "for $b in /a/b return <c>{$b}</c>")
        await publish(broker, "<a><b>1</b><b>2</b></a>")
        await receiver.count(2)
        results = {got.path: (got.headers["content-type"], got.body) for got in receiver.got}
        assert results["/one"] == ("application/xml", b"<c><b>1</b></c>")
        assert results["/many"][0] == "application/xml-external-parsed-entity"
        assert results["/many"][1] == b"<c><b>1</b></c><c><b>2</b></c>"


@pytest.mark.parametrize("fault", [500, 404, 302, DROP, HANG])
async def test_a_failure_is_retried_before_anything_later(broker: Broker, fault: int) -> None:
    faults = {"left": 2}

    def reply(got: Got) -> Reply:
        if got.body == b"<a>2</a>" and faults["left"]:
            faults["left"] -= 1
            return Reply(fault, {"Location": "/elsewhere"})
        return Reply()

    settings = quick(attempts=5, timeouts=Timeouts(connect=0.2, read=0.2, total=0.3))
    async with Receiver(reply) as receiver, running(broker, settings):
        subscription = await subscribe(broker, "k", receiver.url)
        await publish(broker, "<a>1</a>", "<a>2</a>", "<a>3</a>")
        await receiver.count(5)
        assert messages(receiver) == [b"<a>1</a>", *[b"<a>2</a>"] * 3, b"<a>3</a>"]
        flags = [got.headers["twigcast-redelivered"] for got in receiver.got]
        assert flags == ["false", "false", "true", "true", "false"]
        assert len(errors(broker, subscription)) == 2
        assert letters(broker) == []
        assert all(got.path == "/" for got in receiver.got), "redirects are not followed"


@both_stores
async def test_b03_what_fails_to_the_end_becomes_a_dead_letter_and_the_lane_goes_on(broker: Broker) -> None:
    bad = [b"<a>1</a>", b"<a>3</a>"]
    async with Receiver(lambda got: Reply(503 if got.body in bad else 200)) as receiver, running(broker):
        subscription = await subscribe(broker, "k", receiver.url)
        seqs = await publish(broker, "<a>1</a>", "<a>2</a>", "<a>3</a>", "<a>4</a>")
        await receiver.count(8)
        assert messages(receiver) == [b"<a>1</a>"] * 3 + [b"<a>2</a>"] + [b"<a>3</a>"] * 3 + [b"<a>4</a>"]
        results = sorted(letters(broker), key=lambda letter: letter.seq)
        assert [(letter.seq, letter.body, letter.attempts) for letter in results] == [
            (seqs[0], b"<a>1</a>", 3),
            (seqs[2], b"<a>3</a>", 3),
        ]
        assert all("503" in letter.reason for letter in results)
        assert now(broker, subscription).state is SubscriptionState.ACTIVE
        await until(lambda: broker.store.pending_count(subscription.queue_id) == 0)
        # Retried when its owner asks, while the endpoint is still down, and when it is back.
        await broker.redrive([results[0].id])
        await receiver.count(9)
        await until(lambda: len(letters(broker)) == 2)
        bad.clear()
        await broker.redrive([letter.id for letter in letters(broker)])
        await receiver.count(11)
        assert sorted(messages(receiver)[9:]) == [b"<a>1</a>", b"<a>3</a>"]
        assert receiver.got[-1].headers["twigcast-redelivered"] == "true"
        await until(lambda: letters(broker) == [])


@both_stores
async def test_b07_attempts_go_on_after_a_kill_between_two_of_them(open_broker: OpenBroker) -> None:
    broker = await open_broker()
    async with Receiver(answers(500)) as receiver:
        settings = quick(attempts=1_000)
        slow = replace(settings, push=replace(settings.push, backoff=Backoff(first=60.0, random=random.Random(1))))
        async with running(broker, slow):
            subscription = await subscribe(broker, "k", receiver.url)
            await publish(broker, "<a>1</a>", "<a>2</a>")
            await receiver.count(1)
            await until(lambda: len(errors(broker, subscription)) == 1)
        broker = await open_broker()
        receiver.reply = answers(200)
        async with running(broker):
            await receiver.count(3)
            assert messages(receiver) == [b"<a>1</a>", b"<a>1</a>", b"<a>2</a>"]
            assert receiver.got[1].headers["twigcast-redelivered"] == "true"
            await publish(broker, "<a>3</a>")
            await receiver.count(4)
            assert receiver.got[3].headers["twigcast-redelivered"] == "false"
            assert letters(broker) == []


async def attempt_once(broker: Broker, settings: OutboundSettings, subscription: StoredSubscription, life: int) -> None:
    """Let a broker live until an attempt has failed; in the third life that is the last one of the first message."""
    async with running(broker, settings):
        await until(lambda: len(errors(broker, subscription)) >= (life if life < 3 else 4))


@both_stores
async def test_attempts_count_over_restarts_until_the_dead_letter(open_broker: OpenBroker) -> None:
    async with Receiver(answers(500)) as receiver:
        settings = quick(attempts=3)
        slow = replace(settings, push=replace(settings.push, backoff=Backoff(first=60.0, random=random.Random(1))))
        broker = await open_broker()
        subscription = await subscribe(broker, "k", receiver.url)
        await publish(broker, "<a>1</a>", "<a>2</a>")
        for life in range(1, 4):
            await attempt_once(broker, slow, subscription, life)
            broker = await open_broker()
        (letter,) = letters(broker)
        assert (letter.body, letter.attempts) == (b"<a>1</a>", 3)
        reasons = {(r.seq, r.reason.partition(" failed")[0]) for r in errors(broker, subscription)}
        assert reasons == {(1, "attempt 1"), (1, "attempt 2"), (1, "attempt 3"), (2, "attempt 1")}
        # The next delivery has all its attempts, and what succeeds leaves nothing behind.
        receiver.reply = answers(200)
        async with running(broker):
            await until(lambda: broker.store.pending_count(subscription.queue_id) == 0)
            await until(lambda: broker.store.attempts(subscription.queue_id) is None)
        assert len(letters(broker)) == 1


async def test_the_time_of_the_first_attempt_counts_over_restarts(open_broker: OpenBroker) -> None:
    async with Receiver(answers(500)) as receiver:
        settings = quick(attempts=1_000, seconds=0.3)
        slow = replace(settings, push=replace(settings.push, backoff=Backoff(first=60.0, random=random.Random(1))))
        broker = await open_broker()
        async with running(broker, slow):
            subscription = await subscribe(broker, "k", receiver.url)
            await publish(broker, "<a>1</a>")
            await until(lambda: len(errors(broker, subscription)) == 1)
        await asyncio.sleep(0.3)
        broker = await open_broker()
        async with running(broker, slow):
            await until(lambda: len(letters(broker)) == 1)


async def test_n14_410_suspends_and_resuming_goes_on_where_it_was(broker: Broker) -> None:
    async with Receiver(answers(200, 410)) as receiver, running(broker):
        subscription = await subscribe(broker, "k", receiver.url)
        await publish(broker, "<a>1</a>", "<a>2</a>", "<a>3</a>")
        await until(lambda: now(broker, subscription).state is SubscriptionState.SUSPENDED)
        assert "410" in (now(broker, subscription).reason or "")
        await asyncio.sleep(0.1)
        assert len(receiver.got) == 2
        receiver.reply = answers(200)
        await broker.set_state(now(broker, subscription), SubscriptionState.ACTIVE)
        await receiver.count(4)
        assert messages(receiver) == [b"<a>1</a>", b"<a>2</a>", b"<a>2</a>", b"<a>3</a>"]


async def test_paused_waits_and_a_new_url_is_used_at_once(broker: Broker) -> None:
    settings = quick(attempts=1_000)
    settings = replace(settings, push=replace(settings.push, backoff=Backoff(first=60.0, random=random.Random(1))))
    async with Receiver(answers(500)) as bad, Receiver() as good, running(broker, settings):
        subscription = await subscribe(broker, "k", bad.url)
        await publish(broker, "<a>1</a>")
        await bad.count(1)
        await until(lambda: len(errors(broker, subscription)) == 1)
        delivery = replace(subscription.delivery, url=good.url)
        await broker.replace(subscription, query="/*", namespaces={}, dialect="xpath", delivery=delivery)
        await good.count(1, seconds=2)
        assert good.got[0].headers["twigcast-redelivered"] == "true"
        await until(lambda: broker.store.pending_count(subscription.queue_id) == 0)
        await broker.unsubscribe(now(broker, subscription))
        await publish(broker, "<a>2</a>")
        await asyncio.sleep(0.05)
        assert len(good.got) == 1


async def test_retry_after_is_honoured(broker: Broker) -> None:
    times: list[float] = []

    def reply(got: Got) -> Reply:
        times.append(time.monotonic())
        return Reply(503, {"Retry-After": "1"}) if len(times) == 1 else Reply()

    settings = quick()
    settings = replace(settings, push=replace(settings.push, backoff=Backoff(0.001, 30.0, random.Random(2))))
    async with Receiver(reply) as receiver, running(broker, settings):
        await subscribe(broker, "k", receiver.url)
        await publish(broker, "<a/>")
        await receiver.count(2)
        assert times[1] - times[0] >= 1.0


def test_retry_after_in_both_forms() -> None:
    assert parse_retry_after("7") == 7.0
    assert parse_retry_after(None) is None
    assert parse_retry_after("soon") is None
    in_a_minute = parse_retry_after(formatdate(time.time() + 60, usegmt=True))
    assert in_a_minute is not None
    assert 55 < in_a_minute < 65
    assert parse_retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0


def test_back_off_grows_to_its_bound_and_is_spread() -> None:
    seed = printed_seed()
    backoff = Backoff(1.0, 100.0, random.Random(seed))
    for failures in range(1, 40):
        waits = [backoff.wait(failures) for _ in range(200)]
        bound = min(100.0, 2.0 ** (failures - 1))
        assert all(0 <= wait <= bound for wait in waits)
        assert max(waits) > 0.9 * bound
        assert min(waits) < 0.1 * bound
    assert backoff.wait(1, retry_after=50) == 50
    assert backoff.wait(1, retry_after=5_000) == 100


async def test_a_host_that_does_not_resolve_or_is_refused_or_closed(broker: Broker) -> None:
    async def resolver(host: str, port: int) -> list[str]:
        if host == "missing.example":
            raise socket.gaierror("no")
        return {"rebound.example": ["10.0.0.1"]}.get(host, [host])

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        policy = UrlPolicy.of(permitted=["127.0.0.1"])
        policy = replace(policy, resolver=resolver)
        async with Receiver() as receiver, running(broker, quick(policy=policy)):
            for key, url in [
                ("missing", "http://missing.example/"),
                ("rebound", "http://rebound.example/"),
                ("closed", f"http://127.0.0.1:{port}/"),
                ("good", receiver.url),
            ]:
                await subscribe(broker, key, url)
            await publish(broker, "<a/>")
            await receiver.count(1)
            await until(lambda: len(letters(broker)) == 3)
            reasons = {letter.key: letter.reason for letter in letters(broker)}
            assert "does not resolve" in reasons["missing"]
            assert "no public address" in reasons["rebound"]
            assert "cannot be reached" in reasons["closed"]


async def test_slow_and_silent_hosts_hold_up_only_themselves(broker: Broker) -> None:
    timeouts = Timeouts(connect=0.5, read=0.5, total=0.6)
    hosts = HostLimits(concurrency=8, concurrency_per_host=2, breaker_failures=1_000)
    async with (
        Receiver(lambda got: Reply(HANG)) as silent,
        Receiver(lambda got: Reply(delay=0.2)) as slow,
        Receiver() as good,
        running(broker, quick(timeouts=timeouts, hosts=hosts, attempts=2)),
    ):
        for number in range(10):
            await subscribe(broker, f"silent{number}", silent.url)
            await subscribe(broker, f"slow{number}", slow.url)
        await subscribe(broker, "good", good.url)
        started = time.monotonic()
        for number in range(20):
            await publish(broker, f"<a>{number}</a>")
            await good.count(number + 1, seconds=2)
        await good.count(20)
        assert time.monotonic() - started < 5
        assert silent.active_most <= 2
        assert slow.active_most <= 2


async def test_concurrency_is_bounded_in_all(broker: Broker) -> None:
    hosts = HostLimits(concurrency=3, concurrency_per_host=2, breaker_failures=1_000)
    async with (
        Receiver(lambda got: Reply(delay=0.02)) as one,
        Receiver(lambda got: Reply(delay=0.02)) as two,
        running(broker, quick(hosts=hosts)) as outbound,
    ):
        for number in range(15):
            await subscribe(broker, f"k{number}", [one, two][number % 2].url)
        await publish(broker, "<a/>")
        most = 0

        def watch() -> bool:
            nonlocal most
            most = max(most, one.active + two.active)
            return len(one.got) + len(two.got) == 15

        await until(watch)
        assert most <= 3
        assert one.active_most <= 2
        await until(lambda: outbound.pusher.busy_queues == 0)


async def test_the_breaker_opens_probes_with_one_request_and_closes(broker: Broker) -> None:
    hosts = HostLimits(
        concurrency_per_host=4, breaker_failures=4, breaker=Backoff(first=1.0, longest=1.0, random=random.Random(3))
    )
    async with Receiver(answers(500)) as receiver, running(broker, quick(attempts=1_000, hosts=hosts)) as outbound:
        for number in range(20):
            await subscribe(broker, f"k{number}", receiver.url)
        await publish(broker, "<a/>")
        await receiver.count(4)
        await until(lambda: outbound.pusher.open_hosts() == [receiver.url])
        await asyncio.sleep(0.2)
        before = len(receiver.got)
        assert before <= 8, "those that were under way when it opened"
        await asyncio.sleep(0.15)
        assert len(receiver.got) == before
        await receiver.count(before + 1)
        await asyncio.sleep(0.1)
        assert len(receiver.got) == before + 1, "one probes alone"
        receiver.reply = answers(200)
        await receiver.wait(lambda got: len({g.headers["twigcast-key"] for g in got[before + 1 :]}) == 20)
        assert outbound.pusher.open_hosts() == []
        assert letters(broker) == []


async def test_what_is_too_old_is_given_up_whatever_the_attempts(broker: Broker) -> None:
    async with Receiver(answers(500)) as receiver, running(broker, quick(attempts=1_000_000, seconds=0.3)):
        await subscribe(broker, "k", receiver.url)
        await publish(broker, "<a/>")
        await until(lambda: len(letters(broker)) == 1)
        assert letters(broker)[0].attempts > 2


async def test_idle_subscriptions_cost_a_table_entry_and_no_task(broker: Broker) -> None:
    async with Receiver() as receiver, running(broker) as outbound:
        for number in range(300):
            await subscribe(broker, f"k{number}", receiver.url, f"/never{number}")
        await until(lambda: outbound.pusher.busy_queues == 0)
        tasks = len(asyncio.all_tasks())
        await subscribe(broker, "one", receiver.url, "/a")
        await publish(broker, "<a/>")
        await receiver.count(1)
        assert len(asyncio.all_tasks()) <= tasks + 5
        await until(lambda: outbound.pusher.busy_queues == 0)


@both_stores
async def test_random_faults_lose_nothing_and_keep_the_order(broker: Broker) -> None:
    seed = printed_seed()
    chance = random.Random(seed)
    done: dict[str, list[bytes]] = {f"k{number}": [] for number in range(6)}

    def reply(got: Got) -> Reply:
        status = chance.choice([200, 200, 200, 500, 503, 404, DROP])
        delay = chance.choice([0.0, 0.0, 0.005])
        if status == 200:
            done[got.headers["twigcast-key"]].append(got.body)
        return Reply(status, delay=delay)

    async with Receiver(reply) as receiver, running(broker, quick(attempts=1_000)):
        for key in done:
            await subscribe(broker, key, receiver.url)
        bodies = [f"<a>{number}</a>" for number in range(25)]
        await publish(broker, *bodies)
        await until(lambda: all(len(results) == 25 for results in done.values()), seconds=20)
        requested = [body.encode() for body in bodies]
        assert all(result == requested for result in done.values())
        assert letters(broker) == []


@both_stores
async def test_replay_is_pushed_before_what_is_live_without_gap_or_double(broker: Broker) -> None:
    async with Receiver() as receiver, running(broker):
        past = await publish(broker, *(f"<a>{number}</a>" for number in range(40)))
        settings = DeliverySettings("webhook", receiver.url)
        new = NewSubscription(1, "k", "/a", delivery=settings, replay_from=past[10])

        async def live() -> None:
            for number in range(40, 80):
                await publish(broker, f"<a>{number}</a>")

        await asyncio.gather(broker.subscribe([new]), live())
        last = b"<a>79</a>"
        await receiver.wait(lambda got: bool(got) and got[-1].body == last)
        assert messages(receiver) == [f"<a>{number}</a>".encode() for number in range(10, 80)]


@both_stores
@pytest.mark.skipif(importlib.util.find_spec("saxonche") is None, reason="Saxon is not installed")
async def test_results_of_xquery_are_pushed_in_order(broker: Broker) -> None:
    query = "for $n in /a let $count := count(1 to xs:integer($n)) return <n>{ $count }</n>"
    async with Receiver() as receiver, running(broker):
        settings = DeliverySettings("webhook", receiver.url)
        await broker.subscribe([NewSubscription(1, "k", query, dialect="xquery", delivery=settings)])
        for number in range(30):
            await publish(broker, f"<a>{number}</a>")
        await receiver.wait(lambda got: len(got) == 30)
        assert messages(receiver) == [f"<n>{number}</n>".encode() for number in range(30)]


async def test_many_new_subscriptions_cost_no_look_into_each_lane(broker: Broker) -> None:
    async with Receiver() as receiver, running(broker) as outbound:
        new = [
            NewSubscription(1, f"k{number}", f"/a{number}", delivery=DeliverySettings("webhook", receiver.url))
            for number in range(2_000)
        ]
        await broker.subscribe(new)
        assert outbound.pusher.busy_queues == 0
        await publish(broker, "<a1999/>")
        await receiver.count(1)
        # Pulled first, then pushed: what was pending is found.
        pulled = await subscribe(broker, "pulled", None, "/b")
        await publish(broker, "<b/>")
        settings = DeliverySettings("webhook", receiver.url)
        await broker.replace(pulled, query="/b", namespaces={}, dialect="xpath", delivery=settings)
        await receiver.count(2)


async def test_dead_letters_that_cannot_be_tried_again_stay(broker: Broker) -> None:
    async with Receiver(answers(500)) as receiver, running(broker, quick(attempts=1)):
        subscription = await subscribe(broker, "k", receiver.url)
        await publish(broker, "<a/>")
        await until(lambda: len(letters(broker)) == 1)
        await broker.set_state(subscription, SubscriptionState.PAUSED)
        await broker.redrive([letters(broker)[0].id])
        await until(lambda: [letter.reason for letter in letters(broker)] == ["its subscription is paused"])
        await broker.set_state(now(broker, subscription), SubscriptionState.ACTIVE)
        await broker.replace(
            now(broker, subscription), query="/*", namespaces={}, dialect="xpath", delivery=DeliverySettings()
        )
        # It is not pushed any more: its subscriber finds it when it pulls.
        assert await broker.redrive([letters(broker)[0].id]) == 1
        assert letters(broker) == []
        (pulled,) = await broker.pull(subscription.queue_id, limit=9, wait=0)
        assert pulled.body == b"<a/>"
        assert len(receiver.got) == 1
