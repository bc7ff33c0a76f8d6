"""Listeners at the seam between store and live hand-over: random timings, against a list."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tests.broker.hub.hubs import run
from twigcast.broker.metrics import Metrics
from twigcast.broker.model import DeliveryId, QueuedDelivery, QueuePosition, StoredMessage
from twigcast.broker.options import HubOptions
from twigcast.broker.queues.live import LiveQueues, QueueCursor

LANE = 7
SEEDS = int(os.environ.get("TWIGCAST_TEST_LANE_SEEDS", "150"))


@dataclass
class FakeStore:
    """A lane in a list, with readings that take their look at some moment between call and answer."""

    random: random.Random
    committed: list[QueuedDelivery] = field(default_factory=list)
    reads: int = 0

    async def read(
        self,
        queue_id: int,
        *,
        after: QueuePosition | None = None,
        limit: int,
        bytes_max: int,
        skip_subscriptions: frozenset[int] = frozenset(),
    ) -> list[QueuedDelivery]:
        assert queue_id == LANE
        self.reads += 1
        await pause(self.random)
        start = DeliveryId(-1, -1) if after is None else DeliveryId(after.seq, after.subscription_id)
        result = [delivery for delivery in self.committed if delivery.id > start][:limit]
        await pause(self.random, longest=60)
        return result


async def pause(source: random.Random, longest: int = 9) -> None:
    for _ in range(source.choice((0, 0, 1, 3, longest))):
        await asyncio.sleep(0)


def delivery(seq: int, number: int = 1, size: int = 10) -> QueuedDelivery:
    message = StoredMessage(seq, 1, "s", f"m{seq}", 0.0, b"x" * size)
    return QueuedDelivery(DeliveryId(seq, number), LANE, "k", message)


class Scene:
    """One lane, its writer and its listeners."""

    def __init__(self, seed: int, **options: int) -> None:
        self.random = random.Random(seed)
        self.store = FakeStore(self.random)
        self.metrics = Metrics()
        small = {"listener_deliveries_max": 4, "listener_bytes_max": 200, "read_deliveries_max": 3}
        self.queues = LiveQueues(self.store.read, HubOptions(**{**small, **options}), self.metrics)  # type: ignore[arg-type]
        self.seq = 0
        self.taken_at_once = 0

    def listener(self, after: QueuePosition | None = None) -> QueueCursor:
        return QueueCursor(self.queues, LANE, after, lambda _, deliveries: deliveries)

    def commit(self) -> list[QueuedDelivery]:
        group = []
        for _ in range(self.random.randint(1, 3)):
            self.seq += 1
            numbers = range(1, self.random.randint(1, 3) + 1)
            group += [delivery(self.seq, number, self.random.randrange(80)) for number in numbers]
        self.store.committed += group
        return group

    async def write(self, groups: int) -> None:
        """Commit, look for readers, hand over: in this order, with anything in between."""
        for _ in range(groups):
            group = self.commit()
            await pause(self.random)
            read = LANE in self.queues.readers
            await pause(self.random)
            self.queues.last_seq = self.seq
            if self.random.random() < 0.05:
                self.queues.all_miss()
            elif read:
                too_many = group[-1].id if self.random.random() < 0.1 else None
                self.queues.hand_over(LANE, group, too_many)
            await pause(self.random)

    async def listen(self, after: QueuePosition | None, got: list[QueuedDelivery], offer: float = 0.0) -> None:
        """Listen, taking at once what comes as often as ``offer`` says, unless something is being handed out."""
        taking = False

        def take(group: Sequence[QueuedDelivery]) -> bool:
            assert group
            assert not taking, "what was handed out before is not done with"
            if self.random.random() >= offer:
                return False
            got.extend(group)
            self.taken_at_once += len(group)
            return True

        listener = QueueCursor(self.queues, LANE, after, lambda _, deliveries: deliveries, take)
        async for group in listener.groups():
            taking = True
            assert group
            got += group
            if self.random.random() < 0.3:
                await asyncio.sleep(0)
            await pause(self.random)
            taking = False

    async def settled(self, got: list[list[QueuedDelivery]], requested: int) -> None:
        for _ in range(3_000):
            if all(len(one) >= requested for one in got):
                break
            await asyncio.sleep(0)


@pytest.mark.parametrize("offer", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_gap_and_no_double(seed: int, offer: float) -> None:
    scene = Scene(seed, listeners_bytes_max=400)

    async def play() -> None:
        got: list[list[QueuedDelivery]] = [[], [], []]
        starts = [scene.random.randrange(12) for _ in got]
        tasks = []
        writer = asyncio.create_task(scene.write(15))
        for one, start in zip(got, starts, strict=True):
            await pause(scene.random)
            tasks.append(asyncio.create_task(scene.listen(QueuePosition(start), one, offer)))
        await writer
        for one, start in zip(got, starts, strict=True):
            requested = [d.id for d in scene.store.committed if d.id.seq > start]
            await scene.settled([one], len(requested))
            assert [d.id for d in one] == requested
        scene.queues.close_all()
        await asyncio.gather(*tasks)

    run(play(), 20)
    assert scene.queues.buffered_bytes == 0
    assert scene.metrics.listeners == scene.metrics.listeners_behind == 0
    assert not scene.queues.readers


@pytest.mark.parametrize("offer", [False, True])
def test_a_listener_that_has_caught_up_does_not_read_the_store(offer: bool) -> None:
    scene = Scene(1)

    async def play() -> None:
        got: list[QueuedDelivery] = []
        task = asyncio.create_task(scene.listen(None, got, float(offer)))
        for _ in range(50):
            await asyncio.sleep(0)
        before = scene.store.reads
        for number in range(1, 200):
            scene.store.committed.append(delivery(number))
            scene.queues.hand_over(LANE, [scene.store.committed[-1]], None)
            await scene.settled([got], number)
        assert len(got) == 199
        assert (scene.taken_at_once > 190) == offer
        assert scene.metrics.streamed == 199
        assert scene.queues.streamed(LANE) == got[-1].id
        assert scene.store.reads == before
        scene.queues.close_all()
        await task

    run(play(), 20)


def test_missing_something_costs_a_bounded_number_of_readings() -> None:
    scene = Scene(2)

    async def play() -> None:
        got: list[QueuedDelivery] = []
        task = asyncio.create_task(scene.listen(None, got))
        for _ in range(50):
            await asyncio.sleep(0)
        before = scene.store.reads
        scene.queues.last_seq = 1_000
        scene.queues.all_miss()
        for _ in range(500):
            await asyncio.sleep(0)
        assert before < scene.store.reads <= before + 2
        assert scene.metrics.listeners_behind == 0
        scene.queues.close_all()
        await task

    run(play(), 20)


def test_what_waits_for_a_listener_that_does_not_read_is_bounded() -> None:
    scene = Scene(3, listener_deliveries_max=10, listener_bytes_max=1_000, read_deliveries_max=50)

    async def play() -> None:
        stream = scene.listener().groups()
        scene.store.committed.append(delivery(1))
        assert [d.id.seq for d in await anext(stream)] == [1]
        for seq in range(2, 500):
            scene.store.committed.append(delivery(seq, size=30))
            scene.queues.hand_over(LANE, [scene.store.committed[-1]], None)
            assert scene.queues.buffered_bytes <= 1_000
        got: list[int] = []
        while len(got) < 498:
            got += [d.id.seq for d in await anext(stream)]
        assert got == list(range(2, 500))
        await stream.aclose()
        assert scene.queues.buffered_bytes == 0

    run(play(), 20)


def test_above_the_ceiling_nothing_is_handed_out() -> None:
    scene = Scene(4)

    async def play() -> None:
        scene.queues.set_ceiling(LANE, 5)
        scene.store.committed += [delivery(seq) for seq in (2, 4, 8, 9)]
        got: list[QueuedDelivery] = []
        task = asyncio.create_task(scene.listen(None, got))
        await scene.settled([got], 3)
        assert [d.id.seq for d in got] == [2, 4]
        scene.store.committed.insert(2, delivery(6))
        scene.queues.hand_over(LANE, [delivery(10)], None)
        scene.store.committed.append(delivery(10))
        scene.queues.set_ceiling(LANE, 7)
        await scene.settled([got], 4)
        assert [d.id.seq for d in got] == [2, 4, 6]
        scene.queues.set_ceiling(LANE, None)
        await scene.settled([got], 6)
        assert [d.id.seq for d in got] == [2, 4, 6, 8, 9, 10]
        scene.queues.close_all()
        await task

    run(play(), 20)


def test_what_is_dropped_while_the_store_says_that_there_is_nothing() -> None:
    scene = Scene(5)
    read = scene.store.read

    async def play() -> None:
        got: list[QueuedDelivery] = []

        async def read_slowly(*args: int, **settings: int) -> list[QueuedDelivery]:
            result = await read(*args, **settings)  # type: ignore[arg-type]
            if not scene.store.committed:
                scene.store.committed += [delivery(seq) for seq in range(1, 10)]
                scene.queues.hand_over(LANE, scene.store.committed, None)
            return result

        scene.queues.read = read_slowly
        task = asyncio.create_task(scene.listen(None, got))
        await scene.settled([got], 9)
        assert [d.id.seq for d in got] == list(range(1, 10))
        scene.queues.close_all()
        await task

    run(play(), 20)
