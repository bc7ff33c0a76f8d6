"""The page of published errors: each row is wrong as it says, and there is no smaller one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from lxml import etree

from twigcast.lab.overlays.chord.automaton import Automaton, EncodedPaths, labels_of
from twigcast.lab.reference import PUBLISHED, OutsideFragment, path_query
from twigcast.query import parse

PAGE = Path(__file__).parents[3] / "docs/algorithms/published-errors.md"
ROW = re.compile(r"\| `([\w.-]+)` \| `([^`]+)` \| `([^`]+)` \| (match|no match) \| (match|no match) \|")
ROWS = ROW.findall(PAGE.read_text(encoding="utf-8"))
STEP = re.compile(r"//?(?:\w+|\*)")


def printed(mode: str, query: str, message: str) -> bool:
    algorithm = PUBLISHED[mode]()
    algorithm.add("Q", path_query(parse(query)))
    return bool(algorithm.match(message.encode()))


def right(query: str, message: str) -> bool:
    return bool(etree.fromstring(message).xpath(f"boolean({query})"))


def elements(message: str) -> int:
    return sum(1 for _ in etree.fromstring(message).iter())


@cache
def trees(size: int, attributes: tuple[str, ...]) -> tuple[str, ...]:
    """All messages with so many elements."""
    return tuple(
        f"<{name}{attribute}>{inner}</{name}>"
        for name in "ab"
        for attribute in attributes
        for inner in forests(size - 1, attributes)
    )


@cache
def forests(size: int, attributes: tuple[str, ...]) -> tuple[str, ...]:
    if not size:
        return ("",)
    return tuple(
        first + rest
        for count in range(1, size + 1)
        for first in trees(count, attributes)
        for rest in forests(size - count, attributes)
    )


def paths(steps: int, predicates: tuple[str, ...]) -> Iterator[str]:
    """All queries with so many location steps; a predicate that is a path counts as one more."""
    choices = [a + name + p for a in ("/", "//") for name in ("a", "b", "*") for p in predicates]
    return ("".join(chosen) for chosen in product(choices, repeat=steps))


def smaller(query: str, message: str) -> Iterator[tuple[str, str]]:
    """All queries and messages with fewer steps and elements together, with the predicates and attributes of these."""
    predicates = tuple(dict.fromkeys(["", *re.findall(r"\[[^\]]*\]", query)]))
    attributes = ("", ' x="1"') if "@" in query else ("",)
    size = weight(query) + elements(message)
    for steps in range(1, size - 1):
        for text in paths(steps, predicates):
            for count in range(1, size - weight(text)):
                for tree in trees(count, attributes):
                    yield text, tree


def weight(query: str) -> int:
    """Location steps of a query, those of nested paths included."""
    return len(STEP.findall(query)) + len(re.findall(r"\[[a-z]+\]", query))


def test_the_page_has_rows() -> None:
    assert {mode for mode, *_ in ROWS} == set(PUBLISHED)


@pytest.mark.parametrize(("mode", "query", "message", "as_printed", "as_right"), ROWS)
def test_a_row_is_as_it_says(mode: str, query: str, message: str, as_printed: str, as_right: str) -> None:
    assert as_printed != as_right
    assert printed(mode, query, message) == (as_printed == "match")
    assert right(query, message) == (as_right == "match")


@pytest.mark.parametrize(("mode", "query", "message"), [row[:3] for row in ROWS if row[1] != "//a[a]"])
def test_there_is_nothing_smaller(mode: str, query: str, message: str) -> None:
    tried = 0
    for text, tree in smaller(query, message):
        try:
            found = printed(mode, text, tree)
        except OutsideFragment:
            continue
        tried += 1
        assert found == right(text, tree), (text, tree)
    assert tried >= 8


def test_the_smallest_twig_that_is_lost() -> None:
    """Smaller than `//a[a]` and its two elements is only a twig in a message of one element, which no twig matches."""
    for axis, name, nested in product(("/", "//"), ("a", "b", "*"), ("a", "b", "*")):
        for message in ("<a/>", "<b/>"):
            query = f"{axis}{name}[{nested}]"
            assert not printed("bfilter-published", query, message)
            assert not right(query, message)


def test_an_invented_match_of_bfilter() -> None:
    query, message = "//a[x]/b[c]/d", "<a><b><c/><d/></b><a><x/><y/></a></a>"
    assert f"`{query}` on `{message}`" in PAGE.read_text(encoding="utf-8")
    assert printed("bfilter-published", query, message)
    assert not right(query, message)


@pytest.mark.parametrize("queries", [("/a", "/b"), ("/a", "//a"), ("/a", "/a/b", "//*", "/*/b")])
def test_distinct_queries_need_as_many_states(queries: tuple[str, ...]) -> None:
    assert len(Automaton(EncodedPaths(labels_of(query) for query in queries))) >= len(queries)
