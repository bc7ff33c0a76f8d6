"""An event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


class LoopThread:
    """Runs coroutines and functions beside the main event loop.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; blocks until it has."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function there, some time soon. From any thread; nothing happens once the loop has ended."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function, *arguments)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and wait here for its result."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    async def ask(self, function: Callable[[], T]) -> T:
        """Call a function there, and wait here for its result."""

        async def answer() -> T:
            return function()

        return await self.run(answer())

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
