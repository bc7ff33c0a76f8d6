"""The numbers of the classes of messages on the wire. They never change; new classes get new numbers."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import Any, Final

from twigcast.overlay.chord import messages as chord
from twigcast.overlay.codd import messages as codd
from twigcast.overlay.codd.twigs import Twig
from twigcast.overlay.core import KeyRoutedMessage, LinkAcknowledgement, LinkMessage
from twigcast.overlay.documents import Document, Element, read_document
from twigcast.overlay.errors import FrameError
from twigcast.overlay.onyx.network.fields import Field, FrameReader, put_number
from twigcast.peers.codec import MessageCodec

#: Texts of messages that the ends of a link remember in each direction.
_TEXTS_KEPT: Final = 16
#: Messages that a peer keeps as it has read them.
_DOCUMENTS_KEPT: Final = 16

_LINK: Final[dict[int, type]] = {1: LinkMessage, 2: LinkAcknowledgement}

CHORD_KINDS: Final[dict[int, type]] = {
    **_LINK,
    3: KeyRoutedMessage,
    10: chord.FindSuccessor,
    11: chord.SuccessorReply,
    12: chord.Join,
    13: chord.Welcome,
    14: chord.Refuse,
    15: chord.GetNeighbours,
    16: chord.Neighbours,
    17: chord.NotifyPredecessor,
    18: chord.PredecessorPing,
    19: chord.LeaveRing,
    20: chord.Located,
    21: chord.Replicate,
    22: chord.Stored,
    23: chord.Pull,
    24: chord.Pulled,
    25: chord.RangeDigest,
    26: chord.IndexQuery,
    27: chord.Indexed,
    28: chord.PruneEdge,
    29: chord.EdgePruned,
    30: chord.CopyEdgeGone,
    31: chord.RecExpand,
    32: chord.Branched,
    33: chord.ExpandState,
    34: chord.CollectAccepted,
    35: chord.Expanded,
    36: chord.Collected,
    37: chord.PartMatch,
    38: chord.Notify,
    39: chord.Shed,
    40: chord.CopyRequest,
    41: chord.Release,
    42: chord.ReplicaInfo,
}

CODD_KINDS: Final[dict[int, type]] = {
    **_LINK,
    10: codd.Forward,
    11: codd.Replayed,
    12: codd.Heartbeat,
    13: codd.Add,
    14: codd.AddResult,
    15: codd.AddChild,
    16: codd.Reject,
    17: codd.AttachConfirmation,
    18: codd.ChangeQueries,
    19: codd.Leave,
    20: codd.NewParent,
    21: codd.EndOfStream,
    22: codd.Replay,
    23: codd.ReplayDone,
    24: codd.Reorganize,
    25: codd.Grant,
    26: codd.SearchDone,
    27: codd.GetOverhead,
    28: codd.Overhead,
    29: codd.Move,
    30: codd.Moved,
    # What items and queries are in a tree over a network.
    60: Twig,
    61: Document,
}


def chord_codec() -> MessageCodec:
    """Returns the codec of one link between peers of the ring."""
    return MessageCodec(CHORD_KINDS, {Document: DocumentForm().field})


def codd_codec() -> MessageCodec:
    """Returns the codec of one link between nodes of the tree."""
    return MessageCodec(CODD_KINDS, {Document: DocumentForm().field})


class DocumentForm:
    """The form of documents on one link: the text, or, of a fragment, its elements without what follows from them.

    A peer of the ring gets one message several times in a row, for different states. A text that is among the last ones
    on the link is not sent again: it is named by how many texts came since.
    """

    def __init__(self) -> None:
        self.field = Field(self._put, self._read)
        self._parts = MessageCodec({}).forms(str, bytes, int, int, int, tuple[Element, ...])
        self._sent: deque[Document] = deque(maxlen=_TEXTS_KEPT)  #: The latest first.
        self._received: deque[tuple[str, bytes]] = deque(maxlen=_TEXTS_KEPT)

    def _put(self, out: bytearray, document: Document) -> None:
        for number, other in enumerate(self._sent, 1):
            if document is other or (document.source and _text_of(document) == _text_of(other)):
                put_number(out, number)
                return
        put_number(out, 0)
        elements = () if document.source else document.elements
        values = (document.name, document.source, document.size_bytes, document.fragment, document.fragments, elements)
        for form, value in zip(self._parts, values, strict=True):
            form.put(out, value)
        if document.source:
            self._sent.appendleft(document)

    def _read(self, reader: FrameReader) -> Document:
        number = reader.number()
        if number > len(self._received):
            raise FrameError(f"text {number} before the last one is named, and {len(self._received)} are known")
        if number:
            return _read_text(*self._received[number - 1])
        values: list[Any] = [form.read(reader) for form in self._parts]
        name, source, size_bytes, fragment, fragments, elements = values
        if source:
            self._received.appendleft((name, source))
            return _read_text(name, source)
        return Document(name, elements, _children(elements), size_bytes, fragment, fragments)


def _text_of(document: Document) -> tuple[str, bytes]:
    return document.name, document.source


@lru_cache(_DOCUMENTS_KEPT)
def _read_text(name: str, source: bytes) -> Document:
    """Returns a document as it was read last time, if that is not long ago."""
    return read_document(name, source)


def _children(elements: tuple[Element, ...]) -> tuple[tuple[int, ...], ...]:
    """Returns the children of each element, and of the document node, from their parents."""
    children: list[list[int]] = [[] for _ in range(len(elements) + 1)]
    for index, element in enumerate(elements):
        if not -1 <= element.parent < index:
            raise FrameError(f"element {index} of a fragment has the parent {element.parent}")
        children[element.parent].append(index)
    return tuple(map(tuple, children))
