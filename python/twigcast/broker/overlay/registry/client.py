"""How a broker asks the holders of the registry: one after the other, until one that leads has done it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from twigcast.broker.errors import BrokerError
from twigcast.broker.overlay.registry.codec import Command, LeaderHint, RegistryReply, RegistryRequest, read, write
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.registry.description import Description

PATIENCE_SECONDS: Final = 10.0
"""How long is asked in all."""
_ANSWER_SECONDS: Final = 1.5
"""How long one holder may take."""
_PAUSE_SECONDS: Final = 0.2


class NoRegistry(BrokerError):
    """No broker that holds the registry can be reached, or too few of them to agree. What was asked may happen yet."""

    code = "no-registry"
    status = 503


class NoAnswer(NoRegistry):
    """They were asked, and have not answered."""


class RegistryClient:
    """Asks for one broker. Lives in the overlay's thread.

    Args:
        identity: Its number.
        holders: Names of those that hold the registry, as they are known now.
        brokers: Those that can be reached now.
        say: Says something to a broker.
    """

    def __init__(
        self,
        identity: Address,
        holders: Callable[[], tuple[str, ...]],
        brokers: Callable[[], Mapping[Address, Description]],
        say: Callable[[Address, bytes], None],
    ) -> None:
        self._identity = identity
        self._holders = holders
        self._brokers = brokers
        self._say = say
        self._leader: str | None = None
        self._waiting: dict[str, asyncio.Future[RegistryReply | LeaderHint]] = {}
        self._requests = itertools.count()
        self._started = time.time_ns()

    def answered(self, answer: RegistryReply | LeaderHint) -> None:
        """A holder answers."""
        waiting = self._waiting.get(answer.request)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def ask(self, command: Command, *, is_question: bool = False) -> Any:
        """Have the holders do something.

        Args:
            command: What.
            is_question: It changes nothing.

        Returns:
            Their reply.

        Raises:
            NoRegistry: None of them answers in time, or there are none.
        """
        if not self._holders():
            raise NoRegistry("no broker of this overlay holds its registry: name some with 'overlay_registry'")
        ask = RegistryRequest(
            f"{self._identity}.{self._started}.{next(self._requests)}", write(command).decode(), is_question
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return read(await self._reply(ask))
        except TimeoutError:
            names = ", ".join(self._holders())
            raise NoAnswer(
                f"the registry does not answer: of the brokers that hold it ({names}), too few can be reached; what "
                "was asked may still be carried out"
            ) from None

    async def _reply(self, ask: RegistryRequest) -> str:
        for turn in itertools.count():
            name = self._next(turn)
            answer = None if name is None else await self._ask_one(name, ask)
            if isinstance(answer, RegistryReply):
                self._leader = name
                return answer.reply
            self._leader = answer.leader if answer is not None else None
            await asyncio.sleep(0 if self._leader not in (None, name) else _PAUSE_SECONDS)
        raise AssertionError

    def _next(self, turn: int) -> str | None:
        """The holder to be asked now: the one that is said to lead, otherwise each in turn."""
        reached = {one.name for one in self._brokers().values()}
        if self._leader in reached:
            return self._leader
        names = [name for name in self._holders() if name in reached]
        return names[turn % len(names)] if names else None

    async def _ask_one(self, name: str, ask: RegistryRequest) -> RegistryReply | LeaderHint | None:
        address = next((identity for identity, one in self._brokers().items() if one.name == name), None)
        if address is None:
            return None
        waiting: asyncio.Future[RegistryReply | LeaderHint] = asyncio.get_running_loop().create_future()
        self._waiting[ask.request] = waiting
        try:
            self._say(address, write(ask))
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await waiting
        except TimeoutError:
            return None
        finally:
            del self._waiting[ask.request]
