"""A group: the operations that one commit makes durable, and what is to be done once it has.

Operations are carried out in the writing thread, inside the transaction. They change the engine at the same time, so
that what follows in the group sees it, and leave behind how to undo that: when the commit fails, engine and store
agree again. What is said of a group to the event loop is collected here and handed over at once, after the commit.
"""

from __future__ import annotations

import time
from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from twigcast.broker.hub.population import BrokerPopulation, RegisteredSubscription
from twigcast.broker.metrics import Metrics
from twigcast.broker.model import DeliveryId, NewDelivery, QueuedDelivery, StoredMessage, StoredSubscription, Tenant
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import Store, Transaction


@dataclass(slots=True)
class PublishedMessage:
    """A message stored in this group, with its deliveries and the keys of their subscriptions."""

    message: StoredMessage
    deliveries: list[NewDelivery]
    keys: list[str]


class Operation:
    """Something that the writing thread carries out.

    Args:
        future: Told of the result, in the event loop.
    """

    messages = 0
    """Messages that it publishes."""
    size = 0
    """Their bytes."""
    commutes = False
    """Whether it may be carried out before the publications and changes of subscriptions of its group."""

    def __init__(self, future: Future[Any]) -> None:
        self.future = future
        self.since = time.perf_counter()
        self.result: Any = None
        self.error: BaseException | None = None
        self.alone = False
        """Whether it is to be carried out by itself, after something went wrong with several together."""

    def apply(self, group: CommitGroup) -> None:
        """Carry it out. Can be called again after a failed attempt was undone."""
        raise AssertionError("each operation says what it does")

    def resolve(self) -> None:
        """Tell whoever waits; in the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


@dataclass(slots=True)
class CommitResult:
    """What the event loop is told of a group, after its commit or its failure."""

    operations: list[Operation]
    last_seq: int = 0
    """The highest sequence number that is stored; 0: as before."""
    queues: dict[int, list[QueuedDelivery]] = field(default_factory=dict)
    """Deliveries for queues that somebody reads."""
    overflown: dict[int, DeliveryId] = field(default_factory=dict)
    """Such queues that got more than a listener can hold: the last delivery."""
    incomplete: bool = False
    """After a failure: the listeners may have missed something."""
    pushed: set[int] = field(default_factory=set)
    """Queues that got deliveries and whose subscribers are to be sent to."""
    changed: list[StoredSubscription] = field(default_factory=list)
    removed: list[StoredSubscription] = field(default_factory=list)
    replays: list[tuple[int, int, int | None]] = field(default_factory=list)
    """Queues being replayed, for which subscription, and the sequence number that replay looks at next; ``None``: it is
    done."""


class CommitGroup:
    """What an operation works with, inside the transaction.

    Args:
        transaction: The open transaction.
        store: For reading what was committed before.
        population: The engine.
        tenants: Their settings, by id.
        options: Bounds.
        remaining: By queue, how many deliveries may come before those pending are counted.
    """

    def __init__(
        self,
        transaction: Transaction,
        store: Store,
        population: BrokerPopulation,
        tenants: dict[int, Tenant],
        options: HubOptions,
        remaining: dict[int, int],
    ) -> None:
        self.transaction = transaction
        self.store = store
        self.population = population
        self.tenants = tenants
        self.options = options
        self.remaining_by_queue = remaining
        self.now = time.time()
        self.last_seq = 0
        """The last message stored in this group."""
        self.published: list[PublishedMessage] = []
        """Those that have deliveries."""
        self.accepted: list[StoredMessage] = []
        """All that were published here, for whoever passes them on."""
        self.pushed: set[int] = set()
        self.changed: list[StoredSubscription] = []
        self.removed: list[StoredSubscription] = []
        self.reread: list[RegisteredSubscription] = []
        """Changed ones that are to be read after the commit, to tell of them as they are."""
        self.replays: list[tuple[int, int, int | None]] = []
        self.counted = Metrics()
        """What is added to the counters after the commit."""
        self._undo: list[Callable[[], object]] = []
        self.touched: list[RegisteredSubscription] = []
        """Subscriptions whose part in the engine changed."""

    def limit(self, tenant_id: int, name: str) -> int:
        """A limit of a tenant: its own, or the broker's."""
        return self.options.limit_of(self.tenants.get(tenant_id), name)

    # The engine changes together with the store

    def register(self, members: list[RegisteredSubscription]) -> list[tuple[int, Exception]]:
        """Add new subscriptions to the engine; index and error of those refused."""
        refused: list[tuple[int, Exception]] = []
        for tenant_id in dict.fromkeys(member.tenant_id for member in members):
            positions = [position for position, member in enumerate(members) if member.tenant_id == tenant_id]
            population = self.population.of(tenant_id)
            mine = [members[position] for position in positions]
            for member in mine:
                self._undo.append(lambda p=population, n=member.id: p.remove(n))  # type: ignore[misc]
            self.touched += mine
            refused += [(positions[index], error) for index, error in population.add(mine)]
        return refused

    def put(self, member: RegisteredSubscription, *, active: bool) -> None:
        """Let a subscription be as given, whatever it was before.

        Raises:
            QueryError: The engine refuses the query.
        """
        population = self.population.of(member.tenant_id)
        before, was_active = population.member(member.tenant_id, member.id), population.active(member.id)
        self.touched.append(member)
        self._undo.append(lambda: _restore(population, member.id, before, was_active))
        _put(population, member, active)

    def put_many(self, members: Sequence[tuple[RegisteredSubscription, bool]]) -> list[tuple[int, Exception]]:
        """Let known subscriptions have other queries, active or not as given; index and error of those refused.

        A subscription that is refused stays as it was.
        """
        taking_part: dict[int, list[int]] = {}
        for position, (member, active) in enumerate(members):
            population = self.population.of(member.tenant_id)
            before = population.member(member.tenant_id, member.id)
            self.touched.append(member)
            self._undo.append(partial(_restore, population, member.id, before, active))
            if active:
                taking_part.setdefault(member.tenant_id, []).append(position)
            else:
                _put(population, member, active)
        refused: list[tuple[int, Exception]] = []
        for tenant_id, positions in taking_part.items():
            answers = self.population.of(tenant_id).add([members[index][0] for index in positions])
            refused += [(positions[index], error) for index, error in answers]
        return refused

    def forget(self, member: RegisteredSubscription) -> None:
        """Remove a subscription from the engine."""
        population = self.population.of(member.tenant_id)
        before, was_active = population.member(member.tenant_id, member.id), population.active(member.id)
        self.touched.append(member)
        self._undo.append(lambda: _restore(population, member.id, before, was_active))
        population.remove(member.id)

    def undo(self) -> None:
        """Give the engine back what it was before the group."""
        while self._undo:
            self._undo.pop()()


def _put(population: Any, member: RegisteredSubscription, active: bool) -> None:
    if active:
        for _, error in population.add([member]):
            raise error
        population.dormant.pop(member.id, None)
    else:
        population.remove(member.id)
        population.dormant[member.id] = member


def _restore(population: Any, subscription_id: int, before: RegisteredSubscription | None, was_active: bool) -> None:
    if before is None:
        population.remove(subscription_id)
    else:
        _put(population, before, was_active)
