"""Leaving without loss (CoDD, section 3.2).

A leaf informs its parent. An inner node lets the child that has most in common with it take its position, and sends the
others to search for a parent from there on. It serves all of them until they have moved, so nothing is lost. The
producer cannot be replaced: when it leaves, the stream ends.
"""

from __future__ import annotations

from twigcast.overlay.codd import join, links
from twigcast.overlay.codd.messages import Leave, NewParent
from twigcast.overlay.codd.node import Child, CoddNode
from twigcast.overlay.core import Address


def leave(node: CoddNode) -> None:
    """Leaves the tree. The driver removes the node once it is inactive and its messages are out."""
    if node.is_root:
        links.end_stream(node, node.newest, 0)
        return
    node.leaving = True
    send_children_on(node, 1)


def send_children_on(node: CoddNode, attempt: int) -> None:
    """Asks the children to go. Timer `leaving` calls it again; a child that never goes will notice the silence."""
    if not node.active:
        return
    if attempt > node.settings.attempts_max:
        node.children.clear()
    elif node.children:
        _promote(node)
        node.set_timer(3 * node.settings.join_timeout, ("leaving", attempt + 1))
    _finish_if_empty(node)


def _promote(node: CoddNode) -> None:
    """Sends the closest child to the parent, in the position of this node, and the others to the closest one."""
    heir = closest_child(node)
    node.send(heir, NewParent(node.parent if node.uplinks else node.root, node.address))
    for address in node.children:
        if address != heir:
            node.send(address, NewParent(heir))


def closest_child(node: CoddNode) -> Address:
    """Returns the child with the greatest overlap with the node's own query; ties go to the lowest address."""

    def rank(entry: tuple[Address, Child]) -> tuple[float, Address]:
        address, child = entry
        return -float(node.own.intersection_cardinality(child.forwarded)), address

    return min(node.children.items(), key=rank)[0]


def on_new_parent(node: CoddNode, sender: Address, message: NewParent) -> None:
    """Replaces a leaving parent, or searches for a parent from its heir on."""
    if sender != node.parent or not node.active:
        return
    node.seeds = (message.parent, *(seed for seed in node.seeds if seed != message.parent))[:3]
    if message.replaces >= 0:
        node.joining = join.Joining(node.new_token(), 1, 0, attaching=True)
        links.attach(node, message.parent, message.replaces)
        node.set_timer(2 * node.settings.join_timeout, ("attach", node.joining.token, message.parent))
    else:
        join.join(node, (message.parent,))


def on_child_gone(node: CoddNode) -> None:
    """Ends the leaving of a node once its children are gone."""
    if node.leaving:
        _finish_if_empty(node)


def _finish_if_empty(node: CoddNode) -> None:
    if node.children or not node.active:
        return
    node.active = False
    for link in node.uplinks:
        node.send(link.parent, Leave(link.epoch))
    node.uplinks = []
