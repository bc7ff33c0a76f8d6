"""Load shedding: hot states are copied to peers chosen by hashing (Miliaraki 2008, section 6.4).

A peer counts the filtering messages for each of its states. A state with more than a share (10 %) of a window of
messages is copied to 10 holders, the owners of `key#1` ... `key#10`. So a requester only has to know that there are
copies; the owner informs each peer that asks it directly. Requests are then spread over owner and holders. Changes of
the state go to all holders before they are confirmed. A holder that lacks its copy passes the request on to the owner.

The number of copies is part of the state, and replicas get it before any copy is made. So a peer that takes over
continues to write to the holders. A state that is no longer hot counts as copied until each holder has dropped its
copy. A holder remembers the version that it dropped, because an older copy may still arrive.

A peer that becomes a holder asks the owner for the state before it answers requests. A copy that it got without asking
may be older than a change that the previous holder has confirmed.
"""

from __future__ import annotations

import zlib

from twigcast.overlay.chord import replication
from twigcast.overlay.chord.messages import CopyRequest, RecExpand, Release, ReplicaInfo, Shed, Stored
from twigcast.overlay.chord.peer import Arriving, Peer, Write
from twigcast.overlay.chord.states import Shedding, State
from twigcast.overlay.core import Address, KeyRoutedMessage


def shed(peer: Peer, state: State) -> None:
    """Copies a hot state to its holders, once its replicas know that there are copies."""
    shedding = _next(peer, state, peer.settings.shed_replicas)
    record = state.record()._replace(shedding=shedding)
    replication.write_to_replicas(peer, record, lambda: _copy(peer, state, shedding))


def _next(peer: Peer, state: State, copies: int) -> Shedding:
    # Versions follow the clock, so that they grow even where a state was forgotten in between.
    return Shedding(max(state.shedding.version + 1, int(peer.now)), copies)


def _copy(peer: Peer, state: State, shedding: Shedding) -> None:
    if state.shedding >= shedding:
        return
    state.shedding = shedding
    for copy in range(1, shedding.copies + 1):
        peer.route_to_key(f"{state.key}#{copy}", Shed(state.record(), copy))


def choose_copy(peer: Peer, message: RecExpand, copies: int) -> int:
    """Returns the holder to ask: any with equal chance, as a function of the request alone."""
    publication = message.publication
    at, path = message.matches[0]
    seed = f"{publication.name}/{publication.attempt}/{at}/{peer.address}/{message.key}/{path}"
    return zlib.crc32(seed.encode("utf-8", "surrogatepass")) % (copies + 1)


def count(peer: Peer, state: State, requester: Address, lacking: int) -> None:
    """Counts a request for an owned state. At the end of a window it finds states that became hot, or cooled."""
    copies = state.shedding.copies
    if copies:
        if state.informed is None:
            state.informed = set()
        if requester not in state.informed:
            state.informed.add(requester)
            peer.send(requester, ReplicaInfo(state.key, copies))
        if 0 < lacking <= copies:
            peer.route_to_key(f"{state.key}#{lacking}", Shed(state.record(), lacking))
    window = peer.window
    window[state.key] = window.get(state.key, 0) + 1
    peer.window_total += 1
    if peer.window_total >= peer.settings.shed_window:
        _close_window(peer)


def _close_window(peer: Peer) -> None:
    window, total = peer.window, peer.window_total
    peer.window, peer.window_total = {}, 0
    threshold = peer.settings.shed_share * total
    copied = {key for key, state in peer.store.states.items() if state.shedding.copies and key != "start"}
    for key in sorted(copied):
        state = peer.store.states[key]
        cool = window.get(key, 0) * (state.shedding.copies + 1) < threshold / 2
        if cool and peer.table.is_responsible(peer.identifier(key)):
            _release(peer, state)
    # The start state is copied from its first query on, and what is copied already may still be the hottest.
    others = sorted(window.keys() - copied - {"start"})
    hottest = max(others, key=lambda key: window[key], default="")
    hot = peer.store.get(hottest)
    if hot is not None and window[hottest] > threshold:
        shed(peer, hot)


def _release(peer: Peer, state: State) -> None:
    """Asks the holders to drop their copies. Until all have, changes go to them; a later window asks again."""
    released = state.shedding
    write = Write(set(), lambda: _released(peer, state, released))
    for copy in range(1, released.copies + 1):
        release = Release(state.key, copy, released.version, replication.expect_answer(peer, write))
        peer.route_to_key(f"{state.key}#{copy}", release)
    for requester in sorted(state.informed or ()):
        peer.send(requester, ReplicaInfo(state.key, 0))
    state.informed = None


def _released(peer: Peer, state: State, released: Shedding) -> None:
    if state.shedding == released:
        state.shedding = _next(peer, state, 0)
        replication.write_to_replicas(peer, state.record(), lambda: None)


def on_shed(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Takes a change of a copy, or the first one: then the owner is asked for the present state."""
    message: Shed = routed.payload
    key = (message.record.key, message.copy)
    if message.record.shedding.version > peer.let_go.get(key, 0):
        held = peer.held.get(key)
        if held is not None:
            held.merge(message.record)
        else:
            _receive_first(peer, key, message)
    if message.token >= 0:
        peer.send(routed.origin, Stored(message.token))


def _receive_first(peer: Peer, key: tuple[str, int], message: Shed) -> None:
    arriving = peer.arriving.get(key)
    if arriving is not None:
        arriving.state.merge(message.record)
        if message.question == arriving.question:
            peer.held[key] = peer.arriving.pop(key).state
        elif peer.now - arriving.asked > peer.settings.stabilise_period:
            _ask_owner(peer, key, arriving.state)
        return
    state = State(message.record.key)
    state.merge(message.record)
    _ask_owner(peer, key, state)


def _ask_owner(peer: Peer, key: tuple[str, int], state: State) -> None:
    arriving = peer.arriving[key] = Arriving(state, peer.new_token(), peer.now)
    peer.route_to_key(state.key, CopyRequest(*key, arriving.question))


def on_copy_request(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Answers a holder with the present state."""
    message: CopyRequest = routed.payload
    state = peer.store.get(message.key)
    if state is not None and message.copy <= state.shedding.copies:
        peer.route_to_key(f"{message.key}#{message.copy}", Shed(state.record(), message.copy, -1, message.question))


def on_release(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Drops a copy."""
    message: Release = routed.payload
    key = (message.key, message.copy)
    state = peer.held.get(key)
    if state is not None and state.shedding.version <= message.version:
        del peer.held[key]
    peer.arriving.pop(key, None)
    peer.let_go[key] = max(message.version, peer.let_go.get(key, 0))
    peer.send(routed.origin, Stored(message.token))


def on_replica_info(peer: Peer, sender: Address, message: ReplicaInfo) -> None:
    """Notes the number of copies of a state, or forgets it if there are none any more."""
    if message.copies:
        peer.copy_counts[message.key] = message.copies
    else:
        peer.copy_counts.pop(message.key, None)
