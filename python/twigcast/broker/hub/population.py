"""The subscriptions in the engine, and the queue of each.

The engine answers in slots, small numbers that are reused. Tables by slot hold subscription and queue:
two numbers, a key and a flag each, so that a million subscriptions fit. Only the writing thread changes them; the
threads that evaluate messages read them under a lock.
Subscriptions that are paused or suspended are not in the engine, but kept beside it as a whole.
"""

from __future__ import annotations

import gc
import threading
from array import array
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from typing import Any, Final, TypeVar

from twigcast._core import NameDictionary, NumberBuffer
from twigcast.broker.errors import Invalid
from twigcast.broker.feed_addresses import source_of_topic
from twigcast.broker.model import OverflowPolicy, PlainSubscriptions, StoredSubscription, SubscriptionState
from twigcast.broker.options import refused_dialect
from twigcast.engine.external import QueryEvaluator
from twigcast.engine.session import BatchPart, EngineSession, MessageBuffers
from twigcast.errors import QueryError, RejectedMessage, TwigcastError, UndecidedSubscription, WindowError
from twigcast.limits import Limits
from twigcast.publication import microseconds_of
from twigcast.registration import ENGINE_DIALECTS, Dialect, Params
from twigcast.registration import Subscription as Query
from twigcast.windows.declarations import Window
from twigcast.windows.expressions import WindowTable
from twigcast.windows.results import change_params, without_change_params

V = TypeVar("V")

_LOADED_AT_ONCE: Final = 20_000


@dataclass(frozen=True, slots=True)
class RegisteredSubscription:
    """A subscription as the hub needs it."""

    id: int
    tenant_id: int
    queue_id: int
    key: str
    query: str
    namespaces: Mapping[str, str]
    dialect: Dialect
    pushed: bool
    """Whether listeners are called for its deliveries, since they are pushed."""
    source: str | None = None
    """The only source whose messages it gets: a WebSub subscriber of that source's topic; ``None`` for all sources."""
    overflow: OverflowPolicy = OverflowPolicy.SUSPEND
    params: Params = field(default_factory=dict)
    follow: bool | None = None
    """See :attr:`StoredSubscription.follow`."""
    window: Window | None = None
    """See :attr:`StoredSubscription.window`."""

    @classmethod
    def of(cls, subscription: StoredSubscription) -> RegisteredSubscription:
        """Returns a stored subscription as the hub needs it."""
        s = subscription
        source, pushed = source_of_topic(s.delivery), s.delivery.is_pushed
        about = s.id, s.tenant_id, s.queue_id, s.key, s.query, s.namespaces, s.dialect
        return cls(*about, pushed, source, s.overflow, s.params, s.follow, s.window)

    def as_query(self) -> Query:
        """Returns it as the engine needs it: under its number, in the group of its subscriber.

        Raises:
            WindowError: Its query uses the values of a change where they are not known yet.
        """
        query = Query(str(self.id), self.query, self.namespaces, self.dialect, str(self.queue_id), self.params)
        values = change_params(self.window, query)
        return replace(query, params={**self.params, **values}) if values else query


Refusals = list[tuple[RegisteredSubscription, TwigcastError]]
"""Subscriptions that the engine refused, each with its reason."""


