"""Accepted and rejected messages: statements that are the same in both databases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from operator import itemgetter
from typing import Final

from twigcast.broker.model import ErrorRecord, MessageName, MessageSummary, RejectedRecord, StoredMessage, Submission
from twigcast.broker.store.database import INTEGER_MAX, DatabaseSession, Reads, Row, Writes, chunks

MESSAGE: Final = "seq, tenant_id, source, message_id, received, xml, matches, id_types, priority, deadline"
"""Columns of a :class:`StoredMessage`, in its order."""

_REJECTED: Final = "id, tenant_id, source, message_id, received, body, code, reason, line_number, column_number"

_UNDONE: Final = (
    "d.acked = 0 AND (d.seq > l.acked OR EXISTS (SELECT 1 FROM set_aside w WHERE w.lane_id = d.lane_id "
    "AND w.seq = d.seq AND w.subscription_id = d.subscription_id))"
)
"""The condition that a delivery ``d`` of a queue ``l`` is not acknowledged."""

WINDOW_SOURCE: Final = "twigcast:windows"
"""The source of what the broker itself tells subscribers; no publisher can have that name. No query is asked of it."""

EXPIRED_DELIVERIES_MAX: Final = 50_000
"""Number of deliveries that one step of retention removes, but at least those of one message."""


def messages_by_seq(session: DatabaseSession, seqs: Iterable[int]) -> dict[int, StoredMessage]:
    """Returns the existing messages with these sequence numbers."""
    results: dict[int, StoredMessage] = {}
    for some in chunks(seqs, 1_000):
        rows = session.rows(f"SELECT {MESSAGE} FROM messages WHERE {session.among('seq')}", (session.values(some),))
        results.update((row[0], StoredMessage(*row)) for row in rows)
    return results


def first_bytes(rows: Iterable[Row], bytes_max: int) -> list[int]:
    """Returns the first messages (sequence number, size) that have about so many bytes, at least one."""
    requested: list[int] = []
    total = 0
    for seq, size in rows:
        total += size
        if requested and total > bytes_max:
            break
        requested.append(seq)
    return requested


def id_range(column: str, before: int | None, after: int | None) -> tuple[tuple[str, int], str]:
    """Returns a condition on an id, its value, and the order: backwards from the newest, or forwards after an id."""
    if after is not None:
        return (f"{column} > ?", min(after, INTEGER_MAX)), "ASC"
    return (f"{column} < ?", INTEGER_MAX if before is None else min(before, INTEGER_MAX)), "DESC"


class MessageReads(Reads):
    """Reading methods for messages."""

    def last_seq(self) -> int:
        """Returns the highest sequence number assigned so far; 0 if there is none."""
        return int(self.one("SELECT value FROM counters WHERE name = 'seq'")[0])

    def message(self, tenant_id: int, seq: int) -> StoredMessage | None:
        """Returns a message by its sequence number."""
        if seq > INTEGER_MAX:
            return None
        row = self.first(f"SELECT {MESSAGE} FROM messages WHERE seq = ? AND tenant_id = ?", (seq, tenant_id))
        return None if row is None else StoredMessage(*row)

    def message_by_id(self, tenant_id: int, message_id: str, source: str | None = None) -> StoredMessage | None:
        """Returns a message by the publisher's id; the latest if several sources used the same."""
        condition, params = ("", ()) if source is None else (" AND source = ?", (source,))
        row = self.first(
            f"SELECT {MESSAGE} FROM messages WHERE tenant_id = ? AND message_id = ?{condition} "
            "ORDER BY seq DESC LIMIT 1",
            (tenant_id, message_id, *params),
        )
        return None if row is None else StoredMessage(*row)

    def accepted_before(self, submissions: Sequence[Submission]) -> Mapping[MessageName, StoredMessage]:
        """Returns those submissions that were accepted before, without bodies, by tenant id, source and message id."""
        return self.database.read(lambda session: _stored(session, submissions))

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
        """Returns messages of a tenant, or of one of its sources, with their bodies, in order of sequence or reversed.

        Without a source, there are none that the broker has written itself. With ``bytes_max`` about that many bytes
        are read, at least one message.
        """
        sign, name = ("<>", WINDOW_SOURCE) if source is None else ("=", source)
        condition, params = f" AND source {sign} ?", (name,)
        chosen = (
            f"FROM messages WHERE tenant_id = ? AND seq > ? AND seq <= ?{condition} "
            f"ORDER BY seq {'DESC' if newest_first else 'ASC'} LIMIT ?"
        )
        end = INTEGER_MAX if up_to is None else min(up_to, INTEGER_MAX)
        values = (tenant_id, min(after, INTEGER_MAX), end, *params, limit)
        if bytes_max is None:
            return [StoredMessage(*row) for row in self.rows(f"SELECT {MESSAGE} {chosen}", values)]
        while requested := first_bytes(self.rows(f"SELECT seq, size {chosen}", values), bytes_max):
            result = self.database.read(lambda session, seqs=requested: messages_by_seq(session, seqs))  # type: ignore[misc]
            if result:
                return [result[seq] for seq in requested if seq in result]
            # All of them have just expired; the messages after them are next.
        return []

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
        """Returns messages of a tenant, or of one source, without bodies; by default the newest first."""
        condition, params = ("", ()) if source is None else (" AND source = ?", (source,))
        end = INTEGER_MAX if up_to is None else min(up_to, INTEGER_MAX)
        rows = self.rows(
            "SELECT seq, source, message_id, received, matches, size FROM messages "
            f"WHERE tenant_id = ? AND seq > ? AND seq <= ?{condition} "
            f"ORDER BY seq {'ASC' if oldest_first else 'DESC'} LIMIT ?",
            (tenant_id, min(after, INTEGER_MAX), end, *params, limit),
        )
        return [MessageSummary(*row) for row in rows]

    def first_seq_since(self, tenant_id: int, received: float) -> int | None:
        """Returns the sequence number of the first message received at or after a time."""
        # The first in order, not the earliest time: so no message is left out after a clock was set back.
        row = self.first(
            "SELECT seq FROM messages WHERE tenant_id = ? AND received >= ? ORDER BY seq LIMIT 1", (tenant_id, received)
        )
        return None if row is None else int(row[0])

    def rejected(
        self, tenant_id: int, *, before_id: int | None = None, after_id: int | None = None, limit: int
    ) -> list[RejectedRecord]:
        """Returns rejected messages, newest first; with ``after_id`` those after it, oldest first."""
        position, order = id_range("id", before_id, after_id)
        rows = self.rows(
            f"SELECT {_REJECTED} FROM rejected WHERE tenant_id = ? AND {position[0]} ORDER BY id {order} LIMIT ?",
            (tenant_id, position[1], limit),
        )
        return [RejectedRecord(*row) for row in rows]

    def rejected_message(self, tenant_id: int, rejected_id: int) -> RejectedRecord | None:
        """Returns one rejected message."""
        if rejected_id > INTEGER_MAX:
            return None
        row = self.first(f"SELECT {_REJECTED} FROM rejected WHERE id = ? AND tenant_id = ?", (rejected_id, tenant_id))
        return None if row is None else RejectedRecord(*row)

    def clock_mark(self) -> int | None:
        """Returns the time that retention went by last, in seconds since the epoch; ``None`` if it has not run yet."""
        return int(self.one("SELECT value FROM counters WHERE name = 'clock'")[0]) or None


