"""The overlays' simulator: events a second of processor time, and memory a node.

A ring indexes queries and publishes messages, a tree lets its nodes join and passes documents on, both message by
message. Each row is measured in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from benchmarks.measure import Row, once, resident_bytes
from twigcast.lab.overlays.chord.build import build_ring
from twigcast.lab.overlays.codd.interest import InterestShape, PlannedInterests
from twigcast.lab.overlays.codd.scenario import start_run
from twigcast.lab.overlays.simulations import small_documents, small_queries
from twigcast.lab.overlays.simulator import Simulator
from twigcast.overlay.chord import indexing, publication
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.codd.settings import CoddSettings
from twigcast.query import Path

QUERIES = 2_000
MESSAGES = 10
JOINING, DOCUMENTS = 100, 400


def measure(kind: str, nodes: str) -> list[Row]:
    """What the parts of a simulation take: one row a part."""
    return _KINDS[kind](int(nodes))


def _ring(nodes: int) -> list[Row]:
    before = resident_bytes()
    simulator = Simulator()
    building = once(lambda: _build(simulator, nodes))
    queries = small_queries(QUERIES, 1)
    indexed = once(lambda: _index(simulator, queries))
    asked = simulator.counters.events
    published = once(lambda: _publish(simulator))
    kilobytes = (resident_bytes() - before) / 1000 / nodes
    return [
        _row("ring", nodes, "built", building, 0, kilobytes),
        _row("ring", nodes, f"{QUERIES:,} queries indexed", indexed, asked, kilobytes),
        _row("ring", nodes, f"{MESSAGES} messages", published, simulator.counters.events - asked, kilobytes),
    ]


def _build(simulator: Simulator, nodes: int) -> None:
    for peer in build_ring(ChordSettings(), nodes):
        simulator.add(peer)


def _index(simulator: Simulator, queries: Sequence[Path]) -> None:
    for number, query in enumerate(queries):
        simulator.command(number % len(simulator.nodes), indexing.subscribe, str(number), query)
        simulator.run()


def _publish(simulator: Simulator) -> None:
    for number, document in enumerate(small_documents(MESSAGES, 1)):
        simulator.command(number % len(simulator.nodes), publication.publish, document)
        simulator.run()


def _tree(nodes: int) -> list[Row]:
    model = PlannedInterests(InterestShape(nodes), 1, JOINING + DOCUMENTS)
    before = resident_bytes()
    run = start_run(model, CoddSettings())
    items = model.items(JOINING + DOCUMENTS)
    simulator = run.simulator

    def join() -> None:
        for address in range(1, nodes + 1):
            run.add(address, address - 1)
            simulator.run(until=simulator.now + 1)
            if address % max(1, nodes // JOINING) == 0:
                run.stream(islice(items, 1))

    joined = once(join)
    events = simulator.counters.events
    streamed = once(lambda: run.stream(items))
    kilobytes = (resident_bytes() - before) / 1000 / nodes
    return [
        _row("tree", nodes, f"joined under {JOINING} documents", joined, events, kilobytes),
        _row("tree", nodes, f"{DOCUMENTS} documents", streamed, simulator.counters.events - events, kilobytes),
    ]


def _row(kind: str, nodes: int, part: str, seconds: float, events: int, kilobytes: float) -> Row:
    return {
        "network": kind,
        "nodes": nodes,
        "part": part,
        "seconds": seconds,
        "events": events,
        "events_per_s": events / seconds if events else None,
        "kB_per_node": kilobytes,
    }


_KINDS: dict[str, Callable[[int], list[Row]]] = {"ring": _ring, "tree": _tree}
