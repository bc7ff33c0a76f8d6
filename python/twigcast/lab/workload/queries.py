"""Path queries from a DTD, with the parameters of the YFilter test suite (Diao 2005, section 4.4.2 and table 2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

from twigcast.lab.workload.errors import WorkloadError, WorkloadExhaustedError
from twigcast.lab.workload.values import ValueDomains, below, draw_domains
from twigcast.lab.workload.walks import WalkedStep, Walker, path_text, relative_text, rewrite
from twigcast.schema import ElementGraph, Schema, read_dtd

TRIES_PER_QUERY = 100
"""How often a generator tries, on average, before it says that there are no more different queries."""


def path_queries(
    dtd: Schema | str | Path,
    count: int,
    seed: int = 1,
    *,
    depth: int = 6,
    wildcard: float = 0.2,
    descendant: float = 0.2,
    predicates: int = 0,
    nested: int = 0,
    nested_apart: bool = False,
    skew: float = 0.0,
    distinct: bool = True,
    complete: bool = True,
    operators: Sequence[str] = ("=",),
    max_value: int = 20,
    domains: ValueDomains | None = None,
) -> list[str]:
    """Makes path queries.

    Args:
        dtd: a schema, or the file of a DTD.
        count: how many (Q).
        seed: the same seed gives the same queries; if more are requested, the first ones stay the same.
        depth: maximum depth (D), nested paths included.
        wildcard: probability of ``*`` at a step (W).
        descendant: probability of ``//`` at a step (DS).
        predicates: value predicates per query (P), each on a step chosen uniformly from those that can carry one.
        nested: nested paths per query (NP), each on a step chosen uniformly from those that can carry one; they hold
            no predicates and no nested paths.
        nested_apart: put at most one nested path on a step; a query with fewer steps that can carry one gets fewer.
        skew: Zipf's theta for the choice among child elements; 0: uniform.
        distinct: whether all query strings shall differ.
        complete: whether it is an error when there are fewer; otherwise those that were found are returned.
        operators: of value predicates, chosen uniformly.
        max_value: largest size of a value domain (used if ``domains`` is not given).
        domains: the values; by default ``draw_domains(schema, seed, max_value=max_value)``, as in ``documents``.

    Raises:
        WorkloadError: the parameters make no sense.
        WorkloadExhaustedError: there are not that many different queries.
    """
    schema = dtd if isinstance(dtd, Schema) else read_dtd(dtd)
    _check(depth, wildcard, descendant, predicates, nested, skew)
    walker = Walker(
        ElementGraph(schema), Random(f"queries {seed}"), wildcard=wildcard, descendant=descendant, skew=skew
    )
    if not predicates and not nested:
        return _collect((walker.path(depth) for _ in _forever()), count, distinct, complete)
    domains = domains or draw_domains(schema, seed, max_value=max_value)
    maker = _TwigMaker(
        walker, Random(f"predicates {seed}"), domains, depth, predicates, nested, nested_apart, operators
    )
    return _collect((maker.make() for _ in _forever()), count, distinct, complete)


def loosen(queries: Iterable[str], seed: int = 1, *, wildcard: float = 0.0, descendant: float = 0.0) -> list[str]:
    """Puts ``*`` and ``//`` into paths without them, as the tests of non-determinism do (Diao 2005, section 4.5.2).

    Each name becomes ``*`` with probability ``wildcard``, each ``/`` becomes ``//`` with probability ``descendant``,
    then the generator's rewritings apply; queries that become equal to an earlier one are dropped, so that fewer may
    come back than went in. The same seed changes the same places at every probability: those of 0.2 are among those
    of 0.4.
    """
    random = Random(f"loosen {seed}").random
    results: dict[str, None] = {}
    for query in queries:
        steps = [
            WalkedStep(separator == "//" or random() < descendant, name == "*" or random() < wildcard, name, 0)
            for separator, name in re.findall(r"(//?)([^/]+)", query)
        ]
        results[path_text(rewrite(steps))] = None
    return list(results)


def _check(depth: int, wildcard: float, descendant: float, predicates: int, nested: int, skew: float) -> None:
    if depth < 1:
        raise WorkloadError(f"depth must be at least 1, not {depth}")
    for name, probability in (("wildcard", wildcard), ("descendant", descendant)):
        if not 0 <= probability <= 1:
            raise WorkloadError(f"{name} must be between 0 and 1, not {probability}")
    if predicates < 0 or nested < 0 or skew < 0:
        raise WorkloadError("predicates, nested and skew must not be negative")


def _forever() -> Iterator[None]:
    while True:
        yield None


def _collect(created: Iterator[str | None], count: int, distinct: bool, complete: bool) -> list[str]:
    """Take queries until there are enough, or none come any more; ``None`` is a failed try."""
    tries = 0
    limit = TRIES_PER_QUERY * (count + 100)
    queries: list[str] = []
    existing: set[str] = set()
    while len(queries) < count:
        if tries >= limit:
            if complete:
                raise WorkloadExhaustedError(count, len(queries), tries)
            break
        tries += 1
        query = next(created)
        if query is None or (distinct and query in existing):
            continue
        queries.append(query)
        if distinct:
            existing.add(query)
    return queries


class _TwigMaker:
    """Makes path queries with value predicates and nested paths."""

    def __init__(
        self,
        walker: Walker,
        random: Random,
        domains: ValueDomains,
        depth: int,
        predicates: int,
        nested: int,
        nested_apart: bool,
        operators: Sequence[str],
    ) -> None:
        self._walker = walker
        self._random = random
        self._depth = depth
        self._predicates = predicates
        self._nested = nested
        self._nested_apart = nested_apart
        self._operators = operators
        self._comparable = comparable_items(domains)

    def make(self) -> str | None:
        steps = rewrite(self._walker.steps(None, self._depth))
        paths: list[str] = [""] * len(steps)
        values: list[str] = [""] * len(steps)
        if self._nested and not self._add_nested(steps, paths):
            return None
        if self._predicates and not self._add_values(steps, values):
            return None
        return path_text(steps, [path + value for path, value in zip(paths, values, strict=True)])

    def _add_nested(self, steps: list[WalkedStep], suffixes: list[str]) -> bool:
        children, number = self._walker.children, self._walker.number
        anchors = [i for i, step in enumerate(steps) if step.depth < self._depth and children[number[step.element]]]
        if not anchors:
            return False
        for _ in range(min(self._nested, len(anchors)) if self._nested_apart else self._nested):
            chosen = below(self._random, len(anchors))
            anchor = anchors.pop(chosen) if self._nested_apart else anchors[chosen]
            step = steps[anchor]
            nested = rewrite(self._walker.steps(step.element, self._depth - step.depth, step.depth))
            suffixes[anchor] += f"[{relative_text(nested)}]"
        return True

    def _add_values(self, steps: list[WalkedStep], suffixes: list[str]) -> bool:
        able = [i for i, step in enumerate(steps) if self._comparable.get(step.element)]
        if not able:
            return False
        for _ in range(self._predicates):
            position = able[below(self._random, len(able))]
            items = self._comparable[steps[position].element]
            item, values = items[below(self._random, len(items))]
            operator = self._operators[below(self._random, len(self._operators))]
            suffixes[position] += f"[{item}{operator}{literal(values[below(self._random, len(values))])}]"
        return True


def comparable_items(domains: ValueDomains) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Returns what a predicate on an element can test: ``@name`` or ``text()``, with its values in documents."""
    results: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for element, attributes in domains.attributes.items():
        items = [(f"@{item.name}", item.values) for item in attributes if item.values]
        if element in domains.text:
            items.append(("text()", domains.text[element]))
        results[element] = items
    return results


def literal(value: str) -> str:
    """Returns a value as XPath writes it: numbers bare, everything else quoted."""
    return value if value.isascii() and value.isdigit() else f'"{value}"'
