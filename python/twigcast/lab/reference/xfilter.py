"""XFilter: one finite state machine for each query, all behind one index (Diao 2005, section 2.4 and appendix A).

A path becomes a chain of *path nodes*, one for each step with a name test. The *query index* maps an element name to a
*candidate list*, the path nodes looked for now, and a *wait list*, those looked for later. A start tag checks the
candidates of its name: where the *level check* passes, the next node of that path is copied from the wait list to the
candidate list of its own name; where there is no next node, the path has been found. The end tag takes the copies away.

*List Balance* does not start with the first node but with a *pivot*: the node whose candidate list is shortest when the
path arrives. The steps before it become a prefix that is run over the stack of open elements when the pivot is hit.

Value-based predicates are tested on element lists after structure; nested paths are put together by NP-Filter.

As published, a node knows its distance to the node before only where no ``//`` lies between, so that ``/*//b`` would
match ``<b/>``; and steps at the end of a path that are ``*`` have no node. We keep a *minimum* distance, and give
such an end a node that any element passes. ``published=True`` shows the difference.

Not supported: nothing of the path-query language; as published, paths that end in ``*``.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import LocationStep, OutsideFragment, PathQuery
from twigcast.lab.reference.path_algorithm import PathAlgorithm, StoredPath
from twigcast.lab.reference.selection import Selectivity, path_matches_at, walk_back


@dataclass(eq=False, slots=True)
class PathNode:
    """A state of one path's machine."""

    stored: StoredPath
    """The path (QueryId)."""
    position: int
    """1, 2, ... within the path."""
    name: str
    """Which element's lists it is in; ``*`` for the node that stands for an end in ``*``."""
    last_step: int
    """Index of the step it stands for."""
    distance: int
    """Levels to the node before: 1 + the number of ``*`` between (the first node's predecessor is at level 0)."""
    exact: bool
    """No ``//`` between; else the distance is a minimum."""
    next: PathNode | None = None

    @property
    def relative_pos(self) -> int:
        """The position as in the paper: -1 after a ``//``."""
        return self.distance if self.exact else -1


@dataclass(eq=False, slots=True)
class Candidate:
    """A path node, or a copy of it, in a candidate list."""

    node: PathNode
    level: int
    """The level to be found at; a minimum unless ``node.exact``."""
    prefix: Sequence[LocationStep] = ()
    """List Balance: the steps up to and including the pivot, still to be checked."""

    def passes(self, element: Element, published: bool) -> tuple[bool, int]:
        """Checks the level, or for a pivot runs its prefix. Returns the result, and the number of transitions."""
        if self.prefix:
            return walk_back(self.prefix, element)
        if self.node.exact:
            return element.level == self.level, 1
        return published or element.level >= self.level, 1


def path_nodes(stored: StoredPath) -> list[PathNode]:
    """Returns the machine of a path."""
    nodes: list[PathNode] = []
    distance, exact = 0, True
    for index, step in enumerate(stored.steps):
        distance += 1
        exact = exact and step.axis == "/"
        if step.name != "*" or index == len(stored.steps) - 1:
            nodes.append(PathNode(stored, len(nodes) + 1, step.name, index, distance, exact))
            distance, exact = 0, True
    for node, following in itertools.pairwise(nodes):
        node.next = following
    return nodes


class XFilter(PathAlgorithm):
    """The index over path machines.

    Args:
        selectivity: Estimates for predicate sorting.
        list_balance: Start with the node whose candidate list is shortest; otherwise with the first.
        published: The level check as published (not exact).
    """

    title = "XFilter"
    source = "Diao 2005, section 2.4 and appendix A"

    def __init__(
        self, selectivity: Selectivity | None = None, *, list_balance: bool = True, published: bool = False
    ) -> None:
        super().__init__(selectivity)
        self._list_balance = list_balance
        self._published = published
        self.candidates: defaultdict[str, list[Candidate]] = defaultdict(list)
        """Candidate list by element name."""
        self.waiting: defaultdict[str, list[PathNode]] = defaultdict(list)
        """Wait list by element name."""
        self._machines: dict[StoredPath, list[PathNode]] = {}

    def _check_path(self, path: PathQuery) -> None:
        if self._published and path.steps[-1].name == "*":
            raise OutsideFragment("XFilter as published: a path that ends in *", str(path))

    def _insert_path(self, stored: StoredPath) -> None:
        nodes = self._machines[stored] = path_nodes(stored)
        pivot = nodes[0]
        if self._list_balance:
            # The list of * is walked at every element: a path begins there only if it has no name at all.
            named = [node for node in nodes if node.name != "*"] or nodes
            pivot = min(named, key=lambda node: len(self.candidates[node.name]))
        prefix = stored.steps[: pivot.last_step + 1] if pivot is not nodes[0] else ()
        self.candidates[pivot.name].append(Candidate(pivot, pivot.distance, prefix))
        for node in nodes[pivot.position :]:
            self.waiting[node.name].append(node)

    def _delete_path(self, stored: StoredPath) -> None:
        for node in self._machines.pop(stored):
            kept = [candidate for candidate in self.candidates[node.name] if candidate.node.stored is not stored]
            self.candidates[node.name] = kept
            self.waiting[node.name] = [waits for waits in self.waiting[node.name] if waits.stored is not stored]

    def _size(self) -> int:
        return sum(map(len, self._machines.values()))

    def _begin(self, document: Element) -> None:
        self._promoted: list[list[Candidate]] = []

    def _open(self, element: Element) -> None:
        # Copies made by this event are not for this event, so the lists are walked before any is added.
        checked = [*self.candidates.get(element.name, ()), *self.candidates.get("*", ())]
        self.counters.active_states_peak = max(self.counters.active_states_peak, len(checked))
        promoted: dict[int, Candidate] = {}
        results: dict[StoredPath, None] = {}
        for candidate in checked:
            passes, transitions = candidate.passes(element, self._published)
            self.counters.transitions += transitions
            if not passes:
                continue
            following = candidate.node.next
            if following is None:
                results[candidate.node.stored] = None
            else:
                promoted[id(following)] = Candidate(following, element.level + following.distance)
        for copy in promoted.values():
            self.candidates[copy.node.name].append(copy)
        self._promoted.append(list(promoted.values()))
        for stored in results:
            self._visit(stored, partial(path_matches_at, stored.steps, element))

    def _close(self, element: Element) -> None:
        for copy in reversed(self._promoted.pop()):
            # Copies leave in the reverse order of their arrival: each is the last of its list.
            left = self.candidates[copy.node.name].pop()
            assert left is copy