@dataclass(frozen=True, slots=True)
class MatchOutcome:
    """The answer of the engine for one message."""

    slots: Sequence[int] = ()
    payloads: Sequence[bytes | None] | None = None
    """Payloads by slot; ``None`` if all get the message itself."""
    undecided: Sequence[UndecidedSubscription] = ()
    """Undecided subscriptions, under their numbers."""
    error: RejectedMessage | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answer of the engine for one message, by subscription, in the order of their numbers."""

    revision: int
    """The revision of the population that it holds for."""
    numbers: Sequence[int] = ()
    """The matching subscriptions."""
    queues: Sequence[int] = ()
    """Their queues."""
    keys: Sequence[str] = ()
    """Their keys."""
    pushed: Collection[int] = ()
    """Those of the queues whose deliveries are pushed."""
    payloads: Sequence[bytes | None] | None = None
    """Their payloads; ``None`` if all get the message itself."""
    undecided: Sequence[UndecidedSubscription] = ()
    """Undecided subscriptions, under their numbers."""
    error: RejectedMessage | None = None

    def among(self, suits: Callable[[int], bool], revision: int | None = None) -> Evaluation:
        """Returns the answer without subscriptions that do not suit, by number; for the same revision or another."""
        kept = [position for position, number in enumerate(self.numbers) if suits(number)]
        queues = [self.queues[position] for position in kept]
        return Evaluation(
            self.revision if revision is None else revision,
            [self.numbers[position] for position in kept],
            queues,
            [self.keys[position] for position in kept],
            set(queues).intersection(self.pushed),
            None if self.payloads is None else [self.payloads[position] for position in kept],
            [failure for failure in self.undecided if suits(int(failure.key))],
            self.error,
        )


class TenantPopulation:
    """The subscriptions of one tenant; an evaluator is needed for queries that are registered in XQuery."""

    def __init__(self, limits: Limits, evaluator: QueryEvaluator | None = None) -> None:
        # A log holds nothing of messages: a metric counts what others are warned of.
        self.session = EngineSession.empty(limits, evaluator, is_quiet=True)
        self.followers: dict[int, RegisteredSubscription] = {}
        """Subscriptions in XQuery, which match stored messages by themselves: see
        :mod:`~twigcast.broker.hub.external_queries`.
        """
        self.dormant: dict[int, RegisteredSubscription] = {}
        """Subscriptions that are not active."""
        self.ids = array("q")
        """Subscription by slot."""
        self.queues = array("q")
        """Queue by slot."""
        self.keys: list[str] = []
        """Key by slot."""
        self.pushed = bytearray()
        """Whether deliveries are pushed, by slot."""
        self.sources: dict[int, str] = {}
        """The only source of some subscriptions, by number."""
        self.policies: dict[int, OverflowPolicy] = {}
        """The policies of subscriptions that have not the usual one, by number."""
        self.follows: dict[int, bool] = {}
        """Whether subscriptions follow what they got, of those that say so, by number."""
        self.windows: WindowTable[int] = WindowTable(limits)
        """When active subscriptions are told, of those that say so, by number."""
        self.draining: set[int] = set()
        """Subscriptions that miss messages until less waits for their subscriber, and perhaps some that did so."""
        self.revision = 0
        """Grows with each change."""
        self.remade = 0
        """The last revision before which an evaluation may lack subscriptions that it should have met: see
        :meth:`must_evaluate_again`.
        """
        self._changing = threading.Lock()
        """Held while engine and tables change, and while slots are looked up in the tables."""

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._changing:
            try:
                yield
            finally:
                self.revision += 1

    def must_evaluate_again(self) -> None:
        """Declares all evaluations until now void: subscriptions were added that these should have met."""
        with self._change():
            self.remade = self.revision + 1

    def __len__(self) -> int:
        return len(self.session.engine) + len(self.dormant) + len(self.followers)

    def holds(self, subscription_id: int) -> bool:
        """Returns whether there is such a subscription."""
        return subscription_id in self.dormant or self.active(subscription_id)

    def active(self, subscription_id: int) -> bool:
        """Returns whether a subscription is active."""
        return subscription_id in self.followers or str(subscription_id) in self.session.engine

    def add(self, members: Sequence[RegisteredSubscription]) -> list[tuple[int, TwigcastError]]:
        """Registers subscriptions, or gives registered ones another query; returns index and error of those refused."""
        with self._change():
            return self._add(members)

    def _add(self, members: Sequence[RegisteredSubscription]) -> list[tuple[int, TwigcastError]]:
        followers = {index: member for index, member in enumerate(members) if member.dialect == "xquery"}
        if followers:
            return self._add_followers(followers) + self._add_others(members, followers)
        faults = self._set_windows(members)
        if faults:
            return faults + self._add_others(members, dict(faults))
        report = self.session.add_many((m.as_query() for m in members), {}, "xpath", replace=True)
        refused = [(r.index, r.error) for r in report.refused]
        bad = {index for index, _ in refused}
        good = [m for index, m in enumerate(members) if index not in bad] if bad else members
        self._index_members(good)
        return refused

    def _set_windows(self, members: Sequence[RegisteredSubscription]) -> list[tuple[int, TwigcastError]]:
        """Sets when subscriptions are told; returns index and error of those for which that is refused."""
        faults: list[tuple[int, TwigcastError]] = []
        for index, member in enumerate(members):
            if member.window is None:
                self.windows.discard(member.id)
                continue
            try:
                member.as_query()
                self.windows.put(member.id, member.window, member.namespaces)
            except TwigcastError as error:
                faults.append((index, error))
        return faults

    def _add_followers(self, members: Mapping[int, RegisteredSubscription]) -> list[tuple[int, TwigcastError]]:
        reason = refused_dialect("xquery")
        if reason is not None:
            return [(index, Invalid(reason)) for index in members]
        refused: list[tuple[int, TwigcastError]] = []
        # By the present limits, as the engine does with all others: each follower has an engine of its own.
        trial = TenantPopulation(self.session.limits)
        for index, member in members.items():
            if member.window is not None:
                reason = "it is for queries that the engine evaluates when a message comes, not for those in XQuery"
                refused.append((index, WindowError("when", reason)))
                continue
            try:
                trial.register(member)
            except QueryError as error:
                refused.append((index, error))
            else:
                self.followers[member.id] = member
        return refused

    def _add_others(
        self, members: Sequence[RegisteredSubscription], followers: Container[int]
    ) -> list[tuple[int, TwigcastError]]:
        positions = [index for index in range(len(members)) if index not in followers]
        return [(positions[index], error) for index, error in self._add([members[position] for position in positions])]

    def register(self, member: RegisteredSubscription) -> None:
        """Registers a checked query in XQuery for matching here; raises QueryError if the engine refuses it."""
        self.session.add(
            str(member.id),
            member.query,
            member.namespaces,
            "xquery",
            replace=True,
            is_checked=True,
            group=str(member.queue_id),
            params=member.params,
        )

    def load(self, plain: PlainSubscriptions) -> Refusals:
        """Registers stored subscriptions that are not registered yet; keeps those refused aside, and returns them."""
        names, groups = [str(number) for number in plain.ids], [str(number) for number in plain.queues]
        # The dialect of most is that for all.
        dialects = [None if dialect == "xpath" else dialect for dialect in plain.dialects]
        items = zip(names, plain.queries, plain.namespaces, dialects, groups, strict=True)
        with self._change():
            report = self.session.add_many(items, {}, "xpath")
            columns: Sequence[Sequence[Any]] = names, plain.ids, plain.queues, plain.keys, plain.pushed
            if report.refused:
                good = [True] * len(names)
                for one in report.refused:
                    good[one.index] = False
                columns = [list(compress(column, good)) for column in columns]
            self._index(*columns)
            refused = [(_member_of(plain, one.index), one.error) for one in report.refused]
            self.dormant.update((member.id, member) for member, _ in refused)
        return refused

    def _index_members(self, members: Sequence[RegisteredSubscription]) -> None:
        has_rare = self.sources or self.policies or self.follows
        if has_rare or any(
            m.source or m.overflow is not OverflowPolicy.SUSPEND or m.follow is not None for m in members
        ):
            self._index_rare(members)
        self._index(
            [str(m.id) for m in members],
            [m.id for m in members],
            [m.queue_id for m in members],
            [m.key for m in members],
            [m.pushed for m in members],
        )

    def _index(
        self,
        names: Sequence[str],
        ids: Sequence[int],
        queues: Sequence[int],
        keys: Sequence[str],
        pushed: Sequence[bool],
    ) -> None:
        """Keeps what the tables by slot hold of subscriptions that the engine has under these names."""
        slots = self.session.engine.slots_of(names)
        size = len(self.ids)
        if slots == list(range(size, size + len(names))):
            # In the order of a bulk addition, and of the start.
            self.ids.extend(ids)
            self.queues.extend(queues)
            self.keys.extend(keys)
            self.pushed.extend(pushed)
            return
        for slot, id_, queue_id, key, is_pushed in zip(slots, ids, queues, keys, pushed, strict=True):
            assert slot is not None, "it was added just now"
            if slot >= len(self.ids):
                self._grow(slot + 1)
            self.ids[slot] = id_
            self.queues[slot] = queue_id
            self.keys[slot] = key
            self.pushed[slot] = is_pushed

    def _index_rare(self, members: Sequence[RegisteredSubscription]) -> None:
        """Keeps what few subscriptions have."""
        for member in members:
            _set_or_remove(self.sources, member.id, member.source)
            is_usual = member.overflow is OverflowPolicy.SUSPEND
            _set_or_remove(self.policies, member.id, None if is_usual else member.overflow)
            _set_or_remove(self.follows, member.id, member.follow)

    def _grow(self, size: int) -> None:
        more = size - len(self.ids)
        self.ids.extend([0] * more)
        self.queues.extend([0] * more)
        self.keys.extend([""] * more)
        self.pushed.extend(bytes(more))

    def member(self, tenant_id: int, subscription_id: int) -> RegisteredSubscription | None:
        """Returns a subscription, active or not."""
        aside = self.dormant.get(subscription_id) or self.followers.get(subscription_id)
        if aside is not None:
            return aside
        stored = self.session.engine.query(str(subscription_id))
        (slot,) = self.session.engine.slots_of([str(subscription_id)])
        if stored is None or slot is None:
            return None
        registered = self.windows.get(subscription_id)
        window = None if registered is None else registered.window
        return RegisteredSubscription(
            subscription_id,
            tenant_id,
            self.queues[slot],
            self.keys[slot],
            stored.query,
            stored.namespaces,
            ENGINE_DIALECTS[stored.dialect],
            bool(self.pushed[slot]),
            self.sources.get(subscription_id),
            self.policies.get(subscription_id, OverflowPolicy.SUSPEND),
            without_change_params(stored.params, window),
            self.follows.get(subscription_id),
            window,
        )

    def recipients(self, numbers: Sequence[int]) -> dict[int, tuple[int, str, bool]]:
        """Returns queue, key, and whether deliveries are pushed, of those of the subscriptions that are active."""
        with self._changing:
            slots = self.session.engine.slots_of([str(number) for number in numbers])
            return {
                number: (self.queues[slot], self.keys[slot], bool(self.pushed[slot]))
                for number, slot in zip(numbers, slots, strict=True)
                if slot is not None
            }

    def remove(self, subscription_id: int) -> None:
        """Removes a subscription."""
        with self._change():
            self.dormant.pop(subscription_id, None)
            self.followers.pop(subscription_id, None)
            self.draining.discard(subscription_id)
            self.sources.pop(subscription_id, None)
            self.policies.pop(subscription_id, None)
            self.follows.pop(subscription_id, None)
            self.windows.discard(subscription_id)
            self.session.discard(str(subscription_id))

    # Messages

    def matches_stream(self, stream: bytes, dictionary: NameDictionary | None) -> bool:
        """Returns whether a subscription matches an element stream, or is undecided on it; raises RejectedMessage."""
        answer = self.session.engine.match_stream(stream, dictionary)
        return bool(len(answer) or answer.undecided)

    def match(self, bodies: Sequence[bytes], received: Sequence[float], *, yields: bool = False) -> list[MatchOutcome]:
        """Matches messages against the active subscriptions; the outcomes include payloads.

        ``received`` says of each when it came, which is ``$now`` to queries: so a replay has the same answer.
        ``yields``: whether others come first at the processor.
        """
        outcomes = [MatchOutcome()] * len(bodies)
        buffers, published = MessageBuffers.of(bodies), [microseconds_of(seconds) for seconds in received]
        for part in self.session.match_batch(buffers, deliver=True, naming="slots", published=published, yields=yields):
            for row, outcome in zip(part.rows, _outcomes(part), strict=True):
                outcomes[row] = outcome
        return outcomes

    def evaluate(
        self, bodies: Sequence[bytes], sources: Sequence[str], received: float, *, yields: bool = False
    ) -> list[Evaluation]:
        """Matches messages, each of a source, in any thread; the evaluations are all of one revision.

        They were received at one time, which is ``$now`` to queries. ``yields``: whether others come first at the
        processor.
        """
        if not bodies:
            return []
        while True:
            revision = self.revision
            outcomes = self.match(bodies, [received] * len(bodies), yields=yields)
            with self._changing:
                if self.revision == revision:
                    return [self._evaluation(o, s) for o, s in zip(outcomes, sources, strict=True)]

    def _evaluation(self, outcome: MatchOutcome, source: str) -> Evaluation:
        """Returns an outcome by subscription. Slots are used again, numbers are not: these give the order."""
        ids, slots, payloads = self.ids, outcome.slots, outcome.payloads
        numbers = [ids[slot] for slot in slots]
        if (ascending := sorted(numbers)) != numbers:
            order = sorted(range(len(slots)), key=numbers.__getitem__)
            slots, numbers = [slots[position] for position in order], ascending
            payloads = None if payloads is None else [payloads[position] for position in order]
        queues, keys, pushed = self.queues, self.keys, self.pushed
        result = Evaluation(
            self.revision,
            numbers,
            [queues[slot] for slot in slots],
            [keys[slot] for slot in slots],
            {queues[slot] for slot in slots if pushed[slot]},
            payloads,
            outcome.undecided,
            outcome.error,
        )
        bound = self.sources
        return result.among(lambda number: bound.get(number, source) == source) if bound else result

    def remaining(self, evaluation: Evaluation) -> Evaluation:
        """Returns an evaluation without the subscriptions that have been suspended since."""
        return evaluation.among(self.active, self.revision)


def _member_of(plain: PlainSubscriptions, row: int) -> RegisteredSubscription:
    """Returns a row of plain subscriptions as the hub needs one that is not in the engine."""
    about = plain.ids[row], plain.tenant_id, plain.queues[row], plain.keys[row], plain.queries[row]
    namespaces = plain.namespaces[row] or {}
    return RegisteredSubscription(*about, namespaces, plain.dialects[row], bool(plain.pushed[row]))


def _set_or_remove(table: dict[int, V], slot: int, value: V | None) -> None:
    if value is not None:
        table[slot] = value
    else:
        table.pop(slot, None)


def _outcomes(part: BatchPart) -> list[MatchOutcome]:
    """Returns what the engine says of each message of a part."""
    result = part.result
    ends, slots = _numbers(result.match_offsets), _numbers(result.matches)
    indices, payloads = _numbers(result.payload_indices), memoryview(result.payloads)
    payload_ends = memoryview(result.payload_offsets).cast("q").tolist()
    different = [bytes(payloads[first:last]) for first, last in pairwise(payload_ends)]
    outcomes = []
    for start, end in pairwise(ends):
        mine: list[bytes | None] | None = None
        if different and any(index >= 0 for index in indices[start:end]):
            mine = [different[index] if index >= 0 else None for index in indices[start:end]]
        outcomes.append(MatchOutcome(slots[start:end], mine))
    for row, error in part.errors:
        assert isinstance(error, RejectedMessage), "the engine rejects messages with nothing else"
        outcomes[row] = MatchOutcome(error=error)
    for row, failure in result.failures:
        assert isinstance(failure, UndecidedSubscription), "nothing else fails for one subscription"
        outcomes[row] = replace(outcomes[row], undecided=(*outcomes[row].undecided, failure))
    return outcomes


def _numbers(numbers: NumberBuffer) -> list[int]:
    return memoryview(numbers).cast("i").tolist()


class BrokerPopulation:
    """The subscriptions of all tenants."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tenants: dict[int, TenantPopulation] = {}

    def of(self, tenant_id: int) -> TenantPopulation:
        """Returns the subscriptions of a tenant. Any thread may ask."""
        existing = self._tenants.get(tenant_id)
        # Of two threads that ask first, both get the same one.
        return self._tenants.setdefault(tenant_id, TenantPopulation(self._limits)) if existing is None else existing

    def unread_numbers(self) -> int:
        """Returns how often comparisons have read a value with an exponent as no number. Any thread may ask."""
        return sum(tenant.session.engine.unread_count for tenant in list(self._tenants.values()))

    def throttled(self) -> int:
        """Returns how many subscriptions are set aside, since they overran on several messages. Any thread may ask."""
        return sum(len(tenant.session.engine.throttled()) for tenant in list(self._tenants.values()))

    def __len__(self) -> int:
        return sum(map(len, list(self._tenants.values())))

    def load(self, subscriptions: Iterable[PlainSubscriptions | StoredSubscription]) -> Refusals:
        """Loads stored subscriptions; returns those that are active but refused, since limits are lower now."""
        collecting = gc.isenabled()
        # Millions of new objects without cycles would be searched for cycles again and again.
        gc.disable()
        try:
            return self._load_all(subscriptions)
        finally:
            if collecting:
                gc.enable()

    def _load_all(self, subscriptions: Iterable[PlainSubscriptions | StoredSubscription]) -> Refusals:
        refused: Refusals = []
        # The engine takes some, without the interpreter, while the next ones are read.
        with ThreadPoolExecutor(1, "twigcast-loading") as engine:
            taken: Future[Refusals] | None = None
            for some in self._in_blocks(subscriptions):
                if taken is not None:
                    refused += taken.result()
                taken = engine.submit(self._load, some)
            if taken is not None:
                refused += taken.result()
        return refused

    def _in_blocks(
        self, subscriptions: Iterable[PlainSubscriptions | StoredSubscription]
    ) -> Iterator[PlainSubscriptions | list[RegisteredSubscription]]:
        """Yields the active ones of some subscriptions in blocks, each of one tenant; keeps the others."""
        waiting: dict[int, list[RegisteredSubscription]] = {}
        for subscription in subscriptions:
            if isinstance(subscription, PlainSubscriptions):
                yield subscription
                continue
            member = RegisteredSubscription.of(subscription)
            if subscription.state is not SubscriptionState.ACTIVE:
                self.of(member.tenant_id).dormant[member.id] = member
                if subscription.is_draining:
                    self.of(member.tenant_id).draining.add(member.id)
                continue
            some = waiting.setdefault(member.tenant_id, [])
            some.append(member)
            if len(some) >= _LOADED_AT_ONCE:
                yield waiting.pop(member.tenant_id)
        yield from waiting.values()

    def _load(self, some: PlainSubscriptions | list[RegisteredSubscription]) -> Refusals:
        if isinstance(some, PlainSubscriptions):
            return self.of(some.tenant_id).load(some)
        population = self.of(some[0].tenant_id)
        refused = [(some[index], error) for index, error in population.add(some)]
        population.dormant.update((member.id, member) for member, _ in refused)
        return refused
