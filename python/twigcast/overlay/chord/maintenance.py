"""The ring's upkeep: join, stabilise, notify, fix fingers, leave, failures (Chord; Miliaraki 2008, section 2).

*Join.* The request of a new node is routed to the position of that node. The owner of the position hands over the
states of the new node's range in one message, and refers everything in that range to it from then on. So two nodes
never own one state.

*Verified range.* A node whose range has grown, because its predecessor failed, must not answer for the new positions
before it has the states that others hold for them. Until then, messages for these positions wait
(`replication.recover`). Otherwise an answer could be incomplete without anybody noticing.

*Lies.* A node's position is the hash of its address, so a false position is noticed immediately. A node that names a
false successor harms only the list of its neighbour, and only until the next round: then the named node is asked for
its predecessor, which leads back to the node that was left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from twigcast.overlay.chord import replication
from twigcast.overlay.chord.messages import (
    FindSuccessor,
    GetNeighbours,
    Join,
    Joined,
    LeaveRing,
    Neighbours,
    NotifyPredecessor,
    PredecessorPing,
    Refuse,
    RingFailure,
    SuccessorReply,
    Suspected,
    Welcome,
)
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.table import Ref, identifier_of_address
from twigcast.overlay.core import Address, KeyRoutedMessage

#: Token of the question that looks for a nearer successor in what may be another ring.
_MERGE = -1


def start_alone(peer: Peer) -> None:
    """Starts as the first node of a ring."""
    peer.active = True
    set_timers(peer)
    peer.deliver(Joined(peer.ref))


def start_join(peer: Peer, seeds: tuple[Address, ...]) -> None:
    """Joins the ring that the seeds are part of. The seeds are tried in turn."""
    peer.seeds = seeds
    peer.joining = 0
    try_join(peer)


def try_join(peer: Peer) -> None:
    """Asks the next seed. Timer `join` calls it again until the peer is part of the ring."""
    if peer.active:
        return
    if peer.joining >= peer.settings.attempts_max:
        peer.deliver(RingFailure("join", "no seed took this node in"))
        return
    seed = peer.seeds[peer.joining % len(peer.seeds)]
    peer.joining += 1
    peer.send_once(seed, KeyRoutedMessage(peer.ref.identifier, Join(peer.ref), peer.address))
    peer.set_timer(peer.settings.stabilise_period, "join")


def is_genuine(peer: Peer, ref: Ref) -> bool:
    """Returns whether the identifier of a reference is the hash of its address, on rings where it must be."""
    if ref.identifier == identifier_of_address(ref.address, peer.settings.bits):
        return True
    return peer.ref.identifier != identifier_of_address(peer.address, peer.settings.bits)


def admit(peer: Peer, refs: Iterable[Ref]) -> list[Ref]:
    """Returns the references without those to former lives of nodes."""
    admitted = [ref for ref in refs if not peer.is_outdated(ref.address, ref.incarnation)]
    for ref in admitted:
        peer.presume(ref.address, ref.incarnation)
    return admitted


def on_join(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Hands the part of this node's range before a new node over to that node."""
    ref: Ref = routed.payload.ref
    if ref.address == peer.address:
        return
    if peer.is_outdated(ref.address, ref.incarnation):
        return
    if not is_genuine(peer, ref):
        peer.send(ref.address, Refuse("the identifier is not the hash of the address", final=True))
        peer.deliver(Suspected(ref.address, f"identifier {ref.identifier}"))
        return
    if ref.identifier == peer.ref.identifier:
        peer.send(ref.address, Refuse(f"identifier {ref.identifier} is taken", final=True))
        return
    peer.presume(ref.address, ref.incarnation)
    if peer.life_of(ref.address) != ref.incarnation:
        # Only the node itself can say that it has started again: it does by refusing this.
        peer.send_once(ref.address, Refuse("its former life was part of the ring", final=False))
        return
    table = peer.table
    predecessor = table.predecessor
    if predecessor is None or not table.is_verified((predecessor.identifier + 1) % (1 << table.bits)):
        peer.send(ref.address, Refuse("the range is being recovered", final=False))
        return
    if predecessor.address == ref.address:
        # The answer is on its way.
        return
    records = tuple(s.record() for s in peer.store.in_range(predecessor.identifier, ref.identifier))
    successors = (peer.ref, *(s for s in table.successors if s.address not in (peer.address, ref.address)))
    peer.send(ref.address, Welcome(predecessor, successors, records))
    set_predecessor(peer, ref)
    if table.successor.address == peer.address:
        table.add_successor(ref)


