"""Bodies of rejected messages: any bytes can be shown, and the place of the error is marked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twigcast import SubscriptionSet
from twigcast.broker.console.failures import AROUND, LINE_CHARACTERS_MAX, Excerpt, excerpt
from twigcast.errors import RejectedMessage


def at_place(shown: Excerpt) -> str:
    """The characters that are marked."""
    return "".join(span.text for line in shown.lines for span in line.spans if span.kind == "error")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<a>\n<b>\n</c></a>", "<"),
        (b"<a>Fish & chips</a>", "&"),
        (b"<a>\r\n<b x=1/></a>", "1"),
        ("<a>é☃&</a>".encode(), "&"),
    ],
)
def test_the_place_that_the_engine_names_is_marked(body: bytes, expected: str) -> None:
    with pytest.raises(RejectedMessage) as caught:
        SubscriptionSet([("q", "//a")]).match(body)
    shown = excerpt(body, caught.value.line, caught.value.column)
    (position,) = [line for line in shown.lines if line.is_fault]
    assert position.number == caught.value.line
    assert at_place(shown) == expected


def test_a_place_at_the_end_of_a_line_is_marked_too() -> None:
    assert at_place(excerpt(b"<a>\n<b>\n", 2, 4)) == "\N{NO-BREAK SPACE}"


def test_only_lines_around_the_place_are_shown() -> None:
    shown = excerpt(b"<x/>\n" * 100, 50, 2)
    assert [line.number for line in shown.lines] == list(range(50 - AROUND, 50 + AROUND + 1))
    assert (shown.lines_before, shown.lines_after) == (50 - AROUND - 1, 101 - 50 - AROUND)


def test_of_a_long_line_the_part_around_the_place_is_shown() -> None:
    shown = excerpt(b"a" * 5_000 + b"!" + b"b" * 5_000, 1, 5_001)
    (line,) = shown.lines
    assert at_place(shown) == "!"
    assert line.cut_before
    assert line.cut_after
    assert sum(len(span.text) for span in line.spans) <= LINE_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        ("<a>é</a>".encode("latin-1"), "UTF-8, with bytes that are none"),
        (b"<?xml version='1.0' encoding='iso-8859-1'?><a>\xe9</a>", "ISO8859-1"),
        ("\ufeff<a>é</a>".encode("utf-16-le"), "UTF-16"),
        (b"<?xml version='1.0' encoding='klingon'?><a/>", "UTF-8"),
    ],
)
def test_the_encoding_is_told(body: bytes, encoding: str) -> None:
    assert excerpt(body).encoding == encoding


def test_bytes_that_are_no_text_are_shown_as_bytes() -> None:
    shown = excerpt(bytes(range(256)) * 4, 1, 1)
    assert not shown.lines
    assert shown.bytes[0].codes == "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f"
    assert shown.bytes[2].characters == " !\"#$%&'()*+,-./"


@given(st.binary(max_size=300), st.none() | st.integers(1, 400), st.integers(1, 400))
def test_anything_can_be_shown(body: bytes, line: int | None, column: int) -> None:
    shown = excerpt(body, line, None if line is None else column)
    text = "".join(span.text for each in shown.lines for span in each.spans)
    assert "\0" not in text
    assert bool(shown.lines) != bool(shown.bytes)
