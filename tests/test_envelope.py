"""Envelopes: well-formed around anything, and namespaces stay as they are."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from twigcast import Envelope, SubscriptionSet
from twigcast.cli import app
from twigcast.errors import EnvelopeError
from twigcast.reading.conversion import to_utf8

XML = b"<f xmlns='urn:f' xmlns:p='urn:p'><i n='1'>x</i><p:j/></f>"
NAMESPACES = {"f": "urn:f", "p": "urn:p"}
ODD = "a<b>&\"c'\t\u00e9\x01"
ENVELOPES = [Envelope("envelope"), Envelope("p:e", "urn:<o>", "id", "to"), Envelope("e", query="query")]


@pytest.fixture
def subscriptions() -> SubscriptionSet:
    return SubscriptionSet(
        [
            ("some", "for $i in //f:i return ($i, <own>{ $i/@n }</own>)"),
            (ODD, "for $j in //p:j return $j"),
            ("text", "for $i in //f:i return string($i)"),
            ("plain", "//f:i"),
        ],
        namespaces=NAMESPACES,
    )


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_results_stay_what_they_are(subscriptions: SubscriptionSet, envelope: Envelope) -> None:
    bare = {delivery.key: delivery for delivery in subscriptions.deliver(XML)}
    wrapped = {d.key: d for d in subscriptions.deliver(XML, envelope=envelope, message_id=f"m {ODD}")}
    assert bare.keys() == wrapped.keys()
    assert wrapped["plain"] == bare["plain"]
    for key in bare.keys() - {"plain"}:
        root = ET.fromstring(wrapped[key].payload)
        assert root.tag == (envelope.name if envelope.namespace is None else "{urn:<o>}e")
        assert root.attrib == {
            envelope.message: f"m {ODD}".replace("\x01", "\ufffd"),
            envelope.key: key.replace("\x01", "\ufffd"),
            **({} if envelope.query is None else {envelope.query: subscriptions[key].query}),
        }
        inside = ET.fromstring(b"<envelope>" + bare[key].payload + b"</envelope>")
        assert [ET.tostring(child) for child in root] == [ET.tostring(child) for child in inside]
        assert root.text == inside.text


def test_the_query_is_the_one_that_matched(subscriptions: SubscriptionSet) -> None:
    deliveries = subscriptions.deliver(XML, envelope=Envelope("e", query="for"), whole=True)
    asked = {key: subscriptions[key].query for key in subscriptions}
    subscriptions.replace("some", "for $i in //f:i return <other/>")
    subscriptions.remove("text")
    assert {d.key: ET.fromstring(d.payload).get("for") for d in deliveries} == asked


@pytest.mark.slow
def test_the_query_is_the_one_that_matched_while_another_thread_changes_it() -> None:
    """Each result has the element that its query makes, and the query is told beside it."""
    names = [f"n{number}" for number in range(200)]
    queries = {kind: f"for $i in /f/i return <{kind}/>" for kind in "ab"}
    subscriptions = SubscriptionSet([(name, queries["a"]) for name in names])
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            for kind in "ba":
                for name in names:
                    subscriptions.replace(name, queries[kind])

    changing = threading.Thread(target=change)
    changing.start()
    try:
        kinds = set()
        for _ in range(300):
            for delivery in subscriptions.deliver(b"<f><i/></f>", envelope=Envelope("e", query="query")):
                root = ET.fromstring(delivery.payload)
                assert root.get("query") == queries[root[0].tag]
                kinds.add(root[0].tag)
        assert kinds == {"a", "b"}, "nothing changed meanwhile"
    finally:
        over.set()
        changing.join()


@pytest.mark.parametrize(
    "message",
    [
        XML,
        b"\xef\xbb\xbf<?xml version='1.0' encoding='utf-8'?>\n<!DOCTYPE f SYSTEM 'x.dtd'>\n<!-- c -->" + XML,
        b"<?xml version='1.0'?><!DOCTYPE f [<!ENTITY e 'x'>]><f xmlns='urn:f'><i n='1'>&e;</i></f>",
        ("<?xml version='1.0' encoding='utf-16'?>" + XML.decode()).encode("utf-16"),
        b"<?xml version='1.0'?><f xmlns='urn:f'><i n='1'>x</i><![CDATA[<!DOCTYPE f>]]></f>",
    ],
)
def test_whole_messages_lose_what_cannot_stand_inside(subscriptions: SubscriptionSet, message: bytes) -> None:
    deliveries = subscriptions.deliver(message, envelope=Envelope("e"), message_id="m", whole=True)
    [plain] = [delivery for delivery in deliveries if delivery.key == "plain"]
    [root] = ET.fromstring(plain.payload)
    assert root.tag == "{urn:f}f"
    assert root[0].text == "x"


@pytest.mark.parametrize("name", ["", "1st", "a b", "a:b:c", "<e>", "xmlns", "e/", "-e", ":e", "e:"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(EnvelopeError):
        Envelope(name, "urn:x" if ":" in name else None)
    with pytest.raises(EnvelopeError):
        Envelope("e", message=name)
    with pytest.raises(TypeError, match="Envelope"):
        SubscriptionSet().deliver(XML, envelope=name)  # type: ignore[arg-type]


def test_prefixes_and_namespaces_go_together() -> None:
    assert Envelope.named("p:e", NAMESPACES) == Envelope("p:e", "urn:p")
    assert Envelope.named("\u00e9t\u00e9", {"": "urn:x"}).namespace is None
    for name, namespace in [("p:e", None), ("e", "urn:p"), ("xml:e", "urn:p"), ("xmlns:e", "urn:p"), ("p:e", "")]:
        with pytest.raises(EnvelopeError):
            Envelope(name, namespace)
    for names in ({"message": "key"}, {"query": "key"}, {"query": "message"}, {"query": "no name"}):
        with pytest.raises(EnvelopeError):
            Envelope("e", **names)


def test_the_command_line_wraps(tmp_path: Path, subscriptions: SubscriptionSet) -> None:
    message, file = tmp_path / "m.xml", tmp_path / "s.jsonl"
    message.write_bytes(XML)
    rows = [{"key": key, "query": subscriptions[key].query} for key in ("text", "plain")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    base = ["deliver", "-s", str(file), "-o", "-", "-n", "f=urn:f", str(message)]
    result = CliRunner().invoke(app, [*base, "--envelope", "f:out"])
    assert result.exit_code == 0, result.output
    payloads = {row["key"]: row["payload"] for row in map(json.loads, result.output.splitlines())}
    assert payloads == {"text": '<f:out xmlns:f="urn:f" message="m.xml" key="text">x</f:out>', "plain": None}
    result = CliRunner().invoke(app, [*base, "--envelope", "out", "--whole"])
    payloads = {row["key"]: row["payload"] for row in map(json.loads, result.output.splitlines())}
    assert payloads["plain"] == f'<out message="m.xml" key="plain">{XML.decode()}</out>'
    result = CliRunner().invoke(app, [*base, "--envelope", "out", "--envelope-query"])
    payloads = {row["key"]: row["payload"] for row in map(json.loads, result.output.splitlines())}
    assert ET.fromstring(payloads["text"]).attrib == {"message": "m.xml", "key": "text", "query": rows[0]["query"]}
    assert CliRunner().invoke(app, [*base, "--envelope", "no name"]).exit_code == 2
    pipeline = ["pipeline", "-s", str(file), "-o", str(tmp_path / "out"), "-m", str(message)]
    for command in (base, pipeline):
        result = CliRunner().invoke(app, [*command, "--envelope-query"])
        assert result.exit_code == 2
        assert "there is no envelope to put it in" in " ".join(result.output.split())


@pytest.mark.parametrize("query", [None, "query"])
def test_the_pipeline_wraps_alike(subscriptions: SubscriptionSet, query: str | None) -> None:
    matching = pytest.importorskip("twigcast.spark.matching", reason="the pipeline needs PySpark")
    envelope = Envelope("p:e", "urn:<o>", query=query)
    matcher = matching.BatchMatcher(subscriptions._session, envelope=envelope)
    ids = ["one", ODD, "three"]
    batch = pa.RecordBatch.from_pydict({"message_id": ids, "xml": [XML, XML, b"<f/>"]})
    rows = [row for answers in matcher.answers(batch) for row in answers.deliveries().to_pylist()]
    expected = [
        {"message_id": name, "key": delivery.key, "payload": delivery.payload.decode()}
        for name in ids[:2]
        for delivery in subscriptions.deliver(XML, envelope=envelope, message_id=name)
        if delivery.rewritten
    ]
    assert rows == expected


def test_long_queries_in_envelopes_are_handed_on_in_small_parts() -> None:
    matching = pytest.importorskip("twigcast.spark.matching", reason="the pipeline needs PySpark")
    filling = f"$i/@n = '{'<' * 10_000}'"
    subscriptions = SubscriptionSet(
        (str(number), f"for $i in /f/i where $i/@n = {number % 2} or {filling} return <r/>") for number in range(400)
    )
    length = sum(len(subscriptions[key].query) for key in subscriptions) // 2
    matcher = matching.BatchMatcher(subscriptions._session, envelope=Envelope("e", query="query"))
    messages = [b"<f/>"] * 2_000 + [b"<f><i n='1'/></f>"] * 100
    batch = pa.RecordBatch.from_pydict({"message_id": [str(n) for n in range(len(messages))], "xml": messages})
    parts = [(len(answers.messages), answers.payloads.nbytes) for answers in matcher.answers(batch)]
    assert sum(bytes_ for _, bytes_ in parts) > 100 * length > 150 << 20
    assert len(parts) > 3
    assert all(bytes_ < 96 << 20 for _, bytes_ in parts), parts


@pytest.mark.parametrize("envelope", [None, Envelope("p:e", "urn:<o>")])
@pytest.mark.parametrize("message", [XML, ("<?xml version='1.0' encoding='utf-16'?>" + XML.decode()).encode("utf-16")])
def test_the_pipeline_delivers_whole_messages(
    subscriptions: SubscriptionSet, message: bytes, envelope: Envelope | None
) -> None:
    matching = pytest.importorskip("twigcast.spark.matching", reason="the pipeline needs PySpark")
    matcher = matching.BatchMatcher(subscriptions._session, envelope=envelope, whole=True)
    ids = ["one", ODD, "three"]
    batch = pa.RecordBatch.from_pydict({"message_id": ids, "xml": [message, XML, b"<f/>"]})
    rows = [row for answers in matcher.answers(batch) for row in answers.deliveries().to_pylist()]
    expected = [
        {"message_id": name, "key": delivery.key, "payload": to_utf8(delivery.payload).decode()}
        for name, xml in zip(ids[:2], [message, XML], strict=True)
        for delivery in subscriptions.deliver(xml, envelope=envelope, message_id=name, whole=True)
    ]
    assert {row["key"] for row in expected} >= {"plain", "text"}
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    per_message = [
        row for answers in matcher.answers(batch, carry=True) for by in answers.by_message() for row in by.to_pylist()
    ]
    assert sum(len(row["deliveries"]) for row in per_message) == len(expected)
