"""Messages of other brokers on their way into the store.

They are matched, and kept if a subscription here matches, like those that are published here; how far each other
broker is known then is stored in the same transaction. So after a crash either both are there or neither, and what is
asked for again is exactly what is missing. What arrives while one commit runs goes into the next: one is under way at a
time, so that a broker is never said to be known further than its messages are stored.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from twigcast.broker.errors import StoreUnavailable
from twigcast.broker.hub.commit import CommitGroup, Operation
from twigcast.broker.hub.population import MatchOutcome, TenantPopulation
from twigcast.broker.hub.publishing import Name, PublishRun, at_indices
from twigcast.broker.model import Accepted, StoredMessage, Submission
from twigcast.broker.store.interface import Origin
from twigcast.errors import MalformedMessage, RejectedMessage, UnknownKey
from twigcast.overlay.onyx.content.projection import Projection, covers, part_of
from twigcast.overlay.onyx.content.projection_text import read_part
from twigcast.overlay.onyx.messages import OverlayMessage
from twigcast.overlay.onyx.wire.bodies import TEXT, Bodies
from twigcast.overlay.onyx.wire.errors import WireError

logger = logging.getLogger(__name__)

MESSAGES_AT_ONCE: Final = 500
BYTES_AT_ONCE: Final = 16 << 20
"""Of one commit."""

WAITING_MESSAGES_MAX: Final = 20_000
WAITING_BYTES_MAX: Final = 64 << 20
"""With more, nothing is read from other brokers until half is stored."""

_RETRY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Foreign(Submission):
    """A message that another broker has accepted."""

    origin: Origin = field(kw_only=True)
    reduced: str = field(default="", kw_only=True)
    """The part of the message that this is (see :mod:`twigcast.overlay.onyx.content.projection_text`); empty: the
    whole."""
    refusal: RejectedMessage | None = field(kw_only=True, default=None)
    """Why its body cannot be read in the form in which it came."""


@dataclass(slots=True)
class ReceiveCounts:
    """What became of messages of others since the start."""

    stored: int = 0
    unwanted: int = 0
    """No subscription here matched: the routing query was wider than the subscriptions."""
    already_stored: int = 0
    """They were stored already."""
    refused: int = 0
    """This broker's engine did not take them; they are among the rejected messages."""
    lost: int = 0
    """They could not be stored, for no reason that lies in the store; told in the log one by one."""


class StoreReceived(Operation):
    """Store messages of others, and how far others are known then.

    Args:
        messages: In the order of their arrival.
        horizons: By broker.
        at: Time, for the horizons.
        future: Told the `ReceiveCounts` of these messages.
        bodies: What reads those that come in other forms than text.
    """

    def __init__(
        self,
        messages: Sequence[OverlayMessage],
        horizons: dict[int, int],
        at: Callable[[], float],
        future: Future[Any],
        bodies: Bodies,
    ) -> None:
        super().__init__(future)
        self._received = messages
        self._horizons = horizons
        self._at = at
        self._bodies = bodies

    def apply(self, group: CommitGroup) -> None:
        """Store what a subscription here matches."""
        numbers = {tenant.name: tenant.id for tenant in group.tenants.values()}
        submissions = [
            submission
            for message in self._received
            if message.scope in numbers
            and (submission := self._submission(message, numbers[message.scope], group)) is not None
        ]
        reception = _Reception(submissions, group)
        reception.counts.unwanted = len(self._received) - len(submissions)
        if submissions:
            reception.run()
        if self._horizons:
            group.transaction.set_horizons(self._horizons, at=self._at())
        self.result = reception.counts

    def _submission(self, message: OverlayMessage, tenant_id: int, group: CommitGroup) -> _Foreign | None:
        """A message as it is stored; `None`: no subscription here matches it, as it says itself without its text."""
        body, refusal = message.body, None
        if message.form != TEXT:
            try:
                opened = self._bodies.opened(message)
                population = group.population.of(tenant_id)
                may_be_unwanted = opened.is_stream and not population.followers
                if may_be_unwanted and not population.matches_stream(opened.body, opened.dictionary):
                    return None
                body = self._bodies.text(message)
            except RejectedMessage as error:
                refusal = error
            except WireError as error:
                refusal = MalformedMessage(1, 1, str(error))
        origin = Origin(message.root, message.number, message.path)
        return _Foreign(
            tenant_id,
            body,
            message.source,
            message.message_id,
            origin=origin,
            reduced=message.reduced,
            refusal=refusal,
        )


