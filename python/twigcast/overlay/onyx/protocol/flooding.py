"""Flooding: greetings on new links, link states, and the catalogue of sources.

Entries of the catalogue are flooded like link states. The registry decides them by Raft among a few brokers; flooding
only copies the decisions to all, so the two do not do the same (docs/decisions/0034-the-catalogue-is-flooded.md).
"""

from __future__ import annotations

from twigcast.overlay.core import Address
from twigcast.overlay.errors import RemoteProtocolError
from twigcast.overlay.onyx.messages import PROTOCOL, Hello, LinkState, SourceEntry
from twigcast.overlay.onyx.protocol.events import SourceChanged
from twigcast.overlay.onyx.protocol.state import NodeState
from twigcast.overlay.onyx.protocol.topology import LinkStateVerdict


def link_up(node: NodeState, neighbour: Address, cost: int) -> None:
    """Greets a neighbour on a new link and sends it all that is flooded. Interests follow later."""
    node.links.add(neighbour)
    node.deltas_sent.pop(neighbour, None)
    node.topology.set_link(neighbour, cost)
    # The network driver puts the wire forms of the link in the place of plain text.
    node.send(neighbour, Hello(node.address, node.incarnation, PROTOCOL, ("text",)))
    for state in node.topology:
        node.send(neighbour, state)
    for source in node.catalogue.values():
        node.send(neighbour, source)
    node.note_link_change()


def on_hello(node: NodeState, sender: Address, hello: Hello) -> None:
    """Checks the greeting of a neighbour."""
    if sender in node.peers:
        raise RemoteProtocolError("order", "it greeted twice on one link")
    if hello.version[0] != PROTOCOL[0]:
        raise RemoteProtocolError(
            "version", f"it speaks version {hello.version[0]}.{hello.version[1]}; this is {PROTOCOL[0]}.{PROTOCOL[1]}"
        )
    if hello.identity == node.address:
        raise RemoteProtocolError("identity", f"it has the identity {hello.identity}, which is this broker's own")
    if hello.identity != sender:
        raise RemoteProtocolError("identity", f"it has the identity {hello.identity}, and is linked as {sender}")
    node.peers[sender] = hello
    node.note_link_change()


def on_link_state(node: NodeState, sender: Address, state: LinkState) -> None:
    """Takes the link state of a broker, and passes it on if it is new."""
    if state.origin not in node.topology.states and len(node.topology.states) >= node.settings.members_max:
        node.warn("members", f"broker {state.origin} is one too many: {node.settings.members_max:,} are known")
        return
    match node.topology.apply(state):
        case LinkStateVerdict.NEW:
            _flood(node, sender, state)
            node.note_link_change()
        case LinkStateVerdict.IMPOSTOR:
            node.warn(
                "identity",
                f"another broker has the identity {node.address}: it started as number {state.incarnation}, this one "
                f"as number {node.incarnation}, and says that it is at {state.where or 'an unknown place'}",
            )
        case LinkStateVerdict.OLD:
            node.counts["known_link_states"] += 1


def on_source(node: NodeState, sender: Address, source: SourceEntry) -> None:
    """Takes an entry of the catalogue from a neighbour."""
    learn(node, source, sender)


def learn(node: NodeState, source: SourceEntry, sender: Address | None) -> None:
    """Adds an entry to the catalogue, and passes it on if it is new."""
    existing = node.catalogue.get(source.name)
    if existing is not None and source.version <= existing.version:
        return
    if existing is None and len(node.catalogue) >= node.settings.sources_max:
        node.warn("catalogue", f"the catalogue is full: source {source.name!r} is left out")
        return
    node.catalogue[source.name] = source
    node.deliver(SourceChanged(source))
    _flood(node, sender, source)


def flood_own_links(node: NodeState) -> None:
    """Floods the broker's own link state if it has changed."""
    state = node.topology.renew_own()
    if state is not None:
        _flood(node, None, state)


def _flood(node: NodeState, sender: Address | None, update: LinkState | SourceEntry) -> None:
    for neighbour in sorted(node.links):
        if neighbour != sender:
            node.send(neighbour, update)
