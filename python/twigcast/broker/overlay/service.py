"""The overlay side of a broker, put together: the hub on one side, a node and its network on the other.

Four threads meet here. The hub's writing thread says what was published; the main event loop says which subscriptions
changed, and asks for reports; threads of the pool read the store; the overlay's own thread runs node and network. Each
hands over by putting a call into the other's event loop, and none waits for another while messages are passed on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from itertools import islice
from typing import Any, Final

from twigcast.broker.broker import Broker
from twigcast.broker.errors import BrokerError, StoreUnavailable
from twigcast.broker.model import QueuedDelivery, StoredMessage, StoredSubscription, SubscriptionState
from twigcast.broker.overlay.interests import LocalInterest, LocalInterests
from twigcast.broker.overlay.node import (
    Break,
    Keep,
    Learned,
    MakeNode,
    NodeInterface,
    NodeSettings,
    ReadAgain,
    Said,
    Warn,
)
from twigcast.broker.overlay.receiving import MessageReceiver
from twigcast.broker.overlay.recovery import PORTION_BYTES, as_message, read_again
from twigcast.broker.overlay.registration_service import RegistrationService
from twigcast.broker.overlay.reports import MessageRoute, OverlayReport, TrafficTotals
from twigcast.broker.overlay.settings import OverlaySettings, host_name
from twigcast.broker.overlay.thread import LoopThread
from twigcast.broker.store.records import Origin, OverlayIdentity
from twigcast.overlay.onyx.content.projection import Projection
from twigcast.overlay.onyx.messages import OverlayMessage, Recovered, RoutingQuery, Span
from twigcast.overlay.onyx.network.driver import Driver
from twigcast.overlay.onyx.network.greeting import identity_of
from twigcast.overlay.onyx.registry.description import Description, read_description
from twigcast.overlay.onyx.wire.bodies import Bodies

logger = logging.getLogger(__name__)

LOADED_AT_ONCE: Final = 5_000
"""Subscriptions that are read from the store at a time."""

CATCHING_UP_SECONDS: Final = 5.0
"""How long after the start what was missed comes before the routing queries of the subscriptions."""

_ROOM_SECONDS: Final = 0.02
_REPORT_SECONDS: Final = 5.0
_UPKEEP_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Inside:
    """What lives in the overlay's thread."""

    node: NodeInterface
    driver: Driver
    receiver: MessageReceiver
    interests: LocalInterests
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    recoveries: set[asyncio.Task[None]] = field(default_factory=set)