class _Reception(PublishRun):
    """Publishing what others have accepted: it is kept only if it is wanted, and not passed on once more."""

    def __init__(self, submissions: Sequence[_Foreign], group: CommitGroup) -> None:
        super().__init__(submissions, group)
        self.counts = ReceiveCounts()
        self._origins: list[tuple[int, Origin]] = []

    def _match(self, existing: Mapping[Name, StoredMessage]) -> tuple[dict[int, bytes], dict[int, MatchOutcome]]:
        bodies, outcomes = super()._match(existing)
        for position, submission in enumerate(self._submissions):
            if isinstance(submission, _Foreign) and submission.refusal is not None:
                outcomes[position] = MatchOutcome(error=submission.refusal)
        return bodies, outcomes

    def _duplicate(self, before: Any) -> Accepted:
        self.counts.already_stored += 1
        return super()._duplicate(before)

    def _reject(self, submission: Submission, error: Any) -> Any:
        self.counts.refused += 1
        return super()._reject(submission, error)

    def _accept(self, submission: Submission, body: bytes, outcome: MatchOutcome) -> Accepted:
        assert isinstance(submission, _Foreign)
        population = self._group.population.of(submission.tenant_id)
        if submission.reduced:
            outcome = _sufficing(outcome, submission.reduced, population)
        # Queries in XQuery look at what is stored: at whole messages, since no part suffices for them.
        is_followed = bool(population.followers) and not submission.reduced
        if not outcome.slots and not outcome.undecided and not is_followed:
            self.counts.unwanted += 1
            return Accepted(0, submission.message_id or "", 0)
        accepted = super()._accept(submission, body, outcome)
        self._origins.append((accepted.seq, submission.origin))
        self.counts.stored += 1
        return accepted

    def _pass_on(self) -> None:
        self._group.transaction.add_origins(self._origins)


