"""Gaps: asking the root for what is missing, passing questions up and answers back.

What is under way closes most gaps by itself; so a broker waits before it asks, and asks again only where nothing of an
answer came. A broker whose users want nothing asks for nothing: it knows all there is to know for them.

A long answer comes in portions. Brokers in between pass on what they get as it comes, and cannot hold it; so the root
pauses after a portion, and the asker asks on when it has that: no more is under way than a portion for each gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import Recover, Recovered, Root, RoutingQuery, Span
from twigcast.overlay.onyx.protocol import forwarding
from twigcast.overlay.onyx.protocol.errors import RemoteProtocolError
from twigcast.overlay.onyx.protocol.events import RangeLost, ResendRequested
from twigcast.overlay.onyx.protocol.root_stream import RootStream, SequenceRange

if TYPE_CHECKING:
    from twigcast.overlay.onyx.protocol.node import OnyxNode


def begin(node: OnyxNode, stream: RootStream) -> None:
    """There is a way to a root again: ask for the gaps at once, also where a question was on its way over another."""
    stream.is_recovering = False
    request_gaps(node, stream.root)


def request_gaps(node: OnyxNode, root: Root) -> None:
    """Ask for the gaps in what is known of a root."""
    stream = node.streams[root]
    gaps = stream.knowledge.gaps()
    if not gaps:
        return
    requested = node.table.local()
    if not requested:
        for gap in gaps:
            forwarding.receive_span(node, stream, gap.after, gap.upto, None)
        return
    node.arm(("recover", root), node.settings.recover_retry)
    if stream.parent not in node.peers:
        return
    if stream.progress != stream.asked_at_progress and stream.is_recovering:
        stream.asked_at_progress = stream.progress
        return
    if stream.is_recovering and node.now - stream.asked_at < 0.9 * node.settings.recover_retry:
        return
    stream.asked_at_progress, stream.is_recovering, stream.asked_at = stream.progress, True, node.now
    for gap in gaps[: node.settings.gaps_max]:
        _ask(node, stream, gap, requested)


def _ask(node: OnyxNode, stream: RootStream, gap: SequenceRange, requested: RoutingQuery) -> None:
    if stream.parent in node.peers:
        node.counts["asked"] += 1
        node.send(stream.parent, Recover(stream.root, gap.after, gap.upto, requested, (node.address,)))


def _ask_on(node: OnyxNode, stream: RootStream, position: int) -> None:
    """The answer to a question has paused at a number: ask for the rest of that gap, and no other."""
    requested = node.table.local()
    for gap in stream.knowledge.gaps():
        if gap.after <= position < gap.upto and requested:
            _ask(node, stream, gap, requested)


def on_recover(node: OnyxNode, sender: Address, question: Recover) -> None:
    """Somebody below misses something."""
    if not question.route or question.route[-1] != sender:
        raise RemoteProtocolError("order", "a question that came another way than it says")
    if question.root == node.address:
        _put_to_the_store(node, question)
        return
    stream = node.streams.get(question.root)
    if stream is None or stream.parent not in node.peers:
        return
    if node.address in question.route or len(question.route) >= node.settings.hops_max:
        node.counts["questions_gone_round"] += 1
        return
    node.send(stream.parent, question._replace(route=(*question.route, node.address)))


def _put_to_the_store(node: OnyxNode, question: Recover) -> None:
    end = node.streams[node.address].end
    if question.upto > end:
        node.trouble(
            "question",
            f"broker {question.route[0]} asks for number {question.upto} of this one, whose last is {end}: "
            "its store is older than what others know of it",
        )
        question = question._replace(upto=end)
    if question.after < question.upto:
        node.deliver(ResendRequested(question))


def answer(node: OnyxNode, piece: Recovered) -> None:
    """Send a piece of an answer on its way: the next broker first, the asker last."""
    if piece.route and piece.route[0] in node.peers:
        node.send(piece.route[0], piece)
    else:
        node.counts["answers_dropped"] += 1


def on_recovered(node: OnyxNode, sender: Address, piece: Recovered) -> None:
    """A piece of an answer: for oneself, or to be passed on."""
    if not piece.route or piece.route[0] != node.address:
        raise RemoteProtocolError("order", "an answer that is not for here")
    if len(piece.route) > 1:
        answer(node, piece._replace(route=piece.route[1:]))
        return
    _take(node, piece.span, is_lost=piece.lost, pauses=piece.pauses)


def _take(node: OnyxNode, span: Span, *, is_lost: bool, pauses: bool) -> None:
    stream = node.streams.get(span.root)
    if stream is None or stream.root == node.address or stream.knowledge.horizon is None:
        return
    message = span.message
    if message is not None and (message.root, message.number) != (span.root, span.upto):
        raise RemoteProtocolError("order", f"a recovered span of root {span.root} contradicts itself")
    stream.progress += 1
    node.counts["recovered"] += 1
    if is_lost:
        for piece in stream.knowledge.unknown(span.after, span.upto):
            node.deliver(RangeLost(span.root, *piece))
    forwarding.receive_span(node, stream, span.after, span.upto, message)
    if not stream.knowledge.gaps():
        stream.is_recovering = False
    elif pauses:
        _ask_on(node, stream, span.upto)


def backwards(question: Recover) -> tuple[Address, ...]:
    """The way of an answer to a question."""
    return tuple(reversed(question.route))
