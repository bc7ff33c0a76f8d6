"""Messages merged by their label paths.

What the distributed automaton does at an element depends on nothing but the labels from the root down to it. So
elements with one label path, in one message or in thousands, need to be looked at once, with how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from twigcast.overlay.documents import Document


class LabelPath:
    """A label path and the longer ones.

    Attributes:
        label: Its last label.
        counts: How many elements of each document have it, by the document's place in the sequence.
        below: The longer paths by label.
    """

    __slots__ = ("below", "counts", "label")

    def __init__(self, label: str) -> None:
        self.label = label
        self.counts: dict[int, int] = {}
        self.below: dict[str, LabelPath] = {}

    def documents(self) -> int:
        """Returns the documents that have it, as bits."""
        bits = bytearray(max(self.counts, default=0) // 8 + 1)
        for number in self.counts:
            bits[number >> 3] |= 1 << (number & 7)
        return int.from_bytes(bits, "little")


def merge_documents(documents: Sequence[Document]) -> LabelPath:
    """Merges the label paths of all documents. The returned one is empty and stands for the documents themselves."""
    root = LabelPath("")
    for number, document in enumerate(documents):
        paths: list[LabelPath] = []
        for element in document.elements:
            above = root if element.parent < 0 else paths[element.parent]
            path = above.below.get(element.label)
            if path is None:
                path = above.below[element.label] = LabelPath(element.label)
            path.counts[number] = path.counts.get(number, 0) + 1
            paths.append(path)
    return root
