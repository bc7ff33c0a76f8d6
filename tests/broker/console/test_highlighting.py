"""Laying a message out loses nothing but white space between elements, and marks exactly what a query selects."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from twigcast.answers import Node
from twigcast.broker.console.highlighting import ROW_CHARACTERS_MAX, MessageLayout, lay_out
from twigcast.markup import parts, tokens
from twigcast.subscriptions import SubscriptionSet


def shown(laid: MessageLayout) -> list[str]:
    """The rows as text, indented."""
    return ["  " * row.depth + "".join(span.text for span in row.spans) for row in laid.rows]


def marked(laid: MessageLayout) -> list[str]:
    """The marked stretches."""
    results: list[str] = []
    for row in laid.rows:
        open_ = False
        for span in row.spans:
            if span.depth:
                if open_ and span.first_of is None:
                    results[-1] += span.text
                else:
                    results.append(span.text)
            open_ = bool(span.depth)
    return results


def nodes_of(query: str, text: str) -> Sequence[Node]:
    """What a query selects."""
    return SubscriptionSet([("q", query)]).nodes(text.encode(), "q")


def test_elements_of_elements_are_indented_and_text_is_left_alone() -> None:
    laid = lay_out('<a x="1"><b> one  <i>two</i>\n three</b><c/><d><e></e><!--note--></d></a>')
    assert shown(laid) == [
        '<a x="1">',
        "  <b> one  <i>two</i>\n three</b>",
        "  <c/>",
        "  <d>",
        "    <e></e>",
        "    <!--note-->",
        "  </d>",
        "</a>",
    ]


def test_white_space_between_elements_gives_way_to_indentation() -> None:
    laid = lay_out("<?xml version='1.0'?>\n<a>\r\n\t\t<b>x</b>\n\n</a>\n")
    assert shown(laid) == ["<?xml version='1.0'?>", "<a>", "  <b>x</b>", "</a>"]
    assert [row.line for row in laid.rows] == [1, 2, 3, 5]


def test_white_space_that_is_to_be_kept_is_kept() -> None:
    text = '<a xml:space="preserve">  <b/>  </a>'
    assert shown(lay_out(text)) == [text]
    assert shown(lay_out("<a><![CDATA[ ]]> <b/></a>")) == ["<a><![CDATA[ ]]> <b/></a>"]


def test_a_doctype_is_one_piece() -> None:
    text = "<!DOCTYPE a [<!ENTITY e '<b>]>'><!ELEMENT a ANY>]><a>&e;</a>"
    assert [token.kind for token in tokens(text)][:2] == ["doctype", "start"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("//b", ["<b>x</b>", "<b>é</b>"]),
        ("//@k", ['k="ü>"']),
        ("//b/text()", ["x", "é"]),
        ("//c", ["<c/>"]),
        ("//comment()", ["<!-- ☃ -->"]),
        ("//d", ["<d>", "<b>é</b>", "</d>"]),
        ("//nothing", []),
    ],
)
def test_selected_nodes_are_marked(query: str, expected: list[str]) -> None:
    text = '<a k="ü>"><b>x</b><!-- ☃ --><c/><d><b>é</b></d></a>'
    assert marked(lay_out(text, nodes_of(query, text))) == expected


def test_nested_nodes_are_marked_by_depth_and_each_is_an_anchor() -> None:
    text = "<a><b>x<b>y</b></b></a>"
    laid = lay_out(text, nodes_of("//b | //a", text))
    depths = {span.text: span.depth for row in laid.rows for span in row.spans if span.kind == "text"}
    assert depths == {"x": 2, "y": 3}
    anchors = [span.first_of for row in laid.rows for span in row.spans if span.first_of]
    assert anchors == [1, 2, 3]


def test_characters_that_cannot_be_seen_are_shown_by_their_codes() -> None:
    laid = lay_out("<a>admin\u202e\u2066x\u200b</a>")
    assert [span.text for span in laid.rows[0].spans if span.kind == "unseen"] == ["U+202E", "U+2066", "U+200B"]


def test_long_messages_are_cut_and_say_so() -> None:
    laid = lay_out("<a>" + "<b/>" * 50 + "</a>\n", rows_max=20)
    assert len(laid.rows) == 20
    assert laid.cut == len("<b/>") * 31 + len("</a>")
    assert lay_out("<a><b/></a>\n").cut == 0
    long = lay_out(f"<a>{'x' * (ROW_CHARACTERS_MAX + 7)}</a>")
    assert len("".join(span.text for span in long.rows[0].spans)) == ROW_CHARACTERS_MAX
    assert long.rows[0].cut == len("<a></a>") + 7


def test_a_long_message_takes_little_time() -> None:
    text = "<a>" + "".join(f"<b i='{i}'>é<c/>text</b>" for i in range(40_000)) + "x" * 5_000_000 + "</a>"
    nodes = nodes_of("//c", text)
    begun = time.process_time()
    assert lay_out(text, nodes).marked == 500
    assert time.process_time() - begun < 20


def _element(generator: random.Random, depth: int) -> str:
    name = generator.choice("abc")
    attributes = "".join(
        f' {key}="{escape(generator.choice(["1", "é>", "a=b", "/>"]), {chr(34): "&quot;"})}"'
        for key in generator.sample("xyz", generator.randint(0, 2))
    )
    if depth == 0 or generator.random() < 0.2:
        return f"<{name}{attributes}/>"
    content = []
    for _ in range(generator.randint(0, 4)):
        kind = generator.random()
        if kind < 0.6:
            content.append(_element(generator, depth - 1))
        elif kind < 0.8:
            content.append(escape(generator.choice(["text", " ", "\n  ", "a & b", "☃", "]]"])))
        elif kind < 0.9:
            content.append(generator.choice(["<!-- <c> -->", "<?p <x> ?>", "<![CDATA[<b> & ]]>"]))
    return f"<{name}{attributes}>{''.join(content)}</{name}>"


@given(st.integers(0, 1 << 32))
def test_any_message_keeps_its_characters_and_its_meaning(seed: int) -> None:
    text = _element(random.Random(seed), 4)
    assert "".join(token.text for token in tokens(text)) == text
    assert "".join(part.text for token in tokens(text) for part in parts(token)) == text
    laid = lay_out(text)
    rows = "".join("".join(span.text for span in row.spans) for row in laid.rows)
    assert re.sub(r"\s", "", rows) == re.sub(r"\s", "", text)
    # What is left out is white space that means nothing: the two documents equal each other without it.
    assert _folded(etree.fromstring(rows)) == _folded(etree.fromstring(text))


def _folded(element: etree._Element) -> object:
    """An element without the white space around its children, where it holds nothing else."""
    texts = [element.text or "", *(child.tail or "" for child in element)]
    if not "".join(texts).strip():
        texts = []
    return (
        element.tag if isinstance(element.tag, str) else str(element),
        dict(element.attrib),
        texts,
        [_folded(child) for child in element],
    )


@given(st.integers(0, 1 << 32))
def test_marks_are_where_the_engine_says(seed: int) -> None:
    generator = random.Random(seed)
    text = _element(generator, 4)
    query = generator.choice(["//a", "//b[c]", "//@x", "//text()", "//c/..", "//comment()"])
    nodes = nodes_of(query, text)
    laid = lay_out(text, nodes)
    data = text.encode()
    covered = [False] * len(data)
    for node in nodes:
        covered[node.start : node.end] = [True] * (node.end - node.start)
    expected = re.sub(r"\s", "", b"".join(bytes([b]) for b, hit in zip(data, covered, strict=True) if hit).decode())
    result = "".join(span.text for row in laid.rows for span in row.spans if span.depth)
    assert re.sub(r"\s", "", result) == expected
