"""Operations of the writing thread beside publishing: changes of subscriptions, acknowledgements, other changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from twigcast.broker.errors import LimitReached, UnknownObject
from twigcast.broker.feed_addresses import source_of_topic
from twigcast.broker.hub.commit import CommitGroup, Operation
from twigcast.broker.hub.overflow import fill_gap
from twigcast.broker.hub.population import RegisteredSubscription
from twigcast.broker.hub.windows import ReplayedMessage, WindowRun, restart, resume
from twigcast.broker.model import (
    DeliveryId,
    DeliverySettings,
    ErrorRecord,
    NewDelivery,
    NewQuery,
    NewSubscription,
    OverflowPolicy,
    Pause,
    StoredMessage,
    StoredSubscription,
    SubscriptionState,
)
from twigcast.broker.store.store import Transaction
from twigcast.broker.urgency import Urgency
from twigcast.registration import Dialect, Params
from twigcast.windows.declarations import Window

CAUGHT_UP_MESSAGES: Final = 500
"""Number of messages that the end of a replay for a window may take in one step."""


@dataclass(eq=False)
class Subscribe(Operation):
    """An addition of subscriptions. Results in the subscription, or the error that refused it, for each."""

    new: Sequence[NewSubscription]

    def __post_init__(self) -> None:
        self.tenant_ids = tuple(dict.fromkeys(new.tenant_id for new in self.new))

    def apply(self, group: CommitGroup) -> None:
        """Stores them and registers them, and deletes again those that the engine refuses."""
        results: list[StoredSubscription | Exception | None] = [_over(limit) for limit in self._broken(group)]
        requested = [index for index, result in enumerate(results) if result is None]
        answers = group.transaction.add_subscriptions([self.new[index] for index in requested], at=group.now)
        added: list[tuple[int, StoredSubscription]] = []
        for position, answer in zip(requested, answers, strict=True):
            results[position] = answer
            if isinstance(answer, StoredSubscription):
                added.append((position, answer))
        for index, error in group.register([RegisteredSubscription.of(s) for _, s in added]):
            position, subscription = added[index]
            group.transaction.delete_subscription(subscription.id)
            results[position] = error
        accepted = [result for result in results if isinstance(result, StoredSubscription)]
        windows = WindowRun(group)
        for subscription in accepted:
            if subscription.window is not None:
                windows.begin(RegisteredSubscription.of(subscription), group.now)
        windows.finish()
        group.result.changed += accepted
        group.result.replays += [(s.queue_id, s.id, s.replay_next) for s in accepted if s.replay_next is not None]
        self.result = results

    def _broken(self, group: CommitGroup) -> list[int | None]:
        """Returns the limit that each subscription would exceed; ``None`` for none."""
        remaining: dict[int, int] = {}
        broken: list[int | None] = []
        for new in self.new:
            limit = group.limit(new.tenant_id, "subscriptions_max")
            left = remaining.setdefault(new.tenant_id, limit - len(group.population.of(new.tenant_id)))
            remaining[new.tenant_id] = left - 1
            broken.append(None if left > 0 else limit)
        return broken


def _over(limit: int | None) -> StoredSubscription | Exception | None:
    return None if limit is None else LimitReached.of("subscriptions", "subscriptions_max", limit)


@dataclass(eq=False)
class Replace(Operation):
    """A replacement of a subscription's query and delivery. Results in the new subscription."""

    subscription: StoredSubscription
    query: str
    namespaces: Mapping[str, str]
    dialect: Dialect
    delivery: DeliverySettings
    overflow: OverflowPolicy
    params: Params
    follow: bool | None
    window: Window | None
    urgency: Urgency | None

    def __post_init__(self) -> None:
        self.tenant_ids = (self.subscription.tenant_id,)

    def apply(self, group: CommitGroup) -> None:
        """Changes store and engine. What is known for another window is forgotten."""
        existing = _registered(group, self.subscription)
        active = group.population.of(existing.tenant_id).active(existing.id)
        requested = replace(
            existing,
            query=self.query,
            namespaces=self.namespaces,
            dialect=self.dialect,
            pushed=self.delivery.is_pushed,
            source=source_of_topic(self.delivery),
            params=self.params,
            overflow=self.overflow,
            follow=self.follow,
            window=self.window,
        )
        group.put(requested, active=active)
        self.result = group.transaction.replace_subscription(
            existing.id,
            query=self.query,
            namespaces=self.namespaces,
            dialect=self.dialect,
            params=self.params,
            delivery=self.delivery,
            overflow=self.overflow,
            follow=self.follow,
            window=self.window,
            urgency=self.urgency,
        )
        if self.window != existing.window:
            restart(group, requested)
        group.remaining_by_queue.pop(existing.queue_id, None)
        group.full_queues.pop(existing.queue_id, None)
        group.result.changed.append(self.result)


