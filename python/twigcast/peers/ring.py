"""A peer of the ring as its user sees it: orders and events as JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from twigcast.overlay.chord import handlers as _handlers  # noqa: F401 - completes Peer
from twigcast.overlay.chord import indexing, maintenance, publication
from twigcast.overlay.chord.messages import Joined, Notification, Published, RingFailure, Subscribed, Suspected
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.chord.table import Ref, identifier_of_address
from twigcast.overlay.core import Address, LinkSettings
from twigcast.overlay.errors import OrderError
from twigcast.peers.addresses import where_of
from twigcast.peers.codec import MessageCodec
from twigcast.peers.kinds import chord_codec
from twigcast.peers.orders import UNACKNOWLEDGED_MAX, WINDOW_BYTES, Order

#: Publications that are not complete beyond which a peer reads no orders.
_PUBLICATIONS_MAX: Final = 16


def settings(patience: float = 1.0) -> ChordSettings:
    """Returns settings for a network; times in seconds. Subscriptions outlive two failures between two repairs."""
    return ChordSettings(
        successors=6,
        replicas=3,
        maintain=True,
        stabilise_period=1.0 * patience,
        repair_period=3.0 * patience,
        confirm=True,
        confirm_delay=8.0 * patience,
        meet_at_subscriber=True,
        bundle=True,
        link=LinkSettings(reliable=True, retry_delay=0.5 * patience, attempts_max=8, window_bytes=WINDOW_BYTES),
    )


class RingMember:
    """A peer of the ring.

    Args:
        address: Its own address.
        incarnation: Number of this start.
        seeds: Others of the ring; without any it starts one.
        patience: Factor of all times.
    """

    protocol = "chord"

    def __init__(self, address: Address, incarnation: int, seeds: tuple[Address, ...], patience: float = 1.0) -> None:
        self.seeds = seeds
        chosen = settings(patience)
        self.node = Peer(Ref(identifier_of_address(address, chosen.bits), address, incarnation), chosen)

    @property
    def is_busy(self) -> bool:
        """Returns whether so much is under way that no more orders should be read."""
        return len(self.node.publications) > _PUBLICATIONS_MAX or self.node.unacknowledged > UNACKNOWLEDGED_MAX

    def codec(self) -> MessageCodec:
        """Returns the form of its messages on one link."""
        return chord_codec()

    def begin(self, node: Peer) -> None:
        """Joins the ring of the seeds, or starts one if there are none."""
        if self.seeds:
            maintenance.start_join(node, self.seeds)
        else:
            maintenance.start_alone(node)

    def leave(self, node: Peer) -> None:
        """Hands over its states."""
        if node.active:
            maintenance.leave(node)

    def order(self, order: Order) -> Callable[[Peer], None]:
        """Returns what an order lets the node do.

        Raises:
            OrderError: It cannot be done, or is none.
        """
        match order.what:
            case "subscribe":
                key, path = order.text("key"), order.path()
                return lambda node: indexing.subscribe(node, key, path)
            case "unsubscribe":
                key = order.text("key")
                return lambda node: indexing.unsubscribe(node, key)
            case "publish":
                document = order.document()
                return lambda node: publication.publish(node, document)
        raise OrderError(f"{order.what!r} is no order; there are subscribe, unsubscribe and publish")

    def event(self, item: Any) -> Mapping[str, Any] | None:
        """Returns the event that the user is shown for an item; `None` for items without one."""
        match item:
            case Joined(ref):
                return {"event": "joined", "where": where_of(ref.address), "position": f"{ref.identifier:040x}"}
            case Subscribed(subscription, present):
                return {"event": "subscribed" if present else "unsubscribed", "key": subscription.key}
            case Notification(name, key, publisher):
                return {"event": "notified", "key": key, "name": name, "publisher": where_of(publisher)}
            case Published(name, attempts, failed):
                not_notified = [{"subscriber": where_of(one.subscriber), "key": one.key} for one in failed]
                return {"event": "published", "name": name, "attempts": attempts, "not_notified": not_notified}
            case RingFailure(what, reason):
                return {"event": "failed", "what": what, "reason": reason}
            case Suspected(address, claim):
                return {"event": "suspected", "peer": where_of(address), "claim": claim}
        return None

    def is_lost(self, item: Any) -> bool:
        """Returns whether an item says that the node is part of no network and no longer tries."""
        return isinstance(item, RingFailure) and item.what == "join"
