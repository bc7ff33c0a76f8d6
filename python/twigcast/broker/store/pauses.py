"""Pauses of queries in XQuery, which match messages later than these arrive.

Messages before a pause still count when the query reaches them; those within the pause do not.
"""

from __future__ import annotations

from twigcast.broker.store.base import Reads, Writes
from twigcast.broker.store.database import Row
from twigcast.broker.store.records import Pause

_COLUMNS = "first_seq, last_seq"


def _pauses(rows: list[Row]) -> list[Pause]:
    return [Pause(*row) for row in rows]


class PauseReads(Reads):
    """Reading methods for pauses."""

    def pauses(self, subscription_id: int) -> list[Pause]:
        """Returns the pauses that a query in XQuery has not passed yet, in order."""
        return _pauses(
            self.rows(f"SELECT {_COLUMNS} FROM pauses WHERE subscription_id = ? ORDER BY first_seq", (subscription_id,))
        )


class PauseWrites(Writes):
    """Methods that begin, end and remove pauses."""

    def pauses(self, subscription_id: int) -> list[Pause]:
        """Returns the pauses that a query in XQuery has not passed yet, in order."""
        return _pauses(
            self.session.rows(
                f"SELECT {_COLUMNS} FROM pauses WHERE subscription_id = ? ORDER BY first_seq", (subscription_id,)
            )
        )

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
