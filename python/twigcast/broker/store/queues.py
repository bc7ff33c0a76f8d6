"""Queues: storing deliveries, reading what is pending, acknowledging; and the state of pushing them.

Failed attempts, and WebSub requests that wait for verification, outlive a restart. Dead letters, the deliveries that
were given up, are kept whole, so that they outlive their message.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from twigcast.broker.model import (
    PULL,
    Attempts,
    DeadLetter,
    DeliveryId,
    NewDelivery,
    QueuedDelivery,
    QueuePosition,
    QueueState,
    StoredMessage,
    WebSubRequest,
)
from twigcast.broker.store.database import INTEGER_MAX, DatabaseSession, Memory, Reads, Row, Writes, chunks
from twigcast.broker.store.messages import id_range, messages_by_seq
from twigcast.broker.store.sharing import queue_state
from twigcast.broker.urgency import NEVER, DeliveryUrgency, Urgency
from twigcast.lifecycle.chains import Relation

PENDING: Final = (
    "d.lane_id = l.id AND d.seq > l.acked AND d.acked = 0 AND (l.replay_next IS NULL OR d.seq < l.replay_next) "
    "AND d.subscription_id NOT IN (SELECT subscription_id FROM leftovers)"
)
"""The condition that a delivery ``d`` of a queue ``l`` is pending.

