"""A node that sends everything to everybody, once: for tests of what surrounds a node."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from twigcast.broker.overlay.broker_node import BrokerNode
from twigcast.broker.overlay.reports import BrokerInfo, LinkDecision, NodeStatus
from twigcast.overlay.core import Effects
from twigcast.overlay.onyx.content.projection import Projection
from twigcast.overlay.onyx.messages import OverlayMessage, Recover, Recovered, RoutingQuery, SourceEntry, Span
from twigcast.overlay.onyx.protocol.events import (
    ResendRequested,
    ServiceMessageReceived,
    SourceChanged,
    StoreRequested,
)


class FloodingNode(BrokerNode):
    """Floods; asks each root for what it has missed when a link to it comes up."""

    def __init__(self, *arguments: Any, where: str, last: int, horizons: Mapping[int, int], reduces: bool) -> None:
        super().__init__(*arguments, where=where, last=last, horizons=horizons, reduces=reduces)
        self.label = where
        self.last = last
        self.horizons = dict(horizons)
        self.stored_horizons: dict[int, int] = {}
        self.wishes: dict[Hashable, RoutingQuery] = {}
        self.floor: int | None = None

    def link_up(self, neighbour: int, cost: int, now: float) -> Effects:
        self.links.add(neighbour)
        horizon = self.horizons.get(neighbour)
        if horizon is None:
            return Effects([], [], [])
        return Effects([(neighbour, Recover(neighbour, horizon, 1 << 60, frozenset(), (self.address,)))], [], [])

    def link_cost(self, neighbour: int, cost: int, now: float) -> Effects:
        return Effects([], [], [])

    def link_down(self, neighbour: int, now: float) -> Effects:
        self.links.remove(neighbour)
        return Effects([], [], [])

    def receive(self, sender: int, message: Any, now: float) -> Effects:
        if isinstance(message, Recover):
            return Effects([], [], [ResendRequested(message._replace(upto=self.last))])
        if isinstance(message, Recovered):
            return self._take(message.span, sender)
        return self._take(message, sender)

    def _take(self, span: Span, sender: int | None) -> Effects:
        if span.root == self.address or span.upto <= self.horizons.get(span.root, -1):
            return Effects([], [], [])
        self.horizons[span.root] = span.upto
        return Effects(
            [(link, span) for link in sorted(self.links) if link != sender],
            [],
            [StoreRequested(span.root, span.message, span.upto)],
        )

    def wake(self, timer: Hashable, now: float) -> Effects:
        return Effects([], [], [])

    def published(self, messages: Sequence[OverlayMessage], now: float) -> Effects:
        sends: list[tuple[int, Any]] = []
        for one in messages:
            message = one._replace(path=(self.address,))
            sends += [(link, Span(self.address, self.last, message.number, message)) for link in sorted(self.links)]
            self.last = message.number
        return Effects(sends, [], [])

    def stored(self, horizons: Mapping[int, int], now: float) -> Effects:
        self.stored_horizons.update(horizons)
        return Effects([], [], [])

    def subscribe(self, key: Hashable, query: RoutingQuery, now: float, part: Projection | None = None) -> Effects:
        self.wishes[key] = query
        return Effects([], [], [])

    def unsubscribe(self, key: Hashable, now: float) -> Effects:
        self.wishes.pop(key, None)
        return Effects([], [], [])

    def answer(self, answer: Recovered, now: float) -> Effects:
        return Effects([(answer.route[0], answer)], [], [])

    def describe(self, source: SourceEntry, now: float) -> Effects:
        return Effects([], [], [SourceChanged(source)])

    def relay(self, target: int, content: bytes, now: float) -> Effects:
        return Effects([], [], [ServiceMessageReceived(self.address, content)] if target == self.address else [])

    def labels(self) -> dict[int, str]:
        return {self.address: self.label} | dict.fromkeys(self.links, "")

    def is_catching_up(self) -> bool:
        return False

    def reached(self) -> frozenset[int]:
        return frozenset(self.links)

    def matcher(self, query: RoutingQuery) -> Callable[[OverlayMessage], bool]:
        return lambda message: True

    def retained_above(self) -> int | None:
        return self.floor

    def decisions(self, message: OverlayMessage) -> list[LinkDecision]:
        return [LinkDecision(link, True, ("everything",)) for link in sorted(self.links)]

    def status(self) -> NodeStatus:
        me = BrokerInfo(self.address, self.label, tuple((link, 1) for link in sorted(self.links)))
        others = (BrokerInfo(link, "", ((self.address, 1),)) for link in sorted(self.links))
        return NodeStatus((me, *others), dict.fromkeys(self.links, 1), self.horizons, {}, {})
