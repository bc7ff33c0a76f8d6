"""All open streams: how many each tenant has, heartbeats for idle ones, and their end.

A stream has no timer of its own: thousands of idle ones share one task, which runs every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from twigcast.broker.api.access import Principal
from twigcast.broker.broker import Broker
from twigcast.broker.errors import BrokerError, TooMany
from twigcast.broker.model import DeliveryId, QueuedDelivery

HEARTBEAT_SECONDS: Final = 15.0
_ACKNOWLEDGED_EVERY: Final = 0.25
"""Time between the commits of automatic acknowledgements, for all streams together."""

_log = logging.getLogger("twigcast.api")


class OpenStream(Protocol):
    """An open stream."""

    idle: bool
    """Whether nothing was sent since this was last set."""

    async def beat(self) -> None:
        """Sends a heartbeat, if it is idle."""

    def stop(self) -> None:
        """Ends it."""


class Streams:
    """The open streams of a broker."""

    def __init__(self) -> None:
        self._open: dict[OpenStream, int] = {}
        """Streams with the token that opened them."""
        self._by_tenant: dict[int, int] = {}
        self.stopping = asyncio.Event()
        """Set when the broker stops."""

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def one_more(self, principal: Principal) -> Iterator[Callable[[OpenStream], None]]:
        """Counts a stream while it is open; the returned function registers it. Raises TooMany over the limit."""
        tenant_id, most = principal.tenant_id, principal.limits.streams_max
        if self._by_tenant.get(tenant_id, 0) >= most:
            raise TooMany(f"the limit is streams_max = {most:,} open streams of this tenant", 10)
        self._by_tenant[tenant_id] = self._by_tenant.get(tenant_id, 0) + 1
        opened: list[OpenStream] = []

        def is_open(stream: OpenStream) -> None:
            opened.append(stream)
            self._open[stream] = principal.token.id
            if self.stopping.is_set():
                stream.stop()

        try:
            yield is_open
        finally:
            for stream in opened:
                self._open.pop(stream, None)
            self._by_tenant[tenant_id] -= 1
            if not self._by_tenant[tenant_id]:
                del self._by_tenant[tenant_id]

    async def beat(self) -> None:
        """Lets idle streams send heartbeats, until cancelled."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            idle = [stream for stream in self._open if stream.idle]
            for stream in self._open:
                stream.idle = True
            if idle:
                # A stream whose client does not read waits; it must not delay the others.
                await asyncio.wait([asyncio.ensure_future(stream.beat()) for stream in idle], timeout=1.0)

    def end_without(self, tokens: Container[int]) -> None:
        """Ends the streams that were opened with other tokens than these."""
        for stream, token_id in list(self._open.items()):
            if token_id not in tokens:
                stream.stop()

    def end_of(self, token_id: int) -> None:
        """Ends the streams that a token has opened."""
        for stream, opener in list(self._open.items()):
            if opener == token_id:
                stream.stop()

    def stop(self) -> None:
        """Ends all streams, and each that is opened from now on."""
        self.stopping.set()
        for stream in list(self._open):
            stream.stop()


class AutomaticAcks:
    """The automatic acknowledgement of what streams have sent: for all streams together, a few times a second.

    While a queue flows, only its mark is moved, to before the latest message: one row. The deliveries of the latest
    message are acknowledged when nothing came after them for a while, since the same message may have more.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._moved: dict[int, list[DeliveryId]] = {}
        self._resting: dict[int, list[DeliveryId]] = {}
        self._seeks: dict[int, int] = {}
        """How often each of these queues had begun anew when they were sent."""

    def handed_over(self, queue_id: int, deliveries: Sequence[QueuedDelivery], seeks: int) -> None:
        """Records deliveries of a queue that were sent, in order; ``seeks`` as of :meth:`Broker.seek_count`."""
        if seeks != self._broker.seek_count(queue_id):
            return
        last = deliveries[-1].id.seq
        if self._seeks.get(queue_id, seeks) != seeks:
            self._moved.pop(queue_id, None)
            self._resting.pop(queue_id, None)
        self._seeks[queue_id] = seeks
        ids = self._moved.get(queue_id) or self._resting.pop(queue_id, None)
        if ids is None or ids[0].seq != last:
            ids = []
        ids += [delivery.id for delivery in deliveries if delivery.id.seq == last]
        self._moved[queue_id] = ids

    async def run(self) -> None:
        """Acknowledges, until cancelled."""
        while True:
            await asyncio.sleep(_ACKNOWLEDGED_EVERY)
            await self.flush()

    async def flush(self, *, everything: bool = False) -> None:
        """Acknowledges what is due; with ``everything`` the latest deliveries too."""
        moved, resting = self._moved, self._resting
        self._moved, self._resting = {}, moved
        if everything:
            resting, self._resting = resting | moved, {}
        work: list[Awaitable[None]] = []
        if moved:
            marks = {queue_id: ids[0].seq - 1 for queue_id, ids in moved.items()}
            work.append(self._broker.acknowledge_queues(marks, {queue_id: self._seeks[queue_id] for queue_id in marks}))
        work += [self._broker.acknowledge(queue_id, ids, self._seeks[queue_id]) for queue_id, ids in resting.items()]
        self._seeks = {queue_id: n for queue_id, n in self._seeks.items() if queue_id in self._resting}
        for outcome in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(outcome, BrokerError):
                # They are handed out again, as at-least-once allows.
                _log.warning("automatic acknowledgements were not stored: %s", outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
