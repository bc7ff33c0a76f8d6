"""A broker that holds the registry, with a few others.

Each step of the replicated log is carried out, written, and only then are others told: one step at a time. The holders
are known by their names. Which broker a name stands for is remembered with the first word from it: one that comes back
under the name with another store has forgotten what it promised, and is not listened to.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, Final

from twigcast.broker.overlay.registry.codec import (
    ChangedReply,
    LeaderHint,
    RaftMessage,
    RegistryReply,
    RegistryRequest,
    Reply,
    TextError,
    read,
    write,
)
from twigcast.broker.overlay.registry.ledger import Ledger
from twigcast.overlay.core import Address, Effects
from twigcast.overlay.onyx.messages import SourceEntry
from twigcast.overlay.onyx.registry.catalogue import AddBroker, RegisterProfile, Registry
from twigcast.overlay.onyx.registry.description import Description
from twigcast.overlay.onyx.registry.raft import ENTRIES_MAX, RaftNode
from twigcast.overlay.onyx.registry.raft_log import Applied, NotLeading, RequestApplied, Restored

logger = logging.getLogger(__name__)

BEAT_SECONDS: Final = 0.25
"""Between two messages of the holder that leads; elections begin after five to ten without."""

_ASKED_MAX: Final = 10_000
_CAPACITY_UNKNOWN: Final = 50e6
"""Bytes a second, of a broker that does not say."""


def member(name: str) -> Address:
    """The number of a holder in the replicated log: it follows from its name alone."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6])


