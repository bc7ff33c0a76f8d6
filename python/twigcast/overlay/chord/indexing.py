"""Indexing: a query travels along its automaton, and each state is recorded at the peer of its key (section 4.3).

The subscriber sends each linear part to the start state. The peer of a state records the state, its edge to the next
one, and copies of the states within reach, which it knows since the whole query travels. It then sends the part on to
the peer of the next state. The number of messages is the number of states of the part's automaton, whatever l is. The
last peer records the subscriber and answers. A withdrawal takes the same way. A state that nothing depends on is then
pruned upwards, unless the version of its edge shows that another query has passed in the meantime.

Where nodes fail, a query can be delayed between an edge and the state behind it until long after later queries have
passed. So an edge is dropped there only when no query has passed it for a while, and empty states ask again.
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
from twigcast.overlay.paths import EPSILON, LinearPart, Predicate, key_of, linear_parts
from twigcast.query import Path

#: Age, in confirm delays, of the last walk over an edge after which the edge may be taken away.
_QUIET = 4.0


def subscribe(peer: Peer, key: str, query: Path) -> None:
    """Registers a query of this peer's application. It replaces an earlier query of the same key.

    Raises:
        UndistributableQuery: The query is outside the subset.
    """
    parts = linear_parts(query)
    existing = interest_of(peer, key)
    if existing is not None and existing.parts == parts:
        if len(existing.confirmed) == len(parts):
            peer.deliver(Subscribed(SubscriptionRef(peer.address, key), True))
        return
    unsubscribe(peer, key)
    _request(peer, key, parts, present=True)


def unsubscribe(peer: Peer, key: str) -> None:
    """Withdraws a query. An unknown key is ignored, so that a withdrawal may be repeated."""
    existing = interest_of(peer, key)
    if existing is not None:
        del peer.requests[peer.versions[key]]
        _request(peer, key, existing.parts, present=False)


def interest_of(peer: Peer, key: str) -> SubscriptionRequest | None:
    """Returns the subscription that this peer's application has under a key."""
    interest = peer.requests.get(peer.versions.get(key, -1))
    return interest if interest is not None and interest.present else None


def _request(peer: Peer, key: str, parts: tuple[LinearPart, ...], *, present: bool) -> None:
    version = peer.versions[key] = peer.new_token()
    peer.requests[version] = SubscriptionRequest(key, parts, peer.now, present)
    send_request(peer, version)


def send_request(peer: Peer, version: int) -> None:
    """Sends all parts that are not confirmed yet. Timer `request` calls it again until all are."""
    interest = peer.requests.get(version)
    if interest is None or len(interest.confirmed) == len(interest.parts):
        return
    if interest.attempts >= peer.settings.attempts_max:
        what = "subscribe" if interest.present else "unsubscribe"
        peer.deliver(RingFailure(f"{what} {interest.key}", "the overlay did not confirm it"))
        return
    peer.requests[version] = interest._replace(attempts=interest.attempts + 1)
    subscription = SubscriptionRef(peer.address, interest.key)
    registration = Registration(version, interest.present, interest.time)
    plan = tuple((part.parent, part.anchor) for part in interest.parts) if len(interest.parts) > 1 else ()
    for number, part in enumerate(interest.parts):
        if number not in interest.confirmed:
            claim = PartClaim(subscription, number, plan)
            peer.route_to_key("start", IndexQuery(part.labels, part.predicates, claim, 0, registration))
    if peer.settings.maintain:
        peer.set_timer(peer.settings.confirm_delay, ("request", version))


def end_former_life(peer: Peer, key: str, predicates: tuple[Predicate, ...], claim: PartClaim, version: int) -> None:
    """Withdraws a claim of a subscriber that has started again, and so no longer knows of it."""
    registration = Registration(version + 1, False, peer.now)
    peer.route_to_key("start", IndexQuery(tuple(key.split("/")[1:]), predicates, claim, 0, registration))


def on_indexed(peer: Peer, sender: Address, message: Indexed) -> None:
    """Marks one part of a subscription as registered."""
    subscription, version = message.claim.subscription, message.version
    interest = peer.requests.get(version)
    if interest is None or message.claim.part in interest.confirmed:
        return
    interest = peer.requests[version] = interest._replace(confirmed=interest.confirmed | {message.claim.part})
    if len(interest.confirmed) < len(interest.parts):
        return
    if peer.versions.get(subscription.key) == version:
        # Otherwise it is the end of a query that was replaced.
        peer.deliver(Subscribed(subscription, interest.present))
        if not interest.present:
            del peer.versions[subscription.key]
    if not interest.present:
        del peer.requests[version]


def on_index_query(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Continues the walk of a query at the owner of its state."""
    query: IndexQuery = routed.payload
    state = peer.store.ensure(key_of(query.labels[: query.depth]))
    state.edge_version = max(state.edge_version, query.edge_version)
    present = query.registration.present
    _note_fragment(peer, state, query)
    if query.depth == len(query.labels):
        state.register(query.predicates, query.claim, query.registration)
        answer = Indexed(query.claim, query.registration.version)
        replication.write_through(peer, state, lambda: _finish_walk(peer, state, answer))
        return
    label = query.labels[query.depth]
    if peer.settings.maintain:
        state.note_walk(label, peer.now)
    version = state.walk_edge(label) if present else max(0, state.edges.get(label, 0))
    onward = query._replace(depth=query.depth + 1, edge_version=version)
    key = key_of(query.labels[: query.depth + 1])
    replication.write_through(peer, state, lambda: peer.route_to_key(key, onward))
    if query.depth == 0 and peer.settings.shedding and not state.shedding.copies:
        shedding.shed(peer, state)


def _note_fragment(peer: Peer, state: State, query: IndexQuery) -> None:
    """Updates the copies of the states within reach of this one on the query's path."""
    levels, consumed = peer.settings.fragment_levels, 0
    labels = query.labels
    for position in range(query.depth, len(labels)):
        if labels[position] != EPSILON:
            if consumed == levels:
                return
            consumed += 1
        copy = state.copy_of(key_of(labels[: position + 1]))
        if position + 1 == len(labels):
            copy.register(query.predicates, query.claim, query.registration)
        elif query.registration.present:
            copy.walk_edge(labels[position + 1])
            if peer.settings.maintain:
                copy.note_walk(labels[position + 1], peer.now)


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
        peer.route_to_key(ancestor, CopyEdgeGone(ancestor, message.parent, message.label))
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
    """Drops an edge of a copied state. It stays if a query that passed recently may be creating it again."""
    message: CopyEdgeGone = routed.payload
    state = peer.store.get(message.ancestor)
    copy = state.fragment.get(message.state) if state is not None and state.fragment else None
    if copy is None or state is None:
        return
    settings = peer.settings
    if not copy.has_edge(message.label) or (
        settings.maintain and not copy.is_quiet(message.label, peer.now, _QUIET * settings.confirm_delay)
    ):
        return
    if copy.drop_edge(message.label, copy.edges[message.label]):
        replication.write_through(peer, state, lambda: None)
