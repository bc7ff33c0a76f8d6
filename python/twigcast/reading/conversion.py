"""Conversion of messages that the compiled scanner does not read: other encodings, and DOCTYPEs with declarations.

A message in another encoding than UTF-8 is decoded strictly, without a parser. The declared ``encoding`` is replaced by
spaces, so every line and column stays the same. A message whose DOCTYPE may declare something goes through expat, which
expands entities and adds attribute defaults, and is written again without the DOCTYPE. Expat's limits on amplification
stay on. Neither files nor the network are ever read: an external entity is skipped.
"""

import codecs
import re
from typing import Final
from xml.parsers import expat

from twigcast.errors import MalformedMessage, MessageLimitExceeded
from twigcast.limits import Limits

_ENTITIES_WITH_REFERENCES_MAX: Final = 1_000
"""The most entities whose text refers to other entities. Expat expands them recursively: this bounds its stack."""

_AMPLIFICATION_MAX: Final = 100
"""The factor by which entities may lengthen a message once they exceed 8 MiB: expat's own limit."""

_AMPLIFICATION_BREACH: Final = 43
"""Expat's ``XML_ERROR_AMPLIFICATION_LIMIT_BREACH``, which Python does not name."""

_NAMESPACE_SEPARATOR: Final = "\x0c"
"""The separator of namespace and local name, which no message can contain."""

_EXCERPT_CHARACTERS: Final = 30
"""The longest part of a message that a reason quotes."""

_ASCII_PROBE: Final = bytes(range(0x20, 0x7F))

_CODECS_THAT_ARE_NO_CHARSETS: Final = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
)

_DECLARED_ENCODING = re.compile(
    r"""<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(?:"[^"<>]*"|'[^'<>]*')"""
    r"""(?P<field>[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(?P<quote>["'])(?P<name>[A-Za-z][A-Za-z0-9._-]*)(?P=quote))"""
)

_DOCTYPE_WITHOUT_SUBSET = re.compile(rb"""<!DOCTYPE(?:[^"'\[<>]|"[^"\[<>]*"|'[^'\[<>]*')*+>""")

_OTHER_ENTITY = re.compile(rb"&(?!#|(?:amp|lt|gt|quot|apos);)")


def to_utf8(data: bytes, bytes_max: int = Limits().message_bytes_max) -> bytes:
    """Converts a message to UTF-8 without byte-order mark, declared encoding and DOCTYPE declarations.

    The result means the same as ``data``: entities are expanded (and merge with the text around them), attribute
    defaults are added, prefixes are kept, and CDATA sections may become escaped text. A message without a DOCTYPE, or
    whose DOCTYPE declares nothing, is only decoded and keeps its lines and columns; it still has to be scanned.

    Args:
        data: The message, in any encoding that Python knows by the name that the message declares.
        bytes_max: Bytes that the answer may have.

    Raises:
        MalformedMessage: The bytes do not fit the encoding, the encoding is unknown or contradicts the bytes, or
            (where there is a DOCTYPE) the message is not well-formed.
        MessageLimitExceeded: The answer would have more than ``bytes_max`` bytes, or entities expand without measure.
    """
    text = _decoded(data)
    if text[:1] in {"\ufeff", "\x00"} or text[1:2] == "\x00":
        raise MalformedMessage(1, 1, "the message does not start with markup")
    utf8 = text.encode()
    if b"<!DOCTYPE" in utf8 and not _declares_nothing(utf8):
        _check(utf8)
        utf8 = _Rewriter(bytes_max).rewrite(utf8)
    if len(utf8) > bytes_max:
        raise _too_long(bytes_max)
    return utf8


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
        utf8 = _decoded(data).encode()
        if utf8.startswith(codecs.BOM_UTF8):
            # A reader of the result would take the second mark for the only one.
            raise MalformedMessage(1, 1, "the message does not start with markup")
    else:
        codec = _transport_codec(transport)
        if codec == "utf-8" and _is_plain(data):
            return data
        text = _decode(data, codec)
        utf8 = _blanked(text, _DECLARED_ENCODING.match(text)).encode()
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


def _declares_nothing(utf8: bytes) -> bool:
    """Returns whether no DOCTYPE has an internal subset, and no entity is used that an external one might declare."""
    doctypes = utf8.count(b"<!DOCTYPE")
    return doctypes == len(_DOCTYPE_WITHOUT_SUBSET.findall(utf8)) and not _OTHER_ENTITY.search(utf8)


