"""Answers that are pickled, or kept while the set changes: they stay what they were."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from typing import Any

import pytest

from twigcast import Deliveries, Envelope, Limits, Match, SubscriptionSet
from twigcast.errors import SubscriptionChanged

MESSAGE = "<r><a k='1'>x</a><a k='2'/><b><a/></b></r>"


def copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def queries(chance: random.Random) -> dict[str, str]:
    texts = [
        "//a",
        "/r/a[@k]",
        "//b/a",
        "//c",
        "count(//a) = 3",
        "for $a in //a where $a/@k return <o>{ $a/@k }</o>",
        "//@k",
    ]
    return {f"k{number}": chance.choice(texts) for number in range(30)}


def nodes_by_key(match: Match) -> dict[str, list[Any]]:
    return {key: match.nodes(key) for key in match}


def test_matches_under_changes_and_in_pickles() -> None:
    for seed in range(10):
        print(f"seed {seed}")
        chance = random.Random(seed)
        subscriptions = SubscriptionSet(queries(chance))
        match = subscriptions.match(MESSAGE)
        keys, found, counts = list(match), nodes_by_key(match), match.node_counts()
        frozen, pickled = match.freeze(), pickle.dumps(match)
        for key in chance.sample(subscriptions.keys(), 20):
            if chance.random() < 0.5:
                subscriptions.replace(key, chance.choice(["//b", "/r", "//zzz"]))
            else:
                subscriptions.discard(key)
        for other in (frozen, pickle.loads(pickled), copied(frozen), frozen.freeze()):
            assert (list(other), len(other), bool(other)) == (keys, len(keys), bool(keys))
            assert nodes_by_key(other) == found
            assert other.node_counts() == counts
            assert all(key in other for key in keys)
            assert "nobody" not in other
            assert (other.undecided, other.visits) == (match.undecided, match.visits)


def test_a_pickled_match_is_read_in_another_process() -> None:
    match = SubscriptionSet({"a": "//p:a"}, namespaces={"p": "urn:p"}).match("<a xmlns='urn:p'/>")
    code = "import pickle, sys; m = pickle.load(sys.stdin.buffer); print(m.keys, [n.path for n in m.nodes('a')])"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(match), capture_output=True, check=True)
    assert done.stdout.decode().strip() == "['a'] ['/*:a']"


def test_what_had_changed_before_is_told() -> None:
    subscriptions = SubscriptionSet({"same": "//a", "replaced": "//a", "removed": "//a"})
    match = subscriptions.match(MESSAGE)
    subscriptions.replace("replaced", "//b")
    subscriptions.remove("removed")
    for frozen in (match.freeze(), copied(match)):
        assert frozen.keys == ["same", "replaced", "removed"]
        assert len(frozen.nodes("same")) == 3
        assert frozen.node_counts() == {"same": 3}
        for key in ("replaced", "removed"):
            with pytest.raises(SubscriptionChanged, match=key):
                frozen.nodes(key)
        assert frozen.nodes("nobody") == []


def test_a_frozen_match_has_no_nodes_for_what_did_not_match_as_a_live_one() -> None:
    subscriptions = SubscriptionSet({"a": "//a", "other": "//nothing"})
    match = subscriptions.match(MESSAGE)
    assert [one.nodes("other") for one in (match, match.freeze(), copied(match))] == [[], [], []]


def test_undecided_subscriptions_and_limits_are_kept() -> None:
    limits = Limits(query_visits_max=1_000)
    subscriptions = SubscriptionSet({"costly": "//a[count(//a[count(//a) > 1]) > 1]", "a": "//a"}, limits=limits)
    match = subscriptions.match("<r>" + "<a/>" * 100 + "</r>")
    assert [one.key for one in match.undecided] == [one.key for one in copied(match).undecided]
    assert copied(match).keys == match.keys


@pytest.mark.parametrize("envelope", [None, Envelope("e"), Envelope("p:e", "urn:p", query="q")], ids=str)
def test_deliveries_are_pickled_with_their_payloads(envelope: Envelope | None) -> None:
    subscriptions = SubscriptionSet(queries(random.Random(3)))
    for deliveries in (
        subscriptions.deliver(MESSAGE, envelope=envelope, message_id="m", whole=True),
        SubscriptionSet().deliver(MESSAGE),
    ):
        copy = copied(deliveries)
        assert isinstance(copy, Deliveries)
        assert copy == deliveries
        assert (copy.keys, copy.payload_indices) == (deliveries.keys, deliveries.payload_indices)
        assert list(copy.payloads) == list(deliveries.payloads)
        assert copy.undecided == deliveries.undecided
        assert copy.arrow().to_pylist() == deliveries.arrow().to_pylist()
        assert copied(copy) == deliveries


def test_a_delivery_over_a_limit_stays_undecided_in_a_pickle() -> None:
    subscriptions = SubscriptionSet({"slip": "for $a in //a return <o>{ $a/text() }{ $a/@k }</o>", "a": "//a"})
    deliveries = subscriptions.deliver(MESSAGE)
    assert [one.key for one in copied(deliveries).undecided] == ["slip"]
    assert copied(deliveries) == deliveries


def test_keys_that_are_read_late_are_those_of_the_moment() -> None:
    """Objects of keys are shared among answers, and slots are given to other keys meanwhile."""
    for seed in range(3):
        print(f"seed {seed}")
        chance = random.Random(seed)
        subscriptions = SubscriptionSet()
        present: dict[str, str] = {}
        kept: list[tuple[Match, set[str]]] = []
        for round_number in range(60):
            for key in chance.sample(sorted(present), len(present) // 2):
                subscriptions.remove(key)
                del present[key]
            for number in range(80):
                key, name = f"{round_number}-{number}", chance.choice("ab")
                subscriptions.add(key, f"/{name}[not(@k{chance.randrange(5)})]")
                present[key] = name
            match = subscriptions.match("<a/>")
            kept.append((match, {key for key, name in present.items() if name == "a"}))
            if chance.random() < 0.5:
                late, expected = chance.choice(kept)
                assert set(late) == expected
        assert all(set(late) == expected for late, expected in kept)
