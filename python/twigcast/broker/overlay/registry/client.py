"""Requests to the registry: sent to one holder after the other, until the leader has carried them out."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twigcast.broker.errors import BrokerError
from twigcast.broker.overlay.registry.codec import Command, LeaderHint, RegistryReply, RegistryRequest, read, write
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import SourceEntry
from twigcast.overlay.onyx.registry.description import Description

PATIENCE_SECONDS: Final = 10.0
"""Longest time for one request."""
_ANSWER_SECONDS: Final = 1.5
"""Longest time for the answer of one holder."""
_PAUSE_SECONDS: Final = 0.2


class NoRegistry(BrokerError):
    """The registry is unavailable: too few of its holders can be reached. A request may still be carried out."""

    code = "no-registry"
    status = 503


class NoAnswer(NoRegistry):
    """A request to the registry got no answer in time."""


@dataclass(frozen=True, slots=True)
class LocalBroker:
    """The own broker, as the parts of the registry use it."""

    name: str
    identity: Address
    brokers: Callable[[], Mapping[Address, Description]]
    """Returns the brokers that can be reached, with this one."""
    send: Callable[[Address, bytes], None]
    """Sends a message to the service of a broker, which may be this one."""
    on_source: Callable[[SourceEntry], None]
    """Receives new and changed entries of the catalogue."""
    report_fault: Callable[[str, str, str], None]
    """Reports a fault by kind, broker and reason."""


class RegistryClient:
    """The client of the registry at one broker; lives in the overlay's thread.

    Args:
        here: The broker.
        holders: Returns the names of the holders of the registry.
    """

    def __init__(self, here: LocalBroker, holders: Callable[[], tuple[str, ...]]) -> None:
        self._here = here
        self._holders = holders
        self._leader: str | None = None
        self._waiting: dict[str, asyncio.Future[RegistryReply | LeaderHint]] = {}
        self._requests = itertools.count()
        self._started = time.time_ns()

    def on_answer(self, answer: RegistryReply | LeaderHint) -> None:
        """Takes the answer of a holder."""
        waiting = self._waiting.get(answer.request)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def ask(self, command: Command, *, is_question: bool = False) -> Any:
        """Sends a command to the holders, and returns the reply.

        Args:
            command: The command.
            is_question: Whether it changes nothing.

        Raises:
            NoRegistry: No holder answers in time, or there is none.
        """
        if not self._holders():
            raise NoRegistry("no broker of this overlay holds its registry: name some with 'overlay_registry'")
        request = RegistryRequest(
            f"{self._here.identity}.{self._started}.{next(self._requests)}", write(command).decode(), is_question
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return read(await self._reply(request))
        except TimeoutError:
            names = ", ".join(self._holders())
            raise NoAnswer(
                f"the registry does not answer: of the brokers that hold it ({names}), too few can be reached; what "
                "was asked may still be carried out"
            ) from None

    async def _reply(self, request: RegistryRequest) -> str:
        for turn in itertools.count():
            name = self._next(turn)
            answer = None if name is None else await self._ask_one(name, request)
            if isinstance(answer, RegistryReply):
                self._leader = name
                return answer.reply
            self._leader = answer.leader if answer is not None else None
            await asyncio.sleep(0 if self._leader not in (None, name) else _PAUSE_SECONDS)
        raise AssertionError

    def _next(self, turn: int) -> str | None:
        """Returns the holder to ask: the leader if it is known, otherwise each in turn."""
        reached = {one.name for one in self._here.brokers().values()}
        if self._leader in reached:
            return self._leader
        names = [name for name in self._holders() if name in reached]
        return names[turn % len(names)] if names else None

    async def _ask_one(self, name: str, request: RegistryRequest) -> RegistryReply | LeaderHint | None:
        address = next((identity for identity, one in self._here.brokers().items() if one.name == name), None)
        if address is None:
            return None
        waiting: asyncio.Future[RegistryReply | LeaderHint] = asyncio.get_running_loop().create_future()
        self._waiting[request.request] = waiting
        try:
            self._here.send(address, write(request))
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await waiting
        except TimeoutError:
            return None
        finally:
            del self._waiting[request.request]
