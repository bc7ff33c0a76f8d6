"""A log replicated among a few nodes: Raft (Ongaro and Ousterhout, USENIX ATC 2014), sections 5.1 to 5.4, 7 and 8.

One node leads in each term, elected by a majority. It alone appends commands. An entry that a majority has is committed
and never lost. Commands carry the name of their request, and the reply of each is stored, so that clients may repeat
requests without an answer. The set of nodes is fixed.

When the log has grown long, a node replaces it by the state of the machine (a *snapshot*) and the latest entries, for
nodes that are slightly behind. A node that was away for longer gets the snapshot, in pieces.

Raft draws election timeouts at random. Here they are computed from address and term, so that runs are repeatable.

The first half of the module has what is stored, the messages between nodes, and the events for the application.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from twigcast.overlay.core import Address, LinkSettings, ProtocolNode, Traffic, carries


class LogEntry(NamedTuple):
    """A command in the log."""

    term: int  #: The term in which it was appended.
    request: Hashable  #: Name of the request; `None` for the first entry of a leader.
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
    """The state after the commands up to one entry."""

    number: int = 0  #: Index of the entry; 0: none yet.
    term: int = 0  #: The term of the entry.
    text: str = ""  #: The state of the machine and the stored replies.


@dataclass(slots=True)
class PersistentState:
    """The persistent state of a node. The driver stores it before it carries out the effects of a step."""

    term: int = 0  #: The latest term that the node has seen.
    voted_for: Address | None = None  #: The candidate that got its vote in that term.
    log: list[LogEntry] = field(default_factory=list)  #: The entries from index ``base + 1`` on.
    base: int = 0  #: Number of entries before these, which were dropped.
    base_term: int = 0  #: The term of the last dropped entry.
    #: The state after the dropped entries, or after some later one.
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


@carries(Traffic.CONTROL, 24)
class RequestVote(NamedTuple):
    """The request of a candidate for a vote."""

    term: int
    last_index: int
    last_term: int


@carries(Traffic.CONTROL, 9)
class Vote(NamedTuple):
    """The answer to `RequestVote`."""

    term: int
    is_granted: bool


@carries(Traffic.REPLICATION, lambda m: 32 + sum(16 + len(repr(entry.command)) for entry in m.entries))
class Append(NamedTuple):
    """The entries of the leader after `before`; without entries, a heartbeat."""

    term: int
    before: int
    before_term: int
    entries: tuple[LogEntry, ...]
    committed: int


@carries(Traffic.REPLICATION, 17)
class Appended(NamedTuple):
    """The answer to `Append`: the logs agree up to `upto`; if it is not taken, they may agree there."""

    term: int
    is_taken: bool
    upto: int


@carries(Traffic.REPLICATION, lambda m: 40 + len(m.piece))
class Install(NamedTuple):
    """A piece of the leader's snapshot, from `offset` on, of `size` characters in all."""

    term: int
    number: int
    number_term: int
    offset: int
    piece: str
    size: int


@carries(Traffic.REPLICATION, 24)
class Installed(NamedTuple):
    """The answer to `Install`: the number of characters received. With all, the snapshot is in force."""

    term: int
    number: int
    upto: int


#: Most entries of a log. With more, the older half of the entries that were carried out is dropped.
ENTRIES_MAX = 2_000
#: Stored replies. None of this many latest requests is carried out twice.
REPLIES_MAX = 10_000
#: Characters of a snapshot in one message.
PIECE_CHARACTERS = 1 << 18
#: Most entries in one message.
_ENTRIES_MAX = 64
#: Most characters of their commands; one entry may have more.
_CHARACTERS_MAX = 1 << 20


class _Arriving(NamedTuple):
    """A snapshot of which not all pieces have arrived."""

    number: int
    term: int
    size: int
    text: str


