"""Copies of states: r holders in a row, repaired periodically, and recovery of a range that has grown (ours).

The owner of a state and its next r - 1 successors hold it. A change is confirmed only when they all have it, so after
any r - 1 failures between two repairs one of them still does. When responsibility grows, the new owner collects the
states of the new positions from its successors, where the copies are by construction, before it answers for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from twigcast.overlay.chord.messages import Pull, Pulled, RangeDigest, Replicate, Shed, Stored
from twigcast.overlay.chord.peer import Peer, Pulling, Write
from twigcast.overlay.chord.states import State, StateRecord
from twigcast.overlay.core import Address, KeyRoutedMessage

#: Repair periods without a word from the owner after which a replica is dropped.
_REPLICA_PERIODS = 10
#: Repair periods after which a state that does not belong here is sent to its owner.
_GIVE_AWAY_AFTER = frozenset({1, 3, 9})
#: Time, in stabilise periods, after which states that were asked for are asked for again.
_PULL_PERIODS = 6


def replica_addresses(peer: Peer) -> list[Address]:
    """Returns the other peers that should hold this peer's states."""
    successors = peer.table.successors[: peer.settings.replicas - 1]
    return [ref.address for ref in successors if ref.address != peer.address]


def write_through(peer: Peer, state: State, then: Callable[[], None]) -> None:
    """Sends a changed state to all its other holders, and continues once they have it."""
    record = state.record()
    write = _write_to_replicas(peer, record, then)
    for copy in range(1, record.shedding.copies + 1):
        peer.route_to_key(f"{state.key}#{copy}", Shed(record, copy, expect_answer(peer, write)))
    if not write.waiting_for:
        then()


def write_to_replicas(peer: Peer, record: StateRecord, then: Callable[[], None]) -> None:
    """Sends a state to the replicas alone, and continues once they have it."""
    if not _write_to_replicas(peer, record, then).waiting_for:
        then()


def _write_to_replicas(peer: Peer, record: StateRecord, then: Callable[[], None]) -> Write:
    write = Write(set(), then)
    for address in replica_addresses(peer):
        peer.send(address, Replicate((record,), expect_answer(peer, write, address)))
    return write


def expect_answer(peer: Peer, write: Write, address: Address = -1) -> int:
    """Returns a token for one more answer (`Stored`) that a write waits for."""
    token = peer.new_token()
    write.waiting_for.add(token)
    peer.writes[token] = write, address
    return token


def on_stored(peer: Peer, sender: Address, message: Stored) -> None:
    """Marks a holder as having the change, and ends the write with the last one."""
    write, _ = peer.writes.pop(message.token, (None, -1))
    if write is not None:
        write.waiting_for.discard(message.token)
        if not write.waiting_for:
            write.then()


def on_replicate(peer: Peer, sender: Address, message: Replicate) -> None:
    """Merges states."""
    peer.store.merge(message.records)
    if message.token >= 0:
        peer.send(sender, Stored(message.token))


def own_states(peer: Peer) -> list[State]:
    """Returns the states this peer owns."""
    low = (peer.ref.identifier - (peer.table.own_span() or 0)) % (1 << peer.settings.bits)
    if peer.table.predecessor is None:
        low = (peer.ref.identifier - peer.table.verified_span) % (1 << peer.settings.bits)
        if peer.table.verified_span == 0:
            return []
    return peer.store.in_range(low, peer.ref.identifier)


def push_to_replicas(peer: Peer) -> None:
    """Sends all owned states to all holders."""
    holders = replica_addresses(peer)
    if not holders or not peer.active:
        return
    records = tuple(state.record() for state in own_states(peer))
    if records:
        for address in holders:
            peer.send(address, Replicate(records))


# Recovery.


def recover(peer: Peer) -> None:
    """Collects what others hold of the range that this peer is responsible for but has not verified."""
    table = peer.table
    span = table.own_span()
    if span is None or span <= table.verified_span or not peer.active:
        return
    others = [ref.address for ref in table.successors if ref.address != peer.address]
    if peer.settings.replicas == 1 or not others:
        table.verified_span = span
        return
    pulling = peer.pulling
    patience = _PULL_PERIODS * peer.settings.stabilise_period
    if pulling is not None and pulling.span == span and peer.now - pulling.asked < patience:
        return
    pulling = peer.pulling = Pulling(peer.new_token(), span, set(others), peer.now)
    low = (peer.ref.identifier - span) % (1 << table.bits)
    high = (peer.ref.identifier - table.verified_span) % (1 << table.bits)
    for address in others:
        peer.send(address, Pull(low, high, pulling.token))


