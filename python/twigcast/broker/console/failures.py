"""Pages of dead letters and rejected messages."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api.deliveries import find_dead_letters
from twigcast.broker.api.messages import find_rejected
from twigcast.broker.console import pages
from twigcast.broker.console.forms import positions, turn
from twigcast.broker.console.highlighting import HighlightSpan, lay_out, visible
from twigcast.broker.console.query_trial import as_text
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.errors import UnknownObject
from twigcast.broker.model import DeadLetter, RejectedRecord
from twigcast.broker.store.database import chunks
from twigcast.broker.store.store import Transaction
from twigcast.reading.conversion import charset

PAGE: Final = 25
"""Entries on one page."""

AT_ONCE: Final = 1_000
"""Dead letters that are redriven or removed in one commit."""


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    return [
        admission.route("/dead-letters", dead_letters),
        admission.route("/dead-letters/one", dead_letter),
        admission.route("/dead-letters/retry", retry, change=True),
        admission.route("/dead-letters/remove", remove, change=True),
        admission.route("/rejected", rejected),
        admission.route("/rejected/one", rejected_message),
        admission.route("/rejected/download", download),
        admission.route("/rejected/remove", remove_rejected, change=True),
    ]


# Dead letters ---------------------------------------------------------------------------------------------------------


async def dead_letters(request: PageRequest) -> Response:
    """Shows deliveries that were given up, newest first."""
    key = request.form.text("key") or None

    async def read(before: int | None, after: int | None, limit: int) -> list[DeadLetter]:
        return await request.read(
            request.store.dead_letters, request.tenant_id, before_id=before, after_id=after, limit=limit, key=key
        )

    page = await turn(PAGE, *positions(request.form), read)
    return request.page("dead_letters.html", letters=page.items, page=page, key=key)


async def dead_letter(request: PageRequest) -> Response:
    """Shows one dead letter, with its body."""
    letter = await _letter(request)
    laid = await request.read(lay_out, as_text(letter.body))
    return request.page("dead_letter.html", letter=letter, laid=laid)


async def retry(request: PageRequest) -> Response:
    """Redrives one, or all of a subscription."""
    count = 0
    for some in chunks(await _chosen(request), AT_ONCE):
        count += await request.context.broker.redrive(some)
    return request.go(_back(request), f"{pages.plural(count, 'delivery is', 'deliveries are')} tried again.")


async def remove(request: PageRequest) -> Response:
    """Removes one for good, or all of a subscription."""
    count = 0
    for some in chunks(await _chosen(request), AT_ONCE):
        count += await request.context.broker.change(_remover(some))
    return request.go(_back(request), f"{pages.plural(count, 'dead letter is', 'dead letters are')} removed.")


def _remover(ids: Sequence[int]) -> Callable[[Transaction], int]:
    return lambda transaction: transaction.remove_dead_letters(ids)


def _back(request: PageRequest) -> str:
    """Returns the list that the form was on."""
    return pages.link("/dead-letters", key=request.form.text("key") or None)


async def _chosen(request: PageRequest) -> list[int]:
    """Returns the dead letter of the form's number; without a number, all of its key."""
    if request.form.has("id"):
        return [(await _letter(request)).id]
    key = request.form.text("key")
    if not key:
        raise UnknownObject("choose a dead letter, or a subscription")
    return await request.read(_all_of, request, key)


def _all_of(request: PageRequest, key: str) -> list[int]:
    """Returns all dead letters of a subscription, the oldest first, so that they are redriven in order. Blocks."""
    ids: list[int] = []
    before: int | None = None
    while some := request.store.dead_letters(request.tenant_id, before_id=before, limit=PAGE, key=key):
        ids += [letter.id for letter in some]
        before = ids[-1]
    return ids[::-1]


async def _letter(request: PageRequest) -> DeadLetter:
    (letter,) = await find_dead_letters(request.context, request.principal, [request.form.number("id", 0)])
    return letter


# Rejected messages ----------------------------------------------------------------------------------------------------


async def rejected(request: PageRequest) -> Response:
    """Shows rejected messages, newest first."""

    async def read(before: int | None, after: int | None, limit: int) -> list[RejectedRecord]:
        return await request.read(
            request.store.rejected, request.tenant_id, before_id=before, after_id=after, limit=limit
        )

    page = await turn(PAGE, *positions(request.form), read)
    return request.page("rejected.html", messages=page.items, page=page)


async def rejected_message(request: PageRequest) -> Response:
    """Shows one of them, with the place of the error marked."""
    result = await _rejected(request)
    shown = await request.read(excerpt, result.body, result.line, result.column)
    return request.page("rejected_message.html", message=result, excerpt=shown)


async def download(request: PageRequest) -> Response:
    """Sends the body of one, as it was published."""
    result = await _rejected(request)
    return pages.download(result.body, f"rejected-{result.id}")


async def remove_rejected(request: PageRequest) -> Response:
    """Removes one for good."""
    result = await _rejected(request)
    await request.context.broker.change(lambda transaction: transaction.remove_rejected([result.id]))
    return request.go(pages.link("/rejected"), "The rejected message is removed.")


async def _rejected(request: PageRequest) -> RejectedRecord:
    return await find_rejected(request.context, request.tenant_id, request.form.number("id", 0))


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
    """Returns the part of a body around a place (line and column from 1), or its start."""
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
