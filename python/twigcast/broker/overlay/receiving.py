"""Receiving: storing the messages of other brokers.

They are matched like messages that are published here, and stored if a subscription here matches. The horizon of their
root is stored in the same transaction. So after a crash either both are stored or neither, and exactly the missing
messages are requested again. Messages that arrive during one commit go into the next. Only one commit is under way at a
time, so that a horizon never passes a message that is not stored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import Future
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from twigcast.broker.errors import QueueFull, StoreUnavailable
from twigcast.broker.hub.commit import CommitGroup, Operation
from twigcast.broker.hub.evaluation import (
    EvaluatedMessage,
    EvaluatedOperation,
    PreparedMessage,
    StoredForm,
    up_to_date,
)
from twigcast.broker.hub.population import Evaluation, TenantPopulation
from twigcast.broker.hub.publishing import PublishRun
from twigcast.broker.model import Accepted, ErrorRecord, MessageName, Origin, StoredMessage, Submission, Tenant
from twigcast.broker.overlay.ordering import MessageOrder
from twigcast.errors import MalformedMessage, RejectedMessage, UnknownKey
from twigcast.limits import Limits
from twigcast.overlay.errors import WireError
from twigcast.overlay.onyx.content.projection import Projection, covers, part_of, read_part
from twigcast.overlay.onyx.messages import OverlayMessage
from twigcast.overlay.onyx.protocol.events import StoreRequested
from twigcast.overlay.onyx.wire.bodies import TEXT, Bodies

logger = logging.getLogger(__name__)

MESSAGES_AT_ONCE: Final = 500
BYTES_AT_ONCE: Final = 16 << 20
"""Most messages and bytes of one commit."""

WAITING_MESSAGES_MAX: Final = 20_000
WAITING_BYTES_MAX: Final = 64 << 20
"""Most that wait for the store. Beyond, links are not read until half is stored."""

_RETRY_SECONDS: Final = 0.5
_OVERDUE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Received(Submission):
    """A message that another broker has accepted."""

    origin: Origin = field(kw_only=True)
    reduced: str = field(default="", kw_only=True)
    """The part to which the message is reduced (see :mod:`twigcast.overlay.onyx.content.projection`); empty: the
    message is whole."""


@dataclass(slots=True)
class ReceiveCounts:
    """Counts of the messages of other brokers since the start."""

    stored: int = 0
    unwanted: int = 0
    """No subscription matched: the routing query was wider than the subscriptions."""
    already_stored: int = 0
    """The message was stored before."""
    refused: int = 0
    """This broker's engine rejected the message, which is stored as rejected."""
    overtaken: int = 0
    """The message was stored after a later one of its broker."""
    lost: int = 0
    """The message could not be stored although the store works; the log names each."""


@dataclass(eq=False)
class StoreReceived(EvaluatedOperation):
    """The storing of messages of other brokers, in the order of their arrival, with the horizons of their roots."""

    received: Sequence[tuple[int, OverlayMessage]]
    """The messages, each with its tenant."""
    horizons: dict[int, int]
    clock: Callable[[], float]
    bodies: Bodies
    overtaken: Container[tuple[int, int]] = ()
    """Root and number of the messages that later ones have overtaken."""

    def __post_init__(self) -> None:
        self.message_tenants = [tenant_id for tenant_id, _ in self.received]
        self.tenant_ids = tuple(dict.fromkeys(self.message_tenants))
        self.size = sum(len(message.body) for _, message in self.received)

    def apply(self, group: CommitGroup) -> None:
        """Stores the messages that a subscription matches, and the horizons."""
        if self.failure is not None:
            raise self.failure
        reception = _Reception(up_to_date(self, group.population, group.options.limits), group, self.overtaken)
        reception.run()
        if self.horizons:
            group.transaction.set_horizons(self.horizons, at=self.clock())
        self.result = reception.counts

    def prepared(self, index: int, population: TenantPopulation, limits: Limits) -> PreparedMessage | None:
        """Returns a message as text, or `None` if no subscription matches its element stream."""
        tenant_id, message = self.received[index]
        body, refusal = message.body, None
        if message.form != TEXT:
            try:
                opened = self.bodies.opened(message)
                may_be_unwanted = opened.is_stream and not population.followers
                if may_be_unwanted and not population.matches_stream(opened.body, opened.dictionary):
                    return None
                body = self.bodies.text(message)
            except RejectedMessage as error:
                refusal = error
            except WireError as error:
                refusal = MalformedMessage(1, 1, str(error))
        origin = Origin(message.root, message.number, message.path)
        submission = _Received(
            tenant_id, body, message.source, message.message_id, origin=origin, reduced=message.reduced
        )
        if refusal is not None:
            return PreparedMessage(submission, error=refusal)
        return PreparedMessage.of(submission, limits.message_bytes_max)


