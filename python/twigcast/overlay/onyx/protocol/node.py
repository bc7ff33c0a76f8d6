"""The node of a broker in an overlay: links, interests, attachments, messages. It does no input or output.

The parts share one `NodeState`: ``flooding`` (greetings, link states, the catalogue), ``attachments`` (the parent of
each root, and from when on its spans count), ``forwarding`` (messages and empty spans down the trees, reports up),
``recovery`` (gaps), ``relaying`` (messages between the services of brokers).

The application keeps what must survive a crash: the broker's own messages with their numbers, the subscriptions, the
horizons of `StoreRequested`, and an incarnation that grows with each start. All else is exchanged again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from twigcast.overlay.core import Address, Effects
from twigcast.overlay.errors import RemoteProtocolError
from twigcast.overlay.onyx.content.projection import Projection
from twigcast.overlay.onyx.messages import (
    Attach,
    Attached,
    Detach,
    Hello,
    LinkState,
    OverlayMessage,
    Recover,
    Recovered,
    Root,
    RoutingDelta,
    RoutingQuery,
    ServiceMessage,
    SetProjection,
    SourceEntry,
    Span,
    StoredReport,
)
from twigcast.overlay.onyx.protocol import attachments, flooding, forwarding, recovery, relaying
from twigcast.overlay.onyx.protocol.events import ProtocolViolation
from twigcast.overlay.onyx.protocol.state import NodeState


class OnyxNode(NodeState):
    """A broker: passes messages, timers and commands to the parts of the protocol."""

    handlers = {  # noqa: RUF012 - never changed
        Hello: flooding.on_hello,
        LinkState: flooding.on_link_state,
        SourceEntry: flooding.on_source,
        RoutingDelta: attachments.on_routing_delta,
        SetProjection: attachments.on_set_projection,
        Attach: attachments.on_attach,
        Attached: attachments.on_attached,
        Detach: attachments.on_detach,
        Span: forwarding.on_span,
        StoredReport: forwarding.on_stored_report,
        Recover: recovery.on_recover,
        Recovered: recovery.on_recovered,
        ServiceMessage: relaying.on_service_message,
    }

    # Called by the driver.

    def link_up(self, neighbour: Address, cost: int, now: float) -> Effects:
        """Begins a link to a neighbour; `cost` is its round trip in milliseconds."""
        self.now = now
        if neighbour in self.links:
            self._end_link(neighbour)
        flooding.link_up(self, neighbour, cost)
        return self.drain()

    def link_cost(self, neighbour: Address, cost: int, now: float) -> Effects:
        """Changes the cost of a link."""
        self.now = now
        if neighbour in self.links:
            self.topology.set_link(neighbour, cost)
            self.note_link_change()
        return self.drain()

    def link_down(self, neighbour: Address, now: float) -> Effects:
        """Ends a link that broke. Messages under way on it may be lost."""
        self.now = now
        self._end_link(neighbour)
        return self.drain()

    def receive(self, sender: Address, message: Any, now: float) -> Effects:
        """Processes one message. A message of a broker without a link is ignored."""
        self.now = now
        if sender not in self.links:
            return self.drain()
        try:
            if sender not in self.peers and type(message) is not Hello:
                raise RemoteProtocolError("order", f"{type(message).__name__} came before the greeting")
            self._dispatch(sender, message)
        except RemoteProtocolError as error:
            self.counts["refused"] += 1
            self._end_link(sender)
            self.deliver(ProtocolViolation(sender, error.kind, error.reason))
        return self.drain()

    def on_timer(self, timer: Hashable) -> None:
        """Runs the part that has set a timer."""
        self.disarm(timer)
        match timer:
            case "flush":
                attachments.flush(self)
            case "attach":
                attachments.retry(self)
            case "silence":
                forwarding.send_empty_spans(self)
            case "report":
                forwarding.report(self)
            case ("recover", int(root)):
                recovery.request_gaps(self, root)

    # Called by the application.

    def subscribe(self, key: Hashable, query: RoutingQuery, now: float, part: Projection | None = None) -> Effects:
        """Adds or replaces a subscription that uses a part of each message; `None`: the whole."""
        self.now = now
        self.table.subscribe(key, query)
        if self.projections is not None:
            self.projections.subscribe(key, query, part)
        self.arm_flush()
        return self.drain()

    def unsubscribe(self, key: Hashable, now: float) -> Effects:
        """Removes a subscription."""
        self.now = now
        if self.table.unsubscribe(key):
            if self.projections is not None:
                self.projections.unsubscribe(key)
            self.arm_flush()
        return self.drain()

    def settle(self, token: Hashable, now: float) -> Effects:
        """Asks for `InterestSettled` when all reachable roots know the current interests of this broker."""
        self.now = now
        attachments.settle(self, token)
        return self.drain()

    def published(self, messages: Sequence[OverlayMessage], now: float) -> Effects:
        """Sends the broker's own messages, which are durable, in the order of their numbers.

        Raises:
            ValueError: A number is not above the last one, or the root is another.
        """
        self.now = now
        for message in messages:
            forwarding.publish(self, message)
        return self.drain()

    def stored(self, horizons: Mapping[Root, int], now: float) -> Effects:
        """Takes horizons of `StoreRequested` that are durable, with all messages up to them."""
        self.now = now
        for root, horizon in horizons.items():
            stream = self.streams.get(root)
            if stream is not None and root != self.address and (stream.stored is None or horizon > stream.stored):
                stream.stored = horizon
                self.arm("report", self.settings.report_delay)
        return self.drain()

    def answer(self, answer: Recovered, now: float) -> Effects:
        """Sends a piece of the answer to a `ResendRequested`, along the route of the question backwards."""
        self.now = now
        recovery.answer(self, answer)
        return self.drain()

    def describe(self, source: SourceEntry, now: float) -> Effects:
        """Adds an entry to the catalogue, or replaces an older version."""
        self.now = now
        flooding.learn(self, source, None)
        return self.drain()

    def relay(self, target: Address, content: bytes, now: float) -> Effects:
        """Sends a message to the service of another broker. It may be lost on the way."""
        self.now = now
        relaying.send(self, target, content)
        return self.drain()

    def forget(self, broker: Address, now: float) -> Effects:
        """Removes a broker that will not come back, so that nothing is retained for it."""
        self.now = now
        self.topology.forget(broker)
        self.unreachable.pop(broker, None)
        self.note_link_change()
        return self.drain()

    @property
    def members(self) -> set[Address]:
        """The brokers of the overlay, with this one and with those that cannot be reached at present."""
        return set(self.topology.states)

    def forgettable(self) -> int | None:
        """Returns the number up to which all others have stored this broker's messages; `None`: not known yet."""
        return self.streams[self.address].stored

    def _end_link(self, neighbour: Address) -> None:
        if neighbour in self.links:
            self.links.discard(neighbour)
            self.peers.pop(neighbour, None)
            self.traffic.pop(neighbour, None)
            self.topology.drop_link(neighbour)
            attachments.link_down(self, neighbour)
            self.table.forget(neighbour)
            if self.projections is not None:
                self.projections.forget(neighbour)
            self.note_link_change()
