"""Subscriptions in every form in which programs have them: what goes in, what is refused and where."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from twigcast import Subscription, SubscriptionSet, check, explain
from twigcast.errors import DuplicateKey, InvalidContext, InvalidKey, MissingExtra, QueryError, QuerySyntaxError

XML = "http://www.w3.org/XML/1998/namespace"


class Capsules:
    """A table of some library of which nothing is known but that it exports Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class OneArray:
    """The same, as one batch."""

    def __init__(self, table: pa.Table) -> None:
        (self._batch,) = table.combine_chunks().to_batches()

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


Rows = list[dict[str, Any]]
Form = Callable[[Rows], Any]


def full(rows: Rows) -> dict[str, list[Any]]:
    return {name: [row.get(name) for row in rows] for name in ("key", "query", "namespaces", "dialect")}


def arrow(rows: Rows) -> pa.Table:
    columns = full(rows)
    kinds = {"namespaces": pa.map_(pa.string(), pa.string())}
    pairs = [None if value is None else list(value.items()) for value in columns["namespaces"]]
    columns["namespaces"] = pa.array(pairs, kinds["namespaces"])
    return pa.table(columns)


FORMS: dict[str, Form] = {
    "records": lambda rows: rows,
    "records of a generator": lambda rows: (dict(row) for row in rows),
    "subscriptions": lambda rows: [
        Subscription(r["key"], r["query"], r.get("namespaces") or {}, r.get("dialect")) for r in rows
    ],
    "tuples": lambda rows: [tuple(row.get(n) for n in ("key", "query", "namespaces", "dialect")) for row in rows],
    "lists": lambda rows: [[row.get(n) for n in ("key", "query", "namespaces", "dialect")] for row in rows],
    "records by key": lambda rows: {row["key"]: {n: v for n, v in row.items() if n != "key"} for row in rows},
    "pandas": lambda rows: pd.DataFrame(full(rows)),
    "pandas with its own strings": lambda rows: pd.DataFrame(full(rows)).astype({"key": "string", "query": "category"}),
    "pyarrow": arrow,
    "pyarrow batch": lambda rows: arrow(rows).combine_chunks().to_batches()[0],
    "pyarrow dictionaries": lambda rows: arrow(rows).set_column(
        1, "query", pa.chunked_array([pa.array([r["query"] for r in rows]).dictionary_encode()])
    ),
    "any stream": lambda rows: Capsules(arrow(rows)),
    "any array": lambda rows: OneArray(arrow(rows)),
    "a struct for namespaces": lambda rows: pa.Table.from_pylist(
        [{"key": r["key"], "query": r["query"], "namespaces": r.get("namespaces"), "dialect": None} for r in rows]
    ),
}


def generated(seed: int, count: int) -> Rows:
    chance = random.Random(seed)
    rows: Rows = []
    for number in range(count):
        row: dict[str, Any] = {"key": f"k{number}", "query": f"//p:n{chance.randrange(9)}[@a = {chance.randrange(3)}]"}
        row["namespaces"] = {"p": f"urn:{chance.randrange(3)}"} | ({"q": "urn:q"} if chance.random() < 0.5 else {})
        rows.append(row)
    return rows


@pytest.mark.parametrize("name", FORMS)
def test_every_form_says_the_same(name: str) -> None:
    for seed in range(3):
        print(f"seed {seed}")
        rows = generated(seed, 40)
        subscriptions = SubscriptionSet()
        report = subscriptions.add_many(FORMS[name](rows))
        assert (report.added, report.refused, report.warnings) == (40, [], [])
        for row in rows:
            kept = subscriptions[row["key"]]
            assert (kept.query, kept.namespaces) == (row["query"], row["namespaces"])


