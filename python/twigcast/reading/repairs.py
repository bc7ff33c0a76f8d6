"""Repairs of messages that are not well-formed in ways that are seen often. Only done on request; each one is counted.

- white space before the XML declaration goes
- references to entities of HTML that neither the message nor a DTD declares become their characters
- control characters that XML does not allow, and references to them, become spaces
- bytes that are not UTF-8, in what says that it is, are read as Windows-1252

What is right stays as it is, byte for byte, and what is wrong otherwise is still rejected. A message in UTF-16 is
repaired, too, and becomes UTF-8 by that.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from html.entities import html5
from typing import Final

from twigcast.reading.conversion import without_declared_encoding
from twigcast.reading.repair_counts import BLANK_START, CONTROL_CHARACTERS, HTML_ENTITIES, WINDOWS_1252, RepairCounts
from twigcast.reading.streams import ByteStream

_BLANK_START: Final = re.compile(rb"\A(\xef\xbb\xbf)?[ \t\r\n]+(?=<\?xml[ \t\r\n])")
_DECLARED: Final = re.compile(rb"""<\?xml\s[^>]*?\sencoding\s*=\s*["']([A-Za-z][\w.\-]*)["']""")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_REFERENCE: Final = re.compile(
    rb"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|&(?:#(x[0-9A-Fa-f]{1,6}|[0-9]{1,7})|([A-Za-z][A-Za-z0-9]{1,31}));",
    re.DOTALL,
)
_PREDEFINED: Final = frozenset({b"amp", b"lt", b"gt", b"quot", b"apos"})
_UNCLOSED: Final = re.compile(rb"<!\[CDATA\[(?!.*?\]\]>)|<!--(?!.*?-->)|<\?(?!.*?\?>)", re.DOTALL)
_ENTITY: Final = re.compile(rb"<!ENTITY\s+([^\s%]+)")
_DECLARATION: Final = re.compile(
    rb"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|(<\?xml\s.*?\?>)|<\?.*?(?:\?>|\Z)", re.DOTALL
)
_PIECE_BYTES: Final = 1 << 18
_START_BYTES: Final = 4


def _nothing(_: str) -> bool:
    return False


def repaired(data: bytes, counts: RepairCounts, declares: Callable[[str], bool] = _nothing) -> bytes:
    """Returns a message with its repairs, which are counted. If there are any, UTF-16 becomes UTF-8.

    ``declares``: whether an entity is declared outside of the message.
    """
    utf16 = _utf16(data)
    if utf16 is None:
        return _Repairer(counts, declares).repair(data)
    try:
        text = data.decode(utf16).removeprefix("\ufeff")
    except UnicodeError:
        return data  # the reader of the message reports the fault
    before = counts.total
    result = _Repairer(counts, declares, was_utf16=True).repair(text.encode())
    return data if counts.total == before else result


def _utf16(start: bytes) -> str | None:
    """Returns the codec of what starts as UTF-16 does."""
    if start.startswith(codecs.BOM_UTF16_BE) or (len(start) > 1 and start[0] == 0):
        return "utf-16-be"
    if start.startswith(codecs.BOM_UTF16_LE) or (len(start) > 1 and start[1] == 0):
        return "utf-16-le"
    return None


