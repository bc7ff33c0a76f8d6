"""Messages and silence, down the trees; reports of what is stored, up.

A message is passed on before the application here has stored it. A broker that crashes then has told nobody that it has
it: after its restart its horizon is the old one, and it asks for what it misses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twigcast.errors import RejectedMessage
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import OverlayMessage, Span, StoredReport
from twigcast.overlay.onyx.protocol import link_projection
from twigcast.overlay.onyx.protocol.errors import RemoteProtocolError
from twigcast.overlay.onyx.protocol.events import MessageRouted, StoreRequested
from twigcast.overlay.onyx.protocol.root_stream import ChildLink, RootStream
from twigcast.overlay.onyx.wire.errors import UnknownDictionary, WireError

if TYPE_CHECKING:
    from twigcast.overlay.onyx.protocol.node import OnyxNode


def publish(node: OnyxNode, message: OverlayMessage) -> None:
    """One of the broker's own messages, durable."""
    stream = node.streams[node.address]
    if message.root != node.address:
        raise ValueError(f"a message of root {message.root} cannot be published at {node.address}")
    if message.number <= stream.end:
        raise ValueError(f"message {message.number} follows {stream.end}")
    stream.knowledge.add(stream.end, message.number)
    _advance(node, stream, message.number, message, None)


def on_span(node: OnyxNode, sender: Address, span: Span) -> None:
    """A message, or silence, from the parent."""
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


def _check(node: OnyxNode, span: Span) -> None:
    message = span.message
    if span.upto < span.after or (message is not None and (span.root, span.upto) != (message.root, message.number)):
        raise RemoteProtocolError("order", f"a span of root {span.root} contradicts itself")
    if span.root == node.address or (message is not None and node.address in message.path):
        raise RemoteProtocolError("loop", f"number {span.upto} of root {span.root} came back to where it had been")
    if message is not None and len(message.path) > node.settings.hops_max:
        raise RemoteProtocolError(
            "hops", f"number {span.upto} of root {span.root} has passed {len(message.path)} brokers"
        )


def receive_span(node: OnyxNode, stream: RootStream, after: int, upto: int, message: OverlayMessage | None) -> None:
    """Numbers are known: hand over what is new of it."""
    knowledge = stream.knowledge
    if message is not None and not knowledge.knows(upto) and not link_projection.suffices(node, message):
        # Not enough for somebody here, who came while it was under way: its number stays a gap, so that the root is
        # asked for the whole.
        node.counts["insufficient"] += 1
        receive_span(node, stream, after, upto - 1, None)
        knowledge.add(upto, upto)
        node.arm(("recover", stream.root), node.settings.recover_delay)
        return
    is_news = message is not None and not knowledge.knows(upto)
    horizon = knowledge.horizon
    knowledge.add(after, upto)
    if is_news or knowledge.horizon != horizon:
        assert knowledge.horizon is not None
        node.deliver(StoreRequested(stream.root, message if is_news else None, knowledge.horizon))
    if knowledge.gaps():
        node.arm(("recover", stream.root), node.settings.recover_delay)


def start_stream_at(node: OnyxNode, stream: RootStream, position: int) -> None:
    """What comes from the parent goes on at a position; up to there, it is not known what there was."""
    if position > stream.end:
        for name, child in stream.children.items():
            if child.end is not None:
                if child.end < stream.end:
                    send_silence(node, stream, name, child)
                child.end = position
                # It is to know at once that it misses something.
                node.send(name, Span(stream.root, position, position, None))
        stream.end = position
    receive_span(node, stream, position, position, None)


def _advance(
    node: OnyxNode, stream: RootStream, upto: int, message: OverlayMessage | None, sender: Address | None
) -> None:
    """Pass on a message. Silence is gathered."""
    stream.end = upto
    receivers = stream.receivers()
    if message is not None and receivers:
        taken = _wanting(node, message, receivers)
        onward = message.passed_on(node.address)
        got = []
        for name, sent in link_projection.outgoing(node, onward, [name for name in receivers if name in taken]):
            child = stream.children[name]
            assert child.end is not None
            node.send(name, Span(stream.root, child.end, upto, sent))
            child.end = upto
            got.append(name)
            node.flow(name).sent += 1
        node.counts["passed_on"] += len(got)
        node.counts["not_passed_on"] += len(receivers) - len(got)
        if len(got) < len(receivers):
            for name in set(receivers).difference(got):
                node.flow(name).left_out += 1
        if node.settings.trace:
            taken = frozenset(got)
            node.deliver(
                MessageRouted(stream.root, upto, message.message_id, sender, taken, frozenset(receivers) - taken)
            )
    if receivers or (sender is not None and stream.is_confirmed):
        node.arm("silence", node.settings.silence_delay)
    node.arm("report", node.settings.report_delay)


def _wanting(node: OnyxNode, message: OverlayMessage, receivers: list[Address]) -> frozenset[Address]:
    try:
        return node.route(message, receivers)
    except (RejectedMessage, WireError, UnknownDictionary) as error:
        # The root took it; that it is over a limit here is no reason for others not to get it.
        node.trouble("message", f"number {message.number} of root {message.root} is sent to all: {error}")
        return frozenset(receivers)


def send_silence(node: OnyxNode, stream: RootStream, name: Address, child: ChildLink) -> None:
    """All that a child was not sent until now was not wanted."""
    assert child.end is not None
    node.send(name, Span(stream.root, child.end, stream.end, None))
    child.end = stream.end


def tell_silence(node: OnyxNode) -> None:
    """Tell all children how far they are."""
    for stream in node.streams.values():
        for name, child in stream.children.items():
            if child.end is not None and child.end < stream.end:
                send_silence(node, stream, name, child)


# Reports.


def report(node: OnyxNode) -> None:
    """Tell parents what is stored here and below."""
    for stream in node.streams.values():
        if stream.root == node.address or not stream.is_confirmed or stream.parent is None:
            continue
        existing = _stored_below(stream)
        if existing is not None and existing != stream.reported:
            stream.reported = existing
            node.send(stream.parent, StoredReport(stream.root, *existing))
    _forget_the_unreachable(node)


def _stored_below(stream: RootStream) -> tuple[int, int] | None:
    if stream.stored is None:
        return None
    lowest, brokers = stream.stored, 1
    for child in stream.children.values():
        if child.horizon is not None:
            lowest, brokers = min(lowest, child.horizon), brokers + child.brokers
    return lowest, brokers


def on_stored_report(node: OnyxNode, sender: Address, existing: StoredReport) -> None:
    """A child says what is stored there and below."""
    stream = node.streams.get(existing.root)
    child = None if stream is None else stream.children.get(sender)
    if stream is None or child is None:
        return
    child.horizon, child.brokers = existing.horizon, existing.brokers
    if existing.root != node.address:
        node.arm("report", node.settings.report_delay)
        return
    reported = [state for state in stream.children.values() if state.horizon is not None]
    others = len(node.topology.states) - 1
    # Where somebody cannot be reached it is not known how much it has: nothing more is forgotten until it is back.
    if sum(state.brokers for state in reported) >= others:
        lowest = min(state.horizon for state in reported if state.horizon is not None)
        stream.stored = max(lowest, stream.stored or 0)


def _forget_the_unreachable(node: OnyxNode) -> None:
    for origin, since in list(node.unreachable.items()):
        if node.now - since >= node.settings.forget_delay:
            del node.unreachable[origin]
            node.topology.forget(origin)
