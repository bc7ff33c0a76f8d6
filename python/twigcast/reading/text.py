"""Messages as bytes, from any form in which callers pass them, and strings that cannot be encoded."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from twigcast.errors import MalformedMessage, SourceError

MessageLike = bytes | bytearray | memoryview | str | os.PathLike[str]
"""A message: bytes, decoded text (whose encoding declaration no longer counts), or the path of a file."""

NO_CHARACTER: Final = "half of a surrogate pair is no character"


def half_pair(text: str) -> int | None:
    """Returns the index of the first half of a surrogate pair in a string, or ``None``."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


_DECLARED_ENCODING = re.compile(r"""\A(<\?xml\s+version\s*=\s*["'][^"']*["'])(\s+encoding\s*=\s*(?:"[^"]*"|'[^']*'))""")


def as_bytes(message: MessageLike) -> bytes:
    """Returns a message as bytes.

    The declared encoding of decoded text no longer holds. It is replaced by spaces, which keeps lines and columns.
    """
    if isinstance(message, bytes):
        return message
    if isinstance(message, str):
        text = _DECLARED_ENCODING.sub(lambda result: result[1] + " " * len(result[2]), message, count=1)
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            column = error.start - text.rfind("\n", 0, error.start)
            raise MalformedMessage(line, column, NO_CHARACTER) from None
    if isinstance(message, bytearray | memoryview):
        return bytes(message)
    try:
        path = os.fspath(message)
    except TypeError:
        raise TypeError(f"message must be bytes, str or a path, not {type(message).__name__}") from None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SourceError(path, f"it cannot be read: {error.strerror}") from None
