"""When a broker asks for what it missed."""

from __future__ import annotations

import pytest

from twigcast.overlay.core import Effects
from twigcast.overlay.onyx.content.routing_query import everything
from twigcast.overlay.onyx.content.routing_table import RoutingTable
from twigcast.overlay.onyx.messages import PROTOCOL, Attached, Hello, LinkState, Recover, Recovered, Span
from twigcast.overlay.onyx.protocol.node import OnyxNode
from twigcast.overlay.onyx.protocol.settings import OnyxSettings

ME, ROOT = 1, 2
RETRY = OnyxSettings().recover_retry


def linked(node: OnyxNode, now: float, incarnation: int = 1) -> None:
    """There is a link to the root, up to where an attachment is asked for."""
    node.link_up(ROOT, 10, now)
    node.receive(ROOT, Hello(ROOT, incarnation, PROTOCOL, ("text",)), now)
    node.receive(ROOT, LinkState(ROOT, incarnation, 1, ((ME, 10),), ""), now)
    node.wake("flush", now + 0.1)


def asked(effects: Effects) -> list[tuple[int, int]]:
    """The gaps that are asked for."""
    return [(sent.after, sent.upto) for _, sent in effects.sends if isinstance(sent, Recover)]


@pytest.fixture
def restarted() -> OnyxNode:
    """A broker that knew the root's messages up to the fourth, and is linked with it again."""
    node = OnyxNode(ME, 5, RoutingTable(), horizons={ROOT: 4})
    node.subscribe("k", everything(), 0.0)
    linked(node, 0.0)
    return node


def test_who_comes_back_asks_at_once_for_what_was_missed(restarted: OnyxNode) -> None:
    assert asked(restarted.receive(ROOT, Attached(ROOT, 1, 9), 0.2)) == [(4, 9)]
    # Not again when the usual time has passed, but when nothing came for long.
    assert asked(restarted.wake(("recover", ROOT), 0.7)) == []
    assert asked(restarted.wake(("recover", ROOT), 0.2 + RETRY)) == [(4, 9)]
    restarted.receive(ROOT, Recovered(Span(ROOT, 4, 9, None), (ME,)), 4.0)
    assert asked(restarted.wake(("recover", ROOT), 4.0 + RETRY)) == []


def test_a_question_that_was_under_way_on_a_link_that_broke_is_asked_at_once_on_the_next(
    restarted: OnyxNode,
) -> None:
    restarted.receive(ROOT, Attached(ROOT, 1, 9), 0.2)
    restarted.link_down(ROOT, 0.3)
    linked(restarted, 0.4, incarnation=2)
    number = restarted.streams[ROOT].number
    assert asked(restarted.receive(ROOT, Attached(ROOT, number, 11), 0.6)) == [(4, 9), (9, 11)]


def test_a_gap_in_what_comes_is_given_time_to_close(restarted: OnyxNode) -> None:
    restarted.receive(ROOT, Attached(ROOT, 1, 4), 0.2)
    assert asked(restarted.receive(ROOT, Span(ROOT, 6, 7, None), 0.3)) == []
    assert asked(restarted.wake(("recover", ROOT), 0.8)) == [(4, 6)]


def test_who_misses_nothing_asks_for_nothing(restarted: OnyxNode) -> None:
    assert asked(restarted.receive(ROOT, Attached(ROOT, 1, 4), 0.2)) == []