def on_welcome(peer: Peer, sender: Address, message: Welcome) -> None:
    """Starts this node as a member of the ring."""
    if peer.active:
        return
    table = peer.table
    peer.active = True
    table.set_successors(admit(peer, message.successors))
    table.predecessor = message.predecessor if message.predecessor.address != peer.address else table.successor
    table.verified_span = table.own_span() or 0
    has_restarted = not admit(peer, [message.predecessor])
    if has_restarted:
        # The states of the range are here all the same.
        table.forget(message.predecessor.address, peer.life_of(message.predecessor.address))
    peer.store.merge(message.records)
    set_timers(peer)
    peer.deliver(Joined(peer.ref))
    stabilise(peer)
    if not has_restarted and table.predecessor.address != table.successor.address:
        peer.send(table.predecessor.address, Neighbours(None, (peer.ref, *table.successors)))
    replication.push_to_replicas(peer)
    peer.release_waiting()


def on_refuse(peer: Peer, sender: Address, message: Refuse) -> None:
    """Gives up joining if the refusal is final. Otherwise the ring lives, and timer `join` asks it for as long."""
    if peer.active:
        return
    if message.final:
        peer.joining = peer.settings.attempts_max
        peer.deliver(RingFailure("join", message.reason))
    elif peer.joining < peer.settings.attempts_max:
        peer.joining %= len(peer.seeds)


def set_timers(peer: Peer) -> None:
    """Sets the periodic timers."""
    if not peer.settings.maintain:
        return
    # Spread over the period by position, so that nodes do not all act at the same time.
    offset = peer.ref.identifier % 97 / 97
    peer.set_timer(peer.settings.stabilise_period * (0.5 + offset), "stabilise")
    peer.set_timer(peer.settings.repair_period * (0.5 + offset), "repair")


# Periodic.


def on_stabilise_timer(peer: Peer) -> None:
    """Runs one round of stabilise, check-predecessor and fix-fingers."""
    peer.set_timer(peer.settings.stabilise_period, "stabilise")
    stabilise(peer)
    predecessor = peer.table.predecessor
    if predecessor is not None and predecessor.address != peer.address:
        peer.send(predecessor.address, PredecessorPing())
    fix_finger(peer)
    _search_another_ring(peer)
    replication.recover(peer)
    peer.release_waiting()


def stabilise(peer: Peer) -> None:
    """Asks the successor for its neighbours."""
    successor = peer.table.successor
    if successor.address != peer.address:
        peer.send(successor.address, GetNeighbours())
    elif peer.table.predecessor is not None and peer.table.predecessor.address != peer.address:
        peer.table.add_successor(peer.table.predecessor)


def on_get_neighbours(peer: Peer, sender: Address, message: GetNeighbours) -> None:
    """Answers with the predecessor and the successors, or that this node is no member of the ring.

    Other nodes may know of a node whose welcome was lost for good. It acknowledges their messages, so they would keep
    it in their tables, and its own requests to join would come back to it.
    """
    if peer.active:
        peer.send_once(sender, Neighbours(peer.table.predecessor, tuple(peer.table.successors)))
    else:
        peer.send_once(sender, LeaveRing(peer.ref, None, (), (), 0))


