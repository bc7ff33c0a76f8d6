"""Server-Sent Events as they come, and what a subscriber has seen of them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from twigcast.client.values import Delivery

_REMEMBERED: Final = 20_000


class EventParser:
    """Cuts a stream of bytes into events. Lines end with a line feed, as the broker writes them."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Delivery | None]:
        """The deliveries that are complete with ``data``; ``None`` for anything else, such as a sign of life."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            result = next((line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")), None)
            yield None if result is None else Delivery.of(json.loads(result))


class ReceivedEvents:
    """What a subscriber has got of a stream, over all its connections."""

    def __init__(self, last: str | None) -> None:
        self.last = last
        """The id of the last delivery that is done."""
        self._ids: OrderedDict[str, None] = OrderedDict()

    def is_new(self, delivery: Delivery) -> bool:
        """Whether it has not come before; it has from now on."""
        if delivery.id in self._ids:
            return False
        self._ids[delivery.id] = None
        if len(self._ids) > _REMEMBERED:
            self._ids.popitem(last=False)
        return True

    def forget(self, delivery: Delivery) -> None:
        """Count one that was handed out and not done as not seen."""
        self._ids.pop(delivery.id, None)

    @property
    def headers(self) -> dict[str, str]:
        """Of a request that goes on where the last connection ended."""
        return {"Last-Event-ID": self.last} if self.last else {}