class _Machine:
    """The registry, with commands and replies as texts."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def apply(self, index: int, command: str) -> str:
        try:
            reply = self.registry.apply(index, read(command))
        except TextError as error:
            # Written by a newer broker; the same on all that do not know it.
            logger.error("the registry passes over a command that it does not know: %s", error)
            reply = False
        return write(ChangedReply(reply) if isinstance(reply, bool) else reply).decode()  # type: ignore[arg-type]

    def state(self) -> str:
        return write(self.registry.state()).decode()

    def restore(self, state: str) -> None:
        self.registry.restore(read(state))


class RegistryReplica:
    """See the module's documentation. Lives in the overlay's thread.

    Args:
        name: Of this broker.
        identity: Its number.
        holders: Names of all holders, this one among them.
        ledger: What it has kept.
        registry: A fresh one.
        brokers: Those that can be reached now, this one among them.
        say: Says something to a broker.
        learned: Told of sources that are new or have changed.
        trouble: Told, by kind, what a person should know.
    """

    def __init__(
        self,
        name: str,
        identity: Address,
        holders: tuple[str, ...],
        ledger: Ledger,
        registry: Registry,
        *,
        brokers: Callable[[], Mapping[Address, Description]],
        say: Callable[[Address, bytes], None],
        learned: Callable[[SourceEntry], None],
        trouble: Callable[[str, str, str], None],
    ) -> None:
        self.registry = registry
        self._identity = identity
        self._names = {member(one): one for one in holders}
        self._ledger = ledger
        self._brokers = brokers
        self._say = say
        self._learned = learned
        self._trouble = trouble
        self._strangers: set[Address] = set()
        self._asked: dict[str, set[Address]] = {}
        self._offered: dict[Address, AddBroker] = {}
        self._described: dict[str, int] = {}
        self._steps: asyncio.Queue[Callable[[], Effects | None]] = asyncio.Queue()
        self._counter = 0
        self._replica = RaftNode(
            member(name),
            sorted(self._names),
            _Machine(registry),
            ledger.durable,
            beat=BEAT_SECONDS,
            entries_max=ENTRIES_MAX,
        )
        self._started = time.time_ns()
        self._steps.put_nowait(lambda: None)

    @property
    def role(self) -> str:
        """`leader`, `follower` or `candidate`."""
        return self._replica.role

    @property
    def leader(self) -> str | None:
        """Name of the holder that leads, if that is known."""
        return None if self._replica.leader is None else self._names.get(self._replica.leader)

    @property
    def entries(self) -> int:
        """Of the log, those that are carried out."""
        return self._replica.applied

    async def run(self) -> None:
        """Work until cancelled."""
        self._check_catalogue()
        while True:
            effects = self._step(await self._steps.get())
            await self._ledger.keep()
            self._act(effects)

    def _step(self, step: Callable[[], Effects | None]) -> Effects:
        self._replica.now = time.monotonic()
        return step() or self._replica.drain()

    # What comes ------------------------------------------------------------------------------------------------------

    def asked(self, origin: Address, ask: RegistryRequest) -> None:
        """A broker asks."""
        if ask.is_question:
            self._answer_now(origin, ask)
            return
        self._asked.setdefault(ask.request, set()).add(origin)
        while len(self._asked) > _ASKED_MAX:
            # Not answered since this one does not lead any more; they have asked another meanwhile.
            del self._asked[next(iter(self._asked))]
        self._steps.put_nowait(lambda: self._request(ask))

    def on_message(self, origin: Address, message: RaftMessage) -> None:
        """Another holder says something."""
        name = self._name_of(origin)
        if name is not None:
            self._steps.put_nowait(lambda: self._replica.receive(member(name), message, time.monotonic()))

    def offer_brokers(self) -> None:
        """If this one leads: have the brokers that are new, or say something else of themselves, in the registry."""
        self._steps.put_nowait(self._offer)

    # Steps -----------------------------------------------------------------------------------------------------------

    def _request(self, ask: RegistryRequest) -> None:
        if self._replica.role == "leader":
            self._offer()
        self._replica.request(ask.request, ask.command)

    def _offer(self) -> None:
        if self._replica.role != "leader":
            self._offered.clear()
            return
        existing = self.registry.brokers
        # What has been carried out is no longer on offer: a broker that is removed and comes back is offered anew.
        self._offered = {
            identity: offer for identity, offer in self._offered.items() if existing.get(identity) != offer
        }
        for identity, description in self._brokers().items():
            offer = AddBroker(identity, description.location, description.capacity or _CAPACITY_UNKNOWN)
            if existing.get(identity) != offer and self._offered.get(identity) != offer:
                self._offered[identity] = offer
                self._counter += 1
                self._replica.request(f"{self._identity}/{self._started}/{self._counter}", write(offer).decode())

    def _answer_now(self, origin: Address, ask: RegistryRequest) -> None:
        try:
            interest = read(ask.command)
        except TextError as error:
            logger.warning("a question to the registry is passed over: %s", error)
            return
        if isinstance(interest, RegisterProfile):
            reply: Reply = self.registry.choose(interest)
            self._say(origin, write(RegistryReply(ask.request, write(reply).decode())))

    # Effects ---------------------------------------------------------------------------------------------------------

    def _act(self, effects: Effects) -> None:
        loop = asyncio.get_running_loop()
        for timer in effects.timers:
            loop.call_later(timer.delay, self._steps.put_nowait, partial(self._wake, timer.name))
        for to, message in effects.sends:
            address = self._address_of(self._names[to])
            if address is not None:
                self._say(address, write(message))
        for item in effects.deliveries:
            self._deliver(item)
        if any(isinstance(item, Applied | Restored) for item in effects.deliveries):
            self._check_catalogue()

    def _wake(self, name: Hashable) -> Effects:
        return self._replica.wake(name, time.monotonic())

    def _deliver(self, item: Any) -> None:
        if isinstance(item, RequestApplied):
            for origin in self._asked.pop(str(item.request), ()):
                self._say(origin, write(RegistryReply(str(item.request), item.reply)))
        elif isinstance(item, NotLeading):
            leader = None if item.leader is None else self._names.get(item.leader)
            for origin in self._asked.pop(str(item.request), ()):
                self._say(origin, write(LeaderHint(str(item.request), leader)))

    def _check_catalogue(self) -> None:
        for source in self.registry.catalogue.values():
            if self._described.get(source.name) != source.version:
                self._described[source.name] = source.version
                self._learned(source)

    # Who is who ------------------------------------------------------------------------------------------------------

    def _name_of(self, origin: Address) -> str | None:
        """The holder that a broker is; `None`: none."""
        members = self._ledger.members
        for name, identity in members.items():
            if identity == origin:
                return name if member(name) in self._names else None
        description = self._brokers().get(origin)
        if description is None or member(description.name) not in self._names or origin == self._identity:
            return None
        if description.name in members:
            if origin not in self._strangers:
                self._strangers.add(origin)
                self._trouble(
                    "registry",
                    description.name,
                    f"{description.name} held a part of the registry, and has come back with another store: it is not "
                    "listened to there; bring its store back, or name other holders on all of them while they are "
                    "stopped",
                )
            return None
        members[description.name] = origin
        return description.name

    def _address_of(self, name: str) -> Address | None:
        """The broker that a holder is, where it can be reached."""
        result = self._ledger.members.get(name)
        if result is not None:
            return result
        named = [identity for identity, one in self._brokers().items() if one.name == name]
        return named[0] if len(named) == 1 else None
