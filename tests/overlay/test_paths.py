"""Queries cut into linear parts, twigs and fragments must mean what XPath says: differential tests against libxml2."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from tests.overlay.overlay_population import matches, message, random_messages, random_queries, random_xml
from twigcast.errors import MalformedMessage
from twigcast.overlay.chord import meeting
from twigcast.overlay.chord.states import PartClaim, SubscriptionRef
from twigcast.overlay.codd.twig_engine import TwigEngine
from twigcast.overlay.codd.twigs import contains, shortened, twig_matches, twig_of
from twigcast.overlay.documents import Document, number_of, read_document, split_document
from twigcast.overlay.paths import EPSILON, WILDCARD, LinearPart, holds, linear_parts
from twigcast.query import NameTest, Path, child, descendant


def path_matches(part: LinearPart, document: Document) -> list[tuple[int, ...]]:
    """All path matches of a linear part, by brute force."""
    results: list[tuple[int, ...]] = []

    def walk(position: int, at: int, path: tuple[int, ...]) -> None:
        if position == len(part.labels):
            if all(holds(p.test, document.elements[path[p.step]]) for p in part.predicates):
                results.append(path)
            return
        if part.labels[position] == EPSILON:
            walk(position + 1, at, path)
            for below in document.children[at]:
                skip(position, below, path)
            return
        for below in document.children[at]:
            if part.labels[position] in (WILDCARD, document.elements[below].label):
                walk(position + 1, below, (*path, below))

    def skip(position: int, at: int, path: tuple[int, ...]) -> None:
        walk(position + 1, at, path)
        for below in document.children[at]:
            skip(position, below, path)

    walk(0, -1, ())
    return results


def answer(query: Path, pieces: list[Document]) -> bool:
    """What the meeting point says when all parts have reported from all fragments."""
    parts = linear_parts(query)
    plan = tuple((part.parent, part.anchor) for part in parts) if len(parts) > 1 else ()
    meet = meeting.Meeting(len(parts))
    for piece in pieces:
        for number, part in enumerate(parts):
            claim = PartClaim(SubscriptionRef(0, "k"), number, plan)
            for path in path_matches(part, piece):
                if not plan:
                    return True
                lefts = tuple(piece.elements[path[step]].left for step in meeting.joints(claim))
                meet.add(claim, [lefts])
    return meet.done


@pytest.mark.parametrize("seed", range(20))
def test_parts_meet_as_xpath_says(seed: int) -> None:
    queries, documents = random_queries(seed, 40), random_messages(seed, 12, "parts")
    wrong = [
        (str(query), document.name)
        for query in queries
        for document in documents
        if answer(query, [document]) != matches(query, document)
    ]
    assert wrong == []


@pytest.mark.parametrize("seed", range(8))
def test_fragments_match_as_the_whole(seed: int) -> None:
    queries, documents = random_queries(seed, 40), random_messages(seed, 12, "cut")
    for document in documents:
        pieces = split_document(document, max(400, document.size_bytes // 3))
        wrong = [str(query) for query in queries if answer(query, pieces) != matches(query, document)]
        assert wrong == []


@pytest.mark.parametrize("seed", range(8))
def test_twigs_match_as_xpath_says(seed: int) -> None:
    queries, documents = random_queries(seed, 40), random_messages(seed, 12, "twig")
    for query in queries:
        twig = twig_of(query)
        for document in documents:
            assert twig_matches(twig, document) == matches(query, document), (str(query), document.name)


@pytest.mark.parametrize("seed", range(6))
def test_wider_twigs_are_wider(seed: int) -> None:
    twigs = [twig_of(query) for query in random_queries(seed, 30)]
    documents = random_messages(seed, 12, "wide")
    engine = TwigEngine()
    answers = {twig: {d.name for d in documents if twig_matches(twig, d)} for twig in twigs}
    for one in twigs:
        assert answers[one] <= {d.name for d in documents if twig_matches(shortened(one), d)}
        for other in twigs:
            if contains(one, other):
                assert answers[one] >= answers[other]
            assert 0 <= engine.similarity(one, other) <= 1
    for limit in (1, 3, 8):
        few = engine.summarise(frozenset(twigs), limit)
        assert len(few) <= limit
        together = set().union(*answers.values())
        assert together <= {d.name for d in documents for twig in few if twig_matches(twig, d)}  # type: ignore[arg-type]


def test_positions_of_the_published_example() -> None:
    document = read_document("m", b"<a><b><c/></b><b/></a>")
    assert [(e.label, e.left, e.right, e.depth) for e in document.elements] == [
        ("a", 1, 8, 1),
        ("b", 2, 5, 2),
        ("c", 3, 4, 3),
        ("b", 6, 7, 2),
    ]


def test_names_in_namespaces() -> None:
    document = message("ns", b'<a xmlns="urn:x/y" xmlns:p="urn:z" p:k="1"><p:b k="2"/></a>')
    assert [e.label for e in document.elements] == ["{urn%3Ax%2Fy}a", "{urn%3Az}b"]
    assert document.elements[0].attributes == (("{urn%3Az}k", "1"),)
    step = child("a")
    for test, labels in ((NameTest("a", "urn:x/y"), ("{urn%3Ax%2Fy}a",)), (NameTest("*", "urn:x/y"), ("*",))):
        (part,) = linear_parts(Path.absolute(dataclasses.replace(step, test=test)))
        assert part.labels == labels
        assert answer(Path.absolute(dataclasses.replace(step, test=test)), [document])
    assert not answer(Path.absolute(dataclasses.replace(step, test=NameTest("*", "urn:z"))), [document])
    assert answer(Path.absolute(descendant("*"), dataclasses.replace(step, test=NameTest("b", None))), [document])


def test_text_is_split_where_xpath_splits_it() -> None:
    document = read_document("t", b"<a>x<!-- c -->y<b>z</b>&lt;<![CDATA[w]]><?p?>v</a>")
    assert document.elements[0].texts == ("x", "y", "<w", "v")
    assert document.elements[0].string == "xyz<wv"


@pytest.mark.parametrize(
    ("text", "number"),
    [(" 12 ", 12.0), ("-3.5", -3.5), (".5", 0.5), ("5.", 5.0), ("1e3", math.nan), ("+1", math.nan), ("", math.nan)],
)
def test_numbers_are_those_of_xpath(text: str, number: float) -> None:
    assert number_of(text) == pytest.approx(number, nan_ok=True)


def test_a_malformed_message_is_rejected_with_its_place() -> None:
    with pytest.raises(MalformedMessage, match="line 1, column"):
        read_document("bad", b"<a><b></a>")


def test_reading_arbitrary_bytes_never_fails_otherwise() -> None:
    generator = random.Random(4)
    for _ in range(300):
        xml = bytearray(random_xml(generator))
        for _ in range(generator.randint(1, 3)):
            xml[generator.randrange(len(xml))] = generator.randrange(256)
        try:
            read_document("fuzz", bytes(xml))
        except MalformedMessage:
            continue
