"""Recovery: requesting gaps from the root, passing questions up the tree and answers back.

Messages that are still under way close most gaps. So a broker waits before it asks, and asks again only if no part of
an answer has arrived. A broker without interests asks for nothing, since it misses nothing.

A long answer comes in portions. Brokers in between pass on pieces as they come and cannot hold them back. So the root
pauses after each portion until the asker, having received it, asks for the rest: no more than one portion for each gap
is under way.
"""

from __future__ import annotations

from twigcast.overlay.core import Address
from twigcast.overlay.errors import RemoteProtocolError
from twigcast.overlay.onyx.messages import Recover, Recovered, Root, RoutingQuery, Span
from twigcast.overlay.onyx.protocol import forwarding
from twigcast.overlay.onyx.protocol.events import RangeLost, ResendRequested
from twigcast.overlay.onyx.protocol.root_stream import RootStream, SequenceRange
from twigcast.overlay.onyx.protocol.state import NodeState

#: Part of `recover_retry` after which a question may be repeated. Below 1, since the timer may go off a little early.
_RETRY_SHARE = 0.9


def restart(node: NodeState, stream: RootStream) -> None:
    """Asks for the gaps at once, even if a question is under way over a former parent."""
    stream.is_recovering = False
    request_gaps(node, stream.root)


def request_gaps(node: NodeState, root: Root) -> None:
    """Asks for the gaps in the received ranges of a root."""
    stream = node.streams[root]
    gaps = stream.ranges.gaps()
    if not gaps:
        return
    query = node.table.local()
    if not query:
        for gap in gaps:
            forwarding.receive_span(node, stream, gap.after, gap.upto, None)
        return
    node.arm(("recover", root), node.settings.recover_retry)
    if stream.parent not in node.peers:
        return
    if stream.progress != stream.asked_at_progress and stream.is_recovering:
        stream.asked_at_progress = stream.progress
        return
    if stream.is_recovering and node.now - stream.asked_at < _RETRY_SHARE * node.settings.recover_retry:
        return
    stream.asked_at_progress, stream.is_recovering, stream.asked_at = stream.progress, True, node.now
    for gap in gaps[: node.settings.gaps_max]:
        _ask(node, stream, gap, query)


def _ask(node: NodeState, stream: RootStream, gap: SequenceRange, query: RoutingQuery) -> None:
    if stream.parent in node.peers:
        node.counts["asked"] += 1
        node.send(stream.parent, Recover(stream.root, gap.after, gap.upto, query, (node.address,)))


def _ask_for_rest(node: NodeState, stream: RootStream, position: int) -> None:
    """Requests the rest of the gap in which an answer has paused, and no other."""
    query = node.table.local()
    for gap in stream.ranges.gaps():
        if gap.after <= position < gap.upto and query:
            _ask(node, stream, gap, query)


def on_recover(node: NodeState, sender: Address, question: Recover) -> None:
    """Answers the question of a broker below, or passes it up."""
    if not question.route or question.route[-1] != sender:
        raise RemoteProtocolError("order", "a question came another way than its route says")
    if question.root == node.address:
        _request_resend(node, question)
        return
    stream = node.streams.get(question.root)
    if stream is None or stream.parent not in node.peers:
        return
    if node.address in question.route or len(question.route) >= node.settings.hops_max:
        node.counts["questions_gone_round"] += 1
        return
    node.send(stream.parent, question._replace(route=(*question.route, node.address)))


def _request_resend(node: NodeState, question: Recover) -> None:
    end = node.streams[node.address].end
    if question.upto > end:
        node.warn(
            "question",
            f"broker {question.route[0]} asks for number {question.upto} of this one, whose last is {end}: "
            "its store is older than what others know of it",
        )
        question = question._replace(upto=end)
    if question.after < question.upto:
        node.deliver(ResendRequested(question))


def answer(node: NodeState, piece: Recovered) -> None:
    """Sends a piece of an answer to the next broker of its route."""
    if piece.route and piece.route[0] in node.peers:
        node.send(piece.route[0], piece)
    else:
        node.counts["answers_dropped"] += 1


def on_recovered(node: NodeState, sender: Address, piece: Recovered) -> None:
    """Takes a piece of an answer, or passes it on."""
    if not piece.route or piece.route[0] != node.address:
        raise RemoteProtocolError("order", "an answer came that is not for this broker")
    if len(piece.route) > 1:
        answer(node, piece._replace(route=piece.route[1:]))
        return
    _receive(node, piece.span, is_lost=piece.lost, pauses=piece.pauses)


def _receive(node: NodeState, span: Span, *, is_lost: bool, pauses: bool) -> None:
    stream = node.streams.get(span.root)
    if stream is None or stream.root == node.address or stream.ranges.horizon is None:
        return
    message = span.message
    if message is not None and (message.root, message.number) != (span.root, span.upto):
        raise RemoteProtocolError("order", f"a recovered span of root {span.root} contradicts itself")
    stream.progress += 1
    node.counts["recovered"] += 1
    if is_lost:
        for piece in stream.ranges.missing(span.after, span.upto):
            node.deliver(RangeLost(span.root, *piece))
    forwarding.receive_span(node, stream, span.after, span.upto, message)
    if not stream.ranges.gaps():
        stream.is_recovering = False
    elif pauses:
        _ask_for_rest(node, stream, span.upto)


def backwards(question: Recover) -> tuple[Address, ...]:
    """Returns the route of an answer to a question."""
    return tuple(reversed(question.route))
