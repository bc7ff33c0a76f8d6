"""PlanSharing: post-processing shared between queries (Diao 2005, section 6.6).

- **GroupBy on return streams**: one operator per return stream and binding position groups the stream by bound node;
  all queries fetch ready groups.
- **Pull-up**: selections move above the semijoin, which becomes a join shared by all queries with the same *join
  signature* (binding path, predicate path).
- **Shared selection**: all selections above a join with the same signature (which item of which step is tested, with
  which operator) are one operator that holds an index from constants to outputs.
- Duplicates are then eliminated per output, by scanning, since joins keep the order of bindings; an OuterJoin-Select
  per distinct list of return paths follows. Queries that differ in constant tags or the order of return paths
  share it all.

Pull-up is done for queries with exactly one predicate path, and shared selection for at most one predicate on each of
the two paths; other queries get a PathSharing-FWR plan of their own on the same matcher.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import process_time as clock
from typing import TypeAlias

from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import AttributePredicate, Test, TextPredicate, ValuePredicate, number
from twigcast.lab.transform import operators
from twigcast.lab.transform.claims import ordered
from twigcast.lab.transform.operators import Groups
from twigcast.lab.transform.plans import Optimization, PathSharing, Pushed, SharedMatching, rewritten
from twigcast.lab.transform.query import NavigationPath, TransformQuery
from twigcast.lab.transform.streams import MatchedMessage, PathMatcher, PathTuple, Stream
from twigcast.query import Operator
from twigcast.schema import ElementGraph

Constant: TypeAlias = str | float | None
"""What a predicate compares with; ``None``: there is no predicate, or none with a constant."""


@dataclass(frozen=True, slots=True)
class PredicateSignature:
    """Which step is tested (from 0), which item of its element, and with which operator (``None``: it exists)."""

    step: int
    item: str
    operator: Operator | None

    def values(self, element: Element) -> Sequence[str]:
        """Returns the values of the item."""
        if self.item == "text()":
            return element.texts
        if self.item == ".":
            return (element.string_value,)
        if self.item == "@*":
            return tuple(element.attributes.values())
        value = element.attributes.get(self.item[1:])
        return () if value is None else (value,)


def _signature(step: int, predicate: ValuePredicate) -> tuple[PredicateSignature, Constant]:
    item = "."
    if isinstance(predicate, AttributePredicate):
        item = f"@{predicate.name}"
    elif isinstance(predicate, TextPredicate):
        item = "text()"
    test = predicate.test
    return PredicateSignature(step, item, test.operator if test else None), test.constant if test else None


@dataclass(frozen=True, slots=True)
class SelectionSignature:
    """The two predicates that a selection above a join tests; either may be missing."""

    binding: PredicateSignature | None
    predicate: PredicateSignature | None


@dataclass(slots=True)
class Output:
    """The output of a shared selection for one pair of constants: bound nodes, and the queries that use them."""

    consumers: dict[tuple[NavigationPath, ...], list[str]] = field(default_factory=dict)
    """Queries by their return paths, in canonical order."""
    bound: list[int] = field(default_factory=list)


@dataclass(slots=True)
class SharedSelection:
    """All selections of one signature above one join: an index from pairs of constants to outputs."""

    signature: SelectionSignature
    outputs: dict[tuple[Constant, Constant], Output] = field(default_factory=dict)
    binding_constants: set[Constant] = field(default_factory=set)
    predicate_constants: set[Constant] = field(default_factory=set)

    def select(self, pairs: Sequence[tuple[PathTuple, PathTuple]], nodes: Sequence[Element]) -> None:
        """Distributes joined tuples to the outputs whose constants they satisfy."""
        for left, right in pairs:
            predicate = self.signature.predicate
            seconds = _satisfied(predicate, self.predicate_constants, right, nodes)
            for first in _satisfied(self.signature.binding, self.binding_constants, left, nodes) if seconds else ():
                for second in seconds:
                    output = self.outputs.get((first, second))
                    # The scan-based DupElim: equal bound nodes stand together.
                    if output is not None and (not output.bound or output.bound[-1] != left[-1]):
                        output.bound.append(left[-1])


def _satisfied(
    signature: PredicateSignature | None, constants: set[Constant], path_tuple: PathTuple, nodes: Sequence[Element]
) -> list[Constant]:
    """The constants with which the predicate holds: a look-up for equality, else each is tried."""
    if signature is None:
        return [None]
    values = signature.values(nodes[path_tuple[signature.step]])
    if signature.operator is None:
        return [None] if values else []
    if signature.operator is Operator.EQUAL:
        candidates: list[Constant] = [candidate for value in values for candidate in (value, number(value))]
        return [candidate for candidate in dict.fromkeys(candidates) if candidate in constants]
    operator = signature.operator
    return [c for c in constants if c is not None and any(Test(operator, c).holds(value) for value in values)]


@dataclass(slots=True)
class SharedJoin:
    """The join of all queries with one join signature, and the selections above it."""

    binding: NavigationPath
    predicate: NavigationPath
    merge: bool
    selections: dict[SelectionSignature, SharedSelection] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _PlanPosition:
    """Where a query sits in the shared plan."""

    query: TransformQuery
    join: tuple[NavigationPath, NavigationPath]
    selection: SelectionSignature
    constants: tuple[Constant, Constant]
    returns: tuple[NavigationPath, ...]
    """Extended return paths, in canonical order."""
    order: tuple[int, ...]
    """For each return path of the query its place in that order."""


class PlanSharing(SharedMatching):
    """PathSharing-FWR with shared joins, selections and groups.

    Args:
        graph: the DTD's element graph, if messages conform to a DTD; without it only claims on queries are used.
    """

    def __init__(self, graph: ElementGraph | None = None) -> None:
        self.graph = graph
        super().__init__(PathMatcher())
        level = Optimization.QUERY if graph is None else Optimization.QUERY_AND_DTD
        self.alone = PathSharing(Pushed.FOR_WHERE_RETURN, level, graph, self.matcher)
        self.alone.profile = self.profile
        self.joins: dict[tuple[NavigationPath, NavigationPath], SharedJoin] = {}
        self._positions: dict[str, _PlanPosition] = {}
        self._groups: dict[tuple[NavigationPath, int], int] = {}

    def add(self, key: str, query: TransformQuery) -> None:
        """Merges a query into the shared plan.

        Raises:
            ValueError: the key is taken.
        """
        if key in self._positions or key in self.alone.plans:
            raise ValueError(f"there is a query {key!r} already")
        position = self._position(query if self.graph is None else rewritten(query, self.graph))
        if position is None:
            self.alone.add(key, query)
            return
        self._positions[key] = position
        output = self._output(position)
        output.consumers.setdefault(position.returns, []).append(key)
        for path in (*position.join, *position.returns):
            self.matcher.insert(path)
        for path in position.returns:
            group = (path, len(position.query.binding))
            self._groups[group] = self._groups.get(group, 0) + 1

    def remove(self, key: str) -> None:
        """Drops a query and every operator that only it used.

        Raises:
            KeyError: there is no such query.
        """
        if key in self.alone.plans:
            self.alone.remove(key)
            return
        position = self._positions.pop(key)
        join = self.joins[position.join]
        selection = join.selections[position.selection]
        output = selection.outputs[position.constants]
        output.consumers[position.returns].remove(key)
        if not output.consumers[position.returns]:
            del output.consumers[position.returns]
        if not output.consumers:
            del selection.outputs[position.constants]
            selection.binding_constants = {first for first, _ in selection.outputs}
            selection.predicate_constants = {second for _, second in selection.outputs}
        if not selection.outputs:
            del join.selections[position.selection]
        if not join.selections:
            del self.joins[position.join]
        for path in (*position.join, *position.returns):
            self.matcher.remove(path)
        for path in position.returns:
            group = (path, len(position.query.binding))
            self._groups[group] -= 1
            if not self._groups[group]:
                del self._groups[group]

    @property
    def unique_plans(self) -> int:
        """Different complete plans: what is left of the queries when equal plans count once."""
        shared = sum(
            len(output.consumers)
            for join in self.joins.values()
            for selection in join.selections.values()
            for output in selection.outputs.values()
        )
        return shared + len(self.alone.plans)

    def _position(self, query: TransformQuery) -> _PlanPosition | None:
        """Where a query belongs; ``None`` if it cannot be shared."""
        if len(query.where) != 1 or len(query.conditions) > 1:
            return None
        (where,) = query.where
        predicate_path = query.binding + where.path
        binding, first = (
            _signature(query.conditions[0].step, query.conditions[0].predicate)
            if query.conditions
            else (
                None,
                None,
            )
        )
        predicate, second = (
            _signature(len(predicate_path) - 1, where.predicate) if where.predicate is not None else (None, None)
        )
        extended = [query.binding + path for path in query.returns]
        returns = tuple(sorted(set(extended), key=lambda path: "".join(map(str, path))))
        order = tuple(returns.index(path) for path in extended)
        selection = SelectionSignature(binding, predicate)
        return _PlanPosition(query, (query.binding, predicate_path), selection, (first, second), returns, order)

    def _output(self, position: _PlanPosition) -> Output:
        join = self.joins.get(position.join)
        if join is None:
            binding, predicate = position.join
            merge = ordered(predicate, len(binding), self.graph)
            join = self.joins[position.join] = SharedJoin(binding, predicate, merge)
        selection = join.selections.setdefault(position.selection, SharedSelection(position.selection))
        selection.binding_constants.add(position.constants[0])
        selection.predicate_constants.add(position.constants[1])
        return selection.outputs.setdefault(position.constants, Output())

    # Execution

    def query(self, key: str) -> TransformQuery:
        """Returns a query as it was planned."""
        position = self._positions.get(key)
        return position.query if position is not None else self.alone.query(key)

    def process(self, message: MatchedMessage) -> dict[str, Groups]:
        """Runs the shared plan on a message that has been matched."""
        result = self.alone.process(message) if self.alone.plans else {}
        now = clock()
        groups = {
            (path, bound): operators.group_by(message.streams[path], bound)
            for path, bound in self._groups
            if path in message.streams
        }
        self.profile.add("GroupBy", now)
        for join in self.joins.values():
            left, right = message.stream(join.binding), message.stream(join.predicate)
            if left and right:
                self._run_join(join, left, right, message, groups, result)
        return result

    def _run_join(
        self,
        join: SharedJoin,
        left: Stream,
        right: Stream,
        message: MatchedMessage,
        groups: dict[tuple[NavigationPath, int], dict[int, tuple[int, ...]]],
        result: dict[str, Groups],
    ) -> None:
        now = clock()
        pairs = operators.join(left, right, len(join.binding), merge=join.merge)
        now = self.profile.add("Join", now)
        for selection in join.selections.values():
            selection.select(pairs, message.nodes)
            now = self.profile.add("Selection", now)
            for output in selection.outputs.values():
                if output.bound:
                    self._outer_joins(output, len(join.binding), groups, result)
                    output.bound = []
            now = self.profile.add("OuterJoin-Select", now)

    def _outer_joins(
        self,
        output: Output,
        bound: int,
        groups: dict[tuple[NavigationPath, int], dict[int, tuple[int, ...]]],
        result: dict[str, Groups],
    ) -> None:
        for returns, keys in output.consumers.items():
            tables = [groups.get((path, bound), {}) for path in returns]
            joined = [(node, tuple(table.get(node, ()) for table in tables)) for node in output.bound]
            for key in keys:
                order = self._positions[key].order
                result[key] = joined if order == tuple(range(len(returns))) else _reordered(joined, order)

    def __iter__(self) -> Iterator[str]:
        """Yields the keys of all queries."""
        yield from self._positions
        yield from self.alone.plans


def _reordered(groups: Groups, order: Sequence[int]) -> Groups:
    return [(node, tuple(lists[position] for position in order)) for node, lists in groups]
