"""The numbers of the classes of messages on the wire. They never change; new classes get new numbers."""

from __future__ import annotations

from typing import Any, Final

from twigcast.overlay.chord import messages as chord
from twigcast.overlay.codd import messages as codd
from twigcast.overlay.codd.twigs import Twig
from twigcast.overlay.core import KeyRoutedMessage, LinkAcknowledgement, LinkMessage
from twigcast.overlay.documents import Document, Element, read_document
from twigcast.overlay.errors import FrameError
from twigcast.overlay.onyx.network.fields import Field, FrameReader
from twigcast.peers.codec import MessageCodec

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
    """Returns the codec of the ring."""
    return MessageCodec(CHORD_KINDS, {Document: document_form()})


def codd_codec() -> MessageCodec:
    """Returns the codec of the tree."""
    return MessageCodec(CODD_KINDS, {Document: document_form()})


def document_form() -> Field:
    """Returns the form of a document: its text, or, of a fragment, its elements without what follows from them."""
    parts = MessageCodec({}).forms(str, bytes, int, int, int, tuple[Element, ...])

    def put(out: bytearray, document: Document) -> None:
        elements = () if document.source else document.elements
        values = (document.name, document.source, document.size_bytes, document.fragment, document.fragments, elements)
        for form, value in zip(parts, values, strict=True):
            form.put(out, value)

    def read(reader: FrameReader) -> Document:
        values: list[Any] = [form.read(reader) for form in parts]
        name, source, size_bytes, fragment, fragments, elements = values
        if source:
            return read_document(name, source)
        return Document(name, elements, _children(elements), size_bytes, fragment, fragments)

    return Field(put, read)


def _children(elements: tuple[Element, ...]) -> tuple[tuple[int, ...], ...]:
    """Returns the children of each element, and of the document node, from their parents."""
    children: list[list[int]] = [[] for _ in range(len(elements) + 1)]
    for index, element in enumerate(elements):
        if not -1 <= element.parent < index:
            raise FrameError(f"element {index} of a fragment has the parent {element.parent}")
        children[element.parent].append(index)
    return tuple(map(tuple, children))
