"""Random interleavings of all that can be asked of a broker, compared with a model of lists.

Calls are made in a random order, many without waiting for those before; the model carries them out in the same order.
Who is to get what is decided by lxml. Lanes are pulled or listened to, with leases given back, acknowledgements in
any order, readers that come and go, small buffers, and the broker stopped and started again in between.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from lxml import etree

from tests.broker.hub.hubs import TENANT, run
from twigcast.broker.broker import Broker
from twigcast.broker.errors import IdReused, StoreInUse
from twigcast.broker.model import (
    Accepted,
    DeliveryId,
    DeliverySettings,
    NewSubscription,
    QueuedDelivery,
    QueuePosition,
    RejectedRecord,
    StoredSubscription,
    Submission,
    SubscriptionState,
)
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import Store

SEEDS = range(int(os.environ.get("TWIGCAST_TEST_MODEL_SEEDS", "3")))
STEPS = 90

OPTIONS = HubOptions(
    group_messages_max=7,
    listener_deliveries_max=6,
    listener_bytes_max=600,
    listeners_bytes_max=1_500,
    read_deliveries_max=5,
    read_bytes_max=500,
)
"""Small, so that groups split and listeners fall behind all the time."""

QUERIES = ("//a", "//b", "/m[a]", "//b[. > 4]", "//c or //a[. = 2]", "for $n in //a return <r>{$n}</r>")


def expected_body(query: str, xml: bytes) -> bytes | None:
    """What a subscription gets of a message; ``None``: nothing."""
    root = etree.fromstring(xml)
    if query.startswith("for"):
        results = cast("list[etree._Element]", root.xpath("//a"))
        rewritten = [b"<r>" + etree.tostring(node, with_tail=False) + b"</r>" for node in results]
        return b"".join(rewritten) or None
    return xml if root.xpath(f"boolean({query})") else None


@dataclass
class Queue:
    """The model of a lane."""

    id: int
    name: str
    listened: bool
    entries: dict[DeliveryId, bytes] = field(default_factory=dict)
    """All that was ever due and not acknowledged, in order, of subscriptions that are there."""
    handed: set[DeliveryId] = field(default_factory=set)
    """Handed out by this process."""
    leased: set[DeliveryId] = field(default_factory=set)


@dataclass
class Member:
    """The model of a subscription."""

    stored: StoredSubscription
    query: str
    queue: Queue
    active: bool = True


class World:
    """A broker and the model of it."""

    def __init__(self, seed: int, open_again: Callable[[], Store]) -> None:
        self.random = random.Random(seed)
        self.open_again = open_again
        self.members: dict[str, Member] = {}
        self.queues: dict[str, Queue] = {}
        self.seen: dict[str, tuple[Accepted, bytes]] = {}
        self.sent: dict[str, bytes] = {}
        self.pending: list[asyncio.Task[Any]] = []
        self.keys = 0
        self.numbers = 0
        self.start_seq = 0
        self.last_seq = 0

    async def start(self) -> None:
        self.store = await self.open()
        self.broker = Broker(self.store, OPTIONS)
        await self.broker.start()
        self.start_seq = self.store.last_seq()
        for queue in self.queues.values():
            queue.handed.clear()
            queue.leased.clear()

    async def open(self) -> Store:
        """The store. A server may take a moment to notice that it was left."""
        for _ in range(100):
            try:
                return self.open_again()
            except StoreInUse:
                await asyncio.sleep(0.02)
        return self.open_again()

    async def restart(self) -> None:
        await self.settle()
        await self.broker.stop()
        self.store.close()
        await self.start()

    def later(self, work: Coroutine[Any, Any, Any]) -> None:
        """Make a call without waiting for it: it is made when the loop next turns, in this order."""
        self.pending.append(asyncio.create_task(work))

    async def settle(self) -> None:
        """Wait for all calls."""
        pending, self.pending = self.pending, []
        await asyncio.gather(*pending)

    # Publishing

    def message(self) -> bytes:
        self.numbers += 1
        parts = "".join(f"<{n}>{self.random.randrange(8)}</{n}>" for n in "abc" if self.random.random() < 0.5)
        return f"<m n='{self.numbers}'>{parts}{'<p/>' * self.random.randrange(20)}</m>".encode()

    async def publish(self) -> None:
        submissions = []
        for _ in range(self.random.randint(1, 5)):
            body = self.message()
            if self.random.random() < 0.1:
                body = body[:-2]
            again = self.numbers - 1 if self.random.random() < 0.15 else self.numbers
            if f"id{again}" in self.sent and self.random.random() < 0.5:
                body = self.sent[f"id{again}"]
            submissions.append(Submission(TENANT, body, message_id=f"id{again}"))
            self.sent[f"id{again}"] = body
        # What is due is decided by the subscriptions at the time of the call.
        due = [(s, self.due(s)) for s in submissions]
        self.later(self.check_published(submissions, due))

    def due(self, submission: Submission) -> list[tuple[Member, bytes]]:
        try:
            etree.fromstring(submission.body)
        except etree.XMLSyntaxError:
            return []
        results = []
        for member in self.members.values():
            body = expected_body(member.query, submission.body) if member.active else None
            if body is not None:
                results.append((member, body))
        return results

    async def check_published(
        self, submissions: list[Submission], due: list[tuple[Submission, list[tuple[Member, bytes]]]]
    ) -> None:
        results = await self.broker.publish(submissions)
        assert len(results) == len(submissions)
        for result, (submission, requested) in zip(results, due, strict=True):
            name = cast("str", submission.message_id)
            before, first = self.seen.get(name, (None, b""))
            if before is not None and first != submission.body:
                assert isinstance(result, IdReused)
                assert (result.seq, result.message_id) == (before.seq, name)
            elif before is not None:
                assert isinstance(result, Accepted)
                assert (result.duplicate, result.seq, result.matches) == (True, before.seq, before.matches)
            elif submission.body.endswith(b"</m>"):
                assert isinstance(result, Accepted)
                assert not result.duplicate
                assert result.matches == len(requested), submission.body
                assert result.seq > self.last_seq
                self.seen[name] = result, submission.body
                self.last_seq = result.seq
                self.deliver(result.seq, requested)
            else:
                assert isinstance(result, RejectedRecord)
                assert (result.code, result.body, result.line) == ("message-malformed", submission.body, 1)

    def deliver(self, seq: int, requested: list[tuple[Member, bytes]]) -> None:
        for member, body in sorted(requested, key=lambda item: item[0].stored.id):
            if member.stored.key in self.members:
                member.queue.entries[DeliveryId(seq, member.stored.id)] = body

    # Subscriptions

    async def subscribe(self) -> None:
        await self.settle()
        self.keys += 1
        key = f"k{self.keys}"
        shared = self.random.random() < 0.5
        name = f"team{self.random.randrange(2)}" if shared else key
        query = self.random.choice(QUERIES)
        replay = None
        if not shared and self.random.random() < 0.3 and self.last_seq:
            replay = self.random.randint(1, self.last_seq)
        (result,) = await self.broker.subscribe(
            [NewSubscription(TENANT, key, query, subscriber=name if shared else None, replay_from=replay)]
        )
        assert isinstance(result, StoredSubscription), result
        queue = self.queues.get(name)
        if queue is None or queue.id != result.queue_id:
            queue = self.queues[name] = Queue(result.queue_id, name, listened=self.random.random() < 0.5)
        self.members[key] = Member(result, query, queue)
        if replay is not None:
            for message in self.store.messages(TENANT, after=replay - 1, up_to=self.last_seq, limit=10_000):
                body = expected_body(query, message.xml)
                if body is not None:
                    queue.entries[DeliveryId(message.seq, result.id)] = body

    def some_member(self) -> Member | None:
        return self.random.choice(list(self.members.values())) if self.members else None

    async def replace(self) -> None:
        member = self.some_member()
        if member is None:
            return
        # A replay would go on with the new query from wherever it has come to.
        await self.replayed()
        member.query = self.random.choice(QUERIES)
        self.later(
            self.broker.replace(
                member.stored, query=member.query, namespaces={}, dialect="xpath", delivery=DeliverySettings()
            )
        )

    async def pause(self) -> None:
        member = self.some_member()
        if member is None:
            return
        await self.replayed()
        member.active = not member.active
        state = SubscriptionState.ACTIVE if member.active else SubscriptionState.PAUSED
        self.later(self.broker.set_state(member.stored, state))

    async def replayed(self) -> None:
        while self.broker.metrics.replays:
            await asyncio.sleep(0.005)

    async def delete(self) -> None:
        member = self.some_member()
        if member is None or self.random.random() < 0.5:
            return
        await self.settle()
        del self.members[member.stored.key]
        queue = member.queue
        await self.broker.unsubscribe(member.stored)
        for number in [n for n in queue.entries if n.subscription_id == member.stored.id]:
            del queue.entries[number]
            queue.leased.discard(number)
        if not any(other.queue is queue for other in self.members.values()):
            self.queues.pop(queue.name, None)

    # Reading

    def check(self, queue: Queue, delivery: QueuedDelivery) -> None:
        """What is handed out is due, and marked where it may have been handed out before."""
        number = delivery.id
        assert number in queue.entries, (number, sorted(queue.entries))
        assert delivery.body == queue.entries[number]
        assert delivery.key in self.members
        assert self.members[delivery.key].stored.id == number.subscription_id
        if number in queue.handed or number.seq <= self.start_seq:
            assert delivery.redelivered, number
        elif number > max(queue.handed, default=number):
            assert not delivery.redelivered, number
        queue.handed.add(number)

    async def read(self) -> None:
        queues = list(self.queues.values())
        if not queues:
            return
        queue = self.random.choice(queues)
        await self.settle()
        await self.replayed()
        await (self.listen(queue) if queue.listened else self.pull(queue))

    async def pull(self, queue: Queue) -> None:
        blocked = {number.subscription_id for number in queue.leased}
        available = [number for number in queue.entries if number.subscription_id not in blocked]
        limit = self.random.randint(1, 6)
        got = await self.broker.pull(queue.id, limit=limit, wait=0, visibility=1_000)
        for delivery in got:
            self.check(queue, delivery)
        numbers = [delivery.id for delivery in got]
        # Bodies bound it too, but the first always comes.
        assert numbers == sorted(available)[: len(numbers)]
        assert bool(numbers) == bool(available)
        queue.leased.update(numbers)
        await self.give_back_or_acknowledge(queue)

    async def give_back_or_acknowledge(self, queue: Queue) -> None:
        leased = sorted(queue.leased)
        self.random.shuffle(leased)
        some = leased[: self.random.randint(0, len(leased))]
        if self.random.random() < 0.6:
            await self.acknowledge(queue, some)
        else:
            await self.broker.release(queue.id, some)
        queue.leased.difference_update(some)

    async def acknowledge(self, queue: Queue, numbers: list[DeliveryId]) -> None:
        await self.broker.acknowledge(queue.id, numbers)
        for number in numbers:
            queue.entries.pop(number, None)

    async def listen(self, queue: Queue) -> None:
        """Read for a while, publishing in between, and leave."""
        after = None
        if queue.entries and self.random.random() < 0.4:
            after = QueuePosition(*self.random.choice(list(queue.entries)))
        got: list[QueuedDelivery] = []
        may_read = asyncio.Event()
        may_read.set()

        async def read() -> None:
            async for group in self.broker.read_queue(queue.id, after):
                got.extend(group)
                await may_read.wait()

        reader = asyncio.create_task(read())
        for _ in range(self.random.randint(1, 6)):
            if self.random.random() < 0.4:
                await asyncio.sleep(self.random.choice((0, 0.002)))
            for _ in range(self.random.randint(0, 4)):
                await self.publish()
            await self.settle()
            (may_read.set if self.random.random() < 0.6 else may_read.clear)()
        may_read.set()
        await self.read_all(reader, got, self.after(queue, after))
        # A listener may get a message before its publisher knows its number.
        for delivery in got:
            self.check(queue, delivery)
        if got and self.random.random() < 0.7:
            await self.acknowledge_some(queue, [delivery.id for delivery in got])

    async def read_all(
        self, reader: asyncio.Task[None], got: list[QueuedDelivery], requested: list[DeliveryId]
    ) -> None:
        """Wait until a reader has got everything, and end it."""
        deadline = time.monotonic() + 5
        while len(got) < len(requested) and not reader.done() and time.monotonic() < deadline:
            await asyncio.sleep(0.001)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        if not reader.cancelled():
            reader.result()
        assert [delivery.id for delivery in got] == requested

    @staticmethod
    def after(queue: Queue, after: QueuePosition | None) -> list[DeliveryId]:
        start = (-1, -1) if after is None else (after.seq, after.subscription_id)
        return [number for number in sorted(queue.entries) if number > start]

    async def acknowledge_some(self, queue: Queue, got: list[DeliveryId]) -> None:
        if self.random.random() < 0.5:
            seq = self.random.choice(got).seq
            await self.broker.acknowledge_up_to(queue.id, seq)
            for number in [n for n in queue.entries if n.seq <= seq]:
                del queue.entries[number]
        else:
            await self.acknowledge(queue, self.random.sample(got, self.random.randint(1, len(got))))

    # At the end

    async def check_all(self) -> None:
        """Everything that is due and not acknowledged is pending, in order."""
        await self.settle()
        await self.replayed()
        for queue in self.queues.values():
            await self.broker.release(queue.id, list(queue.leased))
            got: list[QueuedDelivery] = []
            while some := await self.broker.pull(queue.id, limit=50, wait=0, visibility=1_000):
                got += some
                await self.broker.acknowledge(queue.id, [delivery.id for delivery in some])
            assert [(d.id, d.body) for d in got] == sorted(queue.entries.items()), queue.name
            queue.entries.clear()
        assert self.broker.metrics.listeners == 0
        assert self.broker.metrics.queued_messages == self.broker.metrics.queued_bytes == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_handed_out_is_what_a_model_says(seed: int, open_again: Callable[[], Store]) -> None:
    world = World(seed, open_again)

    async def play() -> None:
        await world.start()
        steps = [world.publish] * 6 + [world.read] * 7 + [world.subscribe] * 3
        steps += [world.replace, world.pause, world.delete, world.restart]
        for _ in range(STEPS):
            step = world.random.choice(steps)
            await step()
        await world.check_all()
        await world.restart()
        await world.check_all()
        await world.broker.stop()

    try:
        run(play())
    except BaseException:
        print(f"seed {seed}")
        raise
