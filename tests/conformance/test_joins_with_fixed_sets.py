"""Comparisons of a value that differs from element to element with nodes that are the same for all, against libxml2."""

from __future__ import annotations

import random

import pytest
from lxml import etree

from tests.seeds import printed_seed
from twigcast import SubscriptionSet

VALUES = ["number(.)", "number(@x)", "@x + 1", "string-length(@x)", "count(b)", "concat(@x, '')", "string(b)", "name()"]
SETS = ["//b", "//a/@x", "//none", "/r/a[b]/@x", "//a[2]/b", "//b/text()"]
OPERATORS = ["<", "<=", ">", ">=", "=", "!="]
TEXTS = ["1", "2", "-3", "0.5", "q", "", "b"]


def _message(r: random.Random) -> str:
    def element() -> str:
        inside = "".join(f"<b>{r.choice(TEXTS)}</b>" for _ in range(r.randrange(3)))
        return f"<a x='{r.choice(TEXTS)}'>{inside}</a>" if r.random() < 0.8 else f"<a>{inside}</a>"

    # Often all values are alike, so that they differ from none or one.
    return "<r>" + ("".join(element() for _ in range(r.randrange(8))) or "<a x='1'/>" * 3) + "</r>"


@pytest.mark.filterwarnings("ignore::twigcast.QueryWarning")
def test_the_least_and_the_greatest_decide_as_each_would() -> None:
    r = random.Random(printed_seed())
    queries = set()
    for value in VALUES:
        for nodes in SETS:
            for operator in OPERATORS:
                queries.add(f"//*[{value} {operator} {nodes}]")
                queries.add(f"//*[{nodes} {operator} {value}]")
    compiled = {query: etree.XPath(query) for query in queries}
    subscriptions = SubscriptionSet((query, query) for query in queries)
    found = 0
    for _ in range(60):
        message = _message(r)
        tree = etree.fromstring(message)
        expected = {query for query, path in compiled.items() if path(tree)}
        assert set(subscriptions.match(message).keys) == expected, message
        found += len(expected)
    assert found > 1_000
