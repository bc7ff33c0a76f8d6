"""Reports on links and refused brokers, for logs, metrics and the console."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

FAULTS_KEPT: Final = 50  #: Faults that are kept.

KINDS_MAX: Final = 50  #: Kinds of faults with a count of their own. Other brokers choose the names of some.

_OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class LinkReport:
    """The state of a link."""

    identity: int
    name: str
    where: str  #: Address that was dialed, or from which the broker dialed.
    dialed: bool  #: Whether this side dialed.
    secure: bool  #: Whether both sides have shown certificates.
    software: str
    since: float  #: Seconds since the epoch.
    round_trip: float | None  #: Seconds; `None`: not measured yet.
    skew: float | None  #: Seconds by which its clock is ahead of ours; `None`: not measured yet.
    queue_frames: int
    queue_bytes: int
    sent_frames: int
    sent_bytes: int
    received_frames: int
    received_bytes: int
    sends: str = "text"  #: Form of sent messages.
    receives: str = "text"  #: Form of received messages.
    forms_sent: int = 0  #: Messages sent in another form than text.
    forms_received: int = 0
    forms_taught: int = 0  #: Dictionaries that were sent.
    forms_learnt: int = 0  #: Dictionaries that were received.


@dataclass(frozen=True, slots=True)
class DialReport:
    """The state of a broker that is to be reached and has no link."""

    url: str
    attempts: int  #: Consecutive attempts without success.
    reason: str | None  #: Reason of the latest failure.
    at: float | None  #: Time of the latest failure; seconds since the epoch.


@dataclass(frozen=True, slots=True)
class LinkFault:
    """The refusal of a broker, or the failure of a link."""

    at: float  #: Seconds since the epoch.
    kind: str  #: One of :data:`~twigcast.overlay.onyx.network.greeting.KINDS`, or `broken`.
    peer: str  #: Name of the broker, or its address if the name is not known.
    reason: str


@dataclass(slots=True)
class LinkFaults:
    """The latest faults, and the count of each kind since the start."""

    latest: deque[LinkFault] = field(default_factory=lambda: deque(maxlen=FAULTS_KEPT))
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, peer: str, reason: str) -> None:
        """Adds a fault."""
        self.latest.append(LinkFault(time.time(), kind, peer, reason))
        self.counts[kind if kind in self.counts or len(self.counts) < KINDS_MAX else _OTHER] += 1
