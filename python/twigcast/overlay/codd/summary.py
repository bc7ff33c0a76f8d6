"""The data summary: which documents have an element at which label path (CoDD, section 3.1.1).

A node-labelled tree merges the label paths of all documents that passed; every summary node has a bitmap of the
documents with an element there. A twig is answered by embedding it into the summary: along one embedding the bitmaps
are intersected, over all embeddings united. The answer is exact for linear paths without tests and an upper bound for
twigs, because it forgets which elements share a parent.

The summary is bounded: documents older than the window are removed, and paths that none is left of with them. Few nodes
are ever asked, so documents are merged in only when one is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyroaring import BitMap

from twigcast.overlay.codd.engine import Item, Query
from twigcast.overlay.codd.twigs import Twig
from twigcast.overlay.documents import Document
from twigcast.overlay.paths import WILDCARD


@dataclass(slots=True, eq=False)
class SummaryNode:
    """A label path: the documents that have it, and the longer paths."""

    documents: BitMap = field(default_factory=BitMap)
    below: dict[str, SummaryNode] = field(default_factory=dict)

    def node(self, path: tuple[str, ...]) -> SummaryNode | None:
        """Returns the summary node at the end of a path from here."""
        node: SummaryNode | None = self
        for label in path:
            node = node.below.get(label) if node is not None else None
        return node

    def size(self) -> int:
        """Returns the number of nodes, this one included."""
        return 1 + sum(node.size() for node in self.below.values())


class DataSummary:
    """The data summary of one node of the overlay, over its last `window` documents."""

    __slots__ = ("_newest", "_pruned_at", "_root", "_waiting", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self._root = SummaryNode()
        self._waiting: deque[Item] = deque(maxlen=window)
        self._newest = 0
        self._pruned_at = 0

    @property
    def root(self) -> SummaryNode:
        """The tree, with all documents that came."""
        while self._waiting:
            self._merge(self._waiting.popleft())
        return self._root

    def add(self, item: Item) -> None:
        """Takes note of a document."""
        self._waiting.append(item)

    def _merge(self, item: Item) -> None:
        document: Document = item.content
        number = item.number
        self._root.documents.add(number)
        nodes: list[SummaryNode] = []
        for element in document.elements:
            above = nodes[element.parent] if element.parent >= 0 else self._root
            node = above.below.get(element.label)
            if node is None:
                node = above.below[element.label] = SummaryNode()
            node.documents.add(number)
            nodes.append(node)
        self._newest = max(self._newest, number)
        if self._newest >= self._pruned_at + max(1, self.window // 4):
            self._pruned_at = self._newest
            _prune(self._root, self._newest - self.window)

    def documents(self, queries: Iterable[Query]) -> BitMap:
        """Returns the documents that satisfy at least one of the queries, or a few more."""
        result = BitMap()
        root = self.root
        for query in queries:
            result |= _embed(query, root)  # type: ignore[arg-type]
        return result


def _embed(twig: Twig, above: SummaryNode) -> BitMap:
    """Returns the documents for a branch below a summary node: those of all its embeddings, united.

    What has an element below a node has one at the node, so where all documents of a node are found already there is
    nothing to look for at it or below it.
    """
    result = BitMap()
    label, below = twig.label, above.below
    if not twig.descendant:
        if label != WILDCARD:
            node = below.get(label)
            return result if node is None else _embed_at(twig, node)
        for node in below.values():
            if not node.documents <= result:
                result |= _embed_at(twig, node)
        return result
    waiting = [above]
    while waiting:
        for name, node in waiting.pop().below.items():
            if node.documents <= result:
                continue
            if label in (WILDCARD, name):
                result |= _embed_at(twig, node)
            waiting.append(node)
    return result


def _embed_at(twig: Twig, node: SummaryNode) -> BitMap:
    """Returns the documents for a twig whose top is mapped on a summary node."""
    documents = node.documents
    for branch in twig.branches:
        documents = documents & _embed(branch, node)
        if not documents:
            break
    return documents


def _prune(node: SummaryNode, before: int) -> None:
    """Removes documents up to a number."""
    if before > 0:
        node.documents.remove_range(0, before + 1)
        for label, below in list(node.below.items()):
            _prune(below, before)
            if not below.documents:
                del node.below[label]
