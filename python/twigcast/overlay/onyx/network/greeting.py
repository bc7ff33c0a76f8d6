"""What two brokers tell each other first, and when one does not talk to the other.

The broker that dials sends its :class:`Greeting`; the other answers with its own or with :class:`GoAway`; the first
then says :class:`Ready` or refuses in its turn. Only then is there a link.

A broker is called by its *name*, which its certificate must hold. What it is, is its store: its number in the protocol
is made from the name and from the *instance*, which is drawn when the store is made. So a broker that begins anew under
its old name is another root, and nobody takes its message 1 for one that is long known. Starts of one store are told
apart by their *incarnation*, which grows: the later one takes the place of the earlier.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from twigcast.overlay.onyx.network.errors import PeerRefused

NAME_BYTES_MAX: Final = 253
"""Of a broker's name: that of the longest host name."""

VERSION: Final = "version"
"""Refused: it speaks another major version."""
CERTIFICATE: Final = "certificate"
"""Refused: its certificate does not hold the name that it gives."""
IDENTITY: Final = "identity"
"""Refused: there is another broker of that name, or it has our own."""
SUPERSEDED: Final = "superseded"
"""Refused: a later start of the same broker is linked already."""
DUPLICATE: Final = "duplicate"
"""Refused, without any harm: there is a link between the two already."""
FRAME: Final = "frame"
"""Broken off: it sent what is no packet."""
FORM: Final = "form"
"""Broken off: it sent a message in a form, or with a dictionary, that was not agreed on."""
SLOW: Final = "slow"
"""Broken off: it did not take what was sent."""
SILENT: Final = "silent"
"""Broken off: nothing was heard from it."""
STOPPING: Final = "stopping"
"""Ended: one of the two stops."""
CAPACITY: Final = "capacity"
"""Refused: there are as many links as there may be."""

KINDS: Final = (
    VERSION,
    CERTIFICATE,
    IDENTITY,
    SUPERSEDED,
    DUPLICATE,
    FRAME,
    FORM,
    SLOW,
    SILENT,
    STOPPING,
    CAPACITY,
)


class Greeting(NamedTuple):
    """First on a stream, from both sides.

    Attributes:
        version: Of the protocol: major and minor.
        name: The broker's.
        instance: 16 bytes, drawn once with its store.
        incarnation: Grows with every start.
        where: How other brokers reach it (host and port); empty: they do not.
        clock: Its time in seconds, to tell of clocks that are apart. No order depends on it.
        software: Its release, for people.
    """

    version: tuple[int, int]
    name: str
    instance: bytes
    incarnation: int
    where: str
    clock: float
    software: str

    @property
    def identity(self) -> int:
        """Its number in the protocol."""
        return identity_of(self.name, self.instance)


class Ready(NamedTuple):
    """The other side's greeting is accepted."""


class GoAway(NamedTuple):
    """Last on a stream: why it ends.

    Attributes:
        kind: One of `KINDS`.
        reason: For people.
    """

    kind: str
    reason: str


class Ping(NamedTuple):
    """Asks for a `Pong`.

    Attributes:
        stamp: Comes back as it is.
    """

    stamp: int


class Pong(NamedTuple):
    """Answer to a `Ping`.

    Attributes:
        stamp: Of the ping.
        clock: Time of the sender in seconds.
    """

    stamp: int
    clock: float


def identity_of(name: str, instance: bytes) -> int:
    """The number of a broker in the protocol: 62 bits of the SHA-256 of what makes it the one it is.

    Among a million brokers two have one number with a probability of one to nine million.
    """
    return int.from_bytes(hashlib.sha256(instance + name.encode()).digest()[:8]) >> 2


def check(mine: Greeting, theirs: Greeting, proven: frozenset[str] | None) -> None:
    """See whether a broker is to be talked to, as far as the two greetings tell.

    Args:
        mine: Our greeting.
        theirs: Its greeting.
        proven: Names in its certificate; `None` where there are no certificates.

    Raises:
        PeerRefused: It is not.
    """
    if theirs.version[0] != mine.version[0]:
        ours, its = (".".join(map(str, version)) for version in (mine.version, theirs.version))
        raise PeerRefused(VERSION, f"{theirs.name} speaks version {its} of the protocol, this broker {ours}")
    if proven is not None and theirs.name not in proven:
        held = ", ".join(sorted(proven)) or "no name"
        raise PeerRefused(CERTIFICATE, f"it calls itself {theirs.name}, and its certificate holds {held}")
    if theirs.identity == mine.identity:
        raise PeerRefused(IDENTITY, f"{theirs.name} is this broker itself, or runs on a copy of its store")
    if theirs.name == mine.name:
        raise PeerRefused(IDENTITY, f"another broker calls itself {theirs.name} as this one does; rename one of them")
