"""The state of pushing that outlives a restart: failed attempts, and WebSub requests that wait for verification."""

from __future__ import annotations

import json

from twigcast.broker.model import DeliveryId
from twigcast.broker.store.base import Reads, Writes
from twigcast.broker.store.records import Attempts, WebSubRequest


class PushReads(Reads):
    """Reading methods for attempts and requests."""

    def attempts(self, queue_id: int) -> Attempts | None:
        """Returns how often the first delivery of a queue was tried, if it failed before."""
        row = self.first(
            "SELECT seq, subscription_id, attempts, first_at FROM push_attempts WHERE lane_id = ?", (queue_id,)
        )
        return None if row is None else Attempts(DeliveryId(row[0], row[1]), row[2], row[3])

    def websub_requests(self) -> list[tuple[int, WebSubRequest]]:
        """Returns the requests that are accepted but not verified, with their numbers, in order."""
        rows = self.rows("SELECT id, base_url, form FROM websub_requests ORDER BY id")
        return [(number, WebSubRequest(base_url, json.loads(form))) for number, base_url, form in rows]


class PushWrites(Writes):
    """Methods that add and remove attempts and requests."""

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
            "INSERT INTO websub_requests (id, base_url, form) VALUES (?, ?, ?)", (number, request.base_url, form)
        )
        return number

    def delete_websub_request(self, number: int) -> None:
        """Removes a request that was carried out or refused."""
        self.session.execute("DELETE FROM websub_requests WHERE id = ?", (number,))
