"""Restoring what is known of windows: the file says nothing of windows that it does not have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from twigcast import SubscriptionSet, Windows

START = datetime(2026, 12, 1, 10, tzinfo=UTC)


def test_digests_that_a_file_does_not_have_stay_open(tmp_path: Path) -> None:
    subscriptions = SubscriptionSet([("one", "/a"), ("two", "/a")])
    saved = Windows(subscriptions)
    saved.add("one", {"digest": "1 h"})
    saved.deliver("<a/>", message_id="old", published=START)
    saved.save(tmp_path / "state")

    windows = Windows(subscriptions)
    windows.add("one", {"digest": "1 h"})
    windows.add("two", {"digest": "1 h"})
    windows.deliver("<a/>", message_id="new", published=START)
    windows.restore(tmp_path / "state")
    digests = {delivery.key: bytes(delivery.payload or b"") for delivery in windows.due(START + timedelta(hours=2))}
    assert digests.keys() == {"one", "two"}
    assert [[name in digests[key] for name in (b'id="old"', b'id="new"')] for key in ("one", "two")] == [
        [True, False],
        [False, True],
    ]
