"""Chains: an original message with its updates and its end, and the subscriptions that got them.

A chain joins the messages of one matter: they have an identity in common, or one refers to the other.
:func:`advance` takes the chains that a message belongs to, and returns the new chain and the deliveries;
:func:`expire` does the same when the time of a chain is over. The caller keeps the chains, finds them by name, and
delivers; nothing here has input, output or a clock.

Keys are those of subscriptions: texts in the library, numbers in the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar

from twigcast.lifecycle.facts import MessageFacts, MessageKind
from twigcast.lifecycle.times import is_older, is_same

K = TypeVar("K", str, int)

MEMBERS_MAX: Final = 200
"""How many messages of a chain are remembered: the latest ones. An older one that is repeated counts as an update."""

NAMES_MAX: Final = 2_000
"""How many identities lead to a chain: the latest ones."""


class Relation(StrEnum):
    """The relation of a delivery to what its subscriber got before."""

    ENTERED = "entered"
    """The first delivery of the matter, or the first after a delivery ``left``, ``cancelled`` or ``expired``."""
    UPDATED = "updated"
    """The message replaces the one that was delivered before."""
    LEFT = "left"
    """The message replaces the one that was delivered before, and no longer matches the subscription."""
    CANCELLED = "cancelled"
    """The message that was delivered before is cancelled."""
    EXPIRED = "expired"
    """The message that was delivered before has expired, or this one had when it came."""


class Effect(StrEnum):
    """The effect of a message on its matter."""

    FIRST = "first"
    UPDATE = "update"
    CANCEL = "cancel"
    END = "end"
    EXPIRED = "expired"
    """The message had expired when it came."""
    DUPLICATE = "duplicate"
    """The same version of the same message came before."""
    SUPERSEDED = "superseded"
    """A later version of the message came before, or a message that replaces or cancels it."""
    APART = "apart"
    """The message takes no part in life cycles: exactly the subscriptions that it matches get it."""


class ChainState(StrEnum):
    """The state of a matter: in force, or over, and why."""

    IN_FORCE = "in force"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class ChainMember(NamedTuple):
    """A message of a chain."""

    identity: str
    version: str
    effect: Effect
    at: float
    """When it came, in seconds since 1970."""
    handle: str | int
    """The caller's name of the message."""


@dataclass(frozen=True, slots=True)
class Chain(Generic[K]):
    """The messages of one matter, and the subscriptions that got them."""

    members: tuple[ChainMember, ...] = ()
    """Its messages, in the order in which they came."""
    names: tuple[str, ...] = ()
    """The identities that lead to the chain, including those that its messages only refer to."""
    referred: tuple[str, ...] = ()
    """The names that messages of the chain refer to. A message that comes under one of them later is out of date."""
    inside: frozenset[K] = frozenset()
    """The subscriptions for which the matter is in force, by what was delivered to them."""
    outside: frozenset[K] = frozenset()
    """The subscriptions to which the matter was delivered, and for which it has since left or ended."""
    state: ChainState = ChainState.IN_FORCE
    expires: float | None = None
    touched: float = 0.0
    """When it last changed."""

    @property
    def keep_from(self) -> float:
        """The time from which on retention counts: its last change, or its end if that is later."""
        return max(self.touched, self.expires or 0.0)


class RelatedDelivery(NamedTuple, Generic[K]):
    """A message for a subscription, with its relation to earlier deliveries."""

    key: K
    relation: Relation | None
    """``None`` where the message has no life cycle."""


@dataclass(frozen=True, slots=True)
class Advance(Generic[K]):
    """The consequences of a message, or of the time."""

    effect: Effect
    chain: Chain[K] | None = None
    """The chain as it is now; ``None`` if there is none."""
    deliveries: tuple[RelatedDelivery[K], ...] = ()
    suppressed: tuple[K, ...] = ()
    """The subscriptions that the message matches and that do not get it."""
    withdrawn: tuple[K, ...] = ()
    """The subscriptions whose pending deliveries of :attr:`handles` are withdrawn."""
    handles: tuple[str | int, ...] = field(default=())
    """The earlier messages that are withdrawn."""


def _everybody(_: object) -> bool:
    return True


def merge(chains: Sequence[Chain[K]]) -> Chain[K]:
    """Returns several chains as one, when a message belongs to all of them."""
    if len(chains) == 1:
        return chains[0]
    inside = frozenset().union(*(chain.inside for chain in chains))
    expires = [chain.expires for chain in chains]
    held = [chain.state for chain in chains if chain.members]
    in_force = not held or ChainState.IN_FORCE in held
    return Chain(
        tuple(sorted({member for chain in chains for member in chain.members}, key=lambda one: (one.at, one.handle))),
        tuple(dict.fromkeys(name for chain in chains for name in chain.names)),
        tuple(dict.fromkeys(name for chain in chains for name in chain.referred)),
        inside,
        frozenset().union(*(chain.outside for chain in chains)) - inside,
        ChainState.IN_FORCE if in_force else held[0],
        None if None in expires else max((one for one in expires if one is not None), default=None),
        max((chain.touched for chain in chains), default=0.0),
    )


