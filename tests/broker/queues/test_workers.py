"""Shared queues: what several workers get, against a model of a few lines, and what each of them may say."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from random import Random

from tests.broker.hub.hubs import TENANT, publish, run, running, subscribe
from tests.seeds import printed_seed
from twigcast.broker.broker import Broker
from twigcast.broker.errors import Conflict
from twigcast.broker.model import (
    DeliveryId,
    DeliverySettings,
    NewSubscription,
    QueuedDelivery,
    Receipt,
    Sharing,
    StoredSubscription,
)
from twigcast.broker.store.store import Store

ATTEMPTS_MAX = 3
SHARED = DeliverySettings(options={"queue": "shared", "lease_seconds": 30.0, "attempts_max": ATTEMPTS_MAX})
SHARING = Sharing(30.0, ATTEMPTS_MAX)


class Clock:
    """The time of the test: for leases, and for what is stored of them."""

    def __init__(self, broker: Broker, now: float = 1_000.0) -> None:
        self.now = now
        self.rule(broker)

    def rule(self, broker: Broker) -> None:
        broker._shared._clock = broker._shared._wall = lambda: self.now


async def shared(broker: Broker, key: str = "jobs", query: str = "//a") -> StoredSubscription:
    return await subscribe(broker, key, query, delivery=SHARED)


async def pull(broker: Broker, queue_id: int, limit: int = 10, **more: float) -> list[QueuedDelivery]:
    settings = {"wait": 0.0, "visibility": None} | more
    return await broker.pull(queue_id, limit=limit, sharing=SHARING, **settings)  # type: ignore[arg-type]


def receipt(delivery: QueuedDelivery) -> Receipt:
    return Receipt(delivery.id, delivery.attempt)


def seqs(deliveries: list[QueuedDelivery]) -> list[int]:
    return [delivery.id.seq for delivery in deliveries]


@dataclass
class Job:
    """A delivery in the model."""

    attempts: int = 0
    until: float = 0.0
    """When its lease or delay ends; 0 if it is free."""
    leased: bool = False


class Model:
    """What the workers of a queue should get."""

    def __init__(self) -> None:
        self.jobs: dict[DeliveryId, Job] = {}
        self.dead: set[DeliveryId] = set()

    def end_overdue(self, now: float) -> None:
        for id_, job in list(self.jobs.items()):
            if job.until and job.until <= now:
                if job.attempts >= ATTEMPTS_MAX:
                    self.die(id_)
                else:
                    job.until, job.leased = 0.0, False

    def die(self, id_: DeliveryId) -> None:
        del self.jobs[id_]
        self.dead.add(id_)

    def take(self, limit: int, now: float, seconds: float) -> list[tuple[DeliveryId, int]]:
        self.end_overdue(now)
        free = sorted(id_ for id_, job in self.jobs.items() if not job.until)
        taken = ([id_ for id_ in free if self.jobs[id_].attempts] + [i for i in free if not self.jobs[i].attempts])[
            :limit
        ]
        for id_ in taken:
            self.jobs[id_] = Job(self.jobs[id_].attempts + 1, now + seconds, leased=True)
        return [(id_, self.jobs[id_].attempts) for id_ in taken]

    def has(self, item: Receipt) -> bool:
        job = self.jobs.get(item.id)
        return job is not None and job.leased and job.attempts == item.attempt


class Play:
    """One history: what is done at random, to the broker and to the model."""

    def __init__(self, store: Store, chance: Random) -> None:
        self.store = store
        self.chance = chance
        self.model = Model()
        self.got: list[Receipt] = []
        self.now = 1_000.0
        self.subscription: StoredSubscription | None = None

    async def life(self, steps: int) -> None:
        """A broker, from its start to its end."""
        async with running(self.store) as self.broker:
            self.clock = Clock(self.broker, self.now)
            # The leases of the life before, by the clock of the test.
            self.broker._shared._tables.clear()
            self.broker._shared.load(self.store.leases(), self.broker._sharing)
            # Leases that are over end now, as they do within a second of any start.
            await self.broker._shared.tend()
            self.subscription = self.subscription or await shared(self.broker)
            self.queue_id = self.subscription.queue_id
            for _ in range(steps):
                some = self.chance.sample(self.got, min(len(self.got), self.chance.randint(1, 4)))
                step = self.chance.choice(
                    (self.publish, self.pull, self.pull, self.acknowledge, self.give_back, self.extend, self.wait)
                )
                await step(some)
            self.now = self.clock.now
            letters = self.store.dead_letters(TENANT, limit=999)
            assert {DeliveryId(letter.seq, letter.subscription_id) for letter in letters} == self.model.dead
            assert self.store.pending_count(self.queue_id) == len(self.model.jobs)

    async def publish(self, _: list[Receipt]) -> None:
        accepted = await publish(self.broker, *["<a/>"] * self.chance.randint(1, 4))
        assert self.subscription is not None
        self.model.jobs |= {DeliveryId(one.seq, self.subscription.id): Job() for one in accepted}

    async def pull(self, _: list[Receipt]) -> None:
        limit, seconds = self.chance.randint(1, 5), self.chance.choice((5.0, 20.0))
        taken = await pull(self.broker, self.queue_id, limit, visibility=seconds)
        assert [(d.id, d.attempt) for d in taken] == self.model.take(limit, self.clock.now, seconds)
        assert all(d.redelivered for d in taken if d.attempt > 1)
        self.got += [receipt(d) for d in taken]

    async def acknowledge(self, some: list[Receipt]) -> None:
        await self.broker.acknowledge(self.queue_id, [item.id for item in some])
        for item in some:
            self.model.jobs.pop(item.id, None)

    async def give_back(self, some: list[Receipt]) -> None:
        delay = self.chance.choice((0.0, 7.0))
        current = [item for item in some if self.model.has(item)]
        await self.broker.give_back(self.queue_id, some, delay=delay)
        for item in current:
            if item.attempt == ATTEMPTS_MAX:
                self.model.die(item.id)
            else:
                self.model.jobs[item.id] = Job(item.attempt or 0, self.clock.now + delay if delay else 0.0)

    async def extend(self, some: list[Receipt]) -> None:
        lost = await self.broker.extend(self.queue_id, some, 10.0)
        assert lost == [item for item in some if not self.model.has(item)]
        for item in some:
            if self.model.has(item):
                self.model.jobs[item.id].until = self.clock.now + 10.0

    async def wait(self, _: list[Receipt]) -> None:
        self.clock.now += self.chance.choice((1.0, 5.0, 25.0))
        self.model.end_overdue(self.clock.now)
        await self.broker._shared.tend()


def test_random_histories_of_workers_are_those_of_the_model(store: Store) -> None:
    play = Play(store, Random(printed_seed()))

    async def lives() -> None:
        for _ in range(3):
            await play.life(30)

    run(lives())


def test_workers_get_different_deliveries_and_one_that_waits_gets_what_comes(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            queue = (await shared(broker)).queue_id
            await publish(broker, *["<a/>"] * 5)
            first, second = await pull(broker, queue, 2), await pull(broker, queue, 2)
            assert (seqs(first), seqs(second)) == ([1, 2], [3, 4])
            waiting = asyncio.gather(*[pull(broker, queue, 1, wait=10.0) for _ in range(3)])
            await publish(broker, "<a/>", "<a/>")
            assert sorted(seqs([d for taken in await waiting for d in taken])) == [5, 6, 7]

    run(play())


def test_a_delivery_that_is_given_back_with_a_delay_holds_up_nothing_else(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            clock = Clock(broker)
            queue = (await shared(broker)).queue_id
            await publish(broker, *["<a/>"] * 3)
            (first,) = await pull(broker, queue, 1)
            await broker.give_back(queue, [receipt(first)], delay=20.0)
            assert broker.attempts(queue).next_retry is not None
            assert seqs(await pull(broker, queue)) == [2, 3]
            clock.now += 20.0
            (again,) = await pull(broker, queue)
            assert (again.id, again.attempt, again.redelivered) == (first.id, 2, True)

    run(play())


def test_the_last_attempt_leads_to_a_dead_letter_that_can_be_redriven(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            queue = (await shared(broker)).queue_id
            await publish(broker, "<a>1</a>", "<a>2</a>")
            for _ in range(ATTEMPTS_MAX):
                (bad, good) = await pull(broker, queue)
                await broker.give_back(queue, [receipt(bad)], reason="no such account")
                await broker.give_back(queue, [receipt(good)], delay=0.0) if good.attempt < ATTEMPTS_MAX else None
            await broker.acknowledge(queue, [good.id])
            (letter,) = store.dead_letters(TENANT, limit=9)
            assert (letter.seq, letter.attempts) == (1, ATTEMPTS_MAX)
            assert letter.reason.startswith("no such account")
            assert await pull(broker, queue) == []
            assert await broker.redrive([letter.id]) == 1
            (again,) = await pull(broker, queue)
            assert (again.id, again.attempt, again.body) == (bad.id, 1, b"<a>1</a>")
            assert store.dead_letters(TENANT, limit=9) == []
            await broker.acknowledge(queue, [again.id])
            assert store.pending_count(queue) == 0
            assert list(store.leases()) == []

    run(play())


def test_what_expired_stays_a_dead_letter(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            queue = (await shared(broker)).queue_id
            await publish(broker, "<a/>")
            for _ in range(ATTEMPTS_MAX):
                await broker.give_back(queue, [receipt(d) for d in await pull(broker, queue)])
            (letter,) = store.dead_letters(TENANT, limit=9)
            await broker.change(lambda tx: tx.expire(before=9e12, bytes_max=None, limit=99, at=0.0))
            assert await broker.redrive([letter.id]) == 0
            assert [one.id for one in store.dead_letters(TENANT, limit=9)] == [letter.id]

    run(play())


def test_a_stream_has_so_many_at_a_time_and_keeps_its_leases_when_it_ends(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            queue = (await shared(broker)).queue_id
            await publish(broker, *["<a/>"] * 5)
            async with aclosing(broker.work(queue, SHARING, in_flight_max=2)) as groups:
                first = await anext(groups)
                assert seqs(first) == [1, 2]
                following = asyncio.ensure_future(anext(groups))
                assert seqs(await pull(broker, queue, 1)) == [3]
                assert not following.done()
                await broker.acknowledge(queue, [first[0].id])
                assert seqs(await following) == [4]
            assert seqs(await pull(broker, queue)) == [5]
            assert broker.in_flight() == 4

    run(play())


def test_a_stream_whose_leases_end_gets_deliveries_again(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            clock = Clock(broker)
            queue = (await shared(broker)).queue_id
            await publish(broker, "<a/>")
            async with aclosing(broker.work(queue, SHARING, in_flight_max=1, seconds=5.0)) as groups:
                (first,) = await anext(groups)
                following = asyncio.ensure_future(anext(groups))
                await asyncio.sleep(0)
                clock.now += 5.0
                (again,) = await following  # the broker looks at ends of leases every second
                assert (again.id, again.attempt) == (first.id, 2)

    run(play())


def test_a_worker_that_goes_away_while_it_is_served_gives_back_what_it_did_not_get(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            queue = (await shared(broker)).queue_id
            waiting = asyncio.ensure_future(pull(broker, queue, 1, wait=30.0))
            await asyncio.sleep(0)
            await publish(broker, "<a/>")
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            if waiting.cancelled():
                (taken,) = await pull(broker, queue, wait=10.0)
                assert taken.attempt == 1

    run(play())


def test_a_seek_forgets_what_workers_have(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            subscription = await shared(broker)
            queue = subscription.queue_id
            await publish(broker, "<a>1</a>", "<a>2</a>")
            old = await pull(broker, queue)
            await broker.seek(subscription, 1)
            new = [d for _ in range(2) for d in await pull(broker, queue, 1, wait=10.0)]
            assert [(d.id, d.attempt) for d in new] == [(d.id, 1) for d in old]

    run(play())


def test_settings_of_a_subscriber_agree_and_can_change_while_it_is_alone(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            one = await shared(broker, "one")
            (refused,) = await broker.subscribe([NewSubscription(TENANT, "two", "//b", subscriber="one")])
            assert isinstance(refused, Conflict)
            assert "attempts_max = 3" in str(refused)
            await publish(broker, "<a/>", "<a/>")
            waiting = asyncio.ensure_future(pull(broker, one.queue_id, 1, wait=30.0))
            (first,) = await waiting
            ordered = await broker.replace(
                one, query=one.query, namespaces={}, dialect="xpath", delivery=DeliverySettings()
            )
            state = store.queue(TENANT, "one")
            assert state is not None
            assert state.sharing is None
            assert list(store.leases()) == []
            both = await broker.pull(one.queue_id, limit=9, wait=0, visibility=30)
            assert both[0].id == first.id
            assert ordered.delivery.sharing is None

    run(play())


def test_a_worker_and_the_end_of_its_lease_make_one_dead_letter(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            queue = (await shared(broker)).queue_id
            await publish(broker, *(f"<a>{number}</a>" for number in range(50)))
            for _ in range(ATTEMPTS_MAX - 1):
                await broker.give_back(queue, list(map(receipt, await pull(broker, queue, limit=50))))
            last = await pull(broker, queue, limit=50)
            # While these become dead letters one by one, the next pulls find that their attempts are used up.
            given_back = [broker.give_back(queue, [receipt(delivery)], reason="no") for delivery in last]
            await asyncio.gather(*given_back, *(pull(broker, queue) for _ in range(10)))
            assert sorted(letter.seq for letter in store.dead_letters(TENANT, limit=200)) == seqs(last)
            assert broker.metrics.attempts_used_up == len(last)

    run(play())


def test_several_who_skip_make_one_dead_letter_of_each(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            queue_id = (await subscribe(broker, "jobs", "//a")).queue_id
            await publish(broker, *(f"<a>{number}</a>" for number in range(20)))
            queue = store.queue(TENANT, "jobs")
            assert queue is not None
            assert queue.id == queue_id
            counts = await asyncio.gather(*(broker.skip(queue, 20, as_dead_letters=True) for _ in range(4)))
            assert sum(counts) == 20
            assert len(store.dead_letters(TENANT, limit=200)) == 20

    run(play())
