"""Indexing: a query walks along its automaton and leaves its states with the peers of their keys (section 4.3).

The subscriber sends every linear part to the start state. The peer of a state notes the state, its edge on the way, the
copies of the states within reach (the query travels whole, so it knows them), and sends the part on to the next state's
peer. The number of messages is the number of states of the part's automaton, whatever l is. The last peer notes who
subscribed and answers. Withdrawing is the same walk; a state that nothing depends on any more is then pruned upwards,
unless another query has passed its edge meanwhile, which the edge's version tells.

Where nodes fail, a walk can be held up between an edge and the state behind it until long after later walks have come
and gone. So there an edge is dropped only when no walk passed it for a while, and empty states ask again.
"""

from __future__ import annotations

from twigcast.overlay.chord import replication, shedding
from twigcast.overlay.chord.messages import (
    CopyEdgeGone,
    EdgePruned,
    Indexed,
    IndexQuery,
    PruneEdge,
    RingFailure,
    Subscribed,
)
from twigcast.overlay.chord.peer import Peer, SubscriptionRequest
from twigcast.overlay.chord.states import PartClaim, Registration, State, SubscriptionRef
from twigcast.overlay.core import Address, KeyRoutedMessage
from twigcast.overlay.paths import EPSILON, LinearPart, key_of, linear_parts
from twigcast.query import Path

#: Age, in confirm delays, of the last walk over an edge after which the edge may be taken away.
_QUIET = 4.0


def subscribe(peer: Peer, key: str, query: Path) -> None:
    """Registers a query of this peer's application.

    Raises:
        UndistributableQuery: The query is outside the subset.
    """
    _request(peer, SubscriptionRef(peer.address, key), linear_parts(query), present=True)


def unsubscribe(peer: Peer, key: str) -> None:
    """Withdraws a query. An unknown key is ignored, so that a withdrawal may be repeated."""
    interest = peer.requests.get(SubscriptionRef(peer.address, key))
    if interest is not None and interest.present:
        _request(peer, SubscriptionRef(peer.address, key), interest.parts, present=False)


def _request(peer: Peer, subscription: SubscriptionRef, parts: tuple[LinearPart, ...], *, present: bool) -> None:
    peer.requests[subscription] = SubscriptionRequest(parts, peer.now, present, frozenset(), 0)
    send_request(peer, subscription, peer.now)


def send_request(peer: Peer, subscription: SubscriptionRef, time: float) -> None:
    """Sends all parts that are not confirmed yet. Timer `wish` calls it again until all are."""
    interest = peer.requests.get(subscription)
    if interest is None or interest.time != time or len(interest.confirmed) == len(interest.parts):
        return
    if interest.attempts >= peer.settings.attempts_max:
        peer.deliver(RingFailure(f"subscribe {subscription.key}", "the overlay did not confirm it"))
        return
    peer.requests[subscription] = interest._replace(attempts=interest.attempts + 1)
    plan = tuple((part.parent, part.anchor) for part in interest.parts) if len(interest.parts) > 1 else ()
    for number, part in enumerate(interest.parts):
        if number not in interest.confirmed:
            claim = PartClaim(subscription, number, plan)
            query = IndexQuery(part.labels, part.predicates, claim, 0, time, interest.present)
            peer.route_to_key("start", query)
    if peer.settings.maintain:
        peer.set_timer(peer.settings.confirm_delay, ("wish", subscription, time))


def on_indexed(peer: Peer, sender: Address, message: Indexed) -> None:
    """Marks one part of a subscription as registered."""
    subscription = message.claim.subscription
    interest = peer.requests.get(subscription)
    if interest is None or interest.time != message.time or message.claim.part in interest.confirmed:
        return
    interest = peer.requests[subscription] = interest._replace(confirmed=interest.confirmed | {message.claim.part})
    if len(interest.confirmed) == len(interest.parts):
        peer.deliver(Subscribed(subscription, interest.present))
        if not interest.present:
            del peer.requests[subscription]


