"""Work that a broker does every so often, and later if it cannot be done now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from twigcast.broker.errors import BrokerError


async def every(seconds: float, once: Callable[[], Awaitable[None]], logger: logging.Logger, postponed: str) -> None:
    """Does a piece of work every so many seconds, until cancelled.

    If the broker cannot do it now, the text ``postponed`` is logged with the reason.
    """
    while True:
        await asyncio.sleep(seconds)
        try:
            await once()
        except BrokerError as error:
            logger.warning("%s: %s", postponed, error)
