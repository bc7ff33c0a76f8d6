"""Subscriptions, the queues they need, and their pauses.

Queries in XQuery match messages later than these arrive, so their pauses are stored: messages before a pause still
count when the query reaches them; those within the pause do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from twigcast.broker.errors import Conflict, UnknownObject
from twigcast.broker.model import (
    PULL,
    DeliverySettings,
    ErrorRecord,
    NewQuery,
    NewSubscription,
    OverflowPolicy,
    Pause,
    PlainSubscriptions,
    Sharing,
    StoredSubscription,
    SubscriptionState,
)
from twigcast.broker.store.database import INTEGER_MAX, DatabaseSession, Memory, Reads, Row, Writes, chunks
from twigcast.broker.store.sealing import Sealer
from twigcast.broker.store.sharing import read_sharing, sharing_text
from twigcast.broker.urgency import OverduePolicy, Urgency
from twigcast.registration import Params
from twigcast.windows.declarations import Window, window_of_text, window_text

_COLUMNS: Final = (
    "id, tenant_id, key, query, lane_id, subscriber, namespaces, dialect, kind, url, secret, previous_secret, expires, "
    "topic, content_filter, delivery_options, state, reason, created, replay_next, replay_end, overflow, missed_from, "
    "params, follow, when_told, urgency"
)
_IS_PLAIN: Final = (
    "CASE WHEN state = 'active' AND dialect <> 'xquery' AND topic IS NULL AND replay_next IS NULL "
    "AND missed_from IS NULL AND overflow IS NULL AND params IS NULL AND follow IS NULL AND when_told IS NULL "
    "THEN 1 ELSE 0 END"
)
_PLAIN_COLUMNS: Final = f"id, tenant_id, lane_id, key, query, namespaces, dialect, kind, {_IS_PLAIN}"
"""The columns of :class:`PlainSubscriptions`, and whether a row is one of them."""
_STATES: Final = {state.value: state for state in SubscriptionState}
_POLICIES: Final = {policy.value: policy for policy in OverflowPolicy} | {None: OverflowPolicy.SUSPEND}
_PULL: Final = DeliverySettings()


def _delivery_columns(delivery: DeliverySettings, sealer: Sealer) -> list[object]:
    return [
        delivery.kind,
        delivery.url,
        sealer.seal(delivery.secret),
        sealer.seal(delivery.previous_secret),
        delivery.expires,
        delivery.topic,
        delivery.content_filter,
        json.dumps(dict(delivery.options)) if delivery.options else None,
    ]


_PULL_COLUMNS: Final = _delivery_columns(_PULL, Sealer())

_LIKE_SPECIAL: Final = re.compile(r"[%_!]")

PAGE: Final = 10_000
"""Number of rows read at once when all are read, so that memory is bounded and no reader blocks the others."""

AMONG_MAX: Final = 1_000
"""Number of names or ids in one query."""

ERRORS_KEPT: Final = 50
"""Number of error records for each subscription."""

REMOVED_AT_ONCE: Final = 10_000
"""Number of deliveries removed together with their subscription; retention removes the rest."""


@lru_cache(maxsize=1_000)
def _namespaces(text: str | None) -> Mapping[str, str]:
    return json.loads(text) if text else {}


@lru_cache(maxsize=1_000)
def _window(text: str) -> Window:
    return window_of_text(text)


def _window_text(window: Window | None) -> str | None:
    return None if window is None else window_text(window)


def _urgency_text(urgency: Urgency | None) -> str | None:
    return None if urgency is None else urgency.as_text()


def _remember_urgency(
    memory: Memory, queue_id: int, delivery: DeliverySettings, subscription_id: int, urgency: Urgency | None
) -> None:
    """Remembers where deliveries may have an urgency of their own."""
    if delivery.is_by_urgency:
        memory.urgent_queues.add(queue_id)
    if urgency is not None:
        memory.urgent_subscriptions.add(subscription_id)
        if urgency.overdue is OverduePolicy.DROP:
            memory.dropping_queues.add(queue_id)


def _params(text: str | None) -> Params:
    return json.loads(text) if text else {}


def _params_text(params: Params) -> str | None:
    return json.dumps(dict(params), ensure_ascii=False) if params else None


def _subscription(row: Row, sealer: Sealer) -> StoredSubscription:
    id_, tenant_id, key, query, queue_id, subscriber, namespaces, dialect, *delivery = row[:16]
    settings = _PULL
    if delivery != _PULL_COLUMNS:
        kind, url, secret, previous_secret, expires, topic, content_filter, options = delivery
        settings = DeliverySettings(
            *(kind, url, sealer.open(secret), expires, topic, content_filter),
            options=json.loads(options) if options else {},
            previous_secret=sealer.open(previous_secret),
        )
    return StoredSubscription(
        id_,
        tenant_id,
        key,
        query,
        queue_id,
        key if subscriber is None else subscriber,
        _namespaces(namespaces),
        dialect,
        settings,
        _STATES[row[16]],
        reason=row[17],
        created=row[18],
        replay_next=row[19],
        replay_end=row[20],
        overflow=_POLICIES[row[21]],
        missed_from=row[22],
        params=_params(row[23]),
        follow=None if row[24] is None else bool(row[24]),
        window=None if row[25] is None else _window(row[25]),
        urgency=None if row[26] is None else Urgency.of_text(row[26]),
    )


def _plain(tenant_id: int, rows: Sequence[Row]) -> PlainSubscriptions:
    """Returns rows of ``_PLAIN_COLUMNS``, all of one tenant, as columns."""
    ids, _, queues, keys, queries, texts, dialects, kinds, _ = zip(*rows, strict=True)
    namespaces: Sequence[Mapping[str, str] | None] = texts
    if any(texts):
        namespaces = [None if text is None else _namespaces(text) for text in texts]
    return PlainSubscriptions(
        *(tenant_id, ids, queues, keys, queries, namespaces, dialects), [kind != PULL for kind in kinds]
    )


def _in_state(state: SubscriptionState) -> str:
    """Returns the condition of being in a state; the few subscriptions that are not active have an index."""
    return "state = ?" if state is SubscriptionState.ACTIVE else "state = ? AND state <> 'active'"


def _policy_text(policy: OverflowPolicy) -> str | None:
    return None if policy is OverflowPolicy.SUSPEND else policy.value


def _follow_number(follow: bool | None) -> int | None:
    """Returns the setting of following as it is stored."""
    return None if follow is None else int(follow)


def _namespaces_text(namespaces: Mapping[str, str]) -> str | None:
    return json.dumps(dict(namespaces), ensure_ascii=False) if namespaces else None


def _pauses(session: DatabaseSession, subscription_id: int) -> list[Pause]:
    sql = "SELECT first_seq, last_seq FROM pauses WHERE subscription_id = ? ORDER BY first_seq"
    return [Pause(*row) for row in session.rows(sql, (subscription_id,))]


class SubscriptionReads(Reads):
    """Reading methods for subscriptions."""

    def subscription(self, tenant_id: int, key: str) -> StoredSubscription | None:
        """Returns a subscription by its key."""
        row = self.first(f"SELECT {_COLUMNS} FROM subscriptions WHERE tenant_id = ? AND key = ?", (tenant_id, key))
        return None if row is None else _subscription(row, self.memory.sealer)

    def subscriptions_by_key(self, tenant_id: int, keys: Sequence[str]) -> dict[str, StoredSubscription]:
        """Returns the existing subscriptions among ``keys``, by key."""
        results: dict[str, StoredSubscription] = {}
        for some in chunks(keys, AMONG_MAX):

            def work(session: DatabaseSession, some: Sequence[str] = some) -> list[Row]:
                condition = f"tenant_id = ? AND {session.among('key', 'text')}"
                return session.rows(
                    f"SELECT {_COLUMNS} FROM subscriptions WHERE {condition}", (tenant_id, session.values(some))
                )

            results.update((row[2], _subscription(row, self.memory.sealer)) for row in self.database.read(work))
        return results

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
        """Returns subscriptions of a tenant in order of their keys, or backwards from ``before_key``.

        They can be restricted to one subscriber, one state, or those with a text in key or query. ``containing``
        ignores the case of ASCII letters and reads all subscriptions in between.
        """
        conditions: list[tuple[str, tuple[object, ...]]] = [("tenant_id = ?", (tenant_id,))]
        if after_key is not None:
            conditions.append(("key > ?", (after_key,)))
        if before_key is not None:
            conditions.append(("key < ?", (before_key,)))
        if subscriber is not None:
            queue = "lane_id = (SELECT id FROM lanes WHERE tenant_id = ? AND subscriber = ?)"
            conditions.append((queue, (tenant_id, subscriber)))
        if containing is not None:
            pattern = "%" + _LIKE_SPECIAL.sub(r"!\g<0>", containing) + "%"
            text = "(LOWER(key) LIKE LOWER(?) ESCAPE '!' OR LOWER(query) LIKE LOWER(?) ESCAPE '!')"
            conditions.append((text, (pattern, pattern)))
        if state is not None:
            conditions.append((_in_state(state), (state.value,)))
        rows = self.rows(
            f"SELECT {_COLUMNS} FROM subscriptions WHERE {' AND '.join(text for text, _ in conditions)} "
            f"ORDER BY key {'ASC' if before_key is None else 'DESC'} LIMIT ?",
            (*(value for _, values in conditions for value in values), limit),
        )
        return [_subscription(row, self.memory.sealer) for row in rows]

    def all_subscriptions(self, *, pushed_only: bool = False) -> Iterator[StoredSubscription]:
        """Yields all subscriptions of all tenants; a million takes a few seconds.

        With ``pushed_only``, only those whose deliveries are sent through a channel.
        """
        condition = " AND kind <> 'pull'" if pushed_only else ""
        last = 0
        while rows := self.rows(
            f"SELECT {_COLUMNS} FROM subscriptions WHERE id > ?{condition} ORDER BY id LIMIT ?", (last, PAGE)
        ):
            yield from (_subscription(row, self.memory.sealer) for row in rows)
            last = rows[-1][0]

    def loaded_subscriptions(self) -> Iterator[PlainSubscriptions | StoredSubscription]:
        """Yields all subscriptions of all tenants: those without anything rare as columns, all others as they are."""
        last = 0

        def work(session: DatabaseSession) -> tuple[list[Row], list[Row]]:
            sql = f"SELECT {_PLAIN_COLUMNS} FROM subscriptions WHERE id > ? ORDER BY id LIMIT ?"
            rows = session.rows(sql, (last, PAGE))
            rare = chunks((row[0] for row in rows if not row[8]), AMONG_MAX)
            sql = f"SELECT {_COLUMNS} FROM subscriptions WHERE {session.among('id')} ORDER BY id"
            return rows, [row for some in rare for row in session.rows(sql, (session.values(some),))]

        waiting: dict[int, list[Row]] = {}
        while (read := self.database.read(work))[0]:
            rows, others = read
            last = rows[-1][0]
            for row in rows:
                if row[8]:
                    waiting.setdefault(row[1], []).append(row)
            for tenant_id in [tenant_id for tenant_id, some in waiting.items() if len(some) >= PAGE]:
                yield _plain(tenant_id, waiting.pop(tenant_id))
            yield from (_subscription(row, self.memory.sealer) for row in others)
        yield from (_plain(tenant_id, some) for tenant_id, some in waiting.items())

    def subscription_count(self, tenant_id: int, state: SubscriptionState | None = None) -> int:
        """Returns how many subscriptions a tenant has, optionally only those in one state."""
        condition, params = ("", ()) if state is None else (f" AND {_in_state(state)}", (state.value,))
        sql = f"SELECT COUNT(*) FROM subscriptions WHERE tenant_id = ?{condition}"
        return int(self.one(sql, (tenant_id, *params))[0])

    def keys_of_message(self, tenant_id: int, seq: int, limit: int) -> list[str]:
        """Returns the first keys, in order, of the subscriptions that have or had a delivery of a message."""
        if seq > INTEGER_MAX:
            return []
        rows = self.rows(
            "SELECT s.key FROM deliveries d JOIN subscriptions s ON s.id = d.subscription_id "
            "WHERE d.seq = ? AND s.tenant_id = ? ORDER BY s.key LIMIT ?",
            (seq, tenant_id, limit),
        )
        return [key for (key,) in rows]

    def errors(self, subscription_id: int, limit: int) -> list[ErrorRecord]:
        """Returns the latest errors of a subscription, newest first."""
        rows = self.rows(
            "SELECT subscription_id, at, reason, seq, count FROM errors WHERE subscription_id = ? "
            "ORDER BY id DESC LIMIT ?",
            (subscription_id, limit),
        )
        return [ErrorRecord(*row) for row in rows]

    def pauses(self, subscription_id: int) -> list[Pause]:
        """Returns the pauses that a query in XQuery has not passed yet, in order."""
        return self.database.read(lambda session: _pauses(session, subscription_id))


class SubscriptionWrites(Writes):
    """Changing methods for subscriptions."""

    def add_subscriptions(self, new: Sequence[NewSubscription], *, at: float) -> list[StoredSubscription | Exception]:
        """Stores subscriptions and the queues they need.

        The result holds a :class:`~twigcast.broker.errors.Conflict` for each subscription whose key is taken, whose
        subscriber cannot be shared, or that asks for replay in a queue that is not new. Replay ends before
        :meth:`next_seq`.
        """
        adding = _Adding(self, at)
        results: list[StoredSubscription | Exception] = []
        for some in chunks(new, 10_000):
            results += adding.add(some)
        return results

    def replace_subscription(
        self,
        subscription_id: int,
        *,
        query: str,
        namespaces: Mapping[str, str],
        dialect: str,
        params: Params,
        delivery: DeliverySettings,
        overflow: OverflowPolicy = OverflowPolicy.SUSPEND,
        follow: bool | None = None,
        window: Window | None = None,
        urgency: Urgency | None = None,
    ) -> StoredSubscription:
        """Gives a subscription another query, delivery and policy; its queue and pending deliveries stay."""
        old = self._subscription(subscription_id)
        if delivery.kind != old.delivery.kind:
            if self._shared(old):
                raise Conflict(f"subscriber {old.subscriber!r} is shared, which only pull deliveries can be")
            self.session.execute("UPDATE lanes SET kind = ? WHERE id = ?", (delivery.kind, old.queue_id))
        if delivery.sharing != old.delivery.sharing:
            if self._shared(old):
                raise Conflict(
                    f"subscriber {old.subscriber!r} has other subscriptions too, and all of them say how its queue is "
                    "shared; delete the others first"
                )
            self._set_sharing(old.queue_id, delivery.sharing)
        if delivery.is_by_urgency != old.delivery.is_by_urgency:
            self.session.execute(
                "UPDATE lanes SET by_urgency = ? WHERE id = ?", (int(delivery.is_by_urgency), old.queue_id)
            )
        _remember_urgency(self.memory, old.queue_id, delivery, subscription_id, urgency)
        self.session.execute(
            "UPDATE subscriptions SET query = ?, namespaces = ?, dialect = ?, params = ?, kind = ?, url = ?, "
            "secret = ?, previous_secret = ?, expires = ?, topic = ?, content_filter = ?, delivery_options = ?, "
            "overflow = ?, follow = ?, when_told = ?, urgency = ? WHERE id = ?",
            (
                *(query, _namespaces_text(namespaces), dialect, _params_text(params)),
                *_delivery_columns(delivery, self.memory.sealer),
                *(_policy_text(overflow), _follow_number(follow), _window_text(window), _urgency_text(urgency)),
                subscription_id,
            ),
        )
        return self._subscription(subscription_id)

    def _set_sharing(self, queue_id: int, sharing: Sharing | None) -> None:
        if sharing is None:
            self.session.execute("DELETE FROM leases WHERE lane_id = ?", (queue_id,))
        else:
            self.memory.shared_queues.add(queue_id)
        self.session.execute("UPDATE lanes SET sharing = ? WHERE id = ?", (sharing_text(sharing), queue_id))

    def replace_queries(self, new: Sequence[NewQuery]) -> list[StoredSubscription]:
        """Gives subscriptions, none twice, other queries; returns those that exist, in any order."""
        self.session.many(
            "UPDATE subscriptions SET query = ?, namespaces = ?, dialect = ?, params = ? WHERE id = ?",
            [
                (n.query, _namespaces_text(n.namespaces), n.dialect, _params_text(n.params), n.subscription.id)
                for n in new
            ],
        )
        results: list[StoredSubscription] = []
        for some in chunks((n.subscription.id for n in new), AMONG_MAX):
            rows = self.session.rows(
                f"SELECT {_COLUMNS} FROM subscriptions WHERE {self.session.among('id')}", (self.session.values(some),)
            )
            results += (_subscription(row, self.memory.sealer) for row in rows)
        return results

    def seal_secrets(self) -> int:
        """Stores all secrets as they are to be stored now; returns how many were not. Raises SecretsSealed."""
        sealer, changed, last = self.memory.sealer, 0, 0
        columns = "secret", "previous_secret"
        while rows := self.session.rows(
            "SELECT id, secret, previous_secret FROM subscriptions "
            "WHERE id > ? AND (secret IS NOT NULL OR previous_secret IS NOT NULL) ORDER BY id LIMIT ?",
            (last, PAGE),
        ):
            last = rows[-1][0]
            for number, *stored in rows:
                for column, text in zip(columns, stored, strict=True):
                    if not sealer.is_current(text):
                        self.session.execute(
                            f"UPDATE subscriptions SET {column} = ? WHERE id = ?",
                            (sealer.seal(sealer.open(text)), number),
                        )
                        changed += 1
        for number, form in self.session.rows("SELECT id, form FROM websub_requests ORDER BY id"):
            if not sealer.is_current(form):
                self.session.execute(
                    "UPDATE websub_requests SET form = ? WHERE id = ?", (sealer.seal(sealer.open(form)), number)
                )
                changed += 1
        ((urls,),) = self.session.rows("SELECT secret FROM secrets WHERE name = 'urls'")
        if not sealer.is_current(text := bytes(urls).decode("latin-1")):
            value = (sealer.seal(sealer.open(text)) or "").encode("latin-1")
            self.session.execute("UPDATE secrets SET secret = ? WHERE name = 'urls'", (value,))
            changed += 1
        return changed

    def _subscription(self, subscription_id: int) -> StoredSubscription:
        row = self.first(f"SELECT {_COLUMNS} FROM subscriptions WHERE id = ?", (subscription_id,))
        if row is None:
            raise UnknownObject("there is no such subscription any more")
        return _subscription(row, self.memory.sealer)

    def _shared(self, subscription: StoredSubscription) -> bool:
        return bool(
            self.session.rows(
                "SELECT 1 FROM subscriptions WHERE lane_id = ? AND id <> ? LIMIT 1",
                (subscription.queue_id, subscription.id),
            )
        )

    def set_subscription_state(self, subscription_id: int, state: SubscriptionState, reason: str | None) -> None:
        """Sets the state of a subscription, with the reason of a suspension."""
        self._change(
            "UPDATE subscriptions SET state = ?, reason = ? WHERE id = ?", state.value, reason, subscription_id
        )

    def replay_range(self, subscription_id: int) -> tuple[int | None, int | None]:
        """Returns the next message that replay matches, and the last one: ``None`` without replay or without an end."""
        row = self.first("SELECT replay_next, replay_end FROM subscriptions WHERE id = ?", (subscription_id,))
        return (None, None) if row is None or row[0] is None else (row[0], row[1])

    def set_replay(self, subscription_id: int, replay_next: int | None) -> None:
        """Records the progress of replay; ``None`` if it has ended."""
        self.save_marks()
        self._change("UPDATE subscriptions SET replay_next = ? WHERE id = ?", replay_next, subscription_id)
        self.session.execute(
            "UPDATE lanes SET replay_next = ? WHERE id = (SELECT lane_id FROM subscriptions WHERE id = ?)",
            (replay_next, subscription_id),
        )

    def seek(self, subscription_id: int, first_seq: int, last_seq: int) -> StoredSubscription:
        """Lets a subscription begin anew with a stored message, and returns it.

        What it got from there on is removed, since replay delivers it again; all before is done.

        Args:
            subscription_id: The subscription, which shares its subscriber with no other.
            first_seq: The message; ``last_seq + 1`` for the next one to come.
            last_seq: The last stored message.
        """
        self.save_marks()
        existing = self._subscription(subscription_id)
        if self._shared(existing):
            raise Conflict(f"seek needs a subscriber of its own, and {existing.subscriber!r} has other subscriptions")
        queue_id = existing.queue_id
        for table in ("set_aside", "push_attempts", "leases"):
            self.session.execute(f"DELETE FROM {table} WHERE lane_id = ?", (queue_id,))
        self.session.execute("DELETE FROM owed WHERE subscription_id = ?", (subscription_id,))
        self.session.execute("DELETE FROM deliveries WHERE lane_id = ? AND seq >= ?", (queue_id, first_seq))
        if queue_id in self.memory.urgent_queues:
            self.session.execute(
                "UPDATE deliveries SET priority = NULL WHERE lane_id = ? AND priority IS NOT NULL", (queue_id,)
            )
        replays = existing.dialect == "xquery" or first_seq <= last_seq
        replay_next = first_seq if replays else None
        replay_end = None if existing.dialect == "xquery" or not replays else last_seq
        self._set_replay_range(subscription_id, replay_next, replay_end)
        self.session.execute(
            "UPDATE lanes SET acked = ?, replay_next = ? WHERE id = ?", (first_seq - 1, replay_next, queue_id)
        )
        return self._subscription(subscription_id)

    def _set_replay_range(self, subscription_id: int, first: int | None, last: int | None) -> None:
        self._change(
            "UPDATE subscriptions SET replay_next = ?, replay_end = ?, missed_from = NULL WHERE id = ?",
            first,
            last,
            subscription_id,
        )

    # Overflow

    def subscribers_of(self, queue_id: int) -> list[tuple[int, OverflowPolicy]]:
        """Returns the subscriptions of a queue, each with its policy."""
        rows = self.session.rows("SELECT id, overflow FROM subscriptions WHERE lane_id = ? ORDER BY id", (queue_id,))
        return [(number, _POLICIES[policy]) for number, policy in rows]

    def begin_gap(self, subscription_id: int, first_seq: int) -> None:
        """Records the first message that a subscription misses."""
        self._change("UPDATE subscriptions SET missed_from = ? WHERE id = ?", first_seq, subscription_id)

    def end_gap(self, subscription_id: int, last_seq: int) -> tuple[int, int | None] | None:
        """Lets replay deliver what a subscription missed, up to a message, once it is active.

        Returns the first missed message and the next one that replay matches; ``None`` if nothing is recorded.
        """
        row = self.first(
            "SELECT missed_from, replay_next, lane_id FROM subscriptions WHERE id = ? AND missed_from IS NOT NULL",
            (subscription_id,),
        )
        if row is None:
            return None
        missed_from, replay_next, queue_id = row
        self.save_marks()
        first = missed_from if replay_next is None else replay_next
        next_seq, last = (first, last_seq) if first <= last_seq else (None, None)
        self._set_replay_range(subscription_id, next_seq, last)
        self.session.execute("UPDATE lanes SET replay_next = ? WHERE id = ?", (next_seq, queue_id))
        return missed_from, next_seq

    def _change(self, sql: str, *params: object) -> None:
        if self.session.execute(sql, params) == 0:
            raise UnknownObject("there is no such subscription any more")

    def delete_subscription(self, subscription_id: int) -> None:
        """Deletes a subscription with its errors, dead letters and deliveries, and a queue with its last."""
        subscription = self._subscription(subscription_id)
        for table in ("errors", "dead_letters", "pauses", "owed", "kept_messages"):
            self.session.execute(f"DELETE FROM {table} WHERE subscription_id = ?", (subscription_id,))
        if not self._shared(subscription):
            for table, column in (("lanes", "id"), ("push_attempts", "lane_id")):
                self.session.execute(f"DELETE FROM {table} WHERE {column} = ?", (subscription.queue_id,))
        elif subscription.replay_next is not None:
            self.session.execute("UPDATE lanes SET replay_next = NULL WHERE id = ?", (subscription.queue_id,))
        self.session.execute("DELETE FROM subscriptions WHERE id = ?", (subscription_id,))
        has_more = self._remove_windows_of(subscription_id, REMOVED_AT_ONCE) == REMOVED_AT_ONCE
        for table in ("set_aside", "leases"):
            self.session.execute(
                f"DELETE FROM {table} WHERE lane_id = ? AND subscription_id = ?",
                (subscription.queue_id, subscription_id),
            )
        removed = self._remove_deliveries_of(subscription.queue_id, subscription_id, REMOVED_AT_ONCE)
        if has_more or removed == REMOVED_AT_ONCE:
            self.session.execute(
                "INSERT INTO leftovers (subscription_id, lane_id) VALUES (?, ?)",
                (subscription_id, subscription.queue_id),
            )

    def _remove_deliveries_of(self, queue_id: int, subscription_id: int, limit: int) -> int:
        return self.session.execute(
            "DELETE FROM deliveries WHERE (lane_id, seq, subscription_id) IN (SELECT lane_id, seq, subscription_id "
            "FROM deliveries WHERE lane_id = ? AND subscription_id = ? ORDER BY seq LIMIT ?)",
            (queue_id, subscription_id, limit),
        )

    def _remove_windows_of(self, subscription_id: int, limit: int) -> int:
        return self.session.execute(
            "DELETE FROM window_states WHERE subscription_id = ? AND window_key IN (SELECT window_key "
            "FROM window_states WHERE subscription_id = ? ORDER BY window_key LIMIT ?)",
            (subscription_id, subscription_id, limit),
        )

    def remove_leftovers(self, limit: int) -> None:
        """Removes up to ``limit`` deliveries of deleted subscriptions, and as much of what their windows knew."""
        for subscription_id, queue_id in self.session.rows("SELECT subscription_id, lane_id FROM leftovers"):
            if limit <= 0:
                return
            removed = self._remove_deliveries_of(queue_id, subscription_id, limit)
            removed += self._remove_windows_of(subscription_id, limit - removed)
            if removed < limit:
                self.session.execute("DELETE FROM leftovers WHERE subscription_id = ?", (subscription_id,))
            limit -= removed

    def add_errors(self, records: Iterable[ErrorRecord]) -> None:
        """Stores errors of single subscriptions; of each a bounded number of the latest is kept."""
        rows = [(r.subscription_id, self.counters.take("error"), r.at, r.reason, r.seq, r.count) for r in records]
        if not rows:
            return
        self.session.insert("errors", ("subscription_id", "id", "at", "reason", "seq", "count"), rows)
        for some in chunks(sorted({row[0] for row in rows}), 10_000):
            with_too_many = self.session.rows(
                f"SELECT subscription_id FROM errors WHERE {self.session.among('subscription_id')} "
                "GROUP BY subscription_id HAVING COUNT(*) > ?",
                (self.session.values(some), ERRORS_KEPT),
            )
            self.session.many(
                "DELETE FROM errors WHERE subscription_id = ? AND id <= "
                "(SELECT id FROM errors WHERE subscription_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
                [(number, number, ERRORS_KEPT) for (number,) in with_too_many],
            )

    def pauses(self, subscription_id: int) -> list[Pause]:
        """Returns the pauses that a query in XQuery has not passed yet, in order."""
        return _pauses(self.session, subscription_id)

    def begin_pause(self, subscription_id: int, first_seq: int) -> None:
        """Begins a pause: messages from this one on do not count."""
        self.session.execute(
            "INSERT INTO pauses (subscription_id, first_seq) VALUES (?, ?)", (subscription_id, first_seq)
        )

    def end_pause(self, subscription_id: int, last_seq: int) -> bool:
        """Ends the pause: messages after this one count again. Returns whether there was one."""
        open_pause = "subscription_id = ? AND last_seq IS NULL"
        # A pause without messages would collide with another one that begins at the same message.
        empty = self.session.execute(
            f"DELETE FROM pauses WHERE {open_pause} AND first_seq > ?", (subscription_id, last_seq)
        )
        ended = self.session.execute(f"UPDATE pauses SET last_seq = ? WHERE {open_pause}", (last_seq, subscription_id))
        return empty + ended > 0

    def forget_pauses(self, subscription_id: int, *, before: int | None = None) -> None:
        """Removes the pauses that ended before a message, or all."""
        condition, params = ("", ()) if before is None else (" AND last_seq < ?", (before,))
        self.session.execute(f"DELETE FROM pauses WHERE subscription_id = ?{condition}", (subscription_id, *params))


class _Queue(NamedTuple):
    """The properties of a queue that decide whether a subscription may join it."""

    id: int
    kind: str
    is_of_xquery: bool
    """Whether the queue belongs to a query in XQuery alone."""
    sharing: Sharing | None


class _Adding:
    """An addition of subscriptions in bulk: reads what exists, decides, inserts."""

    def __init__(self, writes: SubscriptionWrites, at: float) -> None:
        self._session = writes.session
        self._counters = writes.counters
        self._sealer = writes.memory.sealer
        self._memory = writes.memory
        self._at = at

    def add(self, new: Sequence[NewSubscription]) -> list[StoredSubscription | Exception]:
        taken = self._present("subscriptions", "key", "id", {(n.tenant_id, n.key) for n in new})
        queues = self._queues({(n.tenant_id, n.subscriber or n.key) for n in new})
        last_seq = self._counters.value("seq")
        results: list[StoredSubscription | Exception] = []
        new_queues: list[tuple[object, ...]] = []
        for requested in new:
            name = (requested.tenant_id, requested.subscriber or requested.key)
            refused = _refusal(requested, (requested.tenant_id, requested.key) in taken, queues.get(name))
            if refused is not None:
                results.append(refused)
                continue
            replay_next = _replay_next(requested, last_seq)
            if name not in queues:
                queues[name] = _Queue(
                    self._counters.take("lane"),
                    requested.delivery.kind,
                    requested.dialect == "xquery",
                    requested.delivery.sharing,
                )
                acked = last_seq if replay_next is None else replay_next - 1
                new_queues.append(
                    (
                        *(queues[name].id, *name, requested.delivery.kind, acked, replay_next),
                        *(self._sharing(queues[name]), int(requested.delivery.is_by_urgency)),
                    )
                )
            added = self._subscription(requested, queues[name].id, replay_next, last_seq)
            _remember_urgency(self._memory, added.queue_id, added.delivery, added.id, added.urgency)
            taken[requested.tenant_id, requested.key] = (added.id,)
            results.append(added)
        self._session.insert(
            "lanes",
            ("id", "tenant_id", "subscriber", "kind", "acked", "replay_next", "sharing", "by_urgency"),
            new_queues,
        )
        self._session.insert(
            "subscriptions",
            _COLUMNS.split(", "),
            [_row(added, self._sealer) for added in results if isinstance(added, StoredSubscription)],
        )
        return results

    def _sharing(self, queue: _Queue) -> str | None:
        if queue.sharing is not None:
            self._memory.shared_queues.add(queue.id)
        return sharing_text(queue.sharing)

    def _queues(self, names: set[tuple[int, str]]) -> dict[tuple[int, str], _Queue]:
        """Returns the existing queues by tenant and subscriber."""
        results = self._present("lanes", "subscriber", "id, kind, replay_next, sharing", names)
        # A query in XQuery always has a next message: other queues need not be searched for one.
        own: set[int] = set()
        for some in chunks([row[0] for row in results.values() if row[2] is not None], AMONG_MAX):
            rows = self._session.rows(
                f"SELECT lane_id FROM subscriptions WHERE {self._session.among('lane_id')} AND dialect = 'xquery'",
                (self._session.values(some),),
            )
            own.update(row[0] for row in rows)
        return {
            name: _Queue(number, kind, number in own, read_sharing(sharing))
            for name, (number, kind, _, sharing) in results.items()
        }

    def _present(
        self, table: str, column: str, columns: str, names: set[tuple[int, str]]
    ) -> dict[tuple[int, str], Row]:
        """Returns rows by tenant and name."""
        by_tenant: dict[int, list[str]] = {}
        for tenant_id, name in names:
            by_tenant.setdefault(tenant_id, []).append(name)
        results: dict[tuple[int, str], Row] = {}
        for tenant_id, requested in by_tenant.items():
            for row in self._session.rows(
                f"SELECT {column}, {columns} FROM {table} "
                f"WHERE tenant_id = ? AND {self._session.among(column, 'text')}",
                (tenant_id, self._session.values(requested)),
            ):
                results[tenant_id, row[0]] = row[1:]
        return results

    def _subscription(
        self, requested: NewSubscription, queue_id: int, replay_next: int | None, last_seq: int
    ) -> StoredSubscription:
        return StoredSubscription(
            id=self._counters.take("subscription"),
            tenant_id=requested.tenant_id,
            key=requested.key,
            query=requested.query,
            queue_id=queue_id,
            subscriber=requested.subscriber or requested.key,
            namespaces=requested.namespaces,
            dialect=requested.dialect,
            delivery=requested.delivery,
            created=self._at,
            replay_next=replay_next,
            replay_end=None if requested.replay_from is None or requested.dialect == "xquery" else last_seq,
            params=requested.params,
            overflow=requested.overflow,
            follow=requested.follow,
            window=requested.window,
            urgency=requested.urgency,
        )


def _replay_next(requested: NewSubscription, last_seq: int) -> int | None:
    """Returns the first message that a new subscription matches by replay; one in XQuery replays all messages."""
    first = requested.replay_from or last_seq + 1
    if requested.dialect == "xquery":
        return min(first, last_seq + 1)
    return first if first <= last_seq else None


def _refusal(requested: NewSubscription, key_taken: bool, queue: _Queue | None) -> Conflict | None:
    """Returns why a subscription cannot be added, given its queue if that exists."""
    name = requested.subscriber or requested.key
    if key_taken:
        return Conflict(f"there is a subscription {requested.key!r} already")
    if queue is None:
        return None
    if requested.dialect == "xquery":
        return Conflict(f"a query in XQuery needs a subscriber of its own, and {name!r} is there already")
    if queue.is_of_xquery:
        # The others would wait for this query, and for ever while it is paused.
        return Conflict(f"subscriber {name!r} is that of a query in XQuery, which needs one of its own")
    if requested.replay_from is not None:
        return Conflict(f"replay needs a subscriber of its own, and {name!r} is there already")
    if queue.kind != PULL or requested.delivery.is_pushed:
        return Conflict(f"subscriber {name!r} is there already, and only pull deliveries can share one")
    if queue.sharing != requested.delivery.sharing:
        return Conflict(f"the queue of subscriber {name!r} {_in_words(queue.sharing)}: say the same in delivery")
    return None


def _in_words(sharing: Sharing | None) -> str:
    if sharing is None:
        return "is ordered"
    order = ", by urgency" if sharing.is_by_urgency else ""
    return f"is shared, with lease_seconds = {sharing.lease_seconds:g} and attempts_max = {sharing.attempts_max}{order}"


def _row(s: StoredSubscription, sealer: Sealer) -> tuple[object, ...]:
    """Returns a subscription as it is stored, in the order of ``_COLUMNS``."""
    return (
        s.id,
        s.tenant_id,
        s.key,
        s.query,
        s.queue_id,
        None if s.subscriber == s.key else s.subscriber,
        _namespaces_text(s.namespaces),
        s.dialect,
        *_delivery_columns(s.delivery, sealer),
        s.state.value,
        s.reason,
        s.created,
        s.replay_next,
        s.replay_end,
        _policy_text(s.overflow),
        s.missed_from,
        _params_text(s.params),
        _follow_number(s.follow),
        _window_text(s.window),
        _urgency_text(s.urgency),
    )
