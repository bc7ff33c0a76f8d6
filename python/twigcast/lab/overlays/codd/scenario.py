"""Running streams and traces against a cooperative tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from twigcast.lab.overlays.journal import Fate, Journal
from twigcast.lab.overlays.simulator import NetworkFaults, Simulator
from twigcast.lab.overlays.trace import TraceStep
from twigcast.overlay.codd import handlers as _handlers  # noqa: F401 - completes CoddNode
from twigcast.overlay.codd import join, leave, links, reorganise
from twigcast.overlay.codd.engine import Engine, Item, Query
from twigcast.overlay.codd.messages import Reorganised
from twigcast.overlay.codd.node import CoddNode
from twigcast.overlay.codd.settings import CoddSettings
from twigcast.overlay.core import Address, LinkSettings
from twigcast.overlay.errors import EmptyNetwork, TraceError

#: The producer's address.
ROOT: Address = 0

#: Settings under which nothing is lost or doubled, whatever joins, leaves, crashes and moves there are.
ROBUST = CoddSettings(
    heartbeat=5,
    heartbeat_time=25.0,
    link=LinkSettings(reliable=True, retry_delay=5.0, attempts_max=8),
)

#: A network so fast that control messages take no time in terms of documents, as the source's figures assume.
INSTANT = NetworkFaults(latency_min=0.001, latency_max=0.001)


@dataclass(slots=True)
class CoddRun:
    """A cooperative tree in a simulator.

    Attributes:
        engine: Data model and query language.
        settings: Settings of all nodes.
        simulator: The driver.
        moves: The searches for better places so far, with when they ended.
        requesters: Whose children these searches were for, in the same order.
        on_item: Called after each document of `stream`, with its number.
    """

    engine: Engine
    settings: CoddSettings
    simulator: Simulator
    moves: list[tuple[float, Reorganised]] = field(default_factory=list)
    requesters: list[Address] = field(default_factory=list)
    on_item: Callable[[int], None] | None = None

    @property
    def nodes(self) -> list[CoddNode]:
        """The live nodes without the producer, in order of address."""
        nodes = self.simulator.nodes
        return [node for address in sorted(nodes) if address != ROOT and isinstance(node := nodes[address], CoddNode)]

    @property
    def root(self) -> CoddNode:
        """The producer.

        Raises:
            EmptyNetwork: It is gone.
        """
        node = self.simulator.nodes.get(ROOT)
        if not isinstance(node, CoddNode):
            raise EmptyNetwork("the producer is gone")
        return node

    def add(self, address: Address, query: Query, seeds: tuple[Address, ...] = (ROOT,)) -> None:
        """Adds a node with this query, which starts to join."""
        self.simulator.add(
            CoddNode(address, query, self.engine, self.settings, ROOT, incarnation=self.simulator.next_life(address))
        )
        self.simulator.command(address, join.join, seeds)

    def publish(self, item: Item) -> None:
        """Emits a document at the producer."""
        self.simulator.command(ROOT, CoddNode.publish, item)
        if self.settings.top and item.number % self.settings.batch == 0:
            self.simulator.command(ROOT, reorganise.serve_batch)

    def stream(self, items: Iterable[Item], interval: float = 1.0) -> None:
        """Emits documents at regular intervals, and lets each spread."""
        for item in items:
            self.publish(item)
            self.simulator.run(until=self.simulator.now + interval)
            if self.on_item is not None:
                self.on_item(item.number)

    def play(self, trace: Sequence[TraceStep], settle: float) -> None:
        """Runs a trace: `join` with (query, seeds), `leave`, `crash`, `publish` with an item, `partition`, `heal`."""
        for step in trace:
            self.simulator.at(step.time, self._do, step)
        last = max((step.time for step in trace), default=0.0)
        self.simulator.run(until=last + settle)

    def _do(self, step: TraceStep) -> None:
        simulator = self.simulator
        if simulator.journal.active:
            simulator.journal.record(simulator.now, Fate.DONE, step.node, step.node, step)
        if step.what == "join":
            self.add(step.node, *step.argument)
        elif step.what == "leave":
            simulator.command(step.node, leave.leave)
            simulator.at(simulator.now + 1, self._remove_when_idle, step.node)
        elif step.what == "crash":
            simulator.remove(step.node)
        elif step.what == "publish":
            self.publish(step.argument)
        elif step.what == "partition":
            simulator.partition([step.argument])
        elif step.what == "heal":
            simulator.heal()
        else:
            raise TraceError(f"unknown step {step.what!r}")

    def _remove_when_idle(self, address: Address) -> None:
        """The process of a node that left ends some time after its last child has gone."""
        node = self.simulator.nodes.get(address)
        if node is None:
            return
        link = self.settings.link
        patience = link.retry_delay * link.attempts_max if link.reliable else 1.0
        if isinstance(node, CoddNode) and node.active:
            self.simulator.at(self.simulator.now + patience, self._remove_when_idle, address)
        else:
            self.simulator.at(self.simulator.now + patience, self._remove_if_there, address)

    def _remove_if_there(self, address: Address) -> None:
        if address in self.simulator.nodes:
            self.simulator.remove(address)


def start_run(
    engine: Engine,
    settings: CoddSettings,
    faults: NetworkFaults = INSTANT,
    seed: int = 0,
    journal: Journal | None = None,
) -> CoddRun:
    """Returns a tree with the producer alone."""
    simulator = Simulator(seed, faults, journal or Journal(keep=False))
    run = CoddRun(engine, settings, simulator)

    def note(time: float, address: Address, item: Any) -> None:
        if isinstance(item, Reorganised):
            run.moves.append((time, item))
            run.requesters.append(address)

    simulator.on_delivery = note
    simulator.add(CoddNode(ROOT, None, engine, settings, ROOT))
    simulator.command(ROOT, links.start_producer)
    return run