class MessageReceiver:
    """Brings what arrives into the store; lives in the overlay's thread.

    Args:
        put: Lets the hub's writing thread carry out an operation.
        hub_loop: The event loop that the hub answers in.
        stored: Told how far others are known in the store.
        reading: Told whether to read from other brokers.
        clock: Seconds since the epoch.
        bodies: What reads messages in other forms than text.
    """

    def __init__(
        self,
        put: Callable[[Operation], None],
        hub_loop: asyncio.AbstractEventLoop,
        stored: Callable[[dict[int, int]], None],
        reading: Callable[[bool], None],
        clock: Callable[[], float],
        bodies: Bodies,
    ) -> None:
        self.counts = ReceiveCounts()
        self._put = put
        self.hub_loop = hub_loop
        self._stored = stored
        self._reading = reading
        self._clock = clock
        self._bodies = bodies
        self._waiting: list[tuple[OverlayMessage | None, dict[int, int]]] = []
        self._waiting_bytes = 0
        self._is_reading = True
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @property
    def waiting(self) -> tuple[int, int]:
        """Messages that wait for the store, and their bytes."""
        return len(self._waiting), self._waiting_bytes

    def add(self, message: OverlayMessage | None, horizons: dict[int, int]) -> None:
        """Take a message (`None`: nothing but horizons), and how far others are known once it is stored."""
        self._waiting.append((message, horizons))
        if message is not None:
            self._waiting_bytes += len(message.body)
        self._news.set()
        if self._is_reading and not self._can_accept(1):
            self._is_reading = False
            logger.warning("messages of other brokers wait for the store: no more are read for now")
            self._reading(False)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await self._store(self._next())
                if not self._is_reading and self._can_accept(2):
                    self._is_reading = True
                    self._reading(True)

    async def finish(self) -> None:
        """Store what has arrived, once :meth:`run` has ended."""
        while self._waiting:
            await self._store(self._next())

    def _can_accept(self, part: int) -> bool:
        return len(self._waiting) <= WAITING_MESSAGES_MAX // part and self._waiting_bytes <= WAITING_BYTES_MAX // part

    def _next(self) -> list[tuple[OverlayMessage | None, dict[int, int]]]:
        size = count = 0
        for message, _ in self._waiting:
            size += 0 if message is None else len(message.body)
            if count and size > BYTES_AT_ONCE:
                break
            count += 1
            if count >= MESSAGES_AT_ONCE:
                break
        some, self._waiting = self._waiting[:count], self._waiting[count:]
        self._waiting_bytes -= sum(len(message.body) for message, _ in some if message is not None)
        return some

    async def _store(self, some: list[tuple[OverlayMessage | None, dict[int, int]]]) -> None:
        """Store some, however long the store does not answer."""
        horizons: dict[int, int] = {}
        for _, later in some:
            horizons.update(later)
        messages = [message for message, _ in some if message is not None]
        waited = False
        while True:
            try:
                counts = await self._do(messages, horizons)
            except StoreUnavailable as error:
                logger.log(logging.DEBUG if waited else logging.WARNING, "messages of other brokers wait: %s", error)
                waited = True
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                break
        self._add(counts)
        self._stored(horizons)

    async def _do(self, messages: Sequence[OverlayMessage], horizons: dict[int, int]) -> ReceiveCounts:
        try:
            return await self._ask(messages, horizons)
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(messages) > 1:
                # It lies in one of them, for which the others are not to suffer.
                counts = ReceiveCounts()
                for message in messages:
                    _sum(counts, await self._do([message], {}))
                _sum(counts, await self._do([], horizons))
                return counts
            if not messages:
                raise StoreUnavailable(str(error)) from error
            (lost,) = messages
            logger.error("message %d of broker %d cannot be stored", lost.number, lost.root, exc_info=error)
            return ReceiveCounts(lost=1)

    async def _ask(self, messages: Sequence[OverlayMessage], horizons: dict[int, int]) -> ReceiveCounts:
        """Have the writing thread do it, and wait for the answer, which comes in the hub's event loop."""
        answer: Future[ReceiveCounts] = self._loop.create_future()

        def pass_back(done: Future[Any]) -> None:
            self._loop.call_soon_threadsafe(_copy, done, answer)

        theirs: Future[Any] = Future(loop=self.hub_loop)
        theirs.add_done_callback(pass_back)
        self._put(StoreReceived(messages, horizons, self._clock, theirs, self._bodies))
        return await answer

    def _add(self, counts: ReceiveCounts) -> None:
        _sum(self.counts, counts)


def _copy(done: Future[Any], answer: Future[Any]) -> None:
    if answer.done():
        return
    error = done.exception()
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())


def _sum(counts: ReceiveCounts, more: ReceiveCounts) -> None:
    for name in ReceiveCounts.__slots__:
        setattr(counts, name, getattr(counts, name) + getattr(more, name))


def _sufficing(outcome: MatchOutcome, reduced: str, population: TenantPopulation) -> MatchOutcome:
    """What a part of a message is for: those whose results it gives.

    The node asks for the whole where a part does not suffice. This is for subscriptions that it had not heard of when
    it took the message: they are too new for a message that was accepted before.
    """
    part = read_part(reduced)

    def suffices(number: int) -> bool:
        query = population.session.engine.query(str(number))
        if query is None:
            raise UnknownKey(str(number))
        taken = _part(query.query, tuple(query.namespaces.items()), query.dialect)
        return part is not None and covers(part, taken)

    positions = [position for position, slot in enumerate(outcome.slots) if suffices(population.ids[slot])]
    undecided = [one for one in outcome.undecided if suffices(int(one.key))]
    return at_indices(replace(outcome, undecided=undecided), positions)


@lru_cache(10_000)
def _part(query: str, namespaces: tuple[tuple[str, str], ...], dialect: str) -> Projection | None:
    return part_of(query, dict(namespaces), dialect)
