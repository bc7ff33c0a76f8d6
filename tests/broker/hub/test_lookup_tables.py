"""Look-up tables: how they are read, and what is added to messages."""

from __future__ import annotations

import random
from typing import Any

import pytest
from lxml import etree

from twigcast.broker.errors import DisallowedMessage, Invalid
from twigcast.broker.hub.lookups import VALUES_MAX, Enricher
from twigcast.broker.lookup_tables import (
    CELL_CHARACTERS_MAX,
    COLUMNS_MAX,
    LookupSettings,
    TableContent,
    as_lines,
    of_stored_form,
    read_table,
    stored_form,
)
from twigcast.errors import MessageLimitExceeded
from twigcast.limits import Limits
from twigcast.reading.conversion import all_forms

COUNTIES = read_table(b"code,name,state\n06037,Los Angeles,CA\n06059,Orange,CA\n32003,Clark,\n", "csv")


def enricher(table: TableContent = COUNTIES, limits: Limits | None = None, **settings: Any) -> Enricher:
    chosen = {"table": "counties", "key": "//code", "element": "county", **settings}
    return Enricher([(LookupSettings.of(chosen), table)], limits or Limits())


def enriched(message: str, **settings: Any) -> str:
    sent, xml, _ = all_forms(message.encode())
    result = enricher(**settings).enriched(sent, xml)
    assert len(result.sent) - len(result.xml) == len(sent) - len(xml)
    return result.xml.decode()


@pytest.mark.parametrize(
    ("content", "form", "columns", "row"),
    [
        (b'\xef\xbb\xbfcode,name\r\n1,"a, ""b"""\r\n\r\n', "csv", ("code", "name"), ("1", 'a, "b"')),
        (b'code,note\n1,"two\nlines"\n', "csv", ("code", "note"), ("1", "two\nlines")),
        (
            b'{"code": 1, "p": 1.50, "x": null}\n{"code": "2", "y": true}',
            "lines",
            ("code", "p", "y"),
            ("1", "1.50", ""),
        ),
        ('{"code": "1", "name": "a\u2028b"}'.encode(), "lines", ("code", "name"), ("1", "a\u2028b")),
    ],
)
def test_tables_are_read_as_they_are_written(
    content: bytes, form: Any, columns: tuple[str, ...], row: tuple[str, ...]
) -> None:
    table = read_table(content, form)
    assert (table.key, table.columns, table.rows["1"]) == ("code", columns, row)
    assert of_stored_form(stored_form(table)) == table
    assert read_table(b"".join(as_lines(table)), "lines").rows["1"] == row


