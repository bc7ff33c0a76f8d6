"""The three basic plans: how many clauses are pushed into the shared matcher (Diao 2005, section 6.4).

=======  ========================================  ==========================================  ====================
clause   PathSharing-F                             PathSharing-FW                              PathSharing-FWR
=======  ========================================  ==========================================  ====================
for      matcher, Selection, DupElim (scan)        the same                                    the same
where    Where-Filter: tree search                 selections on streams, semijoins            as -FW
return   Return-Select: tree search                Return-Select                               DupElims,
                                                                                               OuterJoin-Select
=======  ========================================  ==========================================  ====================

All three give identical results. Which operators can be dropped or need no hashing is decided per query, by the claims.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from time import process_time as clock

from twigcast.lab.reference.events import Event, read_events
from twigcast.lab.transform import operators
from twigcast.lab.transform.claims import canonical, claim_3, no_duplicates, ordered
from twigcast.lab.transform.factory import result
from twigcast.lab.transform.operators import Groups
from twigcast.lab.transform.query import NavigationPath, TransformQuery, WherePath
from twigcast.lab.transform.streams import MatchedMessage, PathMatcher, Stream
from twigcast.schema import ElementGraph


class Pushed(Enum):
    """The clauses that are pushed into the matcher. The name of the plan ends with it."""

    FOR = "F"
    FOR_WHERE = "FW"
    FOR_WHERE_RETURN = "FWR"


class Optimization(Enum):
    """Which claims are used (Diao 2005, section 6.5): none; those on queries; those with the DTD too, and rewriting."""

    NONE = "no opt"
    QUERY = "Opt(q)"
    QUERY_AND_DTD = "Opt(q+dtd)"


class DupElim(Enum):
    """The method that eliminates the duplicates of a stream, if there can be any."""

    DROPPED = "dropped"
    SCAN = "scan"
    HASH = "hash"


@dataclass(frozen=True, slots=True)
class PredicateInput:
    """The right input of a semijoin: an extended predicate path and its value test."""

    path: NavigationPath
    condition: WherePath
    merge: bool


@dataclass(frozen=True, slots=True)
class ReturnInput:
    """A right input of an outer join: an extended return path."""

    path: NavigationPath
    dup_elim: DupElim


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The post-processing plan of one query."""

    query: TransformQuery
    binding_dup_elim: DupElim
    predicates: tuple[PredicateInput, ...]
    returns: tuple[ReturnInput, ...]
    merge_outer_join: bool

    @property
    def binding_field(self) -> int:
        """The position of the bound node in extended paths, from 1."""
        return len(self.query.binding)


@dataclass(slots=True)
class Profile:
    """Seconds spent per operator, added up over messages."""

    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, started: float) -> float:
        """Books the time since ``started`` on an operator. Returns the present time."""
        now = clock()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - started
        return now


def rewritten(query: TransformQuery, graph: ElementGraph) -> TransformQuery:
    """Returns the query with all its paths in canonical form. Conditions stay with their elements."""
    binding: NavigationPath = ()
    moved: dict[int, int] = {}
    above: str | None = None
    for number, step in enumerate(query.binding):
        binding += canonical((step,), graph, above)
        moved[number] = len(binding) - 1
        above = step.name
    return TransformQuery(
        binding,
        tuple(type(c)(moved[c.step], c.predicate) for c in query.conditions),
        tuple(WherePath(canonical(w.path, graph, above), w.predicate) for w in query.where),
        tuple(canonical(path, graph, above) for path in query.returns),
        query.template,
        query.wrapper,
    )


