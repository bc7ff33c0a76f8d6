"""What the broker asks of its store.

A store has one writer and many readers. All changes go through a :class:`Transaction`, which
:meth:`Store.transaction` opens for one thread at a time (the hub's, which commits many submissions at once); it is
durable when the ``with`` block has ended without an error, and leaves nothing behind otherwise. Reading methods of
:class:`Store` can be called from any thread at any time, see only what is committed, and block (run them in a thread,
not in an event loop).

All methods raise :class:`~twigcast.broker.errors.StoreUnavailable` when the store does not answer and
:class:`~twigcast.broker.errors.StoreFull` when it has no room; both leave it usable for the next attempt. A transaction
whose commit failed half-way on a lost connection is reported as not done; messages are idempotent by their id, so that
sending them again is right in both cases.

What a queue has pending: all its deliveries with ``seq`` above the queue's ``acked`` mark that are not acknowledged one
by one. Streams move the mark (one row, however many deliveries); pulls acknowledge single ones, and the mark follows.
While the subscription of a queue is replaying, what came after the past is stored but not pending, and the mark stays
before what replay is still to bring.

A new store has one tenant, ``default``, with the id 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from twigcast.broker.model import (
    DeadLetter,
    DeliveryId,
    DeliverySettings,
    ErrorRecord,
    NewDelivery,
    NewQuery,
    NewSubscription,
    QueuedDelivery,
    RejectedRecord,
    Scope,
    Source,
    SourceKind,
    StoredMessage,
    StoredSubscription,
    Submission,
    SubscriptionState,
    Tenant,
    Token,
)


class Pause(NamedTuple):
    """A pause of a query in XQuery: messages that do not count for it, although it has still to come past them."""

    first_seq: int
    last_seq: int | None
    """``None``: it lasts."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of one queue."""

    id: int
    tenant_id: int
    subscriber: str
    acked: int
    """All deliveries up to this sequence number are acknowledged."""


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Where reading of a queue goes on: after this delivery."""

    seq: int
    subscription_id: int = 1 << 62
    """Past all subscriptions: the next message."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """What was tried to push the first delivery of a queue."""

    id: DeliveryId
    count: int
    first_at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class WebSubRequest:
    """A request of a WebSub subscriber as it was sent."""

    base_url: str
    """The broker's address as the subscriber knows it."""
    form: Mapping[str, Sequence[str]]
    """The parameters, each with its values."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of what is stored, and its size in bytes."""

    messages: int
    rejected: int
    subscriptions: int
    lanes: int
    pending: int
    dead_letters: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MessageSummary:
    """A message without its body."""

    seq: int
    source: str
    message_id: str
    received: float
    matches: int
    size: int
    """Bytes of the body."""


@dataclass(frozen=True, slots=True)
class OverlayIdentity:
    """Who a broker is in an overlay."""

    name: str
    instance: bytes
    """16 bytes, drawn with the store."""
    incarnation: int
    """Number of the start: each one's is higher."""


@dataclass(frozen=True, slots=True)
class RootState:
    """What is known of another broker of the overlay."""

    name: str
    horizon: int | None
    """All its messages up to this number are known; ``None``: none was asked for yet."""
    seen: float
    """When that was written last."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message came from that another broker accepted."""

    root: int
    number: int
    """Its number there."""
    route: tuple[int, ...]
    """The brokers that it passed."""


