"""An event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


class LoopThread:
    """A thread with an event loop, beside the main one."""

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread, and blocks until it has ended."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Schedules a call in the loop. Called in any thread; does nothing once the loop is closed."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function, *arguments)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the loop, and waits for its result in the current one."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    async def ask(self, function: Callable[[], T]) -> T:
        """Calls a function in the loop, and waits for its result in the current one."""

        async def answer() -> T:
            return function()

        return await self.run(answer())

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
