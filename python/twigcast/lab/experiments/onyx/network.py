"""ONYX beside flooding and matching early: over the number of brokers, of queries, and the locality of interests."""

from __future__ import annotations

from collections.abc import Callable

from twigcast.lab.experiments.framework.claims import custom, ratio
from twigcast.lab.experiments.framework.model import Experiment, Figure, Point, Results, Scale, Table
from twigcast.lab.experiments.onyx.runs import (
    measure_alone,
    measure_generalised,
    measure_methods,
    measure_reduced,
    measure_relaxed,
    measure_systems,
)

COLUMNS = {
    "wanted": "want it, of 100",
    "reached": "get it, of 100",
    "messages": "messages",
    "kilobytes": "kB",
    "busiest": "at the busiest",
    "table": "table",
    "told": "bytes of interests sent",
    "hops": "hops",
    "milliseconds": "ms under way",
    "computing": "ms of computing",
    "useless": "serve nobody, of 100",
}
TABLE = Table(COLUMNS)
WORLD = (
    "a synthetic workload: brokers on a map, each linked to its two nearest predecessors, links of 0.5 to 50 ms; 100 "
    "areas, 12 kinds, 0.8 kB messages of one to three items from 5 sources; interests in an area, with a kind or "
    "a level"
)
UNPUBLISHED = "Never measured by the authors: the network was designed and not deployed."


def _points(parameter: str, values: tuple[float, ...], **fixed: float) -> list[Point]:
    return [Point(value, {**fixed, parameter: value}) for value in values]


BROKERS: dict[Scale, list[Point]] = {
    "small": _points("brokers", (10, 30, 100), queries=1_000, publications=60),
    "paper": _points("brokers", (10, 30, 100, 300, 1_000), queries=10_000, publications=200),
}
QUERIES: dict[Scale, list[Point]] = {
    "small": _points("queries", (100, 1_000, 5_000), brokers=20, publications=60),
    "paper": _points("queries", (10_000, 100_000, 1_000_000, 10_000_000), brokers=30, publications=200),
}
LOCALITY: dict[Scale, list[Point]] = {
    "small": _points("locality", (0.0, 0.25, 0.5, 0.75, 1.0), brokers=30, queries=600, publications=60),
    "paper": _points("locality", (0.0, 0.25, 0.5, 0.75, 1.0), brokers=100, queries=10_000, publications=200),
}
CHURN: dict[Scale, list[Point]] = {
    "small": _points("churn", (0.0, 0.1, 0.5, 1.0), brokers=20, queries=500, publications=60),
    "paper": _points("churn", (0.0, 0.1, 0.5, 1.0), brokers=100, queries=10_000, publications=200),
}
BUDGET: dict[Scale, list[Point]] = {
    "small": _points("boxes_max", (25, 100, 400, 1_600), brokers=20, queries=1_000, publications=60),
    "paper": _points("boxes_max", (100, 400, 1_600, 6_400), brokers=100, queries=10_000, publications=200),
}
SYSTEMS: dict[Scale, list[Point]] = {
    "small": [
        Point(n, {"brokers": n, "queries": n, "publications": 60, "sources": 1, "areas": 16}) for n in (20, 50, 100)
    ],
    "paper": [
        Point(n, {"brokers": n, "queries": n, "publications": 200, "sources": 1, "areas": 16})
        for n in (50, 100, 300, 1_000)
    ],
}


RELAXED: dict[Scale, list[Point]] = {
    "small": _points("items", (1, 2, 4, 8), brokers=20, queries=300, publications=60, branching=1.0),
    "paper": _points("items", (1, 2, 4, 8, 16), brokers=100, queries=10_000, publications=200, branching=1.0),
}
REDUCED: dict[Scale, list[Point]] = {
    "small": _points("items", (1, 3, 10, 30), brokers=20, queries=60, publications=60, rewriting=True, locality=1.0),
    "paper": _points(
        "items", (1, 3, 10, 30, 100), brokers=100, queries=400, publications=200, rewriting=True, locality=1.0
    ),
}


_ITEMS_WORTH_IT = 10
"""Each message names the part that it carries, in some hundred bytes, which is much for small messages."""


def _grows(results: Results) -> tuple[bool, str]:
    xs = results.xs("ONYX", "useless")
    first, last = results.value("ONYX", xs[0], "useless"), results.value("ONYX", xs[-1], "useless")
    return first == 0 and last > first, f"{first:.1f} of 100 at {xs[0]}, {last:.1f} at {xs[-1]}"


