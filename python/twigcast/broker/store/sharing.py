"""The form in which the settings of a shared queue are stored."""

from __future__ import annotations

import json

from twigcast.broker.model import QueueState, Sharing
from twigcast.broker.store.database import Row


def read_sharing(text: str | None) -> Sharing | None:
    """Returns stored settings; ``None`` for those of an ordered queue."""
    return None if text is None else Sharing(**json.loads(text))


def sharing_text(sharing: Sharing | None) -> str | None:
    """Returns settings as they are stored."""
    if sharing is None:
        return None
    more = {"is_by_urgency": True} if sharing.is_by_urgency else {}
    return json.dumps({"lease_seconds": sharing.lease_seconds, "attempts_max": sharing.attempts_max, **more})


def queue_state(row: Row) -> QueueState:
    """Returns a queue from its row, which ends with its settings."""
    queue_id, tenant_id, subscriber, acked, kind, sharing = row
    return QueueState(queue_id, tenant_id, subscriber, acked, kind, read_sharing(sharing))
