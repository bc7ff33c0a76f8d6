"""The ONYX node of a broker: routes bodies in other forms than text, and reports on itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from twigcast.broker.overlay.reports import BrokerInfo, LinkDecision, NodeStatus
from twigcast.errors import TwigcastError
from twigcast.limits import Limits
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.projection import query_of
from twigcast.overlay.onyx.content.routing_index import RoutingMatcher
from twigcast.overlay.onyx.content.routing_table import RoutingTable
from twigcast.overlay.onyx.messages import Disjunct, OverlayMessage, Root, RoutingQuery
from twigcast.overlay.onyx.protocol.node import OnyxNode
from twigcast.overlay.onyx.protocol.settings import OnyxSettings
from twigcast.overlay.onyx.wire.bodies import Bodies

logger = logging.getLogger(__name__)

_DISJUNCTS_SHOWN: Final = 20
"""Disjuncts of one link in a report."""


class BrokerNode(OnyxNode):
    """The node of a running broker.

    ``where`` is what the broker says of itself (see :mod:`twigcast.overlay.onyx.registry.description`), ``last`` the
    number of its own last message, ``horizons`` the stored horizon of each root. With ``reduces``, links carry only the
    parts of messages that are used behind them.
    """

    __slots__ = ("_bodies", "_limits")

    def __init__(
        self,
        address: Address,
        incarnation: int,
        bodies: Bodies,
        limits: Limits,
        *,
        where: str = "",
        last: int = 0,
        horizons: Mapping[Root, int] | None = None,
        reduces: bool = False,
    ) -> None:
        super().__init__(
            address,
            incarnation,
            RoutingTable(limits),
            OnyxSettings(reduces=reduces),
            last=last,
            horizons=horizons,
            where=where,
            limits=limits,
            text=bodies.text,
        )
        self._bodies = bodies
        self._limits = limits

    def route(self, message: OverlayMessage, among: Iterable[Address]) -> frozenset[Address]:
        """Returns the neighbours that need a message; raises RejectedMessage or WireError, as far as it was read."""
        opened = self._bodies.opened(message)
        if opened.is_stream:
            return self.table.route_stream(opened.body, opened.dictionary, message.scope, message.root, among)
        return self.table.route(opened.body, message.scope, message.root, among)

    def matcher(self, query: RoutingQuery) -> Callable[[OverlayMessage], bool]:
        """Returns a test whether a routing query wants a message, to be used by one thread at a time."""
        if any(not disjunct.paths for disjunct in query):
            # The query wants everything of some scope. Messages of other scopes are too rare to be matched.
            scopes = {disjunct.scope for disjunct in query}
            return lambda message: message.scope in scopes
        result = RoutingMatcher(query, self._limits)

        def is_requested(message: OverlayMessage) -> bool:
            try:
                return result.matches(message.body, message.scope)
            except TwigcastError as error:
                logger.warning("message %d is sent again unmatched: %s", message.number, error)
                return True

        return is_requested

    # Reports.

    def retained_above(self) -> int | None:
        """Returns the number above which others may still request messages; `None`: there are no others."""
        if len(self.members) <= 1:
            return None
        return self.forgettable() or 0

    def decisions(self, message: OverlayMessage) -> list[LinkDecision]:
        """Returns whether a message passes over each link, and why."""
        satisfied = self.table.holding(message.body, message.scope, message.root)
        stream = self.streams.get(message.root)
        children = frozenset() if stream is None else frozenset(stream.children)
        return [
            LinkDecision(
                neighbour,
                neighbour in children,
                tuple(sorted(map(_as_text, satisfied.get(neighbour, ())))[:_DISJUNCTS_SHOWN]),
                self._projection_text(neighbour, message),
            )
            for neighbour in sorted(self.links)
        ]

    def _projection_text(self, neighbour: Address, message: OverlayMessage) -> str:
        part = None if self.projections is None else self.projections.part_for(neighbour, message)
        return "" if part is None else query_of(part).text

    def labels(self) -> dict[Address, str]:
        """Returns what each broker says of itself."""
        return {state.origin: state.where for state in self.topology}

    def is_catching_up(self) -> bool:
        """Returns whether missed messages of brokers that were known before the start are still to come."""
        others = [stream for stream in self.streams.values() if stream.root != self.address]
        if not self.peers or self.has_changed_links:
            # The parents are not chosen yet.
            return any(stream.ranges.horizon is not None for stream in others)
        return any(stream.parent is not None and (not stream.is_confirmed or stream.ranges.gaps()) for stream in others)

    def reached(self) -> frozenset[Address]:
        """Returns the other brokers that can be reached."""
        return frozenset(self.parents)

    def status(self) -> NodeStatus:
        """Returns the status of the node."""
        ranges = {root: stream.ranges for root, stream in self.streams.items()}
        return NodeStatus(
            tuple(BrokerInfo(state.origin, state.where, state.links) for state in self.topology),
            {neighbour: self.table.remote_count(neighbour) for neighbour in self.links},
            {root: received.horizon for root, received in ranges.items() if received.horizon is not None},
            {root: sum(gap.upto - gap.after for gap in received.gaps()) for root, received in ranges.items()},
            dict(self.parents),
            dict(self.counts),
            {neighbour: (traffic.sent, traffic.left_out) for neighbour, traffic in self.traffic.items()},
        )


def _as_text(disjunct: Disjunct) -> str:
    return " and ".join(sorted(path.text for path in disjunct.paths)) or "everything"
