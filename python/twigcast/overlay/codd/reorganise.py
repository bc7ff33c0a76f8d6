"""Reorganisation: moving a subtree to where it costs less (CoDD, section 4).

A node that receives too much that it does not want chooses the child with which it has least in common, and asks the
root for permission to move the subtree of that child. The root serves one request at a time, so two moves never make a
cycle, and may serve only the worst c of a batch. The node then searches breadth first from the root. A node that
accepts another child is a candidate, at the cost of the documents that it would receive only for the subtree. The
children of a full node are asked only if a multiple of its own cost is below the lowest cost so far. The subtree moves
if that lowers the cost by enough.

The search begins with the present cost (`present_cost`), so that only improvements are found.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pyroaring import BitMap

from twigcast.overlay.codd import links
from twigcast.overlay.codd.messages import (
    GetOverhead,
    Grant,
    Move,
    Moved,
    Overhead,
    Reorganised,
    Reorganize,
    SearchDone,
)
from twigcast.overlay.codd.node import Child, CoddNode
from twigcast.overlay.core import Address


@dataclass(slots=True)
class Search:
    """A search for a better parent of a subtree, made by its present parent."""

    subject: Address  #: Root of the subtree.
    needed: bytes  #: The documents of the window that the subtree needs, serialised.
    before: int  #: Present cost.
    best_cost: int  #: Least cost so far.
    best: Address = -1  #: The node with that cost.
    queue: deque[Address] = field(default_factory=deque)  #: Nodes that have to be asked.
    token: int = 0  #: Number of the question that waits for an answer.
    visited: int = 0  #: Nodes asked so far.
    moving: bool = False  #: Whether the root of the subtree was asked to move.


def after_document(node: CoddNode) -> None:
    """Asks for a move if the overhead since the last request is too high."""
    settings = node.settings
    if node.window_received < settings.reorganise_after or not node.children:
        return
    overhead = node.window_spurious / node.window_received
    node.window_received = node.window_spurious = 0
    if overhead > settings.threshold and not node.leaving and node.grant is None:
        node.send(node.root, Reorganize(least_overlap_child(node), overhead))


def least_overlap_child(node: CoddNode) -> Address:
    """Returns the child whose documents have least in common with the node's own, or of these the most costly."""

    def rank(entry: tuple[Address, Child]) -> tuple[int, int, Address]:
        address, child = entry
        return node.own.intersection_cardinality(child.forwarded), -len(child.forwarded), address

    return min(((a, c) for a, c in node.children.items()), key=rank)[0]


# At the root.


def on_reorganize(node: CoddNode, sender: Address, message: Reorganize) -> None:
    """Queues a request. With top-c, requests of one batch of documents compete."""
    node.queue.pop(sender, None)
    node.queue[sender] = (-message.overhead, sender, message.subject)
    if not node.settings.top:
        serve_next(node)


def serve_batch(node: CoddNode) -> None:
    """Serves, with top-c, only the worst c of the requests gathered."""
    if node.settings.top:
        worst = sorted(node.queue.values())[: node.settings.top]
        node.queue = {request[1]: request for request in worst}
        serve_next(node)


def serve_next(node: CoddNode) -> None:
    """Lets the next requester search, if none does."""
    if node.serving >= 0 or not node.queue:
        return
    _, requester, subject = node.queue.pop(next(iter(node.queue)))
    node.serving = requester
    node.send(requester, Grant(subject))
    node.set_timer(50 * node.settings.join_timeout, ("grant", requester, node.newest))


def on_grant_timer(node: CoddNode, requester: Address, newest: int) -> None:
    """Ends a search whose node has failed."""
    if node.serving == requester:
        node.serving = -1
        serve_next(node)


def on_search_done(node: CoddNode, sender: Address, message: SearchDone) -> None:
    """Ends a search."""
    if node.serving == sender:
        node.serving = -1
        serve_next(node)


# At the present parent.


def on_grant(node: CoddNode, sender: Address, message: Grant) -> None:
    """Searches for a better parent for a child."""
    child = node.children.get(message.subject)
    if child is None or child.leaving or node.leaving or not node.active:
        node.send(node.root, SearchDone(False))
        return
    cost = present_cost(node, message.subject, child)
    search = node.grant = Search(message.subject, child.forwarded.serialize(), cost, cost)
    search.queue.append(node.root)
    _ask_next(node, search)


