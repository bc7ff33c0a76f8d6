"""The brokers and links of the overlay: link states, and the paths to the roots that follow from them.

Each broker floods its links and their costs. A link counts if both of its ends name it. The parent of a broker towards
a root is its neighbour on a shortest path there. Costs are positive, so each step on such a path is strictly nearer to
the root, and the parents of one root form a tree wherever brokers agree about the links. While they do not yet agree,
parents may form a ring for a moment. No message enters it, because messages follow confirmed attachments only (see
:mod:`twigcast.overlay.onyx.protocol.attachments`).

With one tree for all roots (`shared`), the paths are those of the minimum spanning tree. Routing tables are then
smaller, and paths longer.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import TypeAlias

from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import LinkState, Root

_Graph: TypeAlias = Mapping[Address, Mapping[Address, int]]


class LinkStateVerdict(enum.Enum):
    """The verdict on a link state of another broker."""

    #: It is new and has to be passed on.
    NEW = "new"
    #: It is not newer than the stored one.
    OLD = "old"
    #: It names this broker as its origin, but is not from here: two brokers have the same identity.
    IMPOSTOR = "impostor"


class Topology:
    """The link states of all brokers, as one broker has received them. With `shared`, all roots share one tree."""

    def __init__(self, origin: Address, incarnation: int, where: str = "", *, shared: bool = False) -> None:
        #: The link state of this broker.
        self.own = LinkState(origin, incarnation, 0, (), where)
        #: By origin, all link states, with the own one.
        self.states: dict[Address, LinkState] = {origin: self.own}
        self._links: dict[Address, int] = {}
        self._shared = shared

    def __iter__(self) -> Iterator[LinkState]:
        """Iterates over all link states."""
        return iter(self.states.values())

    # Own links.

    def set_link(self, neighbour: Address, cost: int) -> None:
        """Adds a link, or changes its cost."""
        self._links[neighbour] = max(1, cost)

    def drop_link(self, neighbour: Address) -> None:
        """Removes a link."""
        self._links.pop(neighbour, None)

    def renew_own(self) -> LinkState | None:
        """Returns a new version of the own link state, or `None` if no link has changed."""
        links = tuple(sorted(self._links.items()))
        if links == self.own.links:
            return None
        self.own = self.own._replace(version=self.own.version + 1, links=links)
        self.states[self.own.origin] = self.own
        return self.own

    # Links of others.

    def apply(self, state: LinkState) -> LinkStateVerdict:
        """Stores a link state if it is new."""
        if state.origin == self.own.origin:
            newest = (state.incarnation, state.version) > (self.own.incarnation, self.own.version)
            other = state.incarnation == self.own.incarnation and state.version == self.own.version
            return LinkStateVerdict.IMPOSTOR if newest or (other and state != self.own) else LinkStateVerdict.OLD
        existing = self.states.get(state.origin)
        if existing is not None and (state.incarnation, state.version) <= (existing.incarnation, existing.version):
            return LinkStateVerdict.OLD
        self.states[state.origin] = state
        return LinkStateVerdict.NEW

    def replace_all(self, states: Mapping[Address, LinkState]) -> None:
        """Replaces all link states, so that simulations can begin with a network at rest."""
        self.states = dict(states)
        self.own = self.states[self.own.origin]
        self._links = dict(self.own.links)

    def forget(self, origin: Address) -> None:
        """Removes a broker that will not come back."""
        if origin != self.own.origin:
            self.states.pop(origin, None)

    # Paths.

    def edges(self) -> dict[tuple[Address, Address], int]:
        """Returns the links that both of their ends name, the lower end first, with the greater of the two costs."""
        costs = {state.origin: dict(state.links) for state in self.states.values()}
        results = {}
        for origin, links in costs.items():
            for neighbour, cost in links.items():
                back = costs.get(neighbour, {}).get(origin)
                if origin < neighbour and back is not None:
                    results[origin, neighbour] = max(1, cost, back)
        return results

    def parents(self) -> dict[Root, Address]:
        """Returns, by reachable root, the neighbour towards it."""
        edges = self.edges()
        if self._shared:
            edges = minimum_spanning_forest(edges)
        graph: dict[Address, dict[Address, int]] = {}
        for (one, other), cost in edges.items():
            graph.setdefault(one, {})[other] = cost
            graph.setdefault(other, {})[one] = cost
        return first_hops(graph, self.own.origin)


def _tie(root: Root, hop: Address) -> int:
    """Orders neighbours differently from root to root, so that equally long paths share the load."""
    return (root * 0x9E3779B97F4A7C15 ^ hop * 0xC2B2AE3D27D4EB4F) >> 7 & 0xFFFFFFFF


def first_hops(graph: _Graph, start: Address) -> dict[Address, Address]:
    """Returns, by reachable node, the neighbour of `start` on a shortest path to it (Dijkstra)."""
    hops: dict[Address, Address] = {}
    best: dict[Address, tuple[int, set[Address]]] = {start: (0, set())}
    heap = [(0, start)]
    done = set()
    while heap:
        distance, node = heappop(heap)
        if node in done:
            continue
        done.add(node)
        via = best[node][1]
        if node != start:
            hops[node] = min(via, key=lambda hop: (_tie(node, hop), hop))
        for other, cost in graph.get(node, {}).items():
            length = distance + cost
            first = {other} if node == start else via
            existing = best.get(other)
            if existing is None or length < existing[0]:
                best[other] = (length, set(first))
                heappush(heap, (length, other))
            elif length == existing[0] and other not in done:
                existing[1].update(first)
    return hops


def minimum_spanning_forest(edges: Mapping[tuple[Address, Address], int]) -> dict[tuple[Address, Address], int]:
    """Returns a minimum spanning forest (Kruskal). Equal costs are ordered by the ends, as all must agree."""
    leader: dict[Address, Address] = {}

    def find(node: Address) -> Address:
        while leader.setdefault(node, node) != node:
            leader[node] = node = leader[leader[node]]
        return node

    kept = {}
    for cost, edge in sorted((cost, edge) for edge, cost in edges.items()):
        one, other = map(find, edge)
        if one != other:
            leader[one] = other
            kept[edge] = cost
    return kept
