"""Checks of published statements: orders, ratios, slopes, flatness, crossings.

Most published numbers are at the right end of a curve. At ``small`` scale, the curve ends earlier, and the verdict
names its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from twigcast.lab.experiments.framework.model import MQPT, Check, Claim, Results, X


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def unit(metric: str) -> str:
    """Returns the unit of a metric, with a space before it; empty for counts."""
    if metric.endswith("_ms") or metric.startswith("ms: "):
        return " ms"
    return " MB" if metric.endswith("_mb") else ""


def _x(value: X) -> str:
    return value if isinstance(value, str) else f"{value:,g}"


def _positions(results: Results, series: str, metric: str, at: X | None) -> X:
    if at is not None:
        return at
    xs = results.xs(series, metric)
    if not xs:
        raise KeyError(f"{series}, {metric}")
    return xs[-1]


def _place(at: X | None) -> str:
    return "the last point" if at is None else f"x = {_x(at)}"


def ordered(text: str, series: Sequence[str], *, metric: str = MQPT, at: X | None = None) -> Claim:
    """Returns the claim that, at ``at`` (the last x), the series stand in this order, from cheapest to dearest."""

    def check(results: Results) -> tuple[bool, str]:
        x = _positions(results, series[0], metric, at)
        values = [results.value(name, x, metric) for name in series]
        seen = ", ".join(f"{name} {_number(value)}" for name, value in zip(series, values, strict=True))
        return values == sorted(values), f"at {_x(x)}: {seen}{unit(metric)}"

    return Claim(text, check, rule=f"{metric}: {' ≤ '.join(series)} at {_place(at)}")


def ratio(text: str, dear: str, cheap: str, *, at_least: float, metric: str = MQPT, at: X | None = None) -> Claim:
    """Returns the claim that, at ``at`` (the last x), ``dear`` is at least so many times ``cheap``."""

    def check(results: Results) -> tuple[bool, str]:
        x = _positions(results, cheap, metric, at)
        above, below = results.value(dear, x, metric), results.value(cheap, x, metric)
        if below == 0:
            return above > 0, f"at {_x(x)}: {_number(above)} against 0"
        return above >= at_least * below, f"at {_x(x)}: {_number(above / below)} times"

    return Claim(text, check, rule=f"{metric}: {dear} ≥ {at_least:g} times {cheap} at {_place(at)}")


def within(text: str, first: str, second: str, *, share: float, metric: str = MQPT, at: X | None = None) -> Claim:
    """Returns the claim that, at ``at`` (the last x), ``first`` is at most this share above ``second``."""

    def check(results: Results) -> tuple[bool, str]:
        x = _positions(results, first, metric, at)
        above, below = results.value(first, x, metric), results.value(second, x, metric)
        return above <= (1 + share) * below, f"at {_x(x)}: {100 * (above / below - 1):+.0f} %"

    return Claim(text, check, rule=f"{metric}: {first} ≤ {1 + share:g} times {second} at {_place(at)}")


def growth(results: Results, series: str, metric: str) -> tuple[float, float]:
    """Returns the factors by which x and y grow from the first to the last point."""
    curve = results.curve(series, metric)
    if len(curve) < 2:
        raise KeyError(f"{series}, {metric}")
    (x0, y0), (x1, y1) = curve[0], curve[-1]
    if isinstance(x0, str) or isinstance(x1, str):
        raise KeyError(f"{series} has no numeric x")
    return (x1 / x0 if x0 else float("inf")), (y1 / y0 if y0 else float("inf"))


def sublinear(text: str, series: str, *, metric: str = MQPT, share: float = 1.0) -> Claim:
    """Returns the claim that, from first to last point, y grows by less than ``share`` times the factor of x."""

    def check(results: Results) -> tuple[bool, str]:
        x, y = growth(results, series, metric)
        return y < share * x, f"{series}: x grows {x:.3g} times, y {y:.3g} times"

    return Claim(
        text, check, rule=f"{metric}: {series} grows by less than {share:g} times the factor of x, first to last point"
    )


def linear(text: str, series: Sequence[str], *, metric: str = MQPT, fit: float = 0.95) -> Claim:
    """Returns the claim that a straight line explains at least this share of each series' variance (R squared)."""

    def check(results: Results) -> tuple[bool, str]:
        fits = {name: _r_squared(results, name, metric) for name in series}
        return min(fits.values()) >= fit, "R² " + ", ".join(f"{name} {value:.3f}" for name, value in fits.items())

    return Claim(text, check, rule=f"{metric}: a straight line explains {fit:g} of the variance of {', '.join(series)}")


