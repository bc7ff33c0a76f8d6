"""What is called after each commit of the broker."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from twigcast.broker.model import QueuedDelivery, StoredSubscription


class CommitListener(Protocol):
    """Something that acts on what has been stored: called in the event loop, after the commit; it does not block."""

    def on_deliveries(self, queue_ids: Collection[int]) -> None:
        """These queues got deliveries. Queues that are only pulled may be left out."""

    def on_subscriptions(self, changed: Sequence[StoredSubscription], removed: Sequence[StoredSubscription]) -> None:
        """Subscriptions were added, replaced, paused, suspended or resumed (as they are now), or deleted."""

    def on_redriven(self, deliveries: Sequence[QueuedDelivery]) -> None:
        """Dead letters are to be delivered again, beside what their queues have pending."""
