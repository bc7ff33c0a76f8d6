"""Traces: what happens to a network from outside, and when. A trace and a seed determine a simulation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
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

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise ImpossibleSetting("nodes", self.nodes, "at least 1")
        if self.leaves + self.crashes >= self.nodes + self.joins:
            raise ImpossibleSetting("leaves + crashes", self.leaves + self.crashes, "less than all nodes")


def random_trace(seed: int, shape: TraceShape, queries: Sequence[Any], messages: Sequence[Any]) -> list[TraceStep]:
    """Returns a random trace. The same seed gives the same trace.

    Joins name live seeds, crashes come in bursts of at most `crashes_at_once`, at least `calm` apart.
    """
    generator = random.Random(seed)  # noqa: S311 - reproducible, not secret
    return _TraceMaker(generator, shape).make(queries, messages)


class _TraceMaker:
    def __init__(self, generator: random.Random, shape: TraceShape) -> None:
        self.random = generator
        self.shape = shape
        self.live = list(range(shape.nodes))
        self.next_address = shape.nodes
        self.keys: list[tuple[Address, str]] = []

    def make(self, queries: Sequence[Any], messages: Sequence[Any]) -> list[TraceStep]:
        shape = self.shape
        steps: list[TraceStep] = []
        agenda = self._agenda()
        used: dict[str, int] = {"subscribe": 0, "publish": 0}
        for time, what in agenda:
            if what in ("subscribe", "publish"):
                number = used[what]
                used[what] += 1
                node = self.random.choice(self.live)
                if what == "subscribe":
                    key = f"s{number}"
                    self.keys.append((node, key))
                    steps.append(TraceStep(time, what, node, (key, queries[number % len(queries)])))
                else:
                    steps.append(TraceStep(time, what, node, messages[number % len(messages)]))
            else:
                steps.extend(self._change(time, what))
        del shape
        return steps

    def _agenda(self) -> list[tuple[float, str]]:
        shape = self.shape
        agenda: list[tuple[float, str]] = []
        for what, count in (
            ("join", shape.joins),
            ("leave", shape.leaves),
            ("subscribe", shape.subscriptions),
            ("unsubscribe", shape.withdrawals),
            ("publish", shape.publications),
            ("partition", shape.partitions),
        ):
            agenda.extend((self.random.uniform(1, shape.duration), what) for _ in range(count))
        time = self.random.uniform(1, shape.calm)
        left = shape.crashes
        while left:
            burst = min(left, self.random.randint(1, shape.crashes_at_once))
            agenda.extend((time, "crash") for _ in range(burst))
            left -= burst
            time += shape.calm * self.random.uniform(1, 1.5)
        return sorted(agenda)

    def _change(self, time: float, what: str) -> list[TraceStep]:
        if what == "join":
            address = self.next_address
            self.next_address += 1
            seeds = tuple(self.random.sample(self.live, min(3, len(self.live))))
            self.live.append(address)
            return [TraceStep(time, what, address, seeds)]
        if what == "unsubscribe":
            candidates = [(node, key) for node, key in self.keys if node in self.live]
            if not candidates:
                return []
            node, key = self.random.choice(candidates)
            self.keys.remove((node, key))
            return [TraceStep(time, what, node, key)]
        if what == "partition":
            side = tuple(self.random.sample(self.live, len(self.live) // 2))
            length = self.random.uniform(50, 200)
            return [TraceStep(time, what, -1, side), TraceStep(time + length, "heal", -1)]
        if len(self.live) < 2:
            return []
        node = self.random.choice(self.live)
        self.live.remove(node)
        return [TraceStep(time, what, node)]