def present_cost(node: CoddNode, subject: Address, child: Child) -> int:
    """Returns the cost of a child where it is: documents that come for it alone.

    With `marginal_cost` only those count that no other child needs, either. That is what the node would save at once;
    but of two children with the same foreign interest neither costs anything then, and both stay for ever.
    """
    others = node.own
    if node.settings.marginal_cost:
        others = others.union(*(other.forwarded for address, other in node.children.items() if address != subject))
    return child.forwarded.difference_cardinality(others)


def _ask_next(node: CoddNode, search: Search) -> None:
    while search.queue:
        address = search.queue.popleft()
        if address in (search.subject, node.address):
            if address == node.address:
                search.queue.extend(child for child in node.children if child != search.subject)
            continue
        search.token = node.new_token()
        search.visited += 1
        node.send(address, GetOverhead(search.subject, search.needed, search.token))
        if node.settings.heartbeat:
            node.set_timer(node.settings.join_timeout, ("overhead", search.token))
        return
    _decide(node, search)


def on_get_overhead(node: CoddNode, sender: Address, message: GetOverhead) -> None:
    """Answers how many documents would come here just for the subtree."""
    needed = BitMap.deserialize(message.needed)
    overhead = 0 if node.is_root else needed.difference_cardinality(node.received)
    children = tuple(node.children)
    node.send(
        sender, Overhead(message.token, overhead, node.has_capacity() and message.subject not in children, children)
    )


def on_overhead(node: CoddNode, sender: Address, message: Overhead) -> None:
    """Processes one answer of the breadth-first search."""
    search: Search | None = node.grant
    if search is None or search.token != message.token:
        return
    if message.has_capacity and message.overhead < search.best_cost:
        search.best, search.best_cost = sender, message.overhead
    promising = node.settings.prune_factor * message.overhead < search.best_cost
    if promising and (not message.has_capacity or node.settings.deep_search):
        search.queue.extend(child for child in message.children if child != search.subject)
    _ask_next(node, search)


def on_overhead_timer(node: CoddNode, token: int) -> None:
    """Continues the search without a node that does not answer."""
    search: Search | None = node.grant
    if search is not None and search.token == token and not search.moving:
        _ask_next(node, search)


def _decide(node: CoddNode, search: Search) -> None:
    search.token = -1
    gain = search.before - search.best_cost
    if (
        search.best < 0
        or gain <= 0
        or gain < node.settings.delta * node.received.difference_cardinality(node.own)
        or search.subject not in node.children
    ):
        _end(node, search, moved=False)
        return
    search.moving = True
    node.send(search.subject, Move(search.best))
    if node.settings.heartbeat:
        node.set_timer(10 * node.settings.join_timeout, ("move", search.subject))


def _end(node: CoddNode, search: Search, *, moved: bool) -> None:
    node.grant = None
    node.deliver(Reorganised(search.subject, search.before, search.best_cost, moved, search.visited))
    node.send(node.root, SearchDone(moved))


def on_moved(node: CoddNode, sender: Address, message: Moved) -> None:
    """Reports the search as done: the subtree has moved, or could not."""
    search: Search | None = node.grant
    if search is not None and search.subject == sender and search.moving:
        _end(node, search, moved=message.moved)


def on_move_timer(node: CoddNode, subject: Address) -> None:
    """Ends a move that got no answer: the subtree has failed, or its new parent has."""
    search: Search | None = node.grant
    if search is not None and search.moving and search.subject == subject:
        _end(node, search, moved=False)


# At the root of the subtree.


def on_move(node: CoddNode, sender: Address, message: Move) -> None:
    """Attaches elsewhere. The present parent stays until the new path delivers."""
    if sender != node.parent or node.moving_to >= 0 or node.joining is not None or node.leaving:
        node.send(sender, Moved(False))
        return
    links.attach(node, message.parent)
    if node.settings.heartbeat:
        node.set_timer(5 * node.settings.join_timeout, ("moving", message.parent))


def on_moving_timer(node: CoddNode, parent: Address) -> None:
    """Stays with the present parent if the new one has not confirmed."""
    if node.moving_to == parent and node.joining is None:
        links.abandon(node, parent)
        on_stayed(node)


def on_stayed(node: CoddNode) -> None:
    """Informs the present parent that this subtree stays, since the new one refuses it."""
    if node.uplinks:
        node.send(node.parent, Moved(False))


def on_moved_hook(node: CoddNode, former: Address) -> None:
    """Informs the former parent of the finished move."""
    node.joining = None
    if former >= 0:
        node.send(former, Moved(True))
