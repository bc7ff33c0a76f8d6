"""Messages of the peer protocols as bytes: what is read is what was written, and nonsense is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.lab.overlays.chord.test_chord_seeds import HARSH, RETURNING
from tests.lab.overlays.chord.test_chord_seeds import run as run_ring
from tests.lab.overlays.codd.test_codd_seeds import run_twigs
from tests.overlay.overlay_population import random_messages
from twigcast.errors import MalformedMessage
from twigcast.lab.overlays.journal import Fate, Journal, text_of
from twigcast.overlay.chord.messages import PathMatch, Publication, RecExpand
from twigcast.overlay.codd.engine import Item
from twigcast.overlay.codd.messages import Forward
from twigcast.overlay.core import LinkMessage
from twigcast.overlay.documents import Document, read_document, split_document
from twigcast.overlay.errors import FrameError
from twigcast.peers.codec import MessageCodec
from twigcast.peers.kinds import CHORD_KINDS, CODD_KINDS, chord_codec, codd_codec


def contents(message: Any) -> Any:
    """A message in a form that can be compared: documents have no equality of their own."""
    if isinstance(message, Document):
        return ("document", message.name, message.elements, message.children, message.size_bytes, message.source)
    if isinstance(message, frozenset):
        return frozenset(map(contents, message))
    return (type(message), *map(contents, message)) if isinstance(message, tuple) else message


def inner_classes(message: Any, found: set[type]) -> None:
    found.add(type(message))
    if isinstance(message, (tuple, frozenset)):
        for part in message:
            inner_classes(part, found)


def assert_all_survive(journal: Journal, codec: MessageCodec) -> set[type]:
    """Every message of a simulation as bytes and back. Returns the classes that occurred."""
    found: set[type] = set()
    seen: set[str] = set()
    for entry in journal.entries:
        if entry.fate != Fate.SENT or (text := text_of(entry.item)) in seen:
            continue
        seen.add(text)
        data = codec.encode(entry.item)
        assert contents(codec.decode(data)) == contents(entry.item)
        inner_classes(entry.item, found)
    return found


@pytest.mark.slow
def test_the_messages_of_rings() -> None:
    found = set()
    for seed, options in (
        (600_001, {}),
        (600_005, {}),
        (600_002, {"shedding": True, "shed_window": 20, "shed_replicas": 3}),
    ):
        chosen = {"message_bytes_max": 700, "cache_addresses": True, **options}
        ring, _ = run_ring(seed, HARSH, RETURNING, fragment_levels=1, meet_at_subscriber=False, **chosen)
        found |= assert_all_survive(ring.simulator.journal, chord_codec())
    rare = {"ExpandState", "Expanded", "CollectAccepted", "Collected", "Release", "EdgePruned", "CopyEdgeGone"}
    rare |= {"ReplicaInfo", "CopyRequest", "PruneEdge", "Shed"}
    assert {kind.__name__ for kind in set(CHORD_KINDS.values()) - found} <= rare


@pytest.mark.slow
def test_the_messages_of_trees() -> None:
    found = assert_all_survive(run_twigs(600_003, HARSH)[0].simulator.journal, codd_codec())
    rare = {"EndOfStream", "Reject", "NewParent", "Replay", "ReplayDone", "Replayed", "Move", "Moved", "Leave"}
    assert {kind.__name__ for kind in set(CODD_KINDS.values()) - found} <= rare


def expansion(document: Document) -> RecExpand:
    return RecExpand(
        "start", Publication(document.name, 3, 1 << 60, True, document), (PathMatch(-1, ()),), ticket=(1 << 64) - 1
    )


def test_fragments_of_documents() -> None:
    codec = chord_codec()
    for document in random_messages(4, 40):
        for piece in split_document(document, 500):
            got = codec.decode(codec.encode(expansion(piece)))
            assert contents(got) == contents(expansion(piece))


def test_a_text_goes_over_a_link_once_as_long_as_it_is_remembered() -> None:
    sender, receiver = chord_codec(), chord_codec()
    documents = [document for document in random_messages(8, 150) if document.size_bytes > 200][:17]

    def length(document: Document) -> int:
        data = sender.encode(expansion(document))
        assert contents(receiver.decode(data)) == contents(expansion(document))
        return len(data)

    assert all(length(document) > document.size_bytes for document in documents)
    # The first one has been forgotten by both ends, and takes the place of the second one.
    assert [length(document) > document.size_bytes for document in (documents[16], documents[0], documents[1])] == [
        False,
        True,
        True,
    ]
    same = read_document(documents[1].name, documents[1].source)
    assert length(same) < 150
    other = read_document("another name", documents[1].source)
    assert length(other) > other.size_bytes


def test_a_text_that_never_came_is_refused() -> None:
    sender = chord_codec()
    document = random_messages(9, 1)[0]
    sender.encode(expansion(document))
    with pytest.raises(FrameError, match="text 1 before the last one is named, and 0 are known"):
        chord_codec().decode(sender.encode(expansion(document)))


def test_damaged_messages_are_refused_and_nothing_else_happens() -> None:
    codec, generator = codd_codec(), random.Random(5)
    (document,) = random_messages(5, 1)
    data = codec.encode(LinkMessage(1 << 40, 3, -1, 5, Forward(Item(7, document, 100), 1 << 61)))
    refused = 0
    for _ in range(3_000):
        damaged = bytearray(data)
        for _ in range(generator.randint(1, 3)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        if generator.random() < 0.3:
            del damaged[generator.randrange(len(damaged)) :]
        try:
            codec.decode(bytes(damaged))
        except (FrameError, MalformedMessage):
            refused += 1
    assert refused > 1_000


def test_a_fragment_whose_elements_are_their_own_ancestors_is_refused() -> None:
    codec = chord_codec()
    large = next(document for document in random_messages(6, 60) if document.size_bytes > 600)
    document = split_document(large, 500)[0]
    elements = document.elements
    looped = Document(
        document.name, (*elements[:-1], elements[-1]._replace(parent=len(elements) - 1)), document.children, 10, 0, 2
    )
    with pytest.raises(FrameError, match="has the parent"):
        codec.decode(codec.encode(expansion(looped)))


def test_values_that_are_nested_too_deep_are_refused() -> None:
    from twigcast.overlay.codd.messages import Add
    from twigcast.overlay.codd.twigs import Twig

    twig = Twig("a", False)
    for _ in range(200):
        twig = Twig("a", False, (), (twig,))
    codec = codd_codec()
    with pytest.raises(FrameError, match="nested"):
        codec.decode(codec.encode(Add(1, frozenset({twig}), 2)))


def test_a_class_without_a_kind_is_named() -> None:
    with pytest.raises(TypeError, match="Forward"):
        chord_codec().encode(Forward(Item(1, None), 2))
