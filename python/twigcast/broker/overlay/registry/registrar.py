"""The part of one broker in the registry: as a client, and as a holder if it is one."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final

from twigcast.broker.overlay.registry.client import LocalBroker, RegistryClient
from twigcast.broker.overlay.registry.codec import Command, LeaderHint, RegistryReply, RegistryRequest, TextError, read
from twigcast.broker.overlay.registry.ledger import Ledger
from twigcast.broker.overlay.registry.replica import RegistryReplica
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.registry.catalogue import Placement, Registry

logger = logging.getLogger(__name__)

_UPKEEP_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class RegistryReport:
    """The state of the registry, as seen by one broker."""

    holders: tuple[str, ...]
    """Names of the holders; empty: there is no registry."""
    role: str | None
    """`leader`, `follower` or `candidate`; ``None``: this broker is no holder."""
    leader: str | None
    """Name of the leader, if it is known."""
    entries: int
    """Entries of the log that this broker has carried out."""


class Registrar:
    """The client and, at a holder, the replica of one broker; lives in the overlay's thread.

    Args:
        here: The broker.
        configured: Names of the holders, if the settings of the broker name them.
        ledger: The persistent state of a holder; ``None``: the broker is no holder.
        placement: The criterion for hosts of profiles.
    """

    def __init__(
        self, here: LocalBroker, configured: tuple[str, ...], ledger: Ledger | None, placement: Placement
    ) -> None:
        self._here = here
        self._configured = configured
        self._client = RegistryClient(here, self.holders)
        self._last_holders: tuple[str, ...] = ()
        self._differing: set[tuple[str, ...]] = set()
        self._replica = None if ledger is None else RegistryReplica(here, configured, ledger, Registry(placement))

    async def run(self) -> None:
        """Runs the registrar until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._maintain())
            if self._replica is not None:
                group.create_task(self._replica.run())

    async def ask(self, command: Command, *, is_question: bool = False) -> Any:
        """Sends a command to the holders, and returns the reply.

        Raises:
            NoRegistry: No holder answers in time, or there is none.
        """
        return await self._client.ask(command, is_question=is_question)

    def on_message(self, origin: Address, content: bytes) -> None:
        """Takes a message of the service of a broker."""
        try:
            message = read(content)
        except TextError as error:
            logger.warning("a message of broker %d on the registry is ignored: %s", origin, error)
            return
        if isinstance(message, RegistryReply | LeaderHint):
            self._client.on_answer(message)
        elif self._replica is not None:
            if isinstance(message, RegistryRequest):
                self._replica.on_request(origin, message)
            else:
                self._replica.on_message(origin, message)

    def holders(self) -> tuple[str, ...]:
        """Returns the names of the holders of the registry, as far as they are known."""
        if self._configured:
            return self._configured
        # While no holder can be reached, the names of before are kept.
        self._last_holders = min(self._named(), default=self._last_holders)
        return self._last_holders

    def report(self) -> RegistryReport:
        """Returns the state of the registry, as seen by this broker."""
        replica = self._replica
        if replica is None:
            return RegistryReport(self.holders(), None, None, 0)
        return RegistryReport(self.holders(), replica.role, replica.leader, replica.entries)

    def _named(self) -> set[tuple[str, ...]]:
        """Returns the sets of holders that brokers name which count themselves among them."""
        return {one.holders for one in self._here.brokers().values() if one.name in one.holders}

    async def _maintain(self) -> None:
        """Registers brokers, and reports if they do not name the same holders."""
        while True:
            if self._replica is not None:
                self._replica.offer_brokers()
            named = self._named() | ({self._configured} if self._configured else set())
            for names in named - self._differing if len(named) > 1 else ():
                self._differing.add(names)
                self._here.report_fault(
                    "registry",
                    self._here.name,
                    f"brokers do not agree on who holds the registry: {', '.join(names)} are named by some, others by "
                    "others; give 'overlay_registry' the same value on all of them",
                )
            await asyncio.sleep(_UPKEEP_SECONDS)
