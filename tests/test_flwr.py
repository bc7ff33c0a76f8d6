"""For-Where-Return queries through the public face: a corpus of small cases, each query alone and all at once."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.canonical import expanded
from twigcast import Limits, SubscriptionSet
from twigcast.errors import QueryError, QueryWarning

CORPUS = Path(__file__).parent / "corpus" / "flwr"
CASES: list[dict[str, Any]] = [
    json.loads(line)
    for path in sorted(CORPUS.glob("*.jsonl"))
    for line in path.read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_alone(case: dict[str, Any]) -> None:
    subscriptions = SubscriptionSet(namespaces=case["namespaces"])
    subscriptions.add("q", case["query"])
    deliveries = subscriptions.deliver(case["message"].encode())
    assert not deliveries.undecided
    assert list(subscriptions.match(case["message"].encode()).keys) == [delivery.key for delivery in deliveries]
    if case["payload"] is None:
        assert not deliveries
    else:
        assert deliveries[0].rewritten
        assert expanded(deliveries[0].payload) == expanded(case["payload"])


@pytest.mark.filterwarnings(f"ignore::{QueryWarning.__module__}.{QueryWarning.__name__}")
def test_all_at_once_and_mixed_with_paths() -> None:
    subscriptions = SubscriptionSet()
    expected: dict[str, dict[str, str]] = defaultdict(dict)
    for number, case in enumerate(CASES):
        key = f"{number} {case['name']}"
        subscriptions.add(key, case["query"], namespaces=case["namespaces"])
        subscriptions.add(f"{key}, path", "/*", namespaces={})
        if case["payload"] is not None:
            expected[case["message"]][key] = case["payload"]
    for message, payloads in expected.items():
        deliveries = subscriptions.deliver(message.encode())
        results = {delivery.key: delivery.payload for delivery in deliveries if delivery.rewritten}
        assert {key: expanded(payload) for key, payload in results.items()} == {
            key: expanded(payload) for key, payload in payloads.items()
        }
        whole = [delivery for delivery in deliveries if not delivery.rewritten]
        assert len(whole) == len(CASES)
        assert all(delivery.payload == message.encode() for delivery in whole)


def test_a_delivery_that_fails_leaves_the_others_alone() -> None:
    subscriptions = SubscriptionSet()
    subscriptions.add("late attribute", "for $a in //a return <x>{ $a/b }{ $a/@c }</x>")
    subscriptions.add("fine", "for $a in //a return <x>{ $a/@c }{ $a/b }</x>")
    deliveries = subscriptions.deliver(b"<r><a c='1'><b/></a></r>")
    assert [(delivery.key, delivery.payload) for delivery in deliveries] == [("fine", b"<x c='1'><b/></x>")]
    (undecided,) = deliveries.undecided
    assert undecided.key == "late attribute"
    assert "attribute c" in undecided.reason


def test_results_are_limited() -> None:
    subscriptions = SubscriptionSet(limits=Limits(result_bytes_max=100))
    subscriptions.add("q", "for $a in //a return <x>{ $a }</x>")
    assert subscriptions.deliver(b"<r><a/></r>")[0].payload == b"<x><a/></x>"
    deliveries = subscriptions.deliver(b"<r>" + b"<a/>" * 20 + b"</r>")
    assert not deliveries
    assert "result_bytes_max = 100" in deliveries.undecided[0].reason


@pytest.mark.filterwarnings(f"ignore::{QueryWarning.__module__}.{QueryWarning.__name__}")
def test_a_query_over_two_variables_matches_when_a_pair_passes() -> None:
    subscriptions = SubscriptionSet()
    subscriptions.add("pair", "for $a in //a, $b in //b where $a/@k = $b/@k return <p>{ $a/@k }</p>")
    subscriptions.add("never", "for $a in //a where $a/@k = //c[@k = $a/@k]/@k return 1")
    assert list(subscriptions.match(b"<r><a k='1'/><b k='2'/></r>").keys) == []
    assert list(subscriptions.match(b"<r><a k='1'/><b k='1'/></r>").keys) == ["pair"]
    assert subscriptions.deliver(b"<r><a k='1'/><b k='1'/></r>")[0].payload == b"<p k='1'/>"


def test_errors_name_column_and_construct() -> None:
    subscriptions = SubscriptionSet()
    with pytest.raises(QueryError, match="</y> cannot close <x>") as caught:
        subscriptions.add("q", "for $a in /b return <x>{ $a }</y>")
    assert caught.value.column == 30


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("for $a in /b (: no end return $a", 14),
        ("for $a (: no end", 8),
        ("for $a in /b/c[count(d) (: no end", 25),
        ("for $a in /b return <x>{ $a (: (: one end :) }</x>", 29),
    ],
)
def test_a_comment_that_does_not_end_is_told_where_it_starts(query: str, column: int) -> None:
    with pytest.raises(QueryError, match="the comment that starts here is not closed") as caught:
        SubscriptionSet().add("q", query)
    assert caught.value.column == column
