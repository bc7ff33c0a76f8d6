"""Measures the plans for rewriting: time per operator, sizes of plans; results are checked before anything is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

from lxml import etree

from twigcast.lab.experiments.diao2005.filtering import WrongResultError
from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.matchers import ENGINE, NOTHING, parse_path
from twigcast.lab.experiments.framework.model import MQPT, TOTAL, Claim, Measured, Point, Results, X
from twigcast.lab.experiments.framework.timing import REPETITIONS, in_turn
from twigcast.lab.experiments.framework.workloads import SEED, preset_of, schema_of
from twigcast.lab.reference.events import Event, read_events
from twigcast.lab.reference.language import AttributePredicate, StringValuePredicate, Test
from twigcast.lab.transform import Groups, Optimization, PathSharing, PlanSharing, Pushed, TransformQuery, WherePath
from twigcast.lab.transform.factory import result
from twigcast.lab.transform.streams import PathMatcher
from twigcast.lab.workload import FlwrQuery, flwr_parts
from twigcast.query import Operator
from twigcast.schema import ElementGraph

Plans = PathSharing | PlanSharing

F, FW, FWR = "PathSharing-F", "PathSharing-FW", "PathSharing-FWR"

ORACLE_SAMPLE = 25
"""Queries per point that libxml2 evaluates clause by clause, to check all plans against."""


def transform_query_of(query: FlwrQuery) -> TransformQuery:
    """Returns a generated query in the form that plans take."""
    where = []
    for text, constant in query.where:
        path, _, name = text.partition("/@")
        test = Test(Operator.EQUAL, float(constant) if constant.isdigit() else constant.strip('"'))
        predicate = AttributePredicate(name, test) if name else StringValuePredicate(test)
        where.append(WherePath(parse_path(path).steps, predicate))
    returns = tuple(parse_path(path).steps for path in query.returns)
    template: tuple[str | int, ...] = ("<result>", *range(len(returns)), "</result>")
    return TransformQuery(parse_path(query.binding).steps, (), tuple(where), returns, template)


def build(parameters: Mapping[str, Any]) -> tuple[list[FlwrQuery], list[bytes]]:
    """Makes the queries and messages of a point.

    Binding paths go as deep as they may: so read, the parameters of the source give its counts of operators within
    six per cent (tables 9 and 11), and its few matches (figure 6.8). With depths drawn uniformly, the counts are off by
    up to a half.
    """
    schema = schema_of(parameters["dtd"])
    preset = preset_of(parameters)
    domains = preset.domains(schema, SEED)
    queries = flwr_parts(
        schema,
        parameters["queries"],
        SEED,
        binding_depth=parameters["binding_depth"],
        predicate_paths=parameters.get("predicate_paths", 1),
        return_paths=parameters.get("return_paths", 2),
        descendant=parameters.get("descendant", 0.2),
        domains=domains,
        full_bindings=True,
    )
    return queries, list(preset.make(schema, parameters["documents"], SEED))


def path_sharing(pushed: Pushed, level: Optimization, graph: ElementGraph) -> PathSharing:
    """Makes one of the basic plans."""
    return PathSharing(pushed, level, graph if level is Optimization.QUERY_AND_DTD else None)


BIB: Mapping[str, Any] = {"dtd": "library", "binding_depth": 2}
BOOK: Mapping[str, Any] = {"dtd": "manual", "binding_depth": 3}
BIB_SETTINGS = "Bib DTD, D1 = 2, D2 = 2, 200 messages of 149 element pairs; "
BOOK_SETTINGS = "Book DTD (recursive), D1 = 3, D2 = 2, 200 messages of 83 element pairs; "
PLANS = tuple(f"PathSharing-{pushed.value}" for pushed in Pushed)
LEVELS = tuple(level.value for level in Optimization)


def graph_of(parameters: Mapping[str, Any]) -> ElementGraph:
    """Returns the element graph of a point's DTD."""
    return ElementGraph(schema_of(parameters["dtd"]))


def contenders(
    level: Optimization, graph: ElementGraph, pushed: Sequence[Pushed] = tuple(Pushed)
) -> dict[str, Callable[[], Plans]]:
    """Returns the basic plans at one level of optimisation, by name."""
    return {f"PathSharing-{p.value}": partial(path_sharing, p, level, graph) for p in pushed}