def _spares(results: Results) -> tuple[bool, str]:
    texts, held = [], True
    for x in results.xs("parts", "kilobytes"):
        parts, whole = (results.value(name, x, "kilobytes") for name in ("parts", "whole messages"))
        held = held and (parts < whole or float(x) < _ITEMS_WORTH_IT)
        texts.append(f"{parts:.1f} of {whole:.1f} kB at {x}")
    return held, "; ".join(texts)


def _methods_agree(results: Results) -> tuple[bool, str]:
    texts, held = [], True
    for x in results.xs("ONYX", "messages"):
        least, ours, most = (results.value(name, x, "messages") for name in ("match early", "ONYX", "flooding"))
        held = held and least <= ours * 1.0001 and ours <= most * 1.0001
        texts.append(f"{x:g}: {least:.1f} <= {ours:.1f} <= {most:.1f}" if not isinstance(x, str) else x)
    return held, "; ".join(texts)


def _near_least(results: Results) -> tuple[bool, str]:
    x = results.xs("ONYX", "messages")[-1]
    least, ours = results.value("match early", x, "messages"), results.value("ONYX", x, "messages")
    return ours <= 1.25 * least, f"at {x}: {ours / least:.3f} times the least"


def _falls(metric: str) -> Callable[[Results], tuple[bool, str]]:
    def check(results: Results) -> tuple[bool, str]:
        xs = results.xs("ONYX", metric)
        first, last = results.value("ONYX", xs[0], metric), results.value("ONYX", xs[-1], metric)
        return last < first, f"{metric}: {first:.4g} at {xs[0]}, {last:.4g} at {xs[-1]}"

    return check


def _slower_than_queries(results: Results) -> tuple[bool, str]:
    xs = [float(x) for x in results.xs("ONYX", "table")]
    first, last = results.value("ONYX", xs[0], "table"), results.value("ONYX", xs[-1], "table")
    return last / first < xs[-1] / xs[0], f"{xs[-1] / xs[0]:.0f} times the queries, {last / first:.1f} times the table"


def _all_arrive(results: Results) -> tuple[bool, str]:
    xs = results.xs("ONYX", "reached")
    return True, f"{len(xs)} settings, no message missing (a missing one ends the run)"


def _budget_trades(results: Results) -> tuple[bool, str]:
    xs = results.xs("ONYX", "table")
    tables = [results.value("ONYX", x, "table") for x in (xs[0], xs[-1])]
    reached = [results.value("ONYX", x, "reached") for x in (xs[0], xs[-1])]
    return (
        tables[0] < tables[1] and reached[0] >= reached[1],
        f"table {tables[0]:.0f} and {reached[0]:.1f} % reached at {xs[0]}; {tables[1]:.0f} and {reached[1]:.1f} % at "
        f"{xs[-1]}",
    )


def _peers_cost(results: Results) -> tuple[bool, str]:
    x = results.xs("ONYX", "messages")[-1]
    seen = {name: results.value(name, x, "messages") for name in ("ONYX", "CoDD", "Chord automaton", "flooding")}
    return seen["Chord automaton"] > 2 * seen["ONYX"], f"at {x}: " + ", ".join(f"{n} {v:.1f}" for n, v in seen.items())


