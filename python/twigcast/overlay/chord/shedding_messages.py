"""The messages of load shedding (Miliaraki 2008, section 6.4)."""

from __future__ import annotations

from typing import NamedTuple

from twigcast.overlay.chord.states import StateRecord
from twigcast.overlay.core import HEADER_BYTES, Traffic, carries


@carries(Traffic.BALANCING)
class Shed(NamedTuple):
    """The present version of a hot state, routed to the position of copy number `copy`.

    Attributes:
        record: The state.
        copy: Which copy.
        token: For the answer (`Stored`), where the owner waits for it.
        question: The number of the `CopyRequest` that this answers.
    """

    record: StateRecord
    copy: int
    token: int = -1
    question: int = -1

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 12 + self.record.size_bytes()


@carries(Traffic.BALANCING)
class CopyRequest(NamedTuple):
    """A request for a hot state, routed to its owner by a holder that has no copy yet."""

    key: str
    copy: int
    question: int

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + len(self.key) + 8


@carries(Traffic.BALANCING)
class Release(NamedTuple):
    """A request to a holder to drop copies up to this version, since the state is no longer hot.

    It answers `Stored`.
    """

    key: str
    copy: int
    version: int
    token: int

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + len(self.key) + 16


@carries(Traffic.BALANCING)
class ReplicaInfo(NamedTuple):
    """A notice to a requester that the state has this many copies, of which it may choose."""

    key: str
    copies: int

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + len(self.key) + 4
