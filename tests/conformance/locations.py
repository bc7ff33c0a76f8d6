"""Where nodes lie in a message, in words: ``/r/a[2]/@x`` is the attribute ``x`` of the second ``a`` of ``r``.

Each step is a name as the message spells it, with its number among the siblings of that spelling; the document element
has none. Texts, comments and processing instructions are numbered among their kind. ``/`` is the document.

The positions come from expat, the nodes of lxml are put in words by their order: neither knows the product.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from xml.parsers import expat

from lxml import etree

Place = tuple[str, int, int]
"""Kind of a node, and line and column where its markup starts."""

_ATTRIBUTE: Final = re.compile(r"\s([^\s=<>/'\"]+)\s*=\s*(?:'[^']*'|\"[^\"]*\")")


@dataclass(slots=True)
class _Open:
    location: str
    counts: Counter[str] = field(default_factory=Counter)
    in_text: bool = False
    section: Place | None = None

    def end_text(self) -> None:
        self.in_text, self.section = False, None


class Locator:
    """The locations of the nodes of one message, which is plain UTF-8 without a DOCTYPE that declares something."""

    def __init__(self, message: bytes) -> None:
        self.by_place: dict[Place, str] = {("document", 1, 1): "/"}
        self.in_order: list[str] = []
        """Elements, comments and processing instructions in document order."""

        self._message = message
        self._open = [_Open("")]
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = False
        parser.ordered_attributes = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CommentHandler = lambda _: self._leaf("comment", "comment()")
        parser.ProcessingInstructionHandler = self._instruction
        parser.CharacterDataHandler = self._text
        parser.StartCdataSectionHandler = self._section
        parser.Parse(message, True)

    def _place(self, kind: str) -> Place:
        return kind, self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1

    def _numbered(self, step: str) -> str:
        above = self._open[-1]
        above.counts[step] += 1
        return f"{above.location}/{step}[{above.counts[step]}]"

    def _start(self, name: str, attributes: list[str]) -> None:
        self._open[-1].end_text()
        location = f"/{name}" if len(self._open) == 1 else self._numbered(name)
        self.by_place[self._place("element")] = location
        self.in_order.append(location)
        self._open.append(_Open(location))
        if attributes:
            self._attributes(location, attributes[::2])

    def _attributes(self, location: str, names: list[str]) -> None:
        start = self._parser.CurrentByteIndex
        rest = self._message[start:].decode("utf-8")
        line, column = self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1
        at = re.compile(r"<[^\s/>]+").match(rest).end()  # type: ignore[union-attr]
        left = set(names)
        while left:
            found = _ATTRIBUTE.match(rest, at) or re.compile(r"\s").match(rest, at)
            assert found is not None, rest[at:]
            at = found.end()
            if found.re is _ATTRIBUTE and found.group(1) in left:
                left.remove(found.group(1))
                before = rest[: found.start(1)]
                lines = before.count("\n")
                place = len(before) - before.rfind("\n") if lines else column + len(before)
                self.by_place["attribute", line + lines, place] = f"{location}/@{found.group(1)}"

    def _end(self, _: str) -> None:
        self._open.pop()
        self._open[-1].end_text()

    def _leaf(self, kind: str, step: str) -> None:
        self._open[-1].end_text()
        location = self._numbered(step)
        self.by_place[self._place(kind)] = location
        self.in_order.append(location)

    def _instruction(self, _target: str, _data: str) -> None:
        self._leaf("processing-instruction", "processing-instruction()")

    def _text(self, data: str) -> None:
        above = self._open[-1]
        if data and not above.in_text:
            above.in_text = True
            self.by_place[above.section or self._place("text")] = self._numbered("text()")

    def _section(self) -> None:
        # One that is empty is no text, so what it starts is seen when there is a character.
        above = self._open[-1]
        if above.section is None:
            above.section = self._place("text")


class TreeLocations:
    """The locations of lxml's nodes of one message."""

    def __init__(self, message: bytes) -> None:
        parser = etree.XMLParser(huge_tree=True, no_network=True, attribute_defaults=True)
        self.tree = etree.ElementTree(etree.fromstring(message, parser))
        self._message = message

    @cached_property
    def _of(self) -> dict[etree._Element, str]:
        root = self.tree.getroot()
        before = reversed(list(root.itersiblings(preceding=True)))
        nodes = [*before, *root.iter(), *root.itersiblings()]
        return dict(zip(nodes, self._locator.in_order, strict=True))

    @cached_property
    def _locator(self) -> Locator:
        return Locator(self._message)

    @cached_property
    def _written(self) -> frozenset[str]:
        return frozenset(self._locator.by_place.values())

    def locations(self, found: Iterable[object]) -> list[str]:
        """The nodes of an answer of ``xpath`` in words."""
        return [self._location(node) for node in found]

    def _location(self, node: object) -> str:
        if isinstance(node, etree._Element):
            return self._of[node]
        assert isinstance(node, etree._ElementUnicodeResult), f"{node!r} has no location"
        parent = node.getparent()
        assert parent is not None
        if node.is_attribute:
            assert node.attrname is not None
            spellings = (f"{self._of[parent]}/@{name}" for name in _spellings(parent, node.attrname))
            return next(spelling for spelling in spellings if spelling in self._written)
        holder = parent.getparent() if node.is_tail else parent
        assert holder is not None
        number = int(bool(holder.text))
        if node.is_tail:
            for child in holder:
                number += int(bool(child.tail))
                if child is parent:
                    break
        return f"{self._of[holder]}/text()[{number}]"


def _spellings(element: etree._Element, name: str) -> Iterator[str]:
    """The name of an attribute with each of the prefixes that are in scope for its namespace."""
    if not name.startswith("{"):
        yield name
        return
    uri, local = name[1:].split("}")
    if uri == "http://www.w3.org/XML/1998/namespace":
        yield f"xml:{local}"
    for prefix, bound in element.nsmap.items():
        if bound == uri and prefix:
            yield f"{prefix}:{local}"