@pytest.mark.parametrize("name", [name for name in FORMS if name != "records by key"])
def test_what_is_wrong_with_one_leaves_the_others_in(name: str) -> None:
    rows = generated(1, 9)
    rows[2]["query"] = "/a["
    rows[5]["key"] = rows[1]["key"]
    rows[7]["namespaces"] = {"p": ""}
    subscriptions = SubscriptionSet()
    report = subscriptions.add_many(FORMS[name](rows))
    assert [(one.index, type(one.error)) for one in report.refused] == [
        (2, QuerySyntaxError),
        (5, DuplicateKey),
        (7, InvalidContext),
    ]
    assert report.added == len(subscriptions) == 6


@pytest.mark.parametrize(
    "source",
    [
        {1: "/a", "b": "/b", 3: "/c"},
        [(1, "/a"), ("b", "/b"), (3, "/c")],
        [{"key": 1, "query": "/a"}, {"key": "b", "query": "/b"}, {"key": 3, "query": "/c"}],
        [Subscription(1, "/a"), Subscription("b", "/b"), Subscription(3, "/c")],  # type: ignore[arg-type]
        pd.DataFrame({"key": [1, "b", 3], "query": ["/a", "/b", "/c"]}),
    ],
    ids=["mapping", "tuples", "records", "subscriptions", "pandas"],
)
def test_keys_that_are_numbers_are_refused_with_row_and_cure(source: Any) -> None:
    subscriptions = SubscriptionSet()
    report = subscriptions.add_many(source)
    assert subscriptions.keys() == ["b"]
    assert [(one.index, one.key, type(one.error)) for one in report.refused] == [
        (0, "1", InvalidKey),
        (2, "3", InvalidKey),
    ]
    assert "a key is a string, not an int; use str(key)" in str(report.refused[0].error)


def test_a_table_of_numbered_rows_is_refused_row_by_row() -> None:
    for table in (
        pa.table({"key": [1, 2], "query": ["/a", "/b"]}),
        pd.DataFrame({"key": [1, 2], "query": ["/a", "/b"]}),
    ):
        report = SubscriptionSet().add_many(table)
        assert [(one.index, one.key) for one in report.refused] == [(0, "1"), (1, "2")]


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"key": None, "query": "/a"}, InvalidKey),
        ({"query": "/a"}, InvalidKey),
        ({"key": "k"}, QuerySyntaxError),
        ({"key": "k", "query": float("nan")}, QuerySyntaxError),
        ({"key": "k", "query": b"/a"}, QuerySyntaxError),
        ({"key": "k", "query": "/a", "namespaces": "urn:p"}, InvalidContext),
        ({"key": "k", "query": "/a", "namespaces": {"p": 7}}, InvalidContext),
        ({"key": "k", "query": "/a", "namespaces": {1: "urn:p"}}, InvalidContext),
        ({"key": "k", "query": "/a", "dialect": "sql"}, InvalidContext),
        ({"key": "k", "query": "/a", "dialect": 7}, InvalidContext),
    ],
)
def test_records_with_something_wrong(record: dict[str, Any], error: type[Exception]) -> None:
    subscriptions = SubscriptionSet()
    report = subscriptions.add_many([("first", "/a"), record, ("last", "/b")])
    assert [(one.index, type(one.error)) for one in report.refused] == [(1, error)]
    assert subscriptions.keys() == ["first", "last"]


def test_names_that_resemble_those_that_are_read_are_warned_of() -> None:
    report = SubscriptionSet().add_many(
        [
            {"key": "a", "query": "/a", "Namespaces": {"p": "urn:p"}, "owner": "me"},
            {"key": "b", "query": "/b", "owner": "me"},
            {"key": "c", "query": "/c", "namespace": {"p": "urn:p"}},
        ]
    )
    assert [(one.index, one.key, one.text) for one in report.warnings] == [
        (0, "a", "'Namespaces' is not read; was 'namespaces' meant?"),
        (2, "c", "'namespace' is not read; was 'namespaces' meant?"),
    ]


