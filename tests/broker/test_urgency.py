"""What is next, against a list that is searched from end to end; and bounds that hold whatever comes."""

from __future__ import annotations

import random
from itertools import count

import pytest

from tests.seeds import printed_seed
from twigcast.broker.urgency import (
    NEVER,
    OLDEST_EVERY,
    USUAL_PRIORITY,
    DeliveryUrgency,
    OverduePolicy,
    Urgency,
    UrgencyQueue,
    deadline_of,
)


class Model:
    """What waits, in a list."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, float, int]] = []
        self.choices = 0

    def pop(self, now: float) -> int:
        self.choices += 1
        in_time = [one for one in self.waiting if one[1] > now]
        if self.choices % OLDEST_EVERY == 0 or not in_time:
            chosen = min(self.waiting, key=lambda one: one[2])
        else:
            chosen = min(in_time, key=lambda one: (-one[0], one[1], one[2]))
        self.waiting.remove(chosen)
        return chosen[2]


def test_the_next_one_is_that_of_a_list_on_random_histories() -> None:
    chance = random.Random(printed_seed())
    for _ in range(300):
        queue: UrgencyQueue[int] = UrgencyQueue()
        model, numbers, now = Model(), count(), 0.0
        priorities = chance.choice(((4,), (0, 9), range(10)))
        for _ in range(chance.randrange(120)):
            now += chance.choice((0, 0, 1, 5))
            if model.waiting and chance.random() < 0.5:
                assert queue.pop(now) == model.pop(now)
            else:
                one = chance.choice(priorities), chance.choice((NEVER, now, now + chance.randrange(20))), next(numbers)
                model.waiting.append(one)
                queue.push(one[2], *one[:2])
            assert len(queue) == len(model.waiting)
        while model.waiting:
            now += chance.choice((0, 1))
            assert queue.pop(now) == model.pop(now)
        with pytest.raises(IndexError):
            queue.pop(now)


def test_without_priorities_and_deadlines_the_order_is_that_of_arrival() -> None:
    queue: UrgencyQueue[int] = UrgencyQueue()
    for number in range(100):
        queue.push(number)
    assert [queue.pop(0.0) for _ in range(100)] == list(range(100))


def test_nothing_waits_for_ever_whatever_comes() -> None:
    queue: UrgencyQueue[str] = UrgencyQueue()
    for number in range(5):
        queue.push(f"parking {number}", priority=0)
    taken = []
    for _ in range(5 * OLDEST_EVERY):
        queue.push("urgent", priority=9)
        taken.append(queue.pop(0.0))
    assert [one for one in taken if one != "urgent"] == [f"parking {number}" for number in range(5)]


def test_what_is_urgent_waits_for_one_choice_at_most() -> None:
    queue: UrgencyQueue[str] = UrgencyQueue()
    for choices in range(3 * OLDEST_EVERY):
        for _ in range(1 + choices * 10):
            queue.push("parking", priority=9, due=-1.0)
            queue.push("parking", priority=8)
        queue.push("tornado", priority=9)
        assert "tornado" in (queue.pop(0.0), queue.pop(0.0))


def test_what_is_taken_is_forgotten() -> None:
    queue: UrgencyQueue[int] = UrgencyQueue()
    for number in range(20_000):
        queue.push(number, priority=number % 10, due=number % 7)
        if number > 10:
            queue.pop(3.0)
    assert len(queue._oldest) + len(queue._urgent) + len(queue._overdue) < 200


def test_a_delivery_has_the_higher_priority_and_the_earlier_deadline() -> None:
    assert DeliveryUrgency.of(None, None, 100.0, None) == DeliveryUrgency(USUAL_PRIORITY, NEVER)
    assert DeliveryUrgency.of(2, None, 100.0, None).priority == 2
    assert DeliveryUrgency.of(2, None, 100.0, Urgency(8)).priority == 8
    assert DeliveryUrgency.of(9, None, 100.0, Urgency(1)).priority == 9
    assert DeliveryUrgency.of(None, 150.0, 100.0, Urgency(deadline_seconds=60)).due == 150.0
    assert DeliveryUrgency.of(None, 190.0, 100.0, Urgency(deadline_seconds=60)).due == 160.0
    assert DeliveryUrgency.of(None, 190.0, 100.0, Urgency(overdue=OverduePolicy.DROP)).is_dropped
    assert not DeliveryUrgency.of(None, None, 100.0, Urgency(overdue=OverduePolicy.DROP)).is_dropped


def test_deadlines_are_times_or_periods() -> None:
    assert deadline_of("5 min", 100.0) == 400.0
    assert deadline_of("1970-01-01T00:10:00Z", 100.0) == 600.0
    for wrong in ("", "soon", "5", "-5 min", "inf"):
        with pytest.raises(ValueError, match="it must be a time"):
            deadline_of(wrong, 100.0)


def test_urgency_is_stored_and_shown() -> None:
    for one in (Urgency(), Urgency(9, 300.0, OverduePolicy.DROP), Urgency(deadline_seconds=0.5)):
        assert Urgency.of_text(one.as_text()) == one
    assert Urgency(9, 300.0, OverduePolicy.DROP).as_mapping() == {"priority": 9, "deadline": "5 min", "overdue": "drop"}
    assert Urgency().as_mapping() == {}
