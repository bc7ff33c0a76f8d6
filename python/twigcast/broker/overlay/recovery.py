"""Resending: messages of this broker that others request again, read from the store in pieces."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from twigcast.broker.errors import StoreUnavailable
from twigcast.broker.model import StoredMessage
from twigcast.broker.overlay.broker_node import BrokerNode
from twigcast.broker.overlay.reports import TrafficTotals
from twigcast.broker.store.store import Store
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import OverlayMessage, Recover, Recovered, Root, Span
from twigcast.overlay.onyx.network.driver import Driver
from twigcast.overlay.onyx.protocol.recovery import backwards

logger = logging.getLogger(__name__)

MESSAGES_AT_ONCE: Final = 100
BYTES_AT_ONCE: Final = 1 << 20
"""Most that is read at a time."""

PORTION_BYTES: Final = 1 << 20
"""Size of a portion, after which the answer pauses until the asker has received it. A broker may request several gaps
at a time, and several brokers over one link, which is closed when many times more waits for it."""

CONTENT_TYPE: Final = "application/xml; charset=utf-8"
"""Of all stored messages: the hub converts them."""

_CAPACITY_SECONDS: Final = 0.02


def as_message(root: Root, stored: StoredMessage, tenants: Mapping[int, str]) -> OverlayMessage | None:
    """Returns a stored message as it is sent to other brokers, or `None` if its tenant is gone."""
    scope = tenants.get(stored.tenant_id)
    if scope is None:
        return None
    body, received = stored.with_ids, stored.received
    return OverlayMessage(
        root, stored.seq, scope, stored.source, stored.message_id, CONTENT_TYPE, body, published=received
    )


@dataclass(eq=False)
class Resender:
    """Answers the questions of other brokers, in the overlay's thread. ``tenants`` returns their names by number."""

    _node: BrokerNode
    _driver: Driver
    _store: Store
    _tenants: Callable[[], Mapping[int, str]]
    _name_of: Callable[[Address], str]
    _totals: TrafficTotals

    async def answer(self, question: Recover) -> None:
        """Sends what a question asks for, no faster than the next broker of the route takes it."""
        root, position, route = self._driver.identity, question.after, backwards(question)
        self._totals.recoveries += 1
        try:
            forgotten = min(await asyncio.to_thread(self._store.forgotten), question.upto)
            if forgotten > position:
                self._send_lost(question, forgotten)
                position = forgotten
            sent = 0
            async for upto, messages in self._read(question, position):
                await self._send_messages(route, position, upto, messages)
                position = upto
                sent += sum(len(message.body) for message in messages)
                if sent >= PORTION_BYTES and position < question.upto:
                    self._send(Recovered(Span(root, position, position, None), route, pauses=True))
                    break
        except StoreUnavailable as error:
            # The question will be repeated.
            logger.warning("what broker %s requests cannot be read: %s", self._name_of(question.route[0]), error)

    async def _read(self, question: Recover, after: int) -> AsyncIterator[tuple[int, list[OverlayMessage]]]:
        """Yields pieces: up to which number, and the messages that the query wants. Reads and matches in threads."""
        matches = await asyncio.to_thread(partial(self._node.matcher, question.query))
        root = self._driver.identity

        def piece(start: int) -> tuple[int, list[OverlayMessage]]:
            results = self._store.own_messages(
                after=start, up_to=question.upto, limit=MESSAGES_AT_ONCE, bytes_max=BYTES_AT_ONCE
            )
            names = self._tenants()
            messages = [message for stored in results if (message := as_message(root, stored, names)) is not None]
            wanted = [message._replace(path=(root,)) for message in messages if matches(message)]
            return (results[-1].seq if results else question.upto), wanted

        while after < question.upto:
            after, wanted = await asyncio.to_thread(piece, after)
            yield after, wanted

    def _send_lost(self, question: Recover, forgotten: int) -> None:
        self._totals.lost += 1
        logger.error(
            "broker %s requests messages %d to %d of this one, which retention has removed",
            self._name_of(question.route[0]),
            question.after + 1,
            forgotten,
        )
        span = Span(self._driver.identity, question.after, forgotten, None)
        self._send(Recovered(span, backwards(question), lost=True))

    async def _send_messages(
        self, route: tuple[Address, ...], after: int, upto: int, messages: Sequence[OverlayMessage]
    ) -> None:
        root = self._driver.identity
        for message in messages:
            # Sending on to a full queue would close the link, again and again.
            while route and not self._driver.has_capacity_for(route[0]):
                await asyncio.sleep(_CAPACITY_SECONDS)
            self._totals.recovered += 1
            self._send(Recovered(Span(root, after, message.number, message), route))
            after = message.number
        if after < upto:
            self._send(Recovered(Span(root, after, upto, None), route))

    def _send(self, answer: Recovered) -> None:
        self._driver.act(self._node.answer(answer, time.monotonic()))
