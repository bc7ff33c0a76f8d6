"""What is told of links and of brokers that were refused: for logs, metrics and the console."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

TROUBLES_KEPT: Final = 50
"""Troubles that are remembered."""


KINDS_MAX: Final = 50
"""Kinds of troubles that are counted each by itself: other brokers name some of them."""

_OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class LinkReport:
    """A link as it is now."""

    identity: int
    name: str
    where: str
    """Address that was dialed, or from which it was dialed."""
    dialed: bool
    """Whether this side dialed."""
    secure: bool
    """Whether both sides have shown certificates."""
    software: str
    since: float
    """Seconds since the epoch."""
    round_trip: float | None
    """Seconds; ``None``: not measured yet."""
    skew: float | None
    """By how many seconds its clock is ahead of ours; ``None``: not measured yet."""
    queue_frames: int
    queue_bytes: int
    sent_frames: int
    sent_bytes: int
    received_frames: int
    received_bytes: int
    sends: str = "text"
    """Form in which messages go to it."""
    receives: str = "text"
    """Form in which they come."""
    forms_sent: int = 0
    """Messages sent in another form than text."""
    forms_received: int = 0
    forms_taught: int = 0
    """Dictionaries that it was taught."""
    forms_learnt: int = 0
    """Dictionaries that it has taught."""


@dataclass(frozen=True, slots=True)
class DialReport:
    """A broker that is to be reached, while there is no link."""

    url: str
    attempts: int
    """In a row, without success."""
    reason: str | None
    """Why the last one failed."""
    at: float | None
    """When; seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class LinkFault:
    """A broker that was refused, or a link that broke."""

    at: float
    """Seconds since the epoch."""
    kind: str
    """One of :data:`~twigcast.overlay.onyx.network.greeting.KINDS`, or ``broken``."""
    peer: str
    """Its name, or its address where the name is not known."""
    reason: str


@dataclass(slots=True)
class LinkFaults:
    """The latest troubles, and how many of each kind there were since the start."""

    latest: deque[LinkFault] = field(default_factory=lambda: deque(maxlen=TROUBLES_KEPT))
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, peer: str, reason: str) -> None:
        """Remember one."""
        self.latest.append(LinkFault(time.time(), kind, peer, reason))
        self.counts[kind if kind in self.counts or len(self.counts) < KINDS_MAX else _OTHER] += 1
