"""The door: how many connections there may be, and how long each may keep the broker waiting.

A connection costs a file and some memory before anything is known of who is behind it. So there is a limit of them, and
none may stay without doing something: a request that is begun has to be sent, and a response has to be read, in time.

The last connections below the limit are a *reserve*: in them only requests that tell of health, and those of operators,
are answered. So a broker that is full can still be looked at. Where the reserve is full too, a connection in it that
has not sent its request gives way to the next one, so nobody can occupy it by silence.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from twigcast.broker.config import Settings

_log = logging.getLogger("twigcast.door")

RESERVED: Final = "twigcast.reserved"
"""Key in the scope of a request that came in a connection of the reserve."""

TARGET: Final = "twigcast.target"
"""Key in the scope of a request whose line names more than a path: an address, as a request to a proxy does."""

_SWEEP_SECONDS: Final = 1.0
_PIECE: Final = 500
"""Connections that are looked at before the event loop does other things."""

_WINDOW_SECONDS: Final = 10.0
_LINES_MAX: Final = 20
"""Lines in the log within a window: whoever opens thousands of connections must not fill the disk."""


class DoorAnswer(Enum):
    """An answer to a new connection."""

    NORMAL = "normal"
    RESERVED = "reserved"
    NONE = "none"


class Reason(Enum):
    """A reason to end a connection."""

    SILENT = "silent"
    """Nothing was sent."""
    HEAD = "head"
    """The head of a request was not complete in time."""
    BODY = "body"
    """The body of a request was not complete in time."""
    UNREAD = "unread"
    """The client did not read its response."""
    CROWDED = "crowded"
    """It was in the reserve, had no request, and another one came."""


class Watched(Protocol):
    """A connection as the door sees it."""

    def judge(self, now: float) -> None:
        """Ends the connection if it has kept the broker waiting for too long."""

    def end_unused(self) -> bool:
        """Ends the connection if no request came in it; returns whether it did."""


@dataclass(frozen=True, slots=True)
class DoorLimits:
    """The limits of the door."""

    connections_max: int
    reserved: int
    head_seconds: float
    body_seconds: float
    body_rate_min: int
    unread_seconds: float

    @classmethod
    def of(cls, settings: Settings, files_max: int | None = None) -> DoorLimits:
        """Returns the limits of the settings; fewer connections if the system does not permit so many open files."""
        most = settings.connections_max
        if files_max is not None and most > files_max - _OTHER_FILES:
            most = max(_LEAST_CONNECTIONS, files_max - _OTHER_FILES)
            _log.info(
                "connections_max is %s, but the system permits %s open files: there may be %s connections",
                f"{settings.connections_max:,}",
                f"{files_max:,}",
                f"{most:,}",
            )
        return cls(
            most,
            min(settings.connections_reserved, most - 1),
            settings.head_seconds_max,
            settings.body_seconds_max,
            settings.body_rate_min,
            settings.unread_seconds_max,
        )


_OTHER_FILES: Final = 200
"""Files that the store, outbound requests and the overlay need."""
_LEAST_CONNECTIONS: Final = 16


@dataclass(slots=True)
class Door:
    """The door of one server: limits connections, and counts those that it refuses or ends."""

    limits: DoorLimits
    refused: int = 0
    """Connections refused since there were too many."""
    ended: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(Reason, 0))
    """Connections ended, by reason."""
    reserve: dict[Watched, None] = field(default_factory=dict)
    """The connections of the reserve, in the order in which they came."""
    open_connections: Callable[[], Sequence[Watched]] = field(default=tuple)
    """Returns all connections, as the server knows them."""
    _window: float = field(default_factory=time.monotonic)
    _lines: int = 0
    _unsaid: int = 0

    def admit(self, connection: Watched, count: int) -> DoorAnswer:
        """Returns whether a new connection is taken, when there are so many others."""
        limits = self.limits
        if count < limits.connections_max - limits.reserved:
            return DoorAnswer.NORMAL
        if count >= limits.connections_max and not self._make_room():
            self.refused += 1
            self._say("a connection was refused: there are connections_max = %s", f"{limits.connections_max:,}")
            return DoorAnswer.NONE
        if not self.reserve:
            self._say("only operators get connections now: there are %s", f"{count:,}")
        self.reserve[connection] = None
        return DoorAnswer.RESERVED

    def _make_room(self) -> bool:
        """Ends a connection of the reserve in which no request came; returns whether there was one."""
        return any(connection.end_unused() for connection in list(self.reserve))

    def left(self, connection: Watched) -> None:
        """Forgets a connection that has ended."""
        self.reserve.pop(connection, None)

    def note(self, reason: Reason, peer: str, after: float) -> None:
        """Counts a connection that is ended, and tells it to the log."""
        self.ended[reason] += 1
        self._say("the connection from %s was ended after %.1f s: %s", peer, after, _SHOWN[reason])

    def _say(self, text: str, *values: object) -> None:
        self._lines += 1
        if self._lines > _LINES_MAX:
            self._unsaid += 1
        else:
            _log.warning(text, *values)

    def _turn_page(self, now: float) -> None:
        if now - self._window < _WINDOW_SECONDS:
            return
        if self._unsaid:
            _log.warning("%s more connections were refused or ended in the last 10 s", f"{self._unsaid:,}")
        self._window, self._lines, self._unsaid = now, 0, 0

    async def watch(self) -> None:
        """Looks at all connections again and again, until cancelled."""
        loop = asyncio.get_running_loop()
        limits = self.limits
        shortest = min(limits.head_seconds, limits.body_seconds, limits.unread_seconds)
        while True:
            await asyncio.sleep(min(_SWEEP_SECONDS, shortest / 4))
            self._turn_page(time.monotonic())
            now = loop.time()
            for number, connection in enumerate(self.open_connections(), start=1):
                connection.judge(now)
                if number % _PIECE == 0:
                    await asyncio.sleep(0)


_SHOWN: Final = {
    Reason.SILENT: "nothing was sent",
    Reason.HEAD: "the head of the request was not complete",
    Reason.BODY: "the body of the request was not complete",
    Reason.UNREAD: "the client did not read the response",
    Reason.CROWDED: "it had no request, and there are too many connections",
}
