"""The times and numbers of the operators of PathSharing-FWR, for tables 8 to 11 of Diao 2005."""

from twigcast.lab.experiments.diao2005.rewriting import build, graph_of, path_sharing, transform_query_of
from twigcast.lab.experiments.framework.model import Check, Measured, Point, Results
from twigcast.lab.transform import Optimization, Pushed

FWR = "PathSharing-FWR"


def measure_operators(point: Point) -> list[Measured]:
    """Plans the queries and counts the operators. Nothing is run."""
    level = Optimization(point.parameters["level"])
    plans = path_sharing(Pushed.FOR_WHERE_RETURN, level, graph_of(point.parameters))
    queries, _ = build({**point.parameters, "documents": 0})
    for number, query in enumerate(queries):
        plans.add(str(number), transform_query_of(query))
    counts = plans.operator_counts()
    return [Measured(FWR, point.x, kind, (float(count),)) for kind, count in counts.items()]


def share_of(kind: str, level: str, low: float, high: float) -> Check:
    """Returns a check whether a level keeps a share between two bounds of the unoptimised operators of a kind."""

    def check(results: Results) -> tuple[bool, str]:
        """Share of the unoptimised operators that a level keeps, between two bounds."""
        count, all_of_them = results.value(FWR, level, kind), results.value(FWR, "no opt", kind)
        share = count / all_of_them
        return low <= share <= high, f"{count:,.0f} of {all_of_them:,.0f} {kind}, {100 * share:.0f} %"

    return check


def _value(results: Results, level: str, operator: str) -> float:
    metric = f"ms: {operator}"
    return results.value(FWR, level, metric) if results.samples(FWR, level, metric) else 0.0


def matcher_is_minor(results: Results) -> tuple[bool, str]:
    """Checks whether the path matcher takes little of the time without optimisation."""
    share = _value(results, "no opt", "matcher") / results.value(FWR, "no opt")
    return share < 0.2, f"{100 * share:.0f} % of the time without optimisation"


def joins_fall(factor: float) -> Check:
    """Returns a check whether both joins take at least so many times less with the DTD."""

    def check(results: Results) -> tuple[bool, str]:
        """Both joins take at least so many times less with the DTD."""
        falls = {
            operator: _value(results, "no opt", operator) / max(_value(results, "Opt(q+dtd)", operator), 1e-9)
            for operator in ("Semijoin", "OuterJoin-Select")
        }
        return min(falls.values()) >= factor, ", ".join(f"{name} {fall:.2g} times" for name, fall in falls.items())

    return check


def dup_elim_share(most: float) -> Check:
    """Returns a check whether DupElim takes at most such a share of its time without optimisation."""

    def check(results: Results) -> tuple[bool, str]:
        """Time of DupElim with the DTD ≤ such a share of that without optimisation."""
        share = _value(results, "Opt(q+dtd)", "DupElim") / _value(results, "no opt", "DupElim")
        return share <= most, f"{100 * share:.1f} % of its time without optimisation"

    return check
