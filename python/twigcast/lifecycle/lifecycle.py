"""Life cycles in a program: each message is delivered once, its updates and cancels to whoever got the original."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from twigcast.answers import Delivery
from twigcast.errors import SnapshotError, UndecidedSubscription
from twigcast.lifecycle.chains import Advance, Chain, Effect, Relation, advance, expire, names_of
from twigcast.lifecycle.facts import MessageFacts, ProfileReader
from twigcast.lifecycle.profiles import LifecycleProfile, read_profile
from twigcast.lifecycle.records import chain_record, read_chain, read_state, write_state
from twigcast.limits import Limits
from twigcast.publication import microseconds
from twigcast.reading.text import MessageLike, as_bytes

if TYPE_CHECKING:
    from twigcast.subscriptions import SubscriptionSet

FORMAT: Final = 1
"""The version of saved states."""

RETENTION_SECONDS: Final = 30 * 86_400.0
CHAINS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class LifecycleAnswer:
    """The answer to one message: its effect on its matter, and the subscriptions that get it."""

    effect: Effect
    """The effect of the message: the first of its matter, an update, a duplicate, ..."""
    relations: Mapping[str, Relation | None]
    """The keys that get the message, with its relation to earlier deliveries; ``None`` without a life cycle."""
    suppressed: tuple[str, ...]
    """The keys that match but do not get the message, because it is a duplicate or out of date."""
    withdrawn: Mapping[str, tuple[str, ...]]
    """By key, the ids of earlier messages that need not be delivered any more, if they are still pending somewhere."""
    facts: MessageFacts
    """The facts that the profile found in the message."""
    undecided: tuple[UndecidedSubscription, ...] = ()
    """The subscriptions that could not be decided on it."""

    @property
    def keys(self) -> list[str]:
        """The keys that get the message, in order."""
        return list(self.relations)


@dataclass(frozen=True, slots=True)
class ExpiredChain:
    """A matter that has expired."""

    identity: str
    """Its latest message."""
    message_id: str
    keys: tuple[str, ...]
    """The keys that learn of the end."""
    withdrawn: Mapping[str, tuple[str, ...]]
    """As :attr:`LifecycleAnswer.withdrawn`."""


@dataclass(frozen=True, slots=True)
class RelatedPayload:
    """The payload of one message for one subscription, with its relation to earlier deliveries."""

    key: str
    relation: Relation | None
    payload: bytes
    """The result of a For-Where-Return query; the message itself for others, and where the query does not match it."""
    rewritten: bool = False


class Lifecycle:
    """The state of messages that update and cancel each other, for a set of subscriptions.

    Args:
        profile: How messages name themselves and others: ``"cap"``, ``"atom"``, ``"rss"``, ``"newsml-g2"``, ``"nitf"``,
            ``"siri-sx"``, the path of a file in TOML or JSON, or a mapping as in such a file.
        follow: Whether subscriptions that got a message get its updates and its end though these do not match: for all
            of them, or by key for some. ``None``, and for other keys: as the profile says.
        withdraw_expired: Whether expired messages are withdrawn, and no longer delivered to anybody; ``None``: as the
            profile says.
        retention_seconds: After this time without a change, counted from its end if that is later, a matter is
            forgotten.
        chains_max: How many matters are remembered; beyond that, those that changed least recently are forgotten.

    Raises:
        LifecycleProfileError: There is no such profile, or a part of it cannot be used.
        SourceError: The file of the profile cannot be read.

    It can be pickled. One thread at a time may use it; messages are to come in the order in which they are delivered.
    """

    def __init__(
        self,
        profile: str | os.PathLike[str] | Mapping[str, object] | LifecycleProfile,
        *,
        follow: bool | Mapping[str, bool] | None = None,
        withdraw_expired: bool | None = None,
        retention_seconds: float = RETENTION_SECONDS,
        chains_max: int = CHAINS_MAX,
    ) -> None:
        if retention_seconds <= 0 or chains_max < 1:
            raise ValueError("retention_seconds and chains_max must be greater than 0")
        self.profile = read_profile(profile)
        self._limits = Limits()
        self._reader = ProfileReader(self.profile, self._limits)
        self._follow = follow
        self._withdraw_expired = self.profile.withdraw_expired if withdraw_expired is None else withdraw_expired
        self._retention_seconds = retention_seconds
        self._chains_max = chains_max
        self._chains: dict[int, Chain[str]] = {}
        """The chains by number, least recently changed first."""
        self._by_name: dict[str, int] = {}
        self._next = 0
        self.forgotten = 0
        """How many matters have been forgotten so far. A message that refers to one of them counts as new."""

    def __len__(self) -> int:
        return len(self._chains)

    def __repr__(self) -> str:
        return f"<Lifecycle {self.profile.name!r} of {len(self):,}>"

    # Messages ---------------------------------------------------------------------------------------------------------

    def match(
        self,
        subscriptions: SubscriptionSet,
        message: MessageLike,
        *,
        message_id: str = "",
        published: datetime | None = None,
    ) -> LifecycleAnswer:
        """Returns the effect of a message and the keys that get it, and remembers the message.

        Args:
            subscriptions: The subscriptions as they are now. Keys that are gone get nothing any more.
            message: The message, as for :meth:`SubscriptionSet.match`.
            message_id: The name of this message in answers to later ones.
            published: When it was published, which is ``$now`` to queries, and the time that expiry goes by.

        Raises:
            RejectedMessage: It is malformed, or over a limit; then nothing is remembered.
        """
        xml = as_bytes(message, subscriptions.limits.message_bytes_max)
        match = subscriptions.match(xml, published=published)
        return self._enter(subscriptions, xml, match.keys, match.undecided, message_id, published)

    def deliver(
        self,
        subscriptions: SubscriptionSet,
        message: MessageLike,
        *,
        message_id: str = "",
        published: datetime | None = None,
    ) -> tuple[LifecycleAnswer, list[RelatedPayload]]:
        """Returns the answer of :meth:`match`, and the payload of each subscription that gets the message.

        Raises:
            RejectedMessage: It is malformed, or over a limit; then nothing is remembered.
        """
        xml = as_bytes(message, subscriptions.limits.message_bytes_max)
        deliveries = subscriptions.deliver(xml, message_id=message_id, published=published)
        answer = self._enter(subscriptions, xml, deliveries.keys, deliveries.undecided, message_id, published)
        by_key = {one.key: one for one in deliveries}
        payloads = []
        for key, relation in answer.relations.items():
            one = by_key.get(key) or Delivery(key, deliveries.message)
            payloads.append(RelatedPayload(key, relation, one.payload, one.rewritten))
        return answer, payloads

    def _enter(
        self,
        subscriptions: SubscriptionSet,
        xml: bytes,
        matching: list[str],
        undecided: list[UndecidedSubscription],
        message_id: str,
        published: datetime | None,
    ) -> LifecycleAnswer:
        if subscriptions.limits != self._limits:
            # What the subscriptions may read is not too large for the profile.
            self._limits = subscriptions.limits
            self._reader = ProfileReader(self.profile, self._limits)
        facts, at = self._reader.read(xml), microseconds(published) / 1_000_000
        self._forget(at)
        numbers = dict.fromkeys(self._by_name[name] for name in names_of(facts) if name in self._by_name)
        step: Advance[str] = advance(
            [self._chains[number] for number in numbers],
            facts,
            sorted(matching),
            at=at,
            handle=message_id,
            undecided=[failure.key for failure in undecided],
            # Keys that are gone get nothing, and are no longer among those who have it.
            follows=lambda key: key in subscriptions and self._follows(key),
            withdraw_expired=self._withdraw_expired,
        )
        if step.chain is not None:
            self._replace(list(numbers), step.chain)
        relations = {one.key: one.relation for one in step.deliveries}
        return LifecycleAnswer(step.effect, relations, step.suppressed, _withdrawn(step), facts, tuple(undecided))

    def _follows(self, key: str) -> bool:
        if isinstance(self._follow, Mapping):
            return self._follow.get(key, self.profile.follow)
        return self.profile.follow if self._follow is None else self._follow

    def expire(self, subscriptions: SubscriptionSet, at: datetime | None = None) -> list[ExpiredChain]:
        """Returns the matters that are over by now, or by another time, and remembers that they are.

        Args:
            subscriptions: The subscriptions as they are now.
            at: The time; ``None`` for the present.
        """

        def follows(key: str) -> bool:
            return key in subscriptions and self._follows(key)

        now = microseconds(at) / 1_000_000
        over: list[ExpiredChain] = []
        for number, chain in list(self._chains.items()):
            step = expire(chain, at=now, follows=follows, withdraw=self._withdraw_expired)
            if step is None or step.chain is None:
                continue
            self._replace([number], step.chain)
            last = chain.members[-1]
            keys = tuple(one.key for one in step.deliveries)
            over.append(ExpiredChain(last.identity, str(last.handle), keys, _withdrawn(step)))
        return over

    def history(self, identity: str) -> Chain[str] | None:
        """Returns the chain of a message, by its identity: its parts, joined by commas."""
        number = self._by_name.get(identity)
        return None if number is None else self._chains[number]

    # State ------------------------------------------------------------------------------------------------------------

    def _replace(self, numbers: list[int], chain: Chain[str]) -> None:
        """Puts a chain in the place of others."""
        for number in numbers:
            self._drop(number)
        number, self._next = self._next, self._next + 1
        self._chains[number] = chain
        self._by_name.update(dict.fromkeys(chain.names, number))
        while len(self._chains) > self._chains_max:
            self._drop(next(iter(self._chains)))
            self.forgotten += 1

    def _drop(self, number: int) -> None:
        for name in self._chains.pop(number).names:
            if self._by_name.get(name) == number:
                del self._by_name[name]

    def _forget(self, now: float) -> None:
        """Forgets chains that are old. The chains are ordered by their last change, so old ones come first."""
        while self._chains:
            number, chain = next(iter(self._chains.items()))
            if chain.touched + self._retention_seconds > now:
                return
            if chain.keep_from + self._retention_seconds > now:
                # It ends later than it changed: it waits among the others.
                self._chains[number] = replace(self._chains.pop(number), touched=now)
                continue
            self._drop(number)
            self.forgotten += 1

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state to a file, at once or not at all.

        Raises:
            OutputError: The file cannot be written.
        """
        write_state(path, self._state(), "the life cycles")

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Reads the state from a file that :meth:`save` wrote with a profile of the same name.

        Raises:
            SnapshotError: The file cannot be read, is damaged, or is of another profile or a later version.
        """
        with read_state(path, FORMAT, "life cycles") as state:
            name = state["profile"]
            if name != self.profile.name:
                raise SnapshotError(
                    str(path), f"it holds life cycles of the profile {name!r}, not {self.profile.name!r}"
                )
            self._restore(state)

    def _state(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "profile": self.profile.name,
            "forgotten": self.forgotten,
            "chains": [chain_record(chain) for chain in self._chains.values()],
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        chains = [read_chain(record) for record in state["chains"]]
        forgotten = int(state["forgotten"])
        self._chains, self._by_name, self._next = {}, {}, 0
        for chain in chains:
            self._replace([], chain)
        self.forgotten += forgotten

    def __reduce__(self) -> tuple[Any, ...]:
        settings = (self._follow, self._withdraw_expired, self._retention_seconds, self._chains_max)
        return _unpickled, (self.profile.as_mapping(), settings, self._state())


def _unpickled(profile: Mapping[str, object], settings: tuple[Any, ...], state: Mapping[str, Any]) -> Lifecycle:
    follow, withdraw_expired, retention_seconds, chains_max = settings
    made = Lifecycle(
        profile,
        follow=follow,
        withdraw_expired=withdraw_expired,
        retention_seconds=retention_seconds,
        chains_max=chains_max,
    )
    made._restore(state)
    return made


def _withdrawn(step: Advance[str]) -> dict[str, tuple[str, ...]]:
    ids = tuple(str(handle) for handle in step.handles)
    return dict.fromkeys(step.withdrawn, ids) if ids else {}