def on_neighbours(peer: Peer, sender: Address, message: Neighbours) -> None:
    """Adopts a nearer successor, takes over the successor's list, and announces this node to it."""
    table = peer.table
    if not peer.active:
        return
    before = [ref.address for ref in table.successors]
    claimed = (*message.successors, *((message.predecessor,) if message.predecessor is not None else ()))
    for ref in claimed:
        if not is_genuine(peer, ref):
            peer.deliver(Suspected(sender, f"node {ref.address} at {ref.identifier}"))
            return
    successors = admit(peer, message.successors)
    if sender == table.successor.address:
        successor = table.successor
        table.set_successors([successor, *_beyond(peer, successor, successors)])
    elif message.predecessor is None:
        # A new node informs its predecessor.
        table.set_successors([*table.successors, *successors[:1]])
    nearer = message.predecessor if message.predecessor is not None and admit(peer, [message.predecessor]) else None
    if nearer is not None and table.is_between(nearer.identifier, table.successor):
        table.add_successor(nearer)
        peer.send(nearer.address, GetNeighbours())
    if table.successor.address != peer.address:
        peer.send_once(table.successor.address, NotifyPredecessor(peer.ref))
    if [ref.address for ref in table.successors][: peer.settings.replicas - 1] != before[: peer.settings.replicas - 1]:
        replication.push_to_replicas(peer)


def _beyond(peer: Peer, successor: Ref, refs: list[Ref]) -> list[Ref]:
    """Returns the successor's list up to this node."""
    gap = peer.table.gap(successor.identifier)
    kept: list[Ref] = []
    for ref in refs:
        if ref.address == peer.address or peer.table.gap(ref.identifier) <= gap:
            break
        gap = peer.table.gap(ref.identifier)
        kept.append(ref)
    return kept


def on_notify(peer: Peer, sender: Address, message: NotifyPredecessor) -> None:
    """Adopts the sender as predecessor if it is nearer than the present one."""
    table = peer.table
    ref = message.ref
    if not peer.active or not is_genuine(peer, ref) or ref.address == peer.address or not admit(peer, [ref]):
        return
    existing = table.predecessor
    if existing is None or existing.address == peer.address or _is_nearer(peer, ref, existing):
        set_predecessor(peer, ref)
        if table.successor.address == peer.address:
            table.add_successor(ref)


def _is_nearer(peer: Peer, ref: Ref, existing: Ref) -> bool:
    return 0 < peer.table.gap_before(ref.identifier) < peer.table.gap_before(existing.identifier)


def set_predecessor(peer: Peer, ref: Ref) -> None:
    """Adopts a predecessor, and recovers what is missing if the range has grown."""
    verified = peer.table.verified_span
    peer.table.set_predecessor(ref)
    if peer.table.verified_span < verified:
        # What was asked for begins where the range ended then.
        peer.pulling = None
    _drop_copies_of_others(peer)
    replication.recover(peer)
    peer.release_waiting()


def _drop_copies_of_others(peer: Peer) -> None:
    """Drops copies of hot states for positions that this node no longer owns: they would not be kept up to date."""
    for copies in (peer.held, peer.arriving, peer.let_go):
        for key, copy in list(copies):
            if not peer.table.is_responsible(peer.identifier(f"{key}#{copy}")):
                del copies[key, copy]


def fix_finger(peer: Peer) -> None:
    """Refreshes one finger: the next power of two whose owner no other finger shows already."""
    peer.next_finger %= peer.settings.bits
    start = (peer.ref.identifier + (1 << peer.next_finger)) % (1 << peer.settings.bits)
    if peer.table.gap(start) <= peer.table.gap(peer.table.successor.identifier):
        # All fingers up to the successor are the successor.
        gap = peer.table.gap(peer.table.successor.identifier)
        if gap:
            peer.table.set_finger((peer.ref.identifier + 1) % (1 << peer.settings.bits), peer.table.successor)
            peer.next_finger = gap.bit_length()
        return
    peer.route(KeyRoutedMessage(start, FindSuccessor(peer.next_finger), peer.address))
    peer.next_finger += 1