class SharedMatching(ABC):
    """The base of plans: a matcher that all queries share, and what is made of what it finds."""

    def __init__(self, matcher: PathMatcher) -> None:
        self.matcher = matcher
        self.profile = Profile()

    @abstractmethod
    def process(self, message: MatchedMessage) -> dict[str, Groups]:
        """Runs all plans on a message that has been matched."""

    @abstractmethod
    def query(self, key: str) -> TransformQuery:
        """Returns a query as it was planned."""

    def match(self, message: bytes) -> dict[str, Groups]:
        """Returns the groups of every query that the message matches: those with at least one surviving binding.

        Raises:
            xml.parsers.expat.ExpatError: the message is not well-formed.
        """
        return self.match_events(read_events(message))

    def match_events(self, events: Sequence[Event]) -> dict[str, Groups]:
        """Matches a message that has been parsed, as :meth:`match` does."""
        started = clock()
        message = self.matcher.match(events)
        self.profile.add("matcher", started)
        return self.process(message)

    def transform(self, message: bytes) -> dict[str, str]:
        """Returns the result of every query that the message matches, as XML.

        Raises:
            xml.parsers.expat.ExpatError: the message is not well-formed.
        """
        matched = self.matcher.match(read_events(message))
        return {key: result(self.query(key), groups, matched.nodes) for key, groups in self.process(matched).items()}


