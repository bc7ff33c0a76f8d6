"""Retention: the removal of messages by age and size."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from twigcast.broker.errors import BrokerError
from twigcast.broker.metrics import Metrics
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import Transaction

logger = logging.getLogger(__name__)

EXPIRED_AT_ONCE: Final = 500
"""Number of messages removed in one commit; publications go on in between."""


@dataclass(eq=False)
class Retention:
    """Removes what is over, every so often, by changes that run in the writing thread."""

    _change: Callable[[Callable[[Transaction], int]], Awaitable[int]]
    _options: HubOptions
    _metrics: Metrics
    retained_above: Callable[[], int | None] = field(init=False, default_factory=lambda: lambda: None)
    """Returns the sequence number above which messages are kept longer, for brokers that may request them."""
    kept_times: float = field(init=False, default=1.0)
    """Factor of the age and size up to which these are kept."""

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(self._options.upkeep_seconds)
            try:
                await self.once()
            except BrokerError as error:
                logger.warning("retention is postponed: %s", error)

    async def once(self) -> None:
        """Removes what has expired now."""
        if self._options.retention_seconds is None and self._options.retention_bytes is None:
            return
        while gone := await self._change(self._expire):
            self._metrics.expired += gone

    def _expire(self, transaction: Transaction) -> int:
        last = self.retained_above()
        gone = self._expire_up_to(transaction, last, 1.0)
        return gone if last is None else gone + self._expire_up_to(transaction, None, self.kept_times)

    def _expire_up_to(self, transaction: Transaction, last: int | None, times: float) -> int:
        options, now = self._options, time.time()
        before = None if options.retention_seconds is None else now - times * options.retention_seconds
        bytes_max = None if options.retention_bytes is None else round(times * options.retention_bytes)
        return transaction.expire(before=before, bytes_max=bytes_max, limit=EXPIRED_AT_ONCE, at=now, up_to=last)
