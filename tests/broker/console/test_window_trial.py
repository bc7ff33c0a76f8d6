"""Trials of windows on stored messages: what the library tells, within the bounds of a trial."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.seeds import printed_seed
from tests.windows.histories import QUERY, History, history, message
from twigcast import SubscriptionSet, Windows
from twigcast.broker.console import query_trial
from twigcast.broker.console.query_trial import QueryInput
from twigcast.broker.console.window_trial import WindowTrialRun
from twigcast.broker.model import StoredMessage
from twigcast.broker.store.messages import WINDOW_SOURCE
from twigcast.limits import Limits
from twigcast.windows.declarations import read_window
from twigcast.windows.states import Action


def stored(played: History) -> list[StoredMessage]:
    return [
        StoredMessage(seq, 1, "s", event.name, event.arrived, message(key, event, has_time=played.has_time).encode())
        for seq, (key, event) in enumerate(played.events, start=1)
    ]


def tried(played: History, messages: list[StoredMessage]) -> WindowTrialRun:
    work = WindowTrialRun(QueryInput(QUERY, {}), read_window(played.when), messages, Limits())
    while not work.is_over:
        work.step()
    return work


@pytest.mark.parametrize("kind", ["at_least", "sequence", "absence", "changed", "throttle", "digest"])
def test_a_trial_shows_what_the_library_tells(kind: str) -> None:
    seed = printed_seed() % 10**6
    for number in range(4):
        played = history(seed + number, kind)
        messages = stored(played)
        shown = tried(played, messages).windows()
        windows = Windows(SubscriptionSet({"q": QUERY}))
        windows.add("q", played.when, now=datetime.fromtimestamp(messages[0].received, UTC))
        told, with_it = [], set()
        for one in messages:
            came = datetime.fromtimestamp(one.received, UTC)
            deliveries = windows.deliver(one.xml, message_id=str(one.seq), published=came).deliveries
            with_it |= {one.seq for delivery in deliveries if delivery.action is Action.DELIVER}
            told += deliveries
        told += windows.due()
        assert shown.times == len(told)
        assert [[seq for seq, _ in one.messages] for one in shown.deliveries] == [
            list(map(int, one.stands_for[:20])) for one in told[:-101:-1]
        ]
        assert shown.delivered == with_it
        assert shown.overdue == windows.late
        assert all(shown.explanations[seq].delivers == (seq in shown.delivered) for seq in shown.explanations)


def test_a_trial_ends_where_that_of_a_query_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = stored(history(1, "digest"))
    monkeypatch.setattr(query_trial, "BYTES_MAX", sum(len(one.xml) for one in messages[:3]))
    work = tried(history(1, "digest"), messages)
    assert (len(work.result.tried), work.result.left) == (3, len(messages) - 3)
    assert [one.message.seq for one in work.result.tried] == [3, 2, 1]
    assert not work.windows().deliveries, "what is due by now depends on messages that were not tried"


def test_what_the_broker_has_written_is_no_message() -> None:
    played = history(1, "throttle")
    own = [StoredMessage(1, 1, WINDOW_SOURCE, "x", 1.0, b"<m first=''/>")]
    assert tried(played, own).windows().times == 0
    assert tried(played, []).windows().times == 0
