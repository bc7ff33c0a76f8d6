"""Conversion of messages that the scanner does not read as they are: other encodings, and DOCTYPEs that matter.

A message in another encoding than UTF-8 is decoded strictly, without a parser. The declared ``encoding`` is replaced by
spaces, so every line and column stays the same. A message to which its DOCTYPE adds something, by entities or
attributes, is written again by the compiled engine with these in place. Neither files nor the network are ever read for
a message: an entity that is not declared in it, or is external, is an error.
"""

import codecs
import io
import re
from typing import Final

from twigcast.errors import MalformedMessage, MessageLimitExceeded
from twigcast.limits import Limits
from twigcast.reading.document_types import DocumentTypes

_ASCII_PROBE: Final = bytes(range(0x20, 0x7F))

_CODECS_THAT_ARE_NO_CHARSETS: Final = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
)

_STATEFUL_CODECS: Final = frozenset(
    {
        "hz",
        "iso2022_jp",
        "iso2022_jp_1",
        "iso2022_jp_2",
        "iso2022_jp_2004",
        "iso2022_jp_3",
        "iso2022_jp_ext",
        "iso2022_kr",
    }
)
"""Codecs in which ASCII bytes can mean other characters."""

_DECLARED_ENCODING = re.compile(
    r"""<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(?:"[^"<>]*"|'[^'<>]*')"""
    r"""(?P<field>[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(?P<quote>["'])(?P<name>[A-Za-z][A-Za-z0-9._-]*)(?P=quote))"""
)

_DOCTYPE: Final = b"<!DOCTYPE"

_SLICE: Final = 1 << 20
"""Bytes that one call works on. A thread that converts a large message would keep all others waiting during a call."""

_DECLARATION_BYTES_MAX: Final = 4_096
"""Bytes of a message of which the beginning may declare its encoding."""

_NO_TYPES: Final = DocumentTypes()


def to_utf8(data: bytes, bytes_max: int = Limits().message_bytes_max, types: DocumentTypes = _NO_TYPES) -> bytes:
    """Converts a message to UTF-8 without byte-order mark, declared encoding and DOCTYPE.

    The result means the same as ``data``: entities are expanded (and merge with the text around them), and attribute
    defaults are added; everything else is unchanged. Spaces replace the DOCTYPE, so that lines and columns stay the
    same up to the first change; declarations of ID attributes remain. The result is not checked for well-formedness.

    Args:
        data: The message, in any encoding that Python knows by the name that the message declares.
        bytes_max: Bytes that the answer may have.
        types: Document types that apply besides the one that the message declares.

    Raises:
        MalformedMessage: The bytes do not fit the encoding, the encoding is unknown or contradicts the bytes, or there
            is a DOCTYPE and it is malformed, or an entity is external or not declared.
        MessageLimitExceeded: The answer would have more than ``bytes_max`` bytes, or entities expand without measure.
    """
    return _converted(data, bytes_max, types)[0]


def to_document(data: bytes, bytes_max: int = Limits().message_bytes_max, types: DocumentTypes = _NO_TYPES) -> bytes:
    """Converts a message to the one document that is delivered of it, however that is delivered.

    It is as :func:`to_utf8` makes it, but nothing stands where the DOCTYPE stood: a subscriber's parser could read what
    that names.
    """
    xml, start, end = _converted(data, bytes_max, types)
    return _without(xml, start, end) if start < end else xml


def all_forms(data: bytes, bytes_max: int = Limits().message_bytes_max) -> tuple[bytes, bytes, bytes | None]:
    """Returns a message in UTF-8 as :func:`to_utf8` and as :func:`to_document` do, with one expansion.

    Without a DOCTYPE it comes back as it is. The third form is a short DOCTYPE with the ID attributes that it declares.
    """
    if not _has(_DOCTYPE, data):
        return data, data, None
    xml, start, end = _converted(data, bytes_max, _NO_TYPES)
    return xml, _without(xml, start, end), xml[start:end].strip() or None


