"""Running traces against peers on a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twigcast.lab.overlays.chord.build import build_ring, make_peer
from twigcast.lab.overlays.journal import Fate, Journal
from twigcast.lab.overlays.simulator import NetworkFaults, Simulator
from twigcast.lab.overlays.trace import TraceStep
from twigcast.overlay.chord import indexing, maintenance, publication
from twigcast.overlay.chord.messages import RingFailure
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.core import Address, LinkSettings
from twigcast.overlay.errors import TraceError

#: Settings under which subscriptions outlive failures and publications are confirmed.
ROBUST = ChordSettings(
    successors=6,
    replicas=3,
    maintain=True,
    confirm=True,
    meet_at_subscriber=True,
    link=LinkSettings(reliable=True, retry_delay=5.0, attempts_max=8),
)


@dataclass(slots=True)
class ChordRun:
    """A trace run against a ring that had converged at the start.

    Attributes:
        simulator: The driver, with journal and counters.
        settings: Settings of all peers.
        trace: What happens.
    """

    simulator: Simulator
    settings: ChordSettings
    trace: Sequence[TraceStep]

    @property
    def peers(self) -> list[Peer]:
        """The live peers, in order of address."""
        nodes = self.simulator.nodes
        return [node for address in sorted(nodes) if isinstance(node := nodes[address], Peer)]

    def run(self, settle: float) -> None:
        """Runs the whole trace and then `settle` longer."""
        for step in self.trace:
            self.simulator.at(step.time, self._do, step)
        last = max((step.time for step in self.trace), default=0.0)
        self.simulator.run(until=last + settle)

    def join_again(self, time: float, node: Address, item: Any) -> None:
        """Lets a node that found no ring try again, as its process does."""
        if isinstance(item, RingFailure) and item.what == "join":
            self.simulator.at(time + self.settings.stabilise_period, self._join_again, node)

    def _join_again(self, node: Address) -> None:
        peer = self.simulator.nodes.get(node)
        if isinstance(peer, Peer):
            self.simulator.command(node, maintenance.start_join, peer.seeds)

    def _do(self, step: TraceStep) -> None:
        simulator = self.simulator
        if simulator.journal.active:
            simulator.journal.record(simulator.now, Fate.DONE, step.node, step.node, step)
        argument = step.argument
        if step.what == "join":
            simulator.add(make_peer(step.node, self.settings, incarnation=simulator.next_life(step.node)))
            simulator.command(step.node, maintenance.start_join, argument)
        elif step.what == "leave":
            simulator.command(step.node, maintenance.leave)
            # The process stays until its farewells are acknowledged, then ends.
            link = self.settings.link
            simulator.at(simulator.now + link.retry_delay * link.attempts_max, simulator.remove, step.node)
        elif step.what == "crash":
            simulator.remove(step.node)
        elif step.what == "subscribe":
            simulator.command(step.node, indexing.subscribe, *argument)
        elif step.what == "unsubscribe":
            simulator.command(step.node, indexing.unsubscribe, argument)
        elif step.what == "publish":
            simulator.command(step.node, publication.publish, argument)
        elif step.what == "partition":
            simulator.partition([argument])
        elif step.what == "heal":
            simulator.heal()
        else:
            raise TraceError(f"unknown step {step.what!r}")


def start_run(
    trace: Sequence[TraceStep],
    nodes: int,
    settings: ChordSettings = ROBUST,
    faults: NetworkFaults | None = None,
    seed: int = 0,
) -> ChordRun:
    """Prepares the run of a trace on a converged ring of `nodes` peers. Its method `run` runs it."""
    simulator = Simulator(seed, faults or NetworkFaults(0.5, 1.5), Journal(keep=True), settings.virtual_nodes)
    for peer in build_ring(settings, nodes):
        simulator.add(peer)
    run = ChordRun(simulator, settings, trace)
    simulator.on_delivery = run.join_again
    return run
