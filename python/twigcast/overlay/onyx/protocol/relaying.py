"""Relaying: messages between the services of two brokers, passed on by the brokers in between.

The parent of a broker in the tree of another one is also the next broker on the path to it. Nothing is repeated here. A
message is lost where brokers do not yet agree on the paths, or one is down; the services repeat it.
"""

from __future__ import annotations

from typing import Final

from twigcast.overlay.core import Address
from twigcast.overlay.errors import RemoteProtocolError
from twigcast.overlay.onyx.messages import ServiceMessage
from twigcast.overlay.onyx.protocol.events import ServiceMessageReceived
from twigcast.overlay.onyx.protocol.state import NodeState

#: Greatest content of a service message.
CONTENT_BYTES_MAX: Final = 8 << 20


def send(node: NodeState, target: Address, content: bytes) -> None:
    """Sends a message of at most `CONTENT_BYTES_MAX` to the service of another broker, or of this one."""
    if len(content) > CONTENT_BYTES_MAX:
        raise ValueError(f"a service message has {len(content):,} bytes; at most {CONTENT_BYTES_MAX:,} are allowed")
    _forward(node, ServiceMessage(node.address, target, 0, content))


def on_service_message(node: NodeState, sender: Address, message: ServiceMessage) -> None:
    """Takes a service message, or passes it on."""
    if len(message.content) > CONTENT_BYTES_MAX:
        raise RemoteProtocolError("size", f"it sends a service message of {len(message.content):,} bytes")
    if message.hops > node.settings.hops_max:
        node.counts["relays_lost"] += 1
        return
    _forward(node, message)


def _forward(node: NodeState, message: ServiceMessage) -> None:
    if message.target == node.address:
        node.deliver(ServiceMessageReceived(message.origin, message.content))
        return
    target = message.target if message.target in node.peers else node.parents.get(message.target)
    if target is None:
        node.counts["relays_lost"] += 1
        return
    node.counts["relays"] += 1
    node.send(target, message._replace(hops=message.hops + 1))