def both_forms(
    data: bytes, bytes_max: int = Limits().message_bytes_max, types: DocumentTypes = _NO_TYPES
) -> tuple[bytes, bytes]:
    """Returns a message as :func:`to_utf8` and as :func:`without_doctype` do, with one expansion."""
    xml, start, end = _converted(data, bytes_max, types)
    if start < end:
        return xml, _without(xml, start, end)
    return xml, xml if expands(data, types) else data


def _without(data: bytes, start: int, end: int) -> bytes:
    # Copied once: a copy of a large message is one long call.
    return b"".join((memoryview(data)[:start], memoryview(data)[end:]))


def without_doctype(
    data: bytes, bytes_max: int = Limits().message_bytes_max, types: DocumentTypes = _NO_TYPES
) -> bytes:
    """Returns a message as it came if it has no DOCTYPE, in whatever encoding; else its :func:`to_document`."""
    return to_document(data, bytes_max, types) if _has(_DOCTYPE, data) or expands(data, types) else data


def expands(data: bytes, types: DocumentTypes) -> bool:
    """Returns whether document types that do not stand in a message may change it."""
    if types == _NO_TYPES:
        return False
    # One character is found sooner than many.
    return types.dtd is not None or _has(b"&", data) or _has(_DOCTYPE, data)


def _has(markup: bytes, data: bytes) -> bool:
    """Returns whether markup occurs in a message, in whatever encoding."""
    utf16 = _utf16_codec(data)
    return _is_in(markup if utf16 is None else markup.decode().encode(utf16), data)


def _is_in(wanted: bytes, data: bytes) -> bool:
    more = len(wanted) - 1
    return any(data.find(wanted, start, start + _SLICE + more) >= 0 for start in range(0, len(data), _SLICE))


def _converted(data: bytes, bytes_max: int, types: DocumentTypes) -> tuple[bytes, int, int]:
    """Returns a message as :func:`to_utf8` does, with the start and the end of what stands for its DOCTYPE."""
    utf8 = _decoded(data)
    if utf8[:3] == codecs.BOM_UTF8 or b"\0" in utf8[:2]:
        raise MalformedMessage(1, 1, "the message does not start with markup")
    if expands(utf8, types) or _is_in(_DOCTYPE, utf8):
        return types.expanded(utf8, bytes_max)
    if len(utf8) > bytes_max:
        raise _too_long(bytes_max)
    return utf8, 0, 0


def recoded(data: bytes, transport: str | None = None, bytes_max: int = Limits().message_bytes_max) -> bytes:
    """Converts a message to UTF-8 and leaves everything else as it was sent, including its DOCTYPE.

    The encoding is named by the byte-order mark, the transport or the declaration, in this order of precedence
    (RFC 7303). A byte-order mark is removed. A declaration that no longer holds is replaced by spaces, which keeps
    lines and columns.

    Args:
        data: The message. It need not be well-formed.
        transport: The ``charset`` that the transport names.
        bytes_max: Bytes that the answer may have.

    Raises:
        MalformedMessage: The bytes do not fit the encoding, or the encoding is unknown or contradicts the bytes.
        MessageLimitExceeded: The answer would have more than ``bytes_max`` bytes.
    """
    if transport is None or data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)):
        if _is_plain(data):
            return data
        utf8 = _decoded(data, bytes_max)
        if utf8.startswith(codecs.BOM_UTF8):
            # A reader of the result would take the second mark for the only one.
            raise MalformedMessage(1, 1, "the message does not start with markup")
    else:
        codec = _transport_codec(transport)
        if codec == "utf-8" and _is_plain(data):
            return data
        utf8 = _in_utf8(data, codec, bytes_max)
    if len(utf8) > bytes_max:
        raise _too_long(bytes_max)
    return utf8


def _is_plain(data: bytes) -> bool:
    """Returns whether a message can be UTF-8 without a byte-order mark, and declares nothing else."""
    if data.startswith(b"<?xml"):
        declared = _DECLARED_ENCODING.match(_ascii_prefix(data))
        return declared is None or declared["name"].lower() in {"utf-8", "us-ascii", "ascii"}
    return data[:1] not in {b"\xef", b"\xfe", b"\xff", b"\x00"} and data[1:2] != b"\x00"