@dataclass(eq=False)
class ReplaceQueries(Operation):
    """A replacement of the queries of subscriptions, none twice. Results in ``None`` or an error for each."""

    new: Sequence[NewQuery]

    def __post_init__(self) -> None:
        self.tenant_ids = tuple(dict.fromkeys(new.subscription.tenant_id for new in self.new))

    def apply(self, group: CommitGroup) -> None:
        """Changes store and engine."""
        results: list[Exception | None] = []
        requested: list[tuple[int, RegisteredSubscription, bool]] = []
        for position, new in enumerate(self.new):
            try:
                existing = _registered(group, new.subscription)
            except UnknownObject as error:
                results.append(error)
                continue
            results.append(None)
            active = group.population.of(existing.tenant_id).active(existing.id)
            asked = replace(
                existing, query=new.query, namespaces=new.namespaces, dialect=new.dialect, params=new.params
            )
            requested.append((position, asked, active))
        for index, refusal in group.put_many([(member, active) for _, member, active in requested]):
            results[requested[index][0]] = refusal
        good = [new for new, result in zip(self.new, results, strict=True) if result is None]
        group.result.changed += group.transaction.replace_queries(good)
        self.result = results


@dataclass(eq=False)
class SetState(Operation):
    """A change of the state of a subscription."""

    subscription: StoredSubscription
    state: SubscriptionState
    reason: str | None

    def __post_init__(self) -> None:
        self.tenant_ids = (self.subscription.tenant_id,)

    def apply(self, group: CommitGroup) -> None:
        """Changes store and engine."""
        existing = _registered(group, self.subscription)
        active = self.state is SubscriptionState.ACTIVE
        was_active = group.population.of(existing.tenant_id).active(existing.id)
        if existing.dialect == "xquery" and active != was_active:
            self._pause_follower(group, existing)
        had_gap = fill_gap(group, existing)
        group.put(existing, active=active)
        group.transaction.set_subscription_state(existing.id, self.state, self.reason)
        if active and not was_active and existing.window is not None:
            resume(group, existing, has_all=had_gap)
        group.reread.append(existing)
        group.remaining_by_queue.pop(existing.queue_id, None)

    def _pause_follower(self, group: CommitGroup, existing: RegisteredSubscription) -> None:
        """Lets messages within the pause not count. Those before it do, although they may not have been matched yet."""
        transaction, next_seq = group.transaction, group.transaction.next_seq()
        if self.state is not SubscriptionState.ACTIVE:
            transaction.begin_pause(existing.id, next_seq)
        elif not transaction.end_pause(existing.id, next_seq - 1):
            # Nothing is recorded of the pause but that it is over.
            transaction.set_replay(existing.id, next_seq)
            group.result.replays.append((existing.queue_id, existing.id, next_seq))


