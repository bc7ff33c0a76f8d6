"""A node of the cooperative tree as its user sees it: orders and events as JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twigcast.overlay.codd import handlers as _handlers  # noqa: F401 - completes CoddNode
from twigcast.overlay.codd import join, leave, links
from twigcast.overlay.codd.engine import Item
from twigcast.overlay.codd.messages import Gap, JoinedTree, Received, StreamEnded, TreeFailure
from twigcast.overlay.codd.node import CoddNode
from twigcast.overlay.codd.settings import CoddSettings
from twigcast.overlay.codd.twig_engine import TwigEngine
from twigcast.overlay.codd.twigs import twig_of
from twigcast.overlay.core import Address, LinkSettings
from twigcast.overlay.errors import OrderError
from twigcast.peers.addresses import where_of
from twigcast.peers.codec import MessageCodec
from twigcast.peers.kinds import codd_codec
from twigcast.peers.orders import UNACKNOWLEDGED_MAX, WINDOW_BYTES, Order, path_of


def settings(patience: float = 1.0) -> CoddSettings:
    """Returns settings for a network; times in seconds."""
    return CoddSettings(
        heartbeat=20,
        heartbeat_time=1.5 * patience,
        join_timeout=1.5 * patience,
        link=LinkSettings(reliable=True, retry_delay=0.5 * patience, attempts_max=8, window_bytes=WINDOW_BYTES),
    )


class TreeMember:
    """A node of the tree. Without others to join, it is the producer.

    Args:
        address: Its own address.
        incarnation: Number of this start.
        seeds: The producer, and others to ask for a parent.
        query: What it subscribes to; not for the producer.
        namespaces: Those of prefixes in it.
        patience: Factor of all times.
    """

    protocol = "codd"

    def __init__(
        self,
        address: Address,
        incarnation: int,
        seeds: tuple[Address, ...],
        query: str | None,
        namespaces: Mapping[str, str],
        patience: float = 1.0,
    ) -> None:
        self.seeds = seeds
        if (query is None) == bool(seeds):
            raise OrderError("a node of a tree has a query, and the producer, which joins nobody, has none")
        twig = None if query is None else twig_of(path_of(query, namespaces))
        root = seeds[0] if seeds else address
        self.node = CoddNode(address, twig, TwigEngine(), settings(patience), root, incarnation)

    @property
    def is_busy(self) -> bool:
        """Returns whether so much is under way that no more orders should be read."""
        return self.node.unacknowledged > UNACKNOWLEDGED_MAX

    def codec(self) -> MessageCodec:
        """Returns the form of its messages on one link."""
        return codd_codec()

    def begin(self, node: CoddNode) -> None:
        """Searches for a parent, or starts the stream."""
        if self.seeds:
            join.join(node, self.seeds)
        else:
            links.start_producer(node)

    def leave(self, node: CoddNode) -> None:
        """Sends the children on; the producer ends the stream."""
        if node.active:
            leave.leave(node)

    def order(self, order: Order) -> Callable[[CoddNode], None]:
        """Returns what an order lets the node do.

        Raises:
            OrderError: It cannot be done, or is none.
        """
        if order.what != "publish":
            raise OrderError(f"{order.what!r} is no order; there is only publish, for the producer")
        if self.seeds:
            raise OrderError(f"only the producer, {where_of(self.seeds[0])}, publishes")
        document = order.document()
        return lambda node: node.publish(Item(node.newest + 1, document, document.size_bytes))

    def event(self, item: Any) -> Mapping[str, Any] | None:
        """Returns the event that the user is shown for an item; `None` for items without one."""
        match item:
            case JoinedTree(parent, first):
                return {"event": "joined", "parent": where_of(parent), "first": first}
            case Received(number, content):
                xml = content.source.decode("utf-8", "replace")
                return {"event": "received", "number": number, "name": content.name, "xml": xml}
            case Gap(documents):
                return {"event": "gap", "documents": documents}
            case StreamEnded(last):
                return {"event": "ended", "last": last}
            case TreeFailure(what, reason):
                return {"event": "failed", "what": what, "reason": reason}
        return None

    def is_lost(self, item: Any) -> bool:
        """Returns whether an item says that the node is part of no network and no longer tries."""
        return isinstance(item, TreeFailure) and item.what == "join"
