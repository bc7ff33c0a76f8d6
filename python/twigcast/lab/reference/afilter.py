"""AFilter: nothing happens until the last label of a path appears, then backwards (Dai 2009, section 2.3.3).

*AxisView* is a graph with a node for each label (and one for ``*``, one for the query root). Step s of path q with
label x after label p is an *assertion* (q, s) on the edge x -> p; the last step's is a *trigger*. All paths share the
edges.

*StackBranch* has a stack for each node. A start tag makes an object for its label and one for ``*``; the object
holds, for each edge of its node, a pointer to what is now on top of the target's stack. Edges with triggers whose
pointer leads somewhere start a verification: backwards along the pointers, child steps to the object one level up,
descendant steps to any object from the pointed one down. So at most two objects exist for each open element, whatever
the queries.

*Prefix caching* (the PRLabel-tree) remembers with each object whether a prefix (steps 0..s of a path) is satisfied
there, for all paths with that prefix. *Suffix clustering* (the SFLabel-tree) verifies paths with a common suffix
together, following their pointers once.

Predicates are tested on the path matches that the traversal finds; nested paths, which the source does not have, are
decomposed and put together by NP-Filter.

Not supported: nothing of the path-query language.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TypeAlias

from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import PathQuery
from twigcast.lab.reference.path_algorithm import PathAlgorithm, StoredPath
from twigcast.lab.reference.selection import PathMatch, Selectivity

ROOT = ""
"""The label of the query root."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """The pair (q, s): step s of path q, on the edge from its label to the label before."""

    path: VerifiedPath
    step: int

    @property
    def is_descendant(self) -> bool:
        """``||``, or ``|`` for a child step."""
        return self.path.stored.steps[self.step].axis == "//"

    @property
    def is_trigger(self) -> bool:
        """True for the path's last step."""
        return self.step == len(self.path.stored.steps) - 1


@dataclass(eq=False, slots=True)
class Edge:
    """An edge of AxisView, from a label to the label of a step before."""

    target: str
    assertions: list[Assertion] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class StackObject:
    """An entry of a stack for an open element (for the root's stack, the document node)."""

    label: str
    element: Element
    pointers: dict[str, StackObject]
    """By target label: what was on top of that stack; edges to empty stacks have none."""
    below: StackObject | None
    """The object under this one."""
    satisfied: dict[int, bool] = field(default_factory=dict)
    """Prefix caching: by prefix label, whether the prefix ends here."""


@dataclass(eq=False, slots=True)
class VerifiedPath:
    """A stored path with its labels."""

    stored: StoredPath
    prefix_labels: tuple[int, ...]
    """For each step s, the number of the prefix 0..s in the PRLabel-tree."""

    def label(self, step: int) -> str:
        """Returns the label of a step; of the query root for step -1."""
        return self.stored.steps[step].name if step >= 0 else ROOT


class SuffixNode:
    """A node of the SFLabel-tree: paths with the same last steps."""

    __slots__ = ("children", "label", "paths")

    def __init__(self, label: str) -> None:
        self.label = label
        """The label of the earliest step of the suffix."""
        self.children: dict[tuple[str, str], SuffixNode] = {}
        """By the axis after it and the label of the step before."""
        self.paths: list[VerifiedPath] = []
        """Paths that have this suffix."""


PathSet: TypeAlias = dict[StoredPath, None]
"""An ordered set of paths."""