Deliveries after the range of a replay wait for its end.
"""


_PAYLOAD: Final = (
    "COALESCE(LENGTH(d.payload), "
    "(SELECT LENGTH(p.payload) FROM payloads p WHERE p.seq = d.seq AND p.number = d.shared))"
)
"""Size in bytes of the result that a delivery ``d`` carries; NULL if it carries the message."""

_BEGINNING: Final = QueuePosition(0)

_DEAD_LETTER: Final = (
    "id, tenant_id, subscription_id, seq, source, message_id, received, attempts, reason, at, rewritten, revived, "
    "body, relation, told"
)

SIZES: Final = f"d.seq, d.subscription_id, d.lane_id, s.key, {_PAYLOAD}, LENGTH(m.xml), d.relation, d.told, d.due"

SHARED_BYTES_MIN: Final = 64
"""Results up to this size are stored with each delivery: a reference to them would take as much."""

SET_ASIDE_SPAN: Final = 1_000
"""Number of messages between the mark and an acknowledged one from which the deliveries in between are examined."""

SET_ASIDE_ACKNOWLEDGED: Final = 1_000
"""Number of single acknowledgements above the mark from which the mark is moved past them."""

SET_ASIDE_AT_ONCE: Final = 1_000
"""Number of deliveries that are set aside in one step."""


class QueueReads(Reads):
    """Reading methods for queues."""

    def queue(self, tenant_id: int, subscriber: str) -> QueueState | None:
        """Returns a queue by the name of its subscriber."""
        row = self.first(
            "SELECT id, tenant_id, subscriber, acked, kind, sharing FROM lanes WHERE tenant_id = ? AND subscriber = ?",
            (tenant_id, subscriber),
        )
        return None if row is None else queue_state(row)

    def pending(
        self,
        queue_id: int,
        *,
        after: QueuePosition | None = None,
        limit: int,
        bytes_max: int,
        skip_subscriptions: frozenset[int] = frozenset(),
    ) -> list[QueuedDelivery]:
        """Returns up to ``limit`` pending deliveries of a queue in order, at least one.

        Their bodies have about ``bytes_max`` bytes. Deliveries of one message share their :class:`StoredMessage`.
        ``redelivered`` is not set here.
        """
        start = after or QueuePosition(0)

        def work(session: DatabaseSession) -> list[QueuedDelivery]:
            condition, params = "", []
            if skip_subscriptions:
                condition = f" AND NOT {session.among('d.subscription_id')}"
                params = [session.values(skip_subscriptions)]
            queue = session.rows("SELECT acked, replay_next FROM lanes WHERE id = ?", (queue_id,))
            if not queue:
                return []
            rows = pending_rows(
                *(session, self.memory, queue_id, queue[0]),
                after=start,
                condition=(condition, params),
                limit=limit,
            )
            return deliveries_of(session, within(rows, bytes_max))

        return self.database.read(work)

    def pending_count(self, queue_id: int) -> int:
        """Returns how many deliveries a queue has pending."""
        sql = (
            f"SELECT (SELECT COUNT(*) FROM lanes l CROSS JOIN deliveries d WHERE l.id = ? AND {PENDING}) "
            "+ (SELECT COUNT(*) FROM set_aside WHERE lane_id = ?)"
        )
        return int(self.one(sql, (queue_id, queue_id))[0])

    def unfounded(
        self, queue_id: int, ids: Collection[DeliveryId], handed_out: DeliveryId, *, since: int
    ) -> list[DeliveryId]:
        """Returns those of the ids that no reader of a queue can have been handed out.

        Args:
            queue_id: The queue.
            ids: Ids of deliveries.
            handed_out: The last delivery handed out among those with sequence numbers from ``since`` on.
            since: The first such number; whether earlier deliveries were handed out is not known.
        """

        def work(session: DatabaseSession) -> list[DeliveryId]:
            usable = [id_ for id_ in ids if max(id_) <= INTEGER_MAX]
            existing = set(
                session.rows(
                    f"SELECT seq, subscription_id FROM deliveries WHERE lane_id = ? AND {session.among('seq')}",
                    (queue_id, session.values({id_.seq for id_ in usable})),
                )
            )
            queues: dict[int, int] = dict(
                session.rows(
                    f"SELECT id, lane_id FROM subscriptions WHERE {session.among('id')}",
                    (session.values({id_.subscription_id for id_ in usable}),),
                )
            )
            values: dict[str, int] = dict(
                session.rows("SELECT name, value FROM counters WHERE name IN ('seq', 'subscription', 'forgotten')")
            )

            def is_founded(id_: DeliveryId) -> bool:
                if min(id_) < 1 or id_.seq > values["seq"] or (id_.seq >= since and id_ > handed_out):
                    return False
                if (id_.seq, id_.subscription_id) in existing:
                    return True
                if id_.subscription_id in queues:
                    # Retention removes deliveries with their message.
                    return queues[id_.subscription_id] == queue_id and id_.seq <= values["forgotten"]
                return id_.subscription_id <= values["subscription"]  # that subscription is deleted

            return [id_ for id_ in ids if not is_founded(id_)]

        return self.database.read(work)

    def last_delivery(self, queue_id: int, up_to: DeliveryId) -> DeliveryId | None:
        """Returns the last delivery of a queue, up to an id, that is stored."""
        row = self.first(
            "SELECT seq, subscription_id FROM deliveries WHERE lane_id = ? AND (seq, subscription_id) <= (?, ?) "
            "ORDER BY seq DESC, subscription_id DESC LIMIT 1",
            (queue_id, *up_to),
        )
        return None if row is None else DeliveryId(*row)

    def recent_deliveries(
        self, subscription_id: int, limit: int, *, before_seq: int | None = None
    ) -> list[QueuedDelivery]:
        """Returns the latest deliveries of a subscription, acknowledged or not, newest first."""
        end = INTEGER_MAX if before_seq is None else min(before_seq, INTEGER_MAX)

        def work(session: DatabaseSession) -> list[QueuedDelivery]:
            rows = session.rows(
                f"SELECT d.seq, d.subscription_id, d.lane_id, s.key, {_PAYLOAD}, 0, d.relation, d.told, d.due "
                "FROM subscriptions s CROSS JOIN deliveries d "
                "WHERE s.id = ? AND d.lane_id = s.lane_id AND d.subscription_id = s.id "
                "AND d.seq < ? ORDER BY d.seq DESC LIMIT ?",
                (subscription_id, end, limit),
            )
            return deliveries_of(session, rows)

        return self.database.read(work)

    def queues_with_pending(self, queue_ids: Iterable[int]) -> list[int]:
        """Returns those of the queues that have something pending."""
        results: list[int] = []
        for some in chunks(queue_ids, 10_000):
            results += self.database.read(lambda session, some=some: _with_pending(session, some))  # type: ignore[misc]
        return results

    def attempts(self, queue_id: int) -> Attempts | None:
        """Returns how often the first delivery of a queue was tried, if it failed before."""
        row = self.first(
            "SELECT seq, subscription_id, attempts, first_at FROM push_attempts WHERE lane_id = ?", (queue_id,)
        )
        return None if row is None else Attempts(DeliveryId(row[0], row[1]), row[2], row[3])

    def websub_requests(self) -> list[tuple[int, WebSubRequest]]:
        """Returns the requests that are accepted but not verified, with their numbers, in order."""
        rows = self.rows("SELECT id, base_url, form FROM websub_requests ORDER BY id")
        return [
            (number, WebSubRequest(base_url, json.loads(self.memory.sealer.open(form) or "{}")))
            for number, base_url, form in rows
        ]

    def dead_letters(
        self,
        tenant_id: int,
        *,
        before_id: int | None = None,
        after_id: int | None = None,
        limit: int,
        key: str | None = None,
    ) -> list[DeadLetter]:
        """Returns dead letters, newest first; with ``after_id`` those after it, oldest first."""
        position, order = id_range("d.id", before_id, after_id)
        condition, params = ("", ()) if key is None else (" AND s.key = ?", (key,))
        rows = self.rows(
            "SELECT d.id, d.tenant_id, d.subscription_id, s.key, d.seq, d.message_id, d.attempts, d.reason, d.at, "
            "d.body FROM dead_letters d JOIN subscriptions s ON s.id = d.subscription_id "
            f"WHERE d.tenant_id = ? AND {position[0]} AND d.revived = 0{condition} ORDER BY d.id {order} LIMIT ?",
            (tenant_id, position[1], *params, limit),
        )
        return [DeadLetter(*row) for row in rows]


def pending_rows(
    session: DatabaseSession,
    memory: Memory,
    queue_id: int,
    queue: Row,
    *,
    columns: str = SIZES,
    after: QueuePosition = _BEGINNING,
    condition: tuple[str, Sequence[object]] = ("", ()),
    limit: int,
) -> list[Row]:
    """Returns the first pending deliveries of a queue, whose mark and next message of a replay are given."""
    acked, replay_next = queue
    end = INTEGER_MAX if replay_next is None else replay_next - 1
    more, params = condition
    # The bounds are values and the limit is inside, so that a planner without statistics reads one range of one
    # index too. Sizes come first: bodies are read only for what is handed out, and once for each message.
    position = (min(after.seq, INTEGER_MAX), min(after.subscription_id, INTEGER_MAX))
    rows: list[Row] = []
    if queue_id in memory.queues_set_aside:
        # These come first: all that is set aside lies below the mark, the rest above.
        rows = session.rows(
            f"SELECT {columns} FROM set_aside w CROSS JOIN deliveries d "
            "JOIN subscriptions s ON s.id = d.subscription_id JOIN messages m ON m.seq = d.seq "
            "WHERE w.lane_id = ? AND d.lane_id = w.lane_id AND d.seq = w.seq "
            "AND d.subscription_id = w.subscription_id "
            f"AND (d.seq, d.subscription_id) > (?, ?){more} ORDER BY d.seq, d.subscription_id LIMIT ?",
            (queue_id, *position, *params, limit),
        )
    rows += session.rows(
        f"SELECT {columns} FROM (SELECT * FROM deliveries d WHERE d.lane_id = ? AND d.seq > ? AND d.seq <= ? "
        "AND d.acked = 0 AND d.subscription_id NOT IN (SELECT subscription_id FROM leftovers) "
        f"AND (d.seq, d.subscription_id) > (?, ?){more} ORDER BY d.seq, d.subscription_id LIMIT ?) d "
        "JOIN subscriptions s ON s.id = d.subscription_id JOIN messages m ON m.seq = d.seq "
        "ORDER BY d.seq, d.subscription_id",
        (queue_id, acked, end, *position, *params, limit - len(rows)),
    )
    return rows


def _with_pending(session: DatabaseSession, queue_ids: Sequence[int]) -> list[int]:
    rows = session.rows(
        f"SELECT l.id FROM lanes l WHERE {session.among('l.id')} "
        f"AND (EXISTS (SELECT 1 FROM deliveries d WHERE {PENDING}) "
        "OR EXISTS (SELECT 1 FROM set_aside w WHERE w.lane_id = l.id)) ORDER BY l.id",
        (session.values(queue_ids),),
    )
    return [number for (number,) in rows]


def within(rows: Sequence[Row], bytes_max: int) -> list[Row]:
    """Returns the first rows (of ``pending``) that stay within a number of bytes, at least one."""
    taken: list[Row] = []
    total = 0
    last_seq = -1
    for row in rows:
        seq, payload_size, message_size = row[0], row[4], row[5]
        if payload_size is not None:
            total += payload_size
        if seq != last_seq:
            total += message_size
            last_seq = seq
        if taken and total > bytes_max:
            break
        taken.append(row)
    return taken


def deliveries_of(session: DatabaseSession, rows: Sequence[Row]) -> list[QueuedDelivery]:
    """Returns deliveries with messages, from rows as of ``SIZES``."""
    messages = messages_by_seq(session, dict.fromkeys(row[0] for row in rows))
    payloads = _payloads(session, rows[0][2], [row[:2] for row in rows if row[4] is not None]) if rows else {}
    return [
        QueuedDelivery(
            DeliveryId(seq, subscription_id),
            queue_id,
            key,
            messages[seq],
            payloads.get((seq, subscription_id)),
            relation=None if relation is None else Relation(relation),
            window_note=told,
            due=messages[seq].deadline if due is None else due if due < NEVER else None,
        )
        for seq, subscription_id, queue_id, key, _, _, relation, told, due in rows
        # A message that has just expired is missing for a reader without a fixed snapshot.
        if seq in messages
    ]


def _payloads(session: DatabaseSession, queue_id: int, requested: Sequence[Row]) -> dict[tuple[int, int], bytes]:
    results: dict[tuple[int, int], bytes] = {}
    names = set(requested)
    for some in chunks(sorted({seq for seq, _ in requested}), 1_000):
        rows = [
            row
            for row in session.rows(
                "SELECT seq, subscription_id, payload, shared FROM deliveries "
                f"WHERE lane_id = ? AND {session.among('seq')} AND (payload IS NOT NULL OR shared IS NOT NULL)",
                (queue_id, session.values(some)),
            )
            if row[:2] in names
        ]
        shared = _shared_payloads(session, {(seq, number) for seq, _, _, number in rows if number is not None})
        for seq, subscription_id, payload, number in rows:
            # A message that has just expired takes its results with it.
            if number is None or (seq, number) in shared:
                results[seq, subscription_id] = payload if number is None else shared[seq, number]
    return results


def _shared_payloads(session: DatabaseSession, requested: set[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    """Returns results that deliveries share, by sequence number and number."""
    if not requested:
        return {}
    return {
        (seq, number): payload
        for seq, number, payload in session.rows(
            f"SELECT seq, number, payload FROM payloads WHERE {session.among('seq')} AND {session.among('number')}",
            (session.values({seq for seq, _ in requested}), session.values({number for _, number in requested})),
        )
        if (seq, number) in requested
    }


_ACKNOWLEDGE: Final = "UPDATE deliveries SET acked = 1 WHERE lane_id = ? AND seq = ? AND subscription_id = ?"
_WAITING: Final = (
    "SELECT lane_id, seq, subscription_id FROM deliveries WHERE lane_id = ? AND seq > ? AND seq <= ? AND acked = 0 "
    "AND subscription_id NOT IN (SELECT subscription_id FROM leftovers)"
)


class QueueWrites(Writes):
    """Methods that store and acknowledge deliveries."""

    def add_deliveries(self, deliveries: Iterable[NewDelivery]) -> Mapping[DeliveryId, DeliveryUrgency]:
        """Stores deliveries; those that exist already stay as they are.

        Returns the urgency of those of which queue or subscription says something of it.
        """
        deliveries = list(deliveries)
        plain: list[NewDelivery] = []
        sharing: list[NewDelivery] = []
        rewritten: dict[int, int] = {}
        numbers: dict[tuple[int, bytes], int] = {}
        for delivery in deliveries:
            if delivery.payload is None:
                plain.append(delivery)
                continue
            name = (delivery.seq, delivery.payload)
            if name not in numbers or len(delivery.payload) <= SHARED_BYTES_MIN:
                rewritten[delivery.seq] = rewritten.get(delivery.seq, 0) + len(delivery.payload)
            # The first delivery gives the result its number, which no other result of the message has.
            numbers.setdefault(name, delivery.subscription_id)
            sharing.append(delivery)
        self._insert_deliveries(plain)
        self._insert_sharing(sharing, numbers)
        if rewritten:
            # The size of a message includes its results, since all expire together.
            self.session.many(
                "UPDATE messages SET size = size + ? WHERE seq = ?", [(size, seq) for seq, size in rewritten.items()]
            )
            self.counters.add("bytes", sum(rewritten.values()))
        return self._set_urgency(deliveries)

    def _set_urgency(self, deliveries: Sequence[NewDelivery]) -> dict[DeliveryId, DeliveryUrgency]:
        session, queues = self.session, self.memory.urgent_queues
        chosen = [
            d for d in deliveries if d.queue_id in queues or d.subscription_id in self.memory.urgent_subscriptions
        ]
        results: dict[DeliveryId, DeliveryUrgency] = {}
        for some in chunks(chosen, 10_000):
            among = session.among("id")
            by_urgency = {
                number
                for (number,) in session.rows(
                    f"SELECT id FROM lanes WHERE {among} AND by_urgency = 1",
                    (session.values({d.queue_id for d in some if d.queue_id in queues}),),
                )
            }
            of_subscriptions = {
                number: None if text is None else Urgency.of_text(text)
                for number, text in session.rows(
                    f"SELECT id, urgency FROM subscriptions WHERE {among}",
                    (session.values({d.subscription_id for d in some}),),
                )
            }
            of_messages = {
                seq: about
                for seq, *about in session.rows(
                    f"SELECT seq, priority, deadline, received FROM messages WHERE {session.among('seq')}",
                    (session.values({d.seq for d in some}),),
                )
            }
            rows: list[Row] = []
            for queue_id, seq, number, *_ in some:
                priority, deadline, received = of_messages[seq]
                urgency = DeliveryUrgency.of(priority, deadline, received, of_subscriptions.get(number))
                results[DeliveryId(seq, number)] = urgency
                level = urgency.priority if queue_id in by_urgency else None
                rows.append((level, urgency.due, 1 if urgency.is_dropped else None, queue_id, seq, number))
            session.many(
                "UPDATE deliveries SET priority = ?, due = ?, drops = ? "
                "WHERE lane_id = ? AND seq = ? AND subscription_id = ? AND due IS NULL",
                rows,
            )
        return results

    def _insert_deliveries(self, deliveries: Sequence[NewDelivery]) -> None:
        columns = ("lane_id", "seq", "subscription_id", "payload", "relation", "told")
        if any(delivery.relation or delivery.window_note for delivery in deliveries):
            self.session.insert("deliveries", columns, deliveries, keep_existing=True)
        else:
            self.session.insert("deliveries", columns[:4], (d[:4] for d in deliveries), keep_existing=True)

    def _insert_sharing(self, deliveries: Sequence[NewDelivery], numbers: Mapping[tuple[int, bytes], int]) -> None:
        """Stores deliveries of results; a result that several of one message share is stored once."""
        counts = Counter((d.seq, d.payload) for d in deliveries)
        shared = {
            name: number for name, number in numbers.items() if counts[name] > 1 and len(name[1]) > SHARED_BYTES_MIN
        }
        self._insert_deliveries([d for d in deliveries if (d.seq, d.payload) not in shared])
        if shared:
            rows = [(seq, number, payload) for (seq, payload), number in shared.items()]
            self.session.insert("payloads", ("seq", "number", "payload"), rows, keep_existing=True)
            columns = ("lane_id", "seq", "subscription_id", "shared", "relation", "told")
            pointing = [
                (d.queue_id, d.seq, d.subscription_id, shared[d.seq, d.payload], d.relation, d.window_note)
                for d in deliveries
                if d.payload is not None and (d.seq, d.payload) in shared
            ]
            self.session.insert("deliveries", columns, pointing, keep_existing=True)

    def oldest_pending(self, queue_id: int, subscription_ids: Sequence[int], limit: int) -> list[DeliveryId]:
        """Returns the oldest pending deliveries of some subscriptions of a queue."""
        if queue_id in self.marks:
            self.save_marks()
        session = self.session
        numbers, among = session.values(subscription_ids), session.among("d.subscription_id")
        order = f"AND {among} ORDER BY d.seq, d.subscription_id LIMIT ?"
        rows = session.rows(
            f"SELECT d.seq, d.subscription_id FROM set_aside d WHERE d.lane_id = ? {order}", (queue_id, numbers, limit)
        )
        rows += session.rows(
            "SELECT d.seq, d.subscription_id FROM lanes l CROSS JOIN deliveries d "
            f"WHERE l.id = ? AND {PENDING} {order}",
            (queue_id, numbers, limit - len(rows)),
        )
        return [DeliveryId(*row) for row in rows]

    def pending_of_messages(
        self, seqs: Sequence[int], subscription_ids: Collection[int]
    ) -> dict[int, list[DeliveryId]]:
        """Returns, by queue, the pending deliveries of some messages for some subscriptions."""
        self.save_marks()
        session, requested = self.session, frozenset(subscription_ids)
        rows = session.rows(
            "SELECT d.lane_id, d.seq, d.subscription_id FROM deliveries d JOIN lanes l ON l.id = d.lane_id "
            f"WHERE {session.among('d.seq')} AND d.seq > l.acked AND d.acked = 0 ORDER BY d.seq, d.subscription_id",
            (session.values(seqs),),
        )
        rows += session.rows(
            f"SELECT d.lane_id, d.seq, d.subscription_id FROM set_aside d WHERE {session.among('d.seq')} "
            "ORDER BY d.seq, d.subscription_id",
            (session.values(seqs),),
        )
        pending: dict[int, list[DeliveryId]] = {}
        for queue_id, seq, subscription_id in rows:
            if subscription_id in requested:
                pending.setdefault(queue_id, []).append(DeliveryId(seq, subscription_id))
        return pending

    def stored_deliveries(self, queue_id: int, ids: Sequence[DeliveryId]) -> list[QueuedDelivery]:
        """Returns deliveries of a queue with their messages."""
        requested = set(ids)
        rows = self.session.rows(
            f"SELECT {SIZES} FROM deliveries d JOIN subscriptions s ON s.id = d.subscription_id "
            f"JOIN messages m ON m.seq = d.seq WHERE d.lane_id = ? AND {self.session.among('d.seq')} "
            "ORDER BY d.seq, d.subscription_id",
            (queue_id, self.session.values({id_.seq for id_ in ids})),
        )
        return deliveries_of(self.session, [row for row in rows if row[:2] in requested])

    def acknowledge_up_to(self, queue_id: int, seq: int) -> None:
        """Moves the mark of a queue forward; never back."""
        seq = min(seq, self.counters.value("seq"))
        if seq > self.marks.get(queue_id, 0):
            self.marks[queue_id] = seq

    def save_marks(self) -> None:
        for queue_id in self.memory.queues_set_aside.intersection(self.marks):
            self.session.execute(
                "DELETE FROM set_aside WHERE lane_id = ? AND seq <= ?", (queue_id, self.marks[queue_id])
            )
        for queue_id in self.memory.shared_queues.intersection(self.marks):
            self.session.execute("DELETE FROM leases WHERE lane_id = ? AND seq <= ?", (queue_id, self.marks[queue_id]))
        for queue_id in self.memory.urgent_queues.intersection(self.marks):
            # Done: so that nobody passes over them to find the next one.
            self.session.execute(
                "UPDATE deliveries SET priority = NULL WHERE lane_id = ? AND priority IS NOT NULL AND seq <= ?",
                (queue_id, self.marks[queue_id]),
            )
        # Never back, and not into the range that replay is still to fill.
        self.session.many(
            "UPDATE lanes SET acked = CASE WHEN replay_next <= ? THEN replay_next - 1 ELSE ? END "
            "WHERE id = ? AND acked < ? AND (replay_next IS NULL OR acked < replay_next - 1)",
            [(seq, seq, queue_id, seq) for queue_id, seq in sorted(self.marks.items())],
        )
        self.marks.clear()

    def acknowledge(self, queue_id: int, ids: Sequence[DeliveryId]) -> None:
        """Acknowledges single deliveries in any order, the first pending ones by the mark alone; skips unknown ones."""
        if queue_id in self.marks:
            self.save_marks()
        self._finish_redriven(ids)
        if queue_id in self.memory.shared_queues:
            self.session.many(
                "DELETE FROM leases WHERE lane_id = ? AND seq = ? AND subscription_id = ?",
                [(queue_id, *id_) for id_ in ids if max(id_) <= INTEGER_MAX],
            )
        queue = self.first("SELECT acked, replay_next FROM lanes WHERE id = ?", (queue_id,))
        if queue is None:
            return
        # A delivery that is not stored yet cannot be acknowledged: a mark beyond it would skip later ones.
        last = self.counters.value("seq")
        requested = {id_ for id_ in ids if id_.seq <= last and id_.subscription_id <= INTEGER_MAX}
        if queue_id in self.memory.urgent_queues:
            self.session.many(
                "UPDATE deliveries SET priority = NULL WHERE lane_id = ? AND seq = ? AND subscription_id = ?",
                [(queue_id, *id_) for id_ in requested],
            )
        if queue_id in self.memory.queues_set_aside:
            self._acknowledge_set_aside(queue_id, [id_ for id_ in requested if id_.seq <= queue[0]])
        left = {id_ for id_ in requested if id_.seq > queue[0]}
        if left:
            self._acknowledge_above(queue_id, queue, left)

    def _acknowledge_above(self, queue_id: int, queue: Row, left: set[DeliveryId]) -> None:
        """Acknowledges deliveries above the mark."""
        # Usually deliveries are acknowledged from the front on, which only moves the mark. One more row is read for the
        # first delivery that is pending afterwards.
        mark = None
        for seq, subscription_id in self.session.rows(
            "SELECT seq, subscription_id FROM deliveries WHERE lane_id = ? AND seq > ? AND acked = 0 "
            "AND subscription_id NOT IN (SELECT subscription_id FROM leftovers) ORDER BY seq, subscription_id LIMIT ?",
            (queue_id, queue[0], len(left) + 1),
        ):
            if (seq, subscription_id) not in left:
                mark = seq - 1
                break
        if mark is None:
            ((mark,),) = self.session.rows("SELECT MAX(seq) FROM deliveries WHERE lane_id = ?", (queue_id,))
        mark = self._move_mark(queue_id, queue, mark or 0)
        singly = sorted(id_ for id_ in left if id_.seq > mark)
        self.session.many(_ACKNOWLEDGE, [(queue_id, *id_) for id_ in singly])
        if singly and queue[1] is None and singly[-1].seq - mark > SET_ASIDE_SPAN:
            self._set_aside(queue_id, mark, singly[-1].seq)

    def _acknowledge_set_aside(self, queue_id: int, ids: Sequence[DeliveryId]) -> None:
        rows = [(queue_id, *id_) for id_ in sorted(ids)]
        self.session.many(_ACKNOWLEDGE, rows)
        self.session.many("DELETE FROM set_aside WHERE lane_id = ? AND seq = ? AND subscription_id = ?", rows)

    def _set_aside(self, queue_id: int, mark: int, last: int) -> None:
        """Moves the mark past many acknowledged deliveries behind a few that wait, and sets these aside."""
        acknowledged = self.session.rows(
            "SELECT 1 FROM deliveries WHERE lane_id = ? AND seq > ? AND seq <= ? AND acked = 1 LIMIT ?",
            (queue_id, mark, last, SET_ASIDE_ACKNOWLEDGED),
        )
        if len(acknowledged) < SET_ASIDE_ACKNOWLEDGED:
            return
        waiting = self.session.rows(
            f"{_WAITING} ORDER BY seq, subscription_id LIMIT ?", (queue_id, mark, last, SET_ASIDE_AT_ONCE + 1)
        )
        if len(waiting) > SET_ASIDE_AT_ONCE:
            last = waiting[-1][1] - 1
        self._insert_set_aside(queue_id, [row for row in waiting if row[1] <= last])
        self._move_mark(queue_id, (mark, None), last)

    def _insert_set_aside(self, queue_id: int, rows: Sequence[Row]) -> None:
        self.memory.queues_set_aside.add(queue_id)
        self.session.insert("set_aside", ("lane_id", "seq", "subscription_id"), rows, keep_existing=True)

    def _move_mark(self, queue_id: int, queue: Row, seq: int) -> int:
        """Moves the mark of a queue forward, not into the range that replay is still to fill; returns the new mark."""
        acked, replay_next = queue
        if replay_next is not None:
            seq = min(seq, replay_next - 1)
        if seq <= acked:
            return int(acked)
        self.session.execute("UPDATE lanes SET acked = ? WHERE id = ?", (seq, queue_id))
        return seq

    def _finish_redriven(self, ids: Sequence[DeliveryId]) -> None:
        """Removes the dead letters of redriven deliveries that are acknowledged now."""
        if self.memory.has_redriven:
            self.session.many(
                "DELETE FROM dead_letters WHERE revived = 1 AND subscription_id = ? AND seq = ?",
                [(id_.subscription_id, id_.seq) for id_ in ids if max(id_) <= INTEGER_MAX],
            )

    def dead_letter(
        self,
        deliveries: Sequence[tuple[QueuedDelivery, int, str]],
        *,
        at: float,
        pending: Collection[DeliveryId] | None = None,
    ) -> list[int]:
        """Moves deliveries, each with its attempts and reason, to the dead letters and acknowledges them.

        With ``pending``, others than these are left alone, unless they are being redriven. Returns the dead letters.
        """
        by_queue: dict[int, list[DeliveryId]] = {}
        ids = []
        for delivery, attempts, reason in deliveries:
            number = self._dead_letter_redriven(delivery, attempts, reason, at)
            if number is None and (pending is None or delivery.id in pending):
                number = self._dead_letter(delivery, attempts, reason, at)
            if number is None:
                continue
            ids.append(number)
            by_queue.setdefault(delivery.queue_id, []).append(delivery.id)
        for queue_id, of_queue in by_queue.items():
            self.acknowledge(queue_id, of_queue)
        return ids

    def _dead_letter_redriven(self, delivery: QueuedDelivery, attempts: int, reason: str, at: float) -> int | None:
        """Shows a dead letter that was being redriven again; returns its id, if there is one."""
        if not self.memory.has_redriven:
            return None
        row = self.first(
            "SELECT id FROM dead_letters WHERE revived = 1 AND subscription_id = ? AND seq = ?",
            (delivery.id.subscription_id, delivery.id.seq),
        )
        if row is not None:
            self.session.execute(
                "UPDATE dead_letters SET revived = 0, attempts = attempts + ?, reason = ?, at = ? WHERE id = ?",
                (attempts, reason, at, row[0]),
            )
        return None if row is None else int(row[0])

    def _dead_letter(self, delivery: QueuedDelivery, attempts: int, reason: str, at: float) -> int:
        number, m = self.counters.take("dead_letter"), delivery.message
        is_rewritten = int(delivery.payload is not None)
        self.session.insert(
            "dead_letters",
            _DEAD_LETTER.split(", "),
            [
                (
                    *(number, m.tenant_id, delivery.id.subscription_id, m.seq, m.source, m.message_id, m.received),
                    *(attempts, reason, at, is_rewritten, 0, delivery.body, delivery.relation, delivery.window_note),
                )
            ],
        )
        return number

    def redrive(self, dead_letter_ids: Sequence[int]) -> list[QueuedDelivery]:
        """Takes dead letters out to be pushed again; one that fails again is dead-lettered again.

        A delivery that succeeds is acknowledged with :meth:`acknowledge`. Until then the store hides the dead letter;
        if the broker ends before, the next start shows it again.
        """
        self.memory.has_redriven = True
        requested = [number for number in dead_letter_ids if number <= INTEGER_MAX]
        condition, params = self.session.among("d.id"), (self.session.values(requested),)
        rows = self.session.rows(
            "SELECT d.seq, d.subscription_id, s.lane_id, s.key, d.tenant_id, d.source, d.message_id, d.received, "
            "d.rewritten, d.body, d.relation, d.told FROM dead_letters d "
            "JOIN subscriptions s ON s.id = d.subscription_id "
            f"WHERE {condition} AND d.revived = 0 AND s.kind <> '{PULL}' ORDER BY d.seq, d.subscription_id",
            params,
        )
        self.session.execute(
            f"UPDATE dead_letters SET revived = 1 WHERE {self.session.among('id')} "
            f"AND subscription_id IN (SELECT id FROM subscriptions WHERE kind <> '{PULL}')",
            params,
        )
        return [_redriven(row) for row in rows]

    def remove_dead_letters(self, dead_letter_ids: Sequence[int]) -> int:
        """Removes dead letters for good, and returns how many there were."""
        return self.session.execute(
            f"DELETE FROM dead_letters WHERE {self.session.among('id')}",
            (self.session.values(number for number in dead_letter_ids if number <= INTEGER_MAX),),
        )

    def set_attempts(self, queue_id: int, attempts: Attempts | None) -> None:
        """Records how often the first delivery of a queue was tried; ``None`` removes the record."""
        self.session.execute("DELETE FROM push_attempts WHERE lane_id = ?", (queue_id,))
        if attempts is not None:
            self.session.execute(
                "INSERT INTO push_attempts (lane_id, seq, subscription_id, attempts, first_at) VALUES (?, ?, ?, ?, ?)",
                (queue_id, *attempts.id, attempts.count, attempts.first_at),
            )

    def add_websub_request(self, request: WebSubRequest) -> int:
        """Stores a request until it is verified, and returns its number."""
        number = self.counters.take("websub_request")
        form = json.dumps({name: list(values) for name, values in request.form.items()})
        self.session.execute(
            "INSERT INTO websub_requests (id, base_url, form) VALUES (?, ?, ?)",
            (number, request.base_url, self.memory.sealer.seal(form)),
        )
        return number

    def delete_websub_request(self, number: int) -> None:
        """Removes a request that was carried out or refused."""
        self.session.execute("DELETE FROM websub_requests WHERE id = ?", (number,))


def _redriven(row: Row) -> QueuedDelivery:
    seq, subscription_id, queue_id, key, tenant_id, source, message_id, received, rewritten, body, relation, told = row
    return QueuedDelivery(
        id=DeliveryId(seq, subscription_id),
        queue_id=queue_id,
        key=key,
        # The message itself may have expired; of a rewritten one only the result is needed.
        message=StoredMessage(seq, tenant_id, source, message_id, received, b"" if rewritten else body),
        payload=body if rewritten else None,
        redelivered=True,
        relation=None if relation is None else Relation(relation),
        window_note=told,
    )
