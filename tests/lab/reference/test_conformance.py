"""Queries outside the language of the reference algorithms are refused by name. What they answer is in the corpus."""

import pytest

from twigcast.lab.reference import OutsideFragment, path_query
from twigcast.query import parse

OUTSIDE = {
    "count(//a) > 2": "anything but an absolute location path",
    "//a | //b": "anything but an absolute location path",
    "//a[not(b)]": r"\[not\(b\)\]",
    "//a[b or c]": r"\[b or c\]",
    "//a[last()]": r"comparing with last\(\)",
    "//a[@x = @y]": "comparing with @y",
    "//a[b = c]": "comparing with c",
    "//a/..": r"node\(\) as a step",
    "//a/following-sibling::b": "the following-sibling axis",
    "//a/ancestor::b": "the ancestor axis",
    "/descendant::a[2]": "the descendant axis with a position",
    "//a[b][2]": "a position after a nested path",
    "//a[position() > 1 and position() < 3]": "a conjunction of positions",
    "//a[//b]": r"\[//b\]",
    "//a[.//@x]": "the descendant-or-self axis",
    "//a//text()": r"text\(\) as a step",
    "//comment()": r"comment\(\) as a step",
    "/": "a path without steps",
    "/@x": "an attribute or text of the document node",
    "//*:a": r"the name test \*:a",
    "//a[.]": r"\[\.\]",
}


@pytest.mark.parametrize("query", OUTSIDE)
def test_what_the_language_does_not_have_is_named(query: str) -> None:
    with pytest.raises(OutsideFragment, match=f"^{OUTSIDE[query]} is not supported: "):
        path_query(parse(query))