def _decoded(data: bytes) -> str:
    """Returns the text of a message without byte-order mark, with spaces in place of the declared encoding."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise MalformedMessage(1, 1, "the message is UTF-32, which XML processors need not read; send UTF-8 or UTF-16")
    utf16 = _utf16_codec(data)
    if utf16:
        text = _decode(data, utf16).removeprefix("\ufeff")
        declared = _DECLARED_ENCODING.match(text)
        if declared and declared["name"].lower() not in {"utf-16", utf16}:
            raise _conflict(declared, "is UTF-16")
        return _blanked(text, declared)
    marked = data.startswith(codecs.BOM_UTF8)
    head = data[len(codecs.BOM_UTF8) if marked else 0 :]
    declared = _DECLARED_ENCODING.match(_ascii_prefix(head))
    codec = _codec(declared) if declared else "utf-8"
    if declared and marked and codec not in {"utf-8", "ascii"}:
        raise _conflict(declared, "starts with the byte-order mark of UTF-8")
    return _blanked(_decode(head, codec), declared)


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


def _decode(data: bytes, codec: str) -> str:
    try:
        return data.decode(codec)
    except UnicodeDecodeError as error:
        line, column = _position(data[: error.start].decode(codec, "replace").removeprefix("\ufeff"))
        reason = f"the bytes 0x{data[error.start : error.end][:4].hex().upper()} mean nothing in the encoding {codec!r}"
        raise MalformedMessage(line, column, reason) from None
    except UnicodeError as error:
        # Some codecs fail without a position.
        raise MalformedMessage(1, 1, f"the bytes are not in the encoding {codec!r}: {error}") from None


def _blanked(text: str, declared: re.Match[str] | None) -> str:
    """Returns ``text`` with spaces in place of the declared encoding, which no longer holds. Line ends are kept."""
    if not declared:
        return text
    start, end = declared.span("field")
    return text[:start] + re.sub(r"[^\r\n]", " ", text[start:end]) + text[end:]


def _position(before: str) -> tuple[int, int]:
    """Returns line and column, from 1, of what follows ``before``."""
    lines = re.split(r"\r\n|\r|\n", before)
    return len(lines), len(lines[-1]) + 1


def _too_long(bytes_max: int) -> MessageLimitExceeded:
    return MessageLimitExceeded("message_bytes_max", bytes_max, "the message is too long once it is plain UTF-8")


def _check(utf8: bytes) -> None:
    """Rejects a message that is not namespace-well-formed, with the position in the message as it was sent."""
    parser = expat.ParserCreate("utf-8", _NAMESPACE_SEPARATOR)
    referring = 0

    def entity_declared(
        name: str,
        is_parameter_entity: bool,
        value: str | None,
        base: str | None,
        system_id: str,
        public_id: str | None,
        notation: str | None,
    ) -> None:
        nonlocal referring
        referring += value is not None and "&" in value
        if referring > _ENTITIES_WITH_REFERENCES_MAX:
            raise MessageLimitExceeded(
                "entities_with_references_max",
                _ENTITIES_WITH_REFERENCES_MAX,
                "too many entities refer to other entities",
                parser.CurrentLineNumber,
                parser.CurrentColumnNumber + 1,
            )

    def declaration(version: str, encoding: str | None, standalone: int) -> None:
        if version == "1.1":
            raise MalformedMessage(1, 1, "the message is XML 1.1, and only XML 1.0 is read")

    parser.EntityDeclHandler = entity_declared
    parser.XmlDeclHandler = declaration
    _parse(parser, utf8)


def _parse(parser: expat.XMLParserType, utf8: bytes) -> None:
    try:
        parser.Parse(utf8, True)
    except expat.ExpatError as error:
        if error.code == _AMPLIFICATION_BREACH:
            raise MessageLimitExceeded(
                "entity_amplification_max",
                _AMPLIFICATION_MAX,
                "the entities of the message expand to far more than the message itself",
                error.lineno,
                error.offset + 1,
            ) from None
        reason = expat.ErrorString(error.code) or "not well-formed"
        at = parser.ErrorByteIndex
        excerpt = utf8[at : at + 4 * _EXCERPT_CHARACTERS] if at >= 0 else b""
        near = excerpt.decode("utf-8", "replace")[:_EXCERPT_CHARACTERS]
        if near:
            reason = f"{reason}, at {near!r}"
        raise MalformedMessage(error.lineno, error.offset + 1, reason) from None


class _Rewriter:
    """A writer of what expat reads, without the DOCTYPE."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._length = 0
        self._pieces: list[str] = []
        self._in_doctype = False

    def rewrite(self, utf8: bytes) -> bytes:
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.ordered_attributes = True
        parser.StartDoctypeDeclHandler = self._start_doctype
        parser.EndDoctypeDeclHandler = self._end_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.CommentHandler = self._comment
        parser.ProcessingInstructionHandler = self._processing_instruction
        _parse(parser, utf8)
        return "".join(self._pieces).encode()

    def _write(self, piece: str) -> None:
        # There are at most as many characters as bytes: this stops in time, and the exact check comes at the end.
        self._length += len(piece)
        if self._length > self._bytes_max:
            raise _too_long(self._bytes_max)
        self._pieces.append(piece)

    def _start_doctype(self, name: str, system_id: str | None, public_id: str | None, has_subset: bool) -> None:
        self._in_doctype = True

    def _end_doctype(self) -> None:
        self._in_doctype = False

    def _start(self, name: str, attributes: list[str]) -> None:
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        self._write(f"<{name}" + "".join(f' {key}="{_escaped_value(value)}"' for key, value in pairs) + ">")

    def _end(self, name: str) -> None:
        self._write(f"</{name}>")

    def _text(self, data: str) -> None:
        self._write(_escaped_text(data))

    def _comment(self, data: str) -> None:
        # Comments and instructions inside the DOCTYPE are not part of the document.
        if not self._in_doctype:
            self._write(f"<!--{data}-->")

    def _processing_instruction(self, target: str, data: str) -> None:
        if not self._in_doctype:
            self._write(f"<?{target} {data}?>" if data else f"<?{target}?>")


def _escaped_text(data: str) -> str:
    # Replacing what is not there costs next to nothing, unlike str.translate.
    return data.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def _escaped_value(value: str) -> str:
    value = value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return value.replace("\t", "&#9;").replace("\n", "&#10;").replace("\r", "&#13;")
