"""The greetings of two brokers, and the reasons to refuse a link.

The broker that dials sends its :class:`Greeting`. The other answers with its own or with :class:`GoAway`. The first
then sends :class:`Ready` or refuses in turn. Only then is there a link.

A broker has a *name*, which must be in its certificate. Its identity is that of its store: the number in the protocol
is computed from the name and the *instance*, which is drawn when the store is made. So a broker with a new store under
its old name is another root, and its message 1 is not confused with an earlier one. Starts of one store have a growing
*incarnation*; a later start replaces an earlier one.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from twigcast.overlay.errors import PeerRefused

NAME_BYTES_MAX: Final = 253  #: Greatest length of a broker's name, that of a host name.

VERSION: Final = "version"  #: Refused: the broker has another major version.
CERTIFICATE: Final = "certificate"  #: Refused: the name of the broker is not in its certificate.
IDENTITY: Final = "identity"  #: Refused: another broker has the same name, or this one has it.
SUPERSEDED: Final = "superseded"  #: Refused: a later start of the same broker is linked already.
DUPLICATE: Final = "duplicate"  #: Refused, without harm: there is a link between the two already.
FRAME: Final = "frame"  #: Ended: the broker sent an invalid packet.
FORM: Final = "form"  #: Ended: the broker sent a message in a form, or with a dictionary, that was not agreed on.
SLOW: Final = "slow"  #: Ended: the broker read nothing from the link.
SILENT: Final = "silent"  #: Ended: nothing arrived from the broker.
STOPPING: Final = "stopping"  #: Ended: one of the two stops.
CAPACITY: Final = "capacity"  #: Refused: the greatest number of links is reached.

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
    """The first message on a stream, from both sides."""

    version: tuple[int, int]  #: Major and minor version of the protocol.
    name: str  #: Name of the broker.
    instance: bytes  #: 16 bytes, drawn once with its store.
    incarnation: int  #: Grows with every start.
    where: str  #: Host and port for other brokers; empty: they cannot dial.
    clock: float  #: Time in seconds, to detect clocks that differ. No order depends on it.
    software: str  #: Release of the software, for reports.

    @property
    def identity(self) -> int:
        """The number of the broker in the protocol."""
        return identity_of(self.name, self.instance)


class Ready(NamedTuple):
    """The acceptance of a greeting."""


class GoAway(NamedTuple):
    """The last message on a stream: why it ends."""

    kind: str  #: One of `KINDS`.
    reason: str  #: The reason in a sentence.


class Ping(NamedTuple):
    """A request for a `Pong`."""

    sent_ns: int  #: When it was sent by the clock of the sender, which gets it back unchanged.


class Pong(NamedTuple):
    """The answer to a `Ping`."""

    sent_ns: int  #: That of the ping.
    clock: float  #: Time of the sender in seconds.


def identity_of(name: str, instance: bytes) -> int:
    """Returns the number of a broker in the protocol: 62 bits of the SHA-256 of instance and name.

    Among a million brokers, two have the same number with a probability of one in nine million.
    """
    return int.from_bytes(hashlib.sha256(instance + name.encode()).digest()[:8]) >> 2


def check(mine: Greeting, theirs: Greeting, proven: frozenset[str] | None) -> None:
    """Refuses a link that two greetings do not permit, by `PeerRefused`.

    `proven` are the names in the certificate of the other broker; `None` without certificates.
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