class RaftNode(ProtocolNode):
    """A member of the log.

    Args:
        address: The address of this node.
        members: The addresses of all nodes, with this one.
        machine: The state machine in its first state.
        durable: The persistent state.
        beat: Seconds between two heartbeats of a leader. Elections begin after five to ten without one.
        entries_max: Most entries of the log.
    """

    def __init__(
        self,
        address: Address,
        members: Sequence[Address],
        machine: StateMachine,
        durable: PersistentState,
        beat: float = 0.1,
        entries_max: int = ENTRIES_MAX,
    ) -> None:
        super().__init__(address, LinkSettings())
        self.members = tuple(members)
        self.machine = machine
        self.durable = durable
        self.beat = beat
        self.entries_max = entries_max
        self.role = "follower"
        self.leader: Address | None = None
        self.committed = self.applied = durable.snapshot.number
        self.last_contact = 0.0
        self.votes: set[Address] = set()
        self.upcoming: dict[Address, int] = {}
        self.matched: dict[Address, int] = {}
        self.replies: dict[Hashable, Any] = {}
        self.waiting: set[Hashable] = set()
        #: By member that gets a snapshot: its index, the next offset, and when the last piece was sent.
        self._installing: dict[Address, tuple[int, int, float]] = {}
        self._arriving: _Arriving | None = None
        if durable.snapshot.number:
            self._restore(durable.snapshot)
        self._await_election()

    # Requests.

    def request(self, request: Hashable, command: Any) -> None:
        """Appends a command. `RequestApplied` or `NotLeading` follows; if neither does, the client asks again."""
        if self.role != "leader":
            self.deliver(NotLeading(request, self.leader))
            return
        if request in self.replies:
            self.deliver(RequestApplied(request, self.replies[request]))
            return
        self.waiting.add(request)
        durable = self.durable
        if all(entry.request != request for entry in durable.log[self.applied - durable.base :]):
            self._append(request, command)

    def _append(self, request: Hashable, command: Any) -> None:
        self.durable.log.append(LogEntry(self.durable.term, request, command))
        self._commit()
        self._send_to_all()

    # Elections.

    def _election_timeout(self) -> float:
        """Returns the election timeout, five to ten beats."""
        mixed = ((self.address + 1) * 0x9E3779B1 ^ (self.durable.term + 1) * 0x85EBCA77) >> 5 & 0xFFFF
        return self.beat * (5 + 5 * mixed / 0xFFFF)

    def _await_election(self) -> None:
        self.set_timer(self._election_timeout(), ("election", self.durable.term))

    def on_timer(self, timer: Hashable) -> None:
        """Begins an election, or sends a heartbeat."""
        match timer:
            case ("election", _):
                if self.role != "leader" and self.now - self.last_contact >= self._election_timeout() * 0.99:
                    self._become_candidate()
                self._await_election()
            case ("beat", term):
                if self.role == "leader" and term == self.durable.term:
                    self._send_to_all()
                    self.set_timer(self.beat, timer)

    def _become_candidate(self) -> None:
        self.durable.term += 1
        self.durable.voted_for = self.address
        self.role, self.leader, self.last_contact = "candidate", None, self.now
        self.votes = {self.address}
        for member in self._others():
            self.send(member, RequestVote(self.durable.term, *self._last()))
        self._count_votes()

    def _last(self) -> tuple[int, int]:
        last = self.durable.last
        return last, self.durable.term_at(last)

    def _others(self) -> list[Address]:
        return [member for member in self.members if member != self.address]

    def _count_votes(self) -> None:
        if self.role == "candidate" and 2 * len(self.votes) > len(self.members):
            self.role, self.leader = "leader", self.address
            self.upcoming = dict.fromkeys(self._others(), self.durable.last + 1)
            self.matched = dict.fromkeys(self._others(), 0)
            self._installing.clear()
            # Entries of former terms are committed by one of this term (section 5.4.2).
            self._append(None, None)
            self.set_timer(self.beat, ("beat", self.durable.term))

    def _step_down(self, term: int) -> None:
        if term > self.durable.term:
            self.durable.term, self.durable.voted_for = term, None
            self.role, self.leader = "follower", None
            self.waiting.clear()

    def on_request_vote(self, sender: Address, request: RequestVote) -> None:
        """Votes for the first candidate of the term whose log is not older."""
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
            self.last_contact = self.now
        self.send(sender, Vote(durable.term, is_granted))

    def on_vote(self, sender: Address, vote: Vote) -> None:
        """Counts a vote."""
        self._step_down(vote.term)
        if vote.is_granted and vote.term == self.durable.term:
            self.votes.add(sender)
            self._count_votes()

    # Replication.

    def _send_to_all(self) -> None:
        for member in self._others():
            self._send_entries(member)

    def _send_entries(self, member: Address) -> None:
        durable, before = self.durable, self.upcoming[member] - 1
        if before < durable.base:
            self._install(member)
            return
        start = before - durable.base
        entries = _fitting(durable.log[start : start + _ENTRIES_MAX])
        self.send(member, Append(durable.term, before, durable.term_at(before), entries, self.committed))

    def on_append(self, sender: Address, append: Append) -> None:
        """Appends the entries of the leader if they follow the own log."""
        if not self._follow(sender, append.term):
            self.send(sender, Appended(self.durable.term, False, 0))
            return
        durable, before, entries = self.durable, append.before, append.entries
        if before < durable.base:
            # Dropped entries were carried out, so they agree with those of the leader.
            entries, before = entries[durable.base - before :], durable.base
        elif before > durable.last or durable.term_at(before) != append.before_term:
            self.send(sender, Appended(durable.term, False, self._may_agree(before)))
            return
        for index, entry in enumerate(entries, before + 1):
            if index <= durable.last and durable.term_at(index) != entry.term:
                del durable.log[index - durable.base - 1 :]
            if index > durable.last:
                durable.log.append(entry)
        upto = append.before + len(append.entries)
        self.committed = max(self.committed, min(append.committed, upto))
        self._apply()
        self.send(sender, Appended(durable.term, True, upto))

    def _follow(self, sender: Address, term: int) -> bool:
        """Follows a node that claims to lead in a term, unless there is a later term. Returns whether it does."""
        self._step_down(term)
        if term < self.durable.term:
            return False
        self.role, self.leader, self.last_contact = "follower", sender, self.now
        return True

    def _may_agree(self, before: int) -> int:
        """Returns the index that the leader has to try next: before all entries of the term that does not agree."""
        durable = self.durable
        agreed = min(before - 1, durable.last)
        while durable.base < agreed < before <= durable.last and durable.term_at(agreed) == durable.term_at(before):
            agreed -= 1
        return max(agreed, self.committed)

    def on_appended(self, sender: Address, answer: Appended) -> None:
        """Records the progress of a follower, or tries an earlier entry."""
        self._step_down(answer.term)
        if self.role != "leader" or answer.term != self.durable.term:
            return
        if answer.is_taken:
            self._record_match(sender, answer.upto)
        elif answer.upto + 1 < self.upcoming[sender]:
            self.upcoming[sender] = max(answer.upto, self.matched[sender]) + 1
            self._send_entries(sender)

    def _record_match(self, member: Address, upto: int) -> None:
        self.matched[member] = max(self.matched[member], upto)
        self.upcoming[member] = max(self.upcoming[member], self.matched[member] + 1)
        self._commit()
        if self.upcoming[member] <= self.durable.last:
            self._send_entries(member)

    def _commit(self) -> None:
        """Commits the entries that a majority has, if the last is of this term."""
        held = sorted([self.durable.last, *self.matched.values()], reverse=True)
        index = held[len(self.members) // 2]
        if index > self.committed and self.durable.term_at(index) == self.durable.term:
            self.committed = index
            self._apply()

    def _apply(self) -> None:
        while self.applied < self.committed:
            self.applied += 1
            entry = self.durable.log[self.applied - self.durable.base - 1]
            if entry.request is None:
                continue
            if entry.request not in self.replies:
                reply = self.replies[entry.request] = self.machine.apply(self.applied, entry.command)
                if len(self.replies) > REPLIES_MAX:
                    del self.replies[next(iter(self.replies))]
                self.deliver(Applied(self.applied, entry.command, reply))
            if entry.request in self.waiting:
                self.waiting.discard(entry.request)
                self.deliver(RequestApplied(entry.request, self.replies[entry.request]))
        if len(self.durable.log) > self.entries_max:
            self._shorten()

    # Snapshots.

    def _shorten(self) -> None:
        """Replaces old entries by a snapshot."""
        durable = self.durable
        base = min(self.applied, durable.last - self.entries_max // 2)
        if base <= durable.base:
            return
        text = json.dumps([self.machine.state(), list(self.replies.items())])
        durable.snapshot = LogSnapshot(self.applied, durable.term_at(self.applied), text)
        base_term = durable.term_at(base)
        del durable.log[: base - durable.base]
        durable.base, durable.base_term = base, base_term

    def _restore(self, snapshot: LogSnapshot) -> None:
        state, replies = json.loads(snapshot.text)
        self.machine.restore(state)
        self.replies = dict(replies)
        self.committed = self.applied = snapshot.number

    def _install(self, member: Address) -> None:
        """Sends a piece of the snapshot, unless one was sent within the last beat."""
        snapshot = self.durable.snapshot
        index, position, sent_at = self._installing.get(member, (0, 0, -math.inf))
        if index != snapshot.number:
            position, sent_at = 0, -math.inf
        if self.now - sent_at < 0.9 * self.beat:
            return
        self._installing[member] = snapshot.number, position, self.now
        piece = snapshot.text[position : position + PIECE_CHARACTERS]
        size = len(snapshot.text)
        self.send(member, Install(self.durable.term, snapshot.number, snapshot.term, position, piece, size))

    def on_install(self, sender: Address, install: Install) -> None:
        """Takes a piece of the leader's snapshot, which replaces entries that the leader has dropped."""
        if not self._follow(sender, install.term):
            self.send(sender, Installed(self.durable.term, 0, 0))
            return
        if install.number <= self.committed:
            self._arriving = None
            self.send(sender, Installed(self.durable.term, install.number, install.size))
            return
        arriving = self._arriving
        named = (install.number, install.number_term, install.size)
        if arriving is None or (arriving.number, arriving.term, arriving.size) != named:
            arriving = _Arriving(*named, "")
        if install.offset == len(arriving.text):
            arriving = arriving._replace(text=arriving.text + install.piece)
        self._arriving = arriving
        if len(arriving.text) >= arriving.size:
            self._take_over(LogSnapshot(arriving.number, arriving.term, arriving.text))
        self.send(sender, Installed(self.durable.term, install.number, len(arriving.text)))

    def _take_over(self, snapshot: LogSnapshot) -> None:
        durable, index = self.durable, snapshot.number
        self._arriving = None
        # Entries that follow the snapshot are kept (section 7).
        follows = index <= durable.last and durable.term_at(index) == snapshot.term
        durable.log[:] = durable.log[index - durable.base :] if follows else []
        durable.base, durable.base_term, durable.snapshot = index, snapshot.term, snapshot
        self._restore(snapshot)
        self.deliver(Restored(index))

    def on_installed(self, sender: Address, answer: Installed) -> None:
        """Sends the next piece of the snapshot, or continues with entries."""
        self._step_down(answer.term)
        index, _, _ = self._installing.get(sender, (0, 0, 0.0))
        if self.role != "leader" or answer.term != self.durable.term or answer.number != index:
            return
        if index == self.durable.snapshot.number and answer.upto < len(self.durable.snapshot.text):
            self._installing[sender] = index, answer.upto, -math.inf
            self._install(sender)
            return
        del self._installing[sender]
        if index == self.durable.snapshot.number:
            self._record_match(sender, index)

    handlers = {  # noqa: RUF012 - never changed
        RequestVote: on_request_vote,
        Vote: on_vote,
        Append: on_append,
        Appended: on_appended,
        Install: on_install,
        Installed: on_installed,
    }


def _fitting(entries: Sequence[LogEntry]) -> tuple[LogEntry, ...]:
    """Returns as many of the entries as fit into one message."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry.command) if isinstance(entry.command, str) else 0
        if count and size > _CHARACTERS_MAX:
            return tuple(entries[:count])
    return tuple(entries)
