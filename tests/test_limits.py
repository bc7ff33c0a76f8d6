"""Limits: values that make no sense are refused."""

import dataclasses

import pytest

from twigcast import Limits


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
