"""A link: one stream between two neighbours after their greetings.

Frames wait in a queue and are sent in packets of all that waits. gRPC's flow control makes the writer wait when the
other side is slow. The queue is bounded: a neighbour that is too slow loses its link. Pings measure the round trip and
the difference of the clocks, and show whether the neighbour is alive.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from twigcast.errors import TwigcastError
from twigcast.overlay.errors import FrameError, WireError
from twigcast.overlay.onyx.lexicon import LexiconUpdate
from twigcast.overlay.onyx.messages import Hello
from twigcast.overlay.onyx.network.frames import PACKET_BYTES_WANTED, frame, messages_of, packet
from twigcast.overlay.onyx.network.greeting import FORM, FRAME, SILENT, SLOW, GoAway, Greeting, Ping, Pong
from twigcast.overlay.onyx.network.reports import LinkReport
from twigcast.overlay.onyx.network.settings import NetworkSettings
from twigcast.overlay.onyx.wire.exchange import Exchange

logger = logging.getLogger(__name__)

BROKEN: Final = "broken"  #: The kind of an end without a reason from the other side.

_SMOOTHING: Final = 0.2
_FAREWELL_SECONDS: Final = 1.0


class TransportStream(Protocol):
    """A gRPC stream of either side."""

    async def read(self) -> bytes | None:
        """Returns the next packet, or `None` at the end of the stream."""

    async def write(self, data: bytes) -> None:
        """Sends a packet; waits until the other side takes it.

        Raises:
            ConnectionError: The stream has ended.
        """

    def cancel(self) -> None:
        """Ends the stream at once."""


class Link:
    """A link to a neighbour.

    Args:
        stream: Its stream.
        peer: The greeting of the neighbour.
        where: Address of the neighbour, for reports.
        dialed: Whether this side dialed.
        secure: Whether both have shown certificates.
        settings: Bounds and times.
        exchange: The agreement on forms.
        reading: Is set while arriving messages are to be read.
        on_message: Receives messages.
        on_round_trip: Is called after each measurement of the round trip.
    """

    def __init__(
        self,
        stream: TransportStream,
        peer: Greeting,
        *,
        where: str,
        dialed: bool,
        secure: bool,
        settings: NetworkSettings,
        exchange: Exchange,
        reading: asyncio.Event,
        on_message: Callable[[Link, Any], None],
        on_round_trip: Callable[[Link], None],
    ) -> None:
        self.peer = peer
        self.identity = peer.identity
        self.dialed = dialed
        self.round_trip: float | None = None  #: Smoothed round trip in seconds.
        self.skew: float | None = None  #: Seconds by which the clock of the neighbour is ahead.
        self._stream = stream
        self._where = where
        self._secure = secure
        self._settings = settings
        self._exchange = exchange
        self._reading = reading
        self._on_message = on_message
        self._on_round_trip = on_round_trip
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._waiting = asyncio.Event()
        self._ended: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
        self._since = time.time()
        self._began = self._received_at = time.monotonic()
        self._moved = self._received_at  #: When the neighbour last took a packet, or nothing was waiting for it.
        self._is_left = False  #: Whether the neighbour has announced the end of the link.
        self._sent_frames = self._sent_bytes = 0
        self._received_frames = self._received_bytes = 0

    @property
    def is_open(self) -> bool:
        """Returns whether the link has not ended."""
        return not self._ended.done()

    @property
    def age(self) -> float:
        """Seconds since the link began."""
        return time.monotonic() - self._began

    @property
    def queue_bytes(self) -> int:
        """Bytes that wait to be sent."""
        return self._queue_bytes

    def report(self) -> LinkReport:
        """Returns the state of the link."""
        return LinkReport(
            identity=self.identity,
            name=self.peer.name,
            where=self._where,
            dialed=self.dialed,
            secure=self._secure,
            software=self.peer.software,
            since=self._since,
            round_trip=self.round_trip,
            skew=self.skew,
            queue_frames=len(self._queue),
            queue_bytes=self._queue_bytes,
            sent_frames=self._sent_frames,
            sent_bytes=self._sent_bytes,
            received_frames=self._received_frames,
            received_bytes=self._received_bytes,
            sends=str(self._exchange.sends),
            receives=str(self._exchange.receives),
            **{f"forms_{name}": count for name, count in self._exchange.counts.items()},
        )

    # Called by the owner.

    def send(self, message: object) -> None:
        """Queues a message. If the queue is full, the link ends."""
        if not self.is_open:
            return
        if not self._queue_bytes:
            self._moved = time.monotonic()
        for each in self._exchange.outgoing(message):
            self._put(frame(each))
        settings = self._settings
        # A single frame may be larger than the bound.
        if len(self._queue) > 1 and (
            self._queue_bytes > settings.queue_bytes_max or len(self._queue) > settings.queue_frames_max
        ):
            waiting = f"{len(self._queue):,} frames of {self._queue_bytes:,} bytes"
            self.end(SLOW, f"{waiting} wait for {self.peer.name}, which does not take them")

    def _put(self, data: bytes) -> None:
        self._queue.append(data)
        self._queue_bytes += len(data)
        self._waiting.set()

    def end(self, kind: str, reason: str) -> None:
        """Ends the link."""
        if not self._ended.done():
            self._ended.set_result((kind, reason))

    async def run(self) -> tuple[str, str]:
        """Runs the link until it ends. Returns kind and reason of the end."""
        tasks = [asyncio.create_task(work) for work in (self._receive(), self._transmit(), self._watch())]
        for task in tasks:
            task.add_done_callback(self._on_task_end)
        try:
            return await asyncio.shield(self._ended)
        finally:
            await self._say_farewell(*tasks[:2])
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._stream.cancel()
            self._queue.clear()
            self._queue_bytes = 0

    async def _say_farewell(self, receiving: asyncio.Task[None], transmitting: asyncio.Task[None]) -> None:
        """Sends the reason of the end, after all that waits.

        A gRPC call ends as soon as one of its reads or writes is cancelled, so this comes first. What the dialing side
        has sent is lost if it then cancels the call, so it waits until the other side ends it.
        """
        kind, reason = self._ended.result() if self._ended.done() else (BROKEN, "")
        if self._is_left or kind in (BROKEN, SLOW, SILENT):
            return
        self._put(frame(GoAway(kind, reason)))
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                while self._queue_bytes and not transmitting.done():
                    await asyncio.sleep(_FAREWELL_SECONDS / 100)
                if self.dialed:
                    await asyncio.wait([receiving])
                    while await self._stream.read() is not None:
                        """Discards what still arrives."""

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.end(BROKEN, "the stream has ended")
        elif isinstance(error, FrameError):
            self.end(FRAME, f"{self.peer.name} sent what is no packet: {error.reason}")
        elif isinstance(error, ConnectionError):
            self.end(BROKEN, str(error) or "the connection is lost")
        elif isinstance(error, WireError):
            self.end(FORM, f"{self.peer.name} sent what was not agreed on: {error}")
        elif isinstance(error, TwigcastError):
            self.end(FRAME, f"{self.peer.name} sent what cannot be used: {error}")
        else:
            logger.error("a fault in the link with %s", self.peer.name, exc_info=error)
            self.end(BROKEN, f"a fault of this broker: {error!r}")

    # Tasks.

    async def _receive(self) -> None:
        read, on_message, exchange = self._stream.read, self._on_message, self._exchange
        while (data := await read()) is not None:
            self._received_at = time.monotonic()
            if not self._reading.is_set():
                await self._reading.wait()
                self._received_at = time.monotonic()
            self._received_bytes += len(data)
            for message in messages_of(data, exchange.agreed):
                self._received_frames += 1
                kind = type(message)
                if not self.is_open:
                    break
                if kind is Ping:
                    self.send(Pong(message.sent_ns, time.time()))
                elif kind is Pong:
                    self._on_pong(message)
                elif kind is GoAway:
                    self.end(message.kind, message.reason)
                    self._is_left = True
                elif kind is LexiconUpdate:
                    exchange.learn(message)
                else:
                    if kind is Hello:
                        exchange.on_hello(message)
                    on_message(self, exchange.incoming(message))

    async def _transmit(self) -> None:
        queue, waiting = self._queue, self._waiting
        while True:
            if not queue:
                waiting.clear()
                await waiting.wait()
            frames = [queue.popleft()]
            size = len(frames[0])
            while queue and size + len(queue[0]) <= PACKET_BYTES_WANTED:
                size += len(queue[0])
                frames.append(queue.popleft())
            await self._stream.write(packet(frames))
            self._queue_bytes -= size
            self._moved = time.monotonic()
            self._sent_frames += len(frames)
            self._sent_bytes += size

    async def _watch(self) -> None:
        """Sends pings, and ends the link if nothing arrives or leaves for too long."""
        settings = self._settings
        while True:
            self.send(Ping(time.monotonic_ns()))
            before = time.monotonic()
            await asyncio.sleep(settings.ping_seconds)
            now = time.monotonic()
            if now - before > 2 * settings.ping_seconds or not self._reading.is_set():
                # This process was suspended, or does not read: messages may have arrived that it has not read.
                continue
            if now - self._received_at > settings.silence_seconds:
                self.end(SILENT, f"nothing came from {self.peer.name} for {settings.silence_seconds:g} s")
            elif self._queue_bytes and now - self._moved > settings.stall_seconds:
                self.end(SLOW, f"{self.peer.name} has taken nothing for {settings.stall_seconds:g} s")

    def _on_pong(self, pong: Pong) -> None:
        passed = (time.monotonic_ns() - pong.sent_ns) / 1e9
        if not 0 <= passed <= 3_600:
            return
        before = self.round_trip
        self.round_trip = passed if before is None else before + _SMOOTHING * (passed - before)
        ahead = pong.clock + passed / 2 - time.time()
        if before is None or self.skew is None or passed <= 2 * before:
            # After a long round trip, a pong says little about the clock.
            self.skew = ahead if abs(ahead) < float("inf") else None
        self._on_round_trip(self)
