"""Matching Arrow batches answers what the library answers message by message."""

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from twigcast.demo.messages import feed
from twigcast.demo.subscriptions import subscriptions
from twigcast.engine.arrow import NULL_MESSAGE
from twigcast.errors import TwigcastError
from twigcast.spark.matching import BatchMatcher
from twigcast.subscriptions import SubscriptionSet

SEED = 11


@pytest.fixture(scope="module")
def population() -> SubscriptionSet:
    return SubscriptionSet(subscriptions(SEED, 300))


def batch(messages: Sequence[tuple[str, bytes | None]], problems: Sequence[str | None] | None = None) -> pa.RecordBatch:
    columns = {
        "message_id": pa.array([name for name, _ in messages], pa.string()),
        "xml": pa.array([xml for _, xml in messages], pa.binary()),
    }
    if problems is not None:
        columns["problem"] = pa.array(problems, pa.string())
    return pa.record_batch(columns)


def expected(population: SubscriptionSet, messages: Sequence[tuple[str, bytes]]) -> tuple[Any, Any, Any]:
    """Matches, deliveries and rejected messages by the library."""
    matches, deliveries, rejected = set(), set(), set()
    for name, xml in messages:
        try:
            matches |= {(name, key) for key in population.match(xml).keys}
            deliveries |= {(name, one.key, one.payload.decode()) for one in population.deliver(xml) if one.rewritten}
        except TwigcastError as error:
            details = error.details()
            rejected.add((name, details["reason"], details.get("line"), details.get("column"), xml))
    return matches, deliveries, rejected


def flat(matcher: BatchMatcher, *batches: pa.RecordBatch) -> tuple[list[Any], list[Any], list[Any]]:
    matches, deliveries, rejected = [], [], []
    for one in batches:
        for answers in matcher.answers(one):
            for part in answers.matches():
                matches += [(row["message_id"], row["key"]) for row in part.to_pylist()]
            deliveries += [tuple(row.values()) for row in answers.deliveries().to_pylist()]
            rejected += [tuple(row.values()) for row in answers.rejected().to_pylist()]
    return matches, deliveries, rejected


def matcher_of(population: SubscriptionSet, *, deliver: bool = True, nodes: bool = False) -> BatchMatcher:
    return BatchMatcher(population._session, deliver=deliver, nodes=nodes)


def test_flat_answers_are_those_of_the_library(population: SubscriptionSet) -> None:
    messages = list(feed(SEED, 200))
    matches, deliveries, rejected = flat(matcher_of(population), batch(messages[:70]), batch(messages[70:]))
    assert len(matches) == len(set(matches))
    requested = expected(population, messages)
    assert (set(matches), set(deliveries), set(rejected)) == requested
    assert all(requested)


def test_nested_answers_are_the_flat_ones(population: SubscriptionSet) -> None:
    messages = list(feed(SEED + 1, 120))
    rows = [
        row
        for answers in matcher_of(population).answers(batch(messages), carry=True)
        for part in answers.by_message()
        for row in part.to_pylist()
    ]
    assert sorted(row["message_id"] for row in rows) == sorted(name for name, _ in messages)
    matches, deliveries, rejected = flat(matcher_of(population), batch(messages))
    assert {(row["message_id"], one["key"]) for row in rows for one in row["matches"]} == set(matches)
    assert {(row["message_id"], *one.values()) for row in rows for one in row["deliveries"]} == set(deliveries)
    assert {(row["message_id"], *row["rejected"].values()) for row in rows if row["rejected"]} == set(rejected)


def test_a_slice_of_a_batch_is_matched_like_a_batch(population: SubscriptionSet) -> None:
    messages = list(feed(SEED + 2, 60))
    whole = batch(messages)
    for start, length in ((0, 60), (7, 20), (59, 1), (30, 0)):
        part = whole.slice(start, length)
        got = flat(matcher_of(population), part)
        assert tuple(map(set, got)) == expected(population, messages[start : start + length])


def test_types_of_message_columns(population: SubscriptionSet) -> None:
    messages = [(name, xml) for name, xml in feed(SEED, 40) if xml.startswith(b"<?xml version='1.0' encoding='utf-8'")]
    messages = messages or [("1", b"<story id='n1'><head><section>world</section></head></story>")]
    requested = expected(population, messages)
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        values = [
            xml.decode() if pa.types.is_string(kind) or pa.types.is_large_string(kind) else xml for _, xml in messages
        ]
        one = pa.record_batch({"message_id": pa.array([n for n, _ in messages]), "xml": pa.array(values, kind)})
        assert tuple(map(set, flat(matcher_of(population), one))) == requested


def test_numbers_as_ids() -> None:
    population = SubscriptionSet([("all", "/*")])
    one = pa.record_batch({"message_id": pa.array([7, 8]), "xml": pa.array([b"<a/>", b"<b>"])})
    matches, _, rejected = flat(matcher_of(population), one)
    assert matches == [("7", "all")]
    assert [row[0] for row in rejected] == ["8"]


