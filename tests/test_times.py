"""``$now`` is the time at which a message was published, and windows of time are those of the clocks of a zone."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.seeds import printed_seed
from twigcast import SubscriptionSet, explain

THEN = datetime(2026, 11, 30, 6, 30, tzinfo=UTC)
ALERT = "<alert><sent>2026-11-30T06:20:00Z</sent><expires>2026-11-30T09:00:00+01:00</expires></alert>"
VALID = "/alert[expires > $now]"
DAYS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"]
ZONES = ["Europe/Zurich", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]


def test_a_message_is_judged_by_the_time_at_which_it_was_published() -> None:
    subscriptions = SubscriptionSet([("valid", VALID), ("always", "/alert")])
    later = THEN + timedelta(hours=3)
    assert subscriptions.match(ALERT, published=THEN).keys == ["valid", "always"]
    assert subscriptions.match(ALERT, published=later).keys == ["always"]
    assert [d.key for d in subscriptions.deliver(ALERT, published=THEN)] == ["valid", "always"]
    assert [d.key for d in subscriptions.deliver(ALERT, published=later)] == ["always"]
    batch = subscriptions.match_batch([ALERT, ALERT], published=[THEN, later])
    assert batch.column("keys").to_pylist() == [["valid", "always"], ["always"]]
    assert subscriptions.match_batch([ALERT], published=later).column("keys").to_pylist() == [["always"]]


def test_what_is_asked_of_a_match_later_is_about_the_same_time() -> None:
    subscriptions = SubscriptionSet([("times", "/alert/*[. > $now]")])
    match = subscriptions.match(ALERT, published=THEN)
    assert [node.name for node in match.nodes("times")] == ["expires"]
    assert match.node_counts() == {"times": 1}
    frozen = match.freeze()
    assert [node.name for node in frozen.nodes("times")] == ["expires"]
    assert frozen.node_counts() == {"times": 1}


def test_without_a_time_messages_are_published_now() -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    subscriptions = SubscriptionSet([("valid", VALID)])
    assert subscriptions.match(f"<alert><expires>{soon}</expires></alert>").keys == ["valid"]
    assert subscriptions.match("<alert><expires>2020-01-01T00:00:00Z</expires></alert>").keys == []
    batch = subscriptions.match_batch([f"<alert><expires>{soon}</expires></alert>"])
    assert batch.column("keys").to_pylist() == [["valid"]]


def test_an_explanation_is_about_a_time_too() -> None:
    assert explain(VALID, ALERT, published=THEN).matches
    assert not explain(VALID, ALERT, published=THEN + timedelta(hours=3)).matches
    subscriptions = SubscriptionSet([("valid", VALID)])
    assert subscriptions.explain(ALERT, "valid", published=THEN).matches


def test_a_result_can_name_the_time() -> None:
    query = "for $a in /alert where $a/sent < $now return <got at='{ $now }'/>"
    (delivery,) = SubscriptionSet([("q", query)]).deliver(ALERT, published=THEN)
    assert delivery.payload == b'<got at="2026-11-30T06:30:00Z"/>'


def test_a_parameter_of_the_name_goes_before_it() -> None:
    subscriptions = SubscriptionSet()
    subscriptions.add("q", "/a[@k = $now]", params={"now": "x"})
    assert subscriptions.match("<a k='x'/>").keys == ["q"]


@pytest.mark.parametrize(
    ("published", "error", "reason"),
    [
        (datetime(2026, 11, 30), ValueError, "no time zone"),
        ("2026-11-30", TypeError, "must be a datetime"),
    ],
)
def test_a_time_that_is_none_is_refused(published: datetime, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        SubscriptionSet().match("<a/>", published=published)


def test_a_batch_has_a_time_for_each_message_or_one_for_all() -> None:
    with pytest.raises(ValueError, match="2 times for 1 messages"):
        SubscriptionSet([("q", "/a")]).match_batch(["<a/>"], published=[THEN, THEN])


def _is_within(time: datetime, days: set[int], start: int, end: int) -> bool:
    """Whether a time is in a window of minutes of the day that begins on some days."""
    minutes = time.hour * 60 + time.minute
    if start < end:
        return time.weekday() in days and start <= minutes < end
    return (time.weekday() in days and minutes >= start) or ((time.weekday() - 1) % 7 in days and minutes < end)


def test_windows_are_those_of_the_clocks_of_a_zone() -> None:
    r = random.Random(printed_seed())
    for _ in range(100):
        first, length = r.randrange(7), r.randrange(7)
        days = {(first + day) % 7 for day in range(length + 1)}
        start, end = r.sample(range(0, 1440, 5), 2)
        zone = r.choice(ZONES)
        window = (
            f"{DAYS[first]}-{DAYS[(first + length) % 7]} {start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
        )
        subscriptions = SubscriptionSet([("q", f"time:within($now, '{window}', '{zone}')")])
        times = [datetime.fromtimestamp(r.randrange(946_684_800, 1_798_761_600), UTC) for _ in range(100)]
        answers = subscriptions.match_batch(["<a/>"] * len(times), published=times).column("keys").to_pylist()
        for time, keys in zip(times, answers, strict=True):
            assert bool(keys) == _is_within(time.astimezone(ZoneInfo(zone)), days, start, end), (window, zone, time)