def measuring_plans(level: Optimization = Optimization.QUERY_AND_DTD) -> Callable[[Point], list[Measured]]:
    """Returns the measurement of most figures: all three plans at one level."""

    def measure(point: Point) -> list[Measured]:
        return measure_plans(point.x, contenders(level, graph_of(point.parameters)), *build(point.parameters))

    return measure


def measure_level(point: Point) -> list[Measured]:
    """Measures all three plans at the level that the point names."""
    level = Optimization(point.parameters["level"])
    return measure_plans(point.x, contenders(level, graph_of(point.parameters)), *build(point.parameters))


def measure_fwr_level(point: Point) -> list[Measured]:
    """Measures PathSharing-FWR alone, at the level that the point names."""
    level = Optimization(point.parameters["level"])
    chosen = contenders(level, graph_of(point.parameters), (Pushed.FOR_WHERE_RETURN,))
    return measure_plans(point.x, chosen, *build(point.parameters))


def fwr_leads() -> Claim:
    """Returns the claim that PathSharing-FWR is best with all optimisations."""
    return custom("-FWR is best with Opt(q+dtd)", _leads)


def _leads(results: Results) -> tuple[bool, str]:
    """-FWR has the lowest time with Opt(q+dtd)."""
    times = {plan: results.value(plan, "Opt(q+dtd)") for plan in (FWR, FW, F)}
    return times[FWR] == min(times.values()), ", ".join(f"{plan} {time:.3g}" for plan, time in times.items())


OPERATORS = {
    "ms: matcher": "path matcher",
    "ms: Selection": "Selection",
    "ms: DupElim": "DupElim",
    "ms: Semijoin": "Semijoin",
    "ms: OuterJoin-Select": "OuterJoin-Select",
    "ms: Executor": "executor",
    MQPT: "total",
}
OPERATOR_COUNTS = {
    "semijoins, hash": "semijoins, hash",
    "semijoins, merge": "semijoins, merge",
    "outer joins, hash": "outer joins, hash",
    "outer joins, merge": "outer joins, merge",
    "DupElims": "DupElims",
}


def measure_plans(
    x: X,
    contenders: Mapping[str, Callable[[], Plans]],
    queries: Sequence[FlwrQuery],
    messages: Sequence[bytes],
    *,
    repetitions: int = REPETITIONS,
) -> list[Measured]:
    """Measures every plan, and our engine, on the same queries and messages.

    MQPT is the time from the first event of a parsed message to the last groupSequence-listSequence; for the engine,
    from bytes to payloads, less what an engine with one query that nothing matches takes. Metrics called ``ms: NAME``
    are the operators' shares.

    Raises:
        WrongResultError: two plans, or a plan and libxml2, disagree.
    """
    translated = {f"q{number}": transform_query_of(query) for number, query in enumerate(queries)}
    events = [read_events(message) for message in messages]
    expected: list[dict[str, Groups]] | None = None
    ready: dict[str, Plans] = {}
    measured: list[Measured] = []
    for name, make in contenders.items():
        plans = ready[name] = make()
        for key, query in translated.items():
            plans.add(key, query)
        results = [plans.match_events(one) for one in events]
        if expected is None:
            expected = results
            _check_with_lxml(translated, messages, results)
        elif results != expected:
            raise WrongResultError(f"{name} gives other groups than the plan before it")
        measured.append(Measured(name, x, "matched", (sum(map(len, results)) / len(results),)))
    measured += _measure(x, ready, events, repetitions)
    if expected is not None:
        measured += _measure_engine(x, queries, messages, expected, repetitions)
    return measured


def _measure(x: X, ready: Mapping[str, Plans], events: Sequence[Sequence[Event]], repetitions: int) -> list[Measured]:
    passes = {name: _Pass(plans, events) for name, plans in ready.items()}
    rows = []
    taken = in_turn(list(passes.values()), repetitions=repetitions, per=len(events))
    for (name, one), times in zip(passes.items(), taken, strict=True):
        rows.append(Measured(name, x, MQPT, times))
        # Where plans take turns, every other pass is one that is not timed.
        shares = {
            operator: tuple(samples[1::2] if len(passes) > 1 else samples) for operator, samples in one.shares.items()
        }
        rows += [Measured(name, x, f"ms: {operator}", samples) for operator, samples in shares.items()]
        booked = sum(map(median, shares.values()))
        rows.append(Measured(name, x, "ms: Executor", (max(median(times) - booked, 0.0),)))
        rows += _sizes(name, x, ready[name])
    return rows


