"""Attachments: who is the parent of whom in the tree of each root, and from when on spans of the parent count.

A broker sends its parent its interests and then `Attach`. From then on the parent passes on what it receives of the
root. It adds these interests to its own, and sends them and its own `Attach` to its parent in turn, unless its own
are confirmed already. The root answers with `Attached`, which travels back down. So trees consist of attachments: a
message follows confirmed attachments only, whatever brokers currently believe about the links.

Changes are collected and sent together by `flush`, always in this order: links, detachments, interests, attachments.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

from twigcast.overlay.core import Address
from twigcast.overlay.errors import RemoteProtocolError
from twigcast.overlay.onyx.content.projection import PART_CHARACTERS_MAX, read_part
from twigcast.overlay.onyx.content.routing_table import BroadcastTrees
from twigcast.overlay.onyx.messages import Attach, Attached, Detach, RoutingDelta, SetProjection
from twigcast.overlay.onyx.protocol import flooding, forwarding, recovery
from twigcast.overlay.onyx.protocol.events import InterestSettled
from twigcast.overlay.onyx.protocol.link_projection import SCOPES_MAX, ProjectionSet
from twigcast.overlay.onyx.protocol.root_stream import ChildLink, RootStream
from twigcast.overlay.onyx.protocol.state import NodeState

_T = TypeVar("_T")


def flush(node: NodeState) -> None:
    """Sends neighbours all that has changed."""
    flooding.flood_own_links(node)
    if node.has_changed_links:
        node.has_changed_links = False
        _choose_parents(node)
    if node.has_changed_trees:
        node.has_changed_trees = False
        node.table.set_trees(_trees(node))
    _send_interests(node)
    for stream in node.streams.values():
        _settle_children(node, stream)
    _note_settling(node)


# Parents.


def _choose_parents(node: NodeState) -> None:
    roots = node.settings.roots
    node.parents = {
        root: parent
        for root, parent in node.topology.parents().items()
        if parent in node.peers and (roots is None or root in roots)
    }
    for root in node.parents:
        node.stream(root)
    for root, stream in node.streams.items():
        parent = node.parents.get(root)
        if root != node.address and parent != stream.parent:
            _change_parent(node, stream, parent)
    _note_unreachable(node)


def _change_parent(node: NodeState, stream: RootStream, parent: Address | None) -> None:
    if stream.parent in node.links:
        node.send(stream.parent, Detach(stream.root))
    stream.leave_parent()
    stream.parent = parent
    stream.since = stream.number + 1
    stream.is_attach_due = parent is not None
    node.has_changed_trees = True
    # The path to the root leads over the parent, so a broker below this one cannot be on it.
    for child, link in list(stream.held.items()):
        if child != parent:
            del stream.held[child]
            stream.children[child] = link
    if parent in stream.children:
        link = stream.children.pop(parent)
        stream.held[parent] = ChildLink(link.number, link.hops)


def _note_unreachable(node: NodeState) -> None:
    if node.settings.roots is not None:
        return
    for origin in node.topology.states:
        if origin in node.parents or origin == node.address:
            node.unreachable.pop(origin, None)
        else:
            node.unreachable.setdefault(origin, node.now)


def _trees(node: NodeState) -> BroadcastTrees:
    return BroadcastTrees(
        {root: stream.parent for root, stream in node.streams.items() if stream.parent is not None},
        {root: frozenset(stream.children) for root, stream in node.streams.items() if stream.children},
    )


# Interests.


def _send_interests(node: NodeState) -> None:
    parents = {stream.parent for stream in node.streams.values()}
    for neighbour in sorted(node.peers):
        if neighbour in parents or node.deltas_sent[neighbour]:
            _send_projection(node, neighbour)
            delta = node.table.delta(neighbour)
            if delta is not None:
                for part in _split(delta, node.deltas_sent[neighbour], node.settings.disjuncts_per_delta):
                    node.send(neighbour, part)
                    node.deltas_sent[neighbour] += 1


def _send_projection(node: NodeState, neighbour: Address) -> None:
    if node.projections is not None:
        attached = {child for stream in node.streams.values() for child in (*stream.children, *stream.held)}
        update = node.projections.update_for(neighbour, attached - {neighbour})
        if update is not None:
            node.send(neighbour, update)


def _split(delta: RoutingDelta, version: int, size_max: int) -> Iterator[RoutingDelta]:
    """Splits a delta. Additions come first, so that the announcement is never too narrow in between."""
    parts = [RoutingDelta(0, some, ()) for some in _slices(delta.interests, size_max)]
    parts += [RoutingDelta(0, (), some) for some in _slices(delta.unwanted, size_max)]
    for number, part in enumerate(parts or [delta], version):
        yield part._replace(version=number)


def _slices(items: Sequence[_T], size: int) -> Iterator[tuple[_T, ...]]:
    for start in range(0, len(items), size):
        yield tuple(items[start : start + size])


def _announcement_count(node: NodeState, neighbour: Address) -> int:
    """Returns how many changes of interests or projections a neighbour was sent on the current link."""
    sent = node.deltas_sent[neighbour]
    return sent if node.projections is None else sent + node.projections.sent[neighbour]


def on_routing_delta(node: NodeState, sender: Address, delta: RoutingDelta) -> None:
    """Applies changes of what a neighbour wants."""
    if not node.table.apply(sender, delta):
        raise RemoteProtocolError("order", f"interests of version {delta.version} do not follow the previous ones")
    if node.table.remote_count(sender) > node.settings.disjuncts_max:
        raise RemoteProtocolError("size", f"it wants more than {node.settings.disjuncts_max:,} conjunctions")
    node.arm_flush()


def on_set_projection(node: NodeState, sender: Address, update: SetProjection) -> None:
    """Replaces what a neighbour uses of messages."""
    if node.projections is None:
        return
    if len(update.parts) > SCOPES_MAX or any(len(text) > PART_CHARACTERS_MAX for _, text in update.parts):
        raise RemoteProtocolError("size", "it names too many parts of messages, or too large ones")
    parts = {scope: read_part(text) for scope, text in update.parts}
    node.projections.apply(sender, ProjectionSet(parts, update.rest))
    node.arm_flush()


# Children.


def on_attach(node: NodeState, sender: Address, attach: Attach) -> None:
    """Attaches a neighbour to the tree of a root."""
    if attach.root not in node.streams and attach.root not in node.topology.states:
        # The link state of the root came before, on the same link. If it was forgotten here, the neighbour asks again.
        node.counts["unknown_roots"] += 1
        return
    stream = node.stream(attach.root)
    if sender == stream.parent:
        stream.held[sender] = ChildLink(attach.number, attach.hops)
        return
    child = stream.children.get(sender)
    if child is None:
        stream.children[sender] = ChildLink(attach.number, attach.hops)
        node.has_changed_trees = True
    else:
        child.number, child.hops, child.awaits, child.is_answered = attach.number, attach.hops, None, False
    node.arm_flush()


def on_detach(node: NodeState, sender: Address, detach: Detach) -> None:
    """Removes a neighbour from the tree of a root."""
    stream = node.streams.get(detach.root)
    if stream is not None:
        _drop_child(node, stream, sender)


def _drop_child(node: NodeState, stream: RootStream, neighbour: Address) -> None:
    stream.held.pop(neighbour, None)
    if stream.children.pop(neighbour, None) is not None:
        node.has_changed_trees = True
        node.arm_flush()


def link_down(node: NodeState, neighbour: Address) -> None:
    """Removes all attachments over a link."""
    node.deltas_sent.pop(neighbour, None)
    for stream in node.streams.values():
        _drop_child(node, stream, neighbour)
        if stream.parent == neighbour:
            stream.leave_parent()
            node.parents.pop(stream.root, None)
            node.has_changed_trees = True


def _settle_children(node: NodeState, stream: RootStream) -> None:
    """Answers the children that can be answered, and sends the parent an `Attach` for the others."""
    waiting = [child for child, link in stream.children.items() if not link.is_answered]
    parent = stream.parent
    is_root = stream.root == node.address
    announced = -1 if parent is None else _announcement_count(node, parent)
    if is_root or (stream.is_confirmed and stream.confirmed_announced == announced):
        for child in waiting:
            _answer(node, stream, child)
        waiting = []
    if parent is None or parent not in node.peers:
        return
    links = [stream.children[name] for name in waiting]
    hops_max = min(node.settings.hops_max, len(node.topology.states))
    fresh = [link for link in links if link.awaits is None and link.hops < hops_max]
    if fresh or stream.is_attach_due:
        _attach(node, stream, parent, 1 + max((link.hops for link in fresh), default=0))
        for link in fresh:
            link.awaits = stream.number


def _attach(node: NodeState, stream: RootStream, parent: Address, hops: int) -> None:
    stream.is_attach_due = False
    stream.number += 1
    stream.announced[stream.number] = _announcement_count(node, parent)
    stream.sent_at = node.now
    node.send(parent, Attach(stream.root, stream.number, hops))
    node.arm("attach", node.settings.attach_delay)


def retry(node: NodeState) -> None:
    """Sends unconfirmed attachments again, and those that had reached the greatest number of hops."""
    delay = node.settings.attach_delay
    for stream in node.streams.values():
        if not stream.announced or stream.parent is None:
            continue
        node.arm("attach", delay)
        if node.now - stream.sent_at >= delay:
            for child in stream.children.values():
                child.awaits = None if not child.is_answered else child.awaits
            stream.is_attach_due = True
            node.arm_flush()


def on_attached(node: NodeState, sender: Address, attached: Attached) -> None:
    """Records from which position on the spans of the parent count."""
    stream = node.streams.get(attached.root)
    if stream is None or sender != stream.parent or not stream.since <= attached.number <= stream.number:
        return
    is_first = not stream.is_confirmed
    if attached.number in stream.announced:
        stream.confirmed_announced = stream.announced[attached.number]
    stream.announced = {number: count for number, count in stream.announced.items() if number > attached.number}
    stream.confirmed = max(stream.confirmed or 0, attached.number)
    if is_first or attached.position > stream.end:
        forwarding.start_stream_at(node, stream, attached.position)
    if is_first and stream.ranges.gaps():
        # Nothing from before is under way, so waiting would close no gap.
        recovery.restart(node, stream)
    for name, child in list(stream.children.items()):
        if not child.is_answered and child.awaits is not None and child.awaits <= attached.number:
            _answer(node, stream, name)
    if not all(child.is_answered for child in stream.children.values()):
        node.arm_flush()
    _check_settled(node)


def _answer(node: NodeState, stream: RootStream, name: Address) -> None:
    child = stream.children[name]
    if child.end is not None and child.end < stream.end:
        forwarding.send_empty_span(node, stream, name, child)
    child.end = stream.end
    child.is_answered = True
    node.send(name, Attached(stream.root, child.number, stream.end))


# Settling.


def settle(node: NodeState, token: Hashable) -> None:
    """Hands the application `InterestSettled` as soon as all roots know the current interests."""
    node.settling[token] = None
    for stream in node.streams.values():
        stream.is_attach_due = stream.parent is not None
    node.arm_flush()


def _note_settling(node: NodeState) -> None:
    for token, numbers in list(node.settling.items()):
        if numbers is None:
            node.settling[token] = {
                root: stream.number for root, stream in node.streams.items() if stream.parent is not None
            }
    _check_settled(node)


def _check_settled(node: NodeState) -> None:
    for token, numbers in list(node.settling.items()):
        if numbers is not None and all(_has_settled(node.streams[root], number) for root, number in numbers.items()):
            del node.settling[token]
            node.deliver(InterestSettled(token))


def _has_settled(stream: RootStream, number: int) -> bool:
    """Returns whether the root has confirmed an attachment, or is unreachable: what is missed is requested later."""
    return stream.parent is None or (stream.confirmed is not None and stream.confirmed >= number)
