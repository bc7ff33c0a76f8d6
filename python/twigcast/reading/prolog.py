"""What stands before the root element of a message, taken off."""

from __future__ import annotations

import re
from pyexpat import ParserCreate
from typing import Final

_DECLARATION: Final = re.compile(rb"<\?xml[ \t\r\n][^>]*\?>[ \t\r\n]*")


def without_doctype(message: bytes) -> bytes:
    """A well-formed message in UTF-8 without its document type, which may name files."""
    if b"<!DOCTYPE" not in message:
        return message
    positions: list[int] = []
    parser = ParserCreate("utf-8")
    parser.StartDoctypeDeclHandler = lambda *_: positions.append(parser.CurrentByteIndex)
    parser.EndDoctypeDeclHandler = lambda: positions.append(parser.CurrentByteIndex)
    parser.Parse(message, True)
    if len(positions) != 2:  # the words stand in a text or comment
        return message
    start = message.rindex(b"<!DOCTYPE", 0, positions[0] + len(b"<!DOCTYPE"))
    return message[:start] + message[message.index(b">", positions[1]) + 1 :]


def without_prolog(message: bytes) -> bytes:
    """A well-formed message in UTF-8 without its XML declaration and document type, fit to stand inside an element."""
    plain = without_doctype(message.removeprefix(b"\xef\xbb\xbf"))
    declaration = _DECLARATION.match(plain)
    return plain[declaration.end() :] if declaration else plain
