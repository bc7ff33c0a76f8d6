"""The order of messages of other brokers: messages behind a gap are held back until the gap is closed.

A broker may get later messages of a root before earlier ones, for instance after a link was down. It requests the
earlier ones from the root. Until they arrive, the later ones are held back, so that subscribers get the messages of a
publisher in order. This is bounded: after some seconds without progress, or when too many messages wait behind the gap,
these are let through. The earlier ones are then *late*, and deliveries of them say so.

Messages are held back in memory only. The stored horizon is below the gap, so after a restart they are requested again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from twigcast.overlay.onyx.messages import OverlayMessage, Root
from twigcast.overlay.onyx.protocol.events import StoreRequested

HELD_SECONDS: Final = 30.0
"""Time that messages are held back behind a gap of which nothing is closed meanwhile."""

HELD_MESSAGES_MAX: Final = 10_000
HELD_BYTES_MAX: Final = 32 << 20
"""Most that is held back of all roots; beyond it, the root with most passes."""


@dataclass(slots=True)
class _RootOrder:
    """The order of one root's messages."""

    horizon: int
    """The number up to which nothing is missing."""
    since: float
    """When it last moved."""
    passed: int = 0
    """The highest number that was passed on."""
    held: dict[int, OverlayMessage] = field(default_factory=dict)
    size: int = 0
    passes: bool = False
    """Whether nothing is held back until the gap is closed, since that took too long."""


class MessageOrder:
    """Puts the messages of each root in their order, as far as they are there in time. For one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._roots: dict[Root, _RootOrder] = {}
        self.overtaken: set[tuple[Root, int]] = set()
        """Messages that were passed on after later ones of their root, until somebody removes them here."""
        self.passes = 0
        """How often messages were passed on although earlier ones were missing."""

    def put(self, request: StoreRequested) -> list[StoreRequested]:
        """Takes a request, and returns those that are to be carried out now, in order."""
        order = self._roots.get(request.root)
        if order is None:
            order = self._roots[request.root] = _RootOrder(request.horizon, self._clock())
        message, horizon = request.message, request.horizon
        if message is not None:
            order.held[message.number] = message
            order.size += len(message.body)
        before = order.horizon
        if horizon != before:
            order.horizon, order.since = horizon, self._clock()
        if len(order.held) == 1 and message is not None and message.number <= horizon:
            numbers = [message.number]
        else:
            numbers = sorted(number for number in order.held if number <= horizon)
        # The new horizon may be stored only with the last one that it covers.
        results = [self._release(request.root, order, number, before) for number in numbers]
        if results:
            results[-1] = results[-1]._replace(horizon=horizon)
        elif message is None:
            results = [request]
        if order.passes:
            results += [self._release(request.root, order, number, horizon) for number in sorted(order.held)]
            order.passes = horizon < order.passed
        return results + self._pass_excess()

    def _release(self, root: Root, order: _RootOrder, number: int, horizon: int) -> StoreRequested:
        message = order.held.pop(number)
        order.size -= len(message.body)
        if number < order.passed:
            self.overtaken.add((root, number))
        order.passed = max(order.passed, number)
        return StoreRequested(root, message, horizon)

    def _pass_excess(self) -> list[StoreRequested]:
        orders = self._roots.values()
        if (
            sum(len(order.held) for order in orders) <= HELD_MESSAGES_MAX
            and sum(order.size for order in orders) <= HELD_BYTES_MAX
        ):
            return []
        return self._pass_all(max(self._roots, key=lambda root: (self._roots[root].size, len(self._roots[root].held))))

    def _pass_all(self, root: Root) -> list[StoreRequested]:
        order = self._roots[root]
        order.passes = True
        self.passes += 1
        return [self._release(root, order, number, order.horizon) for number in sorted(order.held)]

    def overdue(self) -> list[StoreRequested]:
        """Returns what has been held back for too long."""
        now = self._clock()
        due = [root for root, order in self._roots.items() if order.held and now >= order.since + HELD_SECONDS]
        return [request for root in due for request in self._pass_all(root)]

    @property
    def held(self) -> int:
        """The number of messages that are held back."""
        return sum(len(order.held) for order in self._roots.values())