@dataclass(eq=False)
class Seek(Operation):
    """A new beginning of a subscription, with a stored message or the next one. Results in the subscription."""

    subscription: StoredSubscription
    first_seq: int | None
    """``None`` for the next message."""

    def __post_init__(self) -> None:
        self.tenant_ids = (self.subscription.tenant_id,)

    def apply(self, group: CommitGroup) -> None:
        """Changes the store, and lets replay and readers begin anew."""
        existing = _registered(group, self.subscription)
        end = group.transaction.next_seq()
        first = end if self.first_seq is None else max(1, min(self.first_seq, end))
        if fill_gap(group, existing):
            # What waited is done now.
            group.put(existing, active=True)
            group.transaction.set_subscription_state(existing.id, SubscriptionState.ACTIVE, None)
        self.result = group.transaction.seek(existing.id, first, end - 1)
        if existing.window is not None:
            restart(group, existing)
        group.result.changed.append(self.result)
        group.result.replays.append((existing.queue_id, existing.id, self.result.replay_next))
        group.result.sought[existing.queue_id] = (existing.id, first)
        group.remaining_by_queue.pop(existing.queue_id, None)


@dataclass(eq=False)
class Unsubscribe(Operation):
    """A deletion of a subscription with its pending deliveries."""

    subscription: StoredSubscription

    def __post_init__(self) -> None:
        self.tenant_ids = (self.subscription.tenant_id,)

    def apply(self, group: CommitGroup) -> None:
        """Changes store and engine."""
        existing = _registered(group, self.subscription)
        group.forget(existing)
        group.transaction.delete_subscription(existing.id)
        group.result.removed.append(self.subscription)


def _registered(group: CommitGroup, subscription: StoredSubscription) -> RegisteredSubscription:
    """Returns a subscription as it is at this point of the group."""
    existing = group.population.of(subscription.tenant_id).member(subscription.tenant_id, subscription.id)
    if existing is None:
        raise UnknownObject(f"there is no subscription with the key {subscription.key!r} any more")
    return existing


@dataclass(eq=False)
class AcknowledgeDeliveries(Operation):
    """An acknowledgement of single deliveries."""

    commutes = True

    queue_id: int
    ids: Sequence[DeliveryId]
    seeks: int
    """How often the queue had begun anew when they were handed out; what began anew since is not acknowledged."""

    def apply(self, group: CommitGroup) -> None:
        """Changes the store."""
        if group.seeks.get(self.queue_id, 0) == self.seeks:
            group.transaction.acknowledge(self.queue_id, self.ids)
            group.counted.acknowledged += len(self.ids)


@dataclass(eq=False)
class AcknowledgeUpTo(Operation):
    """An acknowledgement of all deliveries of queues, each up to a stored message."""

    commutes = True

    marks: Mapping[int, int]
    seeks: Mapping[int, int]
    """How often each queue had begun anew when they were handed out."""

    def apply(self, group: CommitGroup) -> None:
        """Changes the store."""
        for queue_id, seq in self.marks.items():
            if group.seeks.get(queue_id, 0) == self.seeks[queue_id]:
                group.transaction.acknowledge_up_to(queue_id, seq)
        group.counted.marks += len(self.marks)


@dataclass(eq=False)
class StoreChange(Operation):
    """A change of the store that nothing in memory depends on. Results in what ``work`` returns."""

    commutes = True

    work: Callable[[Transaction], object]
    """Makes the change; can be called again after an attempt that was undone."""

    def apply(self, group: CommitGroup) -> None:
        """Calls ``work``."""
        self.result = self.work(group.transaction)


