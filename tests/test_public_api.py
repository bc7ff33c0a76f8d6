"""The public names: what they take, what they refuse, and that the reference page documents them all."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from lxml import etree

import twigcast
from twigcast import AddReport, Delivery, Envelope, Limits, Subscription, SubscriptionSet, SubscriptionWarning
from twigcast.errors import DuplicateKey, InvalidContext, QueryError, QuerySyntaxError, SubscriptionChanged, UnknownKey

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "python.md"
MODULES = [
    "twigcast",
    "twigcast.explanation",
    "twigcast.subscription_files",
    "twigcast.spark",
    "twigcast.client",
]


@pytest.mark.parametrize("name", MODULES)
def test_the_reference_page_documents_what_is_public(name: str) -> None:
    try:
        public = set(importlib.import_module(name).__all__)
    except twigcast.errors.MissingDependency as missing:
        pytest.skip(str(missing))
    page = PAGE.read_text(encoding="utf-8")
    documented = set(re.findall(rf"^\.\. auto\w+:: {re.escape(name)}\.(\w+)$", page, re.MULTILINE))
    # Those that another page, or the section before, documents are mentioned.
    mentioned = {word for word in re.findall(r"`(?:twigcast\.)?(\w+)`", page) if word in public}
    assert documented <= public
    assert public == documented | mentioned


def test_a_report_has_no_truth_value() -> None:
    report = SubscriptionSet().add_many([("a", "/a")])
    with pytest.raises(TypeError, match=r"use \.ok"):
        bool(report)
    assert report.ok
    report.raise_if_refused()


def test_a_report_has_what_was_added_refused_and_looks_wrong() -> None:
    subscriptions = SubscriptionSet()
    items = [("a", "/a"), Subscription("b", "/b["), ["c", "/c"], ("never", "false()"), ("a", "//a"), ("all", "true()")]
    report = subscriptions.add_many(items)  # type: ignore[arg-type]
    assert report.added == 4 == len(subscriptions)
    assert not report.ok
    assert [(one.index, one.key, type(one.error)) for one in report.refused] == [
        (1, "b", QuerySyntaxError),
        (4, "a", DuplicateKey),
    ]
    assert report.refused[0].subscription == items[1]
    assert report.warnings == [
        SubscriptionWarning("never", 3, "no message can match this query"),
        SubscriptionWarning("all", 5, "every message matches this query"),
    ]
    with pytest.raises(QuerySyntaxError):
        report.raise_if_refused()


def test_warnings_of_many_have_their_positions() -> None:
    report = SubscriptionSet().add_many((str(n), "false()" if n % 1_500 == 7 else f"/a{n}") for n in range(5_000))
    assert [one.index for one in report.warnings] == [7, 1_507, 3_007, 4_507]
    assert [one.key for one in report.warnings] == ["7", "1507", "3007", "4507"]


def test_subscriptions_may_be_a_mapping() -> None:
    subscriptions = SubscriptionSet({"a": "/a", "b": "//b"})
    assert subscriptions.add_many({"c": "/a"}) == AddReport(1, [], [])
    assert set(subscriptions.match("<a/>")) == {"a", "c"}


def test_namespaces_and_dialects_may_differ_between_items() -> None:
    subscriptions = SubscriptionSet(namespaces={"p": "urn:p", "q": "urn:q"})
    subscriptions.add_many(
        [
            ("set", "/p:a"),
            ("own", "/p:a", {"p": "urn:q"}),
            Subscription("legacy", "/p:a/[b<>1]", {}, "legacy"),
            Subscription("legacy own", "/x:a/[b<>1]", {"x": "urn:p"}, "legacy"),
            ("again", "/p:a"),
        ]
    ).raise_if_refused()
    assert subscriptions.match("<a xmlns='urn:p'><b xmlns=''>2</b></a>").keys == [
        "set",
        "legacy",
        "legacy own",
        "again",
    ]
    assert subscriptions.match("<a xmlns='urn:q'/>").keys == ["own"]
    assert subscriptions["legacy own"].namespaces == {"p": "urn:p", "q": "urn:q", "x": "urn:p"}


def test_nodes_of_a_subscription_that_has_changed_since_are_refused() -> None:
    subscriptions = SubscriptionSet({"replaced": "//i", "same": "//i", "removed": "//i", "kept": "//i"})
    match = subscriptions.match("<f><i/><j/></f>")
    assert [len(match.nodes(key)) for key in match] == [1, 1, 1, 1]
    subscriptions.replace("replaced", "//j")
    subscriptions.replace("same", "//i")
    subscriptions.remove("removed")
    subscriptions.add("new", "//j")
    for key in ("replaced", "same", "removed"):
        with pytest.raises(SubscriptionChanged, match=key):
            match.nodes(key)
    for key in ("new", "nobody"):
        with pytest.raises(UnknownKey):
            match.nodes(key)
    assert [node.name for node in match.nodes("kept")] == ["i"]
    assert [node.name for node in subscriptions.nodes("<f><i/><j/></f>", "replaced")] == ["j"]


def test_a_slot_that_was_given_away_and_back_is_no_disguise() -> None:
    """The key, its slot and its query are the same again, but the subscription is another one."""
    subscriptions = SubscriptionSet((str(number), f"/a[@n = {number}]") for number in range(500))
    match = subscriptions.match("<a n='7'/>")
    for _ in range(3):
        for number in range(500):
            subscriptions.remove(str(number))
        for number in reversed(range(500)):
            subscriptions.add(str(number), f"/a[@n = {number}]")
        subscriptions.match("<a n='1'/>")
        with pytest.raises(SubscriptionChanged):
            match.nodes("7")
    assert match.keys == ["7"]


class ExportedArray:
    """Arrow data of another library, as an array."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.data.__arrow_c_array__(requested_schema)


