"""A log replicated among a few nodes: Raft (Ongaro and Ousterhout, USENIX ATC 2014), sections 5.1 to 5.4 and 8.

One node leads in each term, chosen by a majority; it alone appends commands, and an entry that a majority holds is
committed and never lost. Commands carry the name of their request, and a request that was carried out is answered again
from its reply, so that clients may repeat what was not answered. The set of nodes is fixed, and the log is kept whole:
what it is for, a register of sources and profiles, is small and changes slowly.

Election times would be random; here they follow from address and term, so that a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from twigcast.overlay.core import HEADER_BYTES, Address, LinkSettings, Node, Traffic, carries


class Entry(NamedTuple):
    """A command in the log.

    Attributes:
        term: In which it was appended.
        request: Name of the request; `None`: the entry with which a leader begins.
        command: What is to be done.
    """

    term: int
    request: Hashable
    command: Any


class Machine(Protocol):
    """What the commands are carried out on: the same on all nodes, whatever happens."""

    def apply(self, index: int, command: Any) -> Any:
        """Carry out a command; its reply. Must depend on nothing but the commands so far."""


@dataclass(slots=True)
class Durable:
    """What a node must not forget. The driver has written it before it carries out the effects of a step.

    Attributes:
        term: The latest that the node has heard of.
        voted_for: For whom it voted in that term.
        log: All entries; the first has index 1.
    """

    term: int = 0
    voted_for: Address | None = None
    log: list[Entry] = field(default_factory=list)


class Replied(NamedTuple):
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
    entries: tuple[Entry, ...]
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


#: Entries in one message...
_ENTRIES_MAX = 64
#: ... and characters of their commands, except that there is always one.
_CHARACTERS_MAX = 1 << 20


class Replica(Node):
    """One of the nodes.

    Args:
        address: Its own.
        members: All of them, its own included.
        machine: A fresh one.
        durable: What it has kept.
        beat: Seconds between two messages of a leader; elections begin after five to ten without.
    """

    __slots__ = (
        "_armed_election",
        "applied",
        "beat",
        "committed",
        "durable",
        "heard",
        "leader",
        "machine",
        "matched",
        "members",
        "replies",
        "role",
        "upcoming",
        "votes",
        "waiting",
    )

    def __init__(
        self, address: Address, members: Sequence[Address], machine: Machine, durable: Durable, beat: float = 0.1
    ) -> None:
        super().__init__(address, LinkSettings())
        self.members = tuple(members)
        self.machine = machine
        self.durable = durable
        self.beat = beat
        self.role = "follower"
        self.leader: Address | None = None
        self.committed = 0
        self.applied = 0
        self.heard = 0.0
        self.votes: set[Address] = set()
        self.upcoming: dict[Address, int] = {}
        self.matched: dict[Address, int] = {}
        self.replies: dict[Hashable, Any] = {}
        self.waiting: set[Hashable] = set()
        self._await_election()

    # What clients want.

    def request(self, request: Hashable, command: Any) -> None:
        """A client's command; answered by `Replied` or `NotLeading`, or not at all: then it is to be repeated."""
        if self.role != "leader":
            self.deliver(NotLeading(request, self.leader))
            return
        if request in self.replies:
            self.deliver(Replied(request, self.replies[request]))
            return
        self.waiting.add(request)
        if all(entry.request != request for entry in self.durable.log[self.applied :]):
            self._append(request, command)

    def _append(self, request: Hashable, command: Any) -> None:
        self.durable.log.append(Entry(self.durable.term, request, command))
        self._commit()
        self._tell_all()

    # Elections.

    def _patience(self) -> float:
        """Five to ten beats, by address and term."""
        mixed = ((self.address + 1) * 0x9E3779B1 ^ (self.durable.term + 1) * 0x85EBCA77) >> 5 & 0xFFFF
        return self.beat * (5 + 5 * mixed / 0xFFFF)

    def _await_election(self) -> None:
        self.set_timer(self._patience(), ("election", self.durable.term))

    def on_timer(self, timer: Hashable) -> None:
        """Time for an election, or to be heard."""
        match timer:
            case ("election", _):
                if self.role != "leader" and self.now - self.heard >= self._patience() * 0.99:
                    self._stand()
                self._await_election()
            case ("beat", term):
                if self.role == "leader" and term == self.durable.term:
                    self._tell_all()
                    self.set_timer(self.beat, timer)

    def _stand(self) -> None:
        self.durable.term += 1
        self.durable.voted_for = self.address
        self.role, self.leader, self.heard = "candidate", None, self.now
        self.votes = {self.address}
        for member in self._others():
            self.send(member, RequestVote(self.durable.term, *self._last()))
        self._count_votes()

    def _last(self) -> tuple[int, int]:
        log = self.durable.log
        return len(log), log[-1].term if log else 0

    def _others(self) -> list[Address]:
        return [member for member in self.members if member != self.address]

    def _count_votes(self) -> None:
        if self.role == "candidate" and 2 * len(self.votes) > len(self.members):
            self.role, self.leader = "leader", self.address
            self.upcoming = dict.fromkeys(self._others(), len(self.durable.log) + 1)
            self.matched = dict.fromkeys(self._others(), 0)
            # Entries of former terms are committed by one of this term (section 5.4.2).
            self._append(None, None)
            self.set_timer(self.beat, ("beat", self.durable.term))

    def _step_down(self, term: int) -> None:
        if term > self.durable.term:
            self.durable.term, self.durable.voted_for = term, None
            self.role, self.leader = "follower", None
            self.waiting.clear()

    def on_request_vote(self, sender: Address, request: RequestVote) -> None:
        """Vote for a candidate of this term whose log is not older, once."""
        self._step_down(request.term)
        durable = self.durable
        index, term = self._last()
        is_granted = (
            request.term == durable.term
            and durable.voted_for in (None, sender)
            and (request.last_term, request.last_index) >= (term, index)
        )
        if is_granted:
            durable.voted_for = sender
            self.heard = self.now
        self.send(sender, Vote(durable.term, is_granted))

    def on_vote(self, sender: Address, vote: Vote) -> None:
        """A vote for this node, or not."""
        self._step_down(vote.term)
        if vote.is_granted and vote.term == self.durable.term:
            self.votes.add(sender)
            self._count_votes()

    # Replication.

    def _tell_all(self) -> None:
        for member in self._others():
            self._tell(member)

    def _tell(self, member: Address) -> None:
        log, before = self.durable.log, self.upcoming[member] - 1
        before_term = log[before - 1].term if before else 0
        entries = _fitting(log[before : before + _ENTRIES_MAX])
        self.send(member, Append(self.durable.term, before, before_term, entries, self.committed))

    def on_append(self, sender: Address, append: Append) -> None:
        """Take the leader's entries, where they follow on what is here."""
        self._step_down(append.term)
        durable, log = self.durable, self.durable.log
        if append.term < durable.term:
            self.send(sender, Appended(durable.term, False, 0))
            return
        self.role, self.leader, self.heard = "follower", sender, self.now
        if append.before > len(log) or (append.before and log[append.before - 1].term != append.before_term):
            # What the leader is to try next: before all that is here of the term that does not agree.
            agreed = min(append.before - 1, len(log))
            while agreed and agreed < append.before <= len(log) and log[agreed - 1].term == log[append.before - 1].term:
                agreed -= 1
            self.send(sender, Appended(durable.term, False, max(agreed, self.committed)))
            return
        for index, entry in enumerate(append.entries, append.before + 1):
            if index <= len(log) and log[index - 1].term != entry.term:
                del log[index - 1 :]
            if index > len(log):
                log.append(entry)
        upto = append.before + len(append.entries)
        self.committed = max(self.committed, min(append.committed, upto))
        self._apply()
        self.send(sender, Appended(durable.term, True, upto))

    def on_appended(self, sender: Address, answer: Appended) -> None:
        """A follower holds more, or its log does not agree."""
        self._step_down(answer.term)
        if self.role != "leader" or answer.term != self.durable.term:
            return
        if answer.is_taken:
            self.matched[sender] = max(self.matched[sender], answer.upto)
            self.upcoming[sender] = max(self.upcoming[sender], self.matched[sender] + 1)
            self._commit()
            if self.upcoming[sender] <= len(self.durable.log):
                self._tell(sender)
        elif answer.upto + 1 < self.upcoming[sender]:
            self.upcoming[sender] = max(answer.upto, self.matched[sender]) + 1
            self._tell(sender)

    def _commit(self) -> None:
        """What a majority holds is committed, if it is of this term."""
        held = sorted([len(self.durable.log), *self.matched.values()], reverse=True)
        index = held[len(self.members) // 2]
        if index > self.committed and self.durable.log[index - 1].term == self.durable.term:
            self.committed = index
            self._apply()

    def _apply(self) -> None:
        while self.applied < self.committed:
            self.applied += 1
            entry = self.durable.log[self.applied - 1]
            if entry.request is None:
                continue
            if entry.request not in self.replies:
                reply = self.replies[entry.request] = self.machine.apply(self.applied, entry.command)
                self.deliver(Applied(self.applied, entry.command, reply))
            if entry.request in self.waiting:
                self.waiting.discard(entry.request)
                self.deliver(Replied(entry.request, self.replies[entry.request]))

    handlers = {  # noqa: RUF012 - never changed
        RequestVote: on_request_vote,
        Vote: on_vote,
        Append: on_append,
        Appended: on_appended,
    }


def _fitting(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """As many of the entries as go into one message."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry.command) if isinstance(entry.command, str) else 0
        if count and size > _CHARACTERS_MAX:
            return tuple(entries[:count])
    return tuple(entries)
