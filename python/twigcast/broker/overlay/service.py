"""The overlay side of a broker: connects the hub with a node and its network.

Four threads meet here. The hub's writing thread hands over what was published. The main event loop hands over changed
subscriptions and asks for reports. Pool threads read the store. The overlay's own thread runs node and network. Each
passes work on by a call in the event loop of the other, and none waits for another while messages are forwarded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from itertools import islice
from typing import Any, Final

from twigcast.broker.broker import Broker, CommitListener
from twigcast.broker.errors import BrokerError
from twigcast.broker.model import Origin, OverlayIdentity, StoredMessage, StoredSubscription
from twigcast.broker.overlay.broker_node import BrokerNode
from twigcast.broker.overlay.interests import LocalInterest, LocalInterests
from twigcast.broker.overlay.receiving import MessageReceiver
from twigcast.broker.overlay.recovery import Resender, as_message
from twigcast.broker.overlay.registration_service import RegistrationService
from twigcast.broker.overlay.reports import MessageRoute, OverlayReport, TrafficTotals
from twigcast.broker.overlay.settings import OverlaySettings, host_name
from twigcast.broker.overlay.thread import LoopThread
from twigcast.overlay.onyx.content.projection import Projection
from twigcast.overlay.onyx.messages import RoutingQuery
from twigcast.overlay.onyx.network.driver import Driver
from twigcast.overlay.onyx.network.greeting import identity_of
from twigcast.overlay.onyx.protocol.events import (
    NodeWarning,
    ProtocolViolation,
    RangeLost,
    ResendRequested,
    ServiceMessageReceived,
    SourceChanged,
    StoreRequested,
)
from twigcast.overlay.onyx.registry.description import Description, read_description
from twigcast.overlay.onyx.wire.bodies import Bodies

logger = logging.getLogger(__name__)

LOADED_AT_ONCE: Final = 5_000
"""Subscriptions read from the store at a time."""

CATCHING_UP_SECONDS: Final = 5.0
"""How long after the start missed messages have precedence over the routing queries of the subscriptions."""

_REPORT_SECONDS: Final = 5.0
_UPKEEP_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Inside:
    """The parts that live in the overlay's thread."""

    node: BrokerNode
    driver: Driver
    receiver: MessageReceiver
    interests: LocalInterests
    resender: Resender
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    recoveries: set[asyncio.Task[None]] = field(default_factory=set)