EXPERIMENTS = (
    Experiment(
        id="O-brokers",
        title="Messages a publication, over the number of brokers",
        source="ONYX 2004; the study it plans",
        settings=f"{WORLD}; small: 1,000 queries, up to 100 brokers; paper: 10,000 queries, up to 1,000",
        sweep=BROKERS,
        measure=measure_methods,
        shows=Figure("brokers", "messages a publication", metric="messages"),
        published=UNPUBLISHED,
        ours=True,
        claims=(
            custom("Never fewer than matching early, never more than flooding", _methods_agree),
            custom("Within a quarter of the least that its trees permit", _near_least),
            ratio("Flooding sends at least twice as many", "flooding", "ONYX", at_least=2, metric="messages"),
            custom("Nothing is lost", _all_arrive),
        ),
        extra_tables=(TABLE,),
    ),
    Experiment(
        id="O-queries",
        title="Routing tables, over the number of queries",
        source="ONYX 2004; Miliaraki 2008 (criticism: tables grow with the queries)",
        settings=f"{WORLD}; small: 20 brokers",
        sweep=QUERIES,
        measure=measure_methods,
        shows=Figure("queries", "conjunctions in a table", metric="table"),
        published=UNPUBLISHED,
        ours=True,
        claims=(
            custom("Tables grow more slowly than the number of queries", _slower_than_queries),
            custom("Never fewer messages than matching early, never more than flooding", _methods_agree),
        ),
        extra_tables=(TABLE,),
    ),
    Experiment(
        id="O-locality",
        title="Messages a publication, over the locality of interests",
        source="Diao 2005, section 7.7: routing beats flooding only with selective or local interests",
        settings=f"{WORLD}; small: 30 brokers, 600 queries",
        sweep=LOCALITY,
        measure=measure_methods,
        shows=Figure("share of local interests", "messages a publication", metric="messages"),
        published=UNPUBLISHED,
        ours=True,
        claims=(
            custom("The more local, the fewer messages", _falls("messages")),
            custom("The more local, the smaller the tables", _falls("table")),
        ),
        extra_tables=(TABLE,),
    ),
    Experiment(
        id="O-churn",
        title="What changing interests cost",
        source="ONYX 2004; table maintenance under updates is named as open",
        settings=f"{WORLD}; so many subscriptions are replaced while messages flow; small: 20 brokers, 500 queries",
        sweep=CHURN,
        measure=measure_alone,
        shows=Figure("share of interests replaced", "bytes of interests sent", metric="told"),
        published=UNPUBLISHED,
        ours=True,
        claims=(custom("Nothing that was settled is lost", _all_arrive),),
        extra_tables=(TABLE,),
    ),
    Experiment(
        id="O-budget",
        title="Content generalisation: smaller tables for more messages",
        source="Diao 2005, section 7.3.2",
        settings=f"{WORLD}; a neighbour gets at most so many boxes; small: 20 brokers, 1,000 queries",
        sweep=BUDGET,
        measure=measure_generalised,
        shows=Figure("boxes allowed", "brokers reached, of 100", metric="reached"),
        published=UNPUBLISHED,
        ours=True,
        claims=(
            custom("A smaller budget makes smaller tables, and no fewer messages", _budget_trades),
            custom("Nothing is lost", _all_arrive),
        ),
        extra_tables=(TABLE,),
    ),
    Experiment(
        id="O-relaxation",
        title="Filtering power: unwanted messages that routing queries match",
        source="Diao 2005, section 7.3.1: the relaxation to conjunctions of linear paths",
        settings=f"{WORLD}; conditions on two or three children of one item, so many items a message; small: 20 "
        "brokers, 300 queries",
        sweep=RELAXED,
        measure=measure_relaxed,
        shows=Figure("items a message", "messages that serve nobody, of 100", metric="useless"),
        published=UNPUBLISHED,
        ours=True,
        claims=(
            custom("Exact with one item; wider the more often conditions repeat", _grows),
            custom("Nothing is lost", _all_arrive),
        ),
        extra_tables=(TABLE,),
    ),
    Experiment(
        id="O-transformation",
        title="Early projection: whole messages on links, and parts",
        source="Diao 2005, section 7.3.3",
        settings=f"{WORLD}; rewriting queries over the items of one section, all about what is near, so many items a "
        "message; small: 20 brokers, 60 queries; all results compared with those of the whole message",
        sweep=REDUCED,
        measure=measure_reduced,
        shows=Figure("items a message", "kB a publication", metric="kilobytes"),
        published=UNPUBLISHED,
        ours=True,
        claims=(custom("Parts spare bytes where messages hold ten items or more", _spares),),
        extra_tables=(TABLE,),
    ),
    Experiment(
        id="O-systems",
        title="Five ways to disseminate, on one workload",
        source="Diao 2005, section 7.8: a comparative study is named as future work",
        settings=f"{WORLD}, 16 areas, one source, one interest a broker; CoDD: fan-out 6, after as many to settle",
        sweep=SYSTEMS,
        measure=measure_systems,
        shows=Figure("brokers", "messages a publication", metric="messages"),
        published=UNPUBLISHED,
        ours=True,
        claims=(custom("The Chord automaton needs more than twice the messages of ONYX", _peers_cost),),
        extra_tables=(TABLE,),
    ),
)
