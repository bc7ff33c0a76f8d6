"""Running cooperative trees for the experiments of CoDD: the protocol itself in the simulator, message by message.

In the abstract model nodes join before the first document. There are no statistics then and no queries to compare, so
the join is *blind*: all children of a full node tie, and the first is taken. This is what the source's figures show:
overhead that starts high, and without reorganisation a depth that grows linearly. Beside it stands the join as it is
meant to be, *informed*: one document after every four joins, and ties go to the smaller subtree. Over XML queries are
compared from the start. Links take so little time that control messages are instant in terms of documents, as in the
source's figures.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Any

from twigcast.lab.experiments.framework.model import Measured
from twigcast.lab.overlays.codd.interest import InterestModel, InterestShape
from twigcast.lab.overlays.codd.measures import OverheadWindow, depths, interior, mean_overhead
from twigcast.lab.overlays.codd.scenario import CoddRun, start_run
from twigcast.lab.overlays.codd.siena import SienaTree
from twigcast.lab.workload import PRESETS, bundled_dtd
from twigcast.overlay.codd.engine import Engine, Item, Query
from twigcast.overlay.codd.settings import CoddSettings
from twigcast.overlay.codd.twig_engine import TwigEngine
from twigcast.overlay.codd.twigs import twig_of
from twigcast.overlay.documents import read_document
from twigcast.query import Expr, Path, Step, child, descendant, nested
from twigcast.schema import ElementGraph
from twigcast.subscriptions import SubscriptionSet

SEED = 2003
#: The bundled DTDs that replace the source's.
XML_SETS = {"NITF": "news", "PSD": "protein", "CIML": "customers"}
#: Documents with depths and lengths near the published ones.
XML_PRESETS = {
    "news": replace(PRESETS["news"], levels=8),
    "protein": PRESETS["protein"],
    "customers": replace(PRESETS["customers"], levels=4, max_repeats=1),
}


@dataclass(slots=True)
class Outcome:
    """The results of one run.

    Attributes:
        depths: Depth of every node.
        overheads: Overhead of every interior node over the whole run.
        system: Share of spurious documents among all received by nodes.
        windows: (document, system overhead, mean interior overhead) window by window.
        moves: (document, predicted cost before, after, moved) of every search.
        ratios: (document, overhead of the node that requested a move in the time after it / before it).
        siena: Overhead of every server of the emulated broker tree.
        events: Events simulated.
    """

    depths: list[int] = field(default_factory=list)
    overheads: list[float] = field(default_factory=list)
    system: float = 0.0
    windows: list[tuple[int, float, float]] = field(default_factory=list)
    moves: list[tuple[int, int, int, bool]] = field(default_factory=list)
    ratios: list[tuple[int, float]] = field(default_factory=list)
    siena: list[float] = field(default_factory=list)
    siena_windows: list[tuple[int, float]] = field(default_factory=list)
    events: int = 0

    @property
    def mean(self) -> float:
        """Mean overhead of interior nodes."""
        return sum(self.overheads) / len(self.overheads) if self.overheads else 0.0

    @property
    def depth(self) -> float:
        """Mean depth."""
        return sum(self.depths) / len(self.depths)

    @property
    def final_overhead(self) -> float:
        """Mean interior overhead in the last third of the stream."""
        values = [mean for _, _, mean in self.windows]
        part = values[-max(1, len(values) // 3) :]
        return sum(part) / len(part)

    @property
    def accepted(self) -> int:
        """Number of moves."""
        return sum(moved for *_, moved in self.moves)


def run_tree(
    engine: Engine,
    queries: Sequence[Query],
    items: Iterator[Item],
    settings: CoddSettings,
    *,
    window: int = 250,
    siena: bool = False,
    seed: int = SEED,
    documents_while_joining: bool = True,
) -> Outcome:
    """Lets nodes join, streams documents, and samples the overhead after every window."""
    run = start_run(engine, settings, seed=seed)
    broker = SienaTree(engine, queries, settings.fan_out, seed) if siena else None
    outcome = Outcome()
    sample = OverheadWindow()
    worth = _Worth()

    def after(number: int) -> None:
        worth.note(number, run)
        if number % window == 0:
            system, mean = sample.measure(run.nodes)
            outcome.windows.append((number, system, mean))
            if broker is not None:
                outcome.siena_windows.append((number, broker.window_overhead()))

    run.on_item = after
    stream = _watched(items, broker)
    _grow(run, queries, stream, documents_while_joining)
    sample.measure(run.nodes)
    run.stream(stream)
    results = depths(run)
    outcome.depths = [results[address] for address in sorted(results)]
    outcome.overheads = [node.overhead() for node in interior(run) if node.received_count]
    received = sum(node.received_count for node in run.nodes)
    outcome.system = sum(node.spurious_count for node in run.nodes) / max(1, received)
    outcome.moves = [(int(time), move.cost_before, move.cost_after, move.moved) for time, move in run.moves]
    outcome.ratios = worth.ratios(run)
    outcome.events = run.simulator.counters.events
    if broker is not None:
        outcome.siena = broker.overheads()
    return outcome


class _Worth:
    """Measures what moves are worth: the overhead of the node that requested one, before and after."""

    EVERY = 25
    """Documents between two looks at all nodes."""
    LOOKS = 4
    """Looks before and after a move: 100 documents."""

    def __init__(self) -> None:
        self._samples: list[tuple[int, dict[int, tuple[int, int]], int]] = []

    def note(self, number: int, run: CoddRun) -> None:
        """Remember what all nodes have received so far, and how many searches there were."""
        if number % self.EVERY == 0:
            seen = {node.address: (node.received_count, node.spurious_count) for node in run.nodes}
            self._samples.append((number, seen, len(run.moves)))

    def ratios(self, run: CoddRun) -> list[tuple[int, float]]:
        """(document, overhead after / before) of every move with enough documents on both sides."""
        results: list[tuple[int, float]] = []
        for position in range(self.LOOKS + 1, len(self._samples) - self.LOOKS):
            number, now, last = self._samples[position]
            first = self._samples[position - 1][2]
            before, after = self._samples[position - 1 - self.LOOKS][1], self._samples[position + self.LOOKS][1]
            then = self._samples[position - 1][1]
            for (_, move), node in zip(run.moves[first:last], run.requesters[first:last], strict=True):
                earlier, later = _share(before, then, node), _share(now, after, node)
                if move.moved and earlier and later is not None:
                    results.append((number, later / earlier))
        return results


def _share(one: Mapping[int, tuple[int, int]], other: Mapping[int, tuple[int, int]], node: int) -> float | None:
    """Overhead of a node between two looks."""
    if node not in one or node not in other or other[node][0] == one[node][0]:
        return None
    return (other[node][1] - one[node][1]) / (other[node][0] - one[node][0])


def _watched(items: Iterator[Item], broker: SienaTree | None) -> Iterator[Item]:
    for item in items:
        if broker is not None:
            broker.publish(item)
        yield item


def _grow(run: CoddRun, queries: Sequence[Query], stream: Iterator[Item], documents_while_joining: bool) -> None:
    for address, query in enumerate(queries, 1):
        run.add(address, query)
        run.simulator.run(until=run.simulator.now + 1)
        if documents_while_joining and address % 4 == 0:
            for item in islice(stream, 1):
                run.publish(item)
        run.simulator.run(until=run.simulator.now + 1)


@lru_cache(maxsize=64)
def interest_run(nodes: int, documents: int, shape: tuple[tuple[str, Any], ...], chosen: tuple[tuple[str, Any], ...],
                 siena: bool = False, informed: bool = False) -> Outcome:  # fmt: skip
    """Runs a tree in the abstract data model."""
    model = InterestModel(InterestShape(interests=nodes, **dict(shape)), SEED)
    settings = CoddSettings(**dict(chosen), structural_match=informed, balance_ties=informed)
    return run_tree(
        model,
        range(nodes),
        model.items(documents),
        settings,
        window=max(50, documents // 40),
        siena=siena,
        documents_while_joining=informed,
    )


def interests(nodes: int, documents: int, *, shape: Mapping[str, Any] | None = None, siena: bool = False,
              informed: bool = False, **settings: Any) -> Outcome:  # fmt: skip
    """Runs a tree in the abstract data model, with settings by name. Figures share runs with equal settings."""
    chosen = tuple(sorted((shape or {}).items())), tuple(sorted(settings.items()))
    return interest_run(nodes, documents, *chosen, siena, informed)


# XML.


def twig_queries(dtd: str, count: int, seed: int, wildcard: float = 0.2, branch: float = 0.3, deep: float = 0.2,
                 ) -> list[Path]:  # fmt: skip
    """Draws twig queries as the paper does: label `*`, more than one branch, descendant axis by probability."""
    schema = bundled_dtd(dtd)
    generator = random.Random(f"twigs {dtd} {seed}")  # noqa: S311 - reproducible, not secret
    maker = _TwigGenerator(ElementGraph(schema), schema.root, generator, wildcard, branch, deep)
    return [maker.make() for _ in range(count)]


class _TwigGenerator:
    """Walks the element graph from the root and branches now and then."""

    def __init__(
        self, graph: ElementGraph, root: str, generator: random.Random, wildcard: float, branch: float, deep: float
    ) -> None:
        self.graph = graph
        self.root = root
        self.random = generator
        self.wildcard = wildcard
        self.branch = branch
        self.deep = deep

    def make(self) -> Path:
        """One query, of three to six levels: with these the selectivity on NITF is the published one."""
        return Path.absolute(*self._steps(self.root, self.random.randint(3, 6), 1))

    def _steps(self, name: str, left: int, branches: int) -> list[Step]:
        below = self.graph.children(name)
        inner: list[Expr] = []
        onward: list[Step] = []
        if left > 1 and below:
            if branches and self.random.random() < self.branch:
                other = self.random.choice(below)
                inner.append(nested(*self._steps(other, min(2, left - 1), 0)))
            onward = self._steps(self.random.choice(below), left - 1, branches)
        label = "*" if self.random.random() < self.wildcard else name
        make = descendant if self.random.random() < self.deep else child
        return [make(label, *inner), *onward]


@lru_cache(maxsize=4)
def xml_workload(dtd: str, nodes: int, documents: int) -> tuple[TwigEngine, list[Query], list[Item]]:
    """Makes queries and a stream over a DTD. Our engine evaluates all queries on each document at once."""
    schema = bundled_dtd(dtd)
    paths = twig_queries(dtd, nodes, SEED)
    twigs = [twig_of(path) for path in paths]
    engine = TwigEngine()
    engine.mask(twigs)
    subscriptions = SubscriptionSet()
    by_text = {str(path): twig for path, twig in zip(paths, twigs, strict=True)}
    for text in by_text:
        subscriptions.add(text, text)
    items: list[Item] = []
    for number, xml in enumerate(XML_PRESETS[dtd].make(schema, documents, SEED), 1):
        items.append(Item(number, read_document(str(number), xml), len(xml)))
        engine.set_answer(number, [by_text[key] for key in subscriptions.match(xml).keys])
    return engine, list(twigs), items


@lru_cache(maxsize=32)
def _xml_run(dtd: str, nodes: int, documents: int, chosen: tuple[tuple[str, Any], ...]) -> Outcome:
    engine, queries, items = xml_workload(dtd, nodes, documents)
    return run_tree(engine, queries, iter(items), CoddSettings(**dict(chosen)), window=max(10, documents // 40))


def xml_run(dtd: str, nodes: int, documents: int, **settings: Any) -> Outcome:
    """Runs a tree over XML. The statistics are a data summary."""
    return _xml_run(dtd, nodes, documents, tuple(sorted(settings.items())))


# Rows.


def percentiles(series: str, values: Iterable[float], metric: str) -> list[Measured]:
    """Returns a distribution as its ranked curve at twenty ranks."""
    ranked = sorted(values)
    if not ranked:
        return []
    positions = [round(step * (len(ranked) - 1) / 20) for step in range(21)]
    return [Measured(series, 5 * step, metric, (float(ranked[position]),)) for step, position in enumerate(positions)]


def curve(series: str, points: Iterable[tuple[float, float]], metric: str) -> list[Measured]:
    """Returns the rows of a curve."""
    return [Measured(series, x, metric, (y,)) for x, y in points]


__all__ = [
    "XML_SETS",
    "Outcome",
    "curve",
    "interests",
    "mean_overhead",
    "percentiles",
    "twig_queries",
    "xml_run",
    "xml_workload",
]
