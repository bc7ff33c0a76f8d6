"""A message laid out for reading, with the nodes that a query selects marked in it.

An element that holds nothing but elements has a row for each of them, indented, whatever white
space the publisher put between them. An element with text is left exactly as it is. No other character is added,
removed or changed, except that invisible characters (controls, marks that reverse the direction of text) are
shown by their code, so that a message cannot look like another one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final, NamedTuple

from twigcast.answers import Node
from twigcast.markup import UNSEEN, MarkupToken, TokenPart, parts, tokens

ROWS_MAX: Final = 1_500
"""Rows of one message that are shown."""

TEXT_CHARACTERS_MAX: Final = 300_000
"""Characters of one message that are laid out."""

ROW_CHARACTERS_MAX: Final = 20_000
"""Characters of one row that are shown."""

DEPTH_MAX: Final = 16
"""Deepest indentation; deeper elements are indented as much."""

MARKED_MAX: Final = 500
"""Selected nodes that are marked."""


class HighlightSpan(NamedTuple):
    """A range of characters that are shown in one way."""

    text: str
    kind: str
    """As in :class:`twigcast.markup.TokenPart`, or ``unseen``: ``text`` is the code of a character."""
    depth: int = 0
    """Number of the selected nodes around it."""
    first_of: int | None = None
    """The number of the selected node that starts with it."""


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """A row of a message that is laid out."""

    depth: int
    line: int
    """Line of its first character in the message, from 1."""
    spans: tuple[HighlightSpan, ...]
    cut: int = 0
    """Number of characters at its end that are not shown."""


@dataclass(frozen=True, slots=True)
class MessageLayout:
    """A message laid out."""

    rows: tuple[LayoutRow, ...]
    cut: int
    """Number of characters after the last row that are not shown."""
    marked: int
    """Number of marked nodes."""
    lines: int
    """Number of lines of the message itself."""


def lay_out(text: str, nodes: Sequence[Node] = (), *, rows_max: int = ROWS_MAX) -> MessageLayout:
    """Returns a message laid out, with nodes (whose positions are bytes of the text as UTF-8) marked in it."""
    marks = _Marks(text, nodes[:MARKED_MAX])
    line_starts = [0, *(result.end() for result in re.finditer("\r\n|\r|\n", text[:TEXT_CHARACTERS_MAX]))]
    rows: list[LayoutRow] = []
    end = 0
    looked_at = list(takewhile(lambda token: token.start < TEXT_CHARACTERS_MAX, tokens(text)))
    for depth, group in islice(_rows(looked_at), rows_max):
        rows.append(_row(depth, bisect_right(line_starts, group[0].start), group, marks))
        end = group[-1].start + len(group[-1].text)
    cut = len(text[end:].rstrip()) if end < len(text) else 0
    return MessageLayout(tuple(rows), cut, marks.count, len(line_starts))


# Tokens that share a row ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Element:
    start: int
    """Index of its start tag."""
    mixed: bool = False
    """Whether it holds text, so that white space in it counts."""
    holds: bool = False
    """Whether it holds something else than text."""


def _inline(outcome: list[MarkupToken]) -> dict[int, int]:
    """Returns the outermost elements that are left as they are: index of the start tag to index of the end tag."""
    result: dict[int, int] = {}
    open_elements: list[_Element] = []
    for index, token in enumerate(outcome):
        if token.kind == "end" and open_elements:
            element = open_elements.pop()
            if element.mixed or not element.holds:
                result[element.start] = index
        elif open_elements:
            inside = open_elements[-1]
            inside.mixed |= token.kind == "cdata" or (token.kind == "text" and not token.text.isspace())
            inside.holds |= token.kind not in ("text", "cdata")
        if token.kind == "start":
            open_elements.append(_Element(index, "xml:space" in token.text and "preserve" in token.text))
    return result


def _rows(results: list[MarkupToken]) -> Iterator[tuple[int, list[MarkupToken]]]:
    """Yields the tokens of each row, with its depth. White space between rows is left out."""
    inline = _inline(results)
    depth = 0
    index = 0
    while index < len(results):
        token = results[index]
        last = inline.get(index, index)
        if token.kind == "end":
            depth = max(0, depth - 1)
        if not (token.kind == "text" and token.text.isspace()):
            yield depth, results[index : last + 1]
        if token.kind == "start" and index not in inline:
            depth += 1
        index = last + 1


# Spans --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Marks:
    """The selected nodes as positions in characters."""

    text: str
    nodes: Sequence[Node]
    bounds: list[int] = field(init=False)
    """Positions where nodes start or end, in characters, ascending."""
    depths: list[int] = field(init=False)
    """Number of nodes that cover what follows each bound."""
    starts: dict[int, int] = field(init=False)
    """Start of a node to its number, from 1; of several with one start, the first."""

    def __post_init__(self) -> None:
        offsets = _characters(self.text, {position for node in self.nodes for position in (node.start, node.end)})
        changes: dict[int, int] = {}
        self.starts = {}
        for number, node in enumerate(self.nodes, start=1):
            start, end = offsets[node.start], offsets[node.end]
            changes[start] = changes.get(start, 0) + 1
            changes[end] = changes.get(end, 0) - 1
            self.starts.setdefault(start, number)
        self.bounds = sorted(changes)
        self.depths = []
        depth = 0
        for bound in self.bounds:
            depth += changes[bound]
            self.depths.append(depth)

    @property
    def count(self) -> int:
        """Number of marked nodes."""
        return len(self.nodes)

    def cut(self, part: TokenPart) -> Iterator[HighlightSpan]:
        """Yields a part of the message, cut where nodes start and end."""
        at, end = part.start, part.start + len(part.text)
        position = bisect_right(self.bounds, at)
        while at < end:
            until = min(end, self.bounds[position]) if position < len(self.bounds) else end
            depth = self.depths[position - 1] if position else 0
            text = part.text[at - part.start : until - part.start]
            yield HighlightSpan(text, part.kind, depth, self.starts.get(at))
            at = until
            position += 1


def _characters(text: str, offsets: Iterable[int]) -> dict[int, int]:
    """Returns positions in bytes of a text as UTF-8 as positions in characters."""
    if text.isascii():
        return {offset: min(offset, len(text)) for offset in offsets}
    data = text.encode("utf-8", "surrogatepass")
    result = {}
    at = characters = 0
    for offset in sorted(offsets):
        characters += len(data[at:offset].decode("utf-8", "replace"))
        result[offset] = characters
        at = offset
    return result


def _row(depth: int, line: int, group: list[MarkupToken], marks: _Marks) -> LayoutRow:
    spans: list[HighlightSpan] = []
    remaining = ROW_CHARACTERS_MAX
    cut = 0
    for token in group:
        for part in parts(token):
            shown = part if len(part.text) <= remaining else part._replace(text=part.text[: max(remaining, 0)])
            remaining -= len(shown.text)
            cut += len(part.text) - len(shown.text)
            for span in marks.cut(shown):
                spans.extend(visible(span))
    return LayoutRow(min(depth, DEPTH_MAX), line, tuple(spans), cut)


def visible(span: HighlightSpan) -> Iterator[HighlightSpan]:
    """Yields a span with its invisible characters replaced by their codes."""
    at = 0
    first = span.first_of
    for result in UNSEEN.finditer(span.text):
        if result.start() > at:
            yield HighlightSpan(span.text[at : result.start()], span.kind, span.depth, first)
            first = None
        yield HighlightSpan(f"U+{ord(result.group()):04X}", "unseen", span.depth, first)
        first = None
        at = result.end()
    if at < len(span.text):
        yield HighlightSpan(span.text[at:], span.kind, span.depth, first)
