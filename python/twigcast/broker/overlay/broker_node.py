"""The node of ONYX as a broker runs it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from twigcast.broker.overlay.node import (
    Break,
    BrokerInfo,
    Keep,
    Learned,
    LinkDecision,
    MakeNode,
    NodeInterface,
    NodeSettings,
    NodeStatus,
    ReadAgain,
    Said,
    Warn,
)
from twigcast.errors import TwigcastError
from twigcast.limits import Limits
from twigcast.overlay.core import Address, Effects
from twigcast.overlay.onyx.content.projection import Projection, query_of
from twigcast.overlay.onyx.content.routing_index import RoutingMatcher
from twigcast.overlay.onyx.content.routing_table import RoutingTable
from twigcast.overlay.onyx.messages import Disjunct, OverlayMessage, Recovered, Root, RoutingQuery, SourceEntry
from twigcast.overlay.onyx.protocol.events import (
    NodeWarning,
    ProtocolViolation,
    RangeLost,
    ResendRequested,
    ServiceMessageReceived,
    SourceChanged,
    StoreRequested,
)
from twigcast.overlay.onyx.protocol.node import OnyxNode
from twigcast.overlay.onyx.protocol.recovery import backwards
from twigcast.overlay.onyx.protocol.settings import OnyxSettings

logger = logging.getLogger(__name__)

_WANTED_SHOWN: Final = 20
"""Routing queries that are told of one link."""


def make_node(limits: Limits) -> MakeNode:
    """What makes nodes.

    Args:
        limits: Of messages and queries.
    """

    def make(settings: NodeSettings) -> NodeInterface:
        return BrokerNode(settings, limits)

    return make


class BrokerNode:
    """A node, with what it hands on in the broker's words.

    Args:
        settings: What it is made with.
        limits: Of messages and queries.
    """

    def __init__(self, settings: NodeSettings, limits: Limits) -> None:
        self._limits = limits
        self._bodies = settings.bodies
        self._table = RoutingTable(limits)
        self._node = OnyxNode(
            settings.identity,
            settings.incarnation,
            self._table,
            OnyxSettings(reduces=settings.reduces),
            last=settings.last,
            horizons=settings.horizons,
            where=settings.label,
            limits=limits,
            route=self._route,
            text=self._bodies.text,
        )

    # From the network

    def link_up(self, neighbour: Address, cost: int, now: float) -> Effects:
        """There is a new link."""
        return _in_words(self._node.link_up(neighbour, cost, now))

    def link_cost(self, neighbour: Address, cost: int, now: float) -> Effects:
        """A link costs something else."""
        return _in_words(self._node.link_cost(neighbour, cost, now))

    def link_down(self, neighbour: Address, now: float) -> Effects:
        """A link broke."""
        return _in_words(self._node.link_down(neighbour, now))

    def receive(self, sender: Address, message: Any, now: float) -> Effects:
        """A message has come."""
        return _in_words(self._node.receive(sender, message, now))

    def wake(self, timer: Hashable, now: float) -> Effects:
        """A timer went off."""
        return _in_words(self._node.wake(timer, now))

    # From the broker

    def published(self, messages: Sequence[OverlayMessage], upto: int, now: float) -> Effects:
        """Messages were published here."""
        return _in_words(self._node.published(messages, now))

    def stored(self, horizons: Mapping[Root, int], now: float) -> Effects:
        """So far others are known in the store."""
        return _in_words(self._node.stored(horizons, now))

    def subscribe(
        self, interests: Mapping[Hashable, RoutingQuery], now: float, parts: Mapping[Hashable, Projection] | None = None
    ) -> Effects:
        """Subscriptions want this from now on."""
        taken = parts or {}
        return _together(self._node.subscribe(key, query, now, taken.get(key)) for key, query in interests.items())

    def unsubscribe(self, keys: Sequence[Hashable], now: float) -> Effects:
        """These want nothing any more."""
        return _together(self._node.unsubscribe(key, now) for key in keys)

    def recovered(self, answer: Recovered, now: float) -> Effects:
        """A piece of an answer is on its way."""
        return _in_words(self._node.answer(answer, now))

    def describe(self, source: SourceEntry, now: float) -> Effects:
        """A source is new, or something about it is."""
        return _in_words(self._node.describe(source, now))

    def relay(self, target: Address, content: bytes, now: float) -> Effects:
        """Say something to the service of another broker."""
        return _in_words(self._node.relay(target, content, now))

    def _route(self, message: OverlayMessage, among: Iterable[Address]) -> frozenset[Address]:
        """The neighbours that want a message. One that comes parsed is not parsed again.

        Raises:
            RejectedMessage: It is malformed or over a limit, as far as it was looked at.
            WireError: It does not unpack.
        """
        table, scope, root = self._table, message.scope, message.root
        opened = self._bodies.opened(message)
        if opened.is_stream:
            return table.route_stream(opened.body, opened.dictionary, scope, root, among)
        return table.route(opened.body, scope, root, among)

    # Questions

    def matcher(self, query: RoutingQuery) -> Callable[[OverlayMessage], bool]:
        """Says of messages whether a routing query wants them; for any thread, one at a time."""
        if any(not disjunct.paths for disjunct in query):
            # Rules out nothing in its scopes; the others are not worth a look then.
            scopes = {disjunct.scope for disjunct in query}
            return lambda message: message.scope in scopes
        result = RoutingMatcher(query, self._limits)

        def is_requested(message: OverlayMessage) -> bool:
            try:
                return result.matches(message.body, message.scope)
            except TwigcastError as error:
                logger.warning("message %d is sent without a look at it: %s", message.number, error)
                return True

        return is_requested

    def retained_above(self) -> int | None:
        """The number above which some broker may still ask for messages."""
        if len(self._node.members) <= 1:
            return None
        return self._node.forgettable() or 0

    def branches(self, message: OverlayMessage) -> list[LinkDecision]:
        """What becomes of a message on each link, and why."""
        holding = self._table.holding(message.body, message.scope, message.root)
        stream = self._node.streams.get(message.root)
        children = frozenset() if stream is None else frozenset(stream.children)
        return [
            LinkDecision(
                neighbour,
                neighbour in children,
                tuple(sorted(map(_as_text, holding.get(neighbour, ())))[:_WANTED_SHOWN]),
                self._reduced(neighbour, message),
            )
            for neighbour in sorted(self._node.links)
        ]

    def _reduced(self, neighbour: Address, message: OverlayMessage) -> str:
        reductions = self._node.reductions
        part = None if reductions is None else reductions.part_for(neighbour, message)
        return "" if part is None else query_of(part).text

    def labels(self) -> dict[Address, str]:
        """What each broker that is known says of itself."""
        return {state.origin: state.where for state in self._node.topology}

    def is_catching_up(self) -> bool:
        """Whether messages of brokers that were known before are missing, and are about to come."""
        node = self._node
        others = [stream for stream in node.streams.values() if stream.root != node.address]
        if not node.peers or node.has_moved:
            # The ways to them are not known yet.
            return any(stream.knowledge.horizon is not None for stream in others)
        return any(
            stream.parent is not None and (not stream.is_confirmed or stream.knowledge.gaps()) for stream in others
        )

    def reached(self) -> frozenset[Address]:
        """The other brokers that can be reached now."""
        return frozenset(self._node.parents)

    def status(self) -> NodeStatus:
        """What is told of it."""
        node = self._node
        knowledge = {root: stream.knowledge for root, stream in node.streams.items()}
        return NodeStatus(
            tuple(BrokerInfo(state.origin, state.where, state.links) for state in node.topology),
            {neighbour: self._table.remote_count(neighbour) for neighbour in node.links},
            {root: existing.horizon for root, existing in knowledge.items() if existing.horizon is not None},
            {root: sum(gap.upto - gap.after for gap in existing.gaps()) for root, existing in knowledge.items()},
            dict(node.parents),
            dict(node.counts),
            {neighbour: (flow.sent, flow.left_out) for neighbour, flow in node.flows.items()},
        )


def _in_words(effects: Effects) -> Effects:
    """Effects with what is handed on in the broker's words."""
    if not effects.deliveries:
        return effects
    items = [item for one in effects.deliveries if (item := _item(one)) is not None]
    return Effects(effects.sends, effects.timers, items)


def _item(item: Any) -> Any:
    if isinstance(item, StoreRequested):
        return Keep(item.message, {item.root: item.horizon})
    if isinstance(item, ResendRequested):
        question = item.question
        return ReadAgain(question.after, question.upto, question.query, backwards(question))
    if isinstance(item, ProtocolViolation):
        return Break(item.neighbour, item.kind, item.reason)
    if isinstance(item, NodeWarning):
        return Warn(item.kind, item.reason)
    if isinstance(item, SourceChanged):
        return Learned(item.source)
    if isinstance(item, ServiceMessageReceived):
        return Said(item.origin, item.content)
    if isinstance(item, RangeLost):
        reason = f"messages {item.after + 1:,} to {item.upto:,} of broker {item.root} are lost: it no longer has them"
        return Warn("lost", reason)
    return None


def _together(several: Iterable[Effects]) -> Effects:
    """The effects of several commands as one."""
    together = Effects([], [], [])
    for effects in several:
        together.sends.extend(effects.sends)
        together.timers.extend(effects.timers)
        together.deliveries.extend(_in_words(effects).deliveries)
    return together


def _as_text(disjunct: Disjunct) -> str:
    return " and ".join(sorted(path.text for path in disjunct.paths)) or "everything"
