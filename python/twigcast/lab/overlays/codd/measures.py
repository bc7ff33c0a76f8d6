"""The measures of a cooperative tree (CoDD, section 2): overhead, depth, and whether the tree is as it must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from twigcast.lab.overlays.checkers import Violation
from twigcast.lab.overlays.codd.scenario import ROOT, CoddRun
from twigcast.lab.overlays.journal import Journal
from twigcast.lab.overlays.trace import TraceStep
from twigcast.overlay.codd.engine import Engine, Item
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


class _Deliveries:
    """What a trace asked for and a journal shows."""

    def __init__(self, journal: Journal, trace: Sequence[TraceStep]) -> None:
        self.queries: dict[Address, Any] = {}
        self.gone: set[Address] = set()
        self.items: list[Item] = []
        for step in trace:
            if step.what == "join":
                self.queries[step.node] = step.argument[0]
            elif step.what in ("leave", "crash"):
                self.gone.add(step.node)
            elif step.what == "publish":
                self.items.append(step.argument)
        self.first: dict[Address, int] = {}
        self.received: dict[Address, list[int]] = {}
        for entry in journal.delivered():
            if isinstance(entry.item, JoinedTree):
                self.first.setdefault(entry.receiver, entry.item.first)
            elif isinstance(entry.item, Received):
                self.received.setdefault(entry.receiver, []).append(entry.item.number)
            elif isinstance(entry.item, StreamEnded):
                self.gone.add(entry.receiver)


def check_deliveries(journal: Journal, trace: Sequence[TraceStep], engine: Engine) -> list[Violation]:
    """Checks whether each node gets, from its first document on, each that satisfies its query once, and no other."""
    seen = _Deliveries(journal, trace)
    violations: list[Violation] = []
    for node, query in seen.queries.items():
        mask = engine.mask([query])
        got = seen.received.get(node, [])
        requested = {item.number for item in seen.items if engine.satisfied(item) & mask}
        due = {number for number in requested if number >= seen.first.get(node, 1 << 60)}
        twice = sorted(number for number, times in Counter(got).items() if times > 1)
        for rule, numbers in (("doubled", twice), ("false", sorted(set(got) - requested))):
            if numbers:
                violations.append(Violation(rule, 0.0, node, str(numbers)))
        if node in seen.gone:
            continue
        if node not in seen.first:
            violations.append(Violation("not joined", 0.0, node, "never joined"))
        if not due <= set(got):
            violations.append(Violation("lost", 0.0, node, str(sorted(due - set(got)))))
    return violations