def advance(
    chains: Sequence[Chain[K]],
    facts: MessageFacts,
    matching: Sequence[K],
    *,
    at: float,
    handle: str | int,
    undecided: Collection[K] = (),
    follows: Callable[[K], bool] = _everybody,
    withdraw_expired: bool = False,
) -> Advance[K]:
    """Returns the chain with a message, and the deliveries of the message.

    Args:
        chains: The chains that have one of the names that :func:`names_of` returns for the message.
        facts: The facts that the profile found in the message.
        matching: The subscriptions that it matches.
        at: The time.
        handle: The caller's name of the message.
        undecided: The subscriptions that could not be decided on it. They count as matching if they are inside.
        follows: Whether a subscription gets what no longer matches it.
        withdraw_expired: Whether an expired matter is withdrawn where it is pending, and no longer delivered to
            anybody.
    """
    if not facts.takes_part:
        return Advance(Effect.APART, None, tuple(RelatedDelivery(key, None) for key in matching))
    run = _ChainStep(merge(chains), chains, facts, matching, at, handle, frozenset(undecided), follows)
    effect = run.effect()
    if effect is Effect.DUPLICATE:
        return run.repeat()
    if effect is Effect.SUPERSEDED:
        return run.fill()
    if effect is Effect.CANCEL:
        return run.close(effect, Relation.CANCELLED, ChainState.CANCELLED, withdraws=True)
    if effect in (Effect.END, Effect.EXPIRED):
        newly = effect is Effect.END or not withdraw_expired
        return run.close(effect, Relation.EXPIRED, ChainState.EXPIRED, withdraws=withdraw_expired, newly=newly)
    return run.renew(effect)


def names_of(facts: MessageFacts) -> tuple[str, ...]:
    """Returns the names by which the chains of a message are found."""
    if facts.identity is None or not facts.takes_part:
        return ()
    return tuple(dict.fromkeys((facts.identity, *facts.names, *facts.refers)))


def expire(
    chain: Chain[K], *, at: float, follows: Callable[[K], bool] = _everybody, withdraw: bool = False
) -> Advance[K] | None:
    """Returns the chain after its expiry, and whom to tell; ``None`` if it has not expired, or was over before.

    The deliveries are of no message: they name the subscriptions that learn of the end.
    """
    if chain.state is not ChainState.IN_FORCE or chain.expires is None or chain.expires > at:
        return None
    inside = sorted(chain.inside)
    over = replace(
        chain, state=ChainState.EXPIRED, inside=frozenset(), outside=chain.outside | chain.inside, touched=at
    )
    return Advance(
        Effect.EXPIRED,
        over,
        tuple(RelatedDelivery(key, Relation.EXPIRED) for key in inside if follows(key)),
        withdrawn=tuple(inside) if withdraw else (),
        handles=tuple(member.handle for member in chain.members) if withdraw else (),
    )


_OVER: Final = {ChainState.CANCELLED: Relation.CANCELLED, ChainState.EXPIRED: Relation.EXPIRED}


_REPEATED: Final = {
    MessageKind.CANCEL: (Effect.CANCEL, Effect.SUPERSEDED),
    MessageKind.END: (Effect.END, Effect.SUPERSEDED),
    MessageKind.UPDATE: (Effect.UPDATE, Effect.EXPIRED, Effect.SUPERSEDED),
}
"""By the kind of a message: the effects of an earlier message of the same version that this one merely repeats."""


