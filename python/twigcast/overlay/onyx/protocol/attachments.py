"""Who is whose parent in the tree of each root, and from when on what comes from there counts.

A broker sends its parent its wishes and, behind them, `Attach`. The parent knows from then on that what it hears from
the root is to be passed on; it sends its own wishes, now with these among them, and its own `Attach` to its parent in
turn, unless its wishes were confirmed before. `Attached` comes back from the root. So trees consist of attachments: a
message goes where a confirmed one leads, however brokers think of the links just then.

Changes are gathered and told together (`flush`), always in this order: links, detachments, wishes, attachments.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.routing_table import BroadcastTrees
from twigcast.overlay.onyx.messages import Attach, Attached, Detach, Root, RoutingDelta
from twigcast.overlay.onyx.protocol import flooding, forwarding, link_projection, recovery
from twigcast.overlay.onyx.protocol.errors import RemoteProtocolError
from twigcast.overlay.onyx.protocol.events import InterestSettled
from twigcast.overlay.onyx.protocol.root_stream import ChildLink, RootStream

if TYPE_CHECKING:
    from twigcast.overlay.onyx.protocol.node import OnyxNode

_T = TypeVar("_T")


def flush(node: OnyxNode) -> None:
    """Tell neighbours of all that has changed."""
    flooding.tell_own_links(node)
    if node.has_moved:
        node.has_moved = False
        _choose_parents(node)
    if node.trees_changed:
        node.trees_changed = False
        node.table.set_trees(_trees(node))
    _send_interests(node)
    for stream in node.streams.values():
        _settle_children(node, stream)
    _note_settling(node)


# Parents.


def _choose_parents(node: OnyxNode) -> None:
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


def _change_parent(node: OnyxNode, stream: RootStream, parent: Address | None) -> None:
    if stream.parent in node.links:
        node.send(stream.parent, Detach(stream.root))
    stream.leave_parent()
    stream.parent = parent
    stream.since = stream.number + 1
    stream.is_wanting = parent is not None
    node.trees_changed = True
    # The way to the root leads over the parent: what is below cannot be there too.
    for child, state in list(stream.held.items()):
        if child != parent:
            del stream.held[child]
            stream.children[child] = state
    if parent in stream.children:
        stream.held[parent] = _begun_again(stream.children.pop(parent))


def _begun_again(child: ChildLink) -> ChildLink:
    return ChildLink(child.number, child.hops)


def _note_unreachable(node: OnyxNode) -> None:
    if node.settings.roots is not None:
        return
    for origin in node.topology.states:
        if origin in node.parents or origin == node.address:
            node.unreachable.pop(origin, None)
        else:
            node.unreachable.setdefault(origin, node.now)


def _trees(node: OnyxNode) -> BroadcastTrees:
    return BroadcastTrees(
        {root: stream.parent for root, stream in node.streams.items() if stream.parent is not None},
        {root: frozenset(stream.children) for root, stream in node.streams.items() if stream.children},
    )


# Wishes.


def _send_interests(node: OnyxNode) -> None:
    parents = {stream.parent for stream in node.streams.values()}
    for neighbour in sorted(node.peers):
        if neighbour in parents or node.deltas_sent[neighbour]:
            link_projection.tell(node, neighbour)
            delta = node.table.delta(neighbour)
            if delta is not None:
                for part in _parts(delta, node.deltas_sent[neighbour], node.settings.disjuncts_per_delta):
                    node.send(neighbour, part)
                    node.deltas_sent[neighbour] += 1


def _parts(delta: RoutingDelta, version: int, most: int) -> Iterator[RoutingDelta]:
    """A delta in pieces: what is wanted first, so that it is never narrower in between."""
    parts = [RoutingDelta(0, some, ()) for some in _cut(delta.interests, most)]
    parts += [RoutingDelta(0, (), some) for some in _cut(delta.unwanted, most)]
    for number, part in enumerate(parts or [delta], version):
        yield part._replace(version=number)


def _cut(items: Sequence[_T], most: int) -> Iterator[tuple[_T, ...]]:
    for start in range(0, len(items), most):
        yield tuple(items[start : start + most])


def on_routing_delta(node: OnyxNode, sender: Address, delta: RoutingDelta) -> None:
    """A neighbour wants something else."""
    if not node.table.apply(sender, delta):
        raise RemoteProtocolError("order", f"wishes of version {delta.version} do not follow on what it said before")
    if node.table.remote_count(sender) > node.settings.disjuncts_max:
        raise RemoteProtocolError("size", f"it wants more than {node.settings.disjuncts_max:,} conjunctions")
    node.soon()


# Children.


def on_attach(node: OnyxNode, sender: Address, attach: Attach) -> None:
    """A neighbour wants to be sent what comes from a root."""
    if attach.root not in node.streams and attach.root not in node.topology.states:
        # Who that is has been said before, on the same link. If it was forgotten here, it will be asked again.
        node.counts["unknown_roots"] += 1
        return
    stream = node.stream(attach.root)
    if sender == stream.parent:
        stream.held[sender] = ChildLink(attach.number, attach.hops)
        return
    child = stream.children.get(sender)
    if child is None:
        stream.children[sender] = ChildLink(attach.number, attach.hops)
        node.trees_changed = True
    else:
        child.number, child.hops, child.awaits, child.is_answered = attach.number, attach.hops, None, False
    node.soon()


def on_detach(node: OnyxNode, sender: Address, detach: Detach) -> None:
    """A neighbour wants nothing more of a root."""
    stream = node.streams.get(detach.root)
    if stream is not None:
        _drop_child(node, stream, sender)


def _drop_child(node: OnyxNode, stream: RootStream, neighbour: Address) -> None:
    stream.held.pop(neighbour, None)
    if stream.children.pop(neighbour, None) is not None:
        node.trees_changed = True
        node.soon()


def link_down(node: OnyxNode, neighbour: Address) -> None:
    """All attachments over a link are gone."""
    node.deltas_sent.pop(neighbour, None)
    for stream in node.streams.values():
        _drop_child(node, stream, neighbour)
        if stream.parent == neighbour:
            stream.leave_parent()
            node.parents.pop(stream.root, None)
            node.trees_changed = True


def _settle_children(node: OnyxNode, stream: RootStream) -> None:
    """Answer the children that may be answered, and ask the parent for what the others need."""
    waiting = [child for child, state in stream.children.items() if not state.is_answered]
    parent = stream.parent
    is_root = stream.root == node.address
    reported = -1 if parent is None else link_projection.announcement_count(node, parent)
    if is_root or (stream.is_confirmed and stream.confirmed_announced == reported):
        for child in waiting:
            _answer(node, stream, child)
        waiting = []
    if parent is None or parent not in node.peers:
        return
    states = [stream.children[name] for name in waiting]
    fresh = [state for state in states if state.awaits is None and _may_go_on(node, state.hops)]
    if fresh or stream.is_wanting:
        _attach(node, stream, parent, 1 + max((state.hops for state in fresh), default=0))
        for state in fresh:
            state.awaits = stream.number


def _may_go_on(node: OnyxNode, hops: int) -> bool:
    return hops < min(node.settings.hops_max, len(node.topology.states))


def _attach(node: OnyxNode, stream: RootStream, parent: Address, hops: int) -> None:
    stream.is_wanting = False
    stream.number += 1
    stream.announced[stream.number] = link_projection.announcement_count(node, parent)
    stream.sent_at = node.now
    node.send(parent, Attach(stream.root, stream.number, hops))
    node.arm("attach", node.settings.attach_delay)


def ask_again(node: OnyxNode) -> None:
    """Attachments that were not confirmed are asked for again, and those that went round too long get another try."""
    delay = node.settings.attach_delay
    for stream in node.streams.values():
        if not stream.announced or stream.parent is None:
            continue
        node.arm("attach", delay)
        if node.now - stream.sent_at >= delay:
            for child in stream.children.values():
                child.awaits = None if not child.is_answered else child.awaits
            stream.is_wanting = True
            node.soon()


def on_attached(node: OnyxNode, sender: Address, attached: Attached) -> None:
    """The parent says from when on its spans count."""
    stream = node.streams.get(attached.root)
    if stream is None or sender != stream.parent or not stream.since <= attached.number <= stream.number:
        return
    is_first = not stream.is_confirmed
    if attached.number in stream.announced:
        stream.confirmed_announced = stream.announced[attached.number]
    stream.announced = {number: reported for number, reported in stream.announced.items() if number > attached.number}
    stream.confirmed = max(stream.confirmed or 0, attached.number)
    if is_first or attached.position > stream.end:
        forwarding.start_stream_at(node, stream, attached.position)
    if is_first and stream.knowledge.gaps():
        # Of what was before, nothing is under way: waiting would close no gap.
        recovery.begin(node, stream)
    for name, child in list(stream.children.items()):
        if not child.is_answered and child.awaits is not None and child.awaits <= attached.number:
            _answer(node, stream, name)
    if not all(child.is_answered for child in stream.children.values()):
        node.soon()
    _check_settled(node)


def _answer(node: OnyxNode, stream: RootStream, name: Address) -> None:
    child = stream.children[name]
    if child.end is not None and child.end < stream.end:
        forwarding.send_silence(node, stream, name, child)
    child.end = stream.end
    child.is_answered = True
    node.send(name, Attached(stream.root, child.number, stream.end))


# Settling.


def settle(node: OnyxNode, token: Hashable) -> None:
    """Tell the application when all roots have heard of what is wanted now."""
    node.settling[token] = None
    for stream in node.streams.values():
        stream.is_wanting = stream.parent is not None
    node.soon()


def _note_settling(node: OnyxNode) -> None:
    for token, numbers in list(node.settling.items()):
        if numbers is None:
            node.settling[token] = {
                root: stream.number for root, stream in node.streams.items() if stream.parent is not None
            }
    _check_settled(node)


def _check_settled(node: OnyxNode) -> None:
    for token, numbers in list(node.settling.items()):
        if numbers is not None and all(_has_settled(node.streams[root], number) for root, number in numbers.items()):
            del node.settling[token]
            node.deliver(InterestSettled(token))


def _has_settled(stream: RootStream, number: int) -> bool:
    """Whether the root has heard of it, or cannot be reached: then what is missed will be asked for."""
    return stream.parent is None or (stream.confirmed is not None and stream.confirmed >= number)


def unsettled_roots(node: OnyxNode) -> set[Root]:
    """The roots that can be reached, and whose spans do not count yet."""
    return {root for root, stream in node.streams.items() if stream.parent is not None and not stream.is_confirmed}
