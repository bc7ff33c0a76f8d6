"""The log of SQLite: it starts again from its beginning under a load without pauses, and no thread is kept out."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.broker.store.filling import publish
from twigcast.broker.store import sqlite
from twigcast.broker.store.sqlite import FairLock
from twigcast.broker.store.store import open_store


@pytest.mark.slow
def test_the_log_starts_again_while_the_writer_never_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "RESTART_BYTES", 1 << 20)
    monkeypatch.setattr(sqlite, "CHECKPOINT_SECONDS", 0.02)
    store = open_store(tmp_path)
    log = tmp_path / "twigcast.db-wal"
    written = longest = 0
    end = time.monotonic() + 60
    # Many times more than the log may hold; what comes in one pause of the other thread may be a few times that.
    while written < 60 << 20 and time.monotonic() < end:
        publish(store, 20, xml=b"<m>%b</m>" % (b"x" * 10_000))
        written += 20 * 10_000
        longest = max(longest, log.stat().st_size)
    assert written >= 60 << 20
    assert longest < 20 << 20
    messages = store.last_seq()
    store.close()
    store = open_store(tmp_path)
    assert len(store.messages(1, limit=messages + 1)) == messages
    store.close()


def test_who_waits_for_the_lock_is_next() -> None:
    lock = FairLock()
    taken: list[str] = []
    began = threading.Event()

    def other() -> None:
        began.set()
        with lock:
            taken.append("other")

    thread = threading.Thread(target=other)
    with lock:
        thread.start()
        began.wait()
        # Until it waits for the lock, and so holds up all others.
        while not lock._next.locked():
            time.sleep(0.001)
    with lock:
        taken.append("first again")
    thread.join()
    assert taken == ["other", "first again"]
