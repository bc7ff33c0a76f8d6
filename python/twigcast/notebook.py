"""Tables and highlighted XML for notebooks: what ``_repr_html_`` of the public classes returns.

All text is escaped, long lists and texts are cut and say so, and nothing is fetched or run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

ROWS_MAX: Final = 20
"""Rows of a table that are shown."""

CHARACTERS_MAX: Final = 2_000
"""Characters of a text that are shown."""

_COLOURS: Final = {
    "name": "#1a7f37",
    "attribute": "#953800",
    "value": "#0a6ebd",
    "entity": "#953800",
    "comment": "#6e7781",
    "pi": "#6e7781",
    "doctype": "#6e7781",
    "cdata": "#0a6ebd",
    "punctuation": "#6e7781",
}
"""Colours that can be read on white and on black."""

_CELL: Final = 'style="text-align:left;vertical-align:top"'


class Html(str):
    """A text that is HTML already, where any other would be escaped."""

    __slots__ = ()


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], count: int) -> Html:
    """Returns a table.

    Args:
        caption: The text above the table.
        columns: The names of its columns.
        rows: The rows, or the first of them. At most ``ROWS_MAX`` are shown.
        count: The number of all rows.
    """
    shown = list(islice(rows, ROWS_MAX))
    head = "".join(f"<th {_CELL}>{_escaped(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td {_CELL}>{_cell(value)}</td>' for value in row)}</tr>" for row in shown)
    rest = f"<div>and {count - len(shown):,} more</div>" if count > len(shown) else ""
    lines = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if shown else ""
    return Html(f"<div><b>{_escaped(caption)}</b>{lines}{rest}</div>")


def _escaped(text: str) -> str:
    """Returns text as HTML. The module that does so has a table of all its entities, which only notebooks need."""
    from html import escape

    return escape(text)


def _cell(value: object) -> str:
    return value if isinstance(value, Html) else _visible(cut(str(value)))


def html_code(text: str) -> Html:
    """Returns a text in the type of code, with its lines as they are."""
    return Html(f'<pre style="margin:0">{_visible(cut(text))}</pre>')


def html_xml(data: bytes) -> Html:
    """Returns XML highlighted; bytes that are no UTF-8 are shown by a sign in their place."""
    from twigcast.markup import parts, tokens  # as in `_visible`

    text = cut(data.decode("utf-8", "replace"))
    spans = (_span(part.kind, part.text) for token in tokens(text) for part in parts(token))
    return Html(f'<pre style="margin:0;white-space:pre-wrap">{"".join(spans)}</pre>')


def html_marked(lines: Iterable[str]) -> Html:
    """Returns lines in which colours distinguish those that begin with ``+`` and ``-``."""
    colours = {"+": "#1a7f37", "-": "#cf222e"}
    spans = (
        f'<span style="color:{colours[line.lstrip()[:1]]}">{_visible(line)}</span>'
        if line.lstrip()[:2] in ("+ ", "- ")
        else _visible(line)
        for line in lines
    )
    return Html(f'<pre style="margin:0">{chr(10).join(spans)}</pre>')


def cut(text: str) -> str:
    """Returns the beginning of a long text, with the number of characters that are left out."""
    rest = len(text) - CHARACTERS_MAX
    return text if rest <= 0 else f"{text[:CHARACTERS_MAX]} ... and {rest:,} characters more"


def _span(kind: str, text: str) -> str:
    colour = _COLOURS.get(kind)
    return _visible(text) if colour is None else f'<span style="color:{colour}">{_visible(text)}</span>'


def _visible(text: str) -> str:
    """Returns text as HTML, with characters that cannot be seen shown by their code."""
    from twigcast.markup import UNSEEN  # its patterns take longer to compile than most programs take to start

    return UNSEEN.sub(lambda found: f"[U+{ord(found.group()):04X}]", _escaped(text))