def on_find_successor(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Answers as the owner of an identifier."""
    peer.send_once(routed.origin, SuccessorReply(routed.payload.token, peer.ref, routed.hops))


def on_successor_reply(peer: Peer, sender: Address, message: SuccessorReply) -> None:
    """Adopts a finger, or a nearer successor from another ring."""
    if not peer.active or not is_genuine(peer, message.ref) or not admit(peer, [message.ref]):
        return
    table = peer.table
    if message.token == _MERGE:
        _meet_another_ring(peer, message)
        return
    if message.token < 0:
        return
    start = (peer.ref.identifier + (1 << message.token)) % (1 << table.bits)
    if message.ref.address != peer.address:
        table.set_finger(start, message.ref)
        gap = table.gap(message.ref.identifier)
        peer.next_finger = max(peer.next_finger, gap.bit_length())
    if peer.next_finger < table.bits and message.ref.address != peer.address:
        fix_finger(peer)


def _search_another_ring(peer: Peer) -> None:
    """Asks a node that was once unreachable for the successor of this one. After a partition it knows another ring."""
    forgotten = peer.table.forgotten
    if not forgotten:
        return
    address, ref = next(iter(forgotten.items()))
    del forgotten[address]
    forgotten[address] = ref
    position = (peer.ref.identifier + 1) % (1 << peer.settings.bits)
    peer.send_once(address, KeyRoutedMessage(position, FindSuccessor(_MERGE), peer.address))


def _meet_another_ring(peer: Peer, message: SuccessorReply) -> None:
    """Adopts a node that may belong to another ring, or sends it on to the node of this ring that precedes it.

    The nodes where the rings have to be joined may never have heard of the other ring: they are new, or have restarted.
    """
    table = peer.table
    if table.is_between(message.ref.identifier, table.successor):
        table.add_successor(message.ref)
        stabilise(peer)
    elif message.ref.address not in (peer.address, table.successor.address):
        peer.send_once(table.closest_preceding(message.ref.identifier).address, message)


# Leaving and failing.


def leave(peer: Peer) -> None:
    """Leaves the ring and hands over its states. The driver removes the node once its messages are out."""
    table = peer.table
    peer.active = False
    successor = table.successor
    if successor.address == peer.address:
        return
    peer.left = True
    records = tuple(state.record() for _, state in sorted(peer.store.states.items()))
    span = table.verified_span
    message = LeaveRing(peer.ref, table.predecessor, tuple(table.successors), records, span)
    peer.send(successor.address, message)
    peer.release_waiting()
    if table.predecessor is not None and table.predecessor.address not in (peer.address, successor.address):
        peer.send(table.predecessor.address, message._replace(records=(), span=0))


def on_leave(peer: Peer, sender: Address, message: LeaveRing) -> None:
    """Links around a leaving neighbour, and takes over its states if it was the predecessor."""
    table = peer.table
    was_predecessor = table.predecessor is not None and table.predecessor.address == sender
    was_complete = table.is_verified((message.leaver.identifier + 1) % (1 << table.bits))
    table.forget(sender)
    table.forgotten.pop(sender, None)
    table.set_successors(
        [
            *table.successors,
            *(ref for ref in admit(peer, message.successors) if ref.address not in (peer.address, sender)),
        ]
    )
    peer.store.merge(message.records)
    if was_predecessor and message.predecessor is not None and admit(peer, [message.predecessor]):
        alone = message.predecessor.address == peer.address
        table.predecessor = peer.ref if alone else message.predecessor
        if was_complete and message.span:
            table.verified_span = table.gap_before(message.leaver.identifier) + message.span
            table.set_predecessor(table.predecessor)
        replication.recover(peer)
    replication.push_to_replicas(peer)
    peer.release_waiting()


def on_lost_node(peer: Peer, address: Address, restarted: bool) -> None:
    """Removes a node that does not answer, or the former life of one that has started again."""
    existing = peer.table.forget(address, peer.life_of(address) if restarted else math.inf)
    for identifier in [position for position, owner in peer.cache.items() if owner == address]:
        del peer.cache[identifier]
    replication.on_replica_lost(peer, address)
    if existing and peer.active:
        stabilise(peer)
        replication.recover(peer)
        replication.push_to_replicas(peer)


def on_lost_routed(peer: Peer, address: Address, routed: KeyRoutedMessage) -> None:
    """Routes a lost message again. The table has forgotten the node, so the route is another one."""
    if type(routed.payload) is Join:
        peer.put_off(routed)
    else:
        peer.route(routed._replace(final=False))


def ignore(peer: Peer, sender: Address, message: Any) -> None:
    """Ignores a message whose only answer is the acknowledgement of the link."""