class _Reception(PublishRun):
    """A publish run for received messages: stores only matching ones, and does not send them to the overlay again."""

    def __init__(
        self, messages: Sequence[EvaluatedMessage], group: CommitGroup, overtaken: Container[tuple[int, int]]
    ) -> None:
        super().__init__(messages, group)
        self._overtaken = overtaken
        self.counts = ReceiveCounts(unwanted=sum(message.submission is None for message in messages))
        self._origins: list[tuple[int, Origin]] = []

    def _refusals(self, existing: Container[MessageName]) -> dict[int, QueueFull]:
        # Its publisher has its answer already, from another broker.
        return {}

    def _digest(self, submission: Submission) -> None:
        """Returns nothing: a message may have been converted, or reduced, on its way."""

    def _duplicate(self, before: StoredMessage) -> Accepted:
        self.counts.already_stored += 1
        return super()._duplicate(before)

    def _reject(self, submission: Submission, error: Any) -> Any:
        self.counts.refused += 1
        return super()._reject(submission, error)

    def _accept(
        self,
        submission: Submission,
        form: StoredForm,
        evaluation: Evaluation,
        received: float,
        evaluated: EvaluatedMessage,
    ) -> Accepted:
        assert isinstance(submission, _Received)
        population = self._group.population.of(submission.tenant_id)
        if submission.reduced:
            evaluation = _sufficing(evaluation, submission.reduced, population)
        # External queries read stored messages, and use whole ones.
        has_external_queries = bool(population.followers) and not submission.reduced
        is_second = evaluated.values is not None and any(population.windows.second_for(evaluated.values))
        is_wanted = evaluation.numbers or evaluation.undecided or is_second
        if not (is_wanted or has_external_queries or population.draining):
            self.counts.unwanted += 1
            return Accepted(0, submission.message_id or "", 0)
        accepted = super()._accept(submission, form, evaluation, received, evaluated)
        self._origins.append((accepted.seq, submission.origin))
        self.counts.stored += 1
        if (submission.origin.root, submission.origin.number) in self._overtaken:
            self.counts.overtaken += 1
            reason = f"message {accepted.seq} came after later messages of its publisher, since it was missing for long"
            now = self._group.now
            self._errors += [ErrorRecord(number, now, reason, accepted.seq) for number in evaluation.numbers]
        return accepted

    def _pass_on(self) -> None:
        self._group.transaction.add_origins(self._origins)


