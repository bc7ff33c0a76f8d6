"""Server-Sent Events of a stream of deliveries: their parser, and which of them were received and acknowledged."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from twigcast.client.values import Delivery

_REMEMBERED: Final = 20_000
"""The most ids of deliveries that are kept to recognise repeated ones."""

_ACKNOWLEDGED_SECONDS: Final = 1.0
_ACKNOWLEDGED_COUNT: Final = 500
"""A stream acknowledges after at most so many seconds or deliveries."""


class EventParser:
    """A parser that cuts a stream of bytes into events. Lines end with a line feed, as the broker writes them."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Delivery | None]:
        """Yields the deliveries that ``data`` completes, and ``None`` for other events, such as a sign of life."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            result = next((line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")), None)
            yield None if result is None else Delivery.of(json.loads(result))


class ReceivedEvents:
    """The deliveries of a stream that a subscriber has received, over all its connections."""

    def __init__(self, last: str | None) -> None:
        self.last = last
        """The id of the last delivery that is done."""
        self._ids: OrderedDict[str, None] = OrderedDict()

    def is_new(self, delivery: Delivery) -> bool:
        """Returns whether a delivery comes for the first time, and remembers it."""
        if delivery.id in self._ids:
            return False
        self._ids[delivery.id] = None
        if len(self._ids) > _REMEMBERED:
            self._ids.popitem(last=False)
        return True

    def forget(self, delivery: Delivery) -> None:
        """Treats a delivery that was yielded and not done as not received."""
        self._ids.pop(delivery.id, None)


class Acknowledgements:
    """The deliveries of one connection that are done and not yet acknowledged.

    Args:
        received: The deliveries that the subscriber has received.
        automatic: Whether the broker acknowledges by itself, so that there is nothing to acknowledge.
    """

    def __init__(self, received: ReceivedEvents, *, automatic: bool) -> None:
        self._received = received
        self._automatic = automatic
        self._count = 0
        self._flushed = time.monotonic()

    def add(self, delivery: Delivery) -> None:
        """Adds a delivery that is done."""
        self._received.last = delivery.id
        self._count += 1

    def take_due(self) -> str | None:
        """Returns the delivery up to which to acknowledge, if there are many or the last time is long ago."""
        is_due = self._count >= _ACKNOWLEDGED_COUNT or time.monotonic() - self._flushed >= _ACKNOWLEDGED_SECONDS
        return self.take() if is_due else None

    def take(self) -> str | None:
        """Returns the delivery up to which to acknowledge, or ``None`` if nothing is left to acknowledge."""
        count, self._count, self._flushed = self._count, 0, time.monotonic()
        return self._received.last if count and not self._automatic else None
