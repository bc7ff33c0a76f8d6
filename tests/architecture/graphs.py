"""Circles in a graph of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Returns the groups of nodes that all reach each other, each group sorted (Kosaraju's algorithm)."""
    backwards: dict[str, set[str]] = {node: set() for node in graph}
    for node, targets in graph.items():
        for target in targets:
            backwards.setdefault(target, set()).add(node)
    seen: set[str] = set()
    finished = [node for root in graph for node in _finished(graph, root, seen)]
    seen.clear()
    groups = (list(_finished(backwards, root, seen)) for root in reversed(finished))
    return sorted(sorted(group) for group in groups if len(group) > 1)


def _finished(graph: Mapping[str, Iterable[str]], root: str, seen: set[str]) -> Iterator[str]:
    """Yields the nodes that can be reached through nodes not seen before, each behind those that it leads to."""
    if root in seen:
        return
    seen.add(root)
    stack = [(root, iter(graph.get(root, ())))]
    while stack:
        node, targets = stack[-1]
        target = next((target for target in targets if target not in seen), None)
        if target is None:
            stack.pop()
            yield node
        else:
            seen.add(target)
            stack.append((target, iter(graph.get(target, ()))))
