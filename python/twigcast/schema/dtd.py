"""A reader of DTDs that uses libxml2 (through lxml) and returns a :class:`~twigcast.schema.model.Schema`."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from twigcast.errors import MissingExtra, TwigcastError
from twigcast.schema.model import AttributeDeclaration, ElementDeclaration, Particle, Schema

_THIS = "twigcast:dtd"
"""The system identifier that stands for a DTD that was passed as text."""

_OCCURRENCE: dict[str, tuple[int, int | None]] = {"once": (1, 1), "opt": (0, 1), "mult": (0, None), "plus": (1, None)}


class SchemaError(TwigcastError, ValueError):
    """A schema that cannot be read or contradicts itself."""

    code: ClassVar[str] = "schema"


def read_dtd(source: str | Path | bytes, *, root: str | None = None) -> Schema:
    """Reads a DTD from a file (path) or from the text of its external subset (bytes).

    Args:
        source: The DTD. If it is a file, parameter entities in other files are read. If it is text, which may come from
            anyone, no file is read. Nothing is fetched from the network.
        root: The root element of documents. By default the first declared element that is not a child of another one,
            or the first declared element if every element is a child.

    Raises:
        SchemaError: It is not a DTD, declares no element, or ``root`` is not declared; of a file, it names that.
        OSError: The file cannot be read.
        MissingExtra: lxml is not installed.
    """
    try:
        return _read(source, root)
    except SchemaError as error:
        if isinstance(source, bytes):
            raise
        raise SchemaError(f"{source}: {error}") from error


def _read(source: str | Path | bytes, root: str | None) -> Schema:
    name = "" if isinstance(source, bytes) else Path(source).stem
    declarations = list(_parse(source).iterelements())
    declared = [item for item in declarations if item.type != "undefined"]
    elements = {item.name: ElementDeclaration(item.name, _content(item), _attributes(item)) for item in declared}
    if not elements:
        raise SchemaError("the DTD declares no element")
    if root is not None and root not in elements:
        raise SchemaError(f"the DTD declares no element {root!r}")
    return Schema(root or _root(elements), elements, name)


class DtdValidator:
    """A validator of documents by a DTD that was passed as text; several threads may use it.

    Raises SchemaError for a DTD that :func:`read_dtd` refuses, or with a content model that is not deterministic:
    by such a one nothing can be validated (XML 1.0, section 3.2.1).
    """

    def __init__(self, text: bytes) -> None:
        read_dtd(text)
        self._dtd = _parse_text(text)
        self._check_models()
        self._using = threading.Lock()

    def fault(self, document: bytes) -> tuple[int | None, str] | None:
        """Returns the line and the reason of the first fault of a well-formed document; ``None`` if it is valid."""
        from lxml import etree

        # Entities are expanded already, and nothing else may be read.
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        try:
            root = etree.fromstring(document, parser)
        except etree.XMLSyntaxError as error:
            return error.lineno, f"it cannot be validated by the DTD: {error.msg}"
        with self._using:
            if self._dtd.validate(root):
                return None
            first = next(iter(self._dtd.error_log), None)
            if first is None:
                return None, "the DTD does not allow it, and libxml2 does not say why"
            return first.line or None, f"the DTD does not allow it: {first.message}"

    def _check_models(self) -> None:
        """Raises SchemaError if a content model is not deterministic, which libxml2 finds out when it is needed."""
        from lxml import etree

        root = etree.Element("models")
        for item in self._dtd.iterelements():
            spaces = {} if item.prefix is None else {item.prefix: f"urn:{item.prefix}"}
            etree.SubElement(root, etree.QName(spaces.get(item.prefix), item.name), nsmap=spaces)
        self._dtd.validate(root)
        for fault in self._dtd.error_log:
            if fault.type_name == "DTD_CONTENT_NOT_DETERMINIST":
                raise SchemaError(f"the DTD cannot be used to validate: {fault.message}")


def _parse(source: str | Path | bytes) -> Any:
    try:
        # The command line imports this module, and only reading a DTD needs lxml.
        from lxml import etree
    except ImportError as missing:
        raise MissingExtra("lxml", "lab") from missing
    if isinstance(source, bytes):
        return _parse_text(source)
    try:
        with Path(source).open("rb"):  # a missing file is an OSError, not a parse error
            return etree.DTD(str(source))
    except etree.DTDParseError as error:
        raise SchemaError(f"not a DTD: {error}") from error


def _parse_text(text: bytes) -> Any:
    """Reads a DTD from its text alone: what it refers to could be any file of this machine."""
    from lxml import etree

    class OnlyThis(etree.Resolver):
        def resolve(self, url: str | None, public_id: str | None, context: Any) -> Any:
            if url == _THIS:
                return self.resolve_string(text, context)
            # An empty replacement would not do: libxml2 would open the file nevertheless.
            raise SchemaError(f"the DTD refers to {url!r}; insert its text instead")

    parser = etree.XMLParser(load_dtd=True, no_network=True, resolve_entities=False)
    parser.resolvers.add(OnlyThis())
    try:
        document = etree.fromstring(f'<!DOCTYPE dtd SYSTEM "{_THIS}"><dtd/>'.encode(), parser)
    except etree.XMLSyntaxError as error:
        raise SchemaError(f"not a DTD: {error.msg}") from error
    result = document.getroottree().docinfo.externalDTD
    if result is None:
        raise SchemaError("the DTD declares no element")
    return result


def _root(elements: dict[str, ElementDeclaration]) -> str:
    below = {child for name, element in elements.items() for child in element.content.elements() if child != name}
    return next((name for name in elements if name not in below), next(iter(elements)))


def _content(declaration: Any) -> Particle:
    if declaration.type in ("empty", "any"):
        return Particle(declaration.type)
    return _particle(declaration.content)


def _particle(node: Any) -> Particle:
    minimum, maximum = _OCCURRENCE[node.occur]
    if node.type == "pcdata":
        return Particle("text", minimum=minimum, maximum=maximum)
    if node.type == "element":
        return Particle("element", node.name, (), minimum, maximum)
    kind = node.type
    children = tuple(_particle(part) for part in _flat(node, kind))
    return Particle("sequence" if kind == "seq" else "choice", "", children, minimum, maximum)


def _flat(node: Any, kind: str) -> Iterable[Any]:
    """Yields the parts of a group: libxml2 holds ``(a, b, c)`` as ``(a, (b, c))`` if the inner one is no group."""
    yield node.left
    right = node.right
    while right.type == kind and right.occur == "once":
        yield right.left
        right = right.right
    yield right


def _attributes(declaration: Any) -> tuple[AttributeDeclaration, ...]:
    """Returns the attributes by name: their order has no meaning, and libxml2 does not keep that of the DTD."""
    return tuple(
        AttributeDeclaration(
            f"{item.prefix}:{item.name}" if item.prefix else item.name,
            item.type,
            required=item.default == "required",
            fixed=item.default == "fixed",
            default=item.default_value,
            values=tuple(item.itervalues()),
        )
        for item in sorted(declaration.iterattributes(), key=lambda item: (item.name, item.prefix or ""))
    )
