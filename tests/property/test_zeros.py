"""Both zeros in queries: `1 div 0` is not `1 div -0`, whatever else of the same form is subscribed to beside it."""

from __future__ import annotations

import itertools
import warnings

import pytest

from twigcast import SubscriptionSet
from twigcast.registration import Dialect

ZEROS = ("0", "-0", "0.0", "-0.0", "0e0", "-0e0", "xs:double('0')", "xs:double('-0')", "(0 * -1)")
FORMS = (
    *("1 div {} > 0", "n div {} < 0", "1 div (n * {}) > 0", "n = {}", "n < {}", "n >= {}", "sum(n ! (. * {})) = 0"),
    *("1 div sum(n ! (. * {})) < 0", "1 div min(n ! (. * {})) > 0", "string(n * {}) = '0'", "{} <= n", "abs(n) > {}"),
)
MESSAGES = [f"<r><n>{value}</n></r>" for value in ("1", "-1", "0", "-0", "-0.0", "x", "")]


@pytest.mark.parametrize("dialect", ["xpath", "doubles", "xquery"])
@pytest.mark.parametrize("backwards", [False, True])
def test_zeros_are_told_apart_among_queries_as_alone(dialect: Dialect, backwards: bool) -> None:
    queries = [f"/r[{form.format(zero)}]" for form, zero in itertools.product(FORMS, ZEROS)]
    queries.sort(reverse=backwards)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        together = SubscriptionSet(((query, query) for query in queries), dialect=dialect)
        alone = {query: SubscriptionSet([("q", query)], dialect=dialect) for query in queries}
    for message in MESSAGES:
        expected = {query for query, subscriptions in alone.items() if subscriptions.match(message)}
        assert set(together.match(message).keys) == expected, message


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0), (0, -0.0), ([0.0], [-0.0])])
def test_zeros_are_told_apart_as_parameters(zeros: tuple[object, object]) -> None:
    subscriptions = SubscriptionSet()
    for key, zero in zip("ab", zeros, strict=True):
        query = "/r[some $y in $z satisfies 1 div $y > 0]" if isinstance(zero, list) else "/r[1 div $z > 0]"
        subscriptions.add_many([{"key": key, "query": query, "params": {"z": zero}}]).raise_if_refused()
    assert subscriptions.match("<r/>").keys == ["b" if zeros[0] == -0.0 and str(zeros[0]) == "-0.0" else "a"]
