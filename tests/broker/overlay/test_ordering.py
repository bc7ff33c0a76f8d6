"""What arrives behind a gap waits until the gap is closed; what waits too long passes, and what it passes is late."""

from __future__ import annotations

from random import Random

import pytest

from tests.seeds import printed_seed
from twigcast.broker.overlay import ordering
from twigcast.broker.overlay.ordering import HELD_SECONDS, MessageOrder
from twigcast.overlay.onyx.messages import OverlayMessage
from twigcast.overlay.onyx.protocol.events import StoreRequested
from twigcast.overlay.onyx.protocol.root_stream import ReceivedRanges

ROOT = 7


def message(number: int, size: int = 10) -> OverlayMessage:
    return OverlayMessage(ROOT, number, "default", "s", f"m{number}", "application/xml", b"x" * size, published=0.0)


class Arrivals:
    """A root's messages as a node receives them: some wanted, in any order."""

    def __init__(self, order: MessageOrder) -> None:
        self.order = order
        self.ranges = ReceivedRanges(0)
        self.passed: list[int] = []
        self.stored = 0
        self.wanted: set[int] = set()

    def arrive(self, after: int, upto: int, *, wanted: bool = True) -> None:
        """What a node does with a span."""
        is_new = not self.ranges.contains(upto)
        before = self.ranges.horizon
        self.ranges.add(after, upto)
        horizon = self.ranges.horizon
        assert horizon is not None
        if wanted and is_new:
            self.wanted.add(upto)
        if (wanted and is_new) or horizon != before:
            self.take(self.order.put(StoreRequested(ROOT, message(upto) if wanted and is_new else None, horizon)))

    def take(self, requests: list[StoreRequested]) -> None:
        for request in requests:
            if request.message is not None:
                self.passed.append(request.message.number)
            # After a crash here, what lies above the stored horizon is requested again, and nothing else.
            self.stored = request.horizon
            assert {number for number in self.wanted if number <= self.stored} <= set(self.passed)


@pytest.mark.parametrize("salt", range(20))
def test_in_whatever_order_spans_arrive_messages_pass_in_theirs(salt: int) -> None:
    chance = Random(printed_seed() + salt)
    arrivals = Arrivals(MessageOrder(lambda: 0.0))
    numbers = list(range(1, 60))
    # Runs of spans, as they come over several links and in answers of the root.
    chance.shuffle(numbers)
    for number in numbers:
        arrivals.arrive(number - 1, number, wanted=chance.random() < 0.7)
        if chance.random() < 0.1:
            arrivals.arrive(number - 1, number)  # twice
    assert arrivals.passed == sorted(arrivals.wanted)
    assert (arrivals.stored, arrivals.order.held, arrivals.order.overtaken) == (59, 0, set())


def test_what_waits_too_long_passes_and_what_comes_then_is_late() -> None:
    now = 0.0
    order = MessageOrder(lambda: now)
    arrivals = Arrivals(order)
    arrivals.arrive(0, 1)
    arrivals.arrive(3, 4)
    assert (arrivals.passed, order.held) == ([1], 1)
    now = HELD_SECONDS - 1
    assert order.overdue() == []
    now = HELD_SECONDS
    arrivals.take(order.overdue())
    # Until the gap is closed nothing waits for it any more.
    arrivals.arrive(4, 5)
    assert (arrivals.passed, arrivals.stored) == ([1, 4, 5], 1)
    arrivals.arrive(1, 2)
    assert order.overtaken == {(ROOT, 2)}
    arrivals.arrive(2, 3)
    assert (arrivals.passed[-2:], arrivals.stored, order.overtaken) == ([2, 3], 5, {(ROOT, 2), (ROOT, 3)})
    arrivals.arrive(7, 8)
    assert order.held == 1


def test_a_gap_that_closes_little_by_little_is_waited_for() -> None:
    now = 0.0
    order = MessageOrder(lambda: now)
    arrivals = Arrivals(order)
    arrivals.arrive(50, 51)
    for number in range(1, 51):
        now += HELD_SECONDS - 1
        assert order.overdue() == []
        arrivals.arrive(number - 1, number)
    assert arrivals.passed == list(range(1, 52))


def test_no_more_is_held_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "HELD_MESSAGES_MAX", 3)
    arrivals = Arrivals(MessageOrder(lambda: 0.0))
    for number in (2, 3, 4):
        arrivals.arrive(number - 1, number)
    assert arrivals.passed == []
    arrivals.arrive(4, 5)
    assert (arrivals.passed, arrivals.stored) == ([2, 3, 4, 5], 0)
