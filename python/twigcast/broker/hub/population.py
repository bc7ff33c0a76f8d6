"""The subscriptions in the engine, and where the deliveries of each go.

The engine answers in slots, small numbers that are used again. Tables by slot say which subscription and queue that is:
two numbers, a key and a flag each, so that a million subscriptions fit. The writing thread alone changes and asks them.
Subscriptions that are paused or suspended are not in the engine, but kept aside as a whole.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from twigcast._core import NameDictionary, NumberBuffer
from twigcast.broker.errors import Invalid
from twigcast.broker.feed_addresses import source_of_topic
from twigcast.broker.model import StoredSubscription, SubscriptionState
from twigcast.broker.options import refused_dialect
from twigcast.engine.external import Evaluator
from twigcast.engine.session import BatchPart, EngineSession, MessageBuffers
from twigcast.errors import QueryError, RejectedMessage, TwigcastError, UndecidedSubscription
from twigcast.limits import Limits
from twigcast.registration import Dialect
from twigcast.registration import Subscription as Query

_LOADED_AT_ONCE: Final = 20_000


@dataclass(frozen=True, slots=True)
class RegisteredSubscription:
    """What the hub needs to know of a subscription."""

    id: int
    tenant_id: int
    queue_id: int
    key: str
    query: str
    namespaces: Mapping[str, str]
    dialect: Dialect
    pushed: bool
    """Whether its deliveries are sent to it, so that somebody is to be told of them."""
    source: str | None = None
    """The source that it is for: a WebSub subscriber of that source's topic; ``None``: for all."""

    @classmethod
    def of(cls, subscription: StoredSubscription) -> RegisteredSubscription:
        """A subscription as the hub knows it."""
        s = subscription
        pushed = s.delivery.kind != "pull"
        source = source_of_topic(s.delivery)
        return cls(s.id, s.tenant_id, s.queue_id, s.key, s.query, s.namespaces, s.dialect, pushed, source)

    def as_query(self) -> Query:
        """It as the engine knows it: by its number."""
        return Query(str(self.id), self.query, self.namespaces, self.dialect)


@dataclass(frozen=True, slots=True)
class MatchOutcome:
    """What the engine says of one message."""

    slots: Sequence[int] = ()
    payloads: Sequence[bytes | None] | None = None
    """By slot; ``None``: all get the message itself."""
    undecided: Sequence[UndecidedSubscription] = ()
    """By subscription number."""
    error: RejectedMessage | None = None


class TenantPopulation:
    """The subscriptions of one tenant.

    Args:
        limits: Of messages and queries.
        evaluator: Evaluates external queries, if any are registered.
    """

    def __init__(self, limits: Limits, evaluator: Evaluator | None = None) -> None:
        self.session = EngineSession.empty(limits, evaluator)
        self.followers: dict[int, RegisteredSubscription] = {}
        """Those in XQuery, which look at stored messages by themselves: see
        :mod:`~twigcast.broker.hub.external_queries`."""
        self.dormant: dict[int, RegisteredSubscription] = {}
        """Those that do not take part."""
        self.ids = array("q")
        """Subscription by slot."""
        self.queues = array("q")
        """Queue by slot."""
        self.keys: list[str] = []
        """Key by slot."""
        self.pushed = bytearray()
        """Whether somebody is to be told, by slot."""
        self.sources: dict[int, str] = {}
        """Those that are for one source only, by slot."""

    def __len__(self) -> int:
        return len(self.session.engine) + len(self.dormant) + len(self.followers)

    def holds(self, subscription_id: int) -> bool:
        """Whether there is such a subscription."""
        return subscription_id in self.dormant or self.active(subscription_id)

    def active(self, subscription_id: int) -> bool:
        """Whether it takes part."""
        return subscription_id in self.followers or str(subscription_id) in self.session.engine

    def add(self, members: Sequence[RegisteredSubscription]) -> list[tuple[int, TwigcastError]]:
        """Let subscriptions take part, or give those that do another query; index and error of those refused."""
        followers = {index: member for index, member in enumerate(members) if member.dialect == "xquery"}
        if followers:
            return self._add_followers(followers) + self._add_others(members, followers)
        report = self.session.add_many((m.as_query() for m in members), {}, "xpath", replace=True)
        refused = [(r.index, r.error) for r in report.refused]
        bad = {index for index, _ in refused}
        good = [m for index, m in enumerate(members) if index not in bad] if bad else members
        self._index_members(good)
        return refused

    def _add_followers(self, members: Mapping[int, RegisteredSubscription]) -> list[tuple[int, TwigcastError]]:
        reason = refused_dialect("xquery")
        if reason is not None:
            return [(index, Invalid(reason)) for index in members]
        refused: list[tuple[int, TwigcastError]] = []
        # By the limits as they are now, as the engine does with all others: each follower has an engine of its own.
        trial = TenantPopulation(self.session.limits)
        for index, member in members.items():
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
        return [(positions[index], error) for index, error in self.add([members[position] for position in positions])]

    def register(self, member: RegisteredSubscription) -> None:
        """Let a query in XQuery take part in matching here, once it has been checked.

        Raises:
            QueryError: The engine refuses it.
        """
        self.session.add(str(member.id), member.query, member.namespaces, "xquery", replace=True, is_checked=True)

    def _index_members(self, members: Sequence[RegisteredSubscription]) -> None:
        slots = self.session.engine.slots_of([str(m.id) for m in members])
        if self.sources or any(m.source is not None for m in members):
            for slot, member in zip(slots, members, strict=True):
                assert slot is not None, "it was added just now"
                if member.source is not None:
                    self.sources[slot] = member.source
                else:
                    self.sources.pop(slot, None)
        size = len(self.ids)
        if slots == list(range(size, size + len(members))):
            # As they come when many are added, and at the start.
            self.ids.extend([m.id for m in members])
            self.queues.extend([m.queue_id for m in members])
            self.keys.extend([m.key for m in members])
            self.pushed.extend([m.pushed for m in members])
            return
        for slot, member in zip(slots, members, strict=True):
            assert slot is not None, "it was added just now"
            if slot >= len(self.ids):
                self._grow(slot + 1)
            self.ids[slot] = member.id
            self.queues[slot] = member.queue_id
            self.keys[slot] = member.key
            self.pushed[slot] = member.pushed

    def _grow(self, size: int) -> None:
        more = size - len(self.ids)
        self.ids.extend([0] * more)
        self.queues.extend([0] * more)
        self.keys.extend([""] * more)
        self.pushed.extend(bytes(more))

    def member(self, tenant_id: int, subscription_id: int) -> RegisteredSubscription | None:
        """A subscription, taking part or not."""
        aside = self.dormant.get(subscription_id) or self.followers.get(subscription_id)
        if aside is not None:
            return aside
        stored = self.session.engine.query(str(subscription_id))
        (slot,) = self.session.engine.slots_of([str(subscription_id)])
        if stored is None or slot is None:
            return None
        return RegisteredSubscription(
            subscription_id,
            tenant_id,
            self.queues[slot],
            self.keys[slot],
            stored.query,
            stored.namespaces,
            "legacy" if stored.dialect == "legacy" else "xpath",
            bool(self.pushed[slot]),
            self.sources.get(slot),
        )

    def remove(self, subscription_id: int) -> None:
        """Forget a subscription."""
        self.dormant.pop(subscription_id, None)
        self.followers.pop(subscription_id, None)
        self.session.discard(str(subscription_id))

    def of_queue(self, queue_id: int) -> list[int]:
        """The subscriptions of a queue that take part. Looks at all: for what happens rarely."""
        candidates = [self.ids[slot] for slot, queue in enumerate(self.queues) if queue == queue_id]
        candidates += [member.id for member in self.followers.values() if member.queue_id == queue_id]
        return [number for number in candidates if self.active(number)]

    # Messages

    def matches_stream(self, stream: bytes, dictionary: NameDictionary | None) -> bool:
        """Whether some subscription matches a message that comes as an element stream, or cannot be decided on it.

        Raises:
            RejectedMessage: The stream is damaged, or what it says is no message or over a limit.
        """
        answer = self.session.engine.match_stream(stream, dictionary)
        return bool(len(answer) or answer.undecided)

    def match(self, bodies: Sequence[bytes]) -> list[MatchOutcome]:
        """What each message is for the subscriptions that take part, payloads included."""
        outcomes = [MatchOutcome()] * len(bodies)
        for part in self.session.match_batch(MessageBuffers.of(bodies), deliver=True, naming="slots"):
            for row, outcome in zip(part.rows, _outcomes(part), strict=True):
                outcomes[row] = outcome
        return outcomes


