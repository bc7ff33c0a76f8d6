"""Answers whose keys are looked up when they are asked for: matches one by one, and batches in groups."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tests.seeds import printed_seed
from twigcast import Match, SubscriptionSet
from twigcast.engine.arrow import ERROR_TYPE, GROUPS_TYPE, UNDECIDED_TYPE, keys_of_groups

QUERIES = ["/a", "//b", "/a/b", "/a[@n = 1]", "//*[b]", "/c", "/a//b", "//b[. = 'x']"]
MESSAGES = [b"<a/>", b"<a n='1'><b/></a>", b"<c><b>x</b></c>", b"<a", None, "<a><b>x</b></a>".encode("utf-16"), b"<d/>"]


def _populated(chance: random.Random, count: int) -> SubscriptionSet:
    return SubscriptionSet((f"key {number}", chance.choice(QUERIES)) for number in range(count))


@pytest.mark.parametrize("others", [0, 3_000])
@pytest.mark.parametrize("threads", [1, 3])
def test_groups_hold_the_keys_of_each_message(others: int, threads: int) -> None:
    """With a table of all groups at once, and, where there are many keys, once it has paid."""
    chance = random.Random(printed_seed())
    subs = _populated(chance, 200)
    subs.add_many((f"other {number}", f"/other-{number}") for number in range(others))
    for round_ in range(12):
        subs.replace(f"key {chance.randrange(250)}", chance.choice(QUERIES))
        subs.discard(f"key {chance.randrange(250)}")
        messages = pa.array(chance.choices(MESSAGES, k=60), pa.binary())
        plain = subs.match_batch(messages)
        grouped = subs.match_batch(messages, grouped=True, threads=threads)
        grouped.validate(full=True)
        assert grouped.schema.types == [GROUPS_TYPE, pa.int32(), ERROR_TYPE, UNDECIDED_TYPE]
        assert grouped.column("error").equals(plain.column("error"))
        keys = keys_of_groups(grouped.column("groups"))
        keys.validate(full=True)
        expected = plain.column("keys").to_pylist()
        assert [row and sorted(row) for row in keys.to_pylist()] == [row and sorted(row) for row in expected], round_
        assert grouped.column("matches").to_pylist() == [None if row is None else len(row) for row in expected]
        for groups in grouped.column("groups").to_pylist():
            for group in groups or []:
                assert len({subs[key].query for key in group}) == 1, "those of a group share their query"


def test_a_group_is_one_query() -> None:
    subs = SubscriptionSet((f"key {number}", QUERIES[number % 2]) for number in range(100))
    (row,) = subs.match_batch(pa.array(["<a><b/></a>"]), grouped=True).to_pylist()
    assert (len(row["groups"] or []), row["matches"]) == (2, 100)
    (row,) = subs.match_batch(pa.array(["<a/>"]), grouped=True).to_pylist()
    assert row["groups"] == [[f"key {number}" for number in range(0, 100, 2)]]


def test_no_message_has_no_groups() -> None:
    answer = SubscriptionSet().match_batch(pa.array([], pa.binary()), grouped=True)
    assert (answer.num_rows, keys_of_groups(answer.column("groups")).to_pylist()) == (0, [])


@pytest.mark.parametrize(
    ("messages", "keys"),
    [
        ([None], [None]),
        ([b"<a"], [None]),
        ([None, b"<b/>"], [None, []]),
        ([b"<b/>", None, b"<b/>"], [[], None, []]),
        ([None, b"<a/>", b"<b/>", None], [None, ["k"], [], None]),
    ],
)
def test_rejected_messages_have_no_groups(messages: list[bytes | None], keys: list[list[str] | None]) -> None:
    groups = SubscriptionSet([("k", "/a")]).match_batch(pa.array(messages, pa.binary()), grouped=True).column("groups")
    for first in range(len(messages) + 1):
        assert keys_of_groups(groups.slice(first)).to_pylist() == keys[first:]


@pytest.mark.parametrize("deliver", [True, False])
def test_groups_have_neither_payloads_nor_nodes(deliver: bool) -> None:
    with pytest.raises(ValueError, match="by key"):
        SubscriptionSet([("k", "/a")]).match_batch(["<a/>"], grouped=True, deliver=deliver, nodes=not deliver)


def test_with_queries_in_xquery_each_key_is_a_group() -> None:
    pytest.importorskip("saxonche", reason="queries in XQuery need Saxon")
    subs = SubscriptionSet([("k", "/a"), ("l", "/a")])
    queries = SubscriptionSet([("x", "for $a in /a order by $a return $a"), ("k", "/a"), ("l", "/a")], dialect="xquery")
    messages = pa.array(["<a/>", "<b/>", "<a"])
    answer = queries.match_batch(messages, grouped=True)
    assert [row and sorted(row) for row in keys_of_groups(answer.column("groups")).to_pylist()] == [
        ["k", "l", "x"],
        [],
        None,
    ]
    assert subs.match_batch(messages, grouped=True).schema.equals(answer.schema)


def test_a_match_tells_its_number_and_members_without_looking_up_keys() -> None:
    subs = SubscriptionSet((f"key {number}", QUERIES[number % 2]) for number in range(100))
    match = subs.match(b"<a/>")
    assert (len(match), bool(match), "key 2" in match, "key 3" in match, "key 100" in match) == (
        50,
        True,
        True,
        False,
        False,
    )
    assert 7 not in match
    assert list(match) == match.keys == [f"key {number}" for number in range(0, 100, 2)]
    assert not subs.match(b"<d/>")


def test_a_match_stays_what_it_was() -> None:
    chance = random.Random(printed_seed())
    subs = _populated(chance, 100)
    supplied: list[tuple[set[str], Match]] = []
    for _ in range(40):
        match, again = (subs.match(b"<a n='1'><b>x</b></a>") for _ in range(2))
        supplied.append((set(match.keys), again))
        for _ in range(5):
            subs.discard(f"key {chance.randrange(100)}")
            subs.replace(f"key {chance.randrange(100)}", chance.choice(QUERIES))
    for keys, match in supplied:
        assert len(match) == len(keys)
        assert {key for key in (f"key {number}" for number in range(100)) if key in match} == keys
        assert set(match) == keys
