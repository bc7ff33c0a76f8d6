"""Shared path matching: every distinct navigation path once, in YFilter's automaton (Diao 2005, section 6.3).

The matcher answers a message with a stream of *path tuples* per path: for each way to match the path the numbers of the
elements on it, one field for each step. Elements are numbered in document order, from 1. Acceptance happens at start
tags, so the last field of a stream never falls; there is no such guarantee for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from twigcast.lab.reference.algorithm import Counters
from twigcast.lab.reference.events import Characters, Element, EndElement, Event, StartElement, Tree
from twigcast.lab.reference.language import LocationStep
from twigcast.lab.reference.nfa import NFA, Run, State
from twigcast.lab.transform.query import NavigationPath

PathTuple: TypeAlias = tuple[int, ...]
Stream: TypeAlias = list[PathTuple]


@dataclass(frozen=True, slots=True)
class MatchedMessage:
    """A message after matching: its elements by number (0: the document node), and a stream per path."""

    nodes: Sequence[Element]
    streams: dict[NavigationPath, Stream]

    def stream(self, path: NavigationPath) -> Stream:
        """Returns the path tuples of a path; empty if it did not match."""
        return self.streams.get(path, [])


class PathMatcher:
    """The automaton with the distinct navigation paths of all queries, whatever role they play there."""

    def __init__(self) -> None:
        self._nfa: NFA[NavigationPath] = NFA()
        self._ends: dict[NavigationPath, State[NavigationPath]] = {}
        self._uses: dict[NavigationPath, int] = {}
        self.counters = Counters()

    def __len__(self) -> int:
        """Returns the number of distinct paths."""
        return len(self._ends)

    @property
    def states(self) -> int:
        """Size of the automaton."""
        return self._nfa.size

    def insert(self, path: NavigationPath) -> None:
        """Counts one more use of a path."""
        self._uses[path] = self._uses.get(path, 0) + 1
        if path not in self._ends:
            self._ends[path] = self._nfa.insert(path)[-1]
            self._ends[path].outputs.append(path)

    def remove(self, path: NavigationPath) -> None:
        """Counts one use less. The last one takes the path out.

        Raises:
            KeyError: there is no such path.
        """
        self._uses[path] -= 1
        if not self._uses[path]:
            del self._uses[path]
            state = self._ends.pop(path)
            state.outputs.remove(path)
            self._nfa.prune(state)

    def match(self, events: Sequence[Event]) -> MatchedMessage:
        """Runs a message through the automaton, and numbers its elements."""
        tree = Tree()
        run = Run(self._nfa, tree.document, self.counters)
        nodes = [tree.document]
        streams: dict[NavigationPath, Stream] = {}
        for event in events:
            if isinstance(event, StartElement):
                element = tree.start(event)
                nodes.append(element)
                for entry in run.start_element(element):
                    if entry.state.outputs:
                        results = [tuple(e.id for e in match) for match in entry.path_matches()]
                        for path in entry.state.outputs:
                            streams.setdefault(path, []).extend(results)
            elif isinstance(event, EndElement):
                tree.end()
                run.end_element()
            else:
                assert isinstance(event, Characters)
                tree.characters(event)
        return MatchedMessage(nodes, streams)


def search(node: Element, path: Sequence[LocationStep]) -> Iterator[Element]:
    """Searches depth first for a relative path below an element. With several ``//`` a node may come more than once."""
    if not path:
        yield node
        return
    step, *rest = path
    for child in node.children:
        if step.accepts(child):
            yield from search(child, rest)
        if step.axis == "//":
            yield from search(child, path)
