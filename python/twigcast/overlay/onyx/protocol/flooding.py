"""What everybody is told: greetings on new links, link states, the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import PROTOCOL, Hello, LinkState, SourceEntry
from twigcast.overlay.onyx.protocol.errors import RemoteProtocolError
from twigcast.overlay.onyx.protocol.events import SourceChanged
from twigcast.overlay.onyx.protocol.topology import LinkStateVerdict

if TYPE_CHECKING:
    from twigcast.overlay.onyx.protocol.node import OnyxNode


def link_up(node: OnyxNode, neighbour: Address, cost: int) -> None:
    """Greet on a new link. The neighbour is told all that everybody is told; what is wanted from it follows later."""
    node.links.add(neighbour)
    node.deltas_sent.pop(neighbour, None)
    node.topology.set_link(neighbour, cost)
    node.send(neighbour, Hello(node.address, node.incarnation, PROTOCOL, node.forms))
    for state in node.topology:
        node.send(neighbour, state)
    for source in node.catalogue.values():
        node.send(neighbour, source)
    node.move()


def on_hello(node: OnyxNode, sender: Address, hello: Hello) -> None:
    """A neighbour greets."""
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
    node.move()


def on_link_state(node: OnyxNode, sender: Address, state: LinkState) -> None:
    """Somebody's links have changed."""
    if state.origin not in node.topology.states and len(node.topology.states) >= node.settings.members_max:
        node.trouble("members", f"broker {state.origin} is one too many: {node.settings.members_max:,} are known")
        return
    match node.topology.take(state):
        case LinkStateVerdict.NEW:
            _pass_on(node, sender, state)
            node.move()
        case LinkStateVerdict.IMPOSTOR:
            node.trouble(
                "identity",
                f"another broker has the identity {node.address}: it started as number {state.incarnation}, this one "
                f"as number {node.incarnation}, and says that it is at {state.where or 'an unknown place'}",
            )
        case LinkStateVerdict.OLD:
            node.counts["known_link_states"] += 1


def on_source(node: OnyxNode, sender: Address, source: SourceEntry) -> None:
    """An entry of the catalogue is new somewhere."""
    learn(node, source, sender)


def learn(node: OnyxNode, source: SourceEntry, sender: Address | None) -> None:
    """Take an entry of the catalogue, and pass it on where it is news."""
    existing = node.catalogue.get(source.name)
    if existing is not None and source.version <= existing.version:
        return
    if existing is None and len(node.catalogue) >= node.settings.sources_max:
        node.trouble("catalogue", f"the catalogue is full: source {source.name!r} is left out")
        return
    node.catalogue[source.name] = source
    node.deliver(SourceChanged(source))
    _pass_on(node, sender, source)


def tell_own_links(node: OnyxNode) -> None:
    """Flood one's own links, if they have changed."""
    state = node.topology.say()
    if state is not None:
        _pass_on(node, None, state)


def _pass_on(node: OnyxNode, sender: Address | None, news: LinkState | SourceEntry) -> None:
    for neighbour in sorted(node.links):
        if neighbour != sender:
            node.send(neighbour, news)
