"""Conditions on an attribute at the end of a path: looked up like those that its element says of it."""

from __future__ import annotations

import pytest

from twigcast import SubscriptionSet, check


@pytest.mark.parametrize(
    ("query", "found_by"),
    [
        ("/o/l/@s[lower-case(.) = 'x']", "/o/l[lower-case(@s) = 'x']"),
        ("//@s[matches(., 'flood.*x')]", "//*[contains(@s, 'flood')]"),
        ("/o/l/@s[. = 'x' or . = 'y']", "/o/l[@s = 'x'], /o/l[@s = 'y']"),
        ("/o/l[2]/@s[ends-with(., 'x')]", "/o/l[contains(@s, 'x')]"),
    ],
)
def test_conditions_on_attributes_are_looked_up(query: str, found_by: str) -> None:
    report = check(query)
    assert (report.route, report.cover) == ("keyed", f"looked up by {found_by}")


@pytest.mark.parametrize("query", ["/o/l/@s[position() = 1]", "/o/l/@s[../@t = 'x']", "/o//@s[lower-case(.) = 'x']"])
def test_conditions_that_ask_for_more_than_an_attribute_keep_their_place(query: str) -> None:
    subscriptions = SubscriptionSet([("q", query)])
    assert (
        subscriptions.node_counts("<o s='X' t='x'><l s='X' t='x'><m s='x'/></l><l t='x'/></o>")["q"]
        == {
            "/o/l/@s[position() = 1]": 1,
            "/o/l/@s[../@t = 'x']": 1,
            "/o//@s[lower-case(.) = 'x']": 3,
        }[query]
    )
