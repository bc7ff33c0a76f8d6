"""The states of windows, and the messages that are kept for digests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from twigcast.broker.model import StoredMessage
from twigcast.broker.store.database import Reads, Row, Writes, chunks
from twigcast.broker.store.messages import WINDOW_SOURCE, messages_by_seq
from twigcast.windows.states import Bucket, WindowState, state_of_text, state_text

_AT_ONCE = 1_000

WindowAddress = tuple[int, str]
"""A subscription, and the value of ``by``."""


class StoredWindow(NamedTuple):
    """The state of one key of a window."""

    subscription_id: int
    window_key: str
    state: WindowState


class KeptMessage(NamedTuple):
    """A message that is kept for a digest."""

    subscription_id: int
    window_key: str
    bucket: Bucket
    seq: int
    message_id: str
    at: float
    """When it happened."""
    payload: bytes | None
    """The result of the query; ``None`` for the message itself."""


def _stored(rows: Iterable[Row]) -> list[StoredWindow]:
    return [StoredWindow(number, key, state_of_text(text)) for number, key, text in rows]


class WindowReads(Reads):
    """Reading methods for windows."""

    def window_states(self, subscription_id: int, *, after: str | None = None, limit: int) -> list[StoredWindow]:
        """Returns what is known for the window of a subscription, in order of the keys."""
        condition, params = ("", ()) if after is None else (" AND window_key > ?", (after,))
        rows = self.rows(
            f"SELECT subscription_id, window_key, state FROM window_states WHERE subscription_id = ?{condition} "
            "ORDER BY window_key LIMIT ?",
            (subscription_id, *params, limit),
        )
        return _stored(rows)

    def window_state(self, subscription_id: int, window_key: str) -> StoredWindow | None:
        """Returns what is known for one key."""
        rows = self.rows(
            "SELECT subscription_id, window_key, state FROM window_states WHERE subscription_id = ? AND window_key = ?",
            (subscription_id, window_key),
        )
        return next(iter(_stored(rows)), None)

    def window_tenants_due(self, now: float, limit: int) -> list[int]:
        """Returns the tenants for whose windows something is to be done by now; all those looked at are due first."""
        rows = self.rows(
            "SELECT DISTINCT s.tenant_id FROM (SELECT subscription_id FROM window_states WHERE held = 0 AND due <= ? "
            "ORDER BY due LIMIT ?) w LEFT JOIN subscriptions s ON s.id = w.subscription_id",
            (now, limit),
        )
        # What deleted subscriptions have left is no tenant's.
        return sorted({0 if tenant_id is None else tenant_id for (tenant_id,) in rows})


class WindowWrites(Writes):
    """Changing methods for windows."""

    def windows_at(self, addresses: Sequence[WindowAddress]) -> dict[WindowAddress, WindowState]:
        """Returns what is known, after all changes before this one."""
        states: dict[WindowAddress, WindowState] = {}
        by_key: dict[str, list[int]] = {}
        for number, key in addresses:
            by_key.setdefault(key, []).append(number)
        for key, numbers in by_key.items():
            for some in chunks(numbers, _AT_ONCE):
                rows = self.session.rows(
                    "SELECT subscription_id, window_key, state FROM window_states WHERE window_key = ? "
                    f"AND {self.session.among('subscription_id')}",
                    (key, self.session.values(some)),
                )
                states.update(((one.subscription_id, one.window_key), one.state) for one in _stored(rows))
        return states

    def set_windows(self, states: Sequence[tuple[WindowAddress, WindowState | None]]) -> None:
        """Stores what is known; ``None`` where that is nothing any more."""
        self.session.many(
            "DELETE FROM window_states WHERE subscription_id = ? AND window_key = ?",
            [address for address, state in states if state is None],
        )
        self.session.many(
            "INSERT INTO window_states (subscription_id, window_key, due, held, state) VALUES (?, ?, ?, 0, ?) "
            "ON CONFLICT (subscription_id, window_key) DO UPDATE SET due = excluded.due, held = 0, "
            "state = excluded.state",
            [(*address, state.due, state_text(state)) for address, state in states if state is not None],
        )

    def due_windows(self, now: float, limit: int) -> list[tuple[StoredWindow, int | None, bool]]:
        """Returns where something is to be done by now, what was due first first.

        Each with its tenant, which is ``None`` where the subscription is deleted, and whether it takes part now.
        """
        rows = self.session.rows(
            "SELECT w.subscription_id, w.window_key, w.state, s.tenant_id, s.state, s.replay_next FROM "
            "(SELECT * FROM window_states WHERE held = 0 AND due <= ? ORDER BY due LIMIT ?) w "
            "LEFT JOIN subscriptions s ON s.id = w.subscription_id ORDER BY w.due, w.subscription_id, w.window_key",
            (now, limit),
        )
        return [(*_stored([row[:3]]), row[3], row[4] == "active" and row[5] is None) for row in rows]

    def hold_windows(self, addresses: Sequence[WindowAddress]) -> None:
        """Lets nothing be due any more until :meth:`release_windows`, or until a message comes."""
        self.session.many(
            "UPDATE window_states SET held = 1 WHERE subscription_id = ? AND window_key = ?", list(addresses)
        )

    def release_windows(self, subscription_id: int) -> None:
        """Lets be due again what is held of a subscription."""
        self.session.execute(
            "UPDATE window_states SET held = 0 WHERE subscription_id = ? AND held = 1", (subscription_id,)
        )

    def replaying(self, numbers: Iterable[int]) -> set[int]:
        """Returns those of the subscriptions that get stored messages before new ones."""
        found: set[int] = set()
        for some in chunks(numbers, _AT_ONCE):
            rows = self.session.rows(
                f"SELECT id FROM subscriptions WHERE {self.session.among('id')} AND replay_next IS NOT NULL",
                (self.session.values(some),),
            )
            found.update(number for (number,) in rows)
        return found

    def forget_windows(self, subscription_id: int) -> None:
        """Forgets all that is known for the window of a subscription."""
        for table in ("window_states", "kept_messages"):
            self.session.execute(f"DELETE FROM {table} WHERE subscription_id = ?", (subscription_id,))

    def keep_messages(self, kept: Sequence[KeptMessage]) -> None:
        """Keeps messages for digests."""
        names = ("subscription_id", "window_key", "start", "part", "seq", "message_id", "at", "is_result", "payload")
        rows = [
            (*one[:2], one.bucket.start, one.bucket.part, *one[3:6], int(one.payload is not None), one.payload)
            for one in kept
        ]
        self.session.insert("kept_messages", names, rows)

    def take_kept(self, address: WindowAddress, bucket: Bucket) -> list[tuple[KeptMessage, bytes | None, bool]]:
        """Returns what was kept for a digest, in order, and keeps it no longer.

        Each with what the subscription gets of it (``None``: it is not there any more), and whether that is a result.
        """
        where = "subscription_id = ? AND window_key = ? AND start = ? AND part = ?"
        params = (*address, bucket.start, bucket.part)
        rows = self.session.rows(
            f"SELECT seq, message_id, at, is_result, payload FROM kept_messages WHERE {where} ORDER BY at, seq", params
        )
        self.session.execute(f"DELETE FROM kept_messages WHERE {where}", params)
        messages = messages_by_seq(self.session, [row[0] for row in rows if row[4] is None])
        taken = []
        for seq, message_id, at, is_result, payload in rows:
            body = payload
            if body is None and seq in messages:
                body = messages[seq].xml
            taken.append((KeptMessage(*address, bucket, seq, message_id, at, payload), body, bool(is_result)))
        return taken

    def message_id(self, seq: int) -> str | None:
        """Returns the id of a message; ``None`` if it is not there any more."""
        row = self.first("SELECT message_id FROM messages WHERE seq = ?", (seq,))
        return None if row is None else str(row[0])

    def messages_from(self, tenant_id: int, after: int, limit: int) -> list[int]:
        """Returns the numbers of the next messages of a tenant that publishers have sent."""
        rows = self.session.rows(
            "SELECT seq FROM messages WHERE tenant_id = ? AND seq > ? AND source <> ? ORDER BY seq LIMIT ?",
            (tenant_id, after, WINDOW_SOURCE, limit),
        )
        return [seq for (seq,) in rows]

    def messages_of(self, seqs: Sequence[int]) -> list[StoredMessage]:
        """Returns messages by their numbers, in order."""
        found = messages_by_seq(self.session, seqs)
        return [found[seq] for seq in sorted(found)]

    def set_replay_end(self, subscription_id: int, replay_next: int, replay_end: int) -> None:
        """Lets replay go on up to a later message."""
        self.session.execute(
            "UPDATE subscriptions SET replay_next = ?, replay_end = ? WHERE id = ?",
            (replay_next, replay_end, subscription_id),
        )
        self.session.execute(
            "UPDATE lanes SET replay_next = ? WHERE id = (SELECT lane_id FROM subscriptions WHERE id = ?)",
            (replay_next, subscription_id),
        )
