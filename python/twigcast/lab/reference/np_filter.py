"""NP-Filter: nested paths by decomposition (Diao 2005, section 5.2).

A query with nested paths is decomposed into linear paths: its *main path* (the query without its nested paths) and for
each nested path the *extended nested path* (the main path up to the *anchor step*, followed by the nested path). All go
into the shared structure like any path. At the end of the message the operator puts them together:

1. store check: a path without a match decides "no" at once;
2. value-based predicates are applied to the matches of each path;
3. filter construction: for each nested path, the set of elements at its anchor position;
4. match filtering: a match of the main path survives if, for each nested path, its element at the anchor position is in
   the set. The first survivor decides "yes".

A nested path that carries nested paths itself gets an operator of its own: a tree of them mirrors the nesting and is
run bottom-up; inner operators output all survivors, the outermost stops at the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twigcast.lab.reference.algorithm import Counters
from twigcast.lab.reference.language import LocationStep, PathQuery
from twigcast.lab.reference.selection import Condition, PathMatch, Selectivity, conditions_of


@dataclass(frozen=True, slots=True)
class NPFilter:
    """The operator of one path and the nested paths on it."""

    path: PathQuery
    """The absolute path without predicates: main, or extended nested."""
    conditions: tuple[Condition, ...]
    """What its matches must pass."""
    nested: tuple[tuple[int, NPFilter], ...]
    """Anchor position (index of the anchor step in ``path``) and operator of each nested path."""

    def paths(self) -> Iterator[PathQuery]:
        """Yields the constituent paths: PathId 0 is the main path, then the extended nested paths in order."""
        yield self.path
        for _, operator in self.nested:
            yield from operator.paths()

    def survivors(self, stores: Mapping[PathQuery, Sequence[PathMatch]], counters: Counters) -> Iterator[PathMatch]:
        """Yields the matches of the path that pass all conditions and filters. The caller may stop at the first."""
        if any(not stores.get(path) for path in self.paths()):
            counters.store_checks_failed += 1
            return
        selected = [match for match in stores[self.path] if self._passes(match, counters)]
        if not selected:
            return
        filters: list[tuple[int, set[int]]] = []
        for anchor, operator in self.nested:
            identifiers = {match[anchor].id for match in operator.survivors(stores, counters)}
            if not identifiers:
                return
            filters.append((anchor, identifiers))
        yield from (match for match in selected if all(match[anchor].id in ids for anchor, ids in filters))

    def _passes(self, match: PathMatch, counters: Counters) -> bool:
        for condition in self.conditions:
            counters.predicate_evaluations += 1
            if not condition.holds(match):
                return False
        return True


def decompose(query: PathQuery, selectivity: Selectivity | None = None) -> NPFilter:
    """Returns the operator tree of a query."""
    return _operator((), query, selectivity)


def _operator(prefix: tuple[LocationStep, ...], query: PathQuery, selectivity: Selectivity | None) -> NPFilter:
    """The operator of ``query``; as a nested path it hangs on the last (bare) step of ``prefix``."""
    path = PathQuery(prefix + query.bare.steps)
    conditions = tuple(
        replace(condition, step_index=len(prefix) + condition.step_index)
        for condition in conditions_of(query, selectivity)
    )
    nested = tuple(
        (anchor, _operator(path.steps[: anchor + 1], nested_path, selectivity))
        for anchor, step in enumerate(query.steps, start=len(prefix))
        for nested_path in step.nested_paths
    )
    return NPFilter(path, conditions, nested)
