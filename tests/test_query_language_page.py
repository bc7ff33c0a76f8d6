"""The page of the query language: what stands in its tables is a query, and means something to a message."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from twigcast import SubscriptionSet
from twigcast.errors import QueryWarning

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "query-language.md"
NAMESPACES = {
    "p": "urn:p",
    "xsi": "http://www.w3.org/2001/XMLSchema-instance",
    "cap": "urn:oasis:names:tc:emergency:cap:1.2",
    "georss": "http://www.georss.org/georss",
}
PARAMS = {"kind": "storm", "hole": "47.2,8.6 47.2,8.8 47.4,8.8 47.2,8.6"}
NO_QUERIES = re.compile(r"\W*|[a-z ]+\(?\)?|eq|xs:\w+")
"""Operators, names of functions and words in the tables."""


def _rows(text: str) -> list[str]:
    """The right sides of tables whose left side says what a construct is about."""
    parts = (re.split(r"(?<!\\)\|", line) for line in text.splitlines() if line.startswith("| "))
    return [part[2].replace("\\|", "|") for part in parts if len(part) == 4]


def _examples() -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    page, _, rest = text.partition("### Functions")
    page = page[page.index("Of XPath 3.1") :] + rest[: rest.index("## What is refused")]
    spans = [span for row in _rows(page) for span in re.findall(r"`([^`]+)`", row)]
    return [span for span in spans if not NO_QUERIES.fullmatch(span)]


@pytest.mark.parametrize("example", _examples())
def test_an_example_is_a_query(example: str) -> None:
    query = f"//*{example}" if example.startswith("[") else example
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        subscriptions = SubscriptionSet(namespaces=NAMESPACES)
        subscriptions.add("q", query, params={name: value for name, value in PARAMS.items() if f"${name}" in query})
    match = subscriptions.match("<other/>")
    assert not match.undecided
    assert subscriptions.explain("<other/>", "q").matches == bool(match)


def test_the_page_has_an_example_of_each_construct() -> None:
    assert len(_examples()) > 60