def _transport_codec(name: str) -> str:
    try:
        codec = codecs.lookup(name).name
        # Some of Python's codecs do not return text, which shows only when they are used.
        bytes(4).decode(codec)
    except UnicodeError:
        pass
    except (LookupError, ValueError):
        codec = ""
    if not codec or codec in _CODECS_THAT_ARE_NO_CHARSETS:
        raise MalformedMessage(1, 1, f"the transport names the encoding {name!r}, which is unknown")
    # UTF-16 without a mark is big-endian (RFC 2781).
    return "utf-16-be" if codec == "utf-16" else codec


def _decoded(data: bytes, bytes_max: int | None = None) -> bytes:
    """Returns a message in UTF-8 without byte-order mark, with spaces in place of the declared encoding."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise MalformedMessage(1, 1, "the message is UTF-32, which XML processors need not read; send UTF-8 or UTF-16")
    utf16 = _utf16_codec(data)
    if utf16:
        mark = codecs.BOM_UTF16_BE if utf16 == "utf-16be" else codecs.BOM_UTF16_LE
        start = len(mark) if data.startswith(mark) else 0
        beginning = data[start : start + 2 * _DECLARATION_BYTES_MAX].decode(utf16, "replace").partition(">")[0]
        declared = _DECLARED_ENCODING.match(beginning)
        if declared and declared["name"].lower() not in {"utf-16", utf16, utf16.replace("16", "16-")}:
            raise _conflict(declared, "is UTF-16")
        return _in_utf8(data, utf16, bytes_max, start)
    marked = data.startswith(codecs.BOM_UTF8)
    head = data[len(codecs.BOM_UTF8) :] if marked else data
    declared = _DECLARED_ENCODING.match(_ascii_prefix(head))
    codec = _codec(declared) if declared else "utf-8"
    if declared and marked and codec not in {"utf-8", "ascii"}:
        raise _conflict(declared, "starts with the byte-order mark of UTF-8")
    # All codecs but the stateful ones have ASCII in them. What has a DOCTYPE is checked by its expansion.
    if (codec not in _STATEFUL_CODECS and head.isascii()) or (codec == "utf-8" and _is_in(_DOCTYPE, head)):
        return _undeclared(head)
    return _in_utf8(head, codec, bytes_max)


def _utf16_codec(data: bytes) -> str | None:
    """Returns the codec of a message in UTF-16, by its byte order, or ``None``."""
    if data.startswith(codecs.BOM_UTF16_BE) or (len(data) > 1 and data[0] == 0):
        return "utf-16be"
    if data.startswith(codecs.BOM_UTF16_LE) or (len(data) > 1 and data[1] == 0):
        return "utf-16le"
    return None


def _ascii_prefix(data: bytes) -> str:
    """Returns the possible XML declaration: everything before the first ``>``."""
    end = data.find(b">") if data.startswith(b"<?xml") else -1
    return data[: max(end, 0)].decode("latin-1")


def charset(name: str) -> str | None:
    """Returns the codec of a declared encoding, or ``None`` if it contradicts ASCII, in which declarations are read.

    Raises:
        LookupError: The encoding is unknown.
    """
    codec = codecs.lookup(name).name
    try:
        agrees = codec not in _CODECS_THAT_ARE_NO_CHARSETS and _ASCII_PROBE.decode(codec) == _ASCII_PROBE.decode()
    except UnicodeError:
        return None
    return codec if agrees else None


def _codec(declared: re.Match[str]) -> str:
    """Returns the codec of the encoding that a message declares."""
    name = declared["name"]
    try:
        codec = charset(name)
    except LookupError:
        raise _declaration_error(declared, f"the message declares the encoding {name!r}, which is unknown") from None
    if codec is None and codecs.lookup(name).name in _CODECS_THAT_ARE_NO_CHARSETS:
        raise _declaration_error(declared, f"the message declares the encoding {name!r}, which documents cannot be in")
    if codec is None:
        raise _declaration_error(declared, f"the message declares the encoding {name!r}, but its bytes are not in it")
    return codec


def _conflict(declared: re.Match[str], fact: str) -> MalformedMessage:
    return _declaration_error(declared, f"the message declares the encoding {declared['name']!r}, but {fact}")


def _declaration_error(declared: re.Match[str], reason: str) -> MalformedMessage:
    line, column = _position(declared.string[: declared.start("name")])
    return MalformedMessage(line, column, reason)


def _in_utf8(data: bytes, codec: str, bytes_max: int | None = None, start: int = 0) -> bytes:
    """Returns a message that begins at ``start`` in UTF-8, with spaces in place of the encoding that it declares.

    Raises MalformedMessage at the first bytes that mean nothing in their encoding, and MessageLimitExceeded.
    """
    decoder = codecs.getincrementaldecoder(codec)()
    # It gives its bytes away as they are: the last copy of a large message would be one long call.
    results, before = io.BytesIO(), decoder.getstate()
    try:
        while start < len(data):
            text = decoder.decode(data[start : start + _SLICE], start + _SLICE >= len(data))
            results.write(text.encode())
            start, before = start + _SLICE, decoder.getstate()
            if bytes_max is not None and results.tell() > bytes_max:
                raise _too_long(bytes_max)
    except UnicodeDecodeError as error:
        wrong = error.object[error.start : error.end][:4]
        # The codec was given some bytes of the slice before, if they were not a character yet.
        good = max(0, min(len(data) - start, _SLICE) - len(error.object) + error.start)
        lenient = codecs.getincrementaldecoder(codec)("replace")
        lenient.setstate(before)
        results.write(lenient.decode(data[start : start + good]).encode())
        line, column = _place_behind(results.getvalue().removeprefix(codecs.BOM_UTF8))
        reason = f"the bytes 0x{wrong.hex().upper()} mean nothing in the encoding {codec!r}"
        raise MalformedMessage(line, column, reason) from None
    except UnicodeError as error:
        # Some codecs fail without a position.
        raise MalformedMessage(1, 1, f"the bytes are not in the encoding {codec!r}: {error}") from None
    head = _ascii_prefix(bytes(results.getbuffer()[:_DECLARATION_BYTES_MAX]))
    if (declared := _DECLARED_ENCODING.match(head)) is not None:
        results.seek(0)
        results.write(_blanked(head, declared).encode("latin-1"))
    return results.getvalue()


def _place_behind(before: bytes) -> tuple[int, int]:
    """Returns line and column, from 1, of what follows some UTF-8."""
    starts = range(0, len(before), _SLICE)
    ends = sum(before.count(end, start, start + _SLICE) for end in (b"\n", b"\r") for start in starts)
    ends -= sum(before.count(b"\r\n", start, start + _SLICE + 1) for start in starts)
    begin = max(before.rfind(b"\n"), before.rfind(b"\r")) + 1
    decoder = codecs.getincrementaldecoder("utf-8")()
    starts = range(begin, len(before), _SLICE)
    return ends + 1, sum(len(decoder.decode(before[start : start + _SLICE])) for start in starts) + 1


def _undeclared(utf8: bytes) -> bytes:
    """Returns a message in UTF-8 with spaces in place of the encoding that it declares."""
    declared = _DECLARED_ENCODING.match(_ascii_prefix(utf8))
    if declared is None:
        return utf8
    end = declared.end()
    return _blanked(utf8[:end].decode("latin-1"), declared).encode("latin-1") + utf8[end:]


def _blanked(text: str, declared: re.Match[str] | None) -> str:
    """Returns ``text`` with spaces in place of the declared encoding, which no longer holds. Line ends are kept."""
    if not declared:
        return text
    start, end = declared.span("field")
    return text[:start] + re.sub(r"[^\r\n]", " ", text[start:end]) + text[end:]


def without_declared_encoding(text: str) -> str:
    """Returns decoded text with spaces in place of the encoding that it declares, which no longer holds."""
    return _blanked(text, _DECLARED_ENCODING.match(text))


def _position(before: str) -> tuple[int, int]:
    """Returns line and column, from 1, of what follows ``before``."""
    lines = re.split(r"\r\n|\r|\n", before)
    return len(lines), len(lines[-1]) + 1


def _too_long(bytes_max: int) -> MessageLimitExceeded:
    return MessageLimitExceeded("message_bytes_max", bytes_max, "the message is too long once it is plain UTF-8")
