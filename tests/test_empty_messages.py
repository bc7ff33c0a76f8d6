"""Documents with nothing in them are told to be empty, with the place, on every way into the engine."""

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from twigcast import SubscriptionSet
from twigcast.engine.session import EngineSession
from twigcast.errors import MalformedMessage
from twigcast.limits import Limits
from twigcast.reading.records import cut_records

EMPTY = "is empty: it has no root element"
BLANK = "is empty but for white space: it has no root element"
OTHER = "has no root element"

CASES: dict[str, tuple[bytes, int, int, str]] = {
    "no bytes": (b"", 1, 1, EMPTY),
    "white space": (b" \r\n\t", 2, 2, BLANK),
    "a byte-order mark": ("\ufeff".encode(), 1, 1, EMPTY),
    "a mark of UTF-16": ("\ufeff".encode("utf-16-le"), 1, 1, EMPTY),
    "white space in UTF-16": ("\ufeff\n ".encode("utf-16-be"), 2, 2, BLANK),
    "a declaration": (b"<?xml version='1.0'?>\n", 2, 1, OTHER),
    "a comment": (b"<!-- -->", 1, 9, OTHER),
}


@pytest.fixture
def subscriptions() -> SubscriptionSet:
    created = SubscriptionSet()
    created.add("any", "/a")
    return created


@pytest.mark.parametrize("case", CASES)
def test_the_library_says_so(subscriptions: SubscriptionSet, case: str) -> None:
    xml, line, column, reason = CASES[case]
    for ask in (subscriptions.match, subscriptions.deliver, lambda xml: subscriptions.explain(xml, "any")):
        with pytest.raises(MalformedMessage) as raised:
            ask(xml)
        assert (raised.value.line, raised.value.column) == (line, column)
        assert raised.value.reason == f"the message {reason}"
    batch = subscriptions.match_batch(pa.array([b"<a/>", xml, b"<b/>"], pa.binary()))
    errors = batch.column("error").to_pylist()
    assert errors[0] is None
    assert errors[1] is not None
    assert errors[2] is None
    assert errors[1]["reason"] == f"the message {reason}"
    assert (errors[1]["line"], errors[1]["column"]) == (line, column)


@pytest.mark.parametrize("case", CASES)
def test_cutting_records_says_so(case: str) -> None:
    xml, line, column, reason = CASES[case]
    [record] = cut_records(io.BytesIO(xml), "item", bytes_max=1 << 20)
    assert isinstance(record.error, MalformedMessage)
    assert record.error.reason == f"the message {reason}"
    assert (record.error.line, record.error.column) == (line, column)


def test_the_pipeline_keeps_them_with_the_reason(subscriptions: SubscriptionSet, tmp_path: Path) -> None:
    matching = pytest.importorskip("twigcast.spark.matching", reason="needs the extra spark")
    subscriptions.save(tmp_path / "set")
    matcher = matching.BatchMatcher(EngineSession.load(str(tmp_path / "set"), Limits()))
    bodies = [xml for xml, *_ in CASES.values()]
    messages = pa.RecordBatch.from_arrays(
        [pa.array(list(CASES), pa.string()), pa.array(bodies, pa.binary())], ["message_id", "xml"]
    )
    reported: dict[str, str] = {}
    for answers in matcher.answers(messages):
        for row in answers.rejected().to_pylist():
            reported[row["message_id"]] = row["reason"]
            assert row["xml"] == CASES[row["message_id"]][0]
    assert reported == {name: f"the message {reason}" for name, (_, _, _, reason) in CASES.items()}


def test_the_command_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "none.xml").write_bytes(b"")
    (tmp_path / "subs.jsonl").write_text('{"key": "any", "query": "/a"}\n')
    command = [sys.executable, "-m", "twigcast", "match", "-s", "subs.jsonl", "none.xml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert f"the message {EMPTY}" in done.stderr
    assert "line 1, column 1" in done.stderr
