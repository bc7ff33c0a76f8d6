"""The registration service as one broker takes part in it: as a client, perhaps as one of those that hold it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twigcast.broker.overlay.registry.client import RegistryClient
from twigcast.broker.overlay.registry.codec import Command, LeaderHint, RegistryReply, RegistryRequest, TextError, read
from twigcast.broker.overlay.registry.ledger import Ledger
from twigcast.broker.overlay.registry.replica import RegistryReplica
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import SourceEntry
from twigcast.overlay.onyx.registry.catalogue import Placement, Registry
from twigcast.overlay.onyx.registry.description import Description

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class RegistryReport:
    """How the registry looks from here."""

    holders: tuple[str, ...]
    """Names of the brokers that hold it; empty: none does."""
    role: str | None
    """`leader`, `follower` or `candidate`; ``None``: this broker does not hold it."""
    leader: str | None
    """As far as this broker knows."""
    entries: int
    """Of the log that this broker holds."""


@dataclass(frozen=True, slots=True)
class LocalBroker:
    """This broker, as the registrar needs it."""

    name: str
    identity: Address
    brokers: Callable[[], Mapping[Address, Description]]
    """Those that can be reached now, this one among them."""
    say: Callable[[Address, bytes], None]
    """Says something to a broker's service."""
    learned: Callable[[SourceEntry], None]
    """Told of sources."""
    trouble: Callable[[str, str, str], None]
    """Told, by kind and broker, what a person should know."""


class Registrar:
    """Lives in the overlay's thread.

    Args:
        here: The broker.
        configured: Names of the holders, where its settings name them.
        ledger: What it has kept as a holder; ``None``: it is none.
        placement: How hosts of profiles are chosen.
    """

    def __init__(
        self, here: LocalBroker, configured: tuple[str, ...], ledger: Ledger | None, placement: Placement
    ) -> None:
        self._here = here
        self._configured = configured
        self._asking = RegistryClient(here.identity, self.holders, here.brokers, self._say)
        self._last_holders: tuple[str, ...] = ()
        self._differing: set[tuple[str, ...]] = set()
        self._loop = asyncio.get_running_loop()
        self._holder: RegistryReplica | None = None
        if ledger is not None:
            self._holder = RegistryReplica(
                here.name,
                here.identity,
                configured,
                ledger,
                Registry(placement),
                brokers=here.brokers,
                say=self._say,
                learned=here.learned,
                trouble=here.trouble,
            )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._maintain())
            if self._holder is not None:
                group.create_task(self._holder.run())

    async def ask(self, command: Command, *, is_question: bool = False) -> Any:
        """Have the holders do something.

        Raises:
            NoRegistry: None of them answers in time, or there are none.
        """
        return await self._asking.ask(command, is_question=is_question)

    def on_message(self, origin: Address, content: bytes) -> None:
        """The service of a broker says something."""
        try:
            said = read(content)
        except TextError as error:
            logger.warning("what broker %d says of the registry is passed over: %s", origin, error)
            return
        if isinstance(said, RegistryReply | LeaderHint):
            self._asking.answered(said)
        elif self._holder is not None:
            if isinstance(said, RegistryRequest):
                self._holder.asked(origin, said)
            else:
                self._holder.on_message(origin, said)

    def holders(self) -> tuple[str, ...]:
        """Names of the brokers that hold the registry, as far as is known."""
        if self._configured:
            return self._configured
        # Where none of them can be reached just now, it is those that were named before.
        self._last_holders = min(self._named(), default=self._last_holders)
        return self._last_holders

    def report(self) -> RegistryReport:
        """How it looks from here."""
        holder = self._holder
        if holder is None:
            return RegistryReport(self.holders(), None, None, 0)
        return RegistryReport(self.holders(), holder.role, holder.leader, holder.entries)

    def _named(self) -> set[tuple[str, ...]]:
        """What those say that name themselves among the holders."""
        return {one.holders for one in self._here.brokers().values() if one.name in one.holders}

    def _say(self, target: Address, content: bytes) -> None:
        if target == self._here.identity:
            self._loop.call_soon(self.on_message, target, content)
        else:
            self._here.say(target, content)

    async def _maintain(self) -> None:
        """See to it that brokers are known to the registry, and that all name the same holders."""
        while True:
            if self._holder is not None:
                self._holder.offer_brokers()
            named = self._named() | ({self._configured} if self._configured else set())
            for names in named - self._differing if len(named) > 1 else ():
                self._differing.add(names)
                self._here.trouble(
                    "registry",
                    self._here.name,
                    f"brokers do not agree on who holds the registry: {', '.join(names)} are named by some, others by "
                    "others; give 'overlay_registry' the same value on all of them",
                )
            await asyncio.sleep(_LOOK_SECONDS)