def on_pull(peer: Peer, sender: Address, message: Pull) -> None:
    """Sends the states of a range that are held here."""
    records = tuple(state.record() for state in peer.store.in_range(message.low, message.high))
    peer.send(sender, Pulled(message.token, records))


def on_pulled(peer: Peer, sender: Address, message: Pulled) -> None:
    """Merges the states of one holder that has answered."""
    peer.store.merge(message.records)
    if peer.pulling is not None and peer.pulling.token == message.token:
        _mark_pulled(peer, peer.pulling, sender)


def _mark_pulled(peer: Peer, pulling: Pulling, address: Address) -> None:
    pulling.missing.discard(address)
    if pulling.missing:
        return
    peer.pulling = None
    own_span = peer.table.own_span()
    if own_span is None:
        return
    peer.table.verified_span = max(peer.table.verified_span, min(pulling.span, own_span))
    if peer.table.verified_span < own_span:
        recover(peer)
        return
    push_to_replicas(peer)
    peer.release_waiting()


def on_replica_lost(peer: Peer, address: Address) -> None:
    """Continues without a failed node. The next holder in the row gets everything (`push_to_replicas`)."""
    for token in [token for token, (_, holder) in peer.writes.items() if holder == address]:
        on_stored(peer, address, Stored(token))
    if peer.pulling is not None and address in peer.pulling.missing:
        _mark_pulled(peer, peer.pulling, address)


# Repair.


def on_repair_timer(peer: Peer) -> None:
    """Compares own states with the replicas, returns states of other nodes to them, and drops stale replicas."""
    peer.set_timer(peer.settings.repair_period, "repair")
    if not peer.active:
        return
    own = own_states(peer)
    for state in own:
        state.forget_withdrawn(peer.now - 100 * peer.settings.repair_period)
    predecessor = peer.table.predecessor
    if predecessor is not None and peer.settings.replicas > 1:
        message = RangeDigest(predecessor.identifier, peer.ref.identifier, digest_of(own))
        for address in replica_addresses(peer):
            peer.send(address, message)
    _drop_stale(peer, {state.key for state in own})


def digest_of(states: Iterable[State]) -> bytes:
    """Returns a hash over states in the order of their keys. It is equal for equal states."""
    whole = hashlib.blake2b(digest_size=16)
    for state in states:
        if state.edges or state.accepted:
            whole.update(repr(state.record()).encode("utf-8", "surrogatepass"))
    return whole.digest()


def on_range_digest(peer: Peer, sender: Address, message: RangeDigest) -> None:
    """Compares this replica with the owner's. If they differ, each sends the other its states."""
    peer.replica_ranges[sender] = (message.low, message.high, peer.now)
    states = peer.store.in_range(message.low, message.high)
    if digest_of(states) != message.digest:
        peer.send(sender, Replicate(tuple(state.record() for state in states)))
        peer.send(sender, Pull(message.low, message.high, -1))


def _drop_stale(peer: Peer, own: set[str]) -> None:
    """Sends replicas that no owner has refreshed for a while to their owners, then drops them."""
    horizon = peer.now - _REPLICA_PERIODS * peer.settings.repair_period
    for address, (_, _, refreshed) in list(peer.replica_ranges.items()):
        if refreshed < horizon:
            del peer.replica_ranges[address]
    kept = set(own)
    for low, high, _ in peer.replica_ranges.values():
        kept.update(state.key for state in peer.store.in_range(low, high))
    span = peer.table.own_span()
    if span is None or peer.table.verified_span < span:
        return
    strays = [key for key in sorted(peer.store.states) if key not in kept]
    peer.strays = {key: peer.strays.get(key, 0) + 1 for key in strays}
    for key, periods in peer.strays.items():
        if periods in _GIVE_AWAY_AFTER:
            record = peer.store.states[key].record()
            peer.route(KeyRoutedMessage(peer.identifier(key), Replicate((record,)), peer.address))
        if periods > _REPLICA_PERIODS:
            del peer.store.states[key]


def on_routed_replicate(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Merges a state that belongs here and was stored elsewhere."""
    changed: list[State] = []
    for record in routed.payload.records:
        state = peer.store.ensure(record.key)
        before = state.record()
        state.merge(record)
        if state.record() != before:
            changed.append(state)
    if changed:
        records = tuple(state.record() for state in changed)
        for address in replica_addresses(peer):
            peer.send(address, Replicate(records))