def _r_squared(results: Results, series: str, metric: str) -> float:
    points = [(x, y) for x, y in results.curve(series, metric) if not isinstance(x, str)]
    if len(points) < 3:
        raise KeyError(f"{series} has too few points")
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    xx = sum((x - mean_x) ** 2 for x, _ in points)
    yy = sum((y - mean_y) ** 2 for _, y in points)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return xy * xy / (xx * yy) if xx and yy else 1.0


def grows_less(text: str, less: str, more: str, *, metric: str = MQPT, factor: bool = False) -> Claim:
    """Returns the claim that one series rises less than the other, from first to last (by difference, or by factor)."""

    def check(results: Results) -> tuple[bool, str]:
        def rise(series: str) -> float:
            curve = results.curve(series, metric)
            if not curve:
                raise KeyError(f"{series}, {metric}")
            first, last = curve[0][1], curve[-1][1]
            return last / first if factor and first else last - first

        low, high = rise(less), rise(more)
        by = " times" if factor else unit(metric)
        return low < high, f"{less} rises by {_number(low)}{by}, {more} by {_number(high)}{by}"

    return Claim(
        text,
        check,
        rule=f"{metric}: {less} rises less than {more}, first to last point, by {'factor' if factor else 'difference'}",
    )


def spread(results: Results, series: str, metric: str = MQPT) -> float:
    """Returns the highest over the lowest value of a curve."""
    values = [value for _, value in results.curve(series, metric)]
    if not values:
        raise KeyError(f"{series}, {metric}")
    return max(values) / min(values) if min(values) > 0 else float("inf")


def flat(text: str, series: str, *, factor: float, metric: str = MQPT) -> Claim:
    """Returns the claim that the highest value of a curve is at most ``factor`` times the lowest."""

    def check(results: Results) -> tuple[bool, str]:
        seen = spread(results, series, metric)
        return seen <= factor, f"{series}: highest {seen:.3g} times the lowest"

    return Claim(text, check, rule=f"{metric}: highest of {series} ≤ {factor:g} times lowest")


def least_sensitive(text: str, series: str, others: Sequence[str], *, metric: str = MQPT) -> Claim:
    """Returns the claim that the curve of ``series`` varies by a smaller difference than those of the others."""

    def check(results: Results) -> tuple[bool, str]:
        def width(name: str) -> float:
            values = [value for _, value in results.curve(name, metric)]
            if not values:
                raise KeyError(f"{name}, {metric}")
            return max(values) - min(values)

        widths = {name: width(name) for name in (series, *others)}
        seen = ", ".join(f"{name} {_number(value)}" for name, value in widths.items())
        return widths[series] == min(widths.values()), f"range of y: {seen}{unit(metric)}"

    return Claim(text, check, rule=f"{metric}: range of {series} ≤ that of {', '.join(others)}")


def everywhere(text: str, low: str, high: str, *, metric: str = MQPT, tolerance: float = 0.0) -> Claim:
    """Returns the claim that one series lies at or below another at every x, up to a tolerance (a share)."""

    def check(results: Results) -> tuple[bool, str]:
        pairs = [(x, results.value(low, x, metric), results.value(high, x, metric)) for x in results.xs(low, metric)]
        wrong = [x for x, below, above in pairs if below > above * (1 + tolerance)]
        if not pairs:
            raise KeyError(f"{low}, {metric}")
        seen = f"{len(pairs) - len(wrong)} of {len(pairs)} points"
        return not wrong, seen + (f"; not at {', '.join(map(_x, wrong))}" if wrong else "")

    return Claim(text, check, rule=f"{metric}: {low} ≤ {1 + tolerance:g} times {high} at every point")


