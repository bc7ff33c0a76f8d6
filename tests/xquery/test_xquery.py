"""Queries in XQuery: filtered by the engine, evaluated by Saxon, and closed to the world."""

from __future__ import annotations

import json
import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from twigcast import Subscription, SubscriptionSet, check
from twigcast.cli import app
from twigcast.errors import MissingExtra, QueryLimitExceeded, QuerySyntaxError, UnsupportedQuery
from twigcast.limits import Limits
from twigcast.reading.conversion import without_doctype
from twigcast.xquery import saxon as saxon_module
from twigcast.xquery.exchange import Request
from twigcast.xquery.safety import refuse_unsafe
from twigcast.xquery.saxon import Saxon

pytest.importorskip("saxonche", reason="Saxon (the package saxonche) is not installed")

XML = b"<r><a k='1'>1</a><a k='2'>2</a><a k='1'>3</a></r>"
GROUPS = "for $a in //a group by $k := $a/@k order by $k return <g k='{$k}'>{ format-number(sum($a), '0') }</g>"


@pytest.fixture
def subscriptions() -> SubscriptionSet:
    return SubscriptionSet(
        [
            ("groups", GROUPS),
            ("elsewhere", GROUPS.replace("//a", "//b")),
            ("plain", "//a[@k = 1]"),
            ("rewrites", "for $a in //a where $a/@k = 2 return <x>{ $a }</x>"),
            ("fails", "for $a in //a return xs:integer($a) idiv 0"),
            ("nothing", "for $a in //a return subsequence($a, 2)"),
        ],
        dialect="xquery",
    )


def test_what_the_engine_does_not_read_is_evaluated_by_saxon(subscriptions: SubscriptionSet) -> None:
    groups = b'<g k="1">4</g><g k="2">2</g>'
    match = subscriptions.match(XML)
    assert sorted(match.keys) == ["groups", "plain", "rewrites"]
    [failure] = match.undecided
    assert failure.key == "fails"
    assert "FOAR0001" in failure.reason
    assert "file:" not in failure.reason
    deliveries = subscriptions.deliver(XML)
    assert {d.key: (d.payload, d.rewritten) for d in deliveries} == {
        "groups": (groups, True),
        "plain": (XML, False),
        "rewrites": (b"<x><a k='2'>2</a></x>", True),
    }
    assert [error.key for error in deliveries.undecided] == ["fails"]
    assert subscriptions.nodes(XML, "groups") == []
    assert subscriptions.node_counts(XML) == {"groups": 1, "plain": 2, "rewrites": 1}


def test_batches_hold_answers_of_both(subscriptions: SubscriptionSet) -> None:
    messages = [b"<r/>", XML, b"<broken", XML.decode().encode("utf-16"), XML] * 3
    for _ in range(2):
        batch = subscriptions.match_batch(pa.array(messages), deliver=True, nodes=True, threads=2)
        for row, message in enumerate(messages):
            if message == b"<broken":
                assert batch.column("keys")[row].as_py() is None
                continue
            single = subscriptions.deliver(message)
            assert batch.column("keys")[row].as_py() == [delivery.key for delivery in single]
            payloads = [delivery.payload if delivery.rewritten else None for delivery in single]
            assert batch.column("payloads")[row].as_py() == payloads
            failed = batch.column("undecided")[row].as_py() or []
            assert [item["key"] for item in failed] == [error.key for error in single.undecided]
        subscriptions.replace("more", "for $r in /r return count($r/a) div 2")
        subscriptions.discard("plain")


def test_sets_travel_and_say_how_queries_run(subscriptions: SubscriptionSet, tmp_path: Path) -> None:
    subscriptions.save(tmp_path / "kept")
    for copy in (pickle.loads(pickle.dumps(subscriptions)), SubscriptionSet.load(tmp_path / "kept")):
        assert sorted(copy.match(XML).keys) == ["groups", "plain", "rewrites"]
        assert copy["groups"] == Subscription("groups", GROUPS, {}, "xquery")
    assert subscriptions.describe("groups").route == "xquery"
    assert subscriptions.describe("plain").route == "keyed"
    narrow, wide = check(GROUPS, dialect="xquery"), check("1 to 3", dialect="xquery")
    assert (narrow.route, narrow.normal_form) == ("xquery", "/descendant::a")
    assert "leads somewhere" in narrow.reason
    assert (wide.route, wide.normal_form) == ("xquery", "true()")
    assert "on each message" in wide.reason
    with pytest.raises(UnsupportedQuery, match="format-number"):
        check(GROUPS)


