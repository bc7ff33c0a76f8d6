"""Sending over a connection without a task for each time.

ASGI's ``send`` is a coroutine, but it waits only while the connection is full. So it is begun at once, wherever that
may be, and mostly that is all. What has to wait is finished by a task, and until then the connection is *busy*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from starlette.types import Message, Send

OUTERMOST: Final = "twigcast.send"
"""Where a scope holds the server's own ``send``. Whoever has begun to answer gains nothing from those around it."""


class Connection:
    """Sends one after the other.

    Args:
        send: Of ASGI.
        failed: Told when something that was begun has failed; see :attr:`error`.
    """

    def __init__(self, send: Send, failed: Callable[[], None]) -> None:
        self._send = send
        self._failed = failed
        self._rest: asyncio.Task[None] | None = None
        self.error: BaseException | None = None
        """Why it failed."""

    @property
    def busy(self) -> bool:
        """Whether something that was begun waits for the connection."""
        return self._rest is not None

    def begin(self, message: Message, sent: Callable[[], None] = lambda: None) -> None:
        """Send, finishing later what cannot be sent now; not to be called while it is busy.

        Nothing is raised: an error is that of this connection, and whoever calls may have others to serve.

        Args:
            message: What to send.
            sent: Called when it is sent, now or later; never if that fails or is given up.
        """
        try:
            steps = self._send(message).__await__()
            waits_for = next(steps)
        except StopIteration:
            sent()
            return
        except (OSError, RuntimeError) as error:
            self._fail(error)
            return
        self._rest = asyncio.ensure_future(_finish(_Rest(steps, waits_for)))
        self._rest.add_done_callback(partial(self._finished, sent))

    async def send(self, message: Message) -> None:
        """Send after what was begun before, and wait until it is done. Raises what sending raises."""
        while self._rest is not None:
            await asyncio.wait([self._rest])
        if self.error is None:
            self.begin(message)
        if self._rest is not None:
            await asyncio.wait([self._rest])
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Give up what waits."""
        if self._rest is not None:
            self._rest.cancel()

    def _finished(self, sent: Callable[[], None], rest: asyncio.Task[None]) -> None:
        self._rest = None
        if rest.cancelled():
            return
        error = rest.exception()
        if error is None:
            sent()
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.error = error
        self._failed()


class _Rest:
    """What is left of an awaitable that has been begun outside of a task."""

    def __init__(self, steps: Generator[Any, Any, None], waits_for: Any) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        try:
            yield self._waits_for
        except BaseException as error:
            # Such as the end of the task: it is for whoever waits within.
            self._steps.throw(error)
            raise
        yield from self._steps


async def _finish(rest: _Rest) -> None:
    await rest