class Transaction(Protocol):
    """Changes that become durable together."""

    # Messages

    def next_seq(self) -> int:
        """The sequence number that the next message will get."""

    def stored_messages(self, submissions: Sequence[Submission]) -> Mapping[tuple[int, str, str], StoredMessage]:
        """Those of the submissions that were accepted before: by tenant id, source and message id. Bodies are empty."""

    def add_messages(self, messages: Sequence[StoredMessage]) -> None:
        """Store accepted messages, with sequence numbers in order from :meth:`next_seq` on."""

    def add_rejected(
        self, submission: Submission, *, code: str, reason: str, line: int | None, column: int | None, at: float
    ) -> int:
        """Keep a message that could not be processed, whole; its id."""

    def add_deliveries(self, deliveries: Iterable[NewDelivery]) -> None:
        """Store deliveries; those that are there already stay as they are."""

    def add_errors(self, records: Iterable[ErrorRecord]) -> None:
        """Store what went wrong for single subscriptions (a bounded number of the latest is kept for each)."""

    # Queues

    def acknowledge_up_to(self, queue_id: int, seq: int) -> None:
        """Move the mark of a queue forward; never back."""

    def acknowledge(self, queue_id: int, ids: Sequence[DeliveryId]) -> None:
        """Acknowledge single deliveries, in any order, and let the mark follow. Unknown ones are passed over.

        Where they are the first that are pending, only the mark is written.
        """

    # Subscriptions

    def add_subscriptions(self, new: Sequence[NewSubscription], *, at: float) -> list[StoredSubscription | Exception]:
        """Store subscriptions and the queues they need.

        A :class:`~twigcast.broker.errors.Conflict` stands in place of each whose key is taken, whose subscriber cannot
        be shared, or that wants replay in a queue that is not new. The past ends before :meth:`next_seq`.
        """

    def replace_subscription(
        self,
        subscription_id: int,
        *,
        query: str,
        namespaces: Mapping[str, str],
        dialect: str,
        delivery: DeliverySettings,
    ) -> StoredSubscription:
        """Give a subscription another query and delivery; its queue and what is pending stay."""

    def replace_queries(self, new: Sequence[NewQuery]) -> list[StoredSubscription]:
        """Give many subscriptions, none twice, other queries; as they are then, those that are there, in any order."""

    def set_subscription_state(self, subscription_id: int, state: SubscriptionState, reason: str | None) -> None:
        """Pause, suspend or resume it."""

    def set_lease(self, subscription_id: int, expires: float | None) -> None:
        """Set the end of its WebSub lease."""

    def replay_next(self, subscription_id: int) -> int | None:
        """How far its replay has come; ``None``: there is none, or no such subscription."""

    def set_replay(self, subscription_id: int, replay_next: int | None) -> None:
        """Say how far replay has come; ``None``: to the end."""

    def pauses(self, subscription_id: int) -> list[Pause]:
        """Pauses that a query in XQuery has not come past, in order."""

    def begin_pause(self, subscription_id: int, first_seq: int) -> None:
        """It is paused: messages from this one on do not count for it."""

    def end_pause(self, subscription_id: int, last_seq: int) -> bool:
        """It goes on: messages after this one count again. Whether there was a pause to end."""

    def forget_pauses(self, subscription_id: int, *, before: int | None = None) -> None:
        """It has come past those that ended before a message, or past all."""

    def delete_subscription(self, subscription_id: int) -> None:
        """Delete it, its errors and dead letters, its pending deliveries, and its queue with the last subscription."""

    # Pushing

    def set_attempts(self, queue_id: int, attempts: Attempts | None) -> None:
        """Remember how often the first delivery of a queue was tried; ``None``: nothing is left to remember."""

    def add_websub_request(self, request: WebSubRequest) -> int:
        """Keep a request until it is verified; its number."""

    def delete_websub_request(self, number: int) -> None:
        """Forget a request that was carried out or refused."""

    # Dead letters

    def dead_letter(self, deliveries: Sequence[tuple[QueuedDelivery, int, str]], *, at: float) -> list[int]:
        """Move deliveries (each with the attempts made and the reason) to the dead letters and acknowledge them."""

    def redrive(self, dead_letter_ids: Sequence[int]) -> list[QueuedDelivery]:
        """Take dead letters out, to be delivered again; what a push worker then does not finish it buries again.

        What is finished is to be acknowledged one by one (:meth:`acknowledge`). Until then the store keeps the dead
        letter out of sight; a broker that ends before finds it in its place again at the next start.
        """

    def remove_dead_letters(self, dead_letter_ids: Sequence[int]) -> int:
        """Remove dead letters for good; how many there were."""

    # Administration

    def add_tenant(self, name: str, limits: Mapping[str, int]) -> Tenant:
        """Make a tenant. Raises Conflict when the name is taken."""

    def set_tenant_limits(self, tenant_id: int, limits: Mapping[str, int]) -> None:
        """Give a tenant limits of its own."""

    def add_token(
        self,
        tenant_id: int,
        name: str,
        scopes: frozenset[Scope],
        digest: bytes,
        *,
        at: float,
        tokens_max: int | None = None,
    ) -> Token:
        """Keep the digest of a new token. Raises LimitReached when the tenant has that many."""

    def delete_token(self, token_id: int) -> None:
        """Forget a token."""

    def put_source(
        self,
        tenant_id: int,
        name: str,
        *,
        kind: SourceKind,
        url: str | None,
        interval: float,
        dtd: str | None,
        paused: bool,
        sources_max: int | None = None,
    ) -> Source:
        """Register a source, or change one. Raises LimitReached for a new one when the tenant has that many."""

    def set_source_state(self, source_id: int, state: Mapping[str, Any]) -> None:
        """Remember what polling needs."""

    def delete_source(self, source_id: int) -> None:
        """Forget a source; its messages stay."""

    def remove_rejected(self, ids: Sequence[int]) -> int:
        """Remove rejected messages for good; how many there were."""

    # Retention

    def expire(
        self, *, before: float | None, bytes_max: int | None, limit: int, at: float, up_to: int | None = None
    ) -> int:
        """Remove up to ``limit`` of the oldest messages, and of the rejected ones; how many messages went.

        Those go that are older than ``before`` or beyond ``bytes_max`` in all, with their deliveries; messages above
        ``up_to`` stay in any case. What was still pending is counted in an error record of its subscription, so that
        nothing ends silently.
        """

    # Overlay

    def start_overlay(self, name: str, incarnation: int) -> OverlayIdentity:
        """Begin a start as a broker of an overlay, which gets a new incarnation: at least this one, above the last.

        Raises:
            Conflict: The store is that of a broker of another name.
        """

    def forget_overlay_identity(self) -> bool:
        """Be no broker of an overlay any more, so that the next start makes a new one; whether it was one.

        What it held of the registry is forgotten too: what it promised others may be newer than this store.
        """

    def set_overlay_records(self, kind: str, put: Mapping[str, bytes], gone: Iterable[str] = ()) -> None:
        """Keep or replace some of what the overlay keeps under names, and remove some."""

    def set_horizons(self, horizons: Mapping[int, int], *, at: float) -> None:
        """Up to where all messages of these brokers are known."""

    def name_roots(self, names: Mapping[int, str]) -> None:
        """Remember the names of brokers."""

    def add_origins(self, origins: Sequence[tuple[int, Origin]]) -> None:
        """Say which stored messages, by sequence number, came from other brokers. A known origin stays as it is."""


