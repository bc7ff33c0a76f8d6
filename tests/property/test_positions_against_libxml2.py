"""Predicates about positions from either end, asked of many nodes at once, hold where libxml2 says so."""

from __future__ import annotations

import random

import lxml.etree
import pytest

from twigcast import Limits, SubscriptionSet

AXES = ["following-sibling", "preceding-sibling", "following", "preceding", "descendant", "ancestor"]
FORMS = [
    "position() = last() - {k}",
    "last() - {k}",
    "position() > last() - {k}",
    "position() <= last() - {k}",
    "position() != last() - {k}",
    "(last() - position()) mod {p} = {r}",
    "last() - position() >= {k} and last() - position() < {n}",
    "position() mod {p} = {r}",
    "position() > {n}",
    "position() >= {k} and position() < {n}",
    "position() mod {p} < {k} or position() = {n}",
    "not(position() = last() - {k}) and @k > {r}",
    "position() = {k} or position() = last()",
    "last() - {k} and @k > {r}",
]

ENOUGH = Limits(message_visits_max=10**10, group_visits_max=10**10, query_visits_max=10**10)
"""Some of these take the square of the message."""


def _element(r: random.Random, depth: int) -> str:
    inside = "".join(_element(r, depth - 1) for _ in range(r.randrange(40 if depth == 2 else 5))) if depth else ""
    return f"<{(tag := r.choice('aab'))} k='{r.randrange(60)}'>{inside}</{tag}>"


@pytest.mark.filterwarnings("ignore::twigcast.QueryWarning")
@pytest.mark.parametrize("seed", range(24))
def test_positions_from_either_end(seed: int) -> None:
    r = random.Random(seed)
    message = "<r>" + "".join(_element(r, 2) for _ in range(20)) + "</r>"
    root = lxml.etree.fromstring(message)
    queries = []
    for form in FORMS:
        k, n = r.randrange(4), r.choice([3, 70, 200, 700])
        predicate = form.format(k=k, n=n, p=r.choice([2, 3, 67, 97, 300]), r=r.randrange(60))
        step = f"{r.choice(AXES)}::{r.choice(['a', 'b', '*'])}"
        asked = f"{step}[{predicate}]" if r.random() < 0.7 else f"({step})[{predicate}]"
        value = r.choice(["[@k = 7]", "/@k = 3", "/@k > @k"])
        queries.append(f"//a[{asked}{value}]" if value[0] == "/" else f"//a[{asked}{value}]/b")
    subscriptions = SubscriptionSet({query: query for query in queries}, limits=ENOUGH)
    match = subscriptions.match(message)
    assert not match.undecided
    for query in queries:
        expected = [root.getroottree().getpath(node) for node in root.xpath(query)]
        assert (query in match.keys) == bool(expected), query
        if expected:
            assert len(match.nodes(query)) == len(expected), query
