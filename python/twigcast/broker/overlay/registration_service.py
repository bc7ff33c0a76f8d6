"""The registration service: connects the registry with the broker's store, node and clients."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

from twigcast.broker.broker import Broker
from twigcast.broker.errors import Conflict, Forbidden, Invalid, UnknownObject
from twigcast.broker.overlay.broker_node import BrokerNode
from twigcast.broker.overlay.registry.catalogue import Catalogue, new_key, owner_of, source_name
from twigcast.broker.overlay.registry.codec import ChangedReply, Command, read, write
from twigcast.broker.overlay.registry.registrar import (
    Ledger,
    LocalBroker,
    NoAnswer,
    NoRegistry,
    Records,
    Registrar,
    RegistryReport,
)
from twigcast.broker.overlay.settings import OverlaySettings
from twigcast.broker.overlay.thread import LoopThread
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import RoutingQuery, SourceEntry
from twigcast.overlay.onyx.network.driver import Driver
from twigcast.overlay.onyx.registry.catalogue import (
    Assigned,
    Location,
    NameTaken,
    Reassigned,
    RegisterProfile,
    RegisterSource,
    RemoveBroker,
    RemoveProfile,
    RemoveSource,
)
from twigcast.overlay.onyx.registry.description import Description, read_description
from twigcast.schema.dtd import SchemaError, read_dtd

SCHEMA_BYTES_MAX: Final = 512 << 10
"""Greatest schema of a registered source. Every broker of the overlay stores it."""

_SOURCES: Final = "source"


@dataclass(frozen=True, slots=True)
class BrokerChoice:
    """The brokers that serve a source or a subscriber."""

    broker: Description
    backup: Description | None
    """The broker that takes over if the first is removed; ``None``: there is no other."""


class RegistrationService:
    """The registration service of a broker. It is called in the main event loop, and works in the overlay's thread."""

    def __init__(
        self, broker: Broker, thread: LoopThread, settings: OverlaySettings, name: str, identity: Address
    ) -> None:
        self._records = Records(broker)
        self._thread = thread
        self._settings = settings
        self._name = name
        self._identity = identity
        self._ledger: Ledger | None = None
        self._stored: list[SourceEntry] = []
        self._fresh: dict[str, SourceEntry] = {}
        self._labels: dict[Address, str] = {}
        self._descriptions: dict[Address, Description] = {}
        self._has_work = asyncio.Event()
        self._node: BrokerNode
        self._driver: Driver
        self._registrar: Registrar
        self.catalogue = Catalogue(identity, self._name_of, self._report_fault)

    def load(self) -> None:
        """Reads the stored catalogue. Blocks."""
        self._stored = [read(text) for text in self._records.load(_SOURCES).values()]
        for source in self._stored:
            self.catalogue.learn(source)
        if self._name in self._settings.holders:
            self._ledger = Ledger(self._records)

    def join(self, node: BrokerNode, driver: Driver) -> None:
        """Connects with the node before its first link. Called in the overlay's thread."""
        self._node, self._driver = node, driver
        here = LocalBroker(self._name, self._identity, self.brokers, self._send, self._describe, self._report_fault)
        self._registrar = Registrar(here, self._settings.holders, self._ledger, self._settings.placement)
        for source in self._stored:
            self._describe(source)

    async def run(self) -> None:
        """Runs the registry and stores the catalogue, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registrar.run())
            group.create_task(self._keep())

    # From the node, in the overlay's thread --------------------------------------------------------------------------

    def on_source(self, source: SourceEntry) -> None:
        """Takes a new or changed entry of the catalogue."""
        self.catalogue.learn(source)
        self._fresh[source.name] = source
        self._has_work.set()

    def on_message(self, origin: Address, content: bytes) -> None:
        """Takes a message of the service of another broker."""
        self._registrar.on_message(origin, content)

    def brokers(self) -> dict[Address, Description]:
        """Returns the brokers that can be reached, with this one."""
        existing = self._read_descriptions()
        reached = self._node.reached()
        return {
            identity: one for identity, one in existing.items() if identity == self._identity or identity in reached
        }

    def report(self) -> RegistryReport:
        """Returns the state of the registry, as seen by this broker."""
        return self._registrar.report()

    async def _keep(self) -> None:
        """Stores the catalogue, so that it is known after a restart without links."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            await self.finish()

    async def finish(self) -> None:
        """Stores the entries that are not stored yet."""
        fresh = dict(self._fresh)
        # Names are hashed: they may be longer than a key of the store, and hold any character.
        put = {owner_of(name): write(source) for name, source in fresh.items()}
        await self._records.save(_SOURCES, put)
        for name, source in fresh.items():
            if self._fresh.get(name) is source:
                del self._fresh[name]

    def _send(self, target: Address, content: bytes) -> None:
        self._driver.act(self._node.relay(target, content, time.monotonic()))

    def _describe(self, source: SourceEntry) -> None:
        self._driver.act(self._node.describe(source, time.monotonic()))

    def _report_fault(self, kind: str, peer: str, reason: str) -> None:
        """Reports a fault. Called in any thread."""
        self._thread.call(self._driver.report_fault, kind, peer, reason)

    def broker(self, identity: Address) -> Description | None:
        """Returns what a broker says of itself, or ``None`` if it is unknown. Called in any thread."""
        return self._descriptions.get(identity)

    def _name_of(self, identity: Address) -> str:
        """Returns the name of a broker and the URL for its clients. Called in any thread."""
        description = self.broker(identity)
        if description is None:
            return str(identity)
        return f"{description.name} ({description.url})" if description.url else description.name

    def _read_descriptions(self) -> dict[Address, Description]:
        """Returns the descriptions of all brokers. Called in the overlay's thread."""
        labels = self._node.labels()
        if labels != self._labels:
            self._labels = labels
            self._descriptions = {identity: read_description(label) for identity, label in labels.items()}
        return self._descriptions

    # From clients, in the main event loop ----------------------------------------------------------------------------

    async def register_source(
        self, scope: str, name: str, key: str | None, *, location: Location, schema: str, rate: float, size: int
    ) -> tuple[str, BrokerChoice]:
        """Registers a source, or changes its registration; returns its key, and the broker at which it has to publish.

        Raises Forbidden if it has another key, Invalid for an unusable schema, and NoRegistry.
        """
        await asyncio.to_thread(_check_schema, schema)
        shown, key = key, key or new_key()
        full = source_name(scope, name)
        try:
            reply = await self._ask(RegisterSource(full, location, schema, rate, size, owner_of(key)))
        except NoAnswer as error:
            if shown is not None:
                raise
            # The request may still be carried out, and nobody else knows the key.
            raise NoAnswer(f"{error}; ask again with the key {key}") from None
        if isinstance(reply, NameTaken):
            raise Forbidden(f"the source {name!r} is registered, and this is not its key")
        return key, await self._choice(reply)

    async def remove_source(self, scope: str, name: str, key: str | None) -> None:
        """Removes a source, and frees its name; raises Forbidden (another key), UnknownObject or NoRegistry."""
        reply = await self._ask(RemoveSource(source_name(scope, name), owner_of(key)))
        if isinstance(reply, NameTaken):
            raise Forbidden(f"this is not the key of the source {name!r}")
        if not _has_changed(reply):
            raise UnknownObject(f"there is no registered source {name!r}")

    async def choose(self, location: Location, query: RoutingQuery) -> BrokerChoice:
        """Returns the broker that would serve a subscriber; raises NoRegistry."""
        return await self._choice(await self._ask(RegisterProfile("", location, query), is_question=True))

    async def register_profile(self, scope: str, name: str, location: Location, query: RoutingQuery) -> BrokerChoice:
        """Registers a subscriber, and returns the broker that serves it; raises NoRegistry."""
        return await self._choice(await self._ask(RegisterProfile(source_name(scope, name), location, query)))

    async def remove_profile(self, scope: str, name: str) -> None:
        """Removes the registration of a subscriber; raises UnknownObject or NoRegistry."""
        if not _has_changed(await self._ask(RemoveProfile(source_name(scope, name)))):
            raise UnknownObject(f"there is no registered profile {name!r}")

    async def remove_broker(self, name: str) -> Reassigned:
        """Gives the sources and profiles of a broker that is gone to others; raises Conflict if it can be reached."""
        existing, reached = await self._thread.ask(lambda: (self._read_descriptions(), self.brokers()))
        results = [identity for identity, one in existing.items() if one.name == name]
        if not results:
            raise UnknownObject(f"there is no broker {name!r} in the overlay")
        # One name may stand for several brokers, since one with another store has another identity.
        gone = [identity for identity in results if identity not in reached]
        if not gone:
            raise Conflict(f"the broker {name!r} can be reached: stop it first")
        sources: list[SourceEntry] = []
        profiles: list[tuple[str, Address]] = []
        for identity in gone:
            moved = await self._ask(RemoveBroker(identity))
            assert isinstance(moved, Reassigned)
            sources += moved.sources
            profiles += moved.profiles
        return Reassigned(tuple(sources), tuple(profiles))

    async def _ask(self, command: Command, *, is_question: bool = False) -> Any:
        return await self._thread.run(self._registrar.ask(command, is_question=is_question))

    async def _choice(self, assigned: Assigned) -> BrokerChoice:
        if assigned.broker is None:
            raise NoRegistry("no broker has offered its services to the registry yet: try again in a moment")
        existing = await self._thread.ask(self._read_descriptions)
        broker = existing.get(assigned.broker, Description(str(assigned.broker)))
        backup = None if assigned.backup is None else existing.get(assigned.backup, Description(str(assigned.backup)))
        return BrokerChoice(broker, backup)


def _has_changed(reply: object) -> bool:
    return isinstance(reply, ChangedReply) and reply.value


def _check_schema(schema: str) -> None:
    """Raises Invalid if a schema is unusable. Blocks."""
    data = schema.encode()
    if len(data) > SCHEMA_BYTES_MAX:
        raise Invalid(f"schema: it has {len(data):,} bytes; at most {SCHEMA_BYTES_MAX:,} are allowed")
    if not schema:
        return
    try:
        read_dtd(data)
    except SchemaError as error:
        raise Invalid(f"schema: {error}") from None
