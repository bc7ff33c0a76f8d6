"""Figure 7.7: the share of query partitions that a message matches, against the repetition of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from statistics import fmean

from twigcast.lab.experiments.framework.claims import custom, everywhere
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale
from twigcast.overlay.onyx.content.exclusiveness import (
    ExclusivenessPattern,
    Partitioning,
    PatternReader,
    Selections,
    at_random,
    bound,
    expected,
    selections_of,
)
from twigcast.overlay.onyx.content.routing_query import routing_query
from twigcast.overlay.onyx.messages import LinearPath
from twigcast.subscriptions import SubscriptionSet

SHARE = "partitions_percent"
RANDOM, PEP, ADMITTED, COMPUTED, BOUND = "random", "PEP", "PEP, by values alone", "PEP, computed", "PEP, at most"

_PATTERNS = tuple(ExclusivenessPattern(LinearPath(f"/m/e{number}"), "@v") for number in range(10))
#: Queries whose patterns are read out of their text, to see that the population is what it is said to be.
_READ = 200


class _Population:
    """Queries that involve two of ten patterns each, registered and in partitions of both kinds."""

    def __init__(self, queries: int, partitions: int, values: int, seed: int) -> None:
        random = Random(f"figure 7.7 {seed}")  # noqa: S311 - reproducible, not secret
        selections: list[Selections] = []
        texts: list[str] = []
        for _ in range(queries):
            first, second = random.sample(range(len(_PATTERNS)), 2)
            requested = {first: str(random.randrange(values)), second: str(random.randrange(values))}
            selections.append(frozenset((_PATTERNS[number], value) for number, value in requested.items()))
            texts.append("/m" + "".join(f'[e{number}/@v = "{value}"]' for number, value in requested.items()))
        read = [selections_of(routing_query(text)) for text in texts[:_READ]]
        if read != selections[:_READ]:
            raise AssertionError("the queries do not involve the patterns that they were made for")
        self.subscriptions = SubscriptionSet((str(number), text) for number, text in enumerate(texts))
        self.pep = Partitioning(selections, _PATTERNS, partitions, seed)
        self.random = at_random(queries, partitions, seed)
        self.reader = PatternReader(_PATTERNS)


_population = lru_cache(maxsize=1)(_Population)


def _message(random: Random, repeats: int, values: int) -> bytes:
    names = [f"e{number}" for number in range(len(_PATTERNS))] * repeats
    elements = [f'<{name} v="{random.randrange(values)}"/>' for name in names]
    random.shuffle(elements)
    return f"<m>{''.join(elements)}</m>".encode()


def measure(point: Point) -> list[Measured]:
    """Measures how many partitions have a matching query, and how many PEP admits, per message."""
    parameters = point.parameters
    repeats, partitions, values = parameters["repeats"], parameters["partitions"], parameters["values"]
    population = _population(parameters["queries"], partitions, values, parameters["seed"])
    random = Random(f"messages {repeats}")  # noqa: S311 - reproducible, not secret
    shares: dict[str, list[float]] = {RANDOM: [], PEP: [], ADMITTED: []}
    matched: list[float] = []
    for _ in range(parameters["messages"]):
        message = _message(random, repeats, values)
        keys = [int(key) for key in population.subscriptions.match(message).keys]
        matched.append(float(len(keys)))
        admitted = population.pep.matched(population.reader.values(message))
        by_pep = {population.pep.partition_of[key] for key in keys}
        if not by_pep <= admitted:
            raise AssertionError("a query matches in a partition that the message is not admitted to")
        for series, results in (
            (RANDOM, {population.random[key] for key in keys}),
            (PEP, by_pep),
            (ADMITTED, admitted),
        ):
            shares[series].append(100 * len(results) / partitions)
    rows = [Measured(series, point.x, SHARE, (fmean(samples),)) for series, samples in shares.items()]
    for series, formula in ((COMPUTED, expected), (BOUND, bound)):
        rows.append(Measured(series, point.x, SHARE, (100 * formula(len(_PATTERNS), repeats, partitions),)))
    rows.append(Measured(RANDOM, point.x, "matched_queries", (fmean(matched),)))
    return rows


def _points(parameters: dict[str, int], repeats: Sequence[int]) -> list[Point]:
    return [Point(float(r), {**parameters, "repeats": r, "seed": 1}) for r in repeats]


SWEEP: dict[Scale, list[Point]] = {
    "small": _points({"queries": 50_000, "partitions": 50, "values": 50, "messages": 20}, (1, 2, 3, 5, 10)),
    "paper": _points({"queries": 1_000_000, "partitions": 200, "values": 200, "messages": 50}, (1, 2, 3, 5, 10)),
}


def _bounded(results: Results) -> tuple[bool, str]:
    """Partitions that PEP looks into ≤ r M / K at every point."""
    pairs = [(results.value(ADMITTED, x, SHARE), results.value(BOUND, x, SHARE)) for x in results.xs(ADMITTED, SHARE)]
    seen = ", ".join(f"{share:.1f} of {most:.0f} %" for share, most in pairs)
    return all(share <= most + 1e-9 for share, most in pairs), seen


def _nearly_all(results: Results) -> tuple[bool, str]:
    """Random assignment: ≥ 90 % (ours) of the partitions at 5 occurrences."""
    share = results.value(RANDOM, 5.0, SHARE)
    return share >= 90, f"{share:.1f} % at 5 occurrences"


def _near_computed(results: Results) -> tuple[bool, str]:
    """Partitions that PEP looks into within 15 % (ours) of those computed."""
    xs = results.xs(ADMITTED, SHARE)
    off = [results.value(ADMITTED, x, SHARE) / results.value(COMPUTED, x, SHARE) - 1 for x in xs]
    return all(abs(each) < 0.15 for each in off), ", ".join(f"{100 * each:+.0f} %" for each in off)


def _rises(results: Results) -> tuple[bool, str]:
    """Partitions matched with PEP never fall from point to point."""
    shares = [share for _, share in results.curve(PEP, SHARE)]
    return shares == sorted(shares), ", ".join(f"{share:.1f} %" for share in shares)


EXPERIMENTS = (
    Experiment(
        id="D-F7.7",
        title="Query partitions that a message matches",
        source="Diao 2005, figure 7.7",
        settings="1,000,000 queries in 200 partitions, each with two of ten equality patterns; small: 50,000 queries "
        "in 50 partitions. As many values of a pattern as partitions, which the thesis does not tell",
        sweep=SWEEP,
        measure=measure,
        shows=Figure("occurrences of each element", "partitions matched (%)", metric=SHARE),
        published="Random assignment: nearly all partitions at little repetition already. PEP: about 5 % at one "
        "occurrence, growing with repetition.",
        claims=(
            custom("PEP matches at most M r of K partitions", _bounded),
            custom("Random assignment soon matches nearly all partitions", _nearly_all),
            everywhere("PEP matches fewer partitions than random assignment", PEP, RANDOM, metric=SHARE),
            custom("PEP matches more partitions with more repetition", _rises),
            custom("PEP admits as many partitions as computed for independent values", _near_computed),
        ),
        notes="'PEP' and 'random' count partitions with a matching query; 'by values alone' those that PEP has to look "
        "into; 'computed' is 1 - (1 - 1/K)^(r M), 'at most' r M / K. What random assignment matches depends on the "
        "number of values: fewer values, more partitions.",
    ),
)
