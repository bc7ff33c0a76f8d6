"""The protocol of listeners that are called after each commit of the broker."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from twigcast.broker.model import QueuedDelivery, StoredSubscription


class CommitListener(Protocol):
    """A listener that acts on what was stored. It is called in the event loop, after the commit, and does not block."""

    def on_deliveries(self, queue_ids: Collection[int]) -> None:
        """Handles new deliveries in queues. Queues that are only pulled may be left out."""

    def on_subscriptions(self, changed: Sequence[StoredSubscription], removed: Sequence[StoredSubscription]) -> None:
        """Handles subscriptions added, replaced, paused, suspended or resumed (as they are now), or deleted."""

    def on_redriven(self, deliveries: Sequence[QueuedDelivery]) -> None:
        """Handles dead letters that are to be delivered again, beside the pending deliveries of their queues."""
