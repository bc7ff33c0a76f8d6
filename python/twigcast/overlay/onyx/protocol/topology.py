"""Who there is and how they are joined: link states, and the ways to the roots that follow from them.

Each broker floods the links it has and what they cost. A link counts where both of its ends name it. The parent of a
broker towards a root is its neighbour on a shortest way there. Costs are positive, so that each step on such a way is
strictly nearer to the root, and the parents of one root form a tree wherever brokers agree about the links. While they
do not yet agree they may form a ring for a moment; nothing from the root gets into it then, because messages flow along
confirmed attachments alone (see :mod:`twigcast.overlay.onyx.protocol.attachments`).

With one shared tree for all roots (`shared`) the ways are those of the minimum spanning tree, the same undirected tree
for everybody; routing tables are then smaller, ways longer.
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
    """What a link state that was heard is."""

    #: It says something new: pass it on.
    NEW = "new"
    #: It is known, or older than what is known.
    OLD = "old"
    #: It is in one's own name, and not one's own: there are two brokers with one identity.
    IMPOSTOR = "impostor"


class Topology:
    """The link states that one broker has heard.

    Attributes:
        own: Its own one.
        states: All, its own among them, by origin.
    """

    def __init__(self, origin: Address, incarnation: int, where: str = "", *, shared: bool = False) -> None:
        """Without links.

        Args:
            origin: The broker's own identity.
            incarnation: Number of its start.
            where: How others reach it.
            shared: One tree for all roots.
        """
        self.own = LinkState(origin, incarnation, 0, (), where)
        self.states: dict[Address, LinkState] = {origin: self.own}
        self._links: dict[Address, int] = {}
        self._shared = shared

    def __iter__(self) -> Iterator[LinkState]:
        """All link states."""
        return iter(self.states.values())

    # One's own links.

    def set_link(self, neighbour: Address, cost: int) -> None:
        """There is a link, or it costs something else."""
        self._links[neighbour] = max(1, cost)

    def drop_link(self, neighbour: Address) -> None:
        """A link is gone."""
        self._links.pop(neighbour, None)

    def say(self, where: str | None = None) -> LinkState | None:
        """One's own link state, if it has changed since it was last said."""
        links = tuple(sorted(self._links.items()))
        position = self.own.where if where is None else where
        if links == self.own.links and position == self.own.where:
            return None
        self.own = self.own._replace(version=self.own.version + 1, links=links, where=position)
        self.states[self.own.origin] = self.own
        return self.own

    # Those of others.

    def take(self, state: LinkState) -> LinkStateVerdict:
        """Hear a link state."""
        if state.origin == self.own.origin:
            newest = (state.incarnation, state.version) > (self.own.incarnation, self.own.version)
            other = state.incarnation == self.own.incarnation and state.version == self.own.version
            return LinkStateVerdict.IMPOSTOR if newest or (other and state != self.own) else LinkStateVerdict.OLD
        existing = self.states.get(state.origin)
        if existing is not None and (state.incarnation, state.version) <= (existing.incarnation, existing.version):
            return LinkStateVerdict.OLD
        self.states[state.origin] = state
        return LinkStateVerdict.NEW

    def know(self, states: Mapping[Address, LinkState]) -> None:
        """Know what a network that has come to rest would have said, oneself included; for simulations."""
        self.states = dict(states)
        self.own = self.states[self.own.origin]
        self._links = dict(self.own.links)

    def forget(self, origin: Address) -> None:
        """A broker is gone for good."""
        if origin != self.own.origin:
            self.states.pop(origin, None)

    # What follows.

    def edges(self) -> dict[tuple[Address, Address], int]:
        """The links that both of their ends name, the lower end first, and the greater of the two costs."""
        costs = {state.origin: dict(state.links) for state in self.states.values()}
        results = {}
        for origin, links in costs.items():
            for neighbour, cost in links.items():
                back = costs.get(neighbour, {}).get(origin)
                if origin < neighbour and back is not None:
                    results[origin, neighbour] = max(1, cost, back)
        return results

    def parents(self) -> dict[Root, Address]:
        """By root: the neighbour towards it. The broker itself, and what cannot be reached, is left out."""
        edges = self.edges()
        if self._shared:
            edges = minimum_spanning_forest(edges)
        graph: dict[Address, dict[Address, int]] = {}
        for (one, other), cost in edges.items():
            graph.setdefault(one, {})[other] = cost
            graph.setdefault(other, {})[one] = cost
        return first_hops(graph, self.own.origin)


def _tie(root: Root, hop: Address) -> int:
    """An order of neighbours that differs from root to root, so that equal ways share the load."""
    return (root * 0x9E3779B97F4A7C15 ^ hop * 0xC2B2AE3D27D4EB4F) >> 7 & 0xFFFFFFFF


def first_hops(graph: _Graph, start: Address) -> dict[Address, Address]:
    """For each node that can be reached, the neighbour of `start` on a shortest way to it."""
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
    """Kruskal's algorithm; equal costs in order of the ends, so that everybody finds the same."""
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