@pytest.mark.parametrize("form", [pa.table, pd.DataFrame], ids=["pyarrow", "pandas"])
def test_tables_without_the_columns(form: Any) -> None:
    with pytest.raises(ValueError, match=r"there is no column 'key' and no column 'query'; its columns are 'k', 'q'"):
        SubscriptionSet().add_many(form({"k": ["a"], "q": ["/a"]}))


def test_a_table_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Capsules(pa.table({"key": ["a"], "query": ["/a"]}))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="arrow"):
        SubscriptionSet().add_many(table)


def test_items_are_read_one_after_the_other() -> None:
    """A generator of any length is not kept in memory, and an error in the middle has a position."""

    def items() -> Iterator[Any]:
        for number in range(5_000):
            yield (f"k{number}", "/a") if number != 4_321 else np.int64(7)

    subscriptions = SubscriptionSet()
    with pytest.raises(TypeError, match="item 4321 is no subscription but an int64"):
        subscriptions.add_many(items())
    assert 2_000 <= len(subscriptions) <= 4_321


@pytest.mark.parametrize(
    ("namespaces", "reason"),
    [
        ({"p": ""}, "the prefix 'p' stands for an empty namespace"),
        ({"xml": "urn:x"}, f"the prefix xml always stands for {XML}"),
        ({"xmlns": "urn:x"}, "the prefix xmlns declares namespaces"),
        ({"a:b": "urn:x"}, "the prefix 'a:b' is no name"),
        ({"1": "urn:x"}, "the prefix '1' is no name"),
        ({" p": "urn:x"}, "the prefix ' p' is no name"),
    ],
)
def test_namespaces_that_cannot_be_used_are_refused_at_once(namespaces: dict[str, str], reason: str) -> None:
    subscriptions = SubscriptionSet()
    for ask in (
        lambda: SubscriptionSet(namespaces=namespaces),
        lambda: subscriptions.add("k", "/a", namespaces=namespaces),
        lambda: subscriptions.replace("k", "/a", namespaces=namespaces),
        lambda: check("/a", namespaces=namespaces),
        lambda: explain("/a", "<a/>", namespaces=namespaces),
        lambda: subscriptions.add_many([("k", "/a", namespaces)]).raise_if_refused(),
    ):
        with pytest.raises(InvalidContext) as caught:
            ask()
        assert reason in str(caught.value)
    assert len(subscriptions) == 0


def test_namespaces_that_can_be_used() -> None:
    for namespaces in ({"": ""}, {"": "urn:d"}, {"xml": XML}, {"é.-_1": "urn:x"}):
        subscriptions = SubscriptionSet(namespaces=namespaces)
        subscriptions.add("k", "//@xml:lang")
        assert subscriptions.match("<a xml:lang='de'/>").keys == ["k"]


def test_the_engine_still_refuses_what_only_it_can_tell() -> None:
    report = SubscriptionSet().add_many({"a": "/p:a", "b": "/a"})
    assert [(one.index, isinstance(one.error, QueryError)) for one in report.refused] == [(0, True)]


@pytest.mark.parametrize(
    "record",
    [
        {"key": "k", "query": "/a"},
        {"key": "k", "query": "/a", "note": "//b"},
        {"Key": "k", "Query": "/a", "owner": "me"},
        {" key": "k", "query ": "/a"},
        {"query": "/a", "namespaces": {"p": "urn:p"}},
        {"query": "/a", "group": "g", "owner": "/b"},
    ],
)
def test_one_record_is_never_taken_for_several_subscriptions(record: dict[str, Any]) -> None:
    subscriptions = SubscriptionSet()
    with pytest.raises(TypeError, match=r"this is one record, and many are expected: pass \[record\]"):
        subscriptions.add_many(record)
    assert len(subscriptions) == 0


def test_keys_that_are_names_of_columns_are_keys_where_this_is_clear() -> None:
    subscriptions = SubscriptionSet()
    assert subscriptions.add_many({"key": "/a", "note": "/b"}).added == 2
    assert subscriptions.add_many([("query", "/a"), ("group", "/b")]).added == 2
    assert subscriptions.keys() == ["key", "note", "query", "group"]


