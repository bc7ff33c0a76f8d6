"""Links between nodes: announcing queries, confirming them, attaching, detaching, handing over (CoDD, section 3; ours).

An announcement climbs until a node already asks for the same; from there, and from the root, the confirmation comes
back down. It carries the number of the first document that is sure to come, which is what a hand-over without loss
needs.
"""

from __future__ import annotations

from collections.abc import Iterable

from twigcast.overlay.codd.engine import Query
from twigcast.overlay.codd.messages import (
    AddChild,
    AttachConfirmation,
    ChangeQueries,
    EndOfStream,
    Gap,
    JoinedTree,
    Leave,
    Reject,
    Replay,
    ReplayDone,
    Replayed,
    StreamEnded,
    TreeFailure,
)
from twigcast.overlay.codd.node import Child, CoddNode, Replaying, Uplink
from twigcast.overlay.core import Address

# Announcing.


def change_announcement(node: CoddNode, added: Iterable[Query], removed: Iterable[Query]) -> bool:
    """Counts queries in and out, and informs all parents if that changes what the subtree asks for.

    Returns whether it did.
    """
    come, gone = node.filter.change(added, removed)
    if not come and not gone:
        return False
    for link in node.uplinks:
        link.version += 1
        node.send(link.parent, ChangeQueries(come, gone, link.version, link.epoch))
    return True


def on_change_queries(node: CoddNode, sender: Address, message: ChangeQueries) -> None:
    """Applies a change of a child's queries."""
    child = node.children.get(sender)
    if child is None or child.epoch != message.epoch:
        node.send(sender, Reject("it is no child any more", message.epoch))
        return
    child.queries |= message.added
    child.queries -= message.removed
    child.mask = node.engine.mask(child.queries) if message.removed else child.mask | node.engine.mask(message.added)
    change_announcement(node, message.added, message.removed)
    confirm_child(node, sender, child, message.version)


def confirm_child(node: CoddNode, address: Address, child: Child, version: int) -> None:
    """Confirms a child's announcement, now or when the path above carries this node's own."""
    if node.is_root or _is_carried(node):
        _send_attached(node, address, version, 0 if node.is_root else node.uplinks[0].sure)
    else:
        child.waiting.append((node.uplinks[0].version if node.uplinks else 0, version))


def _is_carried(node: CoddNode) -> bool:
    """Returns whether the parent has confirmed everything that the node announces."""
    return bool(node.uplinks) and node.uplinks[0].first > 0 and node.uplinks[0].confirmed >= node.uplinks[0].version


def _send_attached(node: CoddNode, address: Address, version: int, first: int) -> None:
    first = max(first, node.newest + 1)
    epoch = node.children[address].epoch
    node.send(address, AttachConfirmation(version, first, (node.address, *node.ancestors), epoch))


def on_attached(node: CoddNode, sender: Address, message: AttachConfirmation) -> None:
    """Notes the confirmation of an announcement, and passes it on to the children who wait for it."""
    if node.last >= 0:
        # The stream has ended meanwhile: nobody begins anew.
        return
    link = node.uplink(sender)
    if link is None or link.epoch != message.epoch:
        # An attachment given up meanwhile, whose farewell was overtaken or lost.
        node.send(sender, Leave(message.epoch))
        return
    link.received_at = node.now
    link.confirmed = max(link.confirmed, message.version)
    link.sure = max(link.sure, message.first)
    link.ancestors = message.ancestors
    if link.first == 0:
        link.first = message.first
        link.watermark = max(link.watermark, message.first - 1)
        _begin(node, link)
    elif node.uplinks[0] is not link:
        # Something was announced during the move: the former parent stays until the new path carries that, too.
        link.first = max(link.first, message.first)
        covered(node)
    if node.uplinks[0] is link:
        confirm_waiting(node, link.sure)


def confirm_waiting(node: CoddNode, first: int) -> None:
    """Confirms the children's announcements that the path above now carries."""
    link = node.uplinks[0]
    for address, child in node.children.items():
        for needed, version in list(child.waiting):
            if needed <= link.confirmed:
                child.waiting.remove((needed, version))
                _send_attached(node, address, version, first)


# The producer.


def start_producer(node: CoddNode) -> None:
    """Begins to send heartbeats, also while there is nothing to publish."""
    if node.settings.heartbeat:
        on_beat_timer(node)


