"""Removal of the XML declaration from messages."""

from __future__ import annotations

import re
from typing import Final

from twigcast.reading.conversion import to_document

_DECLARATION: Final = re.compile(rb"<\?xml[ \t\r\n][^>]*\?>[ \t\r\n]*")


def without_prolog(message: bytes) -> bytes:
    """Returns a message in UTF-8 without what may not stand inside an element: XML declaration and document type.

    Raises:
        RejectedMessage: The message cannot be converted.
    """
    plain = to_document(message)
    declaration = _DECLARATION.match(plain)
    return plain[declaration.end() :] if declaration else plain
