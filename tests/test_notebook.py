"""What notebooks show of answers and reports: well-formed, escaped, bounded."""

from __future__ import annotations

from typing import Any

import pytest
from lxml import etree

from twigcast import SubscriptionSet, check, explain
from twigcast.notebook import CHARACTERS_MAX, ROWS_MAX

HOSTILE = "<script>alert('\u202e')</script>&amp;\x00"
MESSAGE = "<r><a k='1'>x &lt; y</a><!-- c --><a k='2'/></r>"


def shown(value: Any) -> etree._Element:
    """What a notebook shows of a value, which has to be well-formed."""
    return etree.fromstring(value._repr_html_())


def text(value: Any) -> str:
    return "".join(str(part) for part in shown(value).itertext())


def population() -> SubscriptionSet:
    return SubscriptionSet({"plain": "//a", "new": "for $a in //a return <o>{ $a }</o>", HOSTILE: "/r"})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (population(), ["3 subscriptions", "plain", "//a"]),
        (population().match(MESSAGE), ["3 subscriptions match", "new"]),
        (population().deliver(MESSAGE), ["3 deliveries", "the message", "<o><a k='1'>x &lt; y</a></o>"]),
        (population().nodes(MESSAGE, "plain")[0], ["/r/a[1] (element)", "<a k='1'>x &lt; y</a>"]),
        (
            population().add_many({"plain": "/b", "other": "/c[", "never": "false()"}),
            ["1 added, 2 refused, 1 look", "/c["],
        ),
        (explain("//a[@k = 3]", MESSAGE), ["does not match: //a[@k = 3]", "nearest: "]),
        (explain(f'//a[. = "{HOSTILE[:8]}"]', MESSAGE), ["does not match"]),
        (check("//a[b]//c"), ["//a[b]//c", "normal form", "runs as"]),
        (check("false()"), ["warning", "no message can match this query"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_everything_is_shown_as_a_table(value: Any, expected: list[str]) -> None:
    for part in expected:
        assert part in text(value)


def test_nothing_of_a_key_or_a_message_is_markup_of_the_page() -> None:
    subscriptions = population()
    for value in (subscriptions, subscriptions.match(MESSAGE), subscriptions.deliver(f"<r>{HOSTILE[:-6]}</r>")):
        assert not shown(value).findall(".//script")
        assert "[U+202E]" in text(value)
        assert "\u202e" not in text(value)


def test_long_lists_and_texts_are_cut_and_say_so() -> None:
    subscriptions = SubscriptionSet({f"k{n}": f"/r[not(@a{n})]" for n in range(1_000)})
    for value in (subscriptions, subscriptions.match("<r/>"), subscriptions.deliver("<r/>")):
        assert f"and {1_000 - ROWS_MAX:,} more" in text(value)
        assert len(value._repr_html_()) < 20_000
    (node,) = SubscriptionSet({"r": "/r"}).nodes(f"<r>{'x' * 1_000_000}</r>", "r")
    assert f"and {1_000_007 - CHARACTERS_MAX:,} characters more" in text(node)
    assert len(node._repr_html_()) < 2 * CHARACTERS_MAX


def test_undecided_subscriptions_are_in_the_table() -> None:
    deliveries = SubscriptionSet({"slip": "for $a in //a return <o>{ $a/text() }{ $a/@k }</o>"}).deliver(MESSAGE)
    assert "selected after content" in text(deliveries)


def test_empty_answers() -> None:
    assert text(SubscriptionSet()) == "0 subscriptions"
    assert text(SubscriptionSet().match("<r/>")) == "0 subscriptions match"


def test_near_misses_and_records() -> None:
    subscriptions = SubscriptionSet({"far": "//none/none", HOSTILE: "//a[@k = 3]", "hit": "//a"})
    misses = subscriptions.nearest(MESSAGE)
    for part in ("2 subscriptions do not match", "//a[@k = 3]", "//none/none", "%", "[U+202E]"):
        assert part in text(misses)
    assert not shown(misses).findall(".//script")
    assert "and 1 more" in text(subscriptions.nearest(MESSAGE, 1))
    assert text(SubscriptionSet().nearest(MESSAGE)) == "0 subscriptions do not match"
    records = subscriptions.match_records(MESSAGE.encode(), "a")
    assert text(records) == "0 records read; iterate to read on"
    assert [one.keys for one in records] == [["hit"], ["hit"]]
    assert (text(records), repr(records)) == ("2 records read; iterate to read on", "<RecordMatches: 2 records read>")