def on_beat_timer(node: CoddNode) -> None:
    """Sends a heartbeat that is due."""
    if node.active:
        node.round += 1
        node.beat()
        node.set_timer(node.settings.heartbeat_time, "beat")


# Attaching.


def attach(node: CoddNode, parent: Address, replaces: Address = -1) -> None:
    """Asks a node to be this one's next parent. The present one stays until the new path delivers."""
    node.moving_to = parent
    for link in node.uplinks:
        if not link.first and link.parent != parent:
            node.send(link.parent, Leave(link.epoch))
    node.uplinks = [link for link in node.uplinks if link.first and link.parent != parent]
    epoch = node.new_token()
    node.uplinks.append(Uplink(parent, epoch, node.now, (parent,)))
    node.send(parent, AddChild(node.filter.announced, epoch, replaces))


def on_add_child(node: CoddNode, sender: Address, message: AddChild) -> None:
    """Takes in a child, if there is capacity and it is not above this node."""
    if node.last >= 0:
        node.send(sender, EndOfStream(node.last))
        return
    if sender in node.ancestors or sender == node.address:
        node.send(sender, Reject("that would make a cycle", message.epoch))
        return
    replaced = node.children.get(message.replaces)
    if sender not in node.children:
        if replaced is not None and not replaced.leaving and node.active and not node.leaving:
            replaced.leaving = True
        elif not node.has_capacity():
            node.send(sender, Reject("it is full", message.epoch))
            return
    else:
        remove_child(node, sender)
    queries = message.queries
    child = node.children[sender] = Child(set(queries), node.engine.mask(queries), message.epoch)
    change_announcement(node, queries, ())
    confirm_child(node, sender, child, 0)


def _begin(node: CoddNode, link: Uplink) -> None:
    """Begins to count on a new link, after the first confirmation: documents from `first` on will come."""
    node.moving_to = -1
    if not node.active:
        node.active = True
        node.watermark = link.first - 1
        node.newest = max(node.newest, node.watermark)
        node.ancestors = link.ancestors
        node.uplinks = [link]
        node.deliver(JoinedTree(link.parent, link.first))
        node.hooks["started"](node)
    elif node.uplinks[0] is link:
        # The former parent is gone: the producer has what came between.
        node.ancestors = link.ancestors
        ask_for_replay(node, link.first)
        node.hooks["moved"](node, -1)
    covered(node)


def ask_for_replay(node: CoddNode, before: int) -> None:
    """Asks the producer for the documents between the watermark and `before`."""
    if before > node.watermark + 1 and node.settings.heartbeat:
        token = node.new_token()
        node.replaying = Replaying(token, node.watermark, before)
        node.send(node.root, Replay(node.filter.announced, node.watermark, before, token))
        node.set_timer(4 * node.settings.join_timeout, ("replay", token))


def on_replay_timer(node: CoddNode, token: int) -> None:
    """Asks again for a replay whose end has not come."""
    if node.replaying is not None and node.replaying.token == token:
        ask_for_replay(node, node.replaying.before)


def on_replay(node: CoddNode, sender: Address, message: Replay) -> None:
    """Sends again, as the producer, what is still kept."""
    mask = node.engine.mask(message.queries)
    count = 0
    for item in node.store:
        if message.after < item.number < message.before and node.engine.satisfied(item) & mask:
            node.send(sender, Replayed(item, message.token))
            count += 1
    oldest = node.store[0].number if node.store else node.newest + 1
    node.send(sender, ReplayDone(message.token, count, max(0, min(oldest, message.before) - message.after - 1)))


def on_replay_done(node: CoddNode, sender: Address, message: ReplayDone) -> None:
    """Ends a replay, unless a session was lost on the way and documents with it."""
    replaying = node.replaying
    if replaying is None or replaying.token != message.token:
        return
    if replaying.repeated < message.repeated:
        ask_for_replay(node, replaying.before)
        return
    if message.lost:
        node.deliver(Gap(message.lost))
    node.replaying = None
    node.watermark = max(node.watermark, replaying.before - 1)
    covered(node)


# Detaching.


def covered(node: CoddNode) -> None:
    """Advances after a link covers more, and drops a former parent that is no longer needed."""
    if node.replaying is None:
        node.advance()
    if len(node.uplinks) > 1:
        new = node.uplinks[-1]
        complete = not node.settings.heartbeat or node.watermark >= new.first - 1
        if new.first and new.confirmed >= new.version and complete:
            _drop_former(node, new)