def _outcomes(part: BatchPart) -> list[MatchOutcome]:
    """Returns what the engine says of each message of a part."""
    result = part.result
    ends, slots = _int32(result.match_offsets), _int32(result.matches)
    indices, payloads = _int32(result.payload_indices), memoryview(result.payloads)
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


def _int32(numbers: NumberBuffer) -> list[int]:
    return memoryview(numbers).cast("i").tolist()


class BrokerPopulation:
    """The subscriptions of all tenants.

    Args:
        limits: Of messages and queries.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tenants: dict[int, TenantPopulation] = {}

    def of(self, tenant_id: int) -> TenantPopulation:
        """The subscriptions of a tenant, perhaps none."""
        result = self._tenants.get(tenant_id)
        if result is None:
            result = self._tenants[tenant_id] = TenantPopulation(self._limits)
        return result

    def __len__(self) -> int:
        return sum(map(len, self._tenants.values()))

    def load(self, subscriptions: Iterable[StoredSubscription]) -> list[tuple[RegisteredSubscription, TwigcastError]]:
        """Take in stored subscriptions; those that are active but refused, by limits that are lower now."""
        collecting = gc.isenabled()
        # There are no cycles in millions of new objects, and looking for them again and again takes long.
        gc.disable()
        try:
            return self._load_all(subscriptions)
        finally:
            if collecting:
                gc.enable()

    def _load_all(
        self, subscriptions: Iterable[StoredSubscription]
    ) -> list[tuple[RegisteredSubscription, TwigcastError]]:
        refused: list[tuple[RegisteredSubscription, TwigcastError]] = []
        waiting: dict[int, list[RegisteredSubscription]] = {}
        for subscription in subscriptions:
            member = RegisteredSubscription.of(subscription)
            if subscription.state is not SubscriptionState.ACTIVE:
                self.of(member.tenant_id).dormant[member.id] = member
                continue
            some = waiting.setdefault(member.tenant_id, [])
            some.append(member)
            if len(some) >= _LOADED_AT_ONCE:
                refused += self._load(member.tenant_id, waiting.pop(member.tenant_id))
        for tenant_id, some in waiting.items():
            refused += self._load(tenant_id, some)
        return refused

    def _load(
        self, tenant_id: int, members: list[RegisteredSubscription]
    ) -> list[tuple[RegisteredSubscription, TwigcastError]]:
        population = self.of(tenant_id)
        refused = [(members[index], error) for index, error in population.add(members)]
        population.dormant.update((member.id, member) for member, _ in refused)
        return refused
