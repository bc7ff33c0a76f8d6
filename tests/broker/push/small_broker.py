"""The broker in small, over a real store: what the hub does, one thing at a time and in the caller's thread.

It lets the tests of this folder say precisely what is stored when, without the timing of group commits.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

from twigcast import Subscription as EngineSubscription
from twigcast import SubscriptionSet
from twigcast.broker.errors import BrokerError
from twigcast.broker.model import (
    Accepted,
    Delivery,
    DeliveryId,
    DeliverySettings,
    NewDelivery,
    NewSubscription,
    RejectedMessage,
    StoredMessage,
    Submission,
    Subscription,
    SubscriptionState,
)
from twigcast.broker.service import Watcher
from twigcast.broker.store.interface import LanePosition, Store, Transaction
from twigcast.errors import RejectedMessage as Rejection
from twigcast.errors import TwigcastError

T = TypeVar("T")


class SmallBroker:
    """Implements ``twigcast.broker.service.Broker``, save for pulling."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.watchers: list[Watcher] = []
        self.publications = 0

    def watch(self, watcher: Watcher) -> None:
        self.watchers.append(watcher)

    async def publish(self, submissions: Sequence[Submission]) -> list[Accepted | RejectedMessage]:
        self.publications += len(submissions)
        return [self._publish(submission) for submission in submissions]

    def _publish(self, submission: Submission) -> Accepted | RejectedMessage:
        active = [
            s
            for s in self.store.all_subscriptions()
            if s.tenant_id == submission.tenant_id and s.state is not SubscriptionState.PAUSED
        ]
        population = SubscriptionSet()
        for s in active:
            population.add_many([EngineSubscription(s.key, s.query, s.namespaces, s.dialect)])
        by_key = {s.key: s for s in active}
        with self.store.transaction() as transaction:
            known = transaction.known_messages([submission])
            if known:
                (message,) = known.values()
                return Accepted(message.seq, message.message_id, message.matches, duplicate=True)
            seq = transaction.next_seq()
            try:
                found = population.deliver(submission.body)
            except Rejection as error:
                at = time.time()
                number = transaction.add_rejected(
                    submission, code=error.code, reason=error.reason, line=error.line, column=error.column, at=at
                )
                return RejectedMessage(
                    number,
                    submission.tenant_id,
                    submission.source,
                    submission.message_id,
                    at,
                    submission.body,
                    error.code,
                    error.reason,
                )
            message_id = submission.message_id or f"m{seq}"
            transaction.add_messages(
                [
                    StoredMessage(
                        seq,
                        submission.tenant_id,
                        submission.source,
                        message_id,
                        time.time(),
                        submission.body,
                        len(found),
                    )
                ]
            )
            transaction.add_deliveries(
                NewDelivery(
                    by_key[d.key].lane_id,
                    seq,
                    by_key[d.key].id,
                    d.payload if d.rewritten else None,
                )
                for d in found
            )
        for watcher in self.watchers:
            watcher.on_deliveries({by_key[d.key].lane_id for d in found})
        return Accepted(seq, message_id, len(found))

    async def subscribe(self, new: Sequence[NewSubscription]) -> list[Subscription | Exception]:
        results: list[Subscription | Exception] = []
        for one in new:
            try:
                SubscriptionSet([(one.key, one.query)], namespaces=one.namespaces)
            except TwigcastError as error:
                results.append(error)
                continue
            with self.store.transaction() as transaction:
                results += transaction.add_subscriptions([one], at=time.time())
        self._tell([s for s in results if isinstance(s, Subscription)])
        return results

    async def replace(
        self,
        subscription: Subscription,
        *,
        query: str,
        namespaces: Mapping[str, str],
        dialect: str,
        delivery: DeliverySettings,
    ) -> Subscription:
        with self.store.transaction() as transaction:
            found = transaction.replace_subscription(
                subscription.id, query=query, namespaces=namespaces, dialect=dialect, delivery=delivery
            )
        self._tell([found])
        return found

    async def set_state(
        self, subscription: Subscription, state: SubscriptionState, reason: str | None = None
    ) -> Subscription:
        with self.store.transaction() as transaction:
            transaction.set_subscription_state(subscription.id, state, reason)
        found = self.store.subscription(subscription.tenant_id, subscription.key)
        assert found is not None
        self._tell([found])
        return found

    async def unsubscribe(self, subscription: Subscription) -> None:
        with self.store.transaction() as transaction:
            transaction.delete_subscription(subscription.id)
        for watcher in self.watchers:
            watcher.on_subscriptions([], [subscription])

    async def acknowledge(self, lane_id: int, ids: Sequence[DeliveryId]) -> None:
        with self.store.transaction() as transaction:
            transaction.acknowledge(lane_id, ids)

    async def acknowledge_up_to(self, lane_id: int, seq: int) -> None:
        with self.store.transaction() as transaction:
            transaction.acknowledge_up_to(lane_id, seq)

    async def bury(self, deliveries: Sequence[tuple[Delivery, int, str]]) -> list[int]:
        with self.store.transaction() as transaction:
            return transaction.bury(deliveries, at=time.time())

    async def revive(self, dead_letter_ids: Sequence[int]) -> list[Delivery]:
        with self.store.transaction() as transaction:
            deliveries = transaction.revive(dead_letter_ids)
        for watcher in self.watchers:
            watcher.on_revived(deliveries)
        return deliveries

    async def change(self, work: Callable[[Transaction], T]) -> T:
        with self.store.transaction() as transaction:
            return work(transaction)

    async def pull(self, lane_id: int, *, limit: int, wait: float, visibility: float) -> list[Delivery]:
        raise BrokerError("this broker does not pull")

    async def release(self, lane_id: int, ids: Sequence[DeliveryId], *, delay: float = 0.0) -> None:
        raise BrokerError("this broker does not pull")

    def listen(self, lane_id: int, after: LanePosition | None = None) -> AsyncIterator[list[Delivery]]:
        raise BrokerError("this broker does not stream")

    def _tell(self, changed: Sequence[Subscription]) -> None:
        for watcher in self.watchers:
            watcher.on_subscriptions(changed, [])
