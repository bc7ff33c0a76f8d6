"""Threads that tenants share fairly.

Work is done in steps that cannot be interrupted and should be short. Tenants have their steps by turns, one at a time
each, so that the steps of one tenant keep their order and never take more than one thread. A tenant whose steps take
long leaves at least one thread to those whose steps are short.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeVar

T = TypeVar("T")

Step = Callable[[], bool]
"""A step of work. Returns whether there is another one to be done, when it is the tenant's turn again."""

logger = logging.getLogger(__name__)

LONG_SECONDS: Final = 0.02
"""A tenant's steps are long if the last one took more processor time than this."""


class TenantThreads:
    """Some threads for the steps of all tenants."""

    def __init__(self, count: int, name: str) -> None:
        self._waiting: dict[int, deque[Step]] = {}
        """The steps of each tenant that has some, in order."""
        self._turns: deque[int] = deque()
        """Tenants with steps of which none is running, in the order of their turns."""
        self._running: set[int] = set()
        self._long: set[int] = set()
        """Tenants whose last step was long."""
        self._long_max = max(1, count - 1)
        self._long_running = 0
        self._lock = threading.Lock()
        self._calls: SimpleQueue[bool] = SimpleQueue()
        """Calls to threads without work to look for some; each thread ends at a false one."""
        self._names = [f"{name}-{number}" for number in range(count)]
        self._threads: list[threading.Thread] = []

    def submit(self, tenant_id: int, step: Step) -> None:
        """Has a step done, after those of the same tenant. Can be called from any thread; the step must not raise."""
        with self._lock:
            if not self._threads:
                self._start()
            waiting = self._waiting.get(tenant_id)
            if waiting is not None:
                waiting.append(step)
                return
            self._waiting[tenant_id] = deque([step])
            if tenant_id in self._running:
                return
            self._turns.append(tenant_id)
        self._calls.put(True)

    async def run(self, tenant_id: int, work: Callable[[], T]) -> T:
        """Returns the result of work that is one step."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def settle(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def step() -> bool:
            if future.cancelled():
                return False
            try:
                result = context.run(work)
            except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
                loop.call_soon_threadsafe(settle, None, error)
            else:
                loop.call_soon_threadsafe(settle, result, None)
            return False

        self.submit(tenant_id, step)
        return await future

    def _start(self) -> None:
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for name in self._names]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends the threads once all steps are done; blocks."""
        for _ in self._threads:
            self._calls.put(False)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            # A thread without work is called; one that has some looks for more itself.
            goes_on = self._calls.get()
            while (picked := self._next()) is not None:
                self._do(*picked)

    def _do(self, tenant_id: int, step: Step, was_long: bool) -> None:
        # Not by the clock: a thread that waits for a disk or a processor takes nothing from others.
        begun = time.thread_time()
        goes_on = False
        try:
            goes_on = step()
        except Exception:
            logger.exception("a step of tenant %d has failed", tenant_id)
        seconds = time.thread_time() - begun
        with self._lock:
            self._running.discard(tenant_id)
            self._long_running -= was_long
            if seconds > LONG_SECONDS:
                self._long.add(tenant_id)
            else:
                self._long.discard(tenant_id)
            if goes_on:
                self._waiting.setdefault(tenant_id, deque()).append(step)
            if tenant_id in self._waiting:
                self._turns.append(tenant_id)
            # This thread takes one of the turns.
            are_more = was_long and len(self._turns) > 1
        if are_more:
            self._calls.put(True)

    def _next(self) -> tuple[int, Step, bool] | None:
        """Returns the next step with its tenant and whether it may take long; ``None`` if none may run now."""
        with self._lock:
            for position, tenant_id in enumerate(self._turns):
                is_long = tenant_id in self._long
                if is_long and self._long_running >= self._long_max:
                    continue
                del self._turns[position]
                waiting = self._waiting[tenant_id]
                step = waiting.popleft()
                if not waiting:
                    del self._waiting[tenant_id]
                self._running.add(tenant_id)
                self._long_running += is_long
                return tenant_id, step, is_long
        return None
