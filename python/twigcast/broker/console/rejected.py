"""The body of a rejected message as text, with the place of the error marked, whatever the bytes are."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Final

from twigcast.broker.console.highlighting import HighlightSpan, visible
from twigcast.reading.conversion import charset

AROUND: Final = 12
"""Lines shown before and after the place of the error."""

HEAD_LINES: Final = 40
"""Lines shown if there is no place."""

LINE_CHARACTERS_MAX: Final = 400
"""Characters of one line that are shown."""

HEX_BYTES: Final = 512
"""Bytes shown of a body that is no text."""

_LINE_END: Final = re.compile("\r\n|\r|\n")
_DECLARED: Final = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")


@dataclass(frozen=True, slots=True)
class ExcerptLine:
    """A line of the body."""

    number: int
    spans: tuple[HighlightSpan, ...]
    """The span at the place of the error, if it lies in this line, has the kind ``error``."""
    is_fault: bool = False
    cut_before: bool = False
    """Whether characters at its start are not shown."""
    cut_after: bool = False


@dataclass(frozen=True, slots=True)
class HexRow:
    """A row of sixteen bytes."""

    offset: str
    codes: str
    characters: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a body."""

    lines: tuple[ExcerptLine, ...] = ()
    bytes: tuple[HexRow, ...] = ()
    """Shown instead of lines if the body is no text."""
    encoding: str = "UTF-8"
    """The encoding with which the body was read."""
    lines_before: int = 0
    lines_after: int = 0


def excerpt(body: bytes, line: int | None = None, column: int | None = None) -> Excerpt:
    """Returns the part of a body around a place, or its start.

    Args:
        body: The body as it was sent.
        line: Line of the place, from 1.
        column: Column of the place, in characters from 1.
    """
    text, encoding = _decoded(body)
    if _looks_binary(text):
        return Excerpt(bytes=tuple(_hex(body[:HEX_BYTES])), encoding="bytes")
    lines = _LINE_END.split(text)
    if line is None:
        first, last = 0, HEAD_LINES
    else:
        first, last = max(0, min(line, len(lines)) - 1 - AROUND), line + AROUND
    shown = tuple(
        _line(number, content, column if number == line else None, is_fault=number == line)
        for number, content in enumerate(lines[first:last], start=first + 1)
    )
    return Excerpt(shown, (), encoding, first, max(0, len(lines) - last))


def _decoded(body: bytes) -> tuple[str, str]:
    """Returns a body as text, and its encoding; it never fails, since invalid bytes are shown by their codes."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return body.decode("utf-16", "replace"), "UTF-16"
    declared = _DECLARED.search(body[:200])
    for encoding in (_codec(declared.group(1).decode("ascii")) if declared else "utf-8", "utf-8"):
        try:
            return body.decode(encoding), encoding.upper()
        except UnicodeError:
            continue
    return body.decode("utf-8", "backslashreplace"), "UTF-8, with bytes that are none"


def _codec(name: str) -> str:
    """Returns the codec of a declared encoding; that of UTF-8 if it is unknown."""
    try:
        return charset(name) or "utf-8"
    except LookupError:
        return "utf-8"


def _looks_binary(text: str) -> bool:
    head = text[:2_000]
    strange = sum(1 for character in head if character < " " and character not in "\t\r\n") + head.count("\\x")
    return strange * 10 > len(head)


def _line(number: int, content: str, column: int | None, *, is_fault: bool) -> ExcerptLine:
    position = None if column is None else min(column - 1, len(content))
    start = 0 if position is None else max(0, position - LINE_CHARACTERS_MAX // 2)
    if start < LINE_CHARACTERS_MAX // 4:
        start = 0
    end = start + LINE_CHARACTERS_MAX
    spans: list[HighlightSpan] = []
    for text, kind in _around(content[start:end], None if position is None else position - start):
        spans.extend(visible(HighlightSpan(text, kind)))
    if position is not None and position == len(content):
        # The error is a missing character at the end of the line.
        spans.append(HighlightSpan("\N{NO-BREAK SPACE}", "error"))
    return ExcerptLine(number, tuple(spans), is_fault, start > 0, end < len(content))


def _around(text: str, position: int | None) -> list[tuple[str, str]]:
    if position is None:
        return [(text, "text")] if text else []
    parts = [(text[:position], "text"), (text[position : position + 1], "error"), (text[position + 1 :], "text")]
    return [part for part in parts if part[0]]


def _hex(data: bytes) -> list[HexRow]:
    rows = []
    for offset in range(0, len(data), 16):
        part = data[offset : offset + 16]
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        rows.append(HexRow(f"{offset:06x}", part.hex(" "), characters))
    return rows
