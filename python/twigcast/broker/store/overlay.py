"""The state of a broker that is part of an overlay: its identity, the other brokers, and the origins of messages."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence

from twigcast.broker.errors import Conflict
from twigcast.broker.model import Origin, OverlayIdentity, RootState, StoredMessage
from twigcast.broker.store.database import INTEGER_MAX, Reads, Writes
from twigcast.broker.store.messages import first_bytes, messages_by_seq


class OverlayReads(Reads):
    """Reading methods for the overlay."""

    def overlay_identity(self) -> OverlayIdentity | None:
        """Returns who this broker is in an overlay; ``None`` if it was never part of one."""
        row = self.first("SELECT name, instance, incarnation FROM overlay_self")
        return None if row is None else OverlayIdentity(row[0], bytes(row[1]), row[2])

    def overlay_roots(self) -> dict[int, RootState]:
        """Returns the other brokers of the overlay, by number."""
        rows = self.rows("SELECT identity, name, horizon, seen FROM overlay_roots ORDER BY identity")
        return {identity: RootState(name, horizon, seen) for identity, name, horizon, seen in rows}

    def overlay_origin(self, seq: int) -> Origin | None:
        """Returns the origin of a message; ``None`` if it was published here."""
        if seq > INTEGER_MAX:
            return None
        row = self.first("SELECT root, number, way FROM overlay_origins WHERE seq = ?", (seq,))
        return None if row is None else Origin(row[0], row[1], tuple(json.loads(row[2])))

    def overlay_records(self, kind: str) -> dict[str, bytes]:
        """Returns the overlay's records of one kind, by name, in the order of names."""
        rows = self.rows("SELECT name, value FROM overlay_records WHERE kind = ? ORDER BY name", (kind,))
        return {name: bytes(value) for name, value in rows}

    def own_messages(self, *, after: int, up_to: int, limit: int, bytes_max: int) -> list[StoredMessage]:
        """Returns messages published here, of all tenants, in order; about ``bytes_max`` bytes, at least one."""
        rows = self.rows(
            "SELECT m.seq, m.size FROM messages m WHERE m.seq > ? AND m.seq <= ? AND NOT EXISTS "
            "(SELECT 1 FROM overlay_origins o WHERE o.seq = m.seq) ORDER BY m.seq LIMIT ?",
            (min(after, INTEGER_MAX), min(up_to, INTEGER_MAX), limit),
        )
        requested = first_bytes(rows, bytes_max)
        result = self.database.read(lambda session: messages_by_seq(session, requested))
        # Messages that have expired meanwhile are left out.
        return [result[seq] for seq in requested if seq in result]

    def forgotten(self) -> int:
        """Returns the highest sequence number that retention has removed; 0 if there is none."""
        return int(self.one("SELECT value FROM counters WHERE name = 'forgotten'")[0])


class OverlayWrites(Writes):
    """Changing methods for the overlay."""

    def start_overlay(self, name: str, incarnation: int) -> OverlayIdentity:
        """Returns the identity with a new incarnation, at least this one; raises Conflict if it has another name."""
        row = self.first("SELECT name, instance, incarnation FROM overlay_self")
        if row is None:
            result = OverlayIdentity(name, secrets.token_bytes(16), incarnation)
            self.session.execute(
                "INSERT INTO overlay_self (id, name, instance, incarnation) VALUES (1, ?, ?, ?)",
                (result.name, result.instance, result.incarnation),
            )
            return result
        if row[0] != name:
            raise Conflict(
                f"this store belongs to the broker {row[0]!r} of an overlay, and cannot be that of {name!r}: "
                "its messages are known under that name"
            )
        result = OverlayIdentity(name, bytes(row[1]), max(row[2] + 1, incarnation))
        self.session.execute("UPDATE overlay_self SET incarnation = ?", (result.incarnation,))
        return result

    def forget_overlay_identity(self) -> bool:
        """Removes the identity in an overlay, so that the next start makes a new one; returns whether there was one.

        The part of the registry is removed, too: its promises to other brokers may be newer than this store.
        """
        # A vote that was given, and log entries that others count on, may be newer than the restored state.
        self.session.execute("DELETE FROM overlay_records")
        return bool(self.session.execute("DELETE FROM overlay_self"))

    def set_overlay_records(self, kind: str, put: Mapping[str, bytes], gone: Iterable[str] = ()) -> None:
        """Stores or replaces records of the overlay by name, and removes those in ``gone``."""
        names = sorted({*put, *gone})
        self.session.many("DELETE FROM overlay_records WHERE kind = ? AND name = ?", [(kind, name) for name in names])
        rows = [(kind, name, value) for name, value in sorted(put.items())]
        self.session.insert("overlay_records", ("kind", "name", "value"), rows)

    def set_horizons(self, horizons: Mapping[int, int], *, at: float) -> None:
        """Stores up to where all messages of these brokers are known."""
        self._put_roots(horizons)
        self.session.many(
            "UPDATE overlay_roots SET horizon = ?, seen = ? WHERE identity = ?",
            [(horizon, at, identity) for identity, horizon in sorted(horizons.items())],
        )

    def name_roots(self, names: Mapping[int, str]) -> None:
        """Stores the names of brokers."""
        self._put_roots(names)
        self.session.many(
            "UPDATE overlay_roots SET name = ? WHERE identity = ?",
            [(name, identity) for identity, name in sorted(names.items())],
        )

    def _put_roots(self, identities: Iterable[int]) -> None:
        self.session.insert(
            "overlay_roots",
            ("identity", "name", "horizon", "seen"),
            [(identity, "", None, 0.0) for identity in sorted(identities)],
            keep_existing=True,
        )

    def add_origins(self, origins: Sequence[tuple[int, Origin]]) -> None:
        """Stores the origins of messages of other brokers, by sequence number. A known origin stays as it is."""
        self.session.insert(
            "overlay_origins",
            ("seq", "root", "number", "way"),
            [(seq, origin.root, origin.number, json.dumps(origin.route)) for seq, origin in origins],
            keep_existing=True,
        )
