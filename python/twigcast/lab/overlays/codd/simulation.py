"""A cooperative tree as `twigcast overlay simulate codd` runs it."""

from __future__ import annotations

import dataclasses
import random
from itertools import islice

from twigcast.lab.overlays.codd.interest import InterestModel, InterestShape
from twigcast.lab.overlays.codd.measures import check_tree, depths, interior, mean_overhead
from twigcast.lab.overlays.codd.scenario import INSTANT, ROBUST, ROOT, start_run
from twigcast.lab.overlays.journal import Journal
from twigcast.lab.overlays.simulator import NetworkFaults
from twigcast.overlay.codd.settings import CoddSettings
from twigcast.overlay.core import Address


class CoddSimulation:
    """Nodes join a stream of documents; some may crash.

    Args:
        nodes: Number of nodes.
        fan_out: Most children of a node.
        reorganise: Move subtrees.
        reorganise_after: Documents between two requests of a node.
        robust: Heartbeats and reliable links, so that crashes and losses are survived.
        loss: Probability that the network loses a message.
        seed: Seed of everything random.
        keep_journal: Keep a journal of every message.
    """

    def __init__(
        self,
        nodes: int,
        *,
        fan_out: int,
        reorganise: bool,
        reorganise_after: int,
        robust: bool,
        loss: float,
        seed: int,
        keep_journal: bool,
    ) -> None:
        self.nodes = nodes
        self.random = random.Random(seed)  # noqa: S311 - reproducible, not secret
        settings = dataclasses.replace(
            ROBUST if robust else CoddSettings(),
            fan_out=fan_out,
            reorganise=reorganise,
            reorganise_after=reorganise_after,
        )
        faults = NetworkFaults(0.2, 0.4, loss=loss) if robust else INSTANT
        self.model = InterestModel(InterestShape(nodes), seed)
        self.run = start_run(self.model, settings, faults, seed, Journal(keep=keep_journal))
        self.interval = 2.0 if robust else 1.0

    def grow(self, documents: int) -> None:
        """Lets all nodes join, while the first documents flow."""
        self.items = self.model.items(documents)
        for address in range(1, self.nodes + 1):
            self.run.add(address, address - 1)
            self.run.simulator.run(until=self.run.simulator.now + self.interval)
            if address % 4 == 0:
                for item in islice(self.items, 1):
                    self.run.publish(item)
        self.run.simulator.run(until=self.run.simulator.now + 50 * self.interval)

    def stream(self, crashes: int) -> None:
        """Lets the rest of the documents flow, and nodes crash at regular intervals."""
        rest = list(self.items)
        every = max(1, len(rest) // max(1, crashes + 1))
        left = crashes
        for number, item in enumerate(rest, 1):
            self.run.publish(item)
            self.run.simulator.run(until=self.run.simulator.now + self.interval)
            if left and number % every == 0:
                left -= 1
                self.run.simulator.remove(self.random.choice([node.address for node in self.run.nodes]))
        if self.run.settings.heartbeat:
            self.run.simulator.run(until=self.run.simulator.now + 1000)

    def measures(self) -> dict[str, float | int | str]:
        """Returns the measures of the run."""
        run = self.run
        results = depths(run)
        received = sum(node.received_count for node in run.nodes)
        measures: dict[str, float | int | str] = {
            "nodes alive": len(run.nodes),
            "nodes in the tree": len(results),
            "depth, mean": sum(results.values()) / max(1, len(results)),
            "depth, most": max(results.values(), default=0),
            "interior nodes": len(interior(run)),
            "overhead, mean of interior nodes": mean_overhead(interior(run)),
            "overhead of the system": sum(node.spurious_count for node in run.nodes) / max(1, received),
            "searches for a better place": len(run.moves),
            "moves": sum(move.moved for _, move in run.moves),
            "tree": "whole" if not check_tree(run) else "not converged",
        }
        for traffic, count in sorted(run.simulator.counters.by_traffic().items()):
            measures[f"messages, {traffic}"] = count
        return measures

    def tree(self) -> tuple[dict[Address, Address], dict[Address, float]]:
        """Returns parents and overheads, to draw."""
        result = depths(self.run)
        nodes = [node for node in self.run.nodes if node.address in result]
        return {node.address: node.parent for node in nodes}, {node.address: node.overhead() for node in nodes} | {
            ROOT: 0.0
        }
