"""The part of one broker in the registry: as a client, and as a holder if it is one.

A client sends a request to one holder after the other, until the leader has carried it out. At a holder, each step of
the replicated log is carried out and stored before its messages are sent, one step at a time. Holders are configured by
name. The number of the broker behind a name is stored with its first message. A broker that comes back under that name
with another store has lost its promises, so its messages are ignored.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson

from twigcast.broker.broker import Broker
from twigcast.broker.errors import BrokerError, StoreUnavailable
from twigcast.broker.overlay.registry.codec import (
    ChangedReply,
    Command,
    LeaderHint,
    RaftMessage,
    RegistryReply,
    RegistryRequest,
    Reply,
    TextError,
    read,
    write,
)
from twigcast.overlay.core import Address, Effects
from twigcast.overlay.onyx.messages import SourceEntry
from twigcast.overlay.onyx.registry.catalogue import AddBroker, Placement, RegisterProfile, Registry
from twigcast.overlay.onyx.registry.description import Description
from twigcast.overlay.onyx.registry.raft import (
    ENTRIES_MAX,
    Applied,
    LogEntry,
    LogSnapshot,
    NotLeading,
    PersistentState,
    RaftNode,
    RequestApplied,
    Restored,
)

logger = logging.getLogger(__name__)

_UPKEEP_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class RegistryReport:
    """The state of the registry, as seen by one broker."""

    holders: tuple[str, ...]
    """Names of the holders; empty: there is no registry."""
    role: str | None
    """`leader`, `follower` or `candidate`; ``None``: this broker is no holder."""
    leader: str | None
    """Name of the leader, if it is known."""
    entries: int
    """Entries of the log that this broker has carried out."""


PATIENCE_SECONDS: Final = 10.0
"""Longest time for one request."""
_ANSWER_SECONDS: Final = 1.5
"""Longest time for the answer of one holder."""
_PAUSE_SECONDS: Final = 0.2


class NoRegistry(BrokerError):
    """The registry is unavailable: too few of its holders can be reached. A request may still be carried out."""

    code = "no-registry"
    status = 503


class NoAnswer(NoRegistry):
    """A request to the registry got no answer in time."""


@dataclass(frozen=True, slots=True)
class LocalBroker:
    """The own broker, as the parts of the registry use it."""

    name: str
    identity: Address
    brokers: Callable[[], Mapping[Address, Description]]
    """Returns the brokers that can be reached, with this one."""
    send: Callable[[Address, bytes], None]
    """Sends a message to the service of a broker, which may be this one."""
    on_source: Callable[[SourceEntry], None]
    """Receives new and changed entries of the catalogue."""
    report_fault: Callable[[str, str, str], None]
    """Reports a fault by kind, broker and reason."""


class RegistryClient:
    """The client of the registry at one broker; lives in the overlay's thread. ``holders`` returns their names."""

    def __init__(self, here: LocalBroker, holders: Callable[[], tuple[str, ...]]) -> None:
        self._here = here
        self._holders = holders
        self._leader: str | None = None
        self._waiting: dict[str, asyncio.Future[RegistryReply | LeaderHint]] = {}
        self._requests = itertools.count()
        self._started = time.time_ns()

    def on_answer(self, answer: RegistryReply | LeaderHint) -> None:
        """Takes the answer of a holder."""
        waiting = self._waiting.get(answer.request)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def ask(self, command: Command, *, is_question: bool = False) -> Any:
        """Sends a command to the holders, and returns the reply; raises NoRegistry if none answers in time."""
        if not self._holders():
            raise NoRegistry("no broker of this overlay holds its registry: name some with 'overlay_registry'")
        request = RegistryRequest(
            f"{self._here.identity}.{self._started}.{next(self._requests)}", write(command).decode(), is_question
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return read(await self._reply(request))
        except TimeoutError:
            names = ", ".join(self._holders())
            raise NoAnswer(
                f"the registry does not answer: of the brokers that hold it ({names}), too few can be reached; what "
                "was asked may still be carried out"
            ) from None

    async def _reply(self, request: RegistryRequest) -> str:
        for turn in itertools.count():
            name = self._next(turn)
            answer = None if name is None else await self._ask_one(name, request)
            if isinstance(answer, RegistryReply):
                self._leader = name
                return answer.reply
            self._leader = answer.leader if answer is not None else None
            await asyncio.sleep(0 if self._leader not in (None, name) else _PAUSE_SECONDS)
        raise AssertionError

    def _next(self, turn: int) -> str | None:
        """Returns the holder to ask: the leader if it is known, otherwise each in turn."""
        reached = {one.name for one in self._here.brokers().values()}
        if self._leader in reached:
            return self._leader
        names = [name for name in self._holders() if name in reached]
        return names[turn % len(names)] if names else None

    async def _ask_one(self, name: str, request: RegistryRequest) -> RegistryReply | LeaderHint | None:
        address = next((identity for identity, one in self._here.brokers().items() if one.name == name), None)
        if address is None:
            return None
        waiting: asyncio.Future[RegistryReply | LeaderHint] = asyncio.get_running_loop().create_future()
        self._waiting[request.request] = waiting
        try:
            self._here.send(address, write(request))
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await waiting
        except TimeoutError:
            return None
        finally:
            del self._waiting[request.request]


BEAT_SECONDS: Final = 0.25
"""Time between two heartbeats of the leader. Elections begin after five to ten without one."""

_REQUESTS_MAX: Final = 10_000
_CAPACITY_UNKNOWN: Final = 50e6
"""Bytes per second assumed for a broker without a configured capacity."""

_STATE: Final = "registry"
_LOG: Final = "registry-log"
_SNAPSHOT: Final = "snapshot"
"""The name of the snapshot among the entries; it is written in one transaction with the log."""
_RETRY_SECONDS: Final = 0.5


class Records:
    """The records of the overlay in the broker's store, by kind and name. It is made in the main event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._hub_loop = asyncio.get_running_loop()

    def load(self, kind: str) -> dict[str, bytes]:
        """Returns all records of a kind, in the order of their names. Blocks."""
        return self._broker.store.overlay_records(kind)

    async def save(self, kind: str, put: Mapping[str, bytes], gone: Iterable[str] = ()) -> None:
        """Changes records in one transaction, and repeats this while the store is unavailable."""
        names = tuple(gone)
        if not put and not names:
            return
        has_waited = False
        while True:
            try:
                await self._write(kind, put, names)
            except StoreUnavailable as error:
                level = logging.DEBUG if has_waited else logging.WARNING
                logger.log(level, "the registry waits for the store: %s", error)
                has_waited = True
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _write(self, kind: str, put: Mapping[str, bytes], gone: tuple[str, ...]) -> None:
        work = self._broker.change(lambda transaction: transaction.set_overlay_records(kind, put, gone))
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._hub_loop))


class Ledger:
    """The persistent state in the records of the store."""

    def __init__(self, records: Records) -> None:
        self._records = records
        state = records.load(_STATE)
        reported = orjson.loads(state.get("vote", b"[0, null]"))
        kept = records.load(_LOG)
        base, base_term, *snapshot = orjson.loads(kept.pop(_SNAPSHOT, b'[0, 0, 0, 0, ""]'))
        log = [LogEntry(*orjson.loads(text)) for text in kept.values()]
        self.durable = PersistentState(reported[0], reported[1], log, base, base_term, LogSnapshot(*snapshot))
        #: By name of another holder, the number of its broker.
        self.members: dict[str, Address] = orjson.loads(state.get("members", b"{}"))
        self._kept_vote = (self.durable.term, self.durable.voted_for)
        self._kept_members = dict(self.members)
        self._kept_snapshot = self.durable.snapshot
        self._kept_log = self._entries()

    async def keep(self) -> None:
        """Writes what has changed, and repeats this while the store is unavailable."""
        await self._records.save(_STATE, self._state())
        durable, kept = self.durable, self._kept_log
        last = durable.log[-1] if durable.log else None
        # If the last entries are equal, so are all before: entries inside the log never change.
        if (durable.snapshot, len(kept), kept.get(durable.last)) == (self._kept_snapshot, len(durable.log), last):
            return
        now = self._entries()
        put = {_name(index): orjson.dumps(tuple(entry)) for index, entry in now.items() if kept.get(index) is not entry}
        if durable.snapshot is not self._kept_snapshot:
            put[_SNAPSHOT] = orjson.dumps((durable.base, durable.base_term, *durable.snapshot))
        await self._records.save(_LOG, put, [_name(index) for index in kept if index not in now])
        self._kept_log, self._kept_snapshot = now, durable.snapshot

    def _entries(self) -> dict[int, LogEntry]:
        """Returns the log by index."""
        return dict(enumerate(self.durable.log, self.durable.base + 1))

    def _state(self) -> dict[str, bytes]:
        put = {}
        vote = (self.durable.term, self.durable.voted_for)
        if vote != self._kept_vote:
            put["vote"], self._kept_vote = orjson.dumps(vote), vote
        if self.members != self._kept_members:
            put["members"], self._kept_members = orjson.dumps(self.members), dict(self.members)
        return put


def _name(index: int) -> str:
    # The first entry has index 1 and the name 0.
    return f"{index - 1:012d}"


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
    """A holder of the registry, which is in its first state; lives in the overlay's thread."""

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


class Registrar:
    """The client and, with a ledger, the replica of one broker. Its settings may name (configure) the holders."""

    def __init__(
        self, here: LocalBroker, configured: tuple[str, ...], ledger: Ledger | None, placement: Placement
    ) -> None:
        self._here = here
        self._configured = configured
        self._client = RegistryClient(here, self.holders)
        self._last_holders: tuple[str, ...] = ()
        self._differing: set[tuple[str, ...]] = set()
        self._replica = None if ledger is None else RegistryReplica(here, configured, ledger, Registry(placement))

    async def run(self) -> None:
        """Runs the registrar until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._maintain())
            if self._replica is not None:
                group.create_task(self._replica.run())

    async def ask(self, command: Command, *, is_question: bool = False) -> Any:
        """Sends a command to the holders, and returns the reply; raises NoRegistry."""
        return await self._client.ask(command, is_question=is_question)

    def on_message(self, origin: Address, content: bytes) -> None:
        """Takes a message of the service of a broker."""
        try:
            message = read(content)
        except TextError as error:
            logger.warning("a message of broker %d on the registry is ignored: %s", origin, error)
            return
        if isinstance(message, RegistryReply | LeaderHint):
            self._client.on_answer(message)
        elif self._replica is not None:
            if isinstance(message, RegistryRequest):
                self._replica.on_request(origin, message)
            else:
                self._replica.on_message(origin, message)

    def holders(self) -> tuple[str, ...]:
        """Returns the names of the holders of the registry, as far as they are known."""
        if self._configured:
            return self._configured
        # While no holder can be reached, the names of before are kept.
        self._last_holders = min(self._named(), default=self._last_holders)
        return self._last_holders

    def report(self) -> RegistryReport:
        """Returns the state of the registry, as seen by this broker."""
        replica = self._replica
        if replica is None:
            return RegistryReport(self.holders(), None, None, 0)
        return RegistryReport(self.holders(), replica.role, replica.leader, replica.entries)

    def _named(self) -> set[tuple[str, ...]]:
        """Returns the sets of holders that brokers name which count themselves among them."""
        return {one.holders for one in self._here.brokers().values() if one.name in one.holders}

    async def _maintain(self) -> None:
        """Registers brokers, and reports if they do not name the same holders."""
        while True:
            if self._replica is not None:
                self._replica.offer_brokers()
            named = self._named() | ({self._configured} if self._configured else set())
            for names in named - self._differing if len(named) > 1 else ():
                self._differing.add(names)
                self._here.report_fault(
                    "registry",
                    self._here.name,
                    f"brokers do not agree on who holds the registry: {', '.join(names)} are named by some, others by "
                    "others; give 'overlay_registry' the same value on all of them",
                )
            await asyncio.sleep(_UPKEEP_SECONDS)
