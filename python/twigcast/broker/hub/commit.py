"""A commit group: the operations that one commit makes durable, and their results.

Operations run in the writing thread, inside the transaction. They change the engine at the same time, so
that later operations of the group see it, and record how to undo that: when the commit fails, engine and store
agree again. The results for the event loop are collected here and passed on at once, after the commit.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from twigcast.broker.hub.population import BrokerPopulation, RegisteredSubscription
from twigcast.broker.metrics import Metrics
from twigcast.broker.model import DeliveryId, NewDelivery, QueuedDelivery, StoredMessage, StoredSubscription, Tenant
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import Store, Transaction
from twigcast.broker.urgency import DeliveryUrgency


@dataclass(slots=True)
class PublishedMessage:
    """A message stored in this group, with its deliveries and the keys of their subscriptions."""

    message: StoredMessage
    deliveries: list[NewDelivery]
    keys: Sequence[str]


@dataclass(eq=False)
class Operation:
    """An operation of the writing thread."""

    messages = 0
    """Number of messages that it publishes."""
    size = 0
    """Bytes of these messages."""
    weight = 0
    """About how many bytes recording it takes, as far as that is known."""
    commutes = False
    """Whether it may run before the publications and changes of subscriptions of its group."""
    tenant_ids: tuple[int, ...] = field(init=False, default=())
    """The tenants whose subscriptions it depends on or changes."""

    future: Future[Any] = field(kw_only=True, default_factory=lambda: asyncio.get_running_loop().create_future())
    """Receives the result, in its event loop."""
    since: float = field(init=False, default_factory=time.perf_counter)
    result: Any = field(init=False, default=None)
    error: BaseException | None = field(init=False, default=None)
    alone: bool = field(init=False, default=False)
    """Whether it runs in a commit of its own, after several together have failed."""

    def apply(self, group: CommitGroup) -> None:
        """Carries it out. Can be called again after a failed attempt was undone."""
        raise AssertionError("each operation says what it does")

    def resolve(self) -> None:
        """Sets the result of the future; in the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


@dataclass(slots=True)
class CommitResult:
    """The result of a group for the event loop, after its commit or its failure."""

    operations: list[Operation]
    last_seq: int = 0
    """The highest stored sequence number; 0 if it is unchanged."""
    queues: dict[int, list[QueuedDelivery]] = field(default_factory=dict)
    """Deliveries for queues that have readers."""
    overflown: dict[int, DeliveryId] = field(default_factory=dict)
    """The last delivery of each such queue that got more than a reader can hold."""
    incomplete: bool = False
    """Whether readers may have missed deliveries, after a failure."""
    filled: set[int] = field(default_factory=set)
    """Queues with new deliveries."""
    pushed: set[int] = field(default_factory=set)
    """Queues with new deliveries that are pushed."""
    changed: list[StoredSubscription] = field(default_factory=list)
    removed: list[StoredSubscription] = field(default_factory=list)
    replays: list[tuple[int, int, int | None]] = field(default_factory=list)
    """Queues that a replay fills, with the subscription and the next sequence number; ``None`` after its end."""
    withdrawn: dict[int, list[DeliveryId]] = field(default_factory=dict)
    """Deliveries that do not wait any more, by queue; some may be leased."""
    sought: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Queues that begin anew, with the subscription and the first message."""


@dataclass(slots=True)
class FailureRecords:
    """The records of one subscription that was undecided on messages, since the start."""

    count: int = 0
    at: float = 0.0
    """The time (monotonic) of the last one."""
    kind: str = ""
    """Its reason, without numbers."""
    uncounted: int = 0
    """The number of such messages since; the next record counts them."""


@dataclass(slots=True)
class CommitGroup:
    """The context of operations, inside the transaction."""

    transaction: Transaction
    store: Store
    """The store, for reading what was committed before."""
    population: BrokerPopulation
    tenants: Mapping[int, Tenant]
    options: HubOptions
    remaining_by_queue: dict[int, int]
    """For each queue, how many deliveries may come before those pending are counted."""
    seeks: Mapping[int, int]
    """How often queues have begun anew since the start."""
    full_queues: dict[int, float]
    """Queues whose publishers are refused, with the time (monotonic) from which on those pending are counted again."""
    failure_records: dict[int, FailureRecords]
    """The records of undecided subscriptions, by number."""
    is_out: Callable[[int, DeliveryId], bool]
    """Says whether somebody has a delivery of a queue."""
    result: CommitResult
    """What the event loop gets, if the commit succeeds."""
    now: float = field(default_factory=time.time)
    published: list[PublishedMessage] = field(default_factory=list)
    """Messages with deliveries."""
    accepted: list[StoredMessage] = field(default_factory=list)
    """All messages published here, for the overlay."""
    reread: list[RegisteredSubscription] = field(default_factory=list)
    """Changed subscriptions that are read after the commit, so that listeners get them as they are."""
    urgencies: dict[DeliveryId, DeliveryUrgency] = field(default_factory=dict)
    """The urgency of deliveries of which queue or subscription says something of it."""
    counted: Metrics = field(default_factory=Metrics)
    """Values that are added to the counters after the commit."""
    touched: list[RegisteredSubscription] = field(default_factory=list)
    """Subscriptions that changed in the engine."""
    overflown: set[int] = field(default_factory=set)
    """Tenants of which a subscription was suspended since too much waits, beside evaluations that go on."""
    _undo: list[Callable[[], object]] = field(default_factory=list)

    def limit(self, tenant_id: int, name: str) -> int:
        """Returns a limit of a tenant: its own, or the broker's."""
        return self.options.limit_of(self.tenants.get(tenant_id), name)

    # The engine changes together with the store

    def register(self, members: list[RegisteredSubscription]) -> list[tuple[int, Exception]]:
        """Adds new subscriptions to the engine; returns index and error of those refused."""
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
        """Sets a subscription in the engine, whatever it was before; raises QueryError if the engine refuses it."""
        population = self.population.of(member.tenant_id)
        before, was_active = population.member(member.tenant_id, member.id), population.active(member.id)
        self.touched.append(member)
        self._undo.append(lambda: _restore(population, member.id, before, was_active))
        _put(population, member, active)

    def put_many(self, members: Sequence[tuple[RegisteredSubscription, bool]]) -> list[tuple[int, Exception]]:
        """Sets the queries of registered subscriptions, active or not; returns index and error of those refused."""
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
        """Removes a subscription from the engine."""
        population = self.population.of(member.tenant_id)
        before, was_active = population.member(member.tenant_id, member.id), population.active(member.id)
        self.touched.append(member)
        self._undo.append(lambda: _restore(population, member.id, before, was_active))
        population.remove(member.id)

    def undo(self) -> None:
        """Restores the engine to its state before the group."""
        while self._undo:
            self._undo.pop()()
        for tenant_id in self.overflown:
            # What was evaluated since lacks subscriptions that take part again.
            self.population.of(tenant_id).must_evaluate_again()


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