def on_index_query(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Continues the walk of a query at the owner of its state."""
    query: IndexQuery = routed.payload
    state = peer.store.ensure(key_of(query.labels[: query.depth]))
    state.edge_version = max(state.edge_version, query.edge_version)
    registration = Registration(query.time, query.present)
    _note_fragment(state, query, registration, peer.settings.fragment_levels)
    if query.depth == len(query.labels):
        state.register(query.predicates, query.claim, registration)
        answer = Indexed(query.claim, query.time)
        replication.write_through(peer, state, lambda: _finish_walk(peer, state, answer))
        return
    label = query.labels[query.depth]
    if peer.settings.maintain:
        state.note_walk(label, peer.now)
    version = state.walk_edge(label) if query.present else max(0, state.edges.get(label, 0))
    onward = query._replace(depth=query.depth + 1, edge_version=version)
    key = key_of(query.labels[: query.depth + 1])
    replication.write_through(peer, state, lambda: peer.route_to_key(key, onward))
    if query.depth == 0 and peer.settings.shedding and not state.shedding.copies:
        shedding.shed(peer, state)


def _note_fragment(state: State, query: IndexQuery, registration: Registration, levels: int) -> None:
    """Update the copies of the states within reach of this one on the query's path."""
    consumed = 0
    labels = query.labels
    for position in range(query.depth, len(labels)):
        if labels[position] != EPSILON:
            if consumed == levels:
                return
            consumed += 1
        copy = state.copy_of(key_of(labels[: position + 1]))
        if position + 1 == len(labels):
            copy.register(query.predicates, query.claim, registration)
        elif query.present:
            copy.edges[labels[position + 1]] = max(abs(copy.edges.get(labels[position + 1], 0)), query.time, 1e-9)


def _finish_walk(peer: Peer, state: State, answer: Indexed) -> None:
    peer.send(answer.claim.subscription.subscriber, answer)
    prune_if_empty(peer, state)


def prune_if_empty(peer: Peer, state: State) -> None:
    """Asks the parent's peer to drop the edge to a state that nothing depends on."""
    parent, _, label = _split_key(state.key)
    if parent and state.is_empty():
        peer.route_to_key(parent, PruneEdge(parent, label, state.edge_version))


def on_repair_timer(peer: Peer) -> None:
    """Repairs the copies. Empty states whose edges were too new to be dropped ask again."""
    replication.on_repair_timer(peer)
    if peer.active:
        for state in replication.own_states(peer):
            if state.edge_version > state.pruned:
                prune_if_empty(peer, state)


def _split_key(key: str) -> tuple[str, str, str]:
    return key.rpartition("/")


def on_prune_edge(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Drops the edge to an empty child, unless a query has passed it since, or recently."""
    message: PruneEdge = routed.payload
    state = peer.store.get(message.parent)
    if state is None:
        return
    settings = peer.settings
    if settings.maintain and not state.is_quiet(message.label, peer.now, _QUIET * settings.confirm_delay):
        return
    if not state.drop_edge(message.label, message.version):
        return
    pruned = EdgePruned(f"{message.parent}/{message.label}", message.version)
    replication.write_through(peer, state, lambda: peer.route_to_key(pruned.key, pruned))
    for ancestor in _holders_of_copies(message.parent, peer.settings.fragment_levels):
        peer.route_to_key(ancestor, CopyEdgeGone(ancestor, message.parent, message.label, peer.now))
    prune_if_empty(peer, state)


def _holders_of_copies(key: str, levels: int) -> list[str]:
    """Keys of the ancestors whose fragments reach a state."""
    holders: list[str] = []
    consumed = 0
    while True:
        parent, _, label = _split_key(key)
        if not parent:
            return holders
        consumed += label != EPSILON
        if consumed > levels:
            return holders
        holders.append(parent)
        key = parent


def on_edge_pruned(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Drops an empty state whose edge is gone, here and at its other holders."""
    message: EdgePruned = routed.payload
    state = peer.store.get(message.key)
    if state is not None and state.is_empty() and state.edge_version <= message.version and not state.shedding.copies:
        state.accepted = None
        state.fragment = None
        state.pruned = message.version
        if peer.settings.replicas == 1:
            del peer.store.states[message.key]


def on_copy_edge_gone(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Drops an edge of a copied state. It stays if a query that passed recently may be creating it again.

    An edge left over costs a message now and then, a missing one would lose matches: hence the caution.
    """
    message: CopyEdgeGone = routed.payload
    state = peer.store.get(message.ancestor)
    copy = state.fragment.get(message.state) if state is not None and state.fragment else None
    if copy is None or state is None:
        return
    walked = copy.edges.get(message.label, 0)
    if 0 < walked < message.time - _QUIET * peer.settings.confirm_delay:
        copy.edges[message.label] = -message.time
        replication.write_through(peer, state, lambda: None)