@pytest.mark.parametrize(
    "source",
    [
        {"": "/a", "b": "/b"},
        [("", "/a"), ("b", "/b")],
        [{"key": "", "query": "/a"}, {"key": "b", "query": "/b"}],
        [Subscription("", "/a"), Subscription("b", "/b")],
        pd.DataFrame({"key": ["", "b"], "query": ["/a", "/b"]}),
        pa.table({"key": ["", "b"], "query": ["/a", "/b"]}),
    ],
    ids=["mapping", "tuples", "records", "subscriptions", "pandas", "pyarrow"],
)
def test_empty_keys_are_taken_alike(source: Any) -> None:
    subscriptions = SubscriptionSet()
    assert subscriptions.add_many(source).added == 2
    assert subscriptions.keys() == ["", "b"]
    assert subscriptions.match("<a/>").keys == [""]


def test_an_empty_query_that_is_its_own_key_is_refused_as_a_query() -> None:
    subscriptions = SubscriptionSet()
    assert isinstance(subscriptions.add_many([("", "")]).refused[0].error, QuerySyntaxError)
    with pytest.raises(QuerySyntaxError, match="the query is empty"):
        subscriptions.add("", "")


def test_records_name_what_may_be_meant_to_be_their_key_and_query() -> None:
    report = SubscriptionSet().add_many(
        [{"Key": "k", "Query": "/a"}, {"key": "k", "qeury": "/a"}, {"id": 1, "q": "/a"}]
    )
    assert [str(one.error).partition("\n")[0] for one in report.refused] == [
        "the key '' cannot be used: there is no key; 'Key' is not read; was 'key' meant?",
        "column 1: there is no query; 'qeury' is not read; was 'query' meant?",
        "the key '' cannot be used: there is no key",
    ]


@pytest.mark.parametrize("namespaces", ["p=urn:p q=urn:q", '{"p": "urn:p", "q": "urn:q"}', ["p=urn:p", "q=urn:q"]])
@pytest.mark.parametrize("form", [pa.Table.from_pylist, pd.DataFrame, list], ids=["pyarrow", "pandas", "records"])
def test_namespaces_and_parameters_as_text(form: Any, namespaces: Any) -> None:
    row = {"key": "k", "query": "//p:a[@q:b = $v]", "namespaces": namespaces, "params": '{"v": "x"}'}
    subscriptions = SubscriptionSet()
    assert subscriptions.add_many(form([row])).refused == []
    assert subscriptions["k"].namespaces == {"p": "urn:p", "q": "urn:q"}
    assert subscriptions["k"].params == {"v": "x"}
    report = SubscriptionSet().add_many(
        form([{**row, "namespaces": "urn:p"}, {**row, "namespaces": "p=urn:p q=urn:q", "params": "v=x"}])
    )
    assert ["written as p=urn:example" in str(one.error) for one in report.refused] == [True, False]
    assert "params must be a JSON object" in str(report.refused[1].error)


def test_maps_as_pandas_has_them() -> None:
    pairs = pa.array([[("p", "urn:p")]], pa.map_(pa.string(), pa.string()))
    frame = pa.table({"key": ["k"], "query": ["//p:a"], "namespaces": pairs}).to_pandas()
    subscriptions = SubscriptionSet()
    assert subscriptions.add_many(frame).added == 1
    assert subscriptions["k"].namespaces == {"p": "urn:p"}


def test_tables_with_two_columns_of_one_name() -> None:
    rows = [["k", "/a", "/b"]]
    names = ["key", "query", "query"]
    for table in (pd.DataFrame(rows, columns=names), pa.Table.from_arrays([[v] for v in rows[0]], names=names)):
        with pytest.raises(ValueError, match="there are several columns 'query'; leave one"):
            SubscriptionSet().add_many(table)
