"""The baseline: a fixed tree of servers with clients, as Siena would have it (CoDD, section 5.3.1).

A fraction of the nodes are servers; they form a balanced tree, and every client hangs on a random server. Nothing
moves. Filters are aggregated upwards and are exact, so the overhead is a property of who hangs where; no protocol is
needed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from twigcast.overlay.codd.engine import Engine, Item, Query
from twigcast.overlay.errors import ImpossibleSetting


class SienaTree:
    """Counts what the servers of a fixed broker tree receive and do not want.

    Args:
        engine: The data model.
        queries: One a node; some of the nodes become servers.
        fan_out: Servers below a server, and clients of a server on average.
        seed: Seed of who is what.
    """

    def __init__(self, engine: Engine, queries: Sequence[Query], fan_out: int, seed: int = 0) -> None:
        if fan_out < 1:
            raise ImpossibleSetting("fan_out", fan_out, "at least 1")
        self._engine = engine
        generator = random.Random(f"servers {seed}")  # noqa: S311 - reproducible, not secret
        shuffled = list(queries)
        generator.shuffle(shuffled)
        count = -(-len(shuffled) // (fan_out + 1))
        self.own = [engine.mask([query]) for query in shuffled[:count]]
        self.below = list(self.own)
        for query in shuffled[count:]:
            self.below[generator.randrange(count)] |= engine.mask([query])
        for server in range(count - 1, 0, -1):
            self.below[(server - 1) // fan_out] |= self.below[server]
        self.received = [0] * count
        self.spurious = [0] * count
        self._before = (0, 0)

    def publish(self, item: Item) -> None:
        """Counts a document: a server receives it for anybody below, and uses it only for its own queries."""
        satisfied = self._engine.satisfied(item)
        for server, below in enumerate(self.below):
            if below & satisfied:
                self.received[server] += 1
                if not self.own[server] & satisfied:
                    self.spurious[server] += 1

    def overheads(self) -> list[float]:
        """Returns the share of spurious documents at every server."""
        return [s / r for s, r in zip(self.spurious, self.received, strict=True) if r]

    def window_overhead(self) -> float:
        """Returns the share of spurious documents at all servers since the last call."""
        received, spurious = sum(self.received), sum(self.spurious)
        new = received - self._before[0], spurious - self._before[1]
        self._before = received, spurious
        return new[1] / new[0] if new[0] else 0.0
