"""What a holder of the registry must not forget: its term, its vote, its log, and which brokers the others are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Protocol

import orjson

from twigcast.broker.errors import StoreUnavailable
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.registry.raft_log import LogEntry, LogSnapshot, PersistentState

logger = logging.getLogger(__name__)

_STATE: Final = "registry"
_LOG: Final = "registry-log"
_SNAPSHOT: Final = "snapshot"
"""Among the entries: what those before them have made, and how many they were; written at once with the log."""
_RETRY_SECONDS: Final = 0.5


class Records(Protocol):
    """Where brokers of an overlay keep things by kind and name."""

    def load(self, kind: str) -> dict[str, bytes]:
        """All of a kind, in the order of their names. Blocks."""

    def save(self, kind: str, put: Mapping[str, bytes], gone: Iterable[str]) -> Awaitable[None]:
        """Keep some and remove some, at once and durably.

        Raises:
            StoreUnavailable: The store does not answer.
        """


class Ledger:
    """Keeps it.

    Args:
        records: Where.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        state = records.load(_STATE)
        reported = orjson.loads(state.get("vote", b"[0, null]"))
        kept = records.load(_LOG)
        base, base_term, *snapshot = orjson.loads(kept.pop(_SNAPSHOT, b'[0, 0, 0, 0, ""]'))
        log = [LogEntry(*orjson.loads(text)) for text in kept.values()]
        self.durable = PersistentState(reported[0], reported[1], log, base, base_term, LogSnapshot(*snapshot))
        #: By name of another holder, which broker that is.
        self.members: dict[str, Address] = orjson.loads(state.get("members", b"{}"))
        self._kept_vote = (self.durable.term, self.durable.voted_for)
        self._kept_members = dict(self.members)
        self._kept_snapshot = self.durable.snapshot
        self._kept_log = self._entries()

    async def keep(self) -> None:
        """Write what has changed, however long the store does not answer."""
        await self._keep(_STATE, self._state(), ())
        durable, kept = self.durable, self._kept_log
        last = durable.log[-1] if durable.log else None
        # Where the last entries are the same, so are those before: nothing is ever changed inside the log.
        if (durable.snapshot, len(kept), kept.get(durable.last)) == (self._kept_snapshot, len(durable.log), last):
            return
        now = self._entries()
        put = {_name(index): orjson.dumps(tuple(entry)) for index, entry in now.items() if kept.get(index) is not entry}
        if durable.snapshot is not self._kept_snapshot:
            put[_SNAPSHOT] = orjson.dumps((durable.base, durable.base_term, *durable.snapshot))
        await self._keep(_LOG, put, [_name(index) for index in kept if index not in now])
        self._kept_log, self._kept_snapshot = now, durable.snapshot

    def _entries(self) -> dict[int, LogEntry]:
        """The log by number."""
        return dict(enumerate(self.durable.log, self.durable.base + 1))

    def _state(self) -> dict[str, bytes]:
        put = {}
        vote = (self.durable.term, self.durable.voted_for)
        if vote != self._kept_vote:
            put["vote"], self._kept_vote = orjson.dumps(vote), vote
        if self.members != self._kept_members:
            put["members"], self._kept_members = orjson.dumps(self.members), dict(self.members)
        return put

    async def _keep(self, kind: str, put: Mapping[str, bytes], gone: Iterable[str]) -> None:
        await keep(self._records.save, kind, put, gone)


async def keep(
    save: Callable[[str, Mapping[str, bytes], Iterable[str]], Awaitable[None]],
    kind: str,
    put: Mapping[str, bytes],
    gone: Iterable[str],
) -> None:
    """Save, however long the store does not answer."""
    if not put and not gone:
        return
    waited = False
    while True:
        try:
            await save(kind, put, gone)
        except StoreUnavailable as error:
            logger.log(logging.DEBUG if waited else logging.WARNING, "the registry waits for the store: %s", error)
            waited = True
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return


def _name(index: int) -> str:
    # The first entry has number 1, and stands under 0.
    return f"{index - 1:012d}"
