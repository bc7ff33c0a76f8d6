"""Whole populations of subscriptions: keys, and queries of several kinds in given shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from twigcast.lab.workload.errors import WorkloadError
from twigcast.lab.workload.flwr import flwr_queries
from twigcast.lab.workload.queries import path_queries
from twigcast.lab.workload.values import ValueDomains, below, draw_domains
from twigcast.schema import Schema, read_dtd

KINDS = ("path", "predicate", "twig", "flwr")
"""Path alone; with a value predicate; with a nested path; For-Where-Return."""

DEFAULT_SHARES: Mapping[str, float] = {"path": 0.4, "predicate": 0.3, "twig": 0.2, "flwr": 0.1}


@dataclass(frozen=True, slots=True)
class GeneratedSubscription:
    """A subscription as the files of subscriptions hold it."""

    key: str
    query: str


def population(
    dtd: Schema | str | Path,
    count: int,
    seed: int = 1,
    *,
    shares: Mapping[str, float] | None = None,
    depth: int = 6,
    wildcard: float = 0.2,
    descendant: float = 0.2,
    skew: float = 0.0,
    distinct: bool = False,
    domains: ValueDomains | None = None,
) -> Iterator[GeneratedSubscription]:
    """Makes a population: subscriptions of mixed kinds, in random order, with keys ``s1``, ``s2``, ...

    Args:
        dtd: a schema, or the file of a DTD.
        count: how many.
        seed: the same seed gives the same population.
        shares: the share of each of ``KINDS``; need not add up to 1.
        depth: maximum depth of path queries.
        wildcard: probability of ``*`` at a step of a path query.
        descendant: probability of ``//`` at a step.
        skew: Zipf's theta for the choice among child elements.
        distinct: whether all queries of a kind shall differ (For-Where-Return queries always do).
        domains: the values; by default ``draw_domains(schema, seed)``.

    Raises:
        WorkloadError: the parameters make no sense.
        WorkloadExhaustedError: there are not that many different queries.
    """
    schema = dtd if isinstance(dtd, Schema) else read_dtd(dtd)
    domains = domains or draw_domains(schema, seed)
    numbers = _split(count, DEFAULT_SHARES if shares is None else shares)

    def paths(kind: str, predicates: int, nested: int) -> list[str]:
        return path_queries(
            schema,
            numbers.get(kind, 0),
            seed,
            depth=depth,
            wildcard=wildcard,
            descendant=descendant,
            predicates=predicates,
            nested=nested,
            skew=skew,
            distinct=distinct,
            domains=domains,
        )

    queries = paths("path", 0, 0) + paths("predicate", 1, 0) + paths("twig", 0, 1)
    queries += flwr_queries(schema, numbers.get("flwr", 0), seed, descendant=descendant, domains=domains)
    _shuffle(queries, Random(f"population {seed}"))
    for number, query in enumerate(queries, 1):
        yield GeneratedSubscription(f"s{number}", query)


def _split(count: int, shares: Mapping[str, float]) -> dict[str, int]:
    """How many of each kind: exact shares, rounded so that they add up."""
    unknown = sorted(set(shares) - set(KINDS))
    total = sum(shares.values())
    if unknown or total <= 0 or min(shares.values()) < 0:
        raise WorkloadError(f"shares must be positive numbers for some of {', '.join(KINDS)}")
    numbers: dict[str, int] = {}
    left, weight = count, total
    for kind, share in shares.items():
        numbers[kind] = round(left * share / weight) if weight > 0 else 0
        left -= numbers[kind]
        weight -= share
    return numbers


def _shuffle(items: list[str], random: Random) -> None:
    """Fisher and Yates; ``Random.shuffle`` may differ between versions of Python."""
    for last in range(len(items) - 1, 0, -1):
        other = below(random, last + 1)
        items[last], items[other] = items[other], items[last]
