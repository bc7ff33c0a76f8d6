"""The persistent state of a holder of the registry: term, vote, log, and the identities of the other holders."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

import orjson

from twigcast.broker.broker import Broker
from twigcast.broker.errors import StoreUnavailable
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.registry.raft_log import LogEntry, LogSnapshot, PersistentState

logger = logging.getLogger(__name__)

_STATE: Final = "registry"
_LOG: Final = "registry-log"
_SNAPSHOT: Final = "snapshot"
"""The name of the snapshot among the entries; it is written in one transaction with the log."""
_RETRY_SECONDS: Final = 0.5


class Records:
    """The records of the overlay in the broker's store, by kind and name. It is made in the main event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._hub_loop = asyncio.get_running_loop()

    def load(self, kind: str) -> dict[str, bytes]:
        """Returns all records of a kind, in the order of their names. Blocks."""
        return self._broker.store.overlay_records(kind)

    async def save(self, kind: str, put: Mapping[str, bytes], gone: Iterable[str] = ()) -> None:
        """Changes records in one transaction, and repeats this while the store is unavailable."""
        names = tuple(gone)
        if not put and not names:
            return
        has_waited = False
        while True:
            try:
                await self._write(kind, put, names)
            except StoreUnavailable as error:
                level = logging.DEBUG if has_waited else logging.WARNING
                logger.log(level, "the registry waits for the store: %s", error)
                has_waited = True
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _write(self, kind: str, put: Mapping[str, bytes], gone: tuple[str, ...]) -> None:
        work = self._broker.change(lambda transaction: transaction.set_overlay_records(kind, put, gone))
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._hub_loop))


class Ledger:
    """The persistent state in the records of the store."""

    def __init__(self, records: Records) -> None:
        self._records = records
        state = records.load(_STATE)
        reported = orjson.loads(state.get("vote", b"[0, null]"))
        kept = records.load(_LOG)
        base, base_term, *snapshot = orjson.loads(kept.pop(_SNAPSHOT, b'[0, 0, 0, 0, ""]'))
        log = [LogEntry(*orjson.loads(text)) for text in kept.values()]
        self.durable = PersistentState(reported[0], reported[1], log, base, base_term, LogSnapshot(*snapshot))
        #: By name of another holder, the number of its broker.
        self.members: dict[str, Address] = orjson.loads(state.get("members", b"{}"))
        self._kept_vote = (self.durable.term, self.durable.voted_for)
        self._kept_members = dict(self.members)
        self._kept_snapshot = self.durable.snapshot
        self._kept_log = self._entries()

    async def keep(self) -> None:
        """Writes what has changed, and repeats this while the store is unavailable."""
        await self._records.save(_STATE, self._state())
        durable, kept = self.durable, self._kept_log
        last = durable.log[-1] if durable.log else None
        # If the last entries are equal, so are all before: entries inside the log never change.
        if (durable.snapshot, len(kept), kept.get(durable.last)) == (self._kept_snapshot, len(durable.log), last):
            return
        now = self._entries()
        put = {_name(index): orjson.dumps(tuple(entry)) for index, entry in now.items() if kept.get(index) is not entry}
        if durable.snapshot is not self._kept_snapshot:
            put[_SNAPSHOT] = orjson.dumps((durable.base, durable.base_term, *durable.snapshot))
        await self._records.save(_LOG, put, [_name(index) for index in kept if index not in now])
        self._kept_log, self._kept_snapshot = now, durable.snapshot

    def _entries(self) -> dict[int, LogEntry]:
        """Returns the log by index."""
        return dict(enumerate(self.durable.log, self.durable.base + 1))

    def _state(self) -> dict[str, bytes]:
        put = {}
        vote = (self.durable.term, self.durable.voted_for)
        if vote != self._kept_vote:
            put["vote"], self._kept_vote = orjson.dumps(vote), vote
        if self.members != self._kept_members:
            put["members"], self._kept_members = orjson.dumps(self.members), dict(self.members)
        return put


def _name(index: int) -> str:
    # The first entry has index 1 and the name 0.
    return f"{index - 1:012d}"