@pytest.mark.parametrize(
    ("content", "form", "key", "told"),
    [
        (b"", "csv", None, "it is empty"),
        (b"\n\n", "lines", None, "it is empty"),
        (b"code,name\n1\n", "csv", None, "line 2: it has 1 values, for 2 columns"),
        (b"code,name\n1,a\n1,b\n", "csv", None, "line 3: there is a row with the key '1' already"),
        (b"code,name\n ,a\n", "csv", None, "line 2: its key is empty: the column 'code'"),
        (b"code,code\n", "csv", None, "there are two columns 'code'"),
        (b"code,\n", "csv", None, "a column has no name"),
        (b"code,name\n", "csv", "cod", "key: there is no column 'cod'; there are 'code', 'name'"),
        (b'code,name\n1,"a\n', "csv", None, "it is no CSV"),
        (b"code,name\n1,a\n2,\xff\n", "csv", None, "line 3: it is not UTF-8"),
        (b"code,name\n1,a\x00b\n", "csv", None, "U+0000"),
        (b"code,name\n1,a\x0bb\n", "csv", None, "line 2: a value has the character U+000B"),
        (b'{"code": "\\ud800"}', "lines", None, "U+D800"),
        (b'{"code": 1, "code": 2}', "lines", None, "line 1: 'code' is given twice"),
        (b'{"code": [1]}', "lines", None, "the value of 'code' must be a text"),
        (b'{"code": NaN}', "lines", None, "line 1: it is no JSON"),
        (b'{"code": 1}\n[1]', "lines", None, "line 2: it is no object"),
        (b"[" * 100_000, "lines", None, "line 1: it is no JSON"),
        (b"code,name\n1," + b"x" * (CELL_CHARACTERS_MAX + 1), "csv", None, "a value has up to"),
        (b",".join(b"c%d" % n for n in range(COLUMNS_MAX + 1)), "csv", None, "columns"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_line(
    content: bytes, form: Any, key: str | None, told: str
) -> None:
    with pytest.raises(Invalid) as refused:
        read_table(content, form, key)
    assert told in str(refused.value)


def test_rows_are_added_at_the_end_of_the_root() -> None:
    county = "<county><code>06037</code><name>Los Angeles</name><state>CA</state></county>"
    assert enriched("<a><code> 06037 </code></a>") == f"<a><code> 06037 </code>{county}</a>"
    assert enriched("<a><code>1</code></a>") == "<a><code>1</code></a>"
    # What is empty in the table is no element, and a row that is named twice is added once.
    assert enriched("<a><code>32003</code><code>32003</code></a>").endswith(
        "<county><code>32003</code><name>Clark</name></county></a>"
    )
    assert enriched("<a code='06059'/>", key="/a/@code", columns={"name": "n"}) == (
        "<a code='06059'><county><n>Orange</n></county></a>"
    )
    assert enriched("<a><b/><code>06059</code></a>", at="/a/b", columns={"name": "n"}) == (
        "<a><b><county><n>Orange</n></county></b><code>06059</code></a>"
    )
    key = "concat(//s, //c)"
    assert "Orange" in enriched("<a><s>06</s><c>059</c></a>", key=key)


def test_the_names_that_are_added_are_in_the_namespace_that_was_asked_for() -> None:
    message = "<a xmlns='urn:a'><code>06037</code></a>"
    for namespace in ("", "urn:c"):
        root = etree.fromstring(enriched(message, key="//*:code", namespace=namespace).encode())
        assert etree.QName(root[-1]).namespace == (namespace or None)
        assert etree.QName(root[-1][0]).namespace == (namespace or None)
    assert "Los Angeles" in enriched(message, key="//p:code", namespaces={"p": "urn:a"})


def test_messages_without_what_the_source_demands_are_rejected() -> None:
    with pytest.raises(DisallowedMessage, match="the table 'counties' has no row '1'"):
        enriched("<a><code>1</code></a>", missing="reject")
    with pytest.raises(DisallowedMessage, match="it has no key for the table 'counties'"):
        enriched("<a/>", missing="reject")
    with pytest.raises(DisallowedMessage, match="it has no element '//b'"):
        enriched("<a><code>06037</code></a>", at="//b")
    many = "".join(f"<code>{n}</code>" for n in range(VALUES_MAX + 1))
    with pytest.raises(DisallowedMessage, match=r"it has 1,001 keys for the table 'counties', of up to 1,000"):
        enriched(f"<a>{many}</a>")
    few = many.replace("<code>999</code>", "").replace(">1000<", ">06059<")
    assert "Orange" in enriched(f"<a>{few}</a>")


def test_what_is_added_counts_for_the_limit_of_a_message() -> None:
    long = TableContent("code", ("code", "text"), {str(n): (str(n), "x" * 1_000) for n in range(100)})
    message = "<a>" + "".join(f"<code>{n}</code>" for n in range(100)) + "</a>"
    limits = Limits(message_bytes_max=50_000)
    with pytest.raises(MessageLimitExceeded, match="with what was looked up"):
        enricher(long, limits).enriched(message.encode(), message.encode())


def test_expressions_that_cannot_be_used_are_refused() -> None:
    for settings, told in (
        ({"key": "//code["}, "key: "),
        ({"at": "//code["}, "at: "),
        ({"key": "//p:code"}, "p"),
        ({"columns": {"nam": "name"}}, "the table 'counties' has no column 'nam'"),
    ):
        with pytest.raises(Invalid, match=told):
            enricher(**settings)
    spaced = TableContent("the code", ("the code",), {})
    with pytest.raises(Invalid, match="the column 'the code' of the table 'counties' is no name of an element"):
        enricher(spaced)


def test_malformed_messages_are_left_to_who_matches_them() -> None:
    for message in (b"<a><code>06037</a>", b"", b"<a/><b/>", b"06037"):
        assert enricher().enriched(message, message).xml == message


@pytest.mark.parametrize("seed", range(20))
def test_messages_have_what_was_in_them_and_one_element_more_for_each_row(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(20):
        message = _message(source)
        before, after = etree.fromstring(message.encode()), etree.fromstring(enriched(message).encode())
        # As lxml finds them: its answer is another one than that of the engine.
        codes = list(dict.fromkeys(map(str.strip, before.xpath("//code/text()"))))
        added = [COUNTIES.rows[code][0] for code in codes if code in COUNTIES.rows]
        new = list(after)[len(before) :] if added else []
        assert [element.findtext("code") for element in new] == added
        for element in new:
            after.remove(element)
        assert etree.tostring(after, method="c14n") == etree.tostring(before, method="c14n")


def _message(source: random.Random) -> str:
    """Returns a message in which much looks like the end of its root."""

    def part(depth: int) -> str:
        kind = source.randrange(8 if depth < 3 else 5)
        if kind == 0:
            return f"<code>{source.choice(['06037', ' 32003', '1', '06059 '])}</code>"
        if kind == 1:
            return source.choice(["<!-- </r> -->", "<?p </r>?>", "<![CDATA[</r>]]>", "text", "&lt;/r&gt;", "é"])
        if kind == 2:
            return "<e a='/>'/>"
        if kind == 3:
            return '<e a="&lt;/r>"></e >'
        if kind == 4:
            return "<x:r xmlns:x='urn:x'/>"
        return "<r>" + "".join(part(depth + 1) for _ in range(source.randrange(4))) + "</r\n>"

    head = source.choice(["", "<?xml version='1.0'?>\n", "<!-- <r> -->", "<!DOCTYPE r [<!ENTITY e 'x'>]>\n"])
    body = "".join(part(0) for _ in range(source.randrange(5)))
    root = f"<r>{body}</r >" if body else source.choice(["<r/>", "<r />", "<r></r>"])
    return head + root + source.choice(["", "\n", "<!-- </r> -->", "<?p </r>?>", "\n<!--/>-->\n"])
