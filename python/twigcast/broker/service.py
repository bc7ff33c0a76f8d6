"""The broker as one object: what the API, the console and the command line work with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from twigcast.broker.commit_listener import CommitListener
from twigcast.broker.metrics import Metrics
from twigcast.broker.model import (
    Accepted,
    DeliveryId,
    DeliverySettings,
    NewQuery,
    NewSubscription,
    QueuedDelivery,
    RejectedRecord,
    StoredSubscription,
    Submission,
    SubscriptionState,
)
from twigcast.broker.queues.live import Offer
from twigcast.broker.store.interface import QueuePosition, Store, Transaction

T = TypeVar("T")


class BrokerInterface(Protocol):
    """A running broker, for one event loop. All methods are safe to call from its tasks.

    Every change goes through the hub's one writing thread in the order of the calls, many in one commit; the call
    returns when it is durable. Reading goes to ``store`` directly, in threads.
    """

    store: Store
    metrics: Metrics
    """Counters, for whoever exports them."""

    def readiness(self) -> str | None:
        """Why no work can be taken at the moment; ``None``: it can."""

    def drain(self) -> None:
        """Begin a graceful stop: refuse publications, and end all listeners and pulls so that requests can end.

        Acknowledgements are still taken.
        """

    async def publish(self, submissions: Sequence[Submission]) -> list[Accepted | RejectedRecord]:
        """Store messages durably, matched and with their deliveries. A rejected one is stored as such.

        Raises:
            StoreUnavailable: None of them was stored, as far as can be known.
            TooMany: Too many wait for the store; with the time after which to try again.
            Stopping: The broker is being stopped.
        """

    async def subscribe(self, new: Sequence[NewSubscription]) -> list[StoredSubscription | Exception]:
        """Add subscriptions; for each that is refused the QueryError, Conflict, TooMany or UrlRefused.

        They count from the next message on; a replay goes on in the background.
        """

    async def replace(
        self,
        subscription: StoredSubscription,
        *,
        query: str,
        namespaces: Mapping[str, str],
        dialect: str,
        delivery: DeliverySettings,
    ) -> StoredSubscription:
        """Give a subscription another query or delivery, from the next message on.

        Raises:
            QueryError: The query is refused; the subscription keeps what it had.
        """

    async def replace_queries(self, new: Sequence[NewQuery]) -> list[Exception | None]:
        """Give many subscriptions, none twice, other queries from the next message on; where they go stays.

        For each ``None``, or the QueryError or NotFound with which it was refused: it keeps what it had then.
        """

    async def set_state(
        self, subscription: StoredSubscription, state: SubscriptionState, reason: str | None = None
    ) -> StoredSubscription:
        """Pause, suspend or resume a subscription."""

    async def unsubscribe(self, subscription: StoredSubscription) -> None:
        """Delete a subscription with what it has pending."""

    async def pull(self, queue_id: int, *, limit: int, wait: float, visibility: float) -> list[QueuedDelivery]:
        """Lease deliveries of a queue for ``visibility`` seconds, waiting up to ``wait`` seconds for the first.

        While a delivery is leased, later ones of its subscription are not handed out: order holds. A lease that ends
        without acknowledgement makes it available again, marked as redelivered. Leases do not outlive the process.
        """

    async def acknowledge(self, queue_id: int, ids: Sequence[DeliveryId]) -> None:
        """Acknowledge deliveries that were pulled or streamed."""

    async def acknowledge_up_to(self, queue_id: int, seq: int) -> None:
        """Acknowledge all deliveries of a queue up to a message."""

    async def acknowledge_queues(self, marks: Mapping[int, int]) -> None:
        """Acknowledge all deliveries of many queues, each up to a message."""

    async def release(self, queue_id: int, ids: Sequence[DeliveryId], *, delay: float = 0.0) -> None:
        """Give leased deliveries back (nack), to be handed out again after ``delay`` seconds."""

    def read_queue(
        self, queue_id: int, after: QueuePosition | None = None, *, offer: Offer | None = None
    ) -> AsyncIterator[list[QueuedDelivery]]:
        """The deliveries of a queue, in order, as they come, in groups; from what is pending, or after a position.

        Memory is bounded: a listener that does not keep up is fed from the store when it asks again. With ``offer``,
        what comes while the iteration waits is offered there first, which spares waking whoever iterates; what is not
        taken comes in the iteration.
        """

    async def dead_letter(self, deliveries: Sequence[tuple[QueuedDelivery, int, str]]) -> list[int]:
        """Give deliveries up, each with the attempts made and the reason: they become dead letters; their ids."""

    async def redrive(self, dead_letter_ids: Sequence[int]) -> list[QueuedDelivery]:
        """Deliver dead letters again; listeners are called, and acknowledge them or give them up."""

    async def change(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in the writing thread, in one commit with others, and return what it returns.

        For what nothing in memory depends on: leases, error records, sources and their state, tokens, dead letters.
        An error that it raises is raised here; nothing of it is stored then, and the others are not affected.
        """

    def add_listener(self, listener: CommitListener) -> None:
        """Tell a watcher from now on."""

    async def tenants_changed(self) -> None:
        """Tenants or their limits were changed, and count from now on."""
