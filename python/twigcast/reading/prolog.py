"""Removal of the XML declaration and the document type from messages."""

from __future__ import annotations

import re
from pyexpat import ParserCreate
from typing import Final

_DECLARATION: Final = re.compile(rb"<\?xml[ \t\r\n][^>]*\?>[ \t\r\n]*")


def without_doctype(message: bytes) -> bytes:
    """Returns a well-formed message in UTF-8 without its document type, which may name files."""
    if b"<!DOCTYPE" not in message:
        return message
    positions: list[int] = []
    parser = ParserCreate("utf-8")
    parser.StartDoctypeDeclHandler = lambda *_: positions.append(parser.CurrentByteIndex)
    parser.EndDoctypeDeclHandler = lambda: positions.append(parser.CurrentByteIndex)
    parser.Parse(message, True)
    if len(positions) != 2:  # it occurs in text or in a comment
        return message
    start = message.rindex(b"<!DOCTYPE", 0, positions[0] + len(b"<!DOCTYPE"))
    return message[:start] + message[message.index(b">", positions[1]) + 1 :]


def without_prolog(message: bytes) -> bytes:
    """Returns a well-formed message in UTF-8 without what may not stand inside an element.

    That is the XML declaration and the document type.
    """
    plain = without_doctype(message.removeprefix(b"\xef\xbb\xbf"))
    declaration = _DECLARATION.match(plain)
    return plain[declaration.end() :] if declaration else plain
