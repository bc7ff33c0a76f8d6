"""Forwarding: messages and empty spans down the trees, reports of what is stored up.

A message is passed on before the application has stored it. If the broker crashes in between, it has not reported the
message as stored: after the restart its horizon is still the old one, and it requests the gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twigcast.errors import RejectedMessage, TwigcastError
from twigcast.overlay.core import Address
from twigcast.overlay.errors import RemoteProtocolError, WireError
from twigcast.overlay.onyx.content.projection import Projection
from twigcast.overlay.onyx.messages import OverlayMessage, Span, StoredReport
from twigcast.overlay.onyx.protocol.events import MessageRouted, StoreRequested
from twigcast.overlay.onyx.protocol.link_projection import LinkProjections
from twigcast.overlay.onyx.protocol.root_stream import ChildLink, RootStream
from twigcast.overlay.onyx.protocol.state import NodeState


def publish(node: NodeState, message: OverlayMessage) -> None:
    """Sends one of the broker's own messages, which is durable."""
    stream = node.streams[node.address]
    if message.root != node.address:
        raise ValueError(f"a message of root {message.root} cannot be published at {node.address}")
    if message.number <= stream.end:
        raise ValueError(f"message {message.number} follows {stream.end}")
    stream.ranges.add(stream.end, message.number)
    _advance(node, stream, message.number, message, None)


def on_span(node: NodeState, sender: Address, span: Span) -> None:
    """Receives a span from the parent and passes it on."""
    _check(node, span)
    stream = node.streams.get(span.root)
    if stream is None or sender != stream.parent or not stream.is_confirmed or span.upto <= stream.end:
        node.counts["ignored_spans"] += 1
        return
    if span.after > stream.end:
        start_stream_at(node, stream, span.after)
    after = stream.end
    _advance(node, stream, span.upto, span.message, sender)
    receive_span(node, stream, after, span.upto, span.message)


def _check(node: NodeState, span: Span) -> None:
    message = span.message
    if span.upto < span.after or (message is not None and (span.root, span.upto) != (message.root, message.number)):
        raise RemoteProtocolError("order", f"a span of root {span.root} contradicts itself")
    if span.root == node.address or (message is not None and node.address in message.path):
        raise RemoteProtocolError("loop", f"number {span.upto} of root {span.root} came back to where it had been")
    if message is not None and len(message.path) > node.settings.hops_max:
        raise RemoteProtocolError(
            "hops", f"number {span.upto} of root {span.root} has passed {len(message.path)} brokers"
        )


def receive_span(node: NodeState, stream: RootStream, after: int, upto: int, message: OverlayMessage | None) -> None:
    """Records a range of numbers as received, and hands the application what is new in it."""
    ranges = stream.ranges
    if message is not None and not ranges.contains(upto) and not _suffices(node, message):
        # A subscription that is newer than the message needs more of it. Its number remains a gap, so that the whole
        # message is requested from the root.
        node.counts["insufficient"] += 1
        receive_span(node, stream, after, upto - 1, None)
        ranges.add(upto, upto)
        node.arm(("recover", stream.root), node.settings.recover_delay)
        return
    is_new = message is not None and not ranges.contains(upto)
    horizon = ranges.horizon
    ranges.add(after, upto)
    if is_new or ranges.horizon != horizon:
        assert ranges.horizon is not None
        node.deliver(StoreRequested(stream.root, message if is_new else None, ranges.horizon))
    if ranges.gaps():
        node.arm(("recover", stream.root), node.settings.recover_delay)


def _suffices(node: NodeState, message: OverlayMessage) -> bool:
    """Returns whether the received part of a message is enough for the broker's own subscriptions."""
    return not message.reduced or (node.projections is not None and node.projections.suffices(message))


def start_stream_at(node: NodeState, stream: RootStream, position: int) -> None:
    """Continues the stream at a position. What lies between its end and the position is not known."""
    if position > stream.end:
        for name, child in stream.children.items():
            if child.end is not None:
                if child.end < stream.end:
                    send_empty_span(node, stream, name, child)
                child.end = position
                # This span shows the child at once that it misses something.
                node.send(name, Span(stream.root, position, position, None))
        stream.end = position
    receive_span(node, stream, position, position, None)


