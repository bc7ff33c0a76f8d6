"""The measures of a cooperative tree (CoDD, section 2): overhead, depth, and whether the tree is as it must be."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from twigcast.lab.overlays.checkers import Violation
from twigcast.lab.overlays.codd.scenario import ROOT, CoddRun
from twigcast.lab.overlays.journal import Journal
from twigcast.lab.overlays.trace import TraceStep
from twigcast.overlay.codd.engine import Item, Query
from twigcast.overlay.codd.messages import JoinedTree, Received, StreamEnded
from twigcast.overlay.codd.node import CoddNode
from twigcast.overlay.core import Address


def depths(run: CoddRun) -> dict[Address, int]:
    """Returns the depth of every node that hangs below the producer."""
    results = {ROOT: 0}
    frontier = [run.root]
    nodes = run.simulator.nodes
    while frontier:
        node = frontier.pop()
        for address in node.children:
            child = nodes.get(address)
            if isinstance(child, CoddNode) and child.parent == node.address and address not in results:
                results[address] = results[node.address] + 1
                frontier.append(child)
    del results[ROOT]
    return results


def interior(run: CoddRun) -> list[CoddNode]:
    """Returns the nodes with children, without the producer."""
    return [node for node in run.nodes if node.children]


def mean_overhead(nodes: Iterable[CoddNode]) -> float:
    """Returns the mean over nodes of the share of received documents that only passed through."""
    values = [node.overhead() for node in nodes if node.received_count]
    return sum(values) / len(values) if values else 0.0


class OverheadWindow:
    """Overhead since the last look, over all nodes together and as a mean over interior nodes."""

    def __init__(self) -> None:
        self._before: dict[Address, tuple[int, int]] = {}

    def measure(self, nodes: Iterable[CoddNode]) -> tuple[float, float]:
        """Returns the system's share of spurious documents, and the mean share of the nodes with children."""
        received = spurious = 0
        shares: list[float] = []
        for node in nodes:
            before = self._before.get(node.address, (0, 0))
            new = node.received_count - before[0], node.spurious_count - before[1]
            self._before[node.address] = node.received_count, node.spurious_count
            received += new[0]
            spurious += new[1]
            if node.children and new[0]:
                shares.append(new[1] / new[0])
        system = spurious / received if received else 0.0
        return system, sum(shares) / len(shares) if shares else 0.0


# Checkers.


def check_tree(run: CoddRun) -> list[Violation]:
    """Checks whether the live nodes form one tree below the producer, fan-outs hold, and filters are wide enough."""
    result = depths(run)
    violations: list[Violation] = []
    for node in run.nodes:
        if not node.active:
            continue
        if node.address not in result:
            violations.append(
                Violation("tree", node.now, node.address, f"not below the producer; parent {node.parent}")
            )
    for node in [run.root, *run.nodes]:
        if len(node.children) > node.settings.fan_out:
            violations.append(Violation("fan-out", node.now, node.address, f"{len(node.children)} children"))
        for address, child in node.children.items():
            below = run.simulator.nodes.get(address)
            if not isinstance(below, CoddNode):
                violations.append(Violation("child", node.now, node.address, f"{address} is dead"))
            elif below.parent == node.address and not child.queries >= below.filter.announced:
                violations.append(Violation("filter", node.now, node.address, f"of {address} is too narrow"))
        asked = set() if node.query is None else {node.query}
        asked = asked.union(*(child.queries for child in node.children.values()))
        if set(node.filter.counts) != asked:
            violations.append(Violation("counts", node.now, node.address, "do not add up"))
    return violations


class _Life(NamedTuple):
    """The time from a node's start to its end, and what it asked for."""

    node: Address
    query: Any
    begin: float
    end: float  #: When it crashed or began to leave; infinity for never.


def _lives(trace: Sequence[TraceStep]) -> list[_Life]:
    lives: list[_Life] = []
    living: dict[Address, _Life] = {}
    for step in trace:
        if step.what == "join":
            living[step.node] = _Life(step.node, step.argument[0], step.time, math.inf)
        elif step.what in ("leave", "crash"):
            lives.append(living.pop(step.node)._replace(end=step.time))
    return [*lives, *living.values()]


def check_deliveries(
    journal: Journal, trace: Sequence[TraceStep], is_wanted: Callable[[Query, Item], bool]
) -> list[Violation]:
    """Checks whether each node gets, from its first document on, each that satisfies its query once, and no other.

    Deliveries to a former life at the same address are judged separately. `is_wanted` is the oracle.
    """
    items = [step.argument for step in trace if step.what == "publish"]
    events: dict[Address, list[tuple[float, Any]]] = defaultdict(list)
    for entry in journal.delivered():
        events[entry.receiver].append((entry.time, entry.item))
    lives = _lives(trace)
    violations: list[Violation] = []
    for life in lives:
        node = life.node
        # A node that leaves gets documents until it is gone; the next life begins after that.
        until = min(
            (other.begin for other in lives if other.node == node and other.begin > life.begin), default=math.inf
        )
        seen = [item for time, item in events[node] if life.begin <= time < until]
        got = Counter(item.number for item in seen if isinstance(item, Received))
        wanted = {item.number for item in items if is_wanted(life.query, item)}
        first = next((item.first for item in seen if isinstance(item, JoinedTree)), None)
        twice = sorted(number for number, times in got.items() if times > 1)
        for rule, numbers in (("doubled", twice), ("false", sorted(got.keys() - wanted))):
            if numbers:
                violations.append(Violation(rule, life.begin, node, str(numbers)))
        if life.end < math.inf or any(isinstance(item, StreamEnded) for item in seen):
            continue
        if first is None:
            violations.append(Violation("not joined", life.begin, node, "never joined"))
        elif missing := sorted(number for number in wanted - got.keys() if number >= first):
            violations.append(Violation("lost", life.begin, node, str(missing)))
    return violations