@dataclass(frozen=True, slots=True)
class _ChainStep(Generic[K]):
    """The step of a chain by one message."""

    chain: Chain[K]
    parts: Sequence[Chain[K]]
    """The chains that were merged into this one."""
    facts: MessageFacts
    matching: Sequence[K]
    at: float
    handle: str | int
    undecided: frozenset[K]
    follows: Callable[[K], bool]

    def effect(self) -> Effect:
        """Returns the effect of the message."""
        facts, chain = self.facts, self.chain
        mine = [member for member in chain.members if member.identity == facts.identity]
        if any(is_same(member.version, facts.version) and self._is_repeated(member) for member in mine):
            return Effect.DUPLICATE
        if any(is_older(facts.version, member.version) for member in mine):
            return Effect.SUPERSEDED
        if not mine and facts.identity in chain.referred:
            return Effect.SUPERSEDED
        if facts.kind is MessageKind.CANCEL:
            return Effect.CANCEL
        if facts.kind is MessageKind.END:
            return Effect.END
        if facts.expires is not None and facts.expires <= self.at:
            return Effect.EXPIRED
        return Effect.UPDATE if chain.members or facts.kind is MessageKind.UPDATE else Effect.FIRST

    def _is_repeated(self, member: ChainMember) -> bool:
        """Returns whether the message says nothing new beside a member of the same version.

        Some update an alert, or call it off, under its own number and time: nobody must miss that.
        """
        return member.effect in _REPEATED.get(self.facts.kind, (member.effect,))

    def repeat(self) -> Advance[K]:
        """Delivers a repeated message to subscriptions that missed the first one, while it is the latest version."""
        chain = self.chain
        standing = [member for member in chain.members if member.effect is not Effect.SUPERSEDED]
        last = standing[-1] if standing else None
        is_last = (
            last is not None and last.identity == self.facts.identity and is_same(last.version, self.facts.version)
        )
        newly: list[K] = []
        if is_last and chain.state is ChainState.IN_FORCE:
            newly = [key for key in self.matching if key not in chain.inside and key not in chain.outside]
        among = frozenset(newly)
        return Advance(
            Effect.DUPLICATE,
            replace(chain, inside=chain.inside | among, touched=self.at) if newly else chain,
            tuple(RelatedDelivery(key, Relation.ENTERED) for key in newly),
            tuple(key for key in self.matching if key not in among),
        )

    def fill(self) -> Advance[K]:
        """Takes a message that later ones have overtaken. It may join their chain with that of earlier messages.

        A subscription may have got an earlier message and not the later ones, since nothing joined them until now. It
        gets this message, with the present state of the matter: nothing newer can be delivered to it any more.
        """
        later = [part for part in self.parts if self.facts.identity in part.names]
        now = merge(later)
        behind = frozenset().union(*(part.inside for part in self.parts if part not in later)) - now.inside
        matching = frozenset(self.matching)
        related: list[tuple[K, Relation]] = []
        for key in sorted(behind):
            if key in matching or self.follows(key):
                staying = Relation.UPDATED if key in matching else Relation.LEFT
                related.append((key, _OVER.get(now.state, staying)))
        inside = now.inside | {key for key, relation in related if relation is Relation.UPDATED}
        return Advance(
            Effect.SUPERSEDED,
            replace(
                self.extended(Effect.SUPERSEDED),
                inside=inside,
                outside=(self.chain.outside | behind) - inside,
                state=now.state,
                expires=now.expires,
            ),
            tuple(RelatedDelivery(*one) for one in related),
            tuple(key for key in self.matching if key not in behind),
        )

    def renew(self, effect: Effect) -> Advance[K]:
        """Replaces the messages before by this one."""
        inside, matching = self.chain.inside, frozenset(self.matching)
        staying = inside & (matching | self.undecided)
        leaving = inside - staying
        related = [(key, Relation.UPDATED if key in inside else Relation.ENTERED) for key in self.matching]
        related += [(key, Relation.UPDATED) for key in staying - matching]
        related += [(key, Relation.LEFT) for key in leaving if self.follows(key)]
        now = matching | staying
        return Advance(
            effect,
            replace(
                self.extended(effect),
                inside=now,
                outside=(self.chain.outside | leaving) - now,
                state=ChainState.IN_FORCE,
                expires=self.facts.expires,
            ),
            tuple(RelatedDelivery(*one) for one in sorted(related)),
        )

    def close(
        self, effect: Effect, relation: Relation, state: ChainState, *, withdraws: bool, newly: bool = True
    ) -> Advance[K]:
        """Ends the chain."""
        inside, matching = self.chain.inside, frozenset(self.matching)
        if self.chain.state is ChainState.IN_FORCE:
            # Subscriptions that it has left got the original, so they learn of the end, too.
            inside |= self.chain.outside
        getting = {key for key in inside if key in matching or self.follows(key)}
        if newly:
            getting |= matching
        return Advance(
            effect,
            replace(
                self.extended(effect),
                inside=frozenset(),
                outside=self.chain.outside | inside | getting,
                state=state,
                expires=self.facts.expires,
            ),
            tuple(RelatedDelivery(key, relation) for key in sorted(getting)),
            tuple(key for key in self.matching if key not in getting),
            tuple(sorted(inside)) if withdraws else (),
            tuple(member.handle for member in self.chain.members) if withdraws else (),
        )

    def extended(self, effect: Effect) -> Chain[K]:
        """Returns the chain with the message."""
        facts: MessageFacts = self.facts
        assert facts.identity is not None, "it takes part"
        member = ChainMember(facts.identity, facts.version, effect, self.at, self.handle)
        names = dict.fromkeys(self.chain.names)
        for name in names_of(facts):
            # The names of the latest message are the last ones to be forgotten.
            names.pop(name, None)
            names[name] = None
        referred = dict.fromkeys((*self.chain.referred, *(name for name in facts.refers if name != facts.identity)))
        return replace(
            self.chain,
            members=(*self.chain.members, member)[-MEMBERS_MAX:],
            names=tuple(names)[-NAMES_MAX:],
            referred=tuple(referred)[-NAMES_MAX:],
            touched=self.at,
        )