class _Pass:
    """One pass over all messages, as it is timed; keeps what the operators took of each."""

    def __init__(self, plans: Plans, events: Sequence[Sequence[Event]]) -> None:
        self.shares: dict[str, list[float]] = {}
        self._plans = plans
        self._events = events

    def __call__(self) -> None:
        self._plans.profile.seconds.clear()
        for one in self._events:
            self._plans.match_events(one)
        for operator, seconds in self._plans.profile.seconds.items():
            self.shares.setdefault(operator, []).append(seconds * 1000 / len(self._events))


def _sizes(name: str, x: X, plans: Plans) -> list[Measured]:
    if isinstance(plans, PlanSharing):
        rows = [Measured(name, x, "unique plans", (float(plans.unique_plans),))]
    else:
        rows = [Measured(name, x, kind, (float(count),)) for kind, count in plans.operator_counts().items()]
    return [*rows, Measured(name, x, "distinct paths", (float(len(plans.matcher)),))]


def _measure_engine(
    x: X,
    queries: Sequence[FlwrQuery],
    messages: Sequence[bytes],
    expected: Sequence[Mapping[str, Groups]],
    repetitions: int,
) -> list[Measured]:
    from twigcast.subscriptions import SubscriptionSet

    engine, bare = SubscriptionSet(), SubscriptionSet([("nothing", NOTHING)])
    engine.add_many((f"q{number}", query.text) for number, query in enumerate(queries)).raise_if_refused()
    for message, groups in zip(messages, expected, strict=True):
        delivered = {one.key: one.payload if one.rewritten else None for one in engine.deliver(message)}
        if set(delivered) != set(groups):
            raise WrongResultError(f"{ENGINE} matches other queries than the plans")
        _check_payloads(queries, message, groups, delivered)

    def deliver(which: SubscriptionSet) -> None:
        for message in messages:
            which.deliver(message).arrow()

    deliver(bare)
    works = [partial(deliver, bare), partial(deliver, engine)]
    parsing, times = in_turn(works, repetitions=repetitions, per=len(messages))
    without = tuple(max(time - min(parsing), 0.0) for time in times)
    return [Measured(ENGINE, x, MQPT, without), Measured(ENGINE, x, TOTAL, times)]


def _check_payloads(
    queries: Sequence[FlwrQuery], message: bytes, groups: Mapping[str, Groups], delivered: Mapping[str, bytes | None]
) -> None:
    """Compare what the engine delivers with what the message factory makes of the groups, for some of the queries."""
    nodes = PathMatcher().match(read_events(message)).nodes
    for key in list(groups)[:: max(1, len(groups) // ORACLE_SAMPLE)]:
        created = result(transform_query_of(queries[int(key[1:])]), groups[key], nodes)
        payload = (delivered[key] or b"").decode()
        if etree.canonicalize(f"<all>{created}</all>") != etree.canonicalize(f"<all>{payload}</all>"):
            raise WrongResultError(f"{ENGINE} delivers otherwise for {key}: {payload[:200]}")


def _check_with_lxml(
    queries: Mapping[str, TransformQuery], messages: Sequence[bytes], result: Sequence[Mapping[str, Groups]]
) -> None:
    """Evaluate some queries clause by clause with libxml2, and compare the numbers of nodes in all lists."""
    step = max(1, len(queries) // ORACLE_SAMPLE)
    for number, message in enumerate(messages[:3]):
        tree = etree.ElementTree(etree.fromstring(message))
        for key in list(queries)[::step]:
            query = queries[key]
            lists = [lists for _, lists in result[number].get(key, [])]
            if [tuple(map(len, group)) for group in lists] != list(_counts(query, tree)):
                raise WrongResultError(f"libxml2 finds otherwise for {key} on message {number}")


def _counts(query: TransformQuery, tree: etree._ElementTree) -> list[tuple[int, ...]]:
    counted = []
    for node in _select(tree, "".join(map(str, query.binding))):
        conditions = (f".{''.join(map(str, w.path))}" if w.path else "self::*" for w in query.where)
        holds = (f"{path}{w.predicate or ''}" for path, w in zip(conditions, query.where, strict=True))
        if all(_select(node, text) for text in holds):
            counted.append(tuple(len(_select(node, f".{''.join(map(str, path))}")) for path in query.returns))
    return counted


def _select(node: Any, path: str) -> list[Any]:
    result = node.xpath(path)
    assert isinstance(result, list)
    return result