class AFilter(PathAlgorithm):
    """AxisView and StackBranch.

    Args:
        selectivity: Estimates for predicate sorting.
        prefix_caching: Remember satisfied prefixes with the stack objects.
        suffix_clustering: Verify paths with a common suffix together.
    """

    title = "AFilter"
    source = "Dai 2009, section 2.3.3 and appendix A.3"

    def __init__(
        self, selectivity: Selectivity | None = None, *, prefix_caching: bool = False, suffix_clustering: bool = False
    ) -> None:
        super().__init__(selectivity)
        self._caching = prefix_caching
        self._clustering = suffix_clustering
        self.axis_view: dict[str, dict[str, Edge]] = {}
        """Edges by source label, then by target label."""
        self._paths_by_stored: dict[StoredPath, VerifiedPath] = {}
        self._prefix_numbers: dict[PathQuery, int] = {}
        self._prefix_users: Counter[PathQuery] = Counter()
        self._next_prefix = count()
        self._suffixes: dict[str, SuffixNode] = {}

    def _insert_path(self, stored: StoredPath) -> None:
        prefixes = self._prefixes(stored)
        self._prefix_users.update(prefixes)
        for prefix in prefixes:
            if prefix not in self._prefix_numbers:
                self._prefix_numbers[prefix] = next(self._next_prefix)
        labels = tuple(self._prefix_numbers[prefix] for prefix in prefixes)
        path = self._paths_by_stored[stored] = VerifiedPath(stored, labels)
        for step in range(len(stored.steps)):
            edges = self.axis_view.setdefault(path.label(step), {})
            target = path.label(step - 1)
            edges.setdefault(target, Edge(target)).assertions.append(Assertion(path, step))
        for node in self._suffix_chain(path):
            node.paths.append(path)

    @staticmethod
    def _prefixes(stored: StoredPath) -> list[PathQuery]:
        return [PathQuery(stored.steps[: step + 1]) for step in range(len(stored.steps))]

    def _suffix_chain(self, path: VerifiedPath) -> Iterator[SuffixNode]:
        """The SFLabel-tree nodes of a path's suffixes, shortest first."""
        last = len(path.stored.steps) - 1
        node = self._suffixes.setdefault(path.label(last), SuffixNode(path.label(last)))
        yield node
        for step in range(last, 0, -1):
            key = (path.stored.steps[step].axis, path.label(step - 1))
            node = node.children.setdefault(key, SuffixNode(path.label(step - 1)))
            yield node

    def _delete_path(self, stored: StoredPath) -> None:
        path = self._paths_by_stored.pop(stored)
        for prefix in self._prefixes(stored):
            self._prefix_users[prefix] -= 1
            if not self._prefix_users[prefix]:
                del self._prefix_users[prefix], self._prefix_numbers[prefix]
        for step in range(len(stored.steps)):
            source, target = path.label(step), path.label(step - 1)
            edge = self.axis_view[source][target]
            edge.assertions.remove(Assertion(path, step))
            if not edge.assertions:
                del self.axis_view[source][target]
            if not self.axis_view[source]:
                del self.axis_view[source]
        chain = list(self._suffix_chain(path))
        for node in chain:
            node.paths.remove(path)
        for above, node in itertools.pairwise(chain):
            above.children = {key: child for key, child in above.children.items() if child is not node or node.paths}
        if not chain[0].paths:
            del self._suffixes[chain[0].label]

    def _size(self) -> int:
        """Nodes of AxisView, the query root among them, and edges."""
        return 1 + len(self.axis_view) + sum(map(len, self.axis_view.values()))

    def _begin(self, document: Element) -> None:
        self._stacks: dict[str, StackObject] = {ROOT: StackObject(ROOT, document, {}, None)}
        self._opened: list[list[StackObject]] = []

    def _open(self, element: Element) -> None:
        # All pointers are taken before any of the new objects is pushed.
        new = [self._object(label, element) for label in (element.name, "*") if label in self.axis_view]
        for created in new:
            self._stacks[created.label] = created
        self._opened.append(new)
        self.counters.active_states_peak = max(self.counters.active_states_peak, sum(map(len, self._opened)))
        for created in new:
            results = self._triggered_clusters(created) if self._clustering else self._triggered(created)
            for stored in results:
                path = self._paths_by_stored[stored]
                self._visit(stored, partial(self._matches, path, len(stored.steps) - 1, created))

    def _object(self, label: str, element: Element) -> StackObject:
        pointers = {target: self._stacks[target] for target in self.axis_view[label] if target in self._stacks}
        return StackObject(label, element, pointers, self._stacks.get(label))

    def _close(self, element: Element) -> None:
        for closed in self._opened.pop():
            if closed.below is None:
                del self._stacks[closed.label]
            else:
                self._stacks[closed.label] = closed.below

    # Trigger check, one path at a time.

    def _triggered(self, created: StackObject) -> PathSet:
        results: PathSet = {}
        for target in created.pointers:
            for assertion in self.axis_view[created.label][target].assertions:
                if assertion.is_trigger and self._is_satisfied(assertion.path, assertion.step, created):
                    results[assertion.path.stored] = None
        return results

    def _is_satisfied(self, path: VerifiedPath, step: int, at: StackObject) -> bool:
        """Whether steps 0..step of a path are satisfied with the last of them at an object."""
        if not self._caching:
            return self._verify(path, step, at)
        label = path.prefix_labels[step]
        if label not in at.satisfied:
            at.satisfied[label] = self._verify(path, step, at)
        return at.satisfied[label]

    def _verify(self, path: VerifiedPath, step: int, at: StackObject) -> bool:
        if step == 0:
            return self._from_root(path.stored.steps[0].axis, at)
        before = self._before(at, path.stored.steps[step].axis, path.label(step - 1))
        return any(self._is_satisfied(path, step - 1, candidate) for candidate in before)

    def _from_root(self, axis: str, at: StackObject) -> bool:
        return axis == "//" or at.element.level == 1

    def _before(self, at: StackObject, axis: str, label: str) -> Iterator[StackObject]:
        """The objects that the step before may be at: along the pointer, and for a descendant step down from there."""
        candidate = at.pointers.get(label)
        while candidate is not None:
            self.counters.transitions += 1
            if axis == "//":
                yield candidate
                candidate = candidate.below
            else:
                if candidate.element.level == at.element.level - 1:
                    yield candidate
                return

    def _matches(self, path: VerifiedPath, step: int, at: StackObject) -> Iterator[PathMatch]:
        """The path matches that the traversal meets."""
        if not self._is_satisfied(path, step, at):
            return
        if step == 0:
            yield (at.element,)
            return
        for before in self._before(at, path.stored.steps[step].axis, path.label(step - 1)):
            for match in self._matches(path, step - 1, before):
                yield (*match, at.element)

    # Trigger check, paths with a common suffix together.

    def _triggered_clusters(self, created: StackObject) -> PathSet:
        suffix = self._suffixes.get(created.label)
        return {} if suffix is None else self._cluster(suffix, 0, created)

    def _cluster(self, node: SuffixNode, depth: int, at: StackObject) -> PathSet:
        """The paths with a suffix whose steps before it are satisfied with the suffix beginning at an object.

        Args:
            node: The suffix.
            depth: How many steps it has after its first.
            at: Where its first step is.
        """
        if self._caching:
            existing = [(path, at.satisfied.get(path.prefix_labels[self._first(path, depth)])) for path in node.paths]
            if all(satisfied is not None for _, satisfied in existing):
                return {path.stored: None for path, satisfied in existing if satisfied}
        results: PathSet = {}
        for path in node.paths:
            if self._first(path, depth) == 0 and self._from_root(path.stored.steps[0].axis, at):
                results[path.stored] = None
        for (axis, label), child in node.children.items():
            for before in self._before(at, axis, label):
                results.update(self._cluster(child, depth + 1, before))
        if self._caching:
            for path in node.paths:
                at.satisfied[path.prefix_labels[self._first(path, depth)]] = path.stored in results
        return results

    @staticmethod
    def _first(path: VerifiedPath, depth: int) -> int:
        """Index of the step that a suffix with ``depth`` further steps begins at."""
        return len(path.stored.steps) - 1 - depth