class Store(Protocol):
    """A durable store. Made by :func:`twigcast.broker.store.open.open_store`, which also migrates it and locks it."""

    url: str
    """Where it is, without a password."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open the one transaction that can be open; a second thread waits."""

    def close(self) -> None:
        """Give back everything, the lock included."""

    def secret(self) -> bytes:
        """32 random bytes, made with the store and kept in it: what capability URLs are signed with."""

    # Messages

    def last_seq(self) -> int:
        """The highest sequence number given so far; 0 when there is none."""

    def message(self, tenant_id: int, seq: int) -> StoredMessage | None:
        """A message by its sequence number."""

    def message_by_id(self, tenant_id: int, message_id: str, source: str | None = None) -> StoredMessage | None:
        """A message by the publisher's id; the latest where several sources gave the same."""

    def messages(
        self,
        tenant_id: int,
        *,
        after: int = 0,
        up_to: int | None = None,
        limit: int,
        newest_first: bool = False,
        source: str | None = None,
        bytes_max: int | None = None,
    ) -> list[StoredMessage]:
        """Messages of a tenant, or of one source of it, in order of sequence, with bodies.

        With ``newest_first`` from the end; with ``bytes_max`` about that many bytes, at least one message.
        """

    def message_summaries(
        self,
        tenant_id: int,
        *,
        after: int = 0,
        up_to: int | None = None,
        limit: int,
        oldest_first: bool = False,
        source: str | None = None,
    ) -> list[MessageSummary]:
        """Messages of a tenant, or of one source, without their bodies, the newest first unless said otherwise."""

    def first_seq_since(self, tenant_id: int, received: float) -> int | None:
        """The first message received at or after a time."""

    def rejected(
        self, tenant_id: int, *, before_id: int | None = None, after_id: int | None = None, limit: int
    ) -> list[RejectedRecord]:
        """Rejected messages, newest first; after one of them, oldest first."""

    def rejected_message(self, tenant_id: int, rejected_id: int) -> RejectedRecord | None:
        """One of them."""

    # Queues

    def queue(self, tenant_id: int, subscriber: str) -> QueueState | None:
        """A queue by its subscriber's name."""

    def pending(
        self,
        queue_id: int,
        *,
        after: QueuePosition | None = None,
        limit: int,
        bytes_max: int,
        skip_subscriptions: frozenset[int] = frozenset(),
    ) -> list[QueuedDelivery]:
        """What a queue has pending, in order: up to ``limit`` deliveries and about ``bytes_max`` bytes, at least one.

        Deliveries of one message share their :class:`StoredMessage`. ``redelivered`` is not set here.
        """

    def pending_count(self, queue_id: int) -> int:
        """How many deliveries a queue has pending."""

    def recent_deliveries(
        self, subscription_id: int, limit: int, *, before_seq: int | None = None
    ) -> list[QueuedDelivery]:
        """The latest deliveries of a subscription (before a message), acknowledged or not, newest first."""

    def queues_with_pending(self, queue_ids: Iterable[int]) -> list[int]:
        """Those of the queues that have something pending."""

    # Pushing

    def attempts(self, queue_id: int) -> Attempts | None:
        """How often the first delivery of a queue was tried, where it failed before."""

    def websub_requests(self) -> list[tuple[int, WebSubRequest]]:
        """Requests that were accepted and not verified yet, with their numbers, in order."""

    # Subscriptions

    def subscription(self, tenant_id: int, key: str) -> StoredSubscription | None:
        """A subscription by its key."""

    def subscriptions_by_key(self, tenant_id: int, keys: Sequence[str]) -> dict[str, StoredSubscription]:
        """Subscriptions by their keys, those that are there."""

    def subscriptions(
        self,
        tenant_id: int,
        *,
        after_key: str | None = None,
        before_key: str | None = None,
        limit: int,
        subscriber: str | None = None,
        containing: str | None = None,
        state: SubscriptionState | None = None,
    ) -> list[StoredSubscription]:
        """Subscriptions of a tenant in order of their keys: of one subscriber, in one state, or with a text in them.

        With ``before_key`` back from there, the last key first.
        ``containing`` looks in key and query, whatever the case of ASCII letters; it reads all that lie between.
        """

    def all_subscriptions(self, *, pushed_only: bool = False) -> Iterator[StoredSubscription]:
        """All subscriptions of all tenants, in a stream: a million takes a few seconds.

        With ``pushed_only`` those whose deliveries are not pulled: webhooks and WebSub.
        """

    def subscription_count(self, tenant_id: int, state: SubscriptionState | None = None) -> int:
        """How many subscriptions a tenant has, perhaps only those in one state."""

    def keys_of_message(self, tenant_id: int, seq: int, limit: int) -> list[str]:
        """Keys of the subscriptions that have, or had, a delivery of a message; the first in order."""

    def pauses(self, subscription_id: int) -> list[Pause]:
        """Pauses that a query in XQuery has not come past, in order."""

    def errors(self, subscription_id: int, limit: int) -> list[ErrorRecord]:
        """What went wrong for a subscription lately, newest first."""

    def dead_letters(
        self,
        tenant_id: int,
        *,
        before_id: int | None = None,
        after_id: int | None = None,
        limit: int,
        key: str | None = None,
    ) -> list[DeadLetter]:
        """Dead letters, newest first; after one of them, oldest first."""

    # Overlay

    def overlay_identity(self) -> OverlayIdentity | None:
        """Who this broker is in an overlay; ``None``: it has never been part of one."""

    def overlay_roots(self) -> dict[int, RootState]:
        """The other brokers that are known, by number."""

    def overlay_origin(self, seq: int) -> Origin | None:
        """Where a message came from; ``None``: it was published here."""

    def overlay_records(self, kind: str) -> dict[str, bytes]:
        """What the overlay keeps of one kind, by name, in the order of names."""

    def own_messages(self, *, after: int, up_to: int, limit: int, bytes_max: int) -> list[StoredMessage]:
        """Messages of all tenants that were published here, in order; about ``bytes_max`` bytes, at least one."""

    def forgotten(self) -> int:
        """The highest sequence number that retention has removed; 0: none."""

    # Administration

    def tenants(self) -> list[Tenant]:
        """All tenants."""

    def token_by_digest(self, digest: bytes) -> Token | None:
        """A token by the digest of its secret."""

    def access_version(self) -> int:
        """A number that grows with each token that is deleted and each change of a tenant's limits."""

    def tokens(self, tenant_id: int) -> list[Token]:
        """The tokens of a tenant."""

    def source(self, tenant_id: int, name: str) -> Source | None:
        """A source by its name."""

    def sources(self, tenant_id: int | None = None) -> list[Source]:
        """The sources of a tenant, or of all."""

    def statistics(self, tenant_id: int | None = None) -> Statistics:
        """Counts, of a tenant or of all."""

    def vacuum(self) -> None:
        """Give room back to the system."""

    def backup(self, path: Path) -> None:
        """Write a consistent copy while the broker works. Raises OutputError when it cannot."""
