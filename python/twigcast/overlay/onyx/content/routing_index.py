"""Matching of routing queries by the compiled engine.

All conjunctions are in one table of the engine, each distinct path once, however many neighbours want it. A label
stands for a scope, a neighbour, and the roots for whose messages an interest holds. For a message, the labels of its
scope and root count, of neighbours to which it may be sent. The engine determines which of these neighbours are
reached, and no longer tests for one that is (Diao 2005, section 7.3.2: duplicate-target suppression).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from twigcast._core import ConjunctionIndex, LabelRequest, NameDictionary
from twigcast.errors import NeedsConversion, QueryError
from twigcast.limits import Limits
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.announcement import Roots
from twigcast.overlay.onyx.messages import EVERYWHERE, Disjunct, LinearPath, Root, RoutingQuery
from twigcast.reading.conversion import to_utf8

#: Targets of one pass of the engine.
_TARGETS_MAX = 64
#: Combinations of scope, root and neighbours whose labels are cached.
_REQUESTS_MAX = 4_096
_NOWHERE: frozenset[Root] = frozenset()


class _Label(NamedTuple):
    scope: str
    neighbour: Address
    roots: Roots


class RoutingIndex:
    """The conjunction table of the engine, with its labels, conjunctions and targets by name."""

    def __init__(self, limits: Limits) -> None:
        #: Paths that the engine refused.
        self.widened = 0
        self._limits = limits
        self._engine = ConjunctionIndex(limits.as_dict())
        self._conjunctions: dict[frozenset[LinearPath], int] = {}
        self._labels_of: dict[frozenset[LinearPath], Counter[int]] = {}
        self._labels: dict[_Label, int] = {}
        self._label_uses: Counter[_Label] = Counter()
        self._free_labels: list[int] = []
        self._requests: dict[tuple[str, Root, frozenset[Address]], list[LabelRequest]] = {}

    def change(self, neighbour: Address, disjunct: Disjunct, before: Roots, after: Roots) -> None:
        """Changes the roots for whose messages a neighbour wants a disjunct."""
        labels = self._labels_of.setdefault(disjunct.paths, Counter())
        if after:
            labels[self._acquire(_Label(disjunct.scope, neighbour, after))] += 1
        if before:
            label = self._release(_Label(disjunct.scope, neighbour, before))
            labels[label] -= 1
            if not labels[label]:
                del labels[label]
        conjunction = self._conjunctions.get(disjunct.paths)
        if conjunction is None:
            self._conjunctions[disjunct.paths] = self._add(disjunct.paths, list(labels))
        elif labels:
            self._engine.set_labels(conjunction, list(labels))
        else:
            self._engine.remove(conjunction)
            del self._conjunctions[disjunct.paths], self._labels_of[disjunct.paths]

    def _add(self, paths: frozenset[LinearPath], labels: list[int]) -> int:
        usable = [(path.text, dict(path.namespaces)) for path in sorted(paths)]
        while True:
            try:
                return self._engine.add(usable, labels)
            except QueryError as error:
                # A path of another version, or nonsense. Without it the conjunction is wider, and loses no message.
                kept = [path for path in usable if path[0] != error.text]
                self.widened += len(usable) - len(kept)
                usable = kept

    def _acquire(self, label: _Label) -> int:
        number = self._labels.get(label)
        if number is None:
            number = self._labels[label] = self._free_labels.pop() if self._free_labels else len(self._labels)
            self._requests.clear()
        self._label_uses[label] += 1
        return number

    def _release(self, label: _Label) -> int:
        number = self._labels[label]
        self._label_uses[label] -= 1
        if not self._label_uses[label]:
            del self._label_uses[label], self._labels[label]
            self._free_labels.append(number)
            self._requests.clear()
        return number

    def route(self, message: bytes, scope: str, root: Root, among: frozenset[Address]) -> frozenset[Address]:
        """Returns the neighbours that want a message."""
        return self._reached(lambda request: self._ask(message, request), scope, root, among)

    def route_stream(
        self,
        stream: bytes,
        dictionary: NameDictionary | None,
        scope: str,
        root: Root,
        among: frozenset[Address],
    ) -> frozenset[Address]:
        """Returns the neighbours that want a message that comes as an element stream."""
        return self._reached(lambda request: self._engine.route_stream(stream, dictionary, request), scope, root, among)

    def _reached(
        self, ask: Callable[[LabelRequest], int], scope: str, root: Root, among: frozenset[Address]
    ) -> frozenset[Address]:
        reached: set[Address] = set()
        order = sorted(among)
        for part, request in enumerate(self._label_request(scope, root, among, order)):
            if request:
                bits = ask(request)
                targets = order[part * _TARGETS_MAX : (part + 1) * _TARGETS_MAX]
                reached.update(target for index, target in enumerate(targets) if bits >> index & 1)
        return frozenset(reached)

    def _label_request(
        self, scope: str, root: Root, among: frozenset[Address], order: list[Address]
    ) -> list[LabelRequest]:
        """Returns, for each pass of the engine, the labels that count with the index of their target."""
        existing = self._requests.get((scope, root, among))
        if existing is None:
            position = {neighbour: index for index, neighbour in enumerate(order)}
            parts: list[list[tuple[int, int]]] = [[] for _ in range(0, len(order), _TARGETS_MAX)]
            for label, number in self._labels.items():
                index = position.get(label.neighbour)
                if index is None or label.scope != scope:
                    continue
                if isinstance(label.roots, str) or root in label.roots:
                    parts[index // _TARGETS_MAX].append((number, index % _TARGETS_MAX))
            if len(self._requests) >= _REQUESTS_MAX:
                self._requests.clear()
            existing = self._requests[scope, root, among] = list(map(LabelRequest, parts))
        return existing

    def _ask(self, message: bytes, request: LabelRequest) -> int:
        try:
            return self._engine.route(message, request)
        except NeedsConversion:
            return self._engine.route(to_utf8(message, self._limits.message_bytes_max), request)

    def holding(self, message: bytes) -> set[frozenset[LinearPath]]:
        """Returns the conjunctions that hold on a message."""
        try:
            holding = set(self._engine.holding(message))
        except NeedsConversion:
            holding = set(self._engine.holding(to_utf8(message, self._limits.message_bytes_max)))
        return {paths for paths, number in self._conjunctions.items() if number in holding}

    def statistics(self) -> dict[str, int]:
        """Returns counts and byte sizes of the engine's table."""
        return self._engine.statistics()


class RoutingMatcher:
    """A compiled routing query, for the answers to `Recover`."""

    def __init__(self, query: RoutingQuery, limits: Limits | None = None) -> None:
        """Compiles a routing query."""
        self._index = RoutingIndex(limits or Limits())
        for disjunct in query:
            self._index.change(0, disjunct, _NOWHERE, EVERYWHERE)

    def matches(self, message: bytes, scope: str = "") -> bool:
        """Returns whether a message satisfies the routing query.

        Raises:
            RejectedMessage: The message is malformed or over a limit.
        """
        return bool(self._index.route(message, scope, 0, frozenset({0})))


def matches(query: RoutingQuery, message: bytes, scope: str = "") -> bool:
    """Returns whether a message satisfies a routing query. For several messages, use :class:`RoutingMatcher`.

    Raises:
        RejectedMessage: The message is malformed or over a limit.
    """
    return RoutingMatcher(query).matches(message, scope)
