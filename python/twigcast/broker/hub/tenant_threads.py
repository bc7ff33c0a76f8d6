"""Threads that tenants share fairly.

Work is done in steps that cannot be interrupted and should be short. Tenants have their steps by turns, one at a time
each, so that the steps of one tenant keep their order and never take more than one thread. Tenants whose steps take
long have threads of their own, which leave the processor to those whose steps are short, and to the event loop. A step
can say what counts of it: of several messages that were waiting each counts by itself, and what is done for others does
not.
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

from twigcast._core import yielded_seconds

T = TypeVar("T")

Step = Callable[[], bool]
"""A step of work. Returns whether there is another one to be done, when it is the tenant's turn again."""

logger = logging.getLogger(__name__)

LONG_SECONDS: Final = 0.002
"""A tenant's steps are long if a recent one took more processor time than this, as far as that counts."""

LONG_FOR_SECONDS: Final = 1.0
"""How long a tenant's steps count as long after one that was. Cheap messages between costly ones change nothing."""


class TenantThreads:
    """Some threads for the steps of all tenants; of two or more, all but one have a double for long steps."""

    def __init__(self, count: int, name: str) -> None:
        self._waiting: dict[int, deque[Step]] = {}
        """The steps of each tenant that has some, in order."""
        self._turns: deque[int] = deque()
        """Tenants with steps of which none is running, in the order of their turns."""
        self._running: set[int] = set()
        self._long_until: dict[int, float] = {}
        """Tenants whose steps are long, each with the time until which they count as long."""
        self._lock = threading.Lock()
        self._calls: tuple[SimpleQueue[bool], SimpleQueue[bool]] = (SimpleQueue(), SimpleQueue())
        """Calls to threads without work to look for some: for short steps, and for long ones. Each thread ends at a
        false one."""
        self._names = [f"{name}-{number}" for number in range(count)]
        self._long_names = [f"{name}-long-{number}" for number in range(count - 1)]
        self._threads: list[threading.Thread] = []
        self._is_stopping = False
        """Whether the threads end. Then no tenant changes from one kind to the other, whose threads may have ended."""
        self._here = threading.local()

    def count(self, seconds: float) -> None:
        """Says how much counts of the step that runs in this thread; else that is all its processor time."""
        self._here.counted = seconds

    @property
    def is_yielding(self) -> bool:
        """Returns whether this is a thread for long steps, in which nothing should be done that others wait for.

        What can be done without the interpreter is done by a thread with less of a processor. This one itself has as
        much as all others: they would wait for one that has to wait for a processor while it holds the interpreter.
        """
        return getattr(self._here, "is_long", False)

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
            is_long = self._is_long(tenant_id)
        self._calls[is_long].put(True)

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
        for is_long, names in enumerate((self._names, self._long_names)):
            self._threads += [
                threading.Thread(target=self._run, args=(bool(is_long),), name=name, daemon=True) for name in names
            ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends the threads once all steps are done; blocks."""
        with self._lock:
            self._is_stopping = True
        for calls, names in zip(self._calls, (self._names, self._long_names), strict=True):
            for _ in names:
                calls.put(False)
        for thread in self._threads:
            thread.join()

    def _is_long(self, tenant_id: int) -> bool:
        return tenant_id in self._long_until

    def _run(self, is_long: bool) -> None:
        self._here.is_long = is_long
        calls = self._calls[is_long]
        goes_on = True
        while goes_on:
            # A thread without work is called; one that has some looks for more itself.
            goes_on = calls.get()
            while (picked := self._next(is_long)) is not None:
                self._do(*picked, is_long)

    def _do(self, tenant_id: int, step: Step, in_long: bool) -> None:
        # Not by the clock: a thread that waits for a disk or a processor takes nothing from others.
        begun = processor_seconds()
        self._here.counted = None
        goes_on = False
        try:
            goes_on = step()
        except Exception:
            logger.exception("a step of tenant %d has failed", tenant_id)
        counted, now = self._here.counted, time.monotonic()
        seconds = processor_seconds() - begun if counted is None else counted
        with self._lock:
            self._running.discard(tenant_id)
            if self._long_names and not self._is_stopping:
                self._note(tenant_id, seconds, now)
            if goes_on:
                self._waiting.setdefault(tenant_id, deque()).append(step)
            has_turn = tenant_id in self._waiting
            if has_turn:
                self._turns.append(tenant_id)
            is_long = self._is_long(tenant_id)
        # This thread takes one of the turns that are for it.
        if has_turn and is_long != in_long:
            self._calls[is_long].put(True)

    def _note(self, tenant_id: int, seconds: float, now: float) -> None:
        """Notes what a step has taken."""
        if seconds > LONG_SECONDS:
            self._long_until[tenant_id] = now + LONG_FOR_SECONDS
        elif self._long_until.get(tenant_id, now) < now:
            del self._long_until[tenant_id]

    def _next(self, is_long: bool) -> tuple[int, Step] | None:
        """Returns the next of the long steps, or of the others, with its tenant; ``None`` if there is none."""
        with self._lock:
            for position, tenant_id in enumerate(self._turns):
                if self._is_long(tenant_id) != is_long:
                    continue
                del self._turns[position]
                waiting = self._waiting[tenant_id]
                step = waiting.popleft()
                if not waiting:
                    del self._waiting[tenant_id]
                self._running.add(tenant_id)
                return tenant_id, step
        return None


def processor_seconds() -> float:
    """Returns the processor time that this thread has used, and others for it."""
    return time.thread_time() + yielded_seconds()
