"""Small networks of routing tables whose deltas are passed on until nothing changes: no time, no links, no loss."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from lxml import etree

from tests.strategies import NAMESPACES, Generator
from twigcast.overlay.onyx.content.routing_query import routing_query
from twigcast.overlay.onyx.content.routing_table import BroadcastTrees, RoutingTable
from twigcast.overlay.onyx.messages import RoutingDelta, RoutingQuery


def random_graph(random: Random, count: int, extra: int) -> dict[int, set[int]]:
    """A connected graph."""
    graph: dict[int, set[int]] = {node: set() for node in range(count)}
    edges = [(node, random.randrange(node)) for node in range(1, count)]
    edges += [(random.randrange(count), random.randrange(count)) for _ in range(extra)]
    for one, other in edges:
        if one != other:
            graph[one].add(other)
            graph[other].add(one)
    return graph


def trees_of(graph: dict[int, set[int]]) -> dict[int, dict[int, int]]:
    """By root: the parent of each node that can be reached. Breadth first; ties differ from root to root."""
    results = {}
    for root in graph:
        parent: dict[int, int] = {}
        seen, queue = {root}, deque([root])
        while queue:
            node = queue.popleft()
            for other in sorted(graph[node], key=lambda other: (other * (root + 3)) % 7):
                if other not in seen:
                    seen.add(other)
                    parent[other] = node
                    queue.append(other)
        results[root] = parent
    return results


class Network:
    """Brokers with their tables."""

    def __init__(self, graph: dict[int, set[int]], make: Callable[[], RoutingTable] = RoutingTable) -> None:
        self.graph = graph
        self.tables = {node: make() for node in graph}
        self.queries: dict[int, dict[int, str]] = {node: {} for node in graph}
        self.deltas = 0
        self.rewire()

    def rewire(self) -> None:
        """Take the trees of the graph as it is now."""
        self.parents = trees_of(self.graph)
        for node, table in self.tables.items():
            children: dict[int, frozenset[int]] = {
                root: frozenset(child for child, above in parent.items() if above == node)
                for root, parent in self.parents.items()
            }
            parent = {root: above[node] for root, above in self.parents.items() if node in above}
            table.set_trees(BroadcastTrees(parent, children))

    def settle(self, take: Callable[[RoutingTable, int], RoutingDelta | None] = RoutingTable.delta) -> None:
        """Pass deltas on until there are none."""
        waiting = deque(self.graph)
        queued = set(waiting)
        while waiting:
            node = waiting.popleft()
            queued.discard(node)
            for neighbour in sorted(self.graph[node]):
                delta = take(self.tables[node], neighbour)
                if delta is not None:
                    self.deltas += 1
                    assert self.tables[neighbour].apply(node, delta)
                    if neighbour not in queued:
                        waiting.append(neighbour)
                        queued.add(neighbour)

    def cut(self, one: int, other: int) -> None:
        """Take a link away."""
        self.graph[one].discard(other)
        self.graph[other].discard(one)
        self.tables[one].forget(other)
        self.tables[other].forget(one)

    def subscribe(self, node: int, key: int, query: str) -> None:
        self.queries[node][key] = query
        self.tables[node].subscribe(key, mapped(query))

    def unsubscribe(self, node: int, key: int) -> None:
        del self.queries[node][key]
        assert self.tables[node].unsubscribe(key)

    def send(self, root: int, message: bytes) -> set[int]:
        """The brokers that get a message."""
        reached, open_ = {root}, [root]
        while open_:
            node = open_.pop()
            children = [child for child, above in self.parents[root].items() if above == node]
            for child in self.tables[node].route(message, "", root, children):
                assert child not in reached
                reached.add(child)
                open_.append(child)
        return reached

    def needed(self, root: int, wanting: set[int]) -> set[int]:
        """The brokers on the ways from the root to those that want a message."""
        needed = {root}
        for node in wanting:
            while node not in needed and node in self.parents[root]:
                needed.add(node)
                node = self.parents[root][node]
        return needed


def mapped(query: str) -> RoutingQuery:
    return routing_query(query, NAMESPACES)


def matching(queries: dict[int, dict[int, str]], message: str) -> set[int]:
    """The brokers with a query that a message matches, by libxml2."""
    tree = etree.ElementTree(etree.fromstring(message.encode()))
    return {
        node
        for node, own in queries.items()
        if any(tree.xpath(f"boolean({query})", namespaces=NAMESPACES) for query in own.values())
    }


def draw_query(generator: Generator, random: Random) -> str:
    """A query, narrow more often than not: what is wanted everywhere tells no tables apart."""
    if random.random() < 0.3:
        return generator.query()
    return "".join(
        random.choice(("/", "/", "//"))
        + random.choice(("a", "b", "c", "d", "*"))
        + random.choice(("", "", "[@x = '1']", "[@x = 2]", "[@y]", "[. = 'a']", "[b]", "[@id > 1]"))
        for _ in range(random.randint(1, 4))
    )