def _drop_former(node: CoddNode, new: Uplink) -> None:
    for link in node.uplinks[:-1]:
        node.send(link.parent, Leave(link.epoch))
    former = node.uplinks[0].parent
    node.uplinks = [new]
    node.ancestors = new.ancestors
    node.beat()
    if new.last >= 0:
        _end_on(node, new)
        return
    node.hooks["moved"](node, former)
    confirm_waiting_all(node)


def confirm_waiting_all(node: CoddNode) -> None:
    """Turns, after a change of parents, what waits for a confirmation to that of the present parent."""
    link = node.uplinks[0]
    if link.confirmed >= link.version:
        for child in node.children.values():
            child.waiting = [(0, version) for _, version in child.waiting]
        confirm_waiting(node, link.sure)
    else:
        for child in node.children.values():
            child.waiting = [(link.version, version) for _, version in child.waiting]


def remove_child(node: CoddNode, address: Address) -> None:
    """Removes a child that has gone or moved, with what only its subtree asked for."""
    child = node.children.pop(address, None)
    if child is not None:
        change_announcement(node, (), child.queries)


def on_leave(node: CoddNode, sender: Address, message: Leave) -> None:
    """Removes a child that leaves."""
    child = node.children.get(sender)
    if child is not None and child.epoch == message.epoch:
        remove_child(node, sender)
        node.hooks["child_gone"](node)


def on_link_lost(node: CoddNode, address: Address) -> None:
    """Removes a child, and drops a parent: a message between them was lost, or one of them has started again.

    A child that lives notices the silence, or is told when it says something, and joins again.
    """
    if address in node.children:
        remove_child(node, address)
        node.hooks["child_gone"](node)
    link = node.uplink(address)
    if link is not None:
        drop_parent(node, link)


def on_end_of_stream(node: CoddNode, sender: Address, message: EndOfStream) -> None:
    """Ends the stream, unless a former parent still has documents to come.

    A node that searches for a parent needs none then. What it is answered may be about a former stream, whose end was
    before what has come.
    """
    link = node.uplink(sender)
    if not node.active:
        return
    if link is not None:
        link.last = message.last
        if link is node.uplinks[0]:
            _end_on(node, link)
    elif not node.uplinks and message.last >= node.newest:
        end_stream(node, message.last, message.last + 1)


def _end_on(node: CoddNode, link: Uplink) -> None:
    """Ends the stream as it has ended on the only link that still counts."""
    end_stream(node, link.last, link.first or link.last + 1)


def end_stream(node: CoddNode, last: int, before: int) -> None:
    """Passes the end of the stream on to the application and the children.

    Args:
        node: The node.
        last: The last document.
        before: Documents from here on have come. Those between the watermark and this one can no longer be asked for.
    """
    node.active, node.joining, node.last = False, None, last
    if node.settings.heartbeat and before > node.watermark + 1:
        node.deliver(Gap(before - node.watermark - 1))
    node.deliver(StreamEnded(last))
    for address in node.children:
        node.send(address, EndOfStream(last))


def give_up(node: CoddNode, what: str, reason: str) -> None:
    """Informs the application that something failed for good."""
    node.deliver(TreeFailure(what, reason))


def abandon(node: CoddNode, parent: Address) -> None:
    """Gives up attaching to a node, which may have taken this one in all the same."""
    node.moving_to = -1
    link = node.uplink(parent)
    if link is not None and (len(node.uplinks) > 1 or not link.first):
        node.uplinks.remove(link)
        node.send(parent, Leave(link.epoch))


def drop_parent(node: CoddNode, link: Uplink) -> None:
    """Drops a parent that is dead, or that has dropped this node.

    If the next one delivers already, the producer fills the gap between the two. If there is none, another is searched.
    """
    if node.moving_to == link.parent:
        node.hooks["refused"](node, link.parent)
        return
    was_present = node.uplinks[0] is link
    node.uplinks.remove(link)
    node.send_once(link.parent, Leave(link.epoch))
    if not node.uplinks:
        node.hooks["orphaned"](node)
    elif node.uplinks[0].last >= 0:
        _end_on(node, node.uplinks[0])
    elif not was_present:
        node.hooks["stayed"](node)
    elif node.uplinks[0].first:
        next_link = node.uplinks[0]
        node.ancestors = next_link.ancestors
        ask_for_replay(node, next_link.first)
        node.hooks["moved"](node, -1)
        covered(node)
        confirm_waiting_all(node)
