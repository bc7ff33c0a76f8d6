"""The parts that the algorithms for linear paths have in common.

XFilter, Diao's Hybrid, YFilter, the lazy DFA, AFilter and Boone's hybrid find *linear paths* (no predicates). Each
distinct path is stored once, with the queries that use it; each *accepting visit* of a path reports to this module,
which adds what the papers build on top: value-based predicates by Selection Postponed (:mod:`.selection`) and nested
paths by NP-Filter (:mod:`.np_filter`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable

from twigcast.lab.reference.algorithm import Algorithm
from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import LocationStep, PathQuery
from twigcast.lab.reference.np_filter import NPFilter, decompose
from twigcast.lab.reference.selection import Condition, PathMatch, SelectionPostponed, Selectivity


class StoredPath:
    """A distinct linear path and its users."""

    __slots__ = ("conditional", "filters", "path", "plain")

    def __init__(self, path: PathQuery) -> None:
        self.path = path
        self.plain: set[str] = set()
        """Queries that are this path and nothing more."""
        self.conditional: dict[str, tuple[Condition, ...]] = {}
        """Queries that are this path with conditions on its steps."""
        self.filters = 0
        """How many times the path is a constituent of a query with nested paths."""

    @property
    def steps(self) -> tuple[LocationStep, ...]:
        """The steps, without predicates."""
        return self.path.steps

    @property
    def is_unused(self) -> bool:
        """True if no query needs the path any more."""
        return not (self.plain or self.conditional or self.filters)

    def __repr__(self) -> str:
        return f"StoredPath({self.path})"


class PathAlgorithm(Algorithm):
    """Base of the algorithms that match linear paths; they say when a path's end has been reached.

    Args:
        selectivity: Estimates for predicate sorting; without them conditions are tested as written.
    """

    def __init__(self, selectivity: Selectivity | None = None) -> None:
        super().__init__()
        self._selectivity = selectivity
        self._paths: dict[PathQuery, StoredPath] = {}
        self._filters: dict[str, NPFilter] = {}

    @abstractmethod
    def _insert_path(self, stored: StoredPath) -> None:
        """Put a new path into the shared structure."""

    @abstractmethod
    def _delete_path(self, stored: StoredPath) -> None:
        """Take a path out again."""

    @abstractmethod
    def _begin(self, document: Element) -> None:
        """Start-document."""

    @abstractmethod
    def _open(self, element: Element) -> None:
        """Start-element; must call :meth:`_visit` at most once for each path whose end is reached here."""

    @abstractmethod
    def _close(self, element: Element) -> None:
        """End-element."""

    def _insert(self, query_id: str, query: PathQuery) -> None:
        operator = decompose(query, self._selectivity)
        paths = list(operator.paths())
        for path in paths:
            self._check_path(path)
        for path in paths:
            if path not in self._paths:
                stored = self._paths[path] = StoredPath(path)
                self._insert_path(stored)
        main = self._paths[operator.path]
        if operator.nested:
            self._filters[query_id] = operator
            for path in paths:
                self._paths[path].filters += 1
        elif operator.conditions:
            main.conditional[query_id] = operator.conditions
        else:
            main.plain.add(query_id)

    def _check_path(self, path: PathQuery) -> None:
        """Raise UnsupportedQuery for a path that the algorithm does not handle."""

    def _delete(self, query_id: str, query: PathQuery) -> None:
        operator = self._filters.pop(query_id, None)
        if operator is not None:
            paths = list(operator.paths())
            for path in paths:
                self._paths[path].filters -= 1
        else:
            paths = [query.bare]
            self._paths[query.bare].plain.discard(query_id)
            self._paths[query.bare].conditional.pop(query_id, None)
        for path in set(paths):
            if self._paths[path].is_unused:
                self._delete_path(self._paths.pop(path))

    def _start_document(self, document: Element) -> None:
        self._selection = SelectionPostponed(self.counters)
        self._stores: dict[PathQuery, list[PathMatch]] = {}
        self._collected: set[StoredPath] = set()
        self._begin(document)

    def _start_element(self, element: Element) -> None:
        self._open(element)

    def _end_element(self, element: Element) -> None:
        self._close(element)
        self._selection.end_element(element)

    def _visit(self, stored: StoredPath, matches: Callable[[], Iterable[PathMatch]]) -> None:
        """An accepting visit: the path's end is reached at the element that has just been opened.

        Args:
            stored: The path.
            matches: Enumerates the path matches that end here; called only if they are needed.
        """
        self.counters.accepting_visits += 1
        matched = self._selection.matched
        if stored not in self._collected:
            self._collected.add(stored)
            matched |= stored.plain
        waiting = [query_id for query_id in stored.conditional if query_id not in matched]
        if not waiting and not stored.filters:
            return
        results = list(matches())
        self.counters.path_matches += len(results)
        if stored.filters:
            self._stores.setdefault(stored.path, []).extend(results)
        for query_id in waiting:
            for match in results:
                self._selection.select(query_id, match, stored.conditional[query_id])
                if query_id in matched:
                    break

    def _end_document(self, document: Element) -> set[str]:
        matched = self._selection.matched
        held = sum(map(len, self._stores.values()))
        self.counters.candidates_peak = max(self.counters.candidates_peak, held)
        for query_id, operator in self._filters.items():
            if next(operator.survivors(self._stores, self.counters), None) is not None:
                matched.add(query_id)
        return set(matched)
