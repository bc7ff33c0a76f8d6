"""What happens when more waits for a subscriber than its tenant may have."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from tests.broker.hub.hubs import TENANT, drain, publish, run, running, subscribe
from twigcast.broker.broker import Broker
from twigcast.broker.delivery.channel import Channel, Failure, SendBounds
from twigcast.broker.delivery.push import Pusher
from twigcast.broker.errors import QueueFull
from twigcast.broker.model import (
    DeliverySettings,
    OverflowPolicy,
    QueuedDelivery,
    StoredSubscription,
    Submission,
    SubscriptionState,
)
from twigcast.broker.store.store import Store

LIMIT = 50


def stored(store: Store, key: str) -> StoredSubscription:
    result = store.subscription(TENANT, key)
    assert result is not None
    return result


async def until_active(store: Store, key: str) -> None:
    async with asyncio.timeout(30):
        while stored(store, key).state is not SubscriptionState.ACTIVE or stored(store, key).replay_next is not None:
            await asyncio.sleep(0.01)


async def everything(broker: Broker, subscription: StoredSubscription, count: int) -> list[int]:
    """The messages of so many deliveries, and of those that come beyond."""
    seqs: list[int] = []
    while len(seqs) < count:
        some = await broker.pull(subscription.queue_id, limit=20, wait=30, visibility=60)
        await broker.acknowledge(subscription.queue_id, [d.id for d in some])
        seqs += [d.id.seq for d in some]
    return seqs + [d.id.seq for d in await drain(broker, subscription.queue_id)]


def test_a_suspended_subscription_resumes_when_half_is_done_and_gets_what_it_missed(store: Store) -> None:
    async def play() -> None:
        async with running(store, pending_max=LIMIT) as broker:
            slow = await subscribe(broker, "slow", "//a")
            for number in range(3 * LIMIT):
                await publish(broker, "<a/>" if number % 3 else "<b/>")
            suspended = stored(store, "slow")
            assert suspended.state is SubscriptionState.SUSPENDED
            assert suspended.missed_from is not None
            (record, *_) = store.errors(slow.id, 5)
            assert record.seq == suspended.missed_from
            assert f"resumes with message {suspended.missed_from}" in record.reason
            expected = [m.seq for m in store.messages(TENANT, limit=1_000, bytes_max=1 << 20) if m.xml == b"<a/>"]
            assert await everything(broker, slow, len(expected)) == expected
            await until_active(store, "slow")
            assert (broker.metrics.suspended, broker.metrics.resumed) == (1, 1)
            (accepted,) = await publish(broker, "<a/>")
            assert accepted.matches == 1
            assert await everything(broker, slow, 1) == [accepted.seq]
            assert stored(store, "slow").missed_from is None

    run(play())


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_or_doubled_whoever_is_slow_and_whatever_is_restarted(store: Store, seed: int) -> None:
    random = Random(seed)

    async def play() -> None:
        got: list[int] = []
        sent: list[int] = []
        for life in range(4):
            async with running(store, pending_max=LIMIT) as broker:
                if life == 0:
                    await subscribe(broker, "slow", "//a")
                slow = stored(store, "slow")
                for _ in range(30):
                    action = random.random()
                    if action < 0.5:
                        for _ in range(random.randrange(40)):
                            bodies = [random.choice(["<a/>", "<b/>"]) for _ in range(random.randrange(1, 4))]
                            results = await publish(broker, *bodies)
                            sent += [r.seq for body, r in zip(bodies, results, strict=True) if body == "<a/>"]
                    elif action < 0.9:
                        some = await broker.pull(slow.queue_id, limit=random.randrange(1, 60), wait=0, visibility=60)
                        await broker.acknowledge(slow.queue_id, [d.id for d in some])
                        got += [d.id.seq for d in some]
                    else:
                        await broker.replace(
                            stored(store, "slow"),
                            query=random.choice(["//a", "/a", "//a[true()]"]),
                            namespaces={},
                            dialect="xpath",
                            delivery=slow.delivery,
                        )
        async with running(store, pending_max=LIMIT) as broker:
            got += await everything(broker, stored(store, "slow"), len(sent) - len(got))
        assert got == sent

    run(play(), 120.0)


def test_an_owner_that_resumes_or_pauses_it_gets_what_was_missed_before(store: Store) -> None:
    async def play() -> None:
        async with running(store, pending_max=LIMIT) as broker:
            for key, states in (
                ("resumed", [SubscriptionState.ACTIVE]),
                ("paused", [SubscriptionState.PAUSED, SubscriptionState.ACTIVE]),
            ):
                slow = await subscribe(broker, key, f"//{key}")
                sent = [(await publish(broker, f"<{key}/>"))[0].seq for _ in range(2 * LIMIT)]
                assert stored(store, key).missed_from is not None
                for state in states:
                    await broker.set_state(slow, state)
                    if state is SubscriptionState.PAUSED:
                        await publish(broker, f"<{key}/>")
                sent += [(await publish(broker, f"<{key}/>"))[0].seq]
                assert await everything(broker, slow, len(sent)) == sent

    run(play())


def test_a_seek_ends_a_suspension(store: Store) -> None:
    async def play() -> None:
        async with running(store, pending_max=LIMIT) as broker:
            slow = await subscribe(broker, "slow", "//a")
            await publish(broker, *["<a/>"] * (2 * LIMIT))
            await publish(broker, "<a/>")
            await broker.seek(slow, None)
            after = stored(store, "slow")
            assert (after.state, after.missed_from, after.reason) == (SubscriptionState.ACTIVE, None, None)
            (accepted,) = await publish(broker, "<a/>")
            assert await everything(broker, slow, 1) == [accepted.seq]

    run(play())


def test_what_retention_has_removed_meanwhile_is_recorded(store: Store) -> None:
    async def play() -> None:
        async with running(store, pending_max=LIMIT) as broker:
            slow = await subscribe(broker, "slow", "//a")
            for _ in range(2 * LIMIT):
                await publish(broker, "<a/>")
            missed_from = stored(store, "slow").missed_from
            await broker.change(lambda t: t.expire(before=None, bytes_max=0, limit=1_000, at=0.0))
            await broker.set_state(slow, SubscriptionState.ACTIVE)
            assert f"messages from {missed_from} to {2 * LIMIT}" in store.errors(slow.id, 1)[0].reason

    run(play())


@pytest.mark.parametrize("policy", [OverflowPolicy.DROP_OLDEST, OverflowPolicy.DEAD_LETTER])
def test_the_oldest_go_and_are_counted(store: Store, policy: OverflowPolicy) -> None:
    async def play() -> None:
        async with running(store, pending_max=LIMIT) as broker:
            mine = await subscribe(broker, "mine", "//a", overflow=policy)
            sent: list[int] = []
            for _ in range(4 * LIMIT):
                sent += [r.seq for r in await publish(broker, "<a>text</a>")]
                assert store.pending_count(mine.queue_id) <= LIMIT + LIMIT // 10
            assert stored(store, "mine").state is SubscriptionState.ACTIVE
            got = [d.id.seq for d in await drain(broker, mine.queue_id)]
            assert got == sent[-len(got) :]
            assert len(got) >= LIMIT - LIMIT // 5
            gone = sent[: -len(got)]
            records = store.errors(mine.id, 50)
            assert sum(record.count for record in records) == len(gone)
            assert sorted(record.seq or 0 for record in records)[0] == gone[0]
            letters = store.dead_letters(TENANT, limit=1_000)
            if policy is OverflowPolicy.DROP_OLDEST:
                assert broker.metrics.dropped == len(gone)
                assert letters == []
            else:
                assert broker.metrics.overflow_dead_letters == len(gone)
                assert sorted(letter.seq for letter in letters) == gone
                assert {letter.body for letter in letters} == {b"<a>text</a>"}

    run(play())


def test_publishers_are_refused_until_something_is_done(store: Store) -> None:
    async def play() -> None:
        async with running(store, pending_max=LIMIT) as broker:
            mine = await subscribe(broker, "mine", "//a", overflow=OverflowPolicy.REFUSE)
            other = await subscribe(broker, "other", "//*", overflow=OverflowPolicy.DROP_OLDEST)
            accepted = 0
            refused = None
            while refused is None:
                try:
                    await publish(broker, "<a/>")
                    accepted += 1
                except QueueFull as error:
                    refused = error
            assert "'mine'" in str(refused)
            assert refused.retry_after
            assert LIMIT <= accepted <= LIMIT + LIMIT // 10 + 1
            before = store.last_seq()
            # A publication is stored whole or not; others are not affected, nor are those beside it in its commit.
            outcomes = await asyncio.gather(
                broker.publish([Submission(TENANT, b"<b/>"), Submission(TENANT, b"<a/>")]),
                broker.publish([Submission(TENANT, b"<b/>")]),
                return_exceptions=True,
            )
            assert isinstance(outcomes[0], QueueFull)
            assert not isinstance(outcomes[1], BaseException)
            assert store.last_seq() == before + 1
            assert broker.metrics.overflow_refused == 3
            assert stored(store, "mine").state is SubscriptionState.ACTIVE
            assert len(await drain(broker, mine.queue_id)) == accepted
            async with asyncio.timeout(10):
                while True:
                    try:
                        await publish(broker, "<a/>")
                        break
                    except QueueFull:
                        await asyncio.sleep(0.05)
            assert len(await drain(broker, other.queue_id)) > 0

    run(play())


def test_each_subscription_of_a_shared_subscriber_has_its_policy(store: Store) -> None:
    async def play() -> None:
        async with running(store, pending_max=LIMIT) as broker:
            for key, policy in (("drop", OverflowPolicy.DROP_OLDEST), ("stop", OverflowPolicy.SUSPEND)):
                await subscribe(broker, key, "//a", subscriber="team", overflow=policy)
            for _ in range(3 * LIMIT):
                await publish(broker, "<a/>")
            assert stored(store, "drop").state is SubscriptionState.ACTIVE
            suspended = stored(store, "stop")
            assert (suspended.state, suspended.missed_from) == (SubscriptionState.SUSPENDED, None)
            keys = [d.key for d in await drain(broker, suspended.queue_id)]
            assert LIMIT // 2 <= len(keys) <= LIMIT + LIMIT // 10
            assert {"drop", "stop"} == set(keys)

    run(play())


def test_the_pusher_empties_the_queue_of_a_suspended_subscription(store: Store) -> None:
    async def play() -> None:
        async with running(store, pending_max=LIMIT) as broker:
            sent: list[int] = []
            got: list[int] = []
            gate = asyncio.Event()

            class Gated(Channel):
                def bounds(self, settings: DeliverySettings) -> SendBounds:
                    return SendBounds(7)

                async def send(
                    self, subscription: StoredSubscription, deliveries: Sequence[QueuedDelivery]
                ) -> Failure | None:
                    await gate.wait()
                    got.extend(d.id.seq for d in deliveries)
                    return None

            pusher = Pusher(broker, {"gated": Gated()})
            broker.add_listener(pusher)
            await pusher.start([])
            await subscribe(broker, "slow", "//a", delivery=DeliverySettings("gated"))
            for _ in range(3 * LIMIT):
                sent += [r.seq for r in await publish(broker, "<a/>")]
            assert stored(store, "slow").is_draining
            gate.set()
            async with asyncio.timeout(30):
                while len(got) < len(sent):
                    await asyncio.sleep(0.02)
            assert got == sent
            await pusher.stop()

    run(play())