class Overlay(CommitListener):
    """The overlay side of a started broker that has published nothing yet."""

    def __init__(self, broker: Broker, settings: OverlaySettings, node_class: type[BrokerNode] = BrokerNode) -> None:
        self._broker = broker
        self._settings = settings
        self._node_class = node_class
        self._thread = LoopThread("twigcast-overlay")
        self._inside: _Inside
        self._bodies: Bodies
        self._totals = TrafficTotals()
        self._names: dict[int, str] = {}
        self._tenants: tuple[object, Mapping[int, str]] = (None, {})
        self._loading: asyncio.Task[None] | None = None
        self.retained_above: int | None = None
        """The sequence number above which some broker may still request messages."""
        self._started_at = 0.0
        self.identity: OverlayIdentity
        self.registering: RegistrationService

    # Start and stop ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Joins the overlay.

        Raises BrokerError if the store belongs to another broker of the overlay or does not answer, and NetworkError if
        the address is in use or a certificate is unusable.
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
        self._loading.add_done_callback(_log_failure)

    async def _build(
        self, hub_loop: asyncio.AbstractEventLoop, last: int, horizons: dict[int, int], scopes: list[str]
    ) -> _Inside:
        """Starts node and network, in the overlay's thread."""
        settings, identity = self._settings, self.identity
        number = identity_of(identity.name, identity.instance)
        bodies = self._bodies = Bodies(self._broker.options.limits)
        node = self._node_class(
            number,
            identity.incarnation,
            bodies,
            self._broker.options.limits,
            where=self._label(),
            last=last,
            horizons=horizons,
            reduces=settings.reduces,
        )
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
        receiver = MessageReceiver(
            self._broker.submit,
            lambda: self._broker.tenants,
            hub_loop,
            self._stored,
            driver.read,
            time.time,
            bodies,
        )
        inside = self._inside = _Inside(
            node,
            driver,
            receiver,
            LocalInterests(self._subscribe, self._unsubscribe, reduces=settings.reduces, can_begin=self._has_caught_up),
            Resender(node, driver, self._broker.store, self._scopes, self._name, self._totals),
        )
        self._started_at = time.monotonic()
        self.registering.join(node, driver)
        # Before the first link, since a broker without interests misses nothing.
        inside.interests.begin(scopes)
        await driver.start()
        works = (
            receiver.run(),
            receiver.pass_overdue(),
            inside.interests.run(),
            self.registering.run(),
            self._supervise(),
        )
        inside.tasks = [asyncio.create_task(work) for work in works]
        for task in inside.tasks:
            task.add_done_callback(_log_failure)
        return inside

    def _scopes_in_use(self) -> list[str]:
        """Returns the names of the tenants that have subscriptions. Blocks."""
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
        """Leaves the overlay, and stores what has arrived. The hub is still running."""
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
        """The port on which the broker listens for others; ``None``: it does not."""
        return self._inside.driver.port

    # From the hub -----------------------------------------------------------------------------------------------------

    def _accepted(self, messages: list[StoredMessage]) -> None:
        """Sends messages, which are durable; called in the writing thread."""
        self._thread.call(self._publish, messages)

    def _publish(self, stored: Sequence[StoredMessage]) -> None:
        driver, names = self._inside.driver, self._scopes()
        messages = [message for one in stored if (message := as_message(driver.identity, one, names)) is not None]
        self._totals.published += len(messages)
        driver.act(self._inside.node.published(messages, time.monotonic()))

    def _scopes(self) -> Mapping[int, str]:
        """Returns the names of the tenants by number."""
        tenants = self._broker.tenants
        if self._tenants[0] is not tenants:
            self._tenants = tenants, {number: tenant.name for number, tenant in tenants.items()}
        return self._tenants[1]

    def on_subscriptions(self, changed: Sequence[StoredSubscription], removed: Sequence[StoredSubscription]) -> None:
        """Passes changed subscriptions on to other brokers. Called in the main event loop."""
        scopes = self._scopes()
        active = [_local_interest(one, scopes) for one in changed if _is_active(one, scopes)]
        gone = [one.id for one in (*removed, *(one for one in changed if not _is_active(one, scopes)))]
        self._thread.call(self._inside.interests.change, active, gone)

    async def _load(self) -> None:
        """Passes on the stored subscriptions."""
        subscriptions = iter(self._broker.store.all_subscriptions())
        scopes = self._scopes()
        interests = self._inside.interests
        while some := await asyncio.to_thread(lambda: list(islice(subscriptions, LOADED_AT_ONCE))):
            self._thread.call(
                interests.add_stored, [_local_interest(one, scopes) for one in some if _is_active(one, scopes)]
            )
        self._thread.call(interests.finish_loading)

    # To and from the node; in the overlay's thread --------------------------------------------------------------------

    def _subscribe(self, interests: Mapping[Hashable, RoutingQuery], parts: Mapping[Hashable, Projection]) -> None:
        inside, now = self._inside, time.monotonic()
        for key, query in interests.items():
            inside.driver.act(inside.node.subscribe(key, query, now, parts.get(key)))

    def _has_caught_up(self) -> bool:
        """Returns whether missed messages need no precedence any more."""
        inside = self._inside
        if time.monotonic() - self._started_at > CATCHING_UP_SECONDS:
            return True
        return not inside.node.is_catching_up() and not inside.receiver.waiting[0]

    def _unsubscribe(self, keys: list[Hashable]) -> None:
        inside, now = self._inside, time.monotonic()
        for key in keys:
            inside.driver.act(inside.node.unsubscribe(key, now))

    def _stored(self, horizons: dict[int, int]) -> None:
        inside = self._inside
        inside.driver.act(inside.node.stored(horizons, time.monotonic()))

    def _deliver(self, items: Sequence[Any]) -> None:
        """Handles the events of the node."""
        inside = self._inside
        for item in items:
            match item:
                case StoreRequested():
                    inside.receiver.add(item)
                case ResendRequested():
                    task = asyncio.create_task(inside.resender.answer(item.question))
                    inside.recoveries.add(task)
                    task.add_done_callback(inside.recoveries.discard)
                    task.add_done_callback(_log_failure)
                case SourceChanged():
                    self.registering.on_source(item.source)
                case ServiceMessageReceived():
                    self.registering.on_message(item.origin, item.content)
                case ProtocolViolation():
                    inside.driver.links.break_off(item.neighbour, item.kind, item.reason)
                case NodeWarning():
                    inside.driver.report_fault(item.kind, self.identity.name, item.reason)
                case RangeLost():
                    reason = f"messages {item.after + 1:,} to {item.upto:,} of broker {item.root} are lost: "
                    inside.driver.report_fault("lost", self.identity.name, reason + "it no longer has them")

    def _name(self, number: int) -> str:
        link = self._inside.driver.links.of(number)
        return self._names.get(number, str(number)) if link is None else link.peer.name

    # Upkeep -----------------------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        """Updates the names of brokers and the number above which messages are retained for them."""
        while True:
            self.retained_above = self._inside.node.retained_above()
            names = {peer.identity: read_description(peer.label).name for peer in self._inside.node.status().peers}
            names |= {link.identity: link.peer.name for link in self._inside.driver.links.all()}
            new = {identity: name for identity, name in names.items() if name and self._names.get(identity) != name}
            if new:
                self._names |= new
                self._write_names(new)
            await asyncio.sleep(_UPKEEP_SECONDS)

    def _write_names(self, names: Mapping[int, str]) -> None:
        """Stores names, so that messages of brokers that are gone can be attributed."""

        async def write() -> None:
            try:
                await self._broker.change(lambda transaction: transaction.name_roots(names))
            except BrokerError as error:
                logger.warning("names of brokers are not stored: %s", error)

        hub_loop = self._inside.receiver.hub_loop
        hub_loop.call_soon_threadsafe(lambda: asyncio.ensure_future(write()))

    # Reports, from the main event loop --------------------------------------------------------------------------------

    async def report(self) -> OverlayReport:
        """Returns the state of the overlay."""
        return await self._thread.ask(self._report)

    def report_now(self) -> OverlayReport:
        """Returns the same report to a thread that may block."""
        return asyncio.run_coroutine_threadsafe(self.report(), self._thread.loop).result(_REPORT_SECONDS)

    async def route_of(self, stored: StoredMessage) -> MessageRoute:
        """Returns the route of a message, and the decision on each link by the current tables."""
        origin = await asyncio.to_thread(self._broker.store.overlay_origin, stored.seq)
        return await self._thread.ask(lambda: self._route_of(stored, origin))

    def _route_of(self, stored: StoredMessage, origin: Origin | None) -> MessageRoute:
        inside = self._inside
        mine = inside.driver.identity
        root, number = (mine, stored.seq) if origin is None else (origin.root, origin.number)
        message = as_message(root, stored, self._scopes())
        decisions = [] if message is None else inside.node.decisions(message._replace(number=number))
        passed = (mine,) if origin is None else (*origin.route, *(() if mine in origin.route else (mine,)))
        return MessageRoute(
            self._name(root),
            number,
            [self._name(one) for one in passed],
            [(self._name(one.neighbour), one) for one in decisions],
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
            tallies=self._totals,
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


def _is_active(subscription: StoredSubscription, scopes: Mapping[int, str]) -> bool:
    return subscription.is_served and subscription.tenant_id in scopes


def _local_interest(subscription: StoredSubscription, scopes: Mapping[int, str]) -> LocalInterest:
    s = subscription
    return LocalInterest(s.id, scopes[s.tenant_id], s.query, s.namespaces, s.dialect, s.query_params, s.window)


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a task of the overlay has failed", exc_info=error)