class PathSharing(SharedMatching):
    """Queries whose paths are shared; a plan of its own for each.

    Args:
        pushed: which clauses the matcher handles.
        optimization: which claims may be used.
        graph: the DTD's element graph, for ``QUERY_AND_DTD``; messages must conform to the DTD then.
        matcher: the shared matcher; a new one if not given.
    """

    def __init__(
        self,
        pushed: Pushed,
        optimization: Optimization = Optimization.NONE,
        graph: ElementGraph | None = None,
        matcher: PathMatcher | None = None,
    ) -> None:
        if optimization is Optimization.QUERY_AND_DTD and graph is None:
            raise ValueError("Opt(q+dtd) needs the element graph of the DTD")
        self.pushed = pushed
        self.optimization = optimization
        self.graph = graph if optimization is Optimization.QUERY_AND_DTD else None
        super().__init__(PathMatcher() if matcher is None else matcher)
        self.plans: dict[str, QueryPlan] = {}

    def add(self, key: str, query: TransformQuery) -> None:
        """Plans a query and puts its paths into the matcher.

        Raises:
            ValueError: the key is taken.
        """
        if key in self.plans:
            raise ValueError(f"there is a query {key!r} already")
        plan = self.plans[key] = self.plan(query)
        for path in self._paths(plan):
            self.matcher.insert(path)

    def remove(self, key: str) -> None:
        """Drops a query.

        Raises:
            KeyError: there is no such query.
        """
        for path in self._paths(self.plans.pop(key)):
            self.matcher.remove(path)

    def plan(self, query: TransformQuery) -> QueryPlan:
        """Selects the operators of a query."""
        if self.graph is not None:
            query = rewritten(query, self.graph)
        binding, bound = query.binding, len(query.binding)
        optimize = self.optimization is not Optimization.NONE
        predicates = tuple(
            PredicateInput(binding + where.path, where, optimize and ordered(binding + where.path, bound, self.graph))
            for where in query.where
        )
        return QueryPlan(
            query,
            DupElim.DROPPED if optimize and no_duplicates(binding, self.graph) else DupElim.SCAN,
            predicates,
            tuple(ReturnInput(binding + path, self._return_dup_elim(binding + path, bound)) for path in query.returns),
            optimize and all(ordered(binding + path, bound, self.graph) for path in query.returns),
        )

    def _return_dup_elim(self, path: NavigationPath, bound: int) -> DupElim:
        if self.optimization is Optimization.NONE:
            return DupElim.HASH
        if claim_3(path, bound, self.graph):
            return DupElim.DROPPED
        return DupElim.SCAN if ordered(path, bound, self.graph) else DupElim.HASH

    def _paths(self, plan: QueryPlan) -> list[NavigationPath]:
        paths = [plan.query.binding]
        if self.pushed is not Pushed.FOR:
            paths += [predicate.path for predicate in plan.predicates]
        if self.pushed is Pushed.FOR_WHERE_RETURN:
            paths += [returned.path for returned in plan.returns]
        return paths

    # Execution

    def process(self, message: MatchedMessage) -> dict[str, Groups]:
        """Runs all plans on a message that has been matched."""
        results: dict[str, Groups] = {}
        for key, plan in self.plans.items():
            stream = message.streams.get(plan.query.binding)
            if stream:
                groups = self._execute(plan, stream, message)
                if groups:
                    results[key] = groups
        return results

    def query(self, key: str) -> TransformQuery:
        """Returns a query as it was planned."""
        return self.plans[key].query

    def _execute(self, plan: QueryPlan, stream: Stream, message: MatchedMessage) -> Groups:
        bindings = self._for_clause(plan, stream, message)
        if bindings:
            bindings = self._where_clause(plan, bindings, message)
        return self._return_clause(plan, bindings, message) if bindings else []

    def _for_clause(self, plan: QueryPlan, stream: Stream, message: MatchedMessage) -> Stream:
        now = clock()
        if plan.query.conditions:
            stream = operators.selection(stream, plan.query.conditions, message.nodes)
            now = self.profile.add("Selection", now)
        if plan.binding_dup_elim is not DupElim.DROPPED:
            stream = operators.scan_dup_elim(stream)
            self.profile.add("DupElim", now)
        return stream

    def _where_clause(self, plan: QueryPlan, bindings: Stream, message: MatchedMessage) -> Stream:
        now = clock()
        if self.pushed is Pushed.FOR:
            bindings = operators.where_filter(bindings, plan.query.where, message.nodes)
            self.profile.add("Where-Filter", now)
            return bindings
        for right in plan.predicates:
            partners = message.stream(right.path)
            if right.condition.predicate is not None:
                partners = operators.selection_on_last(partners, right.condition.predicate, message.nodes)
                now = self.profile.add("Selection", now)
            semijoin = operators.merge_semijoin if right.merge else operators.hash_semijoin
            bindings = semijoin(bindings, partners, plan.binding_field)
            now = self.profile.add("Semijoin", now)
            if not bindings:
                break
        return bindings

    def _return_clause(self, plan: QueryPlan, bindings: Stream, message: MatchedMessage) -> Groups:
        now = clock()
        if self.pushed is not Pushed.FOR_WHERE_RETURN:
            groups = operators.return_select(bindings, plan.query.returns, message.nodes)
            self.profile.add("Return-Select", now)
            return groups
        streams = []
        for returned in plan.returns:
            stream = message.stream(returned.path)
            if returned.dup_elim is DupElim.HASH:
                stream = operators.hash_pair_dup_elim(stream, plan.binding_field)
            elif returned.dup_elim is DupElim.SCAN:
                stream = operators.scan_pair_dup_elim(stream, plan.binding_field)
            streams.append(stream)
        if any(returned.dup_elim is not DupElim.DROPPED for returned in plan.returns):
            now = self.profile.add("DupElim", now)
        outer_join = operators.merge_outer_join_select if plan.merge_outer_join else operators.hash_outer_join_select
        groups = outer_join(bindings, streams, plan.binding_field)
        self.profile.add("OuterJoin-Select", now)
        return groups

    def operator_counts(self) -> dict[str, int]:
        """Counts the operators of each kind in all plans together (Diao 2005, tables 9 and 11)."""
        plans = self.plans.values()
        inputs = [predicate for plan in plans for predicate in plan.predicates]
        dup_elims = [plan.binding_dup_elim for plan in plans]
        dup_elims += [returned.dup_elim for plan in plans for returned in plan.returns]
        return {
            "semijoins, hash": sum(not predicate.merge for predicate in inputs),
            "semijoins, merge": sum(predicate.merge for predicate in inputs),
            "outer joins, hash": sum(not plan.merge_outer_join for plan in plans),
            "outer joins, merge": sum(plan.merge_outer_join for plan in plans),
            "DupElims": sum(kind is not DupElim.DROPPED for kind in dup_elims),
        }