class Overlay:
    """The overlay side of a broker.

    Args:
        broker: Started, and nothing published yet.
        settings: How it is set up.
        make_node: Makes the node.
    """

    def __init__(self, broker: Broker, settings: OverlaySettings, make_node: MakeNode) -> None:
        self._broker = broker
        self._settings = settings
        self._make_node = make_node
        self._thread = LoopThread("twigcast-overlay")
        self._inside: _Inside
        self._bodies: Bodies
        self._tallies = TrafficTotals()
        self._names: dict[int, str] = {}
        self._tenants: tuple[object, Mapping[int, str]] = (None, {})
        self._loading: asyncio.Task[None] | None = None
        self._kept_above: int | None = None
        self._began = 0.0
        self.identity: OverlayIdentity
        self.registering: RegistrationService

    # Start and stop ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take part, from now on.

        Raises:
            BrokerError: The store is that of another broker of the overlay, or does not answer.
            NetworkError: The address is taken; a certificate cannot be used.
        """
        broker = self._broker
        store = broker.store
        existing = await asyncio.to_thread(store.overlay_identity)
        name = self._settings.name or (existing.name if existing is not None else host_name())
        started = int(time.time())
        self.identity = await broker.change(lambda transaction: transaction.start_overlay(name, started))
        roots = await asyncio.to_thread(store.overlay_roots)
        last = await asyncio.to_thread(store.last_seq)
        number = identity_of(name, self.identity.instance)
        self._names = {identity: root.name for identity, root in roots.items() if root.name} | {number: name}
        horizons = {identity: root.horizon for identity, root in roots.items() if root.horizon is not None}
        scopes = await asyncio.to_thread(self._scopes_in_use)
        self.registering = RegistrationService(broker, self._thread, self._settings, name, number)
        await asyncio.to_thread(self.registering.load)
        self._thread.start()
        try:
            self._inside = await self._thread.run(self._build(asyncio.get_running_loop(), last, horizons, scopes))
        except BaseException:
            await asyncio.to_thread(self._thread.stop)
            raise
        broker.pass_on(self._accepted, lambda: self.retained_above, self._settings.retention_factor)
        broker.add_listener(self)
        self._loading = asyncio.create_task(self._load())
        self._loading.add_done_callback(_see)

    async def _build(
        self, hub_loop: asyncio.AbstractEventLoop, last: int, horizons: dict[int, int], scopes: list[str]
    ) -> _Inside:
        """Begin to work, in the overlay's thread."""
        settings, identity = self._settings, self.identity
        number = identity_of(identity.name, identity.instance)
        bodies = self._bodies = Bodies(self._broker.options.limits)
        label, reduces = self._label(), settings.reduces
        node = self._make_node(NodeSettings(number, identity.incarnation, label, last, horizons, bodies, reduces))
        driver = Driver(
            node,
            name=identity.name,
            instance=identity.instance,
            incarnation=identity.incarnation,
            software=f"twigcast {metadata.version('twigcast')}",
            deliver=self._deliver,
            settings=settings.network,
            certificates=settings.certificates,
            listen=settings.listen,
            where=settings.where,
            join=settings.join,
            bodies=bodies,
            forms=settings.forms,
        )
        receiver = MessageReceiver(self._broker.submit, hub_loop, self._stored, driver.read, time.time, bodies)
        inside = self._inside = _Inside(
            node,
            driver,
            receiver,
            LocalInterests(self._subscribe, self._unwant, reduces=settings.reduces, may_begin=self._has_caught_up),
        )
        self._began = time.monotonic()
        self.registering.join(node, driver)
        # Before there is any link: a broker that wants nothing is asked about nothing, and misses nothing.
        inside.interests.begin(scopes)
        await driver.start()
        works = (receiver.run(), inside.interests.run(), self.registering.run(), self._supervise())
        inside.tasks = [asyncio.create_task(work) for work in works]
        for task in inside.tasks:
            task.add_done_callback(_see)
        return inside

    def _scopes_in_use(self) -> list[str]:
        """Names of tenants that have subscriptions. Blocks."""
        store = self._broker.store
        return [name for number, name in self._scopes().items() if store.subscription_count(number)]

    def _label(self) -> str:
        settings = self._settings
        listen = "" if settings.listen is None else "{}:{}".format(*settings.listen)
        described = Description(
            self.identity.name,
            settings.where or listen,
            settings.url,
            settings.location,
            settings.capacity,
            settings.holders if self.identity.name in settings.holders else (),
        )
        return str(described)

    async def stop(self) -> None:
        """Take part no more; what has arrived is stored. The hub runs still."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        await self._thread.run(self._end())
        await asyncio.to_thread(self._thread.stop)

    async def _end(self) -> None:
        inside = self._inside
        await inside.driver.stop()
        for task in (*inside.tasks, *inside.recoveries):
            task.cancel()
        await asyncio.gather(*inside.tasks, *inside.recoveries, return_exceptions=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(inside.receiver.finish(), 5.0)
            await asyncio.wait_for(self.registering.finish(), 5.0)

    @property
    def port(self) -> int | None:
        """The port on which other brokers are listened for; ``None``: they are not."""
        return self._inside.driver.port

    @property
    def retained_above(self) -> int | None:
        """The sequence number above which some broker may still ask for messages."""
        return self._kept_above

    # From the hub -----------------------------------------------------------------------------------------------------

    def _accepted(self, messages: list[StoredMessage]) -> None:
        """Messages are durable; called in the writing thread."""
        self._thread.call(self._publish, messages)

    def _publish(self, stored: Sequence[StoredMessage]) -> None:
        driver, names = self._inside.driver, self._scopes()
        messages = [message for one in stored if (message := as_message(driver.identity, one, names)) is not None]
        self._tallies.published += len(messages)
        driver.act(self._inside.node.published(messages, stored[-1].seq, time.monotonic()))

    def _scopes(self) -> Mapping[int, str]:
        """Names of the tenants by number."""
        tenants = self._broker.tenants
        if self._tenants[0] is not tenants:
            self._tenants = tenants, {number: tenant.name for number, tenant in tenants.items()}
        return self._tenants[1]

    def on_deliveries(self, queue_ids: Collection[int]) -> None:
        """Nothing: what is delivered here is of no concern elsewhere."""

    def on_redriven(self, deliveries: Sequence[QueuedDelivery]) -> None:
        """Nothing, likewise."""

    def on_subscriptions(self, changed: Sequence[StoredSubscription], removed: Sequence[StoredSubscription]) -> None:
        """Subscriptions changed: others are told what is wanted now. In the main event loop."""
        scopes = self._scopes()
        active = [_local_interest(one, scopes) for one in changed if _takes_part(one, scopes)]
        gone = [one.id for one in (*removed, *(one for one in changed if not _takes_part(one, scopes)))]
        self._thread.call(self._inside.interests.change, active, gone)

    async def _load(self) -> None:
        """Tell of the subscriptions that there are."""
        subscriptions = iter(self._broker.store.all_subscriptions())
        scopes = self._scopes()
        interests = self._inside.interests
        while some := await asyncio.to_thread(lambda: list(islice(subscriptions, LOADED_AT_ONCE))):
            self._thread.call(
                interests.start_with, [_local_interest(one, scopes) for one in some if _takes_part(one, scopes)]
            )
        self._thread.call(interests.started)

    # To and from the node; in the overlay's thread --------------------------------------------------------------------

    def _subscribe(self, interests: Mapping[Hashable, RoutingQuery], parts: Mapping[Hashable, Projection]) -> None:
        inside = self._inside
        inside.driver.act(inside.node.subscribe(interests, time.monotonic(), parts))

    def _has_caught_up(self) -> bool:
        """Whether all that was missed while the broker was down is stored; after a while, whatever is missing."""
        inside = self._inside
        if time.monotonic() - self._began > CATCHING_UP_SECONDS:
            return True
        return not inside.node.is_catching_up() and not inside.receiver.waiting[0]

    def _unwant(self, keys: list[Hashable]) -> None:
        inside = self._inside
        inside.driver.act(inside.node.unsubscribe(keys, time.monotonic()))

    def _stored(self, horizons: dict[int, int]) -> None:
        inside = self._inside
        inside.driver.act(inside.node.stored(horizons, time.monotonic()))

    def _deliver(self, items: Sequence[Any]) -> None:
        """What the node hands on."""
        for item in items:
            if isinstance(item, Keep):
                self._inside.receiver.add(item.message, dict(item.horizons))
            elif isinstance(item, ReadAgain):
                task = asyncio.create_task(self._read_again(item))
                self._inside.recoveries.add(task)
                task.add_done_callback(self._inside.recoveries.discard)
                task.add_done_callback(_see)
            elif isinstance(item, Learned):
                self.registering.learned(item.source)
            elif isinstance(item, Said):
                self.registering.on_message(item.origin, item.content)
            elif isinstance(item, Break):
                self._inside.driver.links.break_off(item.neighbour, item.kind, item.reason)
            elif isinstance(item, Warn):
                self._inside.driver.tell(item.kind, self.identity.name, item.reason)

    async def _read_again(self, asked: ReadAgain) -> None:
        """Answer what another broker asks for again, no faster than the next broker on the way takes it."""
        inside, store = self._inside, self._broker.store
        root, position = inside.driver.identity, asked.after
        self._tallies.recoveries += 1
        try:
            forgotten = min(await asyncio.to_thread(store.forgotten), asked.upto)
            if forgotten > position:
                self._lose(asked, forgotten)
                position = forgotten
            make_matcher = partial(inside.node.matcher, asked.query)
            pieces = read_again(store, root, position, asked.upto, self._scopes, make_matcher)
            sent = 0
            async for upto, messages in pieces:
                await self._answer(asked, position, upto, messages)
                position = upto
                sent += sum(len(message.body) for message in messages)
                if sent >= PORTION_BYTES and position < asked.upto:
                    self._recover(Recovered(Span(root, position, position, None), asked.route, pauses=True))
                    break
        except StoreUnavailable as error:
            # It will be asked for again.
            logger.warning("what broker %s asks for cannot be read: %s", self._named(asked.route[-1:]), error)

    def _lose(self, asked: ReadAgain, forgotten: int) -> None:
        self._tallies.lost += 1
        logger.error(
            "broker %s asks for messages %d to %d of this one, which retention has removed",
            self._named(asked.route[-1:]),
            asked.after + 1,
            forgotten,
        )
        span = Span(self._inside.driver.identity, asked.after, forgotten, None)
        self._recover(Recovered(span, asked.route, lost=True))

    async def _answer(self, asked: ReadAgain, after: int, upto: int, messages: Sequence[OverlayMessage]) -> None:
        driver = self._inside.driver
        root = driver.identity
        for message in messages:
            # More than a part of what may wait there would break the link off, again and again.
            while asked.route and not driver.has_capacity_for(asked.route[0]):
                await asyncio.sleep(_ROOM_SECONDS)
            self._tallies.recovered += 1
            self._recover(Recovered(Span(root, after, message.number, message), asked.route))
            after = message.number
        if after < upto:
            self._recover(Recovered(Span(root, after, upto, None), asked.route))

    def _recover(self, answer: Recovered) -> None:
        inside = self._inside
        inside.driver.act(inside.node.recovered(answer, time.monotonic()))

    def _named(self, numbers: Iterable[int]) -> str:
        return ", ".join(map(self._name, numbers)) or "?"

    def _name(self, number: int) -> str:
        link = self._inside.driver.links.of(number)
        return self._names.get(number, str(number)) if link is None else link.peer.name

    # Upkeep -----------------------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        """Learn the names of brokers, and from where on messages are to be kept for them."""
        while True:
            self._kept_above = self._inside.node.retained_above()
            names = {peer.identity: read_description(peer.label).name for peer in self._inside.node.status().peers}
            names |= {link.identity: link.peer.name for link in self._inside.driver.links.all()}
            new = {identity: name for identity, name in names.items() if name and self._names.get(identity) != name}
            if new:
                self._names |= new
                self._write_names(new)
            await asyncio.sleep(_UPKEEP_SECONDS)

    def _write_names(self, names: Mapping[int, str]) -> None:
        """Remember names, for messages of brokers that are gone by then."""

        async def write() -> None:
            try:
                await self._broker.change(lambda transaction: transaction.name_roots(names))
            except BrokerError as error:
                logger.warning("names of brokers are not stored: %s", error)

        hub_loop = self._inside.receiver.hub_loop
        hub_loop.call_soon_threadsafe(lambda: asyncio.ensure_future(write()))

    # Reports, from the main event loop --------------------------------------------------------------------------------

    async def report(self) -> OverlayReport:
        """How the overlay looks from here."""
        return await self._thread.ask(self._report)

    def report_now(self) -> OverlayReport:
        """The same, for threads that may wait."""
        return asyncio.run_coroutine_threadsafe(self.report(), self._thread.loop).result(_REPORT_SECONDS)

    async def route_of(self, stored: StoredMessage) -> MessageRoute:
        """How a message came here, and what becomes of it on each link, as the tables are now."""
        origin = await asyncio.to_thread(self._broker.store.overlay_origin, stored.seq)
        return await self._thread.ask(lambda: self._route_of(stored, origin))

    def _route_of(self, stored: StoredMessage, origin: Origin | None) -> MessageRoute:
        inside = self._inside
        mine = inside.driver.identity
        root, number = (mine, stored.seq) if origin is None else (origin.root, origin.number)
        message = as_message(root, stored, self._scopes())
        branches = [] if message is None else inside.node.branches(message._replace(number=number))
        passed = (mine,) if origin is None else (*origin.route, *(() if mine in origin.route else (mine,)))
        return MessageRoute(
            self._name(root),
            number,
            [self._name(one) for one in passed],
            [(self._name(one.neighbour), one) for one in branches],
        )

    def _report(self) -> OverlayReport:
        inside = self._inside
        messages, size = inside.receiver.waiting
        return OverlayReport(
            name=self.identity.name,
            identity=inside.driver.identity,
            incarnation=self.identity.incarnation,
            where=inside.driver.where,
            links=inside.driver.reports(),
            dials=inside.driver.dials(),
            troubles=list(inside.driver.troubles.latest),
            trouble_counts=dict(inside.driver.troubles.counts),
            status=inside.node.status(),
            names=self._names | {link.identity: link.peer.name for link in inside.driver.links.all()},
            received=inside.receiver.counts,
            tallies=self._tallies,
            transcoded=self._bodies.counts["transcoded"],
            damaged=self._bodies.counts["damaged"],
            left_as_text=self._bodies.counts["left_as_text"],
            waiting_messages=messages,
            waiting_bytes=size,
            interests_waiting=inside.interests.waiting,
            interests_generalised=inside.interests.generalised,
            wide_scopes=inside.interests.wide_scopes,
            registry=self.registering.report(),
            sources=self.registering.catalogue.count,
            sources_refused=dict(self.registering.catalogue.refused),
        )


def _takes_part(subscription: StoredSubscription, scopes: Mapping[int, str]) -> bool:
    return subscription.state is SubscriptionState.ACTIVE and subscription.tenant_id in scopes


def _local_interest(subscription: StoredSubscription, scopes: Mapping[int, str]) -> LocalInterest:
    s = subscription
    return LocalInterest(s.id, scopes[s.tenant_id], s.query, s.namespaces, s.dialect)


def _see(task: asyncio.Task[Any]) -> None:
    """What goes on in the background is not to end by a fault that nobody sees."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a part of the overlay has ended", exc_info=error)
