"""The registration service, joined to the broker: its store, its node, its clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twigcast.broker.broker import Broker
from twigcast.broker.errors import Conflict, Forbidden, Invalid, NotFound
from twigcast.broker.overlay.node import NodeInterface
from twigcast.broker.overlay.registry.catalogue import Catalogue, new_key, owner_of, source_name
from twigcast.broker.overlay.registry.client import NoAnswer, NoRegistry
from twigcast.broker.overlay.registry.codec import ChangedReply, Command, read, write
from twigcast.broker.overlay.registry.ledger import Ledger, keep
from twigcast.broker.overlay.registry.registrar import LocalBroker, Registrar, RegistryReport
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
"""Bytes of the schema of a registered source: every broker of the overlay keeps it."""

_SOURCES: Final = "source"


@dataclass(frozen=True, slots=True)
class BrokerChoice:
    """Which broker serves somebody."""

    broker: Description
    backup: Description | None
    """Which one would, if that one were gone; ``None``: there is no other."""


class _Records:
    """Where the registry keeps things: the broker's store."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._hub_loop = asyncio.get_running_loop()

    def load(self, kind: str) -> dict[str, bytes]:
        return self._broker.store.overlay_records(kind)

    async def save(self, kind: str, put: Mapping[str, bytes], gone: Iterable[str]) -> None:
        names = tuple(gone)
        work = self._broker.change(lambda transaction: transaction.set_overlay_records(kind, put, names))
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._hub_loop))


