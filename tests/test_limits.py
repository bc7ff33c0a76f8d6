"""Limits: values that make no sense are refused."""

import dataclasses
import threading

import pytest

from twigcast import Limits, SubscriptionSet


def test_defaults_are_listed_by_name() -> None:
    limits = Limits(depth_max=7)
    assert limits.as_dict() == {f.name: getattr(limits, f.name) for f in dataclasses.fields(Limits)}
    assert limits.as_dict()["depth_max"] == 7


@pytest.mark.parametrize("value", [0, -1])
def test_limits_below_one_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="depth_max must be at least 1"):
        Limits(depth_max=value)


@pytest.mark.parametrize("value", [True, 1.5, "10", None])
def test_limits_that_are_not_whole_numbers_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="query_steps_max must be a whole number"):
        Limits(query_steps_max=value)  # type: ignore[arg-type]


def test_messages_cannot_be_larger_than_offsets_reach() -> None:
    with pytest.raises(ValueError, match="message_bytes_max must be at most"):
        Limits(message_bytes_max=1 << 32)


def test_no_limit_is_beyond_what_the_engine_can_hold() -> None:
    for field in dataclasses.fields(Limits):
        with pytest.raises(ValueError, match=f"{field.name} must be at most"):
            Limits(**{field.name: 1 << 63})


def test_limits_must_be_limits() -> None:
    with pytest.raises(TypeError, match="limits must be Limits, not dict"):
        SubscriptionSet(limits={"depth_max": 3})  # type: ignore[arg-type]


def test_queries_as_deep_as_can_be_allowed_fit_the_stack_of_a_thread() -> None:
    with pytest.raises(ValueError, match="query_nesting_max must be at most 250"):
        Limits(query_nesting_max=251)
    deepest = Limits(query_nesting_max=250)
    depth = 240
    queries = [
        "/a" + "[b" * depth + "]" * depth,
        "/a[" + "(" * depth + "1" + ")" * depth + "]",
        "/a[" + "not(" * depth + "b" + ")" * depth + "]",
        "for $x in //a return " + "<a>" * depth + "</a>" * depth,
    ]
    done = []

    def work() -> None:
        subscriptions = SubscriptionSet(limits=deepest)
        for number, query in enumerate(queries):
            subscriptions.add(str(number), query)
            subscriptions.describe(str(number))
        done.append([len(subscriptions.deliver("<a><b/></a>")), len(subscriptions)])

    before = threading.stack_size(2 << 20)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert done
    assert done[0][1] == len(queries)
