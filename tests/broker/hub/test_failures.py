"""When the store fails: everyone is told, engine and store agree afterwards, and listeners miss nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.broker.hub.hubs import TENANT, drain, publish, run, running, subscribe
from twigcast.broker.errors import Conflict, LimitReached, Stopping, StoreFull, StoreUnavailable, TooMany, UnknownObject
from twigcast.broker.model import (
    Accepted,
    DeliverySettings,
    NewQuery,
    NewSubscription,
    QueuedDelivery,
    StoredSubscription,
    Submission,
    SubscriptionState,
)
from twigcast.broker.store.store import Store, Transaction


class FailingStore(Store):
    """A store whose commits can be made to fail, before or after they have happened."""

    def __init__(self, store: Store) -> None:
        vars(self).update(vars(store))
        self.before: Exception | None = None
        self.after: Exception | None = None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with super().transaction() as transaction:
            yield transaction
            if self.before is not None:
                raise self.before
        if self.after is not None:
            raise self.after


@pytest.fixture
def failing(store: Store) -> FailingStore:
    return FailingStore(store)


@pytest.mark.parametrize("error", [StoreUnavailable("it is away"), StoreFull("it is full"), OSError("a fault")])
def test_all_of_a_failed_group_are_told_and_nothing_has_changed(failing: FailingStore, error: Exception) -> None:
    async def play() -> None:
        async with running(failing) as broker:
            kept = await subscribe(broker, "kept", "//a")
            paused = await subscribe(broker, "paused", "//a")
            await broker.set_state(paused, SubscriptionState.PAUSED)
            failing.before = error
            calls = [
                broker.publish([Submission(TENANT, b"<a/>")]),
                broker.subscribe([NewSubscription(TENANT, "new", "//a")]),
                broker.unsubscribe(kept),
                broker.replace(kept, query="//b", namespaces={}, dialect="xpath", delivery=DeliverySettings()),
                broker.replace_queries([NewQuery(kept, "//b", {}, "xpath"), NewQuery(paused, "//b", {}, "xpath")]),
                broker.set_state(paused, SubscriptionState.ACTIVE),
                broker.publish([Submission(TENANT, b"<b/>")]),
                broker.change(lambda transaction: transaction.next_seq()),
            ]
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(result) for result in results[:3]] == [type(error)] * 3
            assert all(isinstance(result, type(error)) for result in results if not isinstance(result, UnknownObject))
            assert broker.readiness() is not None
            failing.before = None
            (result,) = await publish(broker, "<a/>")
            assert (result.matches, result.seq) == (1, 1)
            assert broker.readiness() is None
            assert len(await drain(broker, kept.queue_id)) == 1
            assert failing.subscription(TENANT, "new") is None
            assert isinstance(await subscribe(broker, "new", "//a"), StoredSubscription)

    run(play())


def test_a_commit_that_was_done_although_it_failed(failing: FailingStore) -> None:
    async def play() -> None:
        async with running(failing) as broker:
            first = await subscribe(broker, "first", "//a")
            second = await subscribe(broker, "second", "//a")
            got: list[QueuedDelivery] = []

            async def listen() -> None:
                async for group in broker.read_queue(first.queue_id):
                    got.extend(group)

            listener = asyncio.create_task(listen())
            await publish(broker, "<a/>")
            while len(got) < 1:
                await asyncio.sleep(0.001)
            failing.after = StoreUnavailable("the answer was lost")
            results = await asyncio.gather(
                broker.publish([Submission(TENANT, b"<a/>", message_id="lost")]),
                broker.subscribe([NewSubscription(TENANT, "third", "//a")]),
                broker.unsubscribe(second),
                return_exceptions=True,
            )
            assert all(isinstance(result, StoreUnavailable) for result in results)
            failing.after = None
            again = await broker.publish([Submission(TENANT, b"<a/>", message_id="lost"), Submission(TENANT, b"<a/>")])
            assert [isinstance(r, Accepted) and (r.duplicate, r.matches) for r in again] == [(True, 2), (False, 2)]
            while len(got) < 3:
                await asyncio.sleep(0.001)
            assert [d.id.seq for d in got] == [1, 2, 3]
            third = failing.subscription(TENANT, "third")
            assert third is not None
            assert [d.id.seq for d in await drain(broker, third.queue_id)] == [3]
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    run(play())


def test_one_that_fails_alone_does_not_harm_the_others(store: Store) -> None:
    def broken(transaction: Transaction) -> int:
        transaction.add_tenant("never", {})
        raise Conflict("it is there already")

    async def play() -> None:
        async with running(store) as broker:
            gone = await subscribe(broker, "gone", "//a")
            await subscribe(broker, "there", "//a")
            results = await asyncio.gather(
                broker.publish([Submission(TENANT, b"<a/>")]),
                broker.unsubscribe(gone),
                broker.change(broken),
                broker.unsubscribe(gone),
                broker.publish([Submission(TENANT, b"<a/>")]),
                return_exceptions=True,
            )
            assert isinstance(results[2], Conflict)
            assert isinstance(results[3], UnknownObject)
            assert [r.matches for r in (*results[0], *results[4])] == [2, 1]  # type: ignore[misc]
            assert [tenant.name for tenant in store.tenants()] == ["default"]

    run(play())


def test_more_than_can_wait_is_turned_away_with_the_time_to_come_back(store: Store) -> None:
    async def play() -> None:
        async with running(store, queue_messages_max=10, group_messages_max=5) as broker:
            calls = [broker.publish([Submission(TENANT, b"<a/>")] * 4) for _ in range(6)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            refused = [r for r in results if isinstance(r, TooMany)]
            assert len(refused) == 4
            assert all(r.retry_after is not None and r.retry_after > 0 for r in refused)
            assert (broker.metrics.accepted, broker.metrics.refused) == (8, 16)
            # A single one that is larger than the room gets in when nothing else waits.
            assert len(await broker.publish([Submission(TENANT, b"<a/>")] * 30)) == 30

    run(play())


def test_a_graceful_stop_finishes_what_was_begun_and_ends_those_who_read(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            subscription = await subscribe(broker, "k", "//a")
            other = await subscribe(broker, "other", "//b")

            async def listen() -> int:
                return sum([len(group) async for group in broker.read_queue(subscription.queue_id)])

            listener = asyncio.create_task(listen())
            puller = asyncio.create_task(broker.pull(other.queue_id, limit=1, wait=30, visibility=1))
            begun = [asyncio.create_task(broker.publish([Submission(TENANT, b"<a/>")])) for _ in range(20)]
            await asyncio.sleep(0)
            broker.drain()
            with pytest.raises(Stopping):
                await broker.publish([Submission(TENANT, b"<a/>")])
            assert await puller == []
            await listener
            published = await asyncio.gather(*begun)
            assert all(isinstance(r, Accepted) and r.matches == 1 for (r,) in published)
            await broker.acknowledge_up_to(subscription.queue_id, 3)
            assert [group async for group in broker.read_queue(subscription.queue_id)] == []

    run(play())
    assert store.last_seq() == 20
    queue = store.queue(TENANT, "k")
    assert queue is not None
    assert store.pending_count(queue.id) == 17


def test_a_lane_that_nobody_empties_is_suspended_and_goes_on_when_resumed(store: Store) -> None:
    async def play() -> None:
        async with running(store, pending_max=50) as broker:
            slow = await subscribe(broker, "slow", "//a", subscriber="team")
            also = await subscribe(broker, "also", "//a", subscriber="team")
            good = await subscribe(broker, "good", "//a")
            for _ in range(60):
                await publish(broker, "<a/>")
                await drain(broker, good.queue_id)
            pending = store.pending_count(slow.queue_id)
            assert 50 < pending <= 60
            for key in ("slow", "also"):
                result = store.subscription(TENANT, key)
                assert result is not None
                assert result.state is SubscriptionState.SUSPENDED
                assert "50" in (result.reason or "")
                assert store.errors(result.id, 5)[0].reason.startswith("suspended")
            assert broker.metrics.suspended == 2
            assert len(await drain(broker, slow.queue_id)) == pending
            await broker.set_state(slow, SubscriptionState.ACTIVE)
            await publish(broker, "<a/>")
            assert [d.key for d in await drain(broker, also.queue_id)] == ["slow"]
            assert store.subscription(TENANT, "good") == good

    run(play())


def test_a_tenant_has_as_many_subscriptions_as_it_may(store: Store) -> None:
    async def play() -> None:
        async with running(store, subscriptions_max=3) as broker:
            await subscribe(broker, "k0", "//a")
            results = await broker.subscribe([NewSubscription(TENANT, f"k{n}", "//a") for n in range(1, 6)])
            assert [type(r) for r in results] == [StoredSubscription, StoredSubscription, *[LimitReached] * 3]
            first = store.subscription(TENANT, "k0")
            assert first is not None
            await broker.set_state(first, SubscriptionState.PAUSED)
            (refused,) = await broker.subscribe([NewSubscription(TENANT, "more", "//a")])
            assert isinstance(refused, LimitReached)
            await broker.unsubscribe(first)
            assert isinstance(await subscribe(broker, "more", "//a"), StoredSubscription)

    run(play())


def test_what_no_longer_fits_the_limits_at_a_start_is_suspended(store: Store) -> None:
    from twigcast.limits import Limits

    long = "//a[" + " or ".join(f". = '{number}'" for number in range(20)) + "]"

    async def play() -> None:
        async with running(store) as broker:
            await subscribe(broker, "long", long)
            await subscribe(broker, "short", "//a")
        async with running(store, limits=Limits(query_bytes_max=100)) as broker:
            (accepted,) = await publish(broker, "<a>1</a>")
            assert accepted.matches == 1
            result = store.subscription(TENANT, "long")
            assert result is not None
            assert result.state is SubscriptionState.SUSPENDED
            assert store.errors(result.id, 5)

    run(play())


def test_a_fault_with_one_publication_is_its_own_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(body: bytes, charset: str | None, bytes_max: int) -> bytes:
        if body == b"<fault/>":
            raise RuntimeError("a fault")
        return body

    monkeypatch.setattr("twigcast.broker.hub.evaluation.recoded", stumble)

    async def play() -> None:
        async with running(store) as broker:
            await subscribe(broker, "all", "/*")
            bodies = [b"<a/>", b"<fault/>", b"<b/>", b"<fault/>", b"<c/>"]
            calls = [broker.publish([Submission(TENANT, body)]) for body in bodies]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            for body, answer in zip(bodies, answers, strict=True):
                if body == b"<fault/>":
                    assert isinstance(answer, RuntimeError)
                else:
                    assert isinstance(answer, list)
                    assert isinstance(answer[0], Accepted)
            stored = store.messages(TENANT, limit=10)
            assert [message.xml for message in stored] == [b"<a/>", b"<b/>", b"<c/>"]
            assert [message.matches for message in stored] == [1, 1, 1]

    run(play())
