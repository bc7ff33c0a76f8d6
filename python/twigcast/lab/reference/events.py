"""The event stream that every published algorithm runs on (Diao 2005, sections 2.1 and 5.2.1).

A message is a rooted ordered tree that arrives as events: start-document, start-element (name, attributes, level),
characters, end-element, end-document. Elements are numbered in document order, the root element is 1; the document
node is at level 0, the root element at level 1. Names are written in Clark notation: ``name``, or ``{uri}name`` in a
namespace.

The *tag label* of an element, (L:R, D), counts tags: every start tag and every end tag advances the counter by one,
and D is the level (Miliaraki 2008, section 5.2). Element x is an ancestor of y iff L(x) < L(y) and R(y) < R(x); its
parent iff also D(y) = D(x) + 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from xml.parsers import expat

_SEPARATOR = "\x1f"
"""Between URI and local name in what expat reports; not a character of XML."""


class StartElement(NamedTuple):
    """A start tag."""

    name: str
    attributes: Mapping[str, str]
    level: int


class Characters(NamedTuple):
    """A whole text node: the chunks between two other nodes, joined, as XPath sees them."""

    text: str


class EndElement(NamedTuple):
    """An end tag."""

    name: str
    level: int


Event: TypeAlias = StartElement | Characters | EndElement


class Element:
    """An element while the message streams by; the document node too (number 0, level 0, no name).

    ``texts`` and ``children`` hold what has been seen so far: complete at the end tag, not before. They are the
    incremental tree of the message that value predicates look at (Diao 2005, section 6.3).
    """

    __slots__ = ("attributes", "children", "content", "id", "is_open", "left", "level", "name", "parent", "right")

    def __init__(
        self, number: int, name: str, attributes: Mapping[str, str], parent: Element | None, left: int
    ) -> None:

        self.id = number
        self.name = name
        self.attributes = attributes
        self.parent = parent
        self.level: int = 0 if parent is None else parent.level + 1
        self.children: list[Element] = []
        self.content: list[Element | str] = []
        self.is_open = True
        self.left = left
        self.right = 0
        """R of the tag label; 0 until the end tag."""

    @property
    def texts(self) -> list[str]:
        """The text nodes directly inside, so far."""
        return [part for part in self.content if isinstance(part, str)]

    @property
    def string_value(self) -> str:
        """All text inside, at any depth, so far."""
        texts: list[str] = []
        left: list[Element | str] = [self]
        while left:
            part = left.pop()
            if isinstance(part, str):
                texts.append(part)
            else:
                left.extend(reversed(part.content))
        return "".join(texts)

    @property
    def label(self) -> tuple[int, int, int]:
        """The tag label (L, R, D); R is 0 while the element is open."""
        return (self.left, self.right, self.level)

    def ancestors(self) -> Iterator[Element]:
        """Yields its parent, and so on up to the root element, without the document node."""
        above = self.parent
        while above is not None and above.level > 0:
            yield above
            above = above.parent

    def __repr__(self) -> str:
        return f"{self.name or 'document'}{self.id}"


def read_events(message: bytes) -> list[Event]:
    """Returns the events of a message, without start-document and end-document.

    Raises:
        xml.parsers.expat.ExpatError: The message is not well-formed.
    """
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.chunks.append
    # In XPath's tree a comment or a processing instruction ends the text node before it.
    parser.CommentHandler = lambda _data: reader.finish_text()
    parser.ProcessingInstructionHandler = lambda _target, _data: reader.finish_text()
    parser.Parse(message, True)
    return reader.events


class _Reader:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.chunks: list[str] = []
        self.level = 0

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self.finish_text()
        self.level += 1
        clark = {_clark(key): value for key, value in attributes.items()}
        self.events.append(StartElement(_clark(name), clark, self.level))

    def end(self, name: str) -> None:
        self.finish_text()
        self.events.append(EndElement(_clark(name), self.level))
        self.level -= 1

    def finish_text(self) -> None:
        if self.chunks:
            self.events.append(Characters("".join(self.chunks)))
            self.chunks.clear()


def _clark(name: str) -> str:
    namespace, separator, local = name.rpartition(_SEPARATOR)
    return f"{{{namespace}}}{local}" if separator else name


class Tree:
    """Grows the elements of one message, event by event."""

    def __init__(self) -> None:
        self.document = Element(0, "", {}, None, 0)
        self.current = self.document
        self._elements = 0
        self._tags = 0

    def start(self, event: StartElement) -> Element:
        """Opens an element at its start tag, and returns it."""
        self._elements += 1
        self._tags += 1
        element = Element(self._elements, event.name, event.attributes, self.current, self._tags)
        self.current.children.append(element)
        self.current.content.append(element)
        self.current = element
        return element

    def characters(self, event: Characters) -> None:
        """Adds a text node to the open element."""
        self.current.content.append(event.text)

    def end(self) -> Element:
        """Closes the current element at its end tag, and returns it."""
        self._tags += 1
        element = self.current
        element.is_open = False
        element.right = self._tags
        if element.parent is not None:
            self.current = element.parent
        return element


def build(events: Sequence[Event]) -> list[Element]:
    """Returns the elements of a message in document order, complete."""
    tree, elements = Tree(), []
    for event in events:
        match event:
            case StartElement():
                elements.append(tree.start(event))
            case Characters():
                tree.characters(event)
            case EndElement():
                tree.end()
    return elements