class _Repairer:
    """Repairs the pieces of one document, or of several."""

    def __init__(self, counts: RepairCounts, declares: Callable[[str], bool], *, was_utf16: bool = False) -> None:
        self._counts = counts.by_kind
        self._declares = declares
        self._was_utf16 = was_utf16
        self._is_utf8 = not was_utf16
        # What the message declares itself is no entity of HTML.
        self._declared: set[bytes] = set()
        self._is_start = True

    def repair(self, piece: bytes) -> bytes:
        """Returns a piece that ends outside of tags, references, comments and the like, with its repairs."""
        if self._is_start:
            piece, count = _BLANK_START.subn(lambda start: start[1] or b"", piece, count=1)
            self._count(BLANK_START, count)
            self._is_start = False
        if b"<!ENTITY" in piece:
            self._declared.update(_ENTITY.findall(piece))
        if b"<?xml" not in piece:
            return self._in_one_encoding(piece)
        # Each of several documents has its own encoding.
        parts, at = [], 0
        for found in _DECLARATION.finditer(piece):
            if (declaration := found[1]) is None:
                continue
            parts.append(self._in_one_encoding(piece[at : found.start()]))
            at = found.end()
            declared = _DECLARED.match(declaration)
            if self._was_utf16:
                declaration = without_declared_encoding(declaration.decode()).encode()
            else:
                self._is_utf8 = declared is None or declared[1].lower() in (b"utf-8", b"utf8")
            parts.append(declaration)
        return b"".join([*parts, self._in_one_encoding(piece[at:])])

    def _in_one_encoding(self, piece: bytes) -> bytes:
        if self._is_utf8:
            piece = self._in_utf8(piece)
        piece, count = _CONTROL.subn(b" ", piece)
        self._count(CONTROL_CHARACTERS, count)
        return _REFERENCE.sub(self._reference, piece) if b"&" in piece else piece

    def _count(self, kind: str, count: int) -> None:
        if count:
            self._counts[kind] += count

    def _in_utf8(self, piece: bytes) -> bytes:
        pieces: list[bytes] = []
        while True:
            try:
                piece.decode()
            except UnicodeDecodeError as error:
                wrong = piece[error.start : error.end]
                self._count(WINDOWS_1252, len(wrong))
                pieces.append(piece[: error.start])
                # Five bytes mean nothing in Windows-1252; browsers take them for control characters.
                pieces += [bytes([byte]).decode("cp1252", "latin_1_for_the_rest").encode() for byte in wrong]
                piece = piece[error.end :]
                continue
            return b"".join([*pieces, piece]) if pieces else piece

    def _reference(self, found: re.Match[bytes]) -> bytes:
        number, name = found.groups()
        if number is not None:
            code = int(number[1:], 16) if number.startswith(b"x") else int(number)
            if code in (9, 10, 13) or code >= 32:
                return found[0]
            self._count(CONTROL_CHARACTERS, 1)
            return b" "
        if name is None or name in _PREDEFINED or name in self._declared or self._declares(name.decode()):
            return found[0]
        value = html5.get(f"{name.decode()};")
        if value is None:
            return found[0]
        self._count(HTML_ENTITIES, 1)
        return "".join(f"&#{ord(character)};" for character in value).encode()


def _latin_1(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("latin_1_for_the_rest", _latin_1)


def _illegal(error: UnicodeError) -> tuple[str, int]:
    """Returns a character that no message may contain, so that the message is rejected at this position."""
    assert isinstance(error, UnicodeDecodeError)
    return "\uffff", error.end


codecs.register_error("illegal_in_xml", _illegal)


class RepairingStream:
    """A stream that repairs the bytes of another one: see :func:`repaired`. UTF-16 becomes UTF-8."""

    def __init__(self, stream: ByteStream, counts: RepairCounts, declares: Callable[[str], bool] = _nothing) -> None:
        self._read = getattr(stream, "read1", stream.read)
        self._counts = counts
        self._declares = declares
        self._repairer: _Repairer | None = None
        self._decoder: codecs.IncrementalDecoder | None = None
        self._rest = b""

    def read(self, size: int = -1, /) -> bytes:
        """Returns what has arrived with its repairs, of any length, and nothing at the end."""
        while True:
            piece = self._read(size if size > 0 else _PIECE_BYTES)
            is_end = not piece
            if self._repairer is None:
                piece = self._rest + piece
                self._rest = piece if len(piece) < _START_BYTES and not is_end else b""
                if self._rest:
                    continue
                piece = self._begin(piece)
            elif self._decoder is not None:
                piece = self._decoder.decode(piece, final=is_end).encode()
            self._rest += piece
            end = len(self._rest) if is_end else self._rest.rfind(b">") + 1
            if not is_end and (unclosed := _UNCLOSED.search(self._rest, 0, end)):
                end = unclosed.start()
            if (end or is_end) and self._repairer is not None:
                whole, self._rest = self._rest[:end], self._rest[end:]
                return self._repairer.repair(whole)

    def _begin(self, start: bytes) -> bytes:
        """Chooses how to read the stream by its first bytes, and returns these in UTF-8."""
        utf16 = _utf16(start)
        self._repairer = _Repairer(self._counts, self._declares, was_utf16=utf16 is not None)
        if utf16 is None:
            return start
        self._decoder = codecs.getincrementaldecoder(utf16)(errors="illegal_in_xml")
        return self._decoder.decode(start).removeprefix("\ufeff").encode()
