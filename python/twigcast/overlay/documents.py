"""Messages of the peer overlays: elements with (L:R, D) positions, whole or split into fragments.

Each start and end tag advances a counter. L and R of an element are the counter at its tags, and D is its level (root =
1). So containment takes two comparisons, and children are found without a stack (Miliaraki 2008, section 5.2).

A large message is split into *fragments*. A fragment is a document with some whole subtrees and their *spine*: the
elements from the root down to them. Positions are those of the whole message, so each linear path of the message is in
at least one fragment, and matches in different fragments can be joined. The text of a spine element is not repeated.
Only its hash and its value as a number are, which predicates need.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote
from xml.parsers import expat

from twigcast.errors import MalformedMessage
from twigcast.overlay.errors import MessageTooLarge

_NUMBER = re.compile(r"[ \t\r\n]*-?(?:\d+(?:\.\d*)?|\.\d+)[ \t\r\n]*\Z", re.ASCII)


def number_of(text: str) -> float:
    """Returns a string as a number by XPath 1.0 (section 4.4); NaN if it is none."""
    return float(text) if _NUMBER.match(text) else float("nan")


class Digest(NamedTuple):
    """A shortened string that can still be compared with a constant."""

    hash: bytes
    number: float

    @staticmethod
    def of(text: str) -> Digest:
        """Returns the digest of a string."""
        return Digest(hash_of(text), number_of(text))


def hash_of(text: str) -> bytes:
    """Returns the hash by which shortened strings are compared."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


Value: TypeAlias = str | Digest


def label_of(namespace: str, local: str) -> str:
    """Returns the label of an expanded name: the local name, or `{namespace}local` with quoted slashes."""
    return f"{{{quote(namespace, safe='')}}}{local}" if namespace else local


