"""A replica: one of the holders of the registry.

Each step of the replicated log is carried out and stored before its messages are sent, one step at a time. Holders are
configured by name. The number of the broker behind a name is stored with its first message. A broker that comes back
under that name with another store has lost its promises, so its messages are ignored.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final

from twigcast.broker.overlay.registry.client import LocalBroker
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
from twigcast.overlay.onyx.registry.catalogue import AddBroker, RegisterProfile, Registry
from twigcast.overlay.onyx.registry.raft import ENTRIES_MAX, RaftNode
from twigcast.overlay.onyx.registry.raft_log import Applied, NotLeading, RequestApplied, Restored

logger = logging.getLogger(__name__)

BEAT_SECONDS: Final = 0.25
"""Time between two heartbeats of the leader. Elections begin after five to ten without one."""

_REQUESTS_MAX: Final = 10_000
_CAPACITY_UNKNOWN: Final = 50e6
"""Bytes per second assumed for a broker without a configured capacity."""


def member(name: str) -> Address:
    """Returns the number of a holder in the replicated log, which depends only on its name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6])


class _Machine:
    """The registry as a state machine with commands and replies as texts."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def apply(self, index: int, command: str) -> str:
        try:
            reply = self.registry.apply(index, read(command))
        except TextError as error:
            # A command of a newer broker. All brokers that do not know it ignore it alike.
            logger.error("the registry ignores an unknown command: %s", error)
            reply = False
        return write(ChangedReply(reply) if isinstance(reply, bool) else reply).decode()  # type: ignore[arg-type]

    def state(self) -> str:
        return write(self.registry.state()).decode()

    def restore(self, state: str) -> None:
        self.registry.restore(read(state))


class RegistryReplica:
    """A holder of the registry; lives in the overlay's thread.

    Args:
        here: The broker.
        holders: Names of all holders, with this one.
        ledger: The persistent state.
        registry: The registry in its first state.
    """

    def __init__(self, here: LocalBroker, holders: tuple[str, ...], ledger: Ledger, registry: Registry) -> None:
        self.registry = registry
        self._here = here
        self._names = {member(one): one for one in holders}
        self._ledger = ledger
        self._strangers: set[Address] = set()
        self._origins: dict[str, set[Address]] = {}
        self._offered: dict[Address, AddBroker] = {}
        self._described: dict[str, int] = {}
        self._steps: asyncio.Queue[Callable[[], Effects | None]] = asyncio.Queue()
        self._counter = 0
        self._node = RaftNode(
            member(here.name),
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
        return self._node.role

    @property
    def leader(self) -> str | None:
        """Name of the leader, if it is known."""
        return None if self._node.leader is None else self._names.get(self._node.leader)

    @property
    def entries(self) -> int:
        """The number of entries that were carried out."""
        return self._node.applied

    async def run(self) -> None:
        """Runs the replica until cancelled."""
        self._check_catalogue()
        while True:
            effects = self._step(await self._steps.get())
            await self._ledger.keep()
            self._act(effects)

    def _step(self, step: Callable[[], Effects | None]) -> Effects:
        self._node.now = time.monotonic()
        return step() or self._node.drain()

    # Messages.

    def on_request(self, origin: Address, request: RegistryRequest) -> None:
        """Takes the request of a broker."""
        if request.is_question:
            self._answer_question(origin, request)
            return
        self._origins.setdefault(request.request, set()).add(origin)
        while len(self._origins) > _REQUESTS_MAX:
            # The oldest got no answer, since this broker no longer leads. Its clients have asked another one.
            del self._origins[next(iter(self._origins))]
        self._steps.put_nowait(lambda: self._request(request))

    def on_message(self, origin: Address, message: RaftMessage) -> None:
        """Takes a message of another holder."""
        name = self._name_of(origin)
        if name is not None:
            self._steps.put_nowait(lambda: self._node.receive(member(name), message, time.monotonic()))

    def offer_brokers(self) -> None:
        """Registers new and changed brokers, if this broker leads."""
        self._steps.put_nowait(self._offer)

    # Steps.

    def _request(self, request: RegistryRequest) -> None:
        if self._node.role == "leader":
            self._offer()
        self._node.request(request.request, request.command)

    def _offer(self) -> None:
        if self._node.role != "leader":
            self._offered.clear()
            return
        existing = self.registry.brokers
        # Offers that were carried out are dropped, so that a removed broker that comes back is registered again.
        self._offered = {
            identity: offer for identity, offer in self._offered.items() if existing.get(identity) != offer
        }
        for identity, description in self._here.brokers().items():
            offer = AddBroker(identity, description.location, description.capacity or _CAPACITY_UNKNOWN)
            if existing.get(identity) != offer and self._offered.get(identity) != offer:
                self._offered[identity] = offer
                self._counter += 1
                self._node.request(f"{self._here.identity}/{self._started}/{self._counter}", write(offer).decode())

    def _answer_question(self, origin: Address, request: RegistryRequest) -> None:
        try:
            profile = read(request.command)
        except TextError as error:
            logger.warning("a question to the registry is ignored: %s", error)
            return
        if isinstance(profile, RegisterProfile):
            reply: Reply = self.registry.choose(profile)
            self._here.send(origin, write(RegistryReply(request.request, write(reply).decode())))

    # Effects.

    def _act(self, effects: Effects) -> None:
        loop = asyncio.get_running_loop()
        for timer in effects.timers:
            loop.call_later(timer.delay, self._steps.put_nowait, partial(self._wake, timer.name))
        for to, message in effects.sends:
            address = self._address_of(self._names[to])
            if address is not None:
                self._here.send(address, write(message))
        for item in effects.deliveries:
            self._deliver(item)
        if any(isinstance(item, Applied | Restored) for item in effects.deliveries):
            self._check_catalogue()

    def _wake(self, name: Hashable) -> Effects:
        return self._node.wake(name, time.monotonic())

    def _deliver(self, item: Any) -> None:
        if isinstance(item, RequestApplied):
            for origin in self._origins.pop(str(item.request), ()):
                self._here.send(origin, write(RegistryReply(str(item.request), item.reply)))
        elif isinstance(item, NotLeading):
            leader = None if item.leader is None else self._names.get(item.leader)
            for origin in self._origins.pop(str(item.request), ()):
                self._here.send(origin, write(LeaderHint(str(item.request), leader)))

    def _check_catalogue(self) -> None:
        for source in self.registry.catalogue.values():
            if self._described.get(source.name) != source.version:
                self._described[source.name] = source.version
                self._here.on_source(source)

    # Identities of holders.

    def _name_of(self, origin: Address) -> str | None:
        """Returns the name under which a broker is a holder, or `None`."""
        members = self._ledger.members
        for name, identity in members.items():
            if identity == origin:
                return name if member(name) in self._names else None
        description = self._here.brokers().get(origin)
        if description is None or member(description.name) not in self._names or origin == self._here.identity:
            return None
        if description.name in members:
            if origin not in self._strangers:
                self._strangers.add(origin)
                self._here.report_fault(
                    "registry",
                    description.name,
                    f"{description.name} held a part of the registry, and has come back with another store: it is "
                    "ignored there; bring its store back, or name other holders on all of them while they are "
                    "stopped",
                )
            return None
        members[description.name] = origin
        return description.name

    def _address_of(self, name: str) -> Address | None:
        """Returns the number of a holder's broker, if it is known."""
        result = self._ledger.members.get(name)
        if result is not None:
            return result
        named = [identity for identity, one in self._here.brokers().items() if one.name == name]
        return named[0] if len(named) == 1 else None
