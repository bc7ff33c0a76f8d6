"""A node that sends everything to everybody, once: for tests of what lies around a node."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from twigcast.broker.overlay.node import (
    BrokerInfo,
    Keep,
    Learned,
    LinkDecision,
    NodeSettings,
    NodeStatus,
    ReadAgain,
    Said,
)
from twigcast.overlay.core import Effects
from twigcast.overlay.onyx.content.projection import Projection
from twigcast.overlay.onyx.messages import OverlayMessage, Recover, Recovered, RoutingQuery, SourceEntry, Span


class FloodingNode:
    """Floods; asks each root for what it has missed when a link to it comes up."""

    def __init__(self, settings: NodeSettings) -> None:
        self.identity = settings.identity
        self.label = settings.label
        self.last = settings.last
        self.horizons = dict(settings.horizons)
        self.stored_horizons: dict[int, int] = {}
        self.links: list[int] = []
        self.wishes: dict[Hashable, RoutingQuery] = {}
        self.floor: int | None = None

    def link_up(self, neighbour: int, cost: int, now: float) -> Effects:
        self.links.append(neighbour)
        horizon = self.horizons.get(neighbour)
        if horizon is None:
            return Effects([], [], [])
        return Effects([(neighbour, Recover(neighbour, horizon, 1 << 60, frozenset(), (self.identity,)))], [], [])

    def link_cost(self, neighbour: int, cost: int, now: float) -> Effects:
        return Effects([], [], [])

    def link_down(self, neighbour: int, now: float) -> Effects:
        self.links.remove(neighbour)
        return Effects([], [], [])

    def receive(self, sender: int, message: Any, now: float) -> Effects:
        if isinstance(message, Recover):
            return Effects([], [], [ReadAgain(message.after, self.last, message.query, message.route)])
        if isinstance(message, Recovered):
            return self._take(message.span, sender)
        return self._take(message, sender)

    def _take(self, span: Span, sender: int | None) -> Effects:
        if span.root == self.identity or span.upto <= self.horizons.get(span.root, -1):
            return Effects([], [], [])
        self.horizons[span.root] = span.upto
        return Effects(
            [(link, span) for link in self.links if link != sender], [], [Keep(span.message, {span.root: span.upto})]
        )

    def wake(self, timer: Hashable, now: float) -> Effects:
        return Effects([], [], [])

    def published(self, messages: Sequence[OverlayMessage], upto: int, now: float) -> Effects:
        sends: list[tuple[int, Any]] = []
        for one in messages:
            message = one._replace(path=(self.identity,))
            sends += [(link, Span(self.identity, self.last, message.number, message)) for link in self.links]
            self.last = message.number
        return Effects(sends, [], [])

    def stored(self, horizons: Mapping[int, int], now: float) -> Effects:
        self.stored_horizons.update(horizons)
        return Effects([], [], [])

    def subscribe(
        self, interests: Mapping[Hashable, RoutingQuery], now: float, parts: Mapping[Hashable, Projection] | None = None
    ) -> Effects:
        self.wishes.update(interests)
        return Effects([], [], [])

    def unsubscribe(self, keys: Sequence[Hashable], now: float) -> Effects:
        for key in keys:
            self.wishes.pop(key, None)
        return Effects([], [], [])

    def recovered(self, answer: Recovered, now: float) -> Effects:
        return Effects([(answer.route[0], answer)], [], [])

    def describe(self, source: SourceEntry, now: float) -> Effects:
        return Effects([], [], [Learned(source)])

    def relay(self, target: int, content: bytes, now: float) -> Effects:
        return Effects([], [], [Said(self.identity, content)] if target == self.identity else [])

    def labels(self) -> dict[int, str]:
        return {self.identity: self.label} | dict.fromkeys(self.links, "")

    def is_catching_up(self) -> bool:
        return False

    def reached(self) -> frozenset[int]:
        return frozenset(self.links)

    def matcher(self, query: RoutingQuery) -> Callable[[OverlayMessage], bool]:
        return lambda message: True

    def retained_above(self) -> int | None:
        return self.floor

    def branches(self, message: OverlayMessage) -> list[LinkDecision]:
        return [LinkDecision(link, True, ("everything",)) for link in self.links]

    def status(self) -> NodeStatus:
        me = BrokerInfo(self.identity, self.label, tuple((link, 1) for link in self.links))
        others = (BrokerInfo(link, "", ((self.identity, 1),)) for link in self.links)
        return NodeStatus((me, *others), dict.fromkeys(self.links, 1), self.horizons, {}, {})