class Element(NamedTuple):
    """One element of a message."""

    left: int  #: L, the counter at its start tag.
    right: int  #: R, the counter at its end tag.
    depth: int  #: D, its level; that of the root is 1.
    label: str  #: Its expanded name (`label_of`).
    parent: int  #: Index of its parent in the document, -1 for the root.
    attributes: tuple[tuple[str, str], ...]  #: Labels and values.
    texts: tuple[Value, ...]  #: Its text nodes.
    string: Value  #: Its string value.
    rank_named: int  #: Its position among its siblings with the same name, from 1.
    rank: int  #: Its position among all its siblings, from 1.

    def size_bytes(self) -> int:
        """Returns the bytes of its tags and positions, without text."""
        return 2 * len(self.label) + 17 + sum(len(name) + len(value) + 4 for name, value in self.attributes)


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A message, or a fragment of one."""

    name: str  #: Identifier of the message.
    elements: tuple[Element, ...]  #: In document order.
    #: Indexes of each element's children; the last entry is the document node's (the root).
    children: tuple[tuple[int, ...], ...]
    size_bytes: int  #: Size of its text, or an estimate for a fragment.
    fragment: int = 0  #: Number of the fragment, from 0.
    fragments: int = 1  #: Number of fragments of the message.
    source: bytes = b""  #: The text of the message, if it is whole; it was parsed from that.

    def __repr__(self) -> str:
        return f"Document({self.name!r}, {self.fragment}/{self.fragments}, {len(self.elements)} elements)"

    def subtree_size(self, index: int) -> int:
        """Returns the estimated bytes of a subtree, or of the whole document for -1."""
        if index < 0 or index == 0:
            return self.size_bytes
        element = self.elements[index]
        return max(1, self.size_bytes * (element.right - element.left + 1) // (2 * len(self.elements)))


def read_document(name: str, xml: bytes) -> Document:
    """Parses a message.

    Raises:
        MalformedMessage: It is not well-formed.
    """
    reader = _Reader()
    try:
        reader.parser.Parse(xml, True)
    except expat.ExpatError as error:
        raise MalformedMessage(error.lineno, error.offset + 1, expat.errors.messages[error.code]) from None
    return reader.document(name, xml)


class _Reader:
    """A collector of elements from the events of expat."""

    def __init__(self) -> None:
        self.parser = parser = expat.ParserCreate(namespace_separator="\n")
        parser.buffer_text = True
        parser.ordered_attributes = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.CommentHandler = self._comment
        parser.ProcessingInstructionHandler = self._instruction
        self._tags = 0
        self._text: list[str] = []
        self._length = 0
        self._joined = False
        self._open: list[int] = []
        self._records: list[dict[str, Any]] = []
        self._children: list[list[int]] = []
        self._top: list[int] = []

    def _start(self, name: str, attributes: list[str]) -> None:
        self._tags += 1
        self._joined = False
        index = len(self._records)
        siblings = self._children[self._open[-1]] if self._open else self._top
        label = _label(name)
        siblings.append(index)
        self._records.append(
            {
                "left": self._tags,
                "depth": len(self._open) + 1,
                "label": label,
                "parent": self._open[-1] if self._open else -1,
                "attributes": tuple(zip(map(_label, attributes[::2]), attributes[1::2], strict=True)),
                "texts": [],
                "begin": self._length,
            }
        )
        self._children.append([])
        self._open.append(index)

    def _end(self, name: str) -> None:
        self._tags += 1
        self._joined = False
        record = self._records[self._open.pop()]
        record["right"] = self._tags
        record["end"] = self._length

    def _characters(self, text: str) -> None:
        texts: list[str] = self._records[self._open[-1]]["texts"]
        if self._joined:
            texts[-1] += text
        else:
            texts.append(text)
        self._joined = True
        self._text.append(text)
        self._length += len(text)

    def _comment(self, text: str) -> None:
        self._joined = False

    def _instruction(self, target: str, data: str) -> None:
        self._joined = False

    def document(self, name: str, xml: bytes) -> Document:
        text = "".join(self._text)
        ranks = _ranks([record["label"] for record in self._records], [self._top, *self._children])
        elements = tuple(
            Element(
                left=record["left"],
                right=record["right"],
                depth=record["depth"],
                label=record["label"],
                parent=record["parent"],
                attributes=record["attributes"],
                texts=tuple(record["texts"]),
                string=text[record["begin"] : record["end"]],
                rank_named=ranks[index][0],
                rank=ranks[index][1],
            )
            for index, record in enumerate(self._records)
        )
        return Document(name, elements, (*map(tuple, self._children), tuple(self._top)), len(xml), source=xml)


def _label(name: str) -> str:
    namespace, _, local = name.rpartition("\n")
    return label_of(namespace, local)


def _ranks(labels: list[str], families: list[list[int]]) -> dict[int, tuple[int, int]]:
    ranks: dict[int, tuple[int, int]] = {}
    for family in families:
        seen: Counter[str] = Counter()
        for rank, index in enumerate(family, 1):
            seen[labels[index]] += 1
            ranks[index] = (seen[labels[index]], rank)
    return ranks


def split_document(document: Document, limit_bytes: int) -> list[Document]:
    """Splits a message into fragments of at most `limit_bytes` (estimated). A message that fits stays whole.

    Raises:
        MessageTooLarge: An element alone, with its spine, is over the limit.
    """
    if document.size_bytes <= limit_bytes:
        return [document]
    cutter = _DocumentSplitter(document, limit_bytes)
    pieces = list(cutter.cut(document.children[-1][0], ()))
    return [cutter.build(piece, number, len(pieces)) for number, piece in enumerate(pieces)]


class _Piece(NamedTuple):
    spine: tuple[int, ...]
    wholes: tuple[int, ...]


class _DocumentSplitter:
    """The splitting of one document. A subtree that does not fit adds an element to the spine."""

    def __init__(self, document: Document, limit_bytes: int) -> None:
        self.document = document
        self.limit_bytes = limit_bytes
        self.sizes = self._subtree_sizes()

    def _subtree_sizes(self) -> list[int]:
        elements = self.document.elements
        sizes = [e.size_bytes() + sum(len(t) for t in e.texts) + len(e.texts) for e in elements]
        for index in range(len(elements) - 1, 0, -1):
            sizes[elements[index].parent] += sizes[index]
        return sizes

    def cut(self, index: int, spine: tuple[int, ...]) -> Iterator[_Piece]:
        """Yields the pieces of a subtree below a spine."""
        spine_bytes = sum(self._spine_bytes(above) for above in spine)
        if spine_bytes + self.sizes[index] <= self.limit_bytes:
            yield _Piece(spine, (index,))
            return
        spine = (*spine, index)
        spine_bytes += self._spine_bytes(index)
        if spine_bytes > self.limit_bytes:
            element = self.document.elements[index]
            raise MessageTooLarge(spine_bytes, self.limit_bytes, f"element {element.label} with those around it")
        batch: list[int] = []
        batch_bytes = spine_bytes
        for child in self.document.children[index]:
            if spine_bytes + self.sizes[child] > self.limit_bytes:
                yield from self.cut(child, spine)
                continue
            if batch_bytes + self.sizes[child] > self.limit_bytes:
                yield _Piece(spine, tuple(batch))
                batch, batch_bytes = [], spine_bytes
            batch.append(child)
            batch_bytes += self.sizes[child]
        if batch or not self.document.children[index]:
            yield _Piece(spine, tuple(batch))

    def _spine_bytes(self, index: int) -> int:
        element = self.document.elements[index]
        return element.size_bytes() + 24 * (1 + len(element.texts))

    def build(self, piece: _Piece, number: int, count: int) -> Document:
        """Returns a fragment as a document."""
        old = [*piece.spine, *(index for whole in piece.wholes for index in self._subtree(whole))]
        new = {index: position for position, index in enumerate(old)}
        spine = set(piece.spine)
        elements = tuple(self._moved(index, new, shorten=index in spine) for index in old)
        children = [tuple(new[c] for c in self.document.children[index] if c in new) for index in old]
        size = sum(map(self._spine_bytes, piece.spine)) + sum(self.sizes[whole] for whole in piece.wholes)
        return Document(self.document.name, elements, (*children, (0,)), size, number, count)

    def _subtree(self, index: int) -> Iterator[int]:
        right = self.document.elements[index].right
        while index < len(self.document.elements) and self.document.elements[index].left < right:
            yield index
            index += 1

    def _moved(self, index: int, new: dict[int, int], *, shorten: bool) -> Element:
        element = self.document.elements[index]
        moved = element._replace(parent=new.get(element.parent, -1))
        if not shorten:
            return moved
        return moved._replace(texts=tuple(map(_shortened, element.texts)), string=_shortened(element.string))


def _shortened(value: Value) -> Value:
    return value if isinstance(value, Digest) else Digest.of(value)
