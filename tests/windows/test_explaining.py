"""Explanations of windows say what windows then do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import twigcast
from tests.seeds import printed_seed
from tests.windows.histories import QUERY, history, message
from twigcast.windows.declarations import read_window
from twigcast.windows.explaining import explain_stored_event
from twigcast.windows.states import Action, WindowEvent, step

START = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["at_least", "sequence", "absence", "changed", "throttle", "digest"])
def test_what_is_explained_is_what_happens(kind: str) -> None:
    seed = printed_seed() % 10**6
    reasons: set[str] = set()
    for number in range(8):
        played = history(seed + number, kind)
        windows = twigcast.Windows(twigcast.SubscriptionSet({"s": QUERY}))
        windows.add("s", played.when, now=START + timedelta(seconds=90))
        for key, event in played.events:
            text, came = message(key, event, has_time=played.has_time), START + timedelta(seconds=event.arrived)
            explanation = windows.explain(text, "s", message_id=event.name, published=came)
            said = explanation.details["window"]
            answer = windows.deliver(text, message_id=event.name, published=came)
            told = [one for one in answer.deliveries if one.action is Action.DELIVER]
            assert said["delivers"] == bool(told), (seed + number, event, said)
            assert ("too late" in said["reason"] or "does not count" in said["reason"]) == bool(answer.late)
            for name in told[0].stands_for if told and kind not in ("changed", "throttle") else ():
                assert name in said["reason"]
            assert said["reason"] in str(explanation)
            if not explanation.matches and "second" not in said["reason"] and kind != "sequence":
                assert "the query does not match" in said["reason"]
            reasons.add(said["reason"])
    assert len(reasons) > 3, "messages differ"


def test_nothing_is_remembered_of_what_is_explained() -> None:
    windows = twigcast.Windows(twigcast.SubscriptionSet({"s": "/m", "plain": "/m"}))
    windows.add("s", {"at_least": 2, "within": "1 h"})
    for _ in range(3):
        explanation = windows.explain("<m/>", "s", published=START)
        assert explanation.details["window"]["reason"] == "it counts: with it, 1 of 2 have come within 1 h"
        assert explanation.details["window"]["holds"] is None
    assert windows.status("s") == {}
    assert "window" not in windows.explain("<m/>", "plain").details


def test_what_was_due_before_a_message_is_not_held_when_it_comes() -> None:
    windows = twigcast.Windows(twigcast.SubscriptionSet({"s": "/m"}))
    windows.add("s", {"throttle": "1 min"})
    windows.deliver("<m/>", published=START)
    before = windows.explain("<m/>", "s", published=START + timedelta(seconds=59)).details["window"]
    after = windows.explain("<m/>", "s", published=START + timedelta(seconds=60)).details["window"]
    assert (before["delivers"], after["delivers"], after["holds"]) == (False, True, None)


@pytest.mark.parametrize(
    ("when", "first", "second"),
    [
        ({"at_least": 3, "within": "1 h"}, "it counts", "it counts"),
        ({"at_least": 2, "within": "1 h"}, "nothing is known of it", "nothing is known of it"),
        ({"absence": "1 h"}, "nothing is known of it", "the last message of its key: silence"),
        ({"changed": "/m/@v"}, "nothing is known of it", "the value of the next one is compared"),
        ({"throttle": "1 h"}, "its subscriber was told of it, and of none", "nothing is known of it"),
        ({"digest": "1 h"}, "it is kept for the digest", "it is kept for the digest"),
    ],
)
def test_of_a_stored_message_is_said_what_is_known_of_it(when: dict[str, object], first: str, second: str) -> None:
    window, state = read_window(when), None
    events = [WindowEvent(number, 10.0 * number, 10.0 * number, f"v{number}") for number in (1, 2)]
    for event in events:
        state = step(window, state, event).state
    for event, said in zip(events, (first, second), strict=True):
        explained = explain_stored_event(window, "", state, event)
        assert explained.delivers is None
        assert said in explained.reason