class ExportedStream:
    """Arrow data of another library, as a stream."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.data.__arrow_c_stream__(requested_schema)


TEXTS = ["<a/>", "<b/>", None, "<a><b/></a>"]
ARRAYS = [pa.array(TEXTS, kind) for kind in (pa.string(), pa.large_string(), pa.binary(), pa.string_view())]
TABLE = pa.table({"id": [1, 2, 3, 4], "xml": TEXTS, "other": ["<c/>"] * 4})
SOURCES = [
    *ARRAYS,
    *map(ExportedArray, ARRAYS),
    pa.chunked_array([ARRAYS[0][:1], ARRAYS[0][1:]]),
    ExportedStream(pa.chunked_array([ARRAYS[0][:1], ARRAYS[0][1:]])),
    TABLE,
    TABLE.to_batches()[0],
    ExportedArray(TABLE.to_batches()[0]),
    ExportedStream(TABLE),
    ARRAYS[0].dictionary_encode(),
    pa.chunked_array([ARRAYS[0].dictionary_encode()]),
    pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2], pa.uint32()), pa.array([TEXTS[0], TEXTS[1], TEXTS[3]], pa.string_view())
    ),
    TABLE.set_column(1, "xml", ARRAYS[2].dictionary_encode()),
    np.array(TEXTS, object),
    np.array([text or float("nan") for text in TEXTS], object),
    pd.Series(TEXTS),
    pd.Series(TEXTS, dtype="string"),
    pd.Series(TEXTS, dtype="category"),
    pd.DataFrame({"xml": TEXTS}),
    [None if text is None else io.BytesIO(text.encode()) for text in TEXTS],
    [None if text is None else etree.fromstring(text) for text in TEXTS],
    TEXTS,
    iter(TEXTS),
    [None if text is None else text.encode() for text in TEXTS],
    (None if text is None else bytearray(text.encode()) for text in TEXTS),
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)
def test_a_batch_is_anything_in_arrow_or_an_iterable(source: Any) -> None:
    subscriptions = SubscriptionSet({"a": "/a", "b": "//b"})
    assert subscriptions.match_batch(source).column("keys").to_pylist() == [["a"], ["b"], None, ["a", "b"]]


def test_the_column_of_a_batch_can_be_named() -> None:
    subscriptions = SubscriptionSet({"c": "/c"})
    for table in (TABLE, ExportedStream(TABLE), ExportedArray(TABLE.to_batches()[0])):
        assert subscriptions.match_batch(table, column="other").column("keys").to_pylist() == [["c"]] * 4
        with pytest.raises(ValueError, match=r"one column 'none', and have 'id', 'xml', 'other'"):
            subscriptions.match_batch(table, column="none")


def test_text_in_an_iterable_has_no_encoding() -> None:
    subscriptions = SubscriptionSet({"p": "//p[. = 'caf\u00e9']"})
    texts = ["<?xml version='1.0' encoding='UTF-16'?><p>caf\u00e9</p>", "<p>\ud800</p>", "<p>caf\u00e9</p>"]
    answer = subscriptions.match_batch(texts)
    assert answer.column("keys").to_pylist() == [["p"], None, ["p"]]
    codes = [error and error["code"] for error in answer.column("error").to_pylist()]
    assert codes == [None, "message-malformed", None]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ("<a/>", "messages must be Arrow data or an iterable of messages or None, not str"),
        (b"<a/>", "messages must be Arrow data or an iterable of messages or None, not bytes"),
        (7, "messages must be Arrow data or an iterable of messages or None, not int"),
        (["<a/>", 7], "messages[1]: message must be bytes, str, a path, an open file, or an element of lxml"),
        (pa.array([7]), "messages must be strings or binary, not int64"),
    ],
)
def test_a_batch_of_something_else_is_refused(messages: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=re.escape(reason)):
        SubscriptionSet().match_batch(messages)


check: Any = twigcast.check
explain: Any = twigcast.explain

WRONG: list[tuple[Any, str]] = [
    (lambda s: s.add(7, "/a"), "key must be str, not int"),
    (lambda s: s.add("k", b"/a"), "query must be str, not bytes"),
    (lambda s: s.add("k", None), "query must be str, not NoneType"),
    (lambda s: s.replace(None, "/a"), "key must be str, not NoneType"),
    (lambda s: s.add("k", "/a", namespaces=["p"]), "namespaces must be a mapping of str to str, not list"),
    (lambda s: s.add("k", "/a", namespaces={"p": 7}), "a namespace in namespaces must be str, not int"),
    (lambda s: s.add_many([("k",)]), "item 0 is no subscription but 1 items: pass a Subscription, a tuple of key"),
    (lambda s: s.add_many(["k"]), "item 0 is no subscription but a str: pass a Subscription, a tuple of key, query"),
    (lambda s: s.add_many("ab"), "subscriptions must be a mapping or a collection of subscriptions, not a str"),
    (lambda s: s.add_many(b"ab"), "subscriptions must be a mapping or a collection of subscriptions, not a bytes"),
    (lambda s: s.add_many(("k", "/b")), "a collection of subscriptions, not a tuple: put it in a list"),
    (lambda s: s.add_many(Subscription("k", "/b")), "not a Subscription: put it in a list"),
    (lambda s: s.add_many({"key": "k", "query": "/b"}), "this is one record, and many are expected: pass [record]"),
    (lambda s: s.add_many(7), "subscriptions must be a mapping, an iterable or a table, not an int"),
    (lambda s: s.nodes("<a/>", 7), "key must be str, not int"),
    (lambda s: s.explain("<a/>", 7), "key must be str, not int"),
    (lambda s: s.describe(7), "key must be str, not int"),
    (lambda s: s[7], "key must be str, not int"),
    (lambda s: s.remove(7), "key must be str, not int"),
    (lambda s: s.discard(7), "key must be str, not int"),
    (
        lambda s: s.match(7),
        "message must be bytes, str, a path, an open file, or an element of lxml or xml.etree, not int",
    ),
    (lambda s: s.deliver("<a/>", envelope="e"), "envelope must be Envelope, such as Envelope('delivery'), not str"),
    (lambda s: s.deliver("<a/>", envelope=Envelope("e"), message_id=7), "message_id must be str, not int"),
    (lambda s: s.match_batch(["<a/>"], threads="2"), "threads must be int, not str"),
    (lambda s: type(s)(limits=7), "limits must be Limits, not int"),
    (lambda s: type(s)(dialect=7), "dialect must be str, not int"),
    (lambda s: type(s)(namespaces=7), "namespaces must be a mapping of str to str, not int"),
    (lambda _: check(7), "query must be str, not int"),
    (lambda _: explain(7, "<a/>"), "query must be str, not int"),
]


@pytest.mark.parametrize(("call", "reason"), WRONG, ids=[reason for _, reason in WRONG])
def test_an_argument_of_a_wrong_type_is_named(call: Any, reason: str) -> None:
    subscriptions = SubscriptionSet({"a": "/a"})
    with pytest.raises(TypeError, match=re.escape(reason)):
        call(subscriptions)
    assert subscriptions.keys() == ["a"]


def test_an_unknown_dialect_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="dialect must be 'xpath', 'legacy', 'doubles' or 'xquery', not 'sql'"):
        SubscriptionSet(dialect="sql")  # type: ignore[arg-type]
    report = SubscriptionSet().add_many([Subscription("k", "/a", {}, "sql"), ("l", "/a")])  # type: ignore[arg-type]
    assert (report.added, str(report.refused[0].error)) == (
        1,
        "dialect must be 'xpath', 'legacy', 'doubles' or 'xquery', not 'sql'",
    )
    asked: list[Callable[[], object]] = [
        lambda: check("/a", dialect="sql"),
        lambda: explain("/a", "<a/>", dialect="sql"),
    ]
    for ask in asked:
        with pytest.raises(InvalidContext, match="not 'sql'"):
            ask()


def test_checking_describing_and_adding_agree() -> None:
    for query in ("/a", "//a[@b = 1]", "false()", "for $a in //a where $a/b = 2 return <r/>", "//a[b]/c"):
        subscriptions = SubscriptionSet()
        report = subscriptions.add_many([("k", query)])
        checked = check(query)
        assert subscriptions.describe("k") == checked
        assert [one.text for one in report.warnings] == list(checked.warnings)
    with pytest.raises(QueryError):
        check("/a[")


def test_statistics_are_those_of_the_engine() -> None:
    subscriptions = SubscriptionSet({"a": "/a", "b": "/a", "c": "//c[@d = 1]"}, limits=Limits())
    subscriptions.match("<a/>")
    statistics = subscriptions.statistics()
    assert (statistics.subscriptions, statistics.queries, statistics.matchers) == (3, 2, 1)
    assert set(statistics.__slots__) == set(subscriptions._session.engine.statistics())


def test_deliveries_have_one_view() -> None:
    subscriptions = SubscriptionSet(
        {"one": "for $i in //i return <r>{ $i }</r>", "whole": "//i", "same": "for $x in //i return <r>{ $x }</r>"}
    )
    deliveries = subscriptions.deliver(b"<f><i/></f>")
    assert list(deliveries) == [
        Delivery("one", b"<r><i/></r>", rewritten=True),
        Delivery("whole", b"<f><i/></f>", rewritten=False),
        Delivery("same", b"<r><i/></r>", rewritten=True),
    ]
    assert deliveries.keys == ["one", "whole", "same"]
    assert deliveries.payload_indices == [0, None, 0]
    assert list(deliveries.payloads) == [b"<r><i/></r>"]
    assert deliveries.payloads[-1:] == [b"<r><i/></r>"]
    assert deliveries.arrow().to_pylist() == [
        {"key": "one", "payload": b"<r><i/></r>"},
        {"key": "whole", "payload": None},
        {"key": "same", "payload": b"<r><i/></r>"},
    ]
    assert pa.record_batch(deliveries) == deliveries.arrow()
    nothing = subscriptions.deliver(b"<f/>")
    assert (len(nothing), list(nothing), nothing.arrow().to_pylist()) == (0, [], [])


def test_a_column_of_nulls_is_a_column_of_missing_messages() -> None:
    for nulls in (pa.nulls(3), pa.table({"xml": pa.nulls(3)}), [None] * 3, np.full(3, np.nan)):
        answer = SubscriptionSet({"a": "/a"}).match_batch(nulls)
        assert answer.column("keys").to_pylist() == [None] * 3
        assert {error and error["code"] for error in answer.column("error").to_pylist()} == {"message-unreadable"}


def test_messages_that_cannot_be_read_are_rejected_in_their_row(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<a/>")
    answer = SubscriptionSet({"a": "/a"}).match_batch([tmp_path / "a.xml", tmp_path / "b.xml", "a.xml", "<a/>"])
    assert answer.column("keys").to_pylist() == [["a"], None, None, ["a"]]
    [_, missing, text, _] = answer.column("error").to_pylist()
    assert missing is not None
    assert "b.xml" in missing["reason"]
    assert text is not None
    assert "pathlib.Path('a.xml')" in text["reason"]
