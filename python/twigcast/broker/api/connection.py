"""Sending over a connection without a task for each message.

ASGI's ``send`` is a coroutine, but it waits only while the connection is full. So it is started at once, in any
context, and mostly finishes at once. If it waits, a task finishes it, and until then the connection is *busy*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from starlette.types import Message, Send

OUTERMOST: Final = "twigcast.send"
"""Key of a scope that holds the server's own ``send``. After the first write the middleware around it adds nothing."""


class Connection:
    """A connection that sends one message after the other.

    Args:
        send: The ``send`` of ASGI.
        failed: Called when a message could not be sent; see :attr:`error`.
    """

    def __init__(self, send: Send, failed: Callable[[], None]) -> None:
        self._send = send
        self._failed = failed
        self._rest: asyncio.Task[None] | None = None
        self.error: BaseException | None = None
        """The error of a failed message."""

    @property
    def busy(self) -> bool:
        """Returns whether a message waits for the connection."""
        return self._rest is not None

    def begin(self, message: Message, sent: Callable[[], None] = lambda: None) -> None:
        """Sends a message, in a task if the connection is full; must not be called while it is busy.

        It raises nothing: an error concerns this connection, and the caller may have others to serve.

        Args:
            message: The message.
            sent: Called when it is sent, now or later; never if that fails or is cancelled.
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
        """Sends a message after the one that waits, and returns when it is sent. Raises what sending raises."""
        while self._rest is not None:
            await asyncio.wait([self._rest])
        if self.error is None:
            self.begin(message)
        if self._rest is not None:
            await asyncio.wait([self._rest])
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Cancels the message that waits."""
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
    """The rest of an awaitable that was started outside of a task."""

    def __init__(self, steps: Generator[Any, Any, None], waits_for: Any) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        try:
            yield self._waits_for
        except BaseException as error:
            # Such as the cancellation of the task: the awaitable inside has to see it.
            self._steps.throw(error)
            raise
        yield from self._steps


async def _finish(rest: _Rest) -> None:
    await rest
