"""Links that keep order, over a network that loses, doubles and reorders: what TCP is to a real driver.

A protocol that needs ordered links is written against :class:`LinkedNode`: its methods are called when a link to a
neighbour comes up or goes down; messages on one link arrive in order, each once, or the link goes down.
:class:`OrderedNode` provides that on top of a lossy simulated network. Each side of a link draws a *session* number. A
link is up between two sessions, and never between others. Its messages are numbered, acknowledged cumulatively and
repeated. A side that gives up ends its session, and the other notices it by the next session number. An idle link is
probed, so that a silent neighbour is noticed.

On a network without faults all of that can be left out (`perfect`): links are up from the start, and messages are sent
as they are; latencies must then be constant for each pair.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from twigcast.overlay.core import Address, Effects, LinkSettings, ProtocolNode, SetTimer, Traffic, carries

#: Number of a session: the incarnation of its node and a count.
_Session = tuple[int, int]


class LinkedNode(Protocol):
    """A node on ordered links."""

    address: Address

    def link_up(self, neighbour: Address, cost: int, now: float) -> Effects:
        """Handles a new link to a neighbour, with its cost."""

    def link_down(self, neighbour: Address, now: float) -> Effects:
        """Handles a broken link to a neighbour. What was under way may be lost."""

    def receive(self, sender: Address, message: Any, now: float) -> Effects:
        """Handles a message of a neighbour."""

    def wake(self, timer: Hashable, now: float) -> Effects:
        """Runs a timer that was set earlier."""


@carries(Traffic.CONTROL, 25)
class Open(NamedTuple):
    """Offer of a session.

    Attributes:
        mine: The sender's session.
        yours: The receiver's session, if the sender knows it.
        is_up: The link is up at the sender: no answer is needed.
    """

    mine: _Session
    yours: _Session | None
    is_up: bool


class Piece(NamedTuple):
    """A message in a session."""

    mine: _Session
    yours: _Session
    sequence: int
    message: Any

    @property
    def traffic(self) -> str:
        """The traffic of the message inside."""
        return str(self.message.traffic)

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return int(self.message.size_bytes()) + 32


@carries(Traffic.CONTROL, 32)
class Taken(NamedTuple):
    """All pieces below `next` have arrived."""

    mine: _Session
    yours: _Session
    next: int


@carries(Traffic.CONTROL, 0)
class Probe(NamedTuple):
    """A piece without content."""


@dataclass(frozen=True, slots=True)
class OrderedSettings:
    """The times and bounds of ordered links.

    Attributes:
        perfect: The network loses, doubles and reorders nothing.
        retry_delay: Time after which what was not acknowledged is sent again.
        attempts_max: Sends without progress before a link is given up.
        probe_delay: Time after which an idle link is probed.
        dial_delay: Time between offers of a session.
    """

    perfect: bool = False
    retry_delay: float = 4.0
    attempts_max: int = 6
    probe_delay: float = 20.0
    dial_delay: float = 10.0


@dataclass(slots=True)
class _End:
    """One side's end of a link."""

    cost: int
    mine: _Session
    theirs: _Session | None = None
    is_up: bool = False
    sent: int = 0
    waiting: dict[int, Any] = field(default_factory=dict)
    attempts: int = 0
    next: int = 0
    early: dict[int, Any] = field(default_factory=dict)
    received_at: float = 0.0


