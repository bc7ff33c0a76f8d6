"""Matching of routing queries by the compiled engine: conjunctions of shared paths, labels for who wants them.

All conjunctions are in one table of the engine, each distinct path once, however many neighbours want it. A label
stands for a scope, a neighbour and the roots for whose messages a wish holds. A message makes the labels of its scope
and root count, for the neighbours that it may be sent to; the engine then finds which of these are reached and looks
for none of them twice (Diao 2005, section 7.3.2: duplicate-target suppression).
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

#: Targets that the engine tells apart in one pass.
_TARGETS_MAX = 64
#: Combinations of scope, root and neighbours whose labels are remembered.
_ASKED_MAX = 4_096
_NOWHERE: frozenset[Root] = frozenset()


class _Label(NamedTuple):
    scope: str
    neighbour: Address
    roots: Roots


class RoutingIndex:
    """The engine's table, with its labels, conjunctions and targets by name."""

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
        self._asked: dict[tuple[str, Root, frozenset[Address]], list[LabelRequest]] = {}

    def change(self, neighbour: Address, disjunct: Disjunct, before: Roots, after: Roots) -> None:
        """A neighbour wants a disjunct for other roots than before."""
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
                # Another version's, or nonsense: without it the conjunction is wider, and nothing is lost.
                kept = [path for path in usable if path[0] != error.text]
                self.widened += len(usable) - len(kept)
                usable = kept

    def _acquire(self, label: _Label) -> int:
        number = self._labels.get(label)
        if number is None:
            number = self._labels[label] = self._free_labels.pop() if self._free_labels else len(self._labels)
            self._asked.clear()
        self._label_uses[label] += 1
        return number

    def _release(self, label: _Label) -> int:
        number = self._labels[label]
        self._label_uses[label] -= 1
        if not self._label_uses[label]:
            del self._label_uses[label], self._labels[label]
            self._free_labels.append(number)
            self._asked.clear()
        return number

    def route(self, message: bytes, scope: str, root: Root, among: frozenset[Address]) -> frozenset[Address]:
        """The neighbours that want a message."""
        return self._reached(lambda requested: self._ask(message, requested), scope, root, among)

    def route_stream(
        self,
        stream: bytes,
        dictionary: NameDictionary | None,
        scope: str,
        root: Root,
        among: frozenset[Address],
    ) -> frozenset[Address]:
        """The neighbours that want a message that comes as an element stream."""
        return self._reached(
            lambda requested: self._engine.route_stream(stream, dictionary, requested), scope, root, among
        )

    def _reached(
        self, ask: Callable[[LabelRequest], int], scope: str, root: Root, among: frozenset[Address]
    ) -> frozenset[Address]:
        reached: set[Address] = set()
        order = sorted(among)
        for part, requested in enumerate(self._label_request(scope, root, among, order)):
            if requested:
                bits = ask(requested)
                targets = order[part * _TARGETS_MAX : (part + 1) * _TARGETS_MAX]
                reached.update(target for index, target in enumerate(targets) if bits >> index & 1)
        return frozenset(reached)

    def _label_request(
        self, scope: str, root: Root, among: frozenset[Address], order: list[Address]
    ) -> list[LabelRequest]:
        """By group of targets that one pass can tell apart: the labels that count, and the targets they stand for."""
        existing = self._asked.get((scope, root, among))
        if existing is None:
            position = {neighbour: index for index, neighbour in enumerate(order)}
            parts: list[list[tuple[int, int]]] = [[] for _ in range(0, len(order), _TARGETS_MAX)]
            for label, number in self._labels.items():
                index = position.get(label.neighbour)
                if index is None or label.scope != scope:
                    continue
                if isinstance(label.roots, str) or root in label.roots:
                    parts[index // _TARGETS_MAX].append((number, index % _TARGETS_MAX))
            if len(self._asked) >= _ASKED_MAX:
                self._asked.clear()
            existing = self._asked[scope, root, among] = list(map(LabelRequest, parts))
        return existing

    def _ask(self, message: bytes, requested: LabelRequest) -> int:
        try:
            return self._engine.route(message, requested)
        except NeedsConversion:
            return self._engine.route(to_utf8(message, self._limits.message_bytes_max), requested)

    def holding(self, message: bytes) -> set[frozenset[LinearPath]]:
        """The conjunctions that hold on a message."""
        try:
            holding = set(self._engine.holding(message))
        except NeedsConversion:
            holding = set(self._engine.holding(to_utf8(message, self._limits.message_bytes_max)))
        return {paths for paths, number in self._conjunctions.items() if number in holding}

    def statistics(self) -> dict[str, int]:
        """Counts and byte sizes of the engine's table."""
        return self._engine.statistics()


class RoutingMatcher:
    """One routing query, to be matched with many messages: what the answer to a `Recover` is made with."""

    def __init__(self, query: RoutingQuery, limits: Limits | None = None) -> None:
        """Compile a routing query."""
        self._matching = RoutingIndex(limits or Limits())
        for disjunct in query:
            self._matching.change(0, disjunct, _NOWHERE, EVERYWHERE)

    def matches(self, message: bytes, scope: str = "") -> bool:
        """Whether a message satisfies the routing query.

        Raises:
            RejectedMessage: The message is malformed or over a limit.
        """
        return bool(self._matching.route(message, scope, 0, frozenset({0})))


def matches(query: RoutingQuery, message: bytes, scope: str = "") -> bool:
    """Whether a message satisfies a routing query; for more than one message use :class:`RoutingMatcher`.

    Raises:
        RejectedMessage: The message is malformed or over a limit.
    """
    return RoutingMatcher(query).matches(message, scope)
