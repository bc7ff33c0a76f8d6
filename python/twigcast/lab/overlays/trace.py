"""Traces: what happens to a network from outside, and when. A trace and a seed determine a simulation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import cycle
from typing import Any, NamedTuple

from twigcast.overlay.core import Address
from twigcast.overlay.errors import ImpossibleSetting


class TraceStep(NamedTuple):
    """One thing that happens.

    Attributes:
        time: When.
        what: `join`, `leave`, `crash`, `subscribe`, `unsubscribe`, `publish`, `partition`, `heal`.
        node: To which node (-1 for the network).
        argument: The seeds of a join, the key and query of a subscription, the message, the groups of a partition.
    """

    time: float
    what: str
    node: Address
    argument: Any = None

    def __repr__(self) -> str:
        return f"{self.time:.1f} {self.what} {self.node} {self.argument!s:.80}"


@dataclass(frozen=True, slots=True)
class TraceShape:
    """The numbers that a random trace is made by.

    Attributes:
        nodes: Nodes at the start.
        duration: Time over which things happen.
        joins: Number of nodes that join.
        leaves: Number that leave in good order.
        crashes: Number that crash.
        crashes_at_once: Most crashes between two repairs.
        calm: Time between two bursts of crashes.
        subscriptions: Number of subscriptions.
        withdrawals: How many of them are withdrawn again.
        publications: Number of messages.
        partitions: Number of times the network is cut in two for a while.
        restarts: Number that crash and return at their own address, many before the others give them up. Their
            applications subscribe again.
        reuse: Probability that a subscription has the key of a former one of its node, that a withdrawal is followed
            by a subscription at the same instant, and that a message is one that was published before.
    """

    nodes: int = 12
    duration: float = 2000.0
    joins: int = 4
    leaves: int = 2
    crashes: int = 3
    crashes_at_once: int = 1
    calm: float = 300.0
    subscriptions: int = 20
    withdrawals: int = 4
    publications: int = 15
    partitions: int = 0
    restarts: int = 0
    reuse: float = 0.0

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise ImpossibleSetting("nodes", self.nodes, "at least 1")
        if self.leaves + self.crashes >= self.nodes + self.joins:
            raise ImpossibleSetting("leaves + crashes", self.leaves + self.crashes, "less than all nodes")


def random_trace(seed: int, shape: TraceShape, queries: Sequence[Any], messages: Sequence[Any]) -> list[TraceStep]:
    """Returns a random trace. The same seed gives the same trace.

    Joins name live seeds; crashes and restarts come in bursts of at most `crashes_at_once`, at least `calm` apart.
    """
    generator = random.Random(seed)  # noqa: S311 - reproducible, not secret
    return _TraceMaker(generator, shape).make(queries, messages)


class _TraceMaker:
    def __init__(self, generator: random.Random, shape: TraceShape) -> None:
        self.random = generator
        self.shape = shape
        self.live = list(range(shape.nodes))
        self.next_address = shape.nodes
        #: Keys that are subscribed to, with their nodes, and those that no longer are.
        self.keys: list[tuple[Address, str]] = []
        self.former: list[tuple[Address, str]] = []
        self.published: list[tuple[Address, Any]] = []
        self.steps: list[TraceStep] = []
        self.subscriptions = 0
        #: What is left to happen, in order of time.
        self.agenda: list[tuple[float, str, Address]] = []

    def make(self, queries: Sequence[Any], messages: Sequence[Any]) -> list[TraceStep]:
        self._fill_agenda()
        waiting = cycle(messages)
        while self.agenda:
            time, what, node = heappop(self.agenda)
            if what == "subscribe":
                self._subscribe(time, queries)
            elif what == "unsubscribe":
                self._unsubscribe(time, queries)
            elif what == "publish":
                self._publish(time, waiting)
            elif what == "return":
                self._join(time, node)
                for key in sorted(key for address, key in self.keys if address == node):
                    self._add(time, node, key, queries)
            else:
                self._change(time, what)
        return self.steps

    def _fill_agenda(self) -> None:
        shape = self.shape
        for what, count in (
            ("join", shape.joins),
            ("leave", shape.leaves),
            ("subscribe", shape.subscriptions),
            ("unsubscribe", shape.withdrawals),
            ("publish", shape.publications),
            ("partition", shape.partitions),
        ):
            self.agenda.extend((self.random.uniform(1, shape.duration), what, -1) for _ in range(count))
        failures = ["crash"] * shape.crashes + ["restart"] * shape.restarts
        if shape.restarts:
            self.random.shuffle(failures)
        time = self.random.uniform(1, shape.calm)
        while failures:
            for _ in range(min(len(failures), self.random.randint(1, shape.crashes_at_once))):
                self.agenda.append((time, failures.pop(), -1))
            time += shape.calm * self.random.uniform(1, 1.5)
        heapify(self.agenda)

    def _reuses(self) -> bool:
        return self.shape.reuse > 0 and self.random.random() < self.shape.reuse

    def _subscribe(self, time: float, queries: Sequence[Any]) -> None:
        existing = [(node, key) for node, key in (*self.keys, *self.former) if node in self.live]
        if existing and self._reuses():
            self._add(time, *self.random.choice(existing), queries)
        else:
            self._add(time, self.random.choice(self.live), f"s{self.subscriptions}", queries)

    def _add(self, time: float, node: Address, key: str, queries: Sequence[Any]) -> None:
        self.steps.append(TraceStep(time, "subscribe", node, (key, queries[self.subscriptions % len(queries)])))
        self.subscriptions += 1
        if (node, key) not in self.keys:
            self.keys.append((node, key))

    def _unsubscribe(self, time: float, queries: Sequence[Any]) -> None:
        candidates = [(node, key) for node, key in self.keys if node in self.live]
        if not candidates:
            return
        node, key = self.random.choice(candidates)
        self.steps.append(TraceStep(time, "unsubscribe", node, key))
        self.keys.remove((node, key))
        self.former.append((node, key))
        if self._reuses():
            self._add(time, node, key, queries)

    def _publish(self, time: float, waiting: Iterator[Any]) -> None:
        if self.published and self._reuses():
            node, message = self.random.choice(self.published)
            if node not in self.live or self.random.random() < 0.5:
                node = self.random.choice(self.live)
        else:
            node, message = self.random.choice(self.live), next(waiting)
        self.published.append((node, message))
        self.steps.append(TraceStep(time, "publish", node, message))

    def _join(self, time: float, node: Address) -> None:
        seeds = tuple(self.random.sample(self.live, min(3, len(self.live))))
        self.live.append(node)
        self.steps.append(TraceStep(time, "join", node, seeds))

    def _change(self, time: float, what: str) -> None:
        if what == "join":
            self._join(time, self.next_address)
            self.next_address += 1
        elif what == "partition":
            side = tuple(self.random.sample(self.live, len(self.live) // 2))
            length = self.random.uniform(50, 200)
            self.steps.append(TraceStep(time, what, -1, side))
            self.steps.append(TraceStep(time + length, "heal", -1))
        elif len(self.live) >= 2:
            node = self.random.choice(self.live)
            self.live.remove(node)
            self.steps.append(TraceStep(time, "crash" if what == "restart" else what, node))
            if what == "restart":
                heappush(
                    self.agenda, (time + self.random.choice((0.1, 3, 15, 60)) * self.random.random(), "return", node)
                )
