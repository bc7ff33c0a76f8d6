"""Building and measuring distributed automata for the experiments of Miliaraki et al. (WWW 2008).

Messages, latencies and loads are tallied (`twigcast.lab.overlays.chord.tally`), which a test holds equal to the
simulator number for number; that makes a million queries a matter of minutes. Averages are over the published messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from twigcast.lab.experiments.framework.model import Measured, Point
from twigcast.lab.overlays.chord.automaton import Automaton, EncodedPaths, labels_of
from twigcast.lab.overlays.chord.positions import RingPositions
from twigcast.lab.overlays.chord.tally import FilteringTally, Network
from twigcast.lab.workload import DTD_NAMES, PRESETS, bundled_dtd, path_queries
from twigcast.lab.workload.errors import WorkloadExhaustedError
from twigcast.overlay.documents import Document, read_document

SEED = 2008
#: The measures of a tally, and what they are called in tables.
MEASURES = {
    "messages": "messages",
    "hops": "routed hops, all messages",
    "latency_steps": "latency, logical steps",
    "latency_hops": "latency, routed hops",
    "matched": "queries matched",
}
NITF = ("news",)
#: Messages of about the published average sizes, 36.5 kB for NITF alone and 4.8 kB over all DTDs.
ALONE = {"news": replace(PRESETS["news"], levels=8, max_repeats=5)}
MIXED = {**PRESETS, "news": replace(PRESETS["news"], levels=8, max_repeats=4)}
AGGREGATED = tuple(DTD_NAMES)


def make_queries(dtds: Sequence[str], count: int, *, distinct: bool, seed: int = SEED, **parameters: Any) -> list[str]:
    """Makes path queries of depth 10, an equal part from every DTD; fewer from one that has no more different ones."""
    share = count // len(dtds)
    created: list[str] = []
    for dtd in dtds:
        created.extend(_queries_of(dtd, share, distinct, seed, **parameters))
    # One after the other from every DTD, so that the first half is like the whole.
    return [created[start + step] for step in range(share) for start in range(0, len(created) - step, share)]


def _queries_of(dtd: str, count: int, distinct: bool, seed: int, **parameters: Any) -> list[str]:
    results: list[str] = []
    asked = min(count, 1000)
    while len(results) < count:
        try:
            results = path_queries(bundled_dtd(dtd), asked, seed, depth=10, distinct=distinct, **parameters)
        except WorkloadExhaustedError:
            # A small DTD has no more different ones: others repeat.
            return (results * (count // max(1, len(results)) + 1))[:count]
        # By 64,000 a small DTD has run out: from there on all at once.
        asked = count if asked >= 64_000 else min(count, asked * 8)
    return results


def make_documents(dtds: Sequence[str], count: int, seed: int = SEED) -> list[Document]:
    """Makes messages, in turn from every DTD. Experiments with equal ones share them."""
    return list(_documents(tuple(dtds), count, seed))


@lru_cache(maxsize=2)
def _documents(dtds: tuple[str, ...], count: int, seed: int) -> tuple[Document, ...]:
    each = -(-count // len(dtds))
    presets = ALONE if dtds == NITF else MIXED
    created = [list(presets[dtd].make(bundled_dtd(dtd), each, seed)) for dtd in dtds]
    mixed = [xml for group in zip(*created, strict=True) for xml in group]
    return tuple(read_document(f"m{number}", xml) for number, xml in enumerate(mixed[:count]))


def make_paths(dtds: Sequence[str], count: int, *, distinct: bool, **parameters: Any) -> EncodedPaths:
    """Makes the same queries, encoded. Experiments with equal ones share them."""
    return _paths(tuple(dtds), count, distinct, tuple(sorted(parameters.items())))


@lru_cache(maxsize=2)
def _paths(dtds: tuple[str, ...], count: int, distinct: bool, chosen: tuple[tuple[str, Any], ...]) -> EncodedPaths:
    return EncodedPaths(labels_of(query) for query in make_queries(dtds, count, distinct=distinct, **dict(chosen)))


PUBLISHERS = 16
"""Different peers that publish."""


def published(network: Network, documents: Sequence[Document], *, iteratively: bool = False) -> list[FilteringTally]:
    """Publishes messages from several peers in turn."""
    count = len(network.positions)
    publishers = [number % PUBLISHERS * 7919 % count for number in range(len(documents))]
    publish = network.publish_all_iteratively if iteratively else network.publish_all
    return publish(documents, publishers)


def averaged(series: str, x: float | str, tallies: Sequence[FilteringTally]) -> list[Measured]:
    """Returns the mean of every measure."""
    return [
        Measured(series, x, measure, (sum(getattr(tally, measure) for tally in tallies) / len(tallies),))
        for measure in MEASURES
    ]


def measure_growth(point: Point) -> list[Measured]:
    """Measures a curve over the number of queries: messages, latencies, states, indexing traffic."""
    return list(_growth(_frozen(point.parameters)))


def _frozen(parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((key, tuple(value) if isinstance(value, list) else value) for key, value in parameters.items()))


@lru_cache(maxsize=8)
def _growth(frozen: tuple[tuple[str, Any], ...]) -> tuple[Measured, ...]:
    parameters = dict(frozen)
    series = parameters["series"]
    documents = make_documents(parameters["dtds"], parameters["documents"])
    rows: list[Measured] = []
    steps = parameters["steps"]
    paths = make_paths(parameters["dtds"], steps[-1], distinct=parameters["distinct"])
    positions = RingPositions(parameters["hosts"])
    for x in steps:
        network = Network(Automaton(paths, x), positions)
        rows += averaged(series, x, published(network, documents))
        if parameters.get("both"):
            rows += averaged("iterative", x, published(network, documents, iteratively=True))
        size = sum(document.size_bytes for document in documents) / len(documents)
        rows.append(Measured(series, x, "kilobytes", (size / 1000,)))
        rows.append(Measured(series, x, "states", (float(len(network.automaton)),)))
        rows.append(Measured(series, x, "indexing_messages", (network.automaton.walked / network.automaton.queries,)))
    return tuple(rows)
