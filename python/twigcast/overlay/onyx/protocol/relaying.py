"""What services of two brokers say to each other, passed on by those between them.

A broker's parent towards another, in the tree of that one, is also the next on the way to it. Nothing is repeated here:
where brokers do not agree on the ways for a moment, or one is gone, it is lost, and the services say it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import ServiceMessage
from twigcast.overlay.onyx.protocol.errors import RemoteProtocolError
from twigcast.overlay.onyx.protocol.events import ServiceMessageReceived

if TYPE_CHECKING:
    from twigcast.overlay.onyx.protocol.node import OnyxNode

#: Bytes that services may say at once.
CONTENT_BYTES_MAX: Final = 8 << 20


def send(node: OnyxNode, target: Address, content: bytes) -> None:
    """Say something to the service of another broker, or of this one.

    Raises:
        ValueError: It is too long.
    """
    if len(content) > CONTENT_BYTES_MAX:
        raise ValueError(f"{len(content):,} bytes where at most {CONTENT_BYTES_MAX:,} may be")
    _pass_on(node, ServiceMessage(node.address, target, 0, content))


def on_relay(node: OnyxNode, sender: Address, relay: ServiceMessage) -> None:
    """Something is on its way."""
    if len(relay.content) > CONTENT_BYTES_MAX:
        raise RemoteProtocolError("size", f"its service says {len(relay.content):,} bytes at once")
    if relay.hops > node.settings.hops_max:
        node.counts["relays_lost"] += 1
        return
    _pass_on(node, relay)


def _pass_on(node: OnyxNode, relay: ServiceMessage) -> None:
    if relay.target == node.address:
        node.deliver(ServiceMessageReceived(relay.origin, relay.content))
        return
    target = relay.target if relay.target in node.peers else node.parents.get(relay.target)
    if target is None:
        node.counts["relays_lost"] += 1
        return
    node.counts["relays"] += 1
    node.send(target, relay._replace(hops=relay.hops + 1))