@dataclass(eq=False)
class StoreReplay(Operation):
    """A range of replay to be stored. Results in whether it was, since the subscription was unchanged."""

    member: RegisteredSubscription
    """The subscription as it was matched."""
    deliveries: Sequence[NewDelivery]
    begun_at: int
    """The position of replay before."""
    replay_next: int | None
    """The next position of replay; ``None`` after its end."""
    replay_end: int | None = None
    """The last message of the replay as it was matched; ``None`` if it has none."""
    errors: Sequence[ErrorRecord] = ()
    pauses: Sequence[Pause] | None = None
    """The pauses that the matching took into account; ``None`` if it only ran while the subscription was active."""
    replayed: Sequence[ReplayedMessage] = ()
    """The messages that concern its window, if it has one, in order."""
    match: Callable[[Sequence[StoredMessage]], Sequence[ReplayedMessage]] | None = None
    """Finds which of further messages concern its window."""

    def __post_init__(self) -> None:
        self.goes_on_at = self.replay_next
        if self.member.window is not None:
            # In order with publications: no message may count before those that are replayed.
            self.tenant_ids = (self.member.tenant_id,)

    def apply(self, group: CommitGroup) -> None:
        """Changes the store."""
        member = self.member
        population = group.population.of(member.tenant_id)
        existing = population.member(member.tenant_id, member.id)
        # Whether it is pushed does not change its deliveries.
        self.result = existing is not None and replace(existing, pushed=member.pushed) == member and self._counts(group)
        if not self.result:
            # It has changed meanwhile, or its position has.
            return
        group.transaction.add_errors(self.errors)
        group.counted.undecided += len(self.errors)
        deliveries = self._with_owed(group.transaction)
        if member.window is None:
            group.transaction.set_replay(member.id, self.replay_next)
        else:
            deliveries = self._of_window(group, member, deliveries)
        group.transaction.add_deliveries(deliveries)
        if self.pauses:
            group.transaction.forget_pauses(member.id, before=self.replay_next)
        group.result.replays.append((member.queue_id, member.id, self.goes_on_at))
        group.counted.replayed += len(deliveries)
        if deliveries:
            group.result.filled.add(member.queue_id)
        if deliveries and existing is not None and existing.pushed:
            group.result.pushed.add(member.queue_id)

    def _of_window(
        self, group: CommitGroup, member: RegisteredSubscription, owed: Sequence[NewDelivery]
    ) -> list[NewDelivery]:
        """Returns what a window tells of the messages, and goes on until no message is left that came meanwhile.

        The last of them are matched here, so that none comes in between: then new messages count at once.
        """
        transaction, run, found = group.transaction, WindowRun(group), list(self.replayed)
        self.goes_on_at = self.replay_next
        if self.replay_next is None and self.replay_end is not None:
            later = transaction.messages_from(member.tenant_id, self.replay_end, CAUGHT_UP_MESSAGES + 1)
            if len(later) > CAUGHT_UP_MESSAGES:
                self.goes_on_at = self.replay_end + 1
                transaction.set_replay_end(member.id, self.goes_on_at, transaction.next_seq() - 1)
            elif later and self.match is not None:
                found += self.match(transaction.messages_of(later))
        told = run.replay(member, found)
        if self.goes_on_at is None or self.goes_on_at == self.replay_next:
            transaction.set_replay(member.id, self.goes_on_at)
        if self.goes_on_at is None:
            transaction.release_windows(member.id)
        run.finish()
        by_seq = {delivery.seq: delivery for delivery in [*owed, *told]}
        return [by_seq[seq] for seq in sorted(by_seq)]

    def _with_owed(self, transaction: Transaction) -> Sequence[NewDelivery]:
        """Returns the deliveries with those that the subscription is owed, though it does not match them."""
        owed = transaction.take_owed(self.member.id, self.begun_at, self.replay_next)
        if not owed:
            return self.deliveries
        by_seq = {delivery.seq: delivery for delivery in self.deliveries}
        for _, seq, relation in owed:
            plain = by_seq.get(seq) or NewDelivery(self.member.queue_id, seq, self.member.id, None)
            by_seq[seq] = plain._replace(relation=relation)
        return [by_seq[seq] for seq in sorted(by_seq)]

    def _counts(self, group: CommitGroup) -> bool:
        """Returns whether the matched range is still the next one."""
        number = self.member.id
        if group.transaction.replay_range(number) != (self.begun_at, self.replay_end):
            return False
        takes_part = group.population.of(self.member.tenant_id).active(number)
        if self.pauses is None:
            return takes_part
        pauses = group.transaction.pauses(number)
        # It may be on its way to the beginning of a pause, and has not matched anything behind it.
        return pauses == self.pauses and (takes_part or bool(pauses and pauses[-1].last_seq is None))
