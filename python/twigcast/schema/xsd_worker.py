"""The program of a process that validates by a schema.

It reads requests from standard input, the schema first and then documents, and writes replies to standard output: JSON
with ``line`` and ``reason``, both null for what is valid. It has no environment, and neither reads nor writes files.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any, BinaryIO, Final

from lxml import etree

from twigcast.schema.xsd import LENGTH

MEMORY_MAX: Final = 1 << 30
"""Bytes of addresses that the process may have."""

_XSD: Final = "{http://www.w3.org/2001/XMLSchema}"
_XML: Final = "http://www.w3.org/XML/1998/namespace"
_OWN: Final = "twigcast:xml.xsd"
"""Where the attributes `xml:lang` and so on are declared."""

_XML_ATTRIBUTES: Final = f"""
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="{_XML}">
  <xs:attribute name="lang" type="xs:string"/>
  <xs:attribute name="base" type="xs:anyURI"/>
  <xs:attribute name="id" type="xs:ID"/>
  <xs:attribute name="space" default="preserve"><xs:simpleType><xs:restriction base="xs:NCName">
    <xs:enumeration value="default"/><xs:enumeration value="preserve"/></xs:restriction></xs:simpleType></xs:attribute>
  <xs:attributeGroup name="specialAttrs">
    <xs:attribute ref="xml:base"/><xs:attribute ref="xml:lang"/>
    <xs:attribute ref="xml:space"/><xs:attribute ref="xml:id"/>
  </xs:attributeGroup>
</xs:schema>"""


class _OnlyOwn(etree.Resolver):
    def resolve(self, url: str | None, public_id: str | None, context: Any) -> Any:
        if url == _OWN:
            return self.resolve_string(_XML_ATTRIBUTES.encode(), context)
        # libxml2 would open the file otherwise.
        raise OSError(f"the schema refers to {url!r}")


def read_schema(text: bytes) -> etree.XMLSchema:
    """Returns a compiled schema; raises ValueError if it cannot be used."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    parser.resolvers.add(_OnlyOwn())
    try:
        root = etree.fromstring(text, parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"no schema: {error.msg}") from None
    if root.getroottree().docinfo.doctype:
        raise ValueError("a schema with a DOCTYPE is not read; leave it out")
    if root.tag != f"{_XSD}schema":
        raise ValueError(f"no schema: its root is {etree.QName(root).localname!r}")
    for name in ("include", "import", "redefine", "override"):
        for reference in root.iter(f"{_XSD}{name}"):
            if name == "import" and reference.get("namespace") == _XML:
                reference.set("schemaLocation", _OWN)
            elif reference.get("schemaLocation") is not None:
                place = reference.get("schemaLocation")
                raise ValueError(f"the schema refers to {place!r}; insert its declarations instead")
    try:
        return etree.XMLSchema(root.getroottree())
    except etree.XMLSchemaParseError as error:
        first = next(iter(error.error_log), None)
        raise ValueError(str(error) if first is None else f"line {first.line}: {first.message}") from None


def fault_of(schema: etree.XMLSchema, document: bytes) -> dict[str, Any]:
    """Returns the line and the reason of the first fault of a document, both ``None`` if it is valid."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        root = etree.fromstring(document, parser)
    except etree.XMLSyntaxError as error:
        return {"line": error.lineno, "reason": error.msg}
    if schema.validate(root):
        return {"line": None, "reason": None}
    first = next(iter(schema.error_log), None)
    if first is None:
        return {"line": None, "reason": "libxml2 does not say why"}
    return {"line": first.line or None, "reason": first.message}


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answers requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))

    def read() -> bytes | None:
        head = requests.read(LENGTH.size)
        return requests.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else None

    def reply(fault: dict[str, Any]) -> None:
        written = json.dumps(fault).encode()
        replies.write(LENGTH.pack(len(written)) + written)
        replies.flush()

    text = read()
    if text is None:
        return
    try:
        schema = read_schema(text)
    except ValueError as error:
        reply({"line": None, "reason": str(error)})
        return
    reply({"line": None, "reason": None})
    while (document := read()) is not None:
        reply(fault_of(schema, document))


def main() -> None:
    """Serves the process that started this one."""
    serve(sys.stdin.buffer, sys.stdout.buffer)
