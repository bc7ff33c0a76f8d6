"""Load shedding: hot states are copied to peers chosen by hashing (Miliaraki 2008, section 6.4).

A peer counts which of its states the filtering messages ask for. A state with more than a share (10 %) of a window of
messages is copied to 10 holders, the owners of `key#1` ... `key#10`, so that the only thing a requester must know is
that copies exist; the owner tells whoever asks it directly. Requesters then spread over owner and holders. Changes of
the state go to all holders before they are confirmed. A holder that lacks its copy passes the request to the owner.
"""

from __future__ import annotations

import zlib

from twigcast.overlay.chord.messages import RecExpand, Release, ReplicaInfo, Shed, Stored
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.states import State
from twigcast.overlay.core import Address, Routed


def shed(peer: Peer, state: State) -> None:
    """Copy a hot state to its holders."""
    state.shed_copies = peer.settings.shed_replicas
    state.told = set()
    record = state.record()
    for copy in range(1, state.shed_copies + 1):
        peer.route_to_key(f"{state.key}#{copy}", Shed(record, copy))


def choose_copy(peer: Peer, message: RecExpand, copies: int) -> int:
    """Which holder to ask: any with equal chance, a function of the request alone."""
    publication = message.publication
    seed = f"{publication.name}/{publication.attempt}/{message.at}/{peer.address}/{message.key}/{message.path}"
    return zlib.crc32(seed.encode("utf-8", "surrogatepass")) % (copies + 1)


def count(peer: Peer, state: State, requester: Address, lacking: int) -> None:
    """Note a request for an owned state; at the end of a window look for hot and for cooled states."""
    if state.shed_copies and state.told is not None:
        if requester not in state.told:
            state.told.add(requester)
            peer.send(requester, ReplicaInfo(state.key, state.shed_copies))
        if 0 < lacking <= state.shed_copies:
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
    hottest = max(sorted(window), key=lambda key: window[key])
    for key in sorted(window):
        state = peer.store.get(key)
        if state is None or key == "start":
            continue
        if state.shed_copies and window[key] * (state.shed_copies + 1) < threshold / 2:
            _release(peer, state)
        elif key == hottest and window[key] > threshold and not state.shed_copies:
            shed(peer, state)


def _release(peer: Peer, state: State) -> None:
    for copy in range(1, state.shed_copies + 1):
        peer.route_to_key(f"{state.key}#{copy}", Release(state.key, copy))
    for requester in sorted(state.told or ()):
        peer.send(requester, ReplicaInfo(state.key, 0))
    state.shed_copies = 0
    state.told = None


def on_shed(peer: Peer, routed: Routed) -> None:
    """Hold a copy."""
    message: Shed = routed.payload
    key = (message.record.key, message.copy)
    state = peer.held.get(key)
    if state is None:
        state = peer.held[key] = State(message.record.key)
    state.merge(message.record)
    if message.token >= 0:
        peer.send(routed.origin, Stored(message.token))


def on_release(peer: Peer, routed: Routed) -> None:
    """Stop holding a copy."""
    peer.held.pop((routed.payload.key, routed.payload.copy), None)


def on_replica_info(peer: Peer, sender: Address, message: ReplicaInfo) -> None:
    """Learn that a state has copies, or no longer has."""
    if message.copies:
        peer.copies_known[message.key] = message.copies
    else:
        peer.copies_known.pop(message.key, None)
