"""The messages of load shedding (Miliaraki 2008, section 6.4)."""

from __future__ import annotations

from typing import NamedTuple

from twigcast.overlay.chord.states import StateRecord
from twigcast.overlay.core import HEADER_BYTES, Traffic, carries


@carries(Traffic.BALANCING)
class Shed(NamedTuple):
    """Routed to the place of copy number `copy` of a hot state: the state as it is now.

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
        """The state and three numbers."""
        return HEADER_BYTES + 12 + self.record.size_bytes()


@carries(Traffic.BALANCING)
class CopyRequest(NamedTuple):
    """Routed to the owner of a hot state by a holder that has no copy yet: send me the state."""

    key: str
    copy: int
    question: int

    def size_bytes(self) -> int:
        """A key and two numbers."""
        return HEADER_BYTES + len(self.key) + 8


@carries(Traffic.BALANCING)
class Release(NamedTuple):
    """Routed to a holder: the state is no longer hot; let go of copies up to this version, and answer `Stored`."""

    key: str
    copy: int
    version: int
    token: int

    def size_bytes(self) -> int:
        """A key and three numbers."""
        return HEADER_BYTES + len(self.key) + 16


@carries(Traffic.BALANCING)
class ReplicaInfo(NamedTuple):
    """To a requester: the state has this many copies; choose among them."""

    key: str
    copies: int

    def size_bytes(self) -> int:
        """A key and a number."""
        return HEADER_BYTES + len(self.key) + 4