def _stored(session: DatabaseSession, submissions: Sequence[Submission]) -> Mapping[MessageName, StoredMessage]:
    """Returns those submissions that were accepted before, without bodies, by tenant id, source and message id."""
    requested: dict[int, set[str]] = {}
    for submission in submissions:
        if submission.message_id is not None:
            requested.setdefault(submission.tenant_id, set()).add(submission.message_id)
    names = {(s.tenant_id, s.source, s.message_id) for s in submissions}
    existing: dict[MessageName, StoredMessage] = {}
    for tenant_id, message_ids in requested.items():
        for some in chunks(sorted(message_ids), 1_000):
            rows = session.rows(
                "SELECT seq, tenant_id, source, message_id, received, matches, digest FROM messages "
                f"WHERE tenant_id = ? AND {session.among('message_id', 'text')}",
                (tenant_id, session.values(some)),
            )
            for seq, tenant, source, message_id, received, matches, digest in rows:
                if (tenant, source, message_id) in names:
                    existing[tenant, source, message_id] = StoredMessage(
                        seq, tenant, source, message_id, received, b"", matches, digest=digest
                    )
    return existing


class MessageWrites(Writes):
    """Methods that store messages and let them expire."""

    def next_seq(self) -> int:
        """Returns the sequence number of the next message."""
        return self.counters.value("seq") + 1

    def stored_messages(self, submissions: Sequence[Submission]) -> Mapping[MessageName, StoredMessage]:
        """Returns those submissions that were accepted before, without bodies, by tenant id, source and message id."""
        return _stored(self.session, submissions)

    def add_messages(self, messages: Sequence[StoredMessage]) -> None:
        """Stores accepted messages, with sequence numbers in order from :meth:`next_seq` on."""
        if not messages:
            return
        if messages[0].seq != self.next_seq() or any(b.seq <= a.seq for a, b in pairwise(messages)):
            raise ValueError(f"sequence numbers are to go on from {self.next_seq()}")
        names = "seq", "tenant_id", "source", "message_id", "received", "size", "matches"
        about = [(m.seq, m.tenant_id, m.source, m.message_id, m.received, len(m.xml), m.matches) for m in messages]
        rows = [
            (*one, m.xml, m.id_types, m.digest, m.priority, m.deadline) for one, m in zip(about, messages, strict=True)
        ]
        self.session.insert("messages", (*names, "xml", "id_types", "digest", "priority", "deadline"), rows)
        self.counters.add("seq", messages[-1].seq - self.counters.value("seq"))
        self.counters.add("bytes", sum(len(m.xml) for m in messages))

    def add_rejected(
        self, submission: Submission, *, code: str, reason: str, line: int | None, column: int | None, at: float
    ) -> int:
        """Stores a rejected message whole, and returns its id."""
        number = self.counters.take("rejected")
        s = submission
        self.session.execute(
            "INSERT INTO rejected (id, tenant_id, source, message_id, received, code, reason, line_number, "
            "column_number, size, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, s.tenant_id, s.source, s.message_id, at, code, reason, line, column, len(s.body), s.body),
        )
        self.counters.add("bytes", len(s.body))
        return number

    def remove_rejected(self, ids: Sequence[int]) -> int:
        """Removes rejected messages for good, and returns how many there were."""
        return self._remove_rejected([number for number in ids if number <= INTEGER_MAX])

    def _remove_rejected(self, ids: Iterable[int]) -> int:
        removed = 0
        for some in chunks(ids, 1_000):
            condition, params = self.session.among("id"), (self.session.values(some),)
            ((size, count),) = self.session.rows(
                f"SELECT COALESCE(SUM(size), 0), COUNT(*) FROM rejected WHERE {condition}", params
            )
            self.session.execute(f"DELETE FROM rejected WHERE {condition}", params)
            self.counters.add("bytes", -int(size))
            removed += count
        return removed

    # Retention

    def forgotten(self) -> int:
        """Returns the highest sequence number that retention has removed."""
        return self.counters.value("forgotten")

    def expire(
        self, *, before: float | None, bytes_max: int | None, limit: int, at: float, up_to: int | None = None
    ) -> int:
        """Removes up to ``limit`` of the oldest messages and of the rejected ones; returns how many messages.

        Messages go, with their deliveries, that are older than ``before``, as all before them are, or exceed
        ``bytes_max`` in all; those above ``up_to`` stay. Pending deliveries are counted in an error record, so that
        nothing ends silently.
        """
        last = INTEGER_MAX if up_to is None else up_to
        gone = 0
        if before is not None:
            gone += self._expire_by_age(before, last, limit, at)
        if bytes_max is not None:
            gone += self._expire_by_size(self.counters.value("bytes") - bytes_max, last, limit - gone, at)
        return gone

    def _expire_by_age(self, before: float, last: int, limit: int, at: float) -> int:
        self._expire_rejected(before, limit)
        rows = self._oldest(0, last, limit)
        return len(self._remove_messages([row[:3] for row in takewhile(lambda row: row[3] < before, rows)], at))

    def _expire_rejected(self, before: float, limit: int) -> None:
        rows = self.session.rows("SELECT id, received FROM rejected ORDER BY id LIMIT ?", (limit,))
        self._remove_rejected(number for number, _ in takewhile(lambda row: row[1] < before, rows))

    def _oldest(self, after: int, last: int, limit: int) -> list[Row]:
        """Returns messages (sequence number, size, matches, time, tenant) in order.

        In the order of their numbers, not of their times: a message that was stored while the clock was wrong is not
        older than the one before it.
        """
        return self.session.rows(
            "SELECT seq, size, matches, received, tenant_id FROM messages WHERE seq > ? AND seq <= ? "
            "ORDER BY seq LIMIT ?",
            (after, last, limit),
        )

    def is_due(self, before: float) -> bool:
        """Returns whether the oldest message, accepted or rejected, is older than a time."""
        return any(
            received < before
            for table, column in (("messages", "seq"), ("rejected", "id"))
            for (received,) in self.session.rows(f"SELECT received FROM {table} ORDER BY {column} LIMIT 1")
        )

    def expire_settled(
        self,
        *,
        before: float | None,
        bytes_max: int | None,
        limit: int,
        at: float,
        up_to: int | None = None,
        after: int = 0,
    ) -> tuple[int, int | None]:
        """Removes messages as :meth:`expire` does, but none that a subscriber waits for.

        It looks at up to ``limit`` messages after the number ``after``. Returns how many it removed, and the number
        after which to go on; ``None`` where no more are due.
        """
        if before is not None:
            self._expire_rejected(before, limit)
        rows = self._oldest(after, INTEGER_MAX if up_to is None else up_to, limit)
        excess = 0 if bytes_max is None else self.counters.value("bytes") - bytes_max
        aged = 0 if before is None else sum(1 for _ in takewhile(lambda row: row[3] < before, rows))
        awaited = self._awaited(rows)
        chosen: list[Row] = []
        go_on = rows[-1][0] if len(rows) == limit else None
        for position, row in enumerate(rows):
            if position >= aged and excess <= 0:
                go_on = None
                break
            if row[0] not in awaited:
                chosen.append(row[:3])
                excess -= row[1]
        removed = self._remove_messages(chosen, at)
        if len(removed) < len(chosen):
            go_on = chosen[len(removed)][0] - 1
        elif go_on is None and excess > 0:
            self._shed_rejected(excess, limit)
        return len(removed), go_on

    def _shed_rejected(self, excess: int, limit: int) -> None:
        """Removes the oldest rejected messages until ``excess`` bytes are gone."""
        requested: list[int] = []
        for number, size in self.session.rows("SELECT id, size FROM rejected ORDER BY id LIMIT ?", (limit,)):
            if excess <= 0:
                break
            excess -= size
            requested.append(number)
        self._remove_rejected(requested)

    def _awaited(self, rows: Sequence[Row]) -> set[int]:
        """Returns those of the messages that are pending for a subscriber, or are still to be replayed to one."""
        awaited: set[int] = set()
        for some in chunks([row[0] for row in rows], 1_000):
            pending = self.session.rows(
                "SELECT DISTINCT d.seq FROM deliveries d JOIN lanes l ON l.id = d.lane_id "
                "JOIN subscriptions s ON s.id = d.subscription_id "
                f"WHERE {self.session.among('d.seq')} AND {_UNDONE}",
                (self.session.values(some),),
            )
            awaited.update(seq for (seq,) in pending)
        first: dict[int, int] = {}
        for tenant_id, *numbers in self.session.rows(
            "SELECT tenant_id, MIN(replay_next), MIN(missed_from) FROM subscriptions "
            "WHERE replay_next IS NOT NULL OR missed_from IS NOT NULL GROUP BY tenant_id"
        ):
            first[tenant_id] = min(number for number in numbers if number is not None)
        awaited.update(row[0] for row in rows if row[0] >= first.get(row[4], INTEGER_MAX))
        return awaited

    # The clock

    def clock(self) -> tuple[int, int]:
        """Returns the time that retention went by last (0: none yet), and how often a time was confirmed."""
        return self.counters.value("clock"), self.counters.value("clock_confirmed")

    def set_clock(self, at: float) -> None:
        """Stores the time that retention goes by."""
        self.counters.add("clock", int(at) - self.counters.value("clock"))

    def confirm_clock(self, at: float) -> None:
        """Confirms a time. Messages with a later one, since the clock was wrong, get this one."""
        self.set_clock(at)
        self.counters.take("clock_confirmed")
        for table in ("messages", "rejected"):
            self.session.execute(f"UPDATE {table} SET received = ? WHERE received > ?", (at, at))

    def newest_received(self) -> float | None:
        """Returns the time of the newest message; ``None`` without one."""
        row = self.first("SELECT received FROM messages ORDER BY seq DESC LIMIT 1")
        return None if row is None else float(row[0])

    def _expire_by_size(self, excess: int, last: int, limit: int, at: float) -> int:
        """Removes the oldest messages, accepted or rejected, until ``excess`` bytes are gone."""
        if excess <= 0 or limit <= 0:
            return 0
        oldest = [
            (received, True, (seq, size, matches))
            for seq, size, matches, received in self.session.rows(
                "SELECT seq, size, matches, received FROM messages WHERE seq <= ? ORDER BY seq LIMIT ?", (last, limit)
            )
        ] + [
            (received, False, (number, size))
            for number, size, received in self.session.rows(
                "SELECT id, size, received FROM rejected ORDER BY id LIMIT ?", (limit,)
            )
        ]
        messages: list[Row] = []
        rejected: list[int] = []
        for _, accepted, row in sorted(oldest, key=itemgetter(0)):
            if excess <= 0:
                break
            excess -= row[1]
            if accepted:
                messages.append(row)
            else:
                rejected.append(row[0])
        self._remove_rejected(rejected)
        return len(self._remove_messages(messages, at))

    def erase_messages(self, tenant_id: int, limit: int, *, at: float) -> bool:
        """Removes some messages of a tenant, accepted or rejected; returns whether there may be more."""
        rejected = self.session.rows("SELECT id FROM rejected WHERE tenant_id = ? LIMIT ?", (tenant_id, limit))
        self._remove_rejected(number for (number,) in rejected)
        rows = self.session.rows(
            "SELECT seq, size, matches FROM messages WHERE tenant_id = ? ORDER BY seq LIMIT ?", (tenant_id, limit)
        )
        self._remove_messages(rows, at, is_retention=False)
        return bool(rejected or rows)

    def _remove_messages(self, rows: Sequence[Row], at: float, *, is_retention: bool = True) -> list[int]:
        """Removes messages (sequence number, size, matches), as many as fit into one step; returns which."""
        seqs: list[int] = []
        freed = matches = 0
        for seq, size, count in rows:
            if seqs and matches + count > EXPIRED_DELIVERIES_MAX:
                break
            seqs.append(seq)
            freed += size
            matches += count
        for some in chunks(seqs, 1_000):
            self._copy_kept(some)
            self._remove_deliveries(some, at)
            for table in ("messages", "overlay_origins"):
                self.session.execute(
                    f"DELETE FROM {table} WHERE {self.session.among('seq')}", (self.session.values(some),)
                )
        if seqs and is_retention:
            self.counters.add("forgotten", max(0, max(seqs) - self.counters.value("forgotten")))
        self.counters.add("bytes", -freed)
        return seqs

    def _copy_kept(self, seqs: Sequence[int]) -> None:
        """Copies messages into what is kept of them for digests."""
        self.session.execute(
            "UPDATE kept_messages SET payload = (SELECT m.xml FROM messages m WHERE m.seq = kept_messages.seq) "
            f"WHERE {self.session.among('seq')} AND payload IS NULL",
            (self.session.values(seqs),),
        )

    def _remove_deliveries(self, seqs: Sequence[int], at: float) -> None:
        params = (self.session.values(seqs),)
        lost = self.session.rows(
            "SELECT d.subscription_id, COUNT(*), MIN(d.seq), MAX(d.seq) FROM deliveries d "
            "JOIN lanes l ON l.id = d.lane_id JOIN subscriptions s ON s.id = d.subscription_id "
            f"WHERE {self.session.among('d.seq')} AND {_UNDONE} "
            "GROUP BY d.subscription_id ORDER BY d.subscription_id",
            params,
        )
        self.add_errors(
            ErrorRecord(
                subscription_id=subscription_id,
                at=at,
                reason=f"expired before it was delivered (messages {first} to {last})",
                seq=last,
                count=count,
            )
            for subscription_id, count, first, last in lost
        )
        for table in ("deliveries", "set_aside", "leases", "payloads"):
            self.session.execute(f"DELETE FROM {table} WHERE {self.session.among('seq')}", params)
