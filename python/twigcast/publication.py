"""The times at which messages are published: what ``$now`` is in a query."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime


def microseconds(published: datetime | None) -> int:
    """Returns a time in microseconds since 1970, as the engine takes it; ``None`` is the present.

    Raises:
        TypeError: It is no ``datetime``.
        ValueError: It does not say in which time zone.
    """
    if published is None:
        return time.time_ns() // 1_000
    # Most messages are published when they come.
    from datetime import UTC, datetime, timedelta

    if not isinstance(published, datetime):
        raise TypeError(f"published must be a datetime, not {type(published).__name__}")
    if published.tzinfo is None:
        raise ValueError("published has no time zone; write datetime(..., tzinfo=UTC) or the like")
    return (published - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def microseconds_of_each(published: datetime | Sequence[datetime] | Any | None, count: int) -> list[int]:
    """Returns the times of so many messages: one for all, or one for each, also as an Arrow array of timestamps.

    Raises:
        TypeError: An item is no ``datetime``.
        ValueError: There are more or fewer times than messages, or one says nothing of a time zone.
    """
    if published is None or not hasattr(published, "__iter__"):
        return [microseconds(published)] * count
    times = published.to_pylist() if hasattr(published, "to_pylist") else list(published)
    if len(times) != count:
        raise ValueError(f"published has {len(times)} times for {count} messages")
    if None in times:
        raise ValueError("published has no time for one of the messages")
    return [microseconds(one) for one in times]


def microseconds_of(seconds: float) -> int:
    """Returns seconds since 1970 in microseconds."""
    return round(seconds * 1_000_000)
