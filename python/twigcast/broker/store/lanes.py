"""Lanes: storing deliveries, reading what is pending, acknowledging."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from twigcast.broker.model import Delivery, DeliveryId, NewDelivery
from twigcast.broker.store.base import Reads, Writes, chunks
from twigcast.broker.store.database import INTEGER_MAX, Row, Session
from twigcast.broker.store.interface import LanePosition, LaneState
from twigcast.broker.store.messages import messages_by_seq

_PENDING: Final = (
    "d.lane_id = l.id AND d.seq > l.acked AND d.acked = 0 AND (l.replay_next IS NULL OR d.seq < l.replay_next) "
    "AND d.subscription_id NOT IN (SELECT subscription_id FROM leftovers)"
)
"""What makes a delivery ``d`` of a lane ``l`` pending. While a replay lasts, what came after the past waits for it."""


class LaneReads(Reads):
    """Reading lanes."""

    def lane(self, tenant_id: int, subscriber: str) -> LaneState | None:
        row = self.first(
            "SELECT id, tenant_id, subscriber, acked FROM lanes WHERE tenant_id = ? AND subscriber = ?",
            (tenant_id, subscriber),
        )
        return None if row is None else LaneState(*row)

    def pending(
        self,
        lane_id: int,
        *,
        after: LanePosition | None = None,
        limit: int,
        bytes_max: int,
        skip_subscriptions: frozenset[int] = frozenset(),
    ) -> list[Delivery]:
        start = after or LanePosition(0)

        def work(session: Session) -> list[Delivery]:
            condition, params = "", []
            if skip_subscriptions:
                condition = f" AND NOT {session.among('d.subscription_id')}"
                params = [session.values(skip_subscriptions)]
            lane = session.rows("SELECT acked, replay_next FROM lanes WHERE id = ?", (lane_id,))
            if not lane:
                return []
            acked, replay_next = lane[0]
            end = INTEGER_MAX if replay_next is None else replay_next - 1
            # The bounds as values and the limit within, so that a planner without statistics reads a range of one
            # index too. Sizes first: bodies are read for no more than is handed out, and once for each message.
            rows = session.rows(
                "SELECT d.seq, d.subscription_id, d.lane_id, s.key, LENGTH(d.payload), LENGTH(m.xml) "
                "FROM (SELECT * FROM deliveries d WHERE d.lane_id = ? AND d.seq > ? AND d.seq <= ? AND d.acked = 0 "
                "AND d.subscription_id NOT IN (SELECT subscription_id FROM leftovers) "
                f"AND (d.seq, d.subscription_id) > (?, ?){condition} ORDER BY d.seq, d.subscription_id LIMIT ?) d "
                "JOIN subscriptions s ON s.id = d.subscription_id JOIN messages m ON m.seq = d.seq "
                "ORDER BY d.seq, d.subscription_id",
                (
                    lane_id,
                    acked,
                    end,
                    min(start.seq, INTEGER_MAX),
                    min(start.subscription_id, INTEGER_MAX),
                    *params,
                    limit,
                ),
            )
            return _deliveries(session, _within(rows, bytes_max))

        return self.database.read(work)

    def pending_count(self, lane_id: int) -> int:
        return int(
            self.one(f"SELECT COUNT(*) FROM lanes l CROSS JOIN deliveries d WHERE l.id = ? AND {_PENDING}", (lane_id,))[
                0
            ]
        )

    def recent_deliveries(self, subscription_id: int, limit: int, *, before_seq: int | None = None) -> list[Delivery]:
        end = INTEGER_MAX if before_seq is None else min(before_seq, INTEGER_MAX)

        def work(session: Session) -> list[Delivery]:
            rows = session.rows(
                "SELECT d.seq, d.subscription_id, d.lane_id, s.key, LENGTH(d.payload), 0 FROM subscriptions s "
                "CROSS JOIN deliveries d WHERE s.id = ? AND d.lane_id = s.lane_id AND d.subscription_id = s.id "
                "AND d.seq < ? ORDER BY d.seq DESC LIMIT ?",
                (subscription_id, end, limit),
            )
            return _deliveries(session, rows)

        return self.database.read(work)

    def lanes_with_pending(self, lane_ids: Iterable[int]) -> list[int]:
        found: list[int] = []
        for some in chunks(lane_ids, 10_000):
            found += self.database.read(lambda session, some=some: _with_pending(session, some))  # type: ignore[misc]
        return found


def _with_pending(session: Session, lane_ids: Sequence[int]) -> list[int]:
    rows = session.rows(
        f"SELECT l.id FROM lanes l WHERE {session.among('l.id')} "
        f"AND EXISTS (SELECT 1 FROM deliveries d WHERE {_PENDING}) ORDER BY l.id",
        (session.values(lane_ids),),
    )
    return [number for (number,) in rows]


def _within(rows: Sequence[Row], bytes_max: int) -> list[Row]:
    """The first rows (of ``pending``) that stay within a number of bytes, at least one."""
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


def _deliveries(session: Session, rows: Sequence[Row]) -> list[Delivery]:
    """Deliveries of one lane (sequence number, subscription, lane, key, size of the payload) with their messages."""
    messages = messages_by_seq(session, dict.fromkeys(row[0] for row in rows))
    payloads = _payloads(session, rows[0][2], [row[:2] for row in rows if row[4] is not None]) if rows else {}
    return [
        Delivery(DeliveryId(seq, subscription_id), lane_id, key, messages[seq], payloads.get((seq, subscription_id)))
        for seq, subscription_id, lane_id, key, *_ in rows
        # A message that has just expired is no longer there for a reader without a fixed view.
        if seq in messages
    ]


def _payloads(session: Session, lane_id: int, wanted: Sequence[Row]) -> dict[tuple[int, int], bytes]:
    found: dict[tuple[int, int], bytes] = {}
    names = set(wanted)
    for some in chunks(sorted({seq for seq, _ in wanted}), 1_000):
        for seq, subscription_id, payload in session.rows(
            "SELECT seq, subscription_id, payload FROM deliveries "
            f"WHERE lane_id = ? AND {session.among('seq')} AND payload IS NOT NULL",
            (lane_id, session.values(some)),
        ):
            if (seq, subscription_id) in names:
                found[seq, subscription_id] = payload
    return found


class LaneWrites(Writes):
    """Storing and acknowledging deliveries."""

    def add_deliveries(self, deliveries: Iterable[NewDelivery]) -> None:
        rewritten: dict[int, int] = {}

        def counted() -> Iterable[NewDelivery]:
            for delivery in deliveries:
                if delivery.payload is not None:
                    rewritten[delivery.seq] = rewritten.get(delivery.seq, 0) + len(delivery.payload)
                yield delivery

        self.session.insert(
            "deliveries", ("lane_id", "seq", "subscription_id", "payload"), counted(), keep_existing=True
        )
        if rewritten:
            # What a message takes is what goes when it expires, its results included.
            self.session.many(
                "UPDATE messages SET size = size + ? WHERE seq = ?", [(size, seq) for seq, size in rewritten.items()]
            )
            self.counters.add("bytes", sum(rewritten.values()))

    def acknowledge_up_to(self, lane_id: int, seq: int) -> None:
        seq = min(seq, self.counters.value("seq"))
        if seq > self.marks.get(lane_id, 0):
            self.marks[lane_id] = seq

    def save_marks(self) -> None:
        # Never back, and not into what replay is still to bring.
        self.session.many(
            "UPDATE lanes SET acked = CASE WHEN replay_next <= ? THEN replay_next - 1 ELSE ? END "
            "WHERE id = ? AND acked < ? AND (replay_next IS NULL OR acked < replay_next - 1)",
            [(seq, seq, lane_id, seq) for lane_id, seq in sorted(self.marks.items())],
        )
        self.marks.clear()

    def acknowledge(self, lane_id: int, ids: Sequence[DeliveryId]) -> None:
        if lane_id in self.marks:
            self.save_marks()
        self._finish_revived(ids)
        lane = self.first("SELECT acked, replay_next FROM lanes WHERE id = ?", (lane_id,))
        if lane is None:
            return
        left = {id_ for id_ in ids if lane[0] < id_.seq <= INTEGER_MAX and id_.subscription_id <= INTEGER_MAX}
        if not left:
            return
        # What is acknowledged from the front on, the usual case, only moves the mark. A row more than that shows what
        # is pending then.
        mark = None
        for seq, subscription_id in self.session.rows(
            "SELECT seq, subscription_id FROM deliveries WHERE lane_id = ? AND seq > ? AND acked = 0 "
            "AND subscription_id NOT IN (SELECT subscription_id FROM leftovers) ORDER BY seq, subscription_id LIMIT ?",
            (lane_id, lane[0], len(left) + 1),
        ):
            if (seq, subscription_id) not in left:
                mark = seq - 1
                break
        if mark is None:
            ((mark,),) = self.session.rows("SELECT MAX(seq) FROM deliveries WHERE lane_id = ?", (lane_id,))
        mark = self._move_mark(lane_id, lane, mark or 0)
        self.session.many(
            "UPDATE deliveries SET acked = 1 WHERE lane_id = ? AND seq = ? AND subscription_id = ?",
            [(lane_id, *id_) for id_ in sorted(left) if id_.seq > mark],
        )

    def _move_mark(self, lane_id: int, lane: Row, seq: int) -> int:
        """Move the mark of a lane forward, not into what replay is still to bring; where it is then."""
        acked, replay_next = lane
        if replay_next is not None:
            seq = min(seq, replay_next - 1)
        if seq <= acked:
            return int(acked)
        self.session.execute("UPDATE lanes SET acked = ? WHERE id = ?", (seq, lane_id))
        return seq

    def _finish_revived(self, ids: Sequence[DeliveryId]) -> None:
        """Remove the dead letters that were delivered after all."""
        if self.memory.some_revived:
            self.session.many(
                "DELETE FROM dead_letters WHERE revived = 1 AND subscription_id = ? AND seq = ?",
                [(id_.subscription_id, id_.seq) for id_ in ids if max(id_) <= INTEGER_MAX],
            )
