"""What ends by itself: messages, by age and size."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from twigcast.broker.errors import BrokerError
from twigcast.broker.hub.metrics import Metrics
from twigcast.broker.hub.options import HubOptions
from twigcast.broker.store.interface import Transaction

logger = logging.getLogger(__name__)

EXPIRED_AT_ONCE: Final = 500
"""Messages removed in one commit, between which publishing goes on."""


class Retention:
    """Removes what is over, every so often.

    Args:
        change: Runs a change in the writing thread.
        options: Bounds.
        metrics: Counters.
    """

    def __init__(
        self,
        change: Callable[[Callable[[Transaction], int]], Awaitable[int]],
        options: HubOptions,
        metrics: Metrics,
    ) -> None:
        self._change = change
        self._options = options
        self._metrics = metrics

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(self._options.upkeep_seconds)
            try:
                await self.once()
            except BrokerError as error:
                logger.warning("retention is put off: %s", error)

    async def once(self) -> None:
        """Remove what is over now."""
        if self._options.retention_seconds is None and self._options.retention_bytes is None:
            return
        while gone := await self._change(self._expire):
            self._metrics.expired += gone

    def _expire(self, transaction: Transaction) -> int:
        options, now = self._options, time.time()
        before = None if options.retention_seconds is None else now - options.retention_seconds
        return transaction.expire(before=before, bytes_max=options.retention_bytes, limit=EXPIRED_AT_ONCE, at=now)