@dataclass(eq=False)
class MessageReceiver:
    """Stores what arrives; lives in the overlay's thread.

    ``submit`` passes an operation to the hub, which knows the ``tenants`` and completes its future in ``hub_loop``.
    ``stored`` receives horizons that are stored; ``set_reading`` is called with whether links are to be read.
    """

    _submit: Callable[[Operation], None]
    _tenants: Callable[[], Mapping[int, Tenant]]
    hub_loop: asyncio.AbstractEventLoop
    _stored: Callable[[dict[int, int]], None]
    _set_reading: Callable[[bool], None]
    _clock: Callable[[], float]
    _bodies: Bodies
    counts: ReceiveCounts = field(init=False, default_factory=ReceiveCounts)
    _waiting: list[StoreRequested] = field(init=False, default_factory=list)
    _waiting_bytes: int = field(init=False, default=0)
    _is_reading: bool = field(init=False, default=True)
    _has_work: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(init=False, default_factory=asyncio.get_running_loop)
    order: MessageOrder = field(init=False, default_factory=lambda: MessageOrder(time.monotonic))
    """What is held back behind gaps."""

    @property
    def waiting(self) -> tuple[int, int]:
        """The number of messages that wait for the store, and their size."""
        return len(self._waiting), self._waiting_bytes

    def add(self, request: StoreRequested) -> None:
        """Adds a message or a horizon to be stored, once those before it are there."""
        self._add(self.order.put(request))

    def _add(self, requests: Sequence[StoreRequested]) -> None:
        if not requests:
            return
        self._waiting += requests
        self._waiting_bytes += sum(map(_size, requests))
        self._has_work.set()
        if self._is_reading and not self._can_accept(1):
            self._is_reading = False
            logger.warning("messages of other brokers wait for the store: no more are read for now")
            self._set_reading(False)

    async def run(self) -> None:
        """Stores what arrives, until cancelled."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self._waiting:
                await self._store(self._next())
                if not self._is_reading and self._can_accept(2):
                    self._is_reading = True
                    self._set_reading(True)

    async def pass_overdue(self) -> None:
        """Stores what was held back for too long behind a gap, until cancelled."""
        while True:
            await asyncio.sleep(_OVERDUE_SECONDS)
            if overdue := self.order.overdue():
                logger.warning("%d messages of other brokers pass a gap that is not closed", len(overdue))
                self._add(overdue)

    async def finish(self) -> None:
        """Stores what has arrived, once :meth:`run` has ended."""
        while self._waiting:
            await self._store(self._next())

    def _can_accept(self, divisor: int) -> bool:
        """Returns whether no more waits than a fraction of what may wait."""
        return (
            len(self._waiting) <= WAITING_MESSAGES_MAX // divisor
            and self._waiting_bytes <= WAITING_BYTES_MAX // divisor
        )

    def _next(self) -> list[StoreRequested]:
        size = count = 0
        for request in self._waiting:
            size += _size(request)
            if count and size > BYTES_AT_ONCE:
                break
            count += 1
            if count >= MESSAGES_AT_ONCE:
                break
        some, self._waiting = self._waiting[:count], self._waiting[count:]
        self._waiting_bytes -= sum(map(_size, some))
        return some

    async def _store(self, some: list[StoreRequested]) -> None:
        """Stores some, and repeats this while the store is unavailable."""
        horizons = {request.root: request.horizon for request in some}
        messages = [request.message for request in some if request.message is not None]
        has_waited = False
        while True:
            try:
                counts = await self._do(messages, horizons)
            except StoreUnavailable as error:
                level = logging.DEBUG if has_waited else logging.WARNING
                logger.log(level, "messages of other brokers wait: %s", error)
                has_waited = True
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                break
        _sum(self.counts, counts)
        self._stored(horizons)

    async def _do(self, messages: Sequence[OverlayMessage], horizons: dict[int, int]) -> ReceiveCounts:
        """Stores messages, those of each tenant by themselves, and then the horizons if there are several tenants.

        So tenants do not wait for each other. After a crash, messages without a horizon are requested again, and known.
        """
        by_scope: dict[str, list[OverlayMessage]] = {}
        for message in messages:
            by_scope.setdefault(message.scope, []).append(message)
        if len(by_scope) <= 1:
            return await self._do_for_one(messages, horizons)
        counts = ReceiveCounts()
        for more in await asyncio.gather(*(self._do_for_one(some, {}) for some in by_scope.values())):
            _sum(counts, more)
        _sum(counts, await self._do_for_one([], horizons))
        return counts

    async def _do_for_one(self, messages: Sequence[OverlayMessage], horizons: dict[int, int]) -> ReceiveCounts:
        try:
            return await self._ask(messages, horizons)
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(messages) > 1:
                # One of them is at fault; the others are stored without it.
                counts = ReceiveCounts()
                for message in messages:
                    _sum(counts, await self._do_for_one([message], {}))
                _sum(counts, await self._do_for_one([], horizons))
                return counts
            if not messages:
                raise StoreUnavailable(str(error)) from error
            (lost,) = messages
            logger.error("message %d of broker %d cannot be stored", lost.number, lost.root, exc_info=error)
            return ReceiveCounts(lost=1)

    async def _ask(self, messages: Sequence[OverlayMessage], horizons: dict[int, int]) -> ReceiveCounts:
        """Stores them in the writing thread, and waits for the result, which comes in the hub's event loop."""
        answer: Future[ReceiveCounts] = self._loop.create_future()

        def pass_back(done: Future[Any]) -> None:
            self._loop.call_soon_threadsafe(_copy, done, answer)

        theirs: Future[Any] = Future(loop=self.hub_loop)
        theirs.add_done_callback(pass_back)
        numbers = {tenant.name: tenant.id for tenant in self._tenants().values()}
        known = [(numbers[message.scope], message) for message in messages if message.scope in numbers]
        named = {(message.root, message.number) for message in messages}
        overtaken = self.order.overtaken & named
        self._submit(StoreReceived(known, horizons, self._clock, self._bodies, overtaken, future=theirs))
        counts = await answer
        self.order.overtaken -= named
        counts.unwanted += len(messages) - len(known)
        return counts


def _size(request: StoreRequested) -> int:
    return 0 if request.message is None else len(request.message.body)


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


def _sufficing(evaluation: Evaluation, reduced: str, population: TenantPopulation) -> Evaluation:
    """Returns an evaluation without the subscriptions for which the part of a reduced message does not suffice.

    The node requests the whole message where a part does not suffice for a subscription that it knows. The ones left
    out are newer, so they need not get a message that was accepted before.
    """
    part = read_part(reduced)

    def suffices(number: int) -> bool:
        query = population.session.engine.query(str(number))
        if query is None:
            raise UnknownKey(str(number))
        # Of a query with parameters the part is not known: see `LocalInterests`.
        used = (
            None
            if query.params or number in population.windows
            else _part(query.query, tuple(query.namespaces.items()), query.dialect)
        )
        return part is not None and covers(part, used)

    return evaluation.among(suffices)


@lru_cache(10_000)
def _part(query: str, namespaces: tuple[tuple[str, str], ...], dialect: str) -> Projection | None:
    return part_of(query, dict(namespaces), dialect)
