"""Building and measuring distributed automata for the experiments of Miliaraki et al. (WWW 2008).

Messages, latencies and loads are tallied (`twigcast.overlay.chord.tally`), which a test holds equal to the simulator
number for number; that makes a million queries a matter of minutes. Averages are over the published messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from twigcast.experiments.model import Measured, Point
from twigcast.overlay.chord.tally import Automaton, FilteringTally, Network, Places, labels_of
from twigcast.overlay.documents import Document, read_document
from twigcast.workload import DTD_NAMES, PRESETS, bundled_dtd, path_queries
from twigcast.workload.errors import WorkloadExhaustedError

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


def make_queries(dtds: Sequence[str], count: int, *, distinct: bool, **parameters: Any) -> list[str]:
    """Path queries of depth 10, an equal part from every DTD; fewer from one that has no more different ones."""
    share = count // len(dtds)
    made: list[str] = []
    for dtd in dtds:
        made.extend(_queries_of(dtd, share, distinct, **parameters))
    # One after the other from every DTD, so that the first half is like the whole.
    return [made[start + step] for step in range(share) for start in range(0, len(made) - step, share)]


def _queries_of(dtd: str, count: int, distinct: bool, **parameters: Any) -> list[str]:
    found: list[str] = []
    asked = min(count, 1000)
    while len(found) < count:
        try:
            found = path_queries(bundled_dtd(dtd), asked, SEED, depth=10, distinct=distinct, **parameters)
        except WorkloadExhaustedError:
            # A small DTD has no more different ones: others repeat.
            return (found * (count // max(1, len(found)) + 1))[:count]
        asked = min(count, asked * 8)
    return found


def make_documents(dtds: Sequence[str], count: int) -> list[Document]:
    """Messages, in turn from every DTD."""
    each = -(-count // len(dtds))
    presets = ALONE if tuple(dtds) == NITF else MIXED
    made = [list(presets[dtd].make(bundled_dtd(dtd), each, SEED)) for dtd in dtds]
    mixed = [xml for group in zip(*made, strict=True) for xml in group]
    return [read_document(f"m{number}", xml) for number, xml in enumerate(mixed[:count])]


def grown(
    dtds: Sequence[str], distinct: bool, steps: Sequence[int], hosts: int, **parameters: Any
) -> Iterator[tuple[int, Network]]:
    """The network after each step of indexing."""
    automaton = Automaton()
    network = Network(automaton, Places(hosts))
    queries = make_queries(dtds, steps[-1], distinct=distinct, **parameters)
    done = 0
    for step in steps:
        for query in queries[done:step]:
            automaton.add(labels_of(query))
        done = step
        network.place_states()
        yield step, network


PUBLISHERS = 16
"""Different peers that publish."""


def published(network: Network, documents: Sequence[Document], *, iteratively: bool = False) -> list[FilteringTally]:
    """Publish messages from several peers in turn."""
    count = len(network.places.identifiers)
    publishers = [number % PUBLISHERS * 7919 % count for number in range(len(documents))]
    publish = network.publish_all_iteratively if iteratively else network.publish_all
    return publish(documents, publishers)


def averaged(series: str, x: float | str, tallies: Sequence[FilteringTally]) -> list[Measured]:
    """The mean of every measure."""
    return [
        Measured(series, x, measure, (sum(getattr(tally, measure) for tally in tallies) / len(tallies),))
        for measure in MEASURES
    ]


def measure_growth(point: Point) -> list[Measured]:
    """A curve over the number of queries: messages, latencies, states, indexing traffic."""
    return list(_growth(_frozen(point.parameters)))


def _frozen(parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((key, tuple(value) if isinstance(value, list) else value) for key, value in parameters.items()))


@lru_cache(maxsize=8)
def _growth(frozen: tuple[tuple[str, Any], ...]) -> tuple[Measured, ...]:
    parameters = dict(frozen)
    series = parameters["series"]
    documents = make_documents(parameters["dtds"], parameters["documents"])
    rows: list[Measured] = []
    for x, network in grown(parameters["dtds"], parameters["distinct"], parameters["steps"], parameters["hosts"]):
        rows += averaged(series, x, published(network, documents))
        if parameters.get("both"):
            rows += averaged("iterative", x, published(network, documents, iteratively=True))
        size = sum(document.size_bytes for document in documents) / len(documents)
        rows.append(Measured(series, x, "kilobytes", (size / 1000,)))
        rows.append(Measured(series, x, "states", (float(len(network.automaton)),)))
        rows.append(Measured(series, x, "indexing_messages", (network.automaton.walked / network.automaton.queries,)))
    return tuple(rows)
