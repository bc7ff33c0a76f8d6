"""What happens to real alerts and entries, step by step."""

from __future__ import annotations

import pytest

from twigcast import Lifecycle, SubscriptionSet
from twigcast.lifecycle.times import is_older, is_same, seconds_of

CAP = "urn:oasis:names:tc:emergency:cap:1.2"


def alert(name: str, area: str, kind: str = "Alert", of: str = "", sent: str = "2026-06-01T10:00:00-07:00") -> str:
    refers = f"<references>{of}</references>" if of else ""
    return (
        f"<alert xmlns='{CAP}'><identifier>{name}</identifier><sender>w@x</sender><sent>{sent}</sent>"
        f"<msgType>{kind}</msgType>{refers}<info><area><areaDesc>{area}</areaDesc></area></info></alert>"
    )


@pytest.fixture
def lake() -> SubscriptionSet:
    return SubscriptionSet({"lake": "//*:areaDesc = 'Lake'"})


def effects(subscriptions: SubscriptionSet, *messages: str, profile: str = "cap") -> list[tuple[str, str | None]]:
    """What each message was, and what to the subscription."""
    lifecycle = Lifecycle(profile)
    answers = [lifecycle.match(subscriptions, message) for message in messages]
    return [(answer.effect.value, answer.relations.get("lake")) for answer in answers]


def test_a_reference_that_writes_the_time_otherwise_still_reaches_who_has_the_alert(lake: SubscriptionSet) -> None:
    first = alert("1", "Lake", sent="2026-06-01T10:00:00Z")
    cancel = alert("2", "", "Cancel", "w@x,1,2026-06-01T10:00:00-00:00")
    assert effects(lake, first, cancel) == [("first", "entered"), ("cancel", "cancelled")]


def test_an_identifier_with_another_time_is_an_update_and_an_earlier_one_is_overtaken(lake: SubscriptionSet) -> None:
    later, earlier = alert("1", "Lake", sent="2026-06-01T18:30:00Z"), alert("1", "Lake", sent="2026-06-01T09:00:00Z")
    assert effects(lake, alert("1", "Lake"), later, earlier) == [
        ("first", "entered"),
        ("update", "updated"),
        ("superseded", None),
    ]


@pytest.mark.parametrize(("kind", "relation"), [("Update", "left"), ("Cancel", "cancelled")])
def test_a_change_under_the_number_and_time_of_the_original_is_not_missed(
    lake: SubscriptionSet, kind: str, relation: str
) -> None:
    change = alert("1", "Hill", kind)
    assert effects(lake, alert("1", "Lake"), change, change) == [
        ("first", "entered"),
        (kind.lower(), relation),
        ("duplicate", None),
    ]


def test_whom_an_alert_has_left_hears_that_it_is_called_off(lake: SubscriptionSet) -> None:
    original, update = "w@x,1,2026-06-01T10:00:00-07:00", "w@x,2,2026-06-01T10:00:00-07:00"
    messages = (
        alert("1", "Lake"),
        alert("2", "Hill", "Update", original),
        alert("3", "Hill", "Update", update),
        alert("4", "Hill", "Cancel", update),
        alert("5", "Hill", "Cancel", original),
    )
    assert effects(lake, *messages) == [
        ("first", "entered"),
        ("update", "left"),
        ("update", None),
        ("cancel", "cancelled"),
        ("cancel", None),
    ]


def test_the_cancel_of_a_cancel_leaves_it_called_off_and_an_update_brings_it_back(lake: SubscriptionSet) -> None:
    ref = "w@x,{},2026-06-01T10:00:00-07:00".format
    assert effects(
        lake,
        alert("1", "Lake"),
        alert("2", "", "Cancel", ref(1)),
        alert("3", "", "Cancel", ref(2)),
        alert("4", "Lake", "Update", ref(1)),
    ) == [("first", "entered"), ("cancel", "cancelled"), ("cancel", None), ("update", "entered")]


def test_a_link_that_comes_last_reaches_those_who_have_the_original(lake: SubscriptionSet) -> None:
    ref = "w@x,{},2026-06-01T10:00:00-07:00".format
    assert effects(
        lake, alert("1", "Lake"), alert("3", "", "Cancel", ref(2)), alert("2", "Lake", "Update", ref(1))
    ) == [("first", "entered"), ("cancel", None), ("superseded", "cancelled")]


def test_a_guid_that_is_used_again_is_an_update() -> None:
    items = SubscriptionSet({"lake": "/item"})
    item = "<item><guid>g</guid><pubDate>Mon, 01 Jun 2026 {}:00:00 GMT</pubDate></item>".format
    assert effects(items, item(10), item(11), item(10), item(9), profile="rss") == [
        ("first", "entered"),
        ("update", "updated"),
        ("duplicate", None),
        ("superseded", None),
    ]


def test_a_repeated_message_reaches_who_came_in_between() -> None:
    subscriptions = SubscriptionSet()
    lifecycle = Lifecycle("cap")
    lifecycle.match(subscriptions, alert("1", "Lake"))
    subscriptions.add("lake", "//*:areaDesc = 'Lake'")
    assert lifecycle.match(subscriptions, alert("1", "Lake")).relations == {"lake": "entered"}
    assert lifecycle.match(subscriptions, alert("1", "Lake")).suppressed == ("lake",)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("19700101T000010", 10.0),
        ("1970-01-02", 86_400.0),
        ("Thu, 01 Jan 1970 01:00:10 +0100", 10.0),
        ("soon", None),
        ("", None),
        ("99999-01-01", None),
        ("Thu, 45 Jan 1970", None),
    ],
)
def test_times_of_messages(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


def test_versions_are_numbers_or_times_or_have_no_order() -> None:
    assert is_older("9", "10")
    assert is_older("2026-06-01T10:00:00+02:00", "2026-06-01T09:00:00Z")
    assert is_same("2026-06-01T10:00:00+02:00", "2026-06-01T08:00:00Z")
    assert is_same("2", "02")
    assert not is_older("b", "a")
    assert not is_older("1", "2026-06-01")
    assert not is_older("1" * 9_000, "2")