class OrderedNode(ProtocolNode):
    """A simulated node: a :class:`LinkedNode` and its ends of the links.

    Args:
        inner: The protocol's node.
        neighbours: Whom it has links to, and what they cost.
        settings: Times.
        incarnation: Number of the start; grows.
    """

    __slots__ = ("_count", "_dialing", "_ends", "inner", "settings")

    def __init__(
        self, inner: LinkedNode, neighbours: Mapping[Address, int], settings: OrderedSettings, incarnation: int = 0
    ) -> None:
        super().__init__(inner.address, LinkSettings(), incarnation)
        self.inner = inner
        self.settings = settings
        self._count = 0
        self._dialing: set[Address] = set()
        self._ends: dict[Address, _End] = {}
        for neighbour, cost in neighbours.items():
            self.connect(neighbour, cost)

    # Links, as the application sees them.

    def connect(self, neighbour: Address, cost: int) -> None:
        """Begins to link to a neighbour. The other side must do the same."""
        if neighbour in self._ends:
            return
        self._ends[neighbour] = _End(cost, self._session())
        if self.settings.perfect:
            self._ends[neighbour].is_up = True
            self._act(self.inner.link_up(neighbour, cost, self.now))
        else:
            self._dialing.add(neighbour)
            self.set_timer(0.0, ("dial", neighbour))
            self.set_timer(self.settings.probe_delay, ("probe", neighbour))

    def disconnect(self, neighbour: Address) -> None:
        """Ends the link to a neighbour."""
        end = self._ends.pop(neighbour, None)
        if end is not None and end.is_up:
            self._act(self.inner.link_down(neighbour, self.now))

    def reset(self, neighbour: Address) -> None:
        """Restarts a link: the inner node has refused a message of it, and counts it as down."""
        end = self._ends.get(neighbour)
        if end is not None and not self.settings.perfect:
            self._renew(neighbour, end)

    @property
    def neighbours(self) -> list[Address]:
        """The neighbours whose links are up."""
        return [neighbour for neighbour, end in self._ends.items() if end.is_up]

    # What the simulator calls.

    def receive(self, sender: Address, message: Any, now: float) -> Effects:
        """Takes one message from the network."""
        self.now = now
        end = self._ends.get(sender)
        if end is None:
            if sender == self.address:
                self._act(self.inner.receive(sender, message, now))
        elif self.settings.perfect:
            self._act(self.inner.receive(sender, message, now))
        elif type(message) is Open:
            self._offered(sender, end, message)
        elif type(message) is Piece:
            self._piece(sender, end, message)
        elif type(message) is Taken:
            self._taken(end, message)
        return self.drain()

    def wake(self, timer: Hashable, now: float) -> Effects:
        """Runs a timer of a link, or of the inner node."""
        self.now = now
        match timer:
            case ("inner", name):
                self._act(self.inner.wake(name, now))
            case ("dial", int(neighbour)):
                self._dial(neighbour)
            case ("probe", int(neighbour)):
                self._probe(neighbour)
            case ("retry", int(neighbour), session):
                self._repeat(neighbour, session)
        return self.drain()

    def act(self, effects: Effects) -> None:
        """Carries out what the inner node answered to a command from outside."""
        self._act(effects)

    # Carrying out what the inner node wants.

    def _act(self, effects: Effects) -> None:
        for delay, name in effects.timers:
            self._timers.append(SetTimer(delay, ("inner", name)))
        for item in effects.deliveries:
            self.deliver(item)
        for to, message in effects.sends:
            self._transmit(to, message)

    def _transmit(self, to: Address, message: Any) -> None:
        if to == self.address or self.settings.perfect:
            self._sends.append((to, message))
            return
        end = self._ends.get(to)
        if end is None or not end.is_up or end.theirs is None:
            return
        if not end.waiting:
            end.attempts = 1
            self.set_timer(self.settings.retry_delay, ("retry", to, end.mine))
        end.waiting[end.sent] = message
        self._sends.append((to, Piece(end.mine, end.theirs, end.sent, message)))
        end.sent += 1

    # Sessions.

    def _session(self) -> _Session:
        self._count += 1
        return self.incarnation, self._count

    def _dial(self, neighbour: Address) -> None:
        end = self._ends.get(neighbour)
        if end is None or end.is_up:
            self._dialing.discard(neighbour)
            return
        self._sends.append((neighbour, Open(end.mine, end.theirs, False)))
        self.set_timer(self.settings.dial_delay, ("dial", neighbour))

    def _offered(self, sender: Address, end: _End, offer: Open) -> None:
        if end.theirs is not None and offer.mine < end.theirs:
            return
        if end.is_up and offer.mine != end.theirs:
            self._down(sender, end)
        end.theirs = offer.mine
        if not end.is_up and offer.yours == end.mine:
            self._up(sender, end)
        if not offer.is_up:
            self._sends.append((sender, Open(end.mine, end.theirs, end.is_up)))

    def _up(self, neighbour: Address, end: _End) -> None:
        end.is_up = True
        end.received_at = self.now
        self._act(self.inner.link_up(neighbour, end.cost, self.now))

    def _down(self, neighbour: Address, end: _End) -> None:
        self._renew(neighbour, end)
        self._act(self.inner.link_down(neighbour, self.now))

    def _renew(self, neighbour: Address, end: _End) -> None:
        # The old session of the other side ends with ours; it is kept, so that what is older still is not listened to.
        end.mine, end.waiting, end.early, end.is_up = self._session(), {}, {}, False
        end.sent = end.next = end.attempts = 0
        self._sends.append((neighbour, Open(end.mine, end.theirs, False)))
        if neighbour not in self._dialing:
            self._dialing.add(neighbour)
            self.set_timer(self.settings.dial_delay, ("dial", neighbour))

    def _probe(self, neighbour: Address) -> None:
        end = self._ends.get(neighbour)
        if end is None:
            return
        if end.is_up and not end.waiting and self.now - end.received_at >= self.settings.probe_delay / 2:
            self._transmit(neighbour, Probe())
        self.set_timer(self.settings.probe_delay, ("probe", neighbour))

    # Messages in sessions.

    def _piece(self, sender: Address, end: _End, piece: Piece) -> None:
        if piece.yours != end.mine or piece.mine != end.theirs:
            return
        if not end.is_up:
            # It would not send if the link were not up there.
            self._up(sender, end)
        end.received_at = self.now
        if piece.sequence >= end.next:
            end.early[piece.sequence] = piece.message
        session = end.mine
        while end.next in end.early and end.mine == session:
            message = end.early.pop(end.next)
            end.next += 1
            if type(message) is not Probe:
                self._act(self.inner.receive(sender, message, self.now))
        if end.mine == session:
            self._sends.append((sender, Taken(end.mine, piece.mine, end.next)))

    def _taken(self, end: _End, taken: Taken) -> None:
        if taken.yours != end.mine or taken.mine != end.theirs or not end.is_up:
            return
        end.received_at = self.now
        existing = len(end.waiting)
        for sequence in [sequence for sequence in end.waiting if sequence < taken.next]:
            del end.waiting[sequence]
        if len(end.waiting) < existing:
            end.attempts = 1

    def _repeat(self, neighbour: Address, session: Hashable) -> None:
        end = self._ends.get(neighbour)
        if end is None or end.mine != session or not end.waiting or end.theirs is None:
            return
        if end.attempts >= self.settings.attempts_max:
            self._down(neighbour, end)
            return
        end.attempts += 1
        for sequence, message in end.waiting.items():
            self._sends.append((neighbour, Piece(end.mine, end.theirs, sequence, message)))
        self.set_timer(self.settings.retry_delay, ("retry", neighbour, end.mine))
