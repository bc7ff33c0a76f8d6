"""What all algorithms share: the event stream, and queries that come between messages or are refused."""

import pytest

from tests.lab.reference.examples import fill
from twigcast.lab.reference import ALGORITHMS, YFilterInline
from twigcast.lab.reference.events import build, read_events
from twigcast.lab.reference.xfilter import XFilter
from twigcast.query import Path, child, descendant, parse


def test_tag_labels() -> None:
    labels = [(element.name, element.label) for element in build(read_events(b"<a><b><c/></b><b/></a>"))]
    assert labels == [("a", (1, 8, 1)), ("b", (2, 5, 2)), ("c", (3, 4, 3)), ("b", (6, 7, 2))]


def test_tag_labels_tell_ancestors() -> None:
    elements = build(read_events(b"<a><b><c/><c><b/></c></b><b/></a>"))
    for x in elements:
        for y in elements:
            contains = x.left < y.left and y.right < x.right
            assert contains == (x in y.ancestors())
            assert (contains and y.level == x.level + 1) == (y.parent is x)


def test_comments_and_instructions_split_text_nodes() -> None:
    a, b = build(read_events(b"<a>x&lt;y<!-- -->z<?p?><![CDATA[w]]><b>in</b>u</a>"))
    assert a.texts == ["x<y", "z", "w", "u"]
    assert a.string_value == "x<yzwinu"
    assert b.texts == ["in"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_query_added_between_messages_is_seen_by_the_next(name: str) -> None:
    algorithm = ALGORITHMS[name]()
    fill(algorithm, "/a/b")
    message = b"<a><b/><c/></a>"
    assert algorithm.match(message) == {"Q1"}
    algorithm.add("Q2", parse("/a/c"))
    algorithm.add("Q3", parse("//c"))
    assert algorithm.match(message) == {"Q1", "Q2", "Q3"}
    algorithm.remove("Q1")
    assert algorithm.match(message) == {"Q2", "Q3"}


def test_unsupported_query_names_the_construct() -> None:
    with pytest.raises(ValueError, match=r"Inline: a nested path is not supported: /a\[b\]"):
        YFilterInline().add("Q", Path.absolute(child("a", Path.relative(child("b")))))
    with pytest.raises(ValueError, match="a path that ends in"):
        XFilter(published=True).add("Q", Path.absolute(descendant("a"), child("*")))