def test_only_messages_that_pass_reach_saxon(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = Saxon.evaluate

    def evaluate(self: Saxon, query: str, namespaces: dict[str, str], message: bytes | None, *rest: Any) -> object:
        asked.append(message)
        return original(self, query, namespaces, message, *rest)

    subscriptions = SubscriptionSet([("groups", GROUPS)], dialect="xquery")
    monkeypatch.setattr(Saxon, "evaluate", evaluate)
    for message in (b"<r/>", b"<r><b/></r>", XML, b"<a/>"):
        subscriptions.match(message)
    assert asked == [XML, b"<a/>"]


def test_names_and_variables_are_those_of_the_set() -> None:
    namespaces = {"p": "urn:p", "": "urn:d"}
    subscriptions = SubscriptionSet(
        [
            ("prefixed", "for $a in $doc//p:a return <n>{ string-join($msg//b, '-') }</n>"),
            ("prolog", "declare function local:twice($x) { 2 * $x }; for $a in //p:a return local:twice(count($a))"),
        ],
        namespaces=namespaces,
        dialect="xquery",
    )
    message = b"<r xmlns='urn:d' xmlns:q='urn:p'><q:a/><b>1</b><b>2</b></r>"
    assert {d.key: d.payload for d in subscriptions.deliver(message)} == {
        "prefixed": b'<n xmlns="urn:d">1-2</n>',
        "prolog": b"2",
    }


REACHING_OUT = [
    "doc('file:///etc/hostname')",
    "let $f := fn:doc#1 return $f('x')",
    "unparsed-text ('/etc/hostname')",
    "Q{http://www.w3.org/2005/xpath-functions}unparsed-text-lines('/etc/hostname')",
    "declare namespace f = 'http://www.w3.org/2005/xpath-functions'; f:collection()",
    "doc(: a comment :)('x')",
    "'x' => doc()",
    "<a>'</a>, doc('x'), <b>'</b>",
    "environment-variable('HOME')",
    "available-environment-variables()",
    "current-dateTime()",
    "for $i in //a return current-date ()",
    "current-time()",
    "json-doc('x')",
    "uri-collection()",
    "parse-xml('<a/>')",
    "transform(map { })",
    "function-lookup(xs:QName('fn:doc'), 1)",
    "load-xquery-module('x')",
    "import module namespace m = 'm' at 'file:///x.xq'; 1",
    "declare variable $x external; $x",
    "declare option saxon:x 'y'; 1",
    "(# saxon:x #) { 1 }",
]


@pytest.mark.parametrize("query", REACHING_OUT)
def test_a_query_reads_nothing_but_the_message(query: str) -> None:
    subscriptions = SubscriptionSet(dialect="xquery")
    with pytest.raises(UnsupportedQuery):
        subscriptions.add("q", query)
    assert len(subscriptions) == 0


def test_saxon_is_closed_even_to_what_would_slip_through(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "secret.xml"
    secret.write_text("<secret/>")
    monkeypatch.setattr("twigcast.xquery.worker.refuse_unsafe", lambda query: None)
    from twigcast.xquery.worker import Evaluator

    evaluator = Evaluator()
    for query in (
        f"doc('{secret.as_uri()}')",
        f"unparsed-text('{secret.as_uri()}')",
        f"collection('{tmp_path.as_uri()}')",
        "doc('http://127.0.0.1:9/')",
        f"parse-xml('<!DOCTYPE a [<!ENTITY e SYSTEM \"{secret.as_uri()}\">]><a>&amp;e;</a>')",
    ):
        reply = evaluator.answer(Request(query, {}, XML))
        assert reply.result is None, query
        assert reply.error is not None, query
        assert "secret/" not in reply.error


def test_a_document_type_names_no_file_to_saxon(tmp_path: Path) -> None:
    declared = b"<?xml version='1.0'?>"
    kind = b"<!DOCTYPE r SYSTEM 'file:///nowhere' [<!ELEMENT r ANY><!-- > ] -->]>"
    message = declared + kind + b"<r><a k='1'>1</a></r>"
    assert without_doctype(message) == b"<?xml version='1.0'?><r><a k='1'>1</a></r>"
    assert without_doctype(XML) == XML
    comment = b"<r><!-- <!DOCTYPE x> --></r>"
    assert without_doctype(comment) == comment
    subscriptions = SubscriptionSet([("groups", GROUPS)], dialect="xquery")
    assert subscriptions.match(message).keys == ["groups"]


def test_harmless_names_pass() -> None:
    for query in ("my-doc(1)", "//doc", "//doc[1]/document/@collection", "<doc/>", "//imported/@externals"):
        refuse_unsafe(query)


def test_a_query_that_takes_too_long_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = "for $a in //a return count(for $x in 1 to 100000000, $y in 1 to 1000 where $x * $y = 3 return $x)"
    impatient = Saxon(seconds_max=0.5)
    subscriptions = SubscriptionSet(
        [("before", GROUPS), ("endless", "for $a in /z return 1 to 2"), ("after", GROUPS.replace("//a", "/r/a"))],
        dialect="xquery",
    )
    # Past the check, which would take as long.
    subscriptions._session.engine.add("endless", endless, {}, "xquery", True)
    monkeypatch.setattr(saxon_module._shared, "_saxon", impatient)
    started = time.monotonic()
    match = subscriptions.match(XML)
    assert time.monotonic() - started < 30
    assert sorted(match.keys) == ["after", "before"]
    assert [(error.key, error.reason) for error in match.undecided] == [("endless", "it took longer than 0.5 seconds")]
    impatient.close()


def test_a_process_that_dies_fails_one_query_and_comes_back() -> None:
    saxon = Saxon()
    assert saxon.evaluate("1", {}, XML).result == b"1"
    assert saxon._process is not None
    os.kill(saxon._process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, saxon._process.pid, os.WEXITED | os.WNOWAIT)
    assert saxon.evaluate("2", {}, XML).result == b"2"
    saxon.close()
    saxon.close()
    assert saxon.evaluate("3", {}, XML).result == b"3"
    saxon.close()


def test_what_saxon_refuses_is_refused_with_its_place() -> None:
    subscriptions = SubscriptionSet([("kept", GROUPS)], dialect="xquery")
    with pytest.raises(QuerySyntaxError, match="XPST0008") as caught:
        subscriptions.add("q", "for $a in //a group by $k := $a/@k return $u")
    assert caught.value.column == 43
    with pytest.raises(QuerySyntaxError, match="XPST0008") as caught:
        subscriptions.add("q", "for $a in $doc//a\ngroup by $k := $a/@k\nreturn $u")
    assert caught.value.column == len("for $a in $doc//a\ngroup by $k := $a/@k\nreturn $u")
    with pytest.raises(QuerySyntaxError, match="XPST0003"):
        subscriptions.replace("kept", "for $a in")
    [refused] = subscriptions.add_many([("x", "//x"), ("bad", "for $a in //a return ("), ("y", "1 to 3")]).refused
    assert (refused.key, refused.index) == ("bad", 1)
    assert sorted(subscriptions.keys()) == ["kept", "x", "y"]
    small = SubscriptionSet(dialect="xquery", limits=Limits(query_bytes_max=10))
    with pytest.raises(QueryLimitExceeded):
        small.add("long", GROUPS)


def test_without_saxon_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(saxon_module, "_shared", saxon_module._SharedSaxon())
    with pytest.raises(MissingExtra, match="xquery"):
        SubscriptionSet(dialect="xquery")
    subscriptions = SubscriptionSet()
    with pytest.raises(MissingExtra, match="xquery"):
        subscriptions.add_many([Subscription("q", GROUPS, {}, "xquery")])
    with pytest.raises(MissingExtra, match="xquery"):
        check(GROUPS, dialect="xquery")


def test_the_command_line_takes_the_dialect(tmp_path: Path) -> None:
    message, file = tmp_path / "m.xml", tmp_path / "s.jsonl"
    message.write_bytes(XML)
    lines = [{"key": "groups", "query": GROUPS}, {"key": "plain", "query": "//a", "dialect": "xpath"}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["deliver", "-s", str(file), "-o", "-", "--dialect", "xquery", str(message)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines()]
    assert {row["key"]: row["payload"] for row in rows} == {"groups": '<g k="1">4</g><g k="2">2</g>', "plain": None}
    result = CliRunner().invoke(app, ["check", "--dialect", "xquery", GROUPS])
    assert result.exit_code == 0
    assert "Saxon" in result.output


@pytest.mark.parametrize(
    ("query", "payload"),
    [
        ("for tumbling window $w in //a start when true() end $e when $e/@k = 2 return count($w)", b"2 1"),
        ("(: c :) (for sliding window $w in //a start at $i when $i = 1 end when true() return <w/>)", b"<w/>"),
        ("try { <x>{ //a[1] idiv 0 }</x> } catch * { <bad/> }", b"<bad/>"),
        ("for $a in //a return try { <x>{ 2 idiv ($a - 2) }</x> } catch * { <bad/> }", b"<x>-2</x><bad/><x>2</x>"),
        ("switch (//a[1]/@k) case '1' return <one/> default return <other/>", b"<one/>"),
        ("typeswitch (//a[1]) case element(b) return <b/> default return <none/>", b"<none/>"),
        ("map { 'x': <x/> }?x", b"<x/>"),
        ("``[k=`{ //a[1]/@k }`]``", b"k=1"),
        # Steps of these names, and calls, are conditions as before.
        ("//a[. = 3] => exists()", None),
        ("try/switch | map/array | //a[deep-equal(., .)]", None),
    ],
)  # fmt: skip
def test_what_is_neither_a_path_nor_a_condition_returns_something(query: str, payload: bytes | None) -> None:
    subscriptions = SubscriptionSet([("q", query)], dialect="xquery")
    assert subscriptions.describe("q").route == "xquery"
    [delivery] = subscriptions.deliver(XML)
    assert (delivery.payload, delivery.rewritten) == ((XML, False) if payload is None else (payload, True))


def test_a_condition_with_several_values_holds_whoever_evaluates_it() -> None:
    subscriptions = SubscriptionSet(
        {"engine": "//a/string(@k)", "saxon": "//a/string(@k) => reverse()"}, dialect="xquery"
    )
    assert [subscriptions.describe(key).route == "xquery" for key in ("engine", "saxon")] == [False, True]
    for message, expected in ((XML, ["engine", "saxon"]), (b"<r/>", [])):
        match = subscriptions.match(message)
        assert (match.keys, match.undecided) == (expected, [])


@pytest.mark.parametrize("query", ["//a[@t < $now and deep-equal(1, 1)]", "//a[@t < current-dateTime()]"])
def test_refusals_of_clocks_say_what_now_is(query: str) -> None:
    with pytest.raises(UnsupportedQuery, match=r"\$now"):
        SubscriptionSet([("q", query)], dialect="xquery")


def test_refusals_of_saxon_name_what_exists_where_both_stumble_over_one_word() -> None:
    for query, advice in (("//a[b in ('x', 'y')]", "a = ('x', 'y')"), ("//a[b like 'x%']", "contains(a, 'part')")):
        with pytest.raises(QuerySyntaxError, match=r"XPST0003") as caught:
            SubscriptionSet(dialect="xquery").add("q", query)
        assert advice in caught.value.reason
        [refused] = SubscriptionSet().add_many([Subscription("q", query, {}, "xquery")]).refused
        assert advice in str(refused.error)
    with pytest.raises(QuerySyntaxError) as caught:
        SubscriptionSet(dialect="xquery").add("q", "//a[format-number(b, '0') = 1] and //c[")
    assert "format-number" not in caught.value.reason
