"""What a replicated log is made of, and what is said of it: its nodes to each other, and to the application.

What they do is in :mod:`twigcast.overlay.onyx.registry.raft`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from twigcast.overlay.core import HEADER_BYTES, Address, Traffic, carries


class LogEntry(NamedTuple):
    """A command in the log.

    Attributes:
        term: In which it was appended.
        request: Name of the request; `None`: the entry with which a leader begins.
        command: What is to be done.
    """

    term: int
    request: Hashable
    command: Any


class StateMachine(Protocol):
    """What the commands are carried out on: the same on all nodes, whatever happens."""

    def apply(self, index: int, command: Any) -> Any:
        """Carry out a command; its reply. Must depend on nothing but the commands so far."""

    def state(self) -> str:
        """All that the commands so far have made of it."""

    def restore(self, state: str) -> None:
        """Become what another one was when it gave this state: the same replies to the same commands from now on."""


class LogSnapshot(NamedTuple):
    """What the commands up to one of them have made.

    Attributes:
        number: Of its entry; 0: no command was carried out yet.
        term: In which that one was appended.
        text: The state of the machine, and the replies that are remembered.
    """

    number: int = 0
    term: int = 0
    text: str = ""


@dataclass(slots=True)
class PersistentState:
    """What a node must not forget. The driver has written it before it carries out the effects of a step.

    Attributes:
        term: The latest that the node has heard of.
        voted_for: For whom it voted in that term.
        log: The entries from number ``base + 1`` on.
        base: How many entries were before these.
        base_term: In which the last of them was appended.
        snapshot: What they have made, and maybe some more; not of fewer.
    """

    term: int = 0
    voted_for: Address | None = None
    log: list[LogEntry] = field(default_factory=list)
    base: int = 0
    base_term: int = 0
    snapshot: LogSnapshot = field(default_factory=LogSnapshot)

    @property
    def last(self) -> int:
        """Number of the last entry."""
        return self.base + len(self.log)

    def term_at(self, index: int) -> int:
        """The term of an entry, from the last before the log on."""
        return self.base_term if index == self.base else self.log[index - self.base - 1].term


class RequestApplied(NamedTuple):
    """To the application at a node that was given a request: it was carried out, and never will be again."""

    request: Hashable
    reply: Any


class NotLeading(NamedTuple):
    """To the application: the request is not taken here; who may lead, if that is known."""

    request: Hashable
    leader: Address | None


class Applied(NamedTuple):
    """To the application at every node: a command was carried out, that of the entry with this number."""

    number: int
    command: Any
    reply: Any


class Restored(NamedTuple):
    """To the application: the machine has become what the leader's was at an entry, by a snapshot."""

    number: int


@carries(Traffic.CONTROL)
class RequestVote(NamedTuple):
    """A candidate asks for a vote."""

    term: int
    last_index: int
    last_term: int

    def size_bytes(self) -> int:
        """Three numbers."""
        return HEADER_BYTES + 24


@carries(Traffic.CONTROL)
class Vote(NamedTuple):
    """Answer to `RequestVote`."""

    term: int
    is_granted: bool

    def size_bytes(self) -> int:
        """A number and a bit."""
        return HEADER_BYTES + 9


@carries(Traffic.REPLICATION)
class Append(NamedTuple):
    """The leader's entries behind `before`, or none, to be heard."""

    term: int
    before: int
    before_term: int
    entries: tuple[LogEntry, ...]
    committed: int

    def size_bytes(self) -> int:
        """Numbers and commands."""
        return HEADER_BYTES + 32 + sum(16 + len(repr(entry.command)) for entry in self.entries)


@carries(Traffic.REPLICATION)
class Appended(NamedTuple):
    """Answer to `Append`: the logs agree up to `upto`; or they do not at `before`, and may at `upto`."""

    term: int
    is_taken: bool
    upto: int

    def size_bytes(self) -> int:
        """Two numbers and a bit."""
        return HEADER_BYTES + 17


@carries(Traffic.REPLICATION)
class Install(NamedTuple):
    """A piece of the leader's snapshot, whose entry has these numbers: that from a place on of so many characters."""

    term: int
    number: int
    number_term: int
    offset: int
    piece: str
    size: int

    def size_bytes(self) -> int:
        """Numbers and the piece."""
        return HEADER_BYTES + 40 + len(self.piece)


@carries(Traffic.REPLICATION)
class Installed(NamedTuple):
    """Answer to `Install`: so many characters of that snapshot are here; all of them: it is in force."""

    term: int
    number: int
    upto: int

    def size_bytes(self) -> int:
        """Three numbers."""
        return HEADER_BYTES + 24
