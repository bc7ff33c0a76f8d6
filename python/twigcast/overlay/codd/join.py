"""Joining the tree, at first and again after a parent was lost (CoDD, section 3.1).

A new node asks each seed for a parent. A node that accepts another child offers itself; a full one passes the question
on to the child that has most in common with the new node. The new node waits until all seeds have answered, or for a
while, and attaches to the best offer. An orphan does the same for its whole subtree, beginning with the nodes above it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nsmallest

from twigcast.overlay.codd import links
from twigcast.overlay.codd.engine import Query
from twigcast.overlay.codd.messages import Add, AddResult, EndOfStream, Reject
from twigcast.overlay.codd.node import Child, CoddNode
from twigcast.overlay.core import Address


@dataclass(slots=True)
class Joining:
    """A search for a parent."""

    token: int
    attempt: int  #: Counts from 1.
    missing: int  #: Answers that have not arrived.
    attaching: bool = False  #: Whether one of the offers has been taken.
    offers: list[tuple[float, int, Address]] = field(default_factory=list)  #: Negated overlap, level, address.


def join(node: CoddNode, seeds: tuple[Address, ...]) -> None:
    """Searches for a parent, starting at the seeds."""
    node.seeds = seeds
    _search(node, seeds, 1)


def _search(node: CoddNode, seeds: tuple[Address, ...], attempt: int) -> None:
    if attempt > node.settings.attempts_max:
        node.joining = None
        links.give_up(node, "join", "no seed led to a parent")
        return
    token = node.new_token()
    node.joining = Joining(token, attempt, len(seeds))
    for seed in seeds:
        node.send(seed, Add(node.address, node.filter.announced, token))
    node.set_timer(node.settings.join_timeout, ("join", token))


def on_add(node: CoddNode, sender: Address, message: Add) -> None:
    """Offers to be the parent, or passes the question on to the child that has most in common with the new node."""
    joiner = message.joiner
    if node.last >= 0 and joiner != node.address:
        node.send(joiner, EndOfStream(node.last))
    if joiner == node.address or not node.active or joiner in node.ancestors:
        return
    if node.has_capacity() and joiner not in node.children:
        overlap = overlap_with(node, message.queries)
        node.send(joiner, AddResult(message.token, overlap, node.level))
        return
    best = max_overlap_child(node, message.queries, joiner)
    if best is not None:
        node.send(best, message)


def max_overlap_child(node: CoddNode, queries: frozenset[Query], excluding: Address = -1) -> Address | None:
    """Returns the paper's max_overlap_node: the child that shares most documents, or structure, with the queries.

    Ties, of which the source does not speak, go to the child whose subtree asks for less (unless the settings say
    otherwise), then to the lowest address.
    """
    candidates = [
        (address, child) for address, child in node.children.items() if address != excluding and not child.leaving
    ]
    if not candidates:
        return None
    scores = overlaps(node, queries, candidates)
    balance = node.settings.balance_ties
    return min(
        (-score, len(child.queries) if balance else 0, address)
        for score, (address, child) in zip(scores, candidates, strict=True)
    )[2]


def overlaps(node: CoddNode, queries: frozenset[Query], candidates: list[tuple[Address, Child]]) -> list[float]:
    """Returns the shared documents with each candidate as far as these are remembered, else the structural match."""
    if len(node.received) >= node.settings.cold_start:
        documents = node.summary.documents(queries)
        return [float(documents.intersection_cardinality(child.forwarded)) for _, child in candidates]
    return [similarity(node, queries, child.queries) for _, child in candidates]


#: Pairs of queries that a structural match of two sets compares at most.
_PAIRS_MAX = 64


def similarity(node: CoddNode, one: Iterable[Query], other: Iterable[Query]) -> float:
    """Returns the best structural match of a pair of queries."""
    if not node.settings.structural_match:
        return 0.0
    left = nsmallest(8, one, key=repr)
    right = nsmallest(_PAIRS_MAX // 8, other, key=repr)
    return max((node.engine.similarity(a, b) for a in left for b in right), default=0.0)


def overlap_with(node: CoddNode, queries: frozenset[Query]) -> float:
    """Returns the overlap of candidate and joiner: shared documents per document it would have to receive."""
    if len(node.received) >= node.settings.cold_start:
        documents = node.summary.documents(queries)
        shared = float(documents.intersection_cardinality(node.received))
        return shared / max(1, len(node.received))
    return similarity(node, queries, node.filter.announced)


def on_add_result(node: CoddNode, sender: Address, message: AddResult) -> None:
    """Notes an offer. With the last one the best is taken."""
    joining: Joining | None = node.joining
    if joining is None or joining.token != message.token:
        return
    joining.offers.append((-message.overlap, message.level, sender))
    joining.missing -= 1
    if joining.missing <= 0 and not joining.attaching:
        _take_best(node, joining)


def on_join_timer(node: CoddNode, token: int) -> None:
    """Takes the best offer so far when the time is over, or tries again from all seeds."""
    joining: Joining | None = node.joining
    if joining is None or joining.token != token or joining.attaching:
        return
    if joining.offers:
        _take_best(node, joining)
    else:
        _search(node, _seeds_for(node, joining.attempt), joining.attempt + 1)


def _seeds_for(node: CoddNode, attempt: int) -> tuple[Address, ...]:
    """Returns where to search next: the nodes above, then the first seeds, then the producer."""
    existing = [*node.ancestors, *node.seeds] if attempt % 2 else [*node.seeds, node.root]
    seeds = tuple(dict.fromkeys(seed for seed in existing if seed != node.address))[:3]
    return seeds or (node.root,)


def _take_best(node: CoddNode, joining: Joining) -> None:
    joining.offers.sort()
    _, _, parent = joining.offers.pop(0)
    joining.attaching = True
    links.attach(node, parent)
    # The answer may never come: then the next offer is tried.
    node.set_timer(2 * node.settings.join_timeout, ("attach", joining.token, parent))


def on_attach_timer(node: CoddNode, token: int, parent: Address) -> None:
    """Tries the next parent if the chosen one has not confirmed in time."""
    joining: Joining | None = node.joining
    if joining is not None and joining.token == token and node.moving_to == parent:
        _next_offer(node, joining, parent)


def _next_offer(node: CoddNode, joining: Joining, refused: Address) -> None:
    links.abandon(node, refused)
    if joining.offers:
        _take_best(node, joining)
    else:
        _search(node, _seeds_for(node, joining.attempt), joining.attempt + 1)


def on_reject(node: CoddNode, sender: Address, message: Reject) -> None:
    """Does without a parent that refuses this node, or that has dropped it."""
    link = node.uplink(sender)
    if link is not None and link.epoch == message.epoch:
        links.drop_parent(node, link)


def on_refused(node: CoddNode, parent: Address) -> None:
    """Tries the next parent after a refusal, or gives the move up."""
    joining: Joining | None = node.joining
    if joining is not None:
        _next_offer(node, joining, parent)
    else:
        links.abandon(node, parent)
        node.hooks["stayed"](node)


def on_started(node: CoddNode) -> None:
    """Ends the search of a node that has a parent now, and watches the parent from now on."""
    node.joining = None
    if node.settings.heartbeat:
        node.set_timer(node.settings.heartbeat_time, "watch")


def on_watch_timer(node: CoddNode) -> None:
    """Drops a parent that has been silent for too long, or that this node itself is above (a cycle)."""
    if not node.active:
        return
    node.set_timer(node.settings.heartbeat_time, "watch")
    deadline = node.now - node.settings.silence * node.settings.heartbeat_time
    silent = bool(node.uplinks) and (node.uplinks[0].received_at < deadline or node.address in node.ancestors)
    if silent:
        links.drop_parent(node, node.uplinks[0])
    elif not node.uplinks and node.joining is None:
        orphaned(node)


def orphaned(node: CoddNode) -> None:
    """Searches for a new parent for the whole subtree."""
    node.moving_to = -1
    if node.leaving:
        return
    above = tuple(address for address in node.ancestors[1:] if address != node.address)
    _search(node, (above or node.seeds)[:2], 1)