class RegistrationService:
    """Made in the main event loop, where it is asked; works in the overlay's thread.

    Args:
        broker: The hub.
        thread: The overlay's.
        settings: Of the overlay.
        name: Of this broker.
        identity: Its number.
    """

    def __init__(
        self, broker: Broker, thread: LoopThread, settings: OverlaySettings, name: str, identity: Address
    ) -> None:
        self._records = _Records(broker)
        self._thread = thread
        self._settings = settings
        self._name = name
        self._identity = identity
        self._ledger: Ledger | None = None
        self._stored: list[SourceEntry] = []
        self._fresh: dict[str, SourceEntry] = {}
        self._labels: dict[Address, str] = {}
        self._descriptions: dict[Address, Description] = {}
        self._news = asyncio.Event()
        self._node: NodeInterface
        self._driver: Driver
        self._registrar: Registrar
        self.catalogue = Catalogue(identity, self._name_of, self._trouble)

    def load(self) -> None:
        """Read what is kept. Blocks."""
        self._stored = [read(text) for text in self._records.load(_SOURCES).values()]
        for source in self._stored:
            self.catalogue.learn(source)
        if self._name in self._settings.holders:
            self._ledger = Ledger(self._records)

    def join(self, node: NodeInterface, driver: Driver) -> None:
        """Begin, before there is any link; in the overlay's thread."""
        self._node, self._driver = node, driver
        here = LocalBroker(self._name, self._identity, self.brokers, self._say, self._describe, self._trouble)
        self._registrar = Registrar(here, self._settings.holders, self._ledger, self._settings.placement)
        for source in self._stored:
            self._describe(source)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registrar.run())
            group.create_task(self._keep())

    # From the node, in the overlay's thread --------------------------------------------------------------------------

    def learned(self, source: SourceEntry) -> None:
        """A source is new, or something about it is."""
        self.catalogue.learn(source)
        self._fresh[source.name] = source
        self._news.set()

    def on_message(self, origin: Address, content: bytes) -> None:
        """The service of another broker says something."""
        self._registrar.on_message(origin, content)

    def brokers(self) -> dict[Address, Description]:
        """The brokers that can be reached now, this one among them."""
        existing = self._read_descriptions()
        reached = self._node.reached()
        return {
            identity: one for identity, one in existing.items() if identity == self._identity or identity in reached
        }

    def report(self) -> RegistryReport:
        """How the registry looks from here."""
        return self._registrar.report()

    async def _keep(self) -> None:
        """Write the catalogue down, so that it is known after a restart without any link."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.finish()

    async def finish(self) -> None:
        """Write down what is not yet."""
        fresh = dict(self._fresh)
        # A source's name may be longer than a key of the store, and hold anything.
        put = {owner_of(name): write(source) for name, source in fresh.items()}
        await keep(self._records.save, _SOURCES, put, ())
        for name, source in fresh.items():
            if self._fresh.get(name) is source:
                del self._fresh[name]

    def _say(self, target: Address, content: bytes) -> None:
        self._driver.act(self._node.relay(target, content, time.monotonic()))

    def _describe(self, source: SourceEntry) -> None:
        self._driver.act(self._node.describe(source, time.monotonic()))

    def _trouble(self, kind: str, peer: str, reason: str) -> None:
        """From any thread."""
        self._thread.call(self._driver.tell, kind, peer, reason)

    def broker(self, identity: Address) -> Description | None:
        """What a broker says of itself; ``None``: it is not known. From any thread."""
        return self._descriptions.get(identity)

    def _name_of(self, identity: Address) -> str:
        """A broker for people, with where its clients reach it. From any thread."""
        description = self.broker(identity)
        if description is None:
            return str(identity)
        return f"{description.name} ({description.url})" if description.url else description.name

    def _read_descriptions(self) -> dict[Address, Description]:
        """All brokers; in the overlay's thread. The labels of most have not changed since they were read last."""
        labels = self._node.labels()
        if labels != self._labels:
            self._labels = labels
            self._descriptions = {identity: read_description(label) for identity, label in labels.items()}
        return self._descriptions

    # From clients, in the main event loop ----------------------------------------------------------------------------

    async def register_source(
        self, scope: str, name: str, key: str | None, *, location: Location, schema: str, rate: float, size: int
    ) -> tuple[str, BrokerChoice]:
        """Register a source, or change what is known of it.

        Returns:
            Its key, and the broker at which it is to publish.

        Raises:
            Forbidden: It is registered, and this is not its key.
            Invalid: The schema cannot be used.
            NoRegistry: Those that hold the registry do not answer.
        """
        await asyncio.to_thread(_check_schema, schema)
        shown, key = key, key or new_key()
        full = source_name(scope, name)
        try:
            reply = await self._ask(RegisterSource(full, location, schema, rate, size, owner_of(key)))
        except NoAnswer as error:
            if shown is not None:
                raise
            # If it is carried out yet, nobody else knows the key.
            raise NoAnswer(f"{error}; ask again with the key {key}") from None
        if isinstance(reply, NameTaken):
            raise Forbidden(f"the source {name!r} is registered, and this is not its key")
        return key, await self._choice(reply)

    async def remove_source(self, scope: str, name: str, key: str | None) -> None:
        """A source publishes no more; its name is free.

        Raises:
            Forbidden: This is not its key.
            NotFound: It is not registered.
            NoRegistry: Those that hold the registry do not answer.
        """
        reply = await self._ask(RemoveSource(source_name(scope, name), owner_of(key)))
        if isinstance(reply, NameTaken):
            raise Forbidden(f"this is not the key of the source {name!r}")
        if not _was_there(reply):
            raise NotFound(f"there is no registered source {name!r}")

    async def choose(self, position: Location, requested: RoutingQuery) -> BrokerChoice:
        """Which broker would serve a subscriber now.

        Raises:
            NoRegistry: Those that hold the registry do not answer.
        """
        return await self._choice(await self._ask(RegisterProfile("", position, requested), is_question=True))

    async def register_profile(
        self, scope: str, name: str, position: Location, requested: RoutingQuery
    ) -> BrokerChoice:
        """Which broker serves a subscriber, who counts there from now on.

        Raises:
            NoRegistry: Those that hold the registry do not answer.
        """
        return await self._choice(await self._ask(RegisterProfile(source_name(scope, name), position, requested)))

    async def remove_profile(self, scope: str, name: str) -> None:
        """A subscriber counts no more.

        Raises:
            NotFound: It is not registered.
            NoRegistry: Those that hold the registry do not answer.
        """
        if not _was_there(await self._ask(RemoveProfile(source_name(scope, name)))):
            raise NotFound(f"there is no registered profile {name!r}")

    async def remove_broker(self, name: str) -> Reassigned:
        """A broker is gone for good: its sources and profiles are given to others.

        Raises:
            NotFound: No broker of that name is known, or more than one is.
            Conflict: It can be reached.
            NoRegistry: Those that hold the registry do not answer.
        """
        existing, reached = await self._thread.ask(lambda: (self._read_descriptions(), self.brokers()))
        results = [identity for identity, one in existing.items() if one.name == name]
        if not results:
            raise NotFound(f"there is no broker {name!r} in the overlay")
        # A broker that came back with another store is another one, under the same name.
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


def _was_there(reply: object) -> bool:
    return isinstance(reply, ChangedReply) and reply.value


def _check_schema(schema: str) -> None:
    """See whether a schema can be used. Blocks.

    Raises:
        Invalid: It cannot.
    """
    data = schema.encode()
    if len(data) > SCHEMA_BYTES_MAX:
        raise Invalid(f"schema: it has {len(data):,} bytes where at most {SCHEMA_BYTES_MAX:,} may be")
    if not schema:
        return
    try:
        read_dtd(data)
    except SchemaError as error:
        raise Invalid(f"schema: {error}") from None
