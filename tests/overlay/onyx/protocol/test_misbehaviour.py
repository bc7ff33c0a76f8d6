"""What a broker does with what no broker should send: named, contained, never a crash."""

from __future__ import annotations

from typing import Any

import pytest

from twigcast.overlay.core import Effects
from twigcast.overlay.onyx.content.routing_query import everything, routing_query
from twigcast.overlay.onyx.content.routing_table import RoutingTable
from twigcast.overlay.onyx.messages import (
    PROTOCOL,
    Attach,
    Attached,
    Hello,
    LinkState,
    OverlayMessage,
    Recover,
    Recovered,
    RoutingDelta,
    SourceEntry,
    Span,
)
from twigcast.overlay.onyx.protocol.events import NodeWarning, ProtocolViolation, StoreRequested
from twigcast.overlay.onyx.protocol.node import OnyxNode
from twigcast.overlay.onyx.protocol.settings import OnyxSettings


def hello(identity: int, version: tuple[int, int] = PROTOCOL) -> Hello:
    return Hello(identity, 1, version, ("text",))


def message(root: int, number: int, path: tuple[int, ...] = ()) -> OverlayMessage:
    return OverlayMessage(root, number, "", "", f"m{number}", "application/xml", b"<a/>", path=path)


def pair(settings: OnyxSettings | None = None) -> OnyxNode:
    """Broker 1, below broker 2, which is a root and has confirmed its attachment."""
    node = OnyxNode(1, 5, RoutingTable(), settings)
    node.subscribe("k", everything(), 0.0)
    node.link_up(2, 10, 0.0)
    node.receive(2, hello(2), 0.0)
    node.receive(2, LinkState(2, 1, 1, ((1, 10),), "elsewhere"), 0.0)
    node.wake("flush", 0.1)
    node.receive(2, Attached(2, 1, 0), 0.2)
    return node


def refusal(effects: Effects) -> ProtocolViolation:
    (result,) = [item for item in effects.deliveries if isinstance(item, ProtocolViolation)]
    return result


def test_a_good_span_is_accepted() -> None:
    effects = pair().receive(2, Span(2, 0, 4, message(2, 4, (2,))), 1.0)
    assert [item for item in effects.deliveries if isinstance(item, StoreRequested)] == [
        StoreRequested(2, message(2, 4, (2,)), 4)
    ]


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (Span(2, 5, 3, None), "order"),
        (Span(2, 0, 4, message(2, 5, (2,))), "order"),
        (Span(2, 0, 4, message(3, 4, (3,))), "order"),
        (Span(1, 0, 4, message(1, 4)), "loop"),
        (Span(2, 0, 4, message(2, 4, (2, 1, 7))), "loop"),
        (Span(2, 0, 4, message(2, 4, (2, *range(10, 18)))), "hops"),
        (hello(2), "order"),
        (RoutingDelta(7, (), ()), "order"),
        (RoutingDelta(0, tuple((d, "*") for n in range(9) for d in everything(f"s{n}")), ()), "size"),
        (Recover(1, 0, 1, everything(), (9,)), "order"),
        (Recovered(Span(2, 0, 1, None), (9, 1)), "order"),
        (Recovered(Span(2, 0, 1, message(2, 2)), (1,)), "order"),
    ],
)
def test_what_no_broker_sends_breaks_the_link_and_nothing_else(sent: Any, kind: str) -> None:
    node = pair(OnyxSettings(hops_max=8, disjuncts_max=8))
    result = refusal(node.receive(2, sent, 1.0))
    assert (result.neighbour, result.kind) == (2, kind)
    assert 2 not in node.links
    assert not node.receive(2, Span(2, 0, 9, None), 1.1).deliveries, "nobody listens to it any more"
    node.wake("flush", 1.2)
    assert node.parents == {}
    # A new link begins anew.
    node.link_up(2, 10, 2.0)
    node.receive(2, hello(2), 2.0)
    node.receive(2, LinkState(2, 1, 2, ((1, 10),), "elsewhere"), 2.0)
    assert any(isinstance(sent, Attach) for _, sent in node.wake("flush", 2.1).sends)


@pytest.mark.parametrize(
    ("greeting", "kind"), [(hello(2, (9, 0)), "version"), (hello(1), "identity"), (hello(3), "identity")]
)
def test_greetings_that_do_not_fit(greeting: Hello, kind: str) -> None:
    node = OnyxNode(1, 5, RoutingTable())
    node.link_up(2, 10, 0.0)
    assert refusal(node.receive(2, greeting, 0.1)).kind == kind


def test_nothing_counts_before_the_greeting() -> None:
    node = OnyxNode(1, 5, RoutingTable())
    node.link_up(2, 10, 0.0)
    assert refusal(node.receive(2, Attach(1, 1), 0.1)).kind == "order"


def test_two_brokers_with_one_identity_are_named() -> None:
    node = pair()
    effects = node.receive(2, LinkState(1, 6, 1, ((3, 1),), "10.0.0.9:7000"), 1.0)
    (trouble,) = [item for item in effects.deliveries if isinstance(item, NodeWarning)]
    assert trouble.kind == "identity"
    assert "10.0.0.9:7000" in trouble.reason
    assert node.topology.own.incarnation == 5
    # What is left of an earlier start of this broker is none.
    assert not node.receive(2, LinkState(1, 4, 9, ((3, 1),), ""), 1.0).deliveries


def test_a_neighbour_that_makes_up_brokers_fills_nothing() -> None:
    node = pair(OnyxSettings(members_max=5, sources_max=3))
    for number in range(100, 200):
        node.receive(2, Attach(number, 1), 1.0)
        node.receive(2, LinkState(number, 1, 1, ()), 1.0)
        node.receive(2, SourceEntry(f"s{number}", 1, 2), 1.0)
    assert len(node.members) == 5
    assert len(node.catalogue) == 3
    assert set(node.streams) <= node.members
    assert {"trouble_members", "trouble_catalogue", "unknown_roots"} <= set(node.counts)


def test_messages_from_where_they_do_not_come_from_are_ignored() -> None:
    node = pair()
    node.link_up(3, 10, 1.0)
    node.receive(3, hello(3), 1.0)
    assert not node.receive(3, Span(2, 0, 4, message(2, 4, (2,))), 1.1).deliveries


def test_a_root_whose_store_is_older_than_what_others_know_of_it_is_told() -> None:
    node = pair()
    effects = node.receive(2, Recover(1, 3, 8, everything(), (2,)), 1.0)
    assert [item.kind for item in effects.deliveries if isinstance(item, NodeWarning)] == ["question"]


def test_a_message_that_cannot_be_read_here_is_passed_on() -> None:
    node = pair()
    node.link_up(3, 10, 1.0)
    node.receive(3, hello(3), 1.0)
    node.receive(3, LinkState(3, 1, 1, ((1, 10),), ""), 1.0)
    node.receive(3, RoutingDelta(0, tuple((d, "*") for d in routing_query("/a/z")), ()), 1.0)
    node.receive(3, Attach(2, 1), 1.0)
    node.wake("flush", 1.1)
    for number in range(2, 5):
        node.receive(2, Attached(2, number, 0), 1.2)
    node.wake("flush", 1.3)
    broken = message(2, 4, (2,))._replace(body=b"<a><b></a>")
    effects = node.receive(2, Span(2, 0, 4, broken), 1.4)
    assert [item.kind for item in effects.deliveries if isinstance(item, NodeWarning)] == ["message"]
    assert [to for to, sent in effects.sends if isinstance(sent, Span) and sent.message is not None] == [3]
