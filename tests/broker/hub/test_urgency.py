"""Urgency in a running broker: what is evaluated, stored, handed out and sent first; what becomes of what is late."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Any

import pytest

from tests.broker.delivery import pushing
from tests.broker.delivery.receiver import Got, Receiver, Reply
from tests.broker.hub.hubs import TENANT, drain, heard, publish, run, running, subscribe
from tests.broker.hub.test_evaluation import Held, hold, until
from tests.broker.store.filling import deliver
from tests.broker.test_urgency import Model
from tests.seeds import printed_seed
from twigcast.broker.broker import Broker
from twigcast.broker.errors import TooMany
from twigcast.broker.model import (
    DeliveryId,
    DeliverySettings,
    NewSubscription,
    QueuedDelivery,
    Receipt,
    StoredMessage,
    StoredSubscription,
    Submission,
)
from twigcast.broker.store.store import Store
from twigcast.broker.urgency import NEVER, OverduePolicy, Urgency

__all__ = ["hold"]

BY_URGENCY = DeliverySettings(options={"queue": "shared", "lease_seconds": 30.0, "attempts_max": 5, "order": "urgency"})
IN_AN_HOUR = 3_600.0


async def taken(broker: Broker, one: StoredSubscription, limit: int = 1) -> list[QueuedDelivery]:
    return await broker.pull(one.queue_id, limit=limit, wait=0, sharing=one.delivery.sharing)


def bodies(deliveries: list[QueuedDelivery]) -> list[str]:
    return [delivery.body.decode() for delivery in deliveries]


def test_the_tornado_does_not_wait_behind_the_parking_notices(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            desk = await subscribe(broker, "desk", "/*", delivery=BY_URGENCY)
            await publish(broker, *("<parking/>" for _ in range(30)))
            await publish(broker, "<tornado/>", priority=9)
            await publish(broker, "<advert/>", priority=0)
            assert bodies(await taken(broker, desk, 2)) == ["<tornado/>", "<parking/>"]
            # One of so many is the one that has waited longest; the advert is the last to be that.
            rest = bodies(await taken(broker, desk, 100))
            assert rest == ["<parking/>"] * 29 + ["<advert/>"]

    run(play())


def test_a_delivery_that_comes_back_is_chosen_by_its_urgency(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            desk = await subscribe(broker, "desk", "/*", delivery=BY_URGENCY)
            await publish(broker, "<low/>", priority=1)
            (low,) = await taken(broker, desk)
            await publish(broker, "<high/>", priority=8)
            await broker.give_back(desk.queue_id, [Receipt(low.id, low.attempt)])
            got = await taken(broker, desk, 5)
            assert [(d.body, d.attempt) for d in got] == [(b"<high/>", 1), (b"<low/>", 2)]
            await broker.acknowledge(desk.queue_id, [d.id for d in got])
            assert await taken(broker, desk) == []
            assert store.pending_count(desk.queue_id) == 0

    run(play())


def test_the_order_of_a_shared_queue_can_change_while_workers_have_deliveries(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            plain = {name: value for name, value in BY_URGENCY.options.items() if name != "order"}
            one = await subscribe(broker, "one", "/*", delivery=DeliverySettings(options=plain))
            await publish(broker, "<a/>", "<b/>")
            (first,) = await taken(broker, one)
            one = await change(broker, one, delivery=BY_URGENCY)
            await publish(broker, "<c/>", priority=9)
            assert bodies(await taken(broker, one)) == ["<c/>"]
            await broker.give_back(one.queue_id, [Receipt(first.id, first.attempt)])
            one = await change(broker, one, delivery=DeliverySettings(options=plain))
            assert bodies(await taken(broker, one, 5)) == ["<a/>", "<b/>"]

    run(play())


async def change(broker: Broker, one: StoredSubscription, **settings: Any) -> StoredSubscription:
    kept = {name: getattr(one, name) for name in ("delivery", "urgency")} | settings
    return await broker.replace(one, query=one.query, namespaces={}, dialect="xpath", **kept)


def test_the_store_chooses_as_a_list_does_on_random_histories(store: Store) -> None:
    chance = random.Random(printed_seed())
    with store.transaction() as transaction:
        new = [NewSubscription(1, key, "//a", subscriber="s", delivery=BY_URGENCY) for key in ("k", "l")]
        subscriptions: list[Any] = transaction.add_subscriptions(new, at=1.0)
    queue_id, model, choices = subscriptions[0].queue_id, Model(), 0
    ids: dict[int, DeliveryId] = {}
    now = time.time()
    for _ in range(60):
        if chance.random() < 0.5:
            messages = add_messages(store, chance, now)
            chosen = chance.sample(subscriptions, chance.choice((1, 2)))
            deliver(store, messages, chosen)
            for message in messages:
                for one in sorted(chosen, key=lambda one: one.id):
                    number = message.seq * 10 + one.id
                    ids[number] = DeliveryId(message.seq, one.id)
                    due = NEVER if message.deadline is None else message.deadline
                    model.waiting.append((4 if message.priority is None else message.priority, due, number))
            continue
        limit, model.choices = chance.randrange(1, 12), choices
        held = chance.sample(model.waiting, min(len(model.waiting), chance.choice((0, 0, 2))))
        model.waiting = [one for one in model.waiting if one not in held]
        before = list(model.waiting)
        expected = [ids[model.pop(now)] for _ in range(min(limit, len(model.waiting)))]
        without = {ids[one[2]] for one in held}
        got = store.pending_by_urgency(queue_id, limit=limit, bytes_max=1 << 20, without=without, choices=choices)
        assert [d.id for d in got] == expected
        if chance.random() < 0.6:
            with store.transaction() as transaction:
                transaction.acknowledge(queue_id, [d.id for d in got])
            choices += len(got)
        else:
            model.waiting = before
        model.waiting += held


def add_messages(store: Store, chance: random.Random, now: float) -> list[StoredMessage]:
    with store.transaction() as transaction:
        first = transaction.next_seq()
        messages = [
            StoredMessage(
                *(seq, 1, "s", f"m{seq}", now, b"<a/>", 1, None),
                priority=chance.choice((None, *range(10))),
                deadline=chance.choice((None, now - 100, now + IN_AN_HOUR, now + 2 * IN_AN_HOUR)),
            )
            for seq in range(first, first + chance.randrange(1, 8))
        ]
        transaction.add_messages(messages)
    return messages


def test_urgent_publications_overtake_those_that_wait_but_no_change(store: Store, hold: Held) -> None:
    hold[b"<m n='first'/>"] = threading.Event()

    async def play() -> None:
        async with running(store) as broker:
            await subscribe(broker, "one", "/*")
            calls = [asyncio.create_task(publish(broker, "<m n='first'/>"))]
            await until(lambda: hold.waiting)
            kinds = (None, "a"), (9, "b"), (0, "c"), (None, "d"), (9, "e")
            calls += [asyncio.create_task(publish(broker, f"<m n='{n}'/>", priority=p)) for p, n in kinds]
            await asyncio.sleep(0)
            later = asyncio.create_task(subscribe(broker, "two", "/*"))
            await asyncio.sleep(0)
            calls += [asyncio.create_task(publish(broker, "<m n='f'/>", priority=9))]
            await until(lambda: broker.metrics.queued_messages == 7)
            hold[b"<m n='first'/>"].set()
            seqs = [(await call)[0].seq for call in calls]
            await later
            assert seqs == [1, 4, 2, 6, 5, 3, 7]
            last = store.message(TENANT, 7)
            assert last is not None
            assert (last.priority, last.matches) == (9, 2)

    run(play())


def test_what_is_urgent_finds_room_where_the_rest_has_taken_all(store: Store, hold: Held) -> None:
    hold[b"<m n='first'/>"] = threading.Event()

    async def play() -> None:
        async with running(store, queue_messages_max=20) as broker:
            calls = [asyncio.create_task(publish(broker, "<m n='first'/>"))]
            await until(lambda: hold.waiting)
            calls += [asyncio.create_task(publish(broker, "<m/>")) for _ in range(19)]
            await asyncio.sleep(0)
            with pytest.raises(TooMany):
                await publish(broker, "<m/>")
            calls += [asyncio.create_task(publish(broker, "<m/>", priority=5)) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(TooMany):
                await publish(broker, "<m/>", priority=9)
            hold[b"<m n='first'/>"].set()
            assert len(await asyncio.gather(*calls)) == 22

    run(play())


def test_what_is_late_is_marked_and_comes_last(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            desk = await subscribe(broker, "desk", "/*", delivery=BY_URGENCY)
            stream = await subscribe(broker, "stream", "/*")
            now = time.time()
            await publish(broker, "<late/>", priority=9, deadline=now - 1)
            await publish(broker, "<early/>", deadline=now + IN_AN_HOUR)
            got = await taken(broker, desk, 5)
            assert [(d.body, d.is_overdue(now), d.due) for d in got] == [
                (b"<early/>", False, now + IN_AN_HOUR),
                (b"<late/>", True, now - 1),
            ]
            got = await heard(broker, stream.queue_id, 2)
            assert [(d.body, d.is_overdue(now)) for d in got] == [(b"<late/>", True), (b"<early/>", False)]
            assert broker.metrics.overdue == 2

    run(play())


@pytest.mark.parametrize("delivery", [DeliverySettings(), BY_URGENCY])
def test_what_is_late_is_dropped_as_the_subscription_wishes_and_it_is_told(
    store: Store, delivery: DeliverySettings
) -> None:
    async def play() -> None:
        async with running(store) as broker:
            drops = Urgency(deadline_seconds=0.3, overdue=OverduePolicy.DROP)
            one = await subscribe(broker, "one", "/*", delivery=delivery, urgency=drops)
            keeps = await subscribe(broker, "keeps", "/*", urgency=Urgency(deadline_seconds=0.3))
            await publish(broker, "<a/>")
            (out,) = await broker.pull(one.queue_id, limit=1, wait=0, sharing=delivery.sharing)
            await publish(broker, "<b/>", "<c/>")
            await asyncio.sleep(0.35)
            await publish(broker, "<d/>")
            # Nobody gets them from their deadline on, before and after they are dropped.
            got = await broker.pull(one.queue_id, limit=9, wait=0, sharing=delivery.sharing)
            assert "<b/>" not in bodies(got)
            assert "<c/>" not in bodies(got)
            # What somebody had in time is not dropped.
            await broker.acknowledge(one.queue_id, [out.id])
            assert broker.metrics.overdue_dropped == 2
            (record,) = store.errors(one.id, 9)
            assert (record.reason, record.count, record.seq) == ("2 deliveries were dropped: too late", 2, 3)
            assert store.errors(keeps.id, 9) == []
            assert [d.is_overdue(time.time()) for d in await drain(broker, keeps.queue_id)][:3] == [True] * 3
            await broker.acknowledge(one.queue_id, [delivery.id for delivery in got])
            await until(lambda: store.pending_count(one.queue_id) == 0)
            assert broker.metrics.overdue_dropped == 3 - len(got)

    run(play())


def test_a_mark_does_not_pass_over_what_nobody_got(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            drops = Urgency(deadline_seconds=0.2, overdue=OverduePolicy.DROP)
            one = await subscribe(broker, "one", "/*", urgency=drops)
            await publish(broker, "<a/>")
            await asyncio.sleep(0.25)
            (accepted,) = await publish(broker, "<b/>")
            got = await heard(broker, one.queue_id, 1)
            assert bodies(got) == ["<b/>"]
            await broker.acknowledge_up_to(one.queue_id, accepted.seq)
            assert broker.metrics.overdue_dropped == 1
            assert store.pending_count(one.queue_id) == 0

    run(play())


def test_the_urgency_of_what_waits_outlives_a_restart(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            drops = Urgency(priority=2, deadline_seconds=IN_AN_HOUR, overdue=OverduePolicy.DROP)
            await subscribe(broker, "one", "/*", delivery=BY_URGENCY, urgency=drops)
            await publish(broker, "<a/>")
            await publish(broker, "<b/>", priority=7)
        store.memory.urgent_queues.clear()
        store.memory.urgent_subscriptions.clear()
        again = Store(store.database, exclusive=True)
        async with running(again) as broker:
            one = again.subscription(TENANT, "one")
            assert one is not None
            assert one.urgency == drops
            await publish(broker, "<c/>", priority=6)
            assert bodies(await taken(broker, one, 9)) == ["<b/>", "<c/>", "<a/>"]

    run(play())


def test_a_replay_is_in_the_order_of_urgency_too(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            await publish(broker, "<a/>")
            await publish(broker, "<b/>", priority=9)
            one = await subscribe(broker, "one", "/*", delivery=BY_URGENCY, replay_from=1)
            await until(lambda: store.pending_count(one.queue_id) == 2)
            assert bodies(await taken(broker, one, 9)) == ["<b/>", "<a/>"]
            await broker.seek(one, 1)
            await until(lambda: store.pending_count(one.queue_id) == 2)
            assert bodies(await taken(broker, one, 9)) == ["<b/>", "<a/>"]
            queue = store.queue(TENANT, "one")
            assert queue is not None
            assert await broker.purge(queue) == 2
            assert await taken(broker, one, 9) == []

    run(play())


def test_a_webhook_gets_the_most_urgent_delivery_next_and_failures_again(store: Store) -> None:
    async def play() -> None:
        replies = iter([Reply(503)])

        def reply(got: Got) -> Reply:
            return next(replies, Reply())

        async with Receiver(reply) as receiver, running(store) as broker:
            settings = DeliverySettings("webhook", f"{receiver.url}/hook", options={"order": "urgency"})
            one = await subscribe(broker, "hook", "/*", delivery=settings)
            await publish(broker, *("<parking/>" for _ in range(12)))
            await publish(broker, "<tornado/>", priority=9)
            async with pushing.running(broker):
                await receiver.count(14)
                await until(lambda: store.pending_count(one.queue_id) == 0)
            sent = [got.body for got in receiver.got]
            assert sent[0] == b"<tornado/>"
            assert sent.count(b"<tornado/>") == 2

    run(play())


def test_submissions_of_one_batch_go_together(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            await subscribe(broker, "one", "/*")
            batch = [Submission(TENANT, b"<a/>", priority=0), Submission(TENANT, b"<b/>", priority=9)]
            results: list[Any] = await broker.publish(batch)
            assert [one.seq for one in results] == [1, 2]

    run(play())
