"""Orders to peers: what they say, and how those that say nothing are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from twigcast.errors import InvalidContext, QueryError, TwigcastError
from twigcast.overlay.errors import MessageTooLarge, OrderError, UndistributableQuery
from twigcast.overlay.paths import linear_parts
from twigcast.peers.orders import DOCUMENT_BYTES_MAX, Order, order_name
from twigcast.peers.ring import RingMember
from twigcast.peers.tree import TreeMember


def order(**values: Any) -> Order:
    return Order.read(json.dumps(values))


def test_prefixes_of_a_query_are_declared_with_it() -> None:
    path = order(do="subscribe", query="//c:alert", namespaces={"c": "urn:cap"}).path()
    assert linear_parts(path)[0].labels == ("$", "{urn%3Acap}alert")
    plain = order(do="subscribe", query="/alert", namespaces={"": "urn:cap"}).path()
    assert linear_parts(plain)[0].labels == ("{urn%3Acap}alert",)
    TreeMember(7, 1, (3,), "//c:alert", {"c": "urn:cap"})


@pytest.mark.parametrize(
    ("values", "error", "reason"),
    [
        ({"query": "//c:alert"}, QueryError, "prefix `c` has no namespace"),
        ({"query": "//a", "namespaces": ["urn:cap"]}, OrderError, "an object with a text for each prefix"),
        ({"query": "//a", "namespaces": {"c": 5}}, OrderError, "an object with a text for each prefix"),
        ({"query": "//a", "namespaces": {"c": ""}}, InvalidContext, "stands for an empty namespace"),
        ({"query": "count(//a)"}, UndistributableQuery, "only absolute"),
        ({"query": ""}, OrderError, '"query" is needed'),
        ({}, OrderError, '"query" is needed'),
    ],
)
def test_queries_that_are_none_are_refused(values: Any, error: type[TwigcastError], reason: str) -> None:
    with pytest.raises(error, match=reason):
        order(do="subscribe", **values).path()


def test_a_message_of_more_than_the_bound_is_refused() -> None:
    around = len("<a></a>")
    assert order(do="publish", name="m", xml=f"<a>{'x' * (DOCUMENT_BYTES_MAX - around)}</a>").document().name == "m"
    with pytest.raises(MessageTooLarge, match="message m takes"):
        order(do="publish", name="m", xml=f"<a>{'x' * (DOCUMENT_BYTES_MAX - around + 1)}</a>").document()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('{"do": "publish", "name": "m", "xml": "<a"}', {"do": "publish", "name": "m"}),
        ('{"do": "subscribe", "key": 5}', {"do": "subscribe"}),
        ("[1]", {}),
        ("nonsense", {}),
    ],
)
def test_an_order_is_named_as_far_as_it_can_be_read(line: str, name: dict[str, str]) -> None:
    assert order_name(line) == name


def test_a_ring_peer_is_busy_while_many_publications_are_not_complete() -> None:
    member = RingMember(7, 1, ())
    assert not member.is_busy
    member.node.publications.update({str(number): object() for number in range(17)})
    assert member.is_busy