def _advance(
    node: NodeState, stream: RootStream, upto: int, message: OverlayMessage | None, sender: Address | None
) -> None:
    """Passes on a message. Empty spans are collected until a message or a timer."""
    stream.end = upto
    receivers = stream.receivers()
    if message is not None and receivers:
        wanting = _wanting(node, message, receivers)
        onward = message.passed_on(node.address)
        reached = []
        for name, sent in _outgoing(node, onward, [name for name in receivers if name in wanting]):
            child = stream.children[name]
            assert child.end is not None
            node.send(name, Span(stream.root, child.end, upto, sent))
            child.end = upto
            reached.append(name)
            node.traffic_to(name).sent += 1
        node.counts["passed_on"] += len(reached)
        node.counts["not_passed_on"] += len(receivers) - len(reached)
        if len(reached) < len(receivers):
            for name in set(receivers).difference(reached):
                node.traffic_to(name).left_out += 1
        if node.settings.trace:
            sent_to = frozenset(reached)
            node.deliver(
                MessageRouted(stream.root, upto, message.message_id, sender, sent_to, frozenset(receivers) - sent_to)
            )
    if receivers or (sender is not None and stream.is_confirmed):
        node.arm("silence", node.settings.silence_delay)
    node.arm("report", node.settings.report_delay)


def _wanting(node: NodeState, message: OverlayMessage, receivers: list[Address]) -> frozenset[Address]:
    try:
        return node.route(message, receivers)
    except (RejectedMessage, WireError) as error:
        # The root accepted the message. That it is over a limit here is no reason to keep it from others.
        node.warn("message", f"number {message.number} of root {message.root} is sent to all: {error}")
        return frozenset(receivers)


def _outgoing(
    node: NodeState, message: OverlayMessage, selected: list[Address]
) -> Iterable[tuple[Address, OverlayMessage]]:
    if node.projections is None:
        return [(neighbour, message) for neighbour in selected]
    return _reduced(node, node.projections, message, selected)


def _reduced(
    node: NodeState, projections: LinkProjections, message: OverlayMessage, selected: list[Address]
) -> Iterator[tuple[Address, OverlayMessage]]:
    """Yields what is sent to each neighbour that wants a message; those that use nothing of it are left out.

    In the order of the thesis (Diao 2005, section 7.4.1): whole messages go first; then the message is reduced, once
    for all links that use the same part, and only for links that get it.
    """
    parts: dict[Projection, list[Address]] = {}
    for neighbour in selected:
        part = projections.part_for(neighbour, message)
        if part is None:
            yield neighbour, message
        else:
            parts.setdefault(part, []).append(neighbour)
    for part, neighbours in parts.items():
        try:
            reduced = projections.reduced(message, part)
        except TwigcastError as error:
            node.warn("message", f"number {message.number} of root {message.root} is sent whole: {error}")
            reduced = message
        if reduced is not None:
            node.counts["reduced"] += len(neighbours)
            node.counts["reduced_bytes"] += len(neighbours) * (len(message.body) - len(reduced.body))
            yield from ((neighbour, reduced) for neighbour in neighbours)


def send_empty_span(node: NodeState, stream: RootStream, name: Address, child: ChildLink) -> None:
    """Tells a child that it wants nothing of what came since its last span."""
    assert child.end is not None
    node.send(name, Span(stream.root, child.end, stream.end, None))
    child.end = stream.end


def send_empty_spans(node: NodeState) -> None:
    """Sends an empty span to all children that are behind."""
    for stream in node.streams.values():
        for name, child in stream.children.items():
            if child.end is not None and child.end < stream.end:
                send_empty_span(node, stream, name, child)


# Reports.


def report(node: NodeState) -> None:
    """Reports to the parents what is stored here and below."""
    for stream in node.streams.values():
        if stream.root == node.address or not stream.is_confirmed or stream.parent is None:
            continue
        stored = _stored_below(stream)
        if stored is not None and stored != stream.reported:
            stream.reported = stored
            node.send(stream.parent, StoredReport(stream.root, *stored))
    _forget_unreachable(node)


def _stored_below(stream: RootStream) -> tuple[int, int] | None:
    if stream.stored is None:
        return None
    lowest, brokers = stream.stored, 1
    for child in stream.children.values():
        if child.horizon is not None:
            lowest, brokers = min(lowest, child.horizon), brokers + child.brokers
    return lowest, brokers


def on_stored_report(node: NodeState, sender: Address, stored: StoredReport) -> None:
    """Takes the report of a child on what is stored there and below."""
    stream = node.streams.get(stored.root)
    child = None if stream is None else stream.children.get(sender)
    if stream is None or child is None:
        return
    child.horizon, child.brokers = stored.horizon, stored.brokers
    if stored.root != node.address:
        node.arm("report", node.settings.report_delay)
        return
    reported = [link for link in stream.children.values() if link.horizon is not None]
    others = len(node.topology.states) - 1
    # While a broker is unreachable its horizon is unknown, and the root must retain all messages since.
    if sum(link.brokers for link in reported) >= others:
        lowest = min(link.horizon for link in reported if link.horizon is not None)
        stream.stored = max(lowest, stream.stored or 0)


def _forget_unreachable(node: NodeState) -> None:
    for origin, since in list(node.unreachable.items()):
        if node.now - since >= node.settings.forget_delay:
            del node.unreachable[origin]
            node.topology.forget(origin)
