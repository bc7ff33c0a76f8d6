"""Entities that nothing declares: the error names them and says what to do, and that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from twigcast import SubscriptionSet
from twigcast.errors import MalformedMessage
from twigcast.reading.options import ReadOptions

NAMED = [
    "<p>&uuml;</p>",
    "<p a='&uuml;'/>",
    "<!DOCTYPE html><html>&uuml;</html>",
    "<!DOCTYPE p [<!ENTITY x 'y'>]><p>&uuml;</p>",
    "<!DOCTYPE p [<!ENTITY x '&uuml;'>]><p>&x;</p>",
    "<!DOCTYPE p [<!ENTITY % x '<!-- y -->'>%x;%y;]><p>&uuml;</p>",
    "<!DOCTYPE p SYSTEM 'p.dtd'><p>&uuml;</p>",
    "<?xml version='1.0' standalone='yes'?><!DOCTYPE p SYSTEM 'p.dtd'><p>&uuml;</p>",
]


def reason(subscriptions: SubscriptionSet, message: str) -> str:
    with pytest.raises(MalformedMessage) as caught:
        subscriptions.match(message)
    (row,) = subscriptions.match_batch([message]).to_pylist()
    assert row["error"] is not None
    assert row["error"]["reason"] == caught.value.reason
    return caught.value.reason


@pytest.mark.parametrize("message", NAMED)
def test_the_error_says_what_to_do_and_that_helps(message: str, tmp_path: Path) -> None:
    said = reason(SubscriptionSet({"k": "/*"}), message)
    assert '"uuml"' in said
    assert "--dtd FILE" in said
    assert '--entities html, entities="html"' in said
    assert SubscriptionSet({"k": "/*"}, entities="html").match(message).keys == ["k"]
    dtd = tmp_path / "p.dtd"
    dtd.write_text("<!ENTITY uuml 'ü'>")
    assert SubscriptionSet({"k": "/*"}, dtd=dtd).match(message).keys == ["k"]


@pytest.mark.parametrize("message", NAMED)
def test_what_was_done_already_is_not_advised(message: str, tmp_path: Path) -> None:
    unknown = message.replace("uuml", "nosuch")
    assert "--entities" not in reason(SubscriptionSet({"k": "/*"}, entities="html"), unknown)
    dtd = tmp_path / "p.dtd"
    dtd.write_text("<!ENTITY x 'y'>")
    said = reason(SubscriptionSet({"k": "/*"}, dtd=dtd), unknown)
    assert "--dtd" not in said
    assert "--entities html" in said


def test_records_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "r.xml"
    path.write_text("<r><i>&uuml;</i></r>")
    (record,) = SubscriptionSet({"k": "/*"}).match_records(path, "i")
    assert record.error is not None
    assert "--entities html" in record.error.reason
    (record,) = SubscriptionSet({"k": "/*"}).match_records(path, ReadOptions(record="i", entities="html"))
    assert (record.error, record.keys) == (None, ["k"])