def test_nulls_and_problems_are_rejected_with_what_there_is() -> None:
    population = SubscriptionSet([("all", "/*")])
    rows = [("good", b"<a/>"), ("null", None), ("half", b"<a"), ("late", b"<b/>")]
    matches, deliveries, rejected = flat(matcher_of(population), batch(rows, [None, None, "the disk is gone", None]))
    assert matches == [("good", "all"), ("late", "all")]
    assert not deliveries
    assert rejected == [("null", NULL_MESSAGE, None, None, None), ("half", "the disk is gone", None, None, b"<a")]
    assert flat(matcher_of(population), batch([("null", None)]))[2] == [("null", NULL_MESSAGE, None, None, None)]


def test_selected_nodes_are_counted_when_asked_for() -> None:
    population = SubscriptionSet([("b", "//b"), ("c", "//c")])
    one = batch([("1", b"<a><b/><b><b/></b><c/></a>"), ("2", b"<a/>"), ("3", "<a><b/></a>".encode("utf-16"))])

    def counts(**requested: bool) -> set[tuple[str, str, int | None]]:
        return {
            (row["message_id"], row["key"], row["nodes"])
            for answers in matcher_of(population, **requested).answers(one)
            for part in answers.matches()
            for row in part.to_pylist()
        }

    assert counts(nodes=True) == {("1", "b", 3), ("1", "c", 1), ("3", "b", 1)}
    assert counts() == {("1", "b", None), ("1", "c", None), ("3", "b", None)}


def test_without_deliveries_nothing_is_rewritten(population: SubscriptionSet) -> None:
    messages = list(feed(SEED, 60))
    matches, deliveries, rejected = flat(matcher_of(population, deliver=False), batch(messages))
    requested = expected(population, messages)
    assert (set(matches), set(rejected)) == (requested[0], requested[2])
    assert not deliveries


def test_an_empty_set_and_an_empty_batch(population: SubscriptionSet) -> None:
    nobody = SubscriptionSet()
    assert flat(matcher_of(nobody), batch([("1", b"<a/>"), ("2", b"<")]))[0] == []
    assert flat(matcher_of(population), batch([])) == ([], [], [])


def test_batches_of_messages_grow_and_shrink_with_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small and large answers in turn: no message is lost or doubled where the size of the steps changes."""
    monkeypatch.setattr("twigcast.spark.matching._ANSWER_BYTES_LOW", 2_000)
    monkeypatch.setattr("twigcast.spark.matching._ANSWER_BYTES_HIGH", 5_000)
    monkeypatch.setattr("twigcast.spark.matching._ROWS_PER_BATCH_MAX", 100)
    population = SubscriptionSet([(f"k{number}", "//b") for number in range(50)])
    chance = random.Random(SEED)
    messages = [(str(number), b"<a><b/></a>" if chance.random() < 0.5 else b"<a/>") for number in range(400)]
    matches, _, _ = flat(matcher_of(population), batch(messages))
    requested = [(name, f"k{number}") for name, xml in messages if b"b" in xml for number in range(50)]
    assert matches == requested
    nested = [
        row["message_id"]
        for answers in matcher_of(population).answers(batch(messages), carry=True)
        for part in answers.by_message()
        for row in part.to_pylist()
    ]
    assert nested == [name for name, _ in messages]


def test_what_saxon_evaluates_is_cut_out_of_the_batch_at_the_right_place() -> None:
    """Steps begin in the middle of a batch, whose first message they must not take for theirs."""
    pytest.importorskip("saxonche", reason="Saxon (the package saxonche) is not installed")
    query = "for $n in /a/@n return <n>{ string-join(reverse(tokenize($n, ' ')), '-') }</n>"
    population = SubscriptionSet([("reversed", query)], dialect="xquery")
    assert population._session.engine.has_external
    messages = [(str(number), f"<a n='{number} x{number}'/>".encode()) for number in range(90)]
    _, deliveries, rejected = flat(matcher_of(population), batch(messages).slice(3, 80))
    assert deliveries == [(str(n), "reversed", f"<n>x{n}-{n}</n>") for n in range(3, 83)]
    assert not rejected


def test_batches_with_and_without_deliveries_in_turn() -> None:
    population = SubscriptionSet([("all", "/*"), ("b", "for $b in /b return <x>{ $b }</x>")])
    parts = [
        batch([("1", b"<a/>"), ("2", b"<a/>")]),
        batch([("3", b"<b/>"), ("4", b"<a/>")]),
        batch([("5", b"<a/>"), ("6", b"<")]),
    ]
    matches, deliveries, rejected = flat(matcher_of(population), *parts)
    assert matches == [("1", "all"), ("2", "all"), ("3", "all"), ("3", "b"), ("4", "all"), ("5", "all")]
    assert deliveries == [("3", "b", "<x><b/></x>")]
    assert [row[0] for row in rejected] == ["6"]
    matcher = matcher_of(population)
    nested = [part for one in parts for answers in matcher.answers(one, carry=True) for part in answers.by_message()]
    rows = pa.Table.from_batches(nested).to_pylist()
    assert [row["message_id"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert [len(row["deliveries"]) for row in rows] == [0, 0, 1, 0, 0, 0]
