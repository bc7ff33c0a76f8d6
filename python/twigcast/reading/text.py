"""Messages as bytes, from any form in which callers pass them, and strings that cannot be encoded."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import Any, Final, Protocol

from twigcast.errors import MalformedMessage, MessageLimitExceeded, SourceError
from twigcast.reading.unpacking import is_packed, unpacked, why_unread


class ReadableFile(Protocol):
    """An open file, in binary or as text: also ``io.BytesIO``, a response of a server, a member of an archive."""

    def read(self) -> bytes | str:
        """Returns the rest of the file."""


class ParsedElement(Protocol):
    """An element of a tree that lxml or ``xml.etree`` has parsed."""

    @property
    def tag(self) -> Any:
        """Its name."""

    @property
    def attrib(self) -> Any:
        """Its attributes."""


class ParsedTree(Protocol):
    """A tree that lxml or ``xml.etree`` has parsed."""

    def getroot(self) -> Any:
        """Returns its outermost element."""


MessageLike = bytes | bytearray | memoryview | str | os.PathLike[str] | ReadableFile | ParsedElement | ParsedTree
"""A message: bytes, decoded text (whose encoding declaration no longer counts), the path of a file (``pathlib.Path``),
which may be compressed, an open file, or an element or tree of lxml or ``xml.etree``."""

_SHOWN_CHARACTERS: Final = 80
"""Characters of a text that an error repeats."""

NO_CHARACTER: Final = "half of a surrogate pair is no character"


def half_pair(text: str) -> int | None:
    """Returns the index of the first half of a surrogate pair in a string, or ``None``."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


_PATH_LIKE: Final = re.compile(r"\s*[^<>\n]{0,4000}?([/\\][^<>\n]*|\.\w{1,5}(\.\w{1,3})?)\s*")
"""Text that cannot be XML, and has a slash or ends like the name of a file."""

_DECLARED_ENCODING = re.compile(r"""\A(<\?xml\s+version\s*=\s*["'][^"']*["'])(\s+encoding\s*=\s*(?:"[^"]*"|'[^']*'))""")


_BYTES_MAX: Final = (1 << 32) - 2
"""More bytes no message has."""


def as_bytes(message: MessageLike, bytes_max: int = _BYTES_MAX) -> bytes:
    """Returns a message as bytes.

    The declared encoding of decoded text no longer holds. It is replaced by spaces, which keeps lines and columns.

    Args:
        message: The message.
        bytes_max: Bytes that a compressed file may expand to.

    Raises:
        MalformedMessage: It is a text that no message can be.
        MessageLimitExceeded: It is a compressed file of more bytes.
        SourceError: It is a file that cannot be read.
        TypeError: It is in none of the forms of a message.
    """
    if isinstance(message, bytes):
        return message
    if isinstance(message, str):
        if "<" not in message and _PATH_LIKE.fullmatch(message):
            what = f"this is the text {_shortened(message)}, which is no XML but looks like the path of a file"
            raise MalformedMessage(1, 1, f"{what}; for the message in that file pass pathlib.Path({message!r})")
        text = _DECLARED_ENCODING.sub(lambda result: result[1] + " " * len(result[2]), message, count=1)
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            column = error.start - text.rfind("\n", 0, error.start)
            raise MalformedMessage(line, column, NO_CHARACTER) from None
    if isinstance(message, bytearray | memoryview):
        return bytes(message)
    if isinstance(message, os.PathLike):
        return _read_file(os.fspath(message), bytes_max)
    # Beautiful Soup has whatever attribute it is asked for: a child of that name, or None.
    if callable(getattr(message, "read", None)):
        return _read_open_file(message, bytes_max)
    parsed = _serialised(message)
    if parsed is None:
        parsed = _exported(message)
    if parsed is None:
        kind = type(message)
        soup = ": pass str(message)" if kind.__module__.partition(".")[0] == "bs4" else ""
        what = "bytes, str, a path, an open file, or an element of lxml or xml.etree"
        raise TypeError(f"message must be {what}, not {kind.__name__}{soup}")
    return parsed


def is_null(message: object) -> bool:
    """Returns whether a value of Arrow is null."""
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(message, arrow.Scalar) and not message.is_valid


def _exported(message: Any) -> bytes | None:
    """Returns a value of Arrow, or what exports its bytes, as a message; ``None`` for anything else."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(message, arrow.Scalar):
        value = message.as_py()
        return as_bytes(value) if isinstance(value, bytes | str) else None
    try:
        view = memoryview(message)
    except TypeError:
        return None
    return bytes(view) if view.format in ("B", "b", "c") and view.ndim == 1 else None


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}...")


def _read_file(path: str, bytes_max: int) -> bytes:
    from pathlib import Path

    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise SourceError(path, f"it cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _unpacked(data, path, bytes_max)


def _read_open_file(file: Any, bytes_max: int) -> bytes:
    data = file.read()
    if not isinstance(data, bytes | bytearray | memoryview | str):
        raise TypeError(f"a file must be read as bytes or str; read() of this one returns {type(data).__name__}")
    if isinstance(data, str):
        return as_bytes(data)
    name = getattr(file, "name", None)
    return _unpacked(bytes(data), name if isinstance(name, str) else "the file", bytes_max)


def _unpacked(data: bytes, name: str, bytes_max: int) -> bytes:
    """Returns what is in a file that may be compressed."""
    plain = data
    if is_packed(data):
        try:
            plain = unpacked(io.BytesIO(data)).read(bytes_max + 1)
        except (OSError, ValueError) as error:
            raise SourceError(name, f"it cannot be read: {error}") from None
        if len(plain) > bytes_max:
            too_long = "the message is too long once it is decompressed"
            raise MessageLimitExceeded("message_bytes_max", bytes_max, too_long)
    if (reason := why_unread(plain[:16], name, is_document=True)) is not None:
        raise SourceError(name, reason)
    return plain


def _serialised(message: Any) -> bytes | None:
    """Returns an element or a tree of lxml or ``xml.etree`` as a message; ``None`` for anything else.

    The library has been imported, or there would be no such object. What follows the end tag is not the element's.
    """
    lxml, etree = sys.modules.get("lxml.etree"), sys.modules.get("xml.etree.ElementTree")
    if lxml is not None and isinstance(message, lxml._Element | lxml._ElementTree):
        return bytes(lxml.tostring(message, encoding="UTF-8", with_tail=False))
    if etree is not None and isinstance(message, etree.ElementTree):
        message = message.getroot()
    if etree is not None and isinstance(message, etree.Element):
        tail, message.tail = message.tail, None
        try:
            return bytes(etree.tostring(message, encoding="UTF-8"))
        finally:
            message.tail = tail
    return None
