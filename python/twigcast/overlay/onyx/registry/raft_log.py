"""The log of Raft, the messages between its nodes, and their events for the application.

The nodes are in :mod:`twigcast.overlay.onyx.registry.raft`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from twigcast.overlay.core import HEADER_BYTES, Address, Traffic, carries


class LogEntry(NamedTuple):
    """A command in the log.

    Attributes:
        term: The term in which it was appended.
        request: Name of the request; `None` for the first entry of a leader.
        command: The command.
    """

    term: int
    request: Hashable
    command: Any


class StateMachine(Protocol):
    """The replicated object, on which all nodes carry out the same commands."""

    def apply(self, index: int, command: Any) -> Any:
        """Carries out a command and returns the reply, which depends only on the commands so far."""

    def state(self) -> str:
        """Returns the state after the commands so far."""

    def restore(self, state: str) -> None:
        """Replaces the state, so that later commands get the same replies as from the machine that returned it."""


class LogSnapshot(NamedTuple):
    """The state after the commands up to one entry.

    Attributes:
        number: Index of the entry; 0: none yet.
        term: The term of the entry.
        text: The state of the machine and the stored replies.
    """

    number: int = 0
    term: int = 0
    text: str = ""


@dataclass(slots=True)
class PersistentState:
    """The persistent state of a node. The driver stores it before it carries out the effects of a step.

    Attributes:
        term: The latest term that the node has seen.
        voted_for: The candidate that got its vote in that term.
        log: The entries from index ``base + 1`` on.
        base: Number of entries before these, which were dropped.
        base_term: The term of the last dropped entry.
        snapshot: The state after the dropped entries, or after some later one.
    """

    term: int = 0
    voted_for: Address | None = None
    log: list[LogEntry] = field(default_factory=list)
    base: int = 0
    base_term: int = 0
    snapshot: LogSnapshot = field(default_factory=LogSnapshot)

    @property
    def last(self) -> int:
        """The index of the last entry."""
        return self.base + len(self.log)

    def term_at(self, index: int) -> int:
        """Returns the term of an entry, from the last dropped one on."""
        return self.base_term if index == self.base else self.log[index - self.base - 1].term


class RequestApplied(NamedTuple):
    """An event: the request was carried out, and will not be again."""

    request: Hashable
    reply: Any


class NotLeading(NamedTuple):
    """An event: the request was not accepted, since this node does not lead; `leader` does, if it is known."""

    request: Hashable
    leader: Address | None


class Applied(NamedTuple):
    """An event at every node: the command of an entry was carried out."""

    number: int
    command: Any
    reply: Any


class Restored(NamedTuple):
    """An event: a snapshot of the leader has replaced the state of the machine."""

    number: int


@carries(Traffic.CONTROL, content=24)
class RequestVote(NamedTuple):
    """The request of a candidate for a vote."""

    term: int
    last_index: int
    last_term: int


@carries(Traffic.CONTROL, content=9)
class Vote(NamedTuple):
    """The answer to `RequestVote`."""

    term: int
    is_granted: bool


@carries(Traffic.REPLICATION)
class Append(NamedTuple):
    """The entries of the leader after `before`; without entries, a heartbeat."""

    term: int
    before: int
    before_term: int
    entries: tuple[LogEntry, ...]
    committed: int

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 32 + sum(16 + len(repr(entry.command)) for entry in self.entries)


@carries(Traffic.REPLICATION, content=17)
class Appended(NamedTuple):
    """The answer to `Append`: the logs agree up to `upto`; if it is not taken, they may agree there."""

    term: int
    is_taken: bool
    upto: int


@carries(Traffic.REPLICATION)
class Install(NamedTuple):
    """A piece of the leader's snapshot, from `offset` on, of `size` characters in all."""

    term: int
    number: int
    number_term: int
    offset: int
    piece: str
    size: int

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 40 + len(self.piece)


@carries(Traffic.REPLICATION, content=24)
class Installed(NamedTuple):
    """The answer to `Install`: the number of characters received. With all, the snapshot is in force."""

    term: int
    number: int
    upto: int
