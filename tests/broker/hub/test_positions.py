"""Positions in queues: acknowledging only what was handed out, and beginning anew."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import aclosing
from random import Random

import pytest

from tests.broker.hub.hubs import TENANT, drain, publish, run, running, subscribe
from twigcast.broker.api.streams import AutomaticAcks
from twigcast.broker.errors import Conflict, UnknownDelivery
from twigcast.broker.model import DeliveryId, SubscriptionState
from twigcast.broker.store.store import Store


def test_an_id_that_was_never_handed_out_is_refused_with_the_newest_valid(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            mine = await subscribe(broker, "mine", "//a")
            other = await subscribe(broker, "other", "//a")
            await publish(broker, *["<a/>"] * 5)
            with pytest.raises(UnknownDelivery) as nothing:
                await broker.require_handed_out(mine.queue_id, [DeliveryId(1, mine.id)])
            assert nothing.value.newest is None
            first, second = await broker.pull(mine.queue_id, limit=2, wait=0, visibility=60)
            await broker.require_handed_out(mine.queue_id, [first.id, second.id])
            await broker.acknowledge(mine.queue_id, [first.id])
            # An acknowledgement may be repeated.
            await broker.require_handed_out(mine.queue_id, [first.id])
            for wrong in (
                DeliveryId(3, mine.id),
                DeliveryId(1, other.id),
                DeliveryId(2, other.id + 5),
                DeliveryId(99, mine.id),
                DeliveryId(1 << 62, mine.id),
                DeliveryId(1, 1 << 62),
            ):
                with pytest.raises(UnknownDelivery) as refused:
                    await broker.require_handed_out(mine.queue_id, [first.id, wrong])
                assert refused.value.newest == str(second.id), wrong
        async with running(store) as broker:
            # What was handed out before the start is not known: what is stored may be acknowledged, and nothing else.
            await broker.require_handed_out(mine.queue_id, [second.id, DeliveryId(3, mine.id)])
            with pytest.raises(UnknownDelivery) as refused:
                await broker.require_handed_out(mine.queue_id, [DeliveryId(2, other.id)])
            assert refused.value.newest == str(DeliveryId(5, mine.id))

    run(play())


def test_an_id_whose_message_is_gone_or_whose_subscription_is_deleted_may_still_be_acknowledged(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            one = await subscribe(broker, "one", "//a", subscriber="team")
            two = await subscribe(broker, "two", "//a", subscriber="team")
            await publish(broker, *["<a/>"] * 3)
            got = await broker.pull(one.queue_id, limit=10, wait=0, visibility=60)
            await broker.unsubscribe(two)
            await broker.change(lambda t: t.expire(before=None, bytes_max=0, limit=100, at=0.0))
            await broker.require_handed_out(one.queue_id, [d.id for d in got])

    run(play())


@pytest.mark.parametrize("seed", range(6))
def test_after_a_seek_a_subscription_gets_what_matches_from_there_on(store: Store, seed: int) -> None:
    random = Random(seed)

    async def play() -> None:
        async with running(store) as broker:
            mine = await subscribe(broker, "mine", "//a")
            expected: list[int] = []
            for _ in range(12):
                bodies = [random.choice(["<a/>", "<b/>"]) for _ in range(random.randrange(1, 8))]
                results = await publish(broker, *bodies)
                expected += [r.seq for r in results if r.matches]
                if random.random() < 0.5:
                    got = await broker.pull(mine.queue_id, limit=random.randrange(1, 9), wait=0, visibility=60)
                    done = [d.id for d in got if random.random() < 0.7]
                    await broker.acknowledge(mine.queue_id, done)
                    await broker.release(mine.queue_id, [d.id for d in got])
                    expected = [seq for seq in expected if seq not in {id_.seq for id_ in done}]
                if random.random() < 0.5:
                    last = store.last_seq()
                    target = random.choice([None, random.randrange(0, last + 3)])
                    await broker.seek(mine, target)
                    first = last + 1 if target is None else target
                    stored = store.messages(TENANT, limit=1_000, bytes_max=1 << 20)
                    expected = [m.seq for m in stored if m.xml == b"<a/>" and m.seq >= first]
            got_seqs: list[int] = []
            while len(got_seqs) < len(expected):
                some = await broker.pull(mine.queue_id, limit=100, wait=30, visibility=60)
                await broker.acknowledge(mine.queue_id, [d.id for d in some])
                got_seqs += [d.id.seq for d in some]
            assert got_seqs == expected
            assert await drain(broker, mine.queue_id) == []

    run(play())


def test_a_reader_goes_on_from_where_its_subscription_begins_anew(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            mine = await subscribe(broker, "mine", "//a")
            await publish(broker, *["<a/>"] * 4)
            seen: list[list[int]] = [[]]
            changed = asyncio.Event()

            async def read() -> None:
                async with aclosing(broker.read_queue(mine.queue_id)) as groups:
                    async for group in groups:
                        if not group:
                            seen.append([])
                        seen[-1] += [d.id.seq for d in group]
                        changed.set()

            async def until(expected: list[list[int]]) -> None:
                while seen != expected:
                    changed.clear()
                    await changed.wait()

            reader = asyncio.create_task(read())
            await until([[1, 2, 3, 4]])
            stale = DeliveryId(4, mine.id)
            await broker.seek(mine, 2)
            await until([[1, 2, 3, 4], [2, 3, 4]])
            await broker.seek(mine, 4)
            await until([[1, 2, 3, 4], [2, 3, 4], [4]])
            await broker.seek(mine, None)
            with pytest.raises(UnknownDelivery):
                await broker.require_handed_out(mine.queue_id, [DeliveryId(5, mine.id)])
            await publish(broker, "<a/>")
            await until([[1, 2, 3, 4], [2, 3, 4], [4], [5]])
            await broker.require_handed_out(mine.queue_id, [stale])
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader

    run(play())


def test_a_seek_needs_a_subscriber_of_its_own_and_waits_while_the_subscription_is_paused(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            one = await subscribe(broker, "one", "//a", subscriber="team")
            await subscribe(broker, "two", "//a", subscriber="team")
            with pytest.raises(Conflict, match="subscriber of its own"):
                await broker.seek(one, None)
            mine = await subscribe(broker, "mine", "//a")
            await publish(broker, *["<a/>"] * 3)
            await broker.set_state(mine, SubscriptionState.PAUSED)
            assert (await broker.seek(mine, 2)).replay_next == 2
            assert await drain(broker, mine.queue_id) == []
            await broker.set_state(mine, SubscriptionState.ACTIVE)
            got = await broker.pull(mine.queue_id, limit=9, wait=30, visibility=60)
            assert [d.id.seq for d in got] == [2, 3]

    run(play())


def test_what_was_handed_out_before_a_seek_is_not_acknowledged_after_it(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            mine = await subscribe(broker, "mine", "//a")
            await publish(broker, *["<a/>"] * 4)
            got = await broker.pull(mine.queue_id, limit=9, wait=0, visibility=60)
            before = broker.seek_count(mine.queue_id)
            await broker.seek(mine, 2)
            # As of a receiver that answers while the subscription begins anew.
            await broker.acknowledge_up_to(mine.queue_id, 4, before)
            await broker.acknowledge(mine.queue_id, [d.id for d in got], before)
            acks = AutomaticAcks(broker)
            acks.handed_over(mine.queue_id, got, before)
            await acks.flush(everything=True)
            again = await broker.pull(mine.queue_id, limit=9, wait=30, visibility=60)
            assert [d.id.seq for d in again] == [2, 3, 4]
            acks.handed_over(mine.queue_id, again, broker.seek_count(mine.queue_id))
            await broker.seek(mine, 3)
            await acks.flush(everything=True)
            third = await broker.pull(mine.queue_id, limit=9, wait=30, visibility=60)
            assert [d.id.seq for d in third] == [3, 4]
            acks.handed_over(mine.queue_id, third, broker.seek_count(mine.queue_id))
            await acks.flush(everything=True)
            assert store.pending_count(mine.queue_id) == 0

    run(play())