def rises(text: str, series: str, *, metric: str = MQPT, falls: bool = False) -> Claim:
    """Returns the claim that the last value is above the first (below, with ``falls``)."""

    def check(results: Results) -> tuple[bool, str]:
        curve = results.curve(series, metric)
        if not curve:
            raise KeyError(f"{series}, {metric}")
        first, last = curve[0][1], curve[-1][1]
        seen = f"{series}: from {_number(first)} to {_number(last)}{unit(metric)}"
        return (last < first if falls else last > first), seen

    return Claim(text, check, rule=f"{metric}: last of {series} {'<' if falls else '>'} first")


def growth_residuals(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns how far a curve is from the best straight line, and from the best exponential one.

    Both are least squares (the exponential one of the logarithms); a distance is the root of the mean squared relative
    error, so that large values do not decide alone.

    Raises:
        KeyError: There are fewer than three points, or a value is not above 0.
    """
    if len(points) < 3 or min(y for _, y in points) <= 0:
        raise KeyError("too few points, or a value of 0")

    def fit(values: Sequence[float]) -> list[float]:
        xs = [x for x, _ in points]
        mean_x, mean_y = sum(xs) / len(xs), sum(values) / len(values)
        slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, values, strict=True))
        slope /= sum((x - mean_x) ** 2 for x in xs)
        return [mean_y + slope * (x - mean_x) for x in xs]

    ys = [y for _, y in points]

    def distance(fitted: Sequence[float]) -> float:
        return math.sqrt(sum((f / y - 1) ** 2 for f, y in zip(fitted, ys, strict=True)) / len(ys))

    return distance(fit(ys)), distance([math.exp(value) for value in fit([math.log(y) for y in ys])])


def not_exponential(text: str, series: Sequence[str], *, metric: str = MQPT) -> Claim:
    """Returns the claim that a straight line is nearer to each curve than an exponential one is."""

    def check(results: Results) -> tuple[bool, str]:
        distances = {
            name: growth_residuals([(x, y) for x, y in results.curve(name, metric) if not isinstance(x, str)])
            for name in series
        }
        seen = "; ".join(
            f"{name}: {100 * line:.0f} % from a straight line, {100 * curve:.0f} % from an exponential one"
            for name, (line, curve) in distances.items()
        )
        return all(line <= curve for line, curve in distances.values()), seen

    return Claim(
        text,
        check,
        rule=f"{metric}: {', '.join(series)} nearer to the best straight line than to the best exponential curve",
    )


def factor_of(dear: str, cheap: str, metric: str, at: X) -> Callable[[Results], float]:
    """Returns a reader of how many times ``cheap`` the series ``dear`` takes at a place on the x axis."""
    return lambda results: results.value(dear, at, metric) / results.value(cheap, at, metric)


def near(text: str, value: Callable[[Results], float], published: float, *, share: float = 0.1) -> Claim:
    """Returns the claim that a value is near a published number.

    Args:
        text: The statement.
        value: Reads the value out of the results. Where it is about a place that a run does not reach, that is the
            verdict; else a ``KeyError`` means that it was not measured.
        published: The source's number.
        share: How far off it may be. The sources tell no spread: a tenth is taken where nothing else is said.
    """

    def check(results: Results) -> tuple[bool, str]:
        seen = value(results)
        return abs(seen / published - 1) <= share, f"{_number(seen)}, published {_number(published)}"

    return Claim(text, check, rule=f"within {share:.0%} of the published {published:.4g}")


def custom(text: str, check: Check) -> Claim:
    """Makes a claim with a check of its own. Its rule names the function, and says what its docstring begins with."""
    name = check.__qualname__.partition(".<locals>")[0]
    about = (check.__doc__ or "").partition("\n")[0]
    return Claim(
        text, check, rule=f"`{check.__module__.rpartition('experiments.')[2]}.{name}`" + (f": {about}" if about else "")
    )
