"""The registration service: which broker is the root of a source, which one hosts a profile (Diao 2005, section 7.2.1).

What the service knows is a state machine, carried out on a replicated log (:mod:`twigcast.overlay.onyx.registry.raft`),
so that a few nodes can give it together and survive one another. Its answer to a source is the root broker, which gets
an entry of the catalogue; its answer to a user is the host broker. Each has a backup broker as well, which takes over
when the first is declared gone.

The root is chosen by distance to the source and expected volume, the host by distance, by content, or by both. By
*content* a profile goes where profiles with the same conditions are already: then a message that it wants is wanted
there anyway. How long a way is worth how much load is the weight `load_weight`.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import LinearPath, RoutingQuery, SourceEntry

#: Where somebody is, on any map on which distances mean something.
Location: TypeAlias = tuple[float, float]


class Placement(enum.Enum):
    """How the host of a profile is chosen."""

    NEAREST = "nearest"
    CONTENT = "content"
    BOTH = "both"


class AddBroker(NamedTuple):
    """A broker offers its services, or says something else of itself."""

    broker: Address
    location: Location
    #: Bytes a second that it can take from sources.
    capacity: float


class RemoveBroker(NamedTuple):
    """A broker is gone for good: what it did is given to the backups."""

    broker: Address


class RegisterSource(NamedTuple):
    """A source, or what has changed about it; it keeps its root."""

    name: str
    location: Location
    schema: str = ""
    rate: float = 1.0
    size: int = 1_000
    #: SHA-256 of its key, in hexadecimal; what has another one is another source.
    owner: str = ""


class RemoveSource(NamedTuple):
    """A source publishes no more."""

    name: str
    owner: str = ""


class RegisterProfile(NamedTuple):
    """A user's query, by its routing query."""

    profile: str
    location: Location
    query: RoutingQuery


class RemoveProfile(NamedTuple):
    """A user has no such query any more. Changes without a move are told the host, not the service."""

    profile: str


class Assigned(NamedTuple):
    """Reply: who does it, and who would if that one were gone. `None`: there is nobody."""

    broker: Address | None
    backup: Address | None


class NameTaken(NamedTuple):
    """Reply: another source has this name."""

    name: str


class Reassigned(NamedTuple):
    """Reply to `RemoveBroker`: sources and profiles with their new brokers."""

    sources: tuple[SourceEntry, ...]
    profiles: tuple[tuple[str, Address], ...]


class RegistryState(NamedTuple):
    """All that a registry knows, in the order in which it came to know it.

    Attributes:
        brokers: With what each is expected to carry, in bytes a second: not computed anew, since sums of fractions
            depend on their order, and replicas must not differ by a last digit.
        sources: With who has them.
        profiles: The same.
        catalogue: All entries, also of sources that are gone.
    """

    brokers: tuple[tuple[AddBroker, float], ...]
    sources: tuple[tuple[RegisterSource, Assigned], ...]
    profiles: tuple[tuple[RegisterProfile, Assigned], ...]
    catalogue: tuple[SourceEntry, ...]


@dataclass(slots=True)
class _Broker:
    location: Location
    capacity: float
    volume: float = 0.0
    profiles: int = 0
    conditions: Counter[LinearPath] = field(default_factory=Counter)


@dataclass(slots=True)
class _Profile:
    registration: RegisterProfile
    assigned: Assigned


class Registry:
    """The state machine.

    Attributes:
        catalogue: All sources, by name; of those that are gone, that they are.
    """

    def __init__(self, placement: Placement = Placement.BOTH, load_weight: float = 0.5) -> None:
        """Nobody is known yet.

        Args:
            placement: How hosts are chosen.
            load_weight: What a fully loaded broker counts for, in units of distance.
        """
        self.catalogue: dict[str, SourceEntry] = {}
        self._placement = placement
        self._load_weight = load_weight
        self._brokers: dict[Address, _Broker] = {}
        self._sources: dict[str, tuple[RegisterSource, Assigned]] = {}
        self._profiles: dict[str, _Profile] = {}

    def apply(self, index: int, command: object) -> object:
        """Carry out a command of the log.

        Returns:
            `Assigned` for what is registered, `NameTaken` where the name is another's, `Reassigned` for a broker that
            is gone, otherwise whether there was anything.
        """
        match command:
            case AddBroker():
                existing = self._brokers.get(command.broker)
                if existing is None:
                    self._brokers[command.broker] = _Broker(command.location, command.capacity)
                else:
                    existing.location, existing.capacity = command.location, command.capacity
                return existing is None
            case RemoveBroker():
                return self._remove_broker(index, command.broker)
            case RegisterSource():
                return self._register_source(index, command)
            case RemoveSource():
                return self._remove_source(index, command)
            case RegisterProfile():
                return self._register_profile(command)
            case RemoveProfile():
                return self._remove_profile(command.profile)
        return False

    def state(self) -> RegistryState:
        """What it knows, for another one to begin with."""
        return RegistryState(
            tuple((AddBroker(number, one.location, one.capacity), one.volume) for number, one in self._brokers.items()),
            tuple(self._sources.values()),
            tuple((profile.registration, profile.assigned) for profile in self._profiles.values()),
            tuple(self.catalogue.values()),
        )

    def restore(self, state: RegistryState) -> None:
        """Know what another one knew, and nothing else."""
        self._brokers = {
            broker.broker: _Broker(broker.location, broker.capacity, volume) for broker, volume in state.brokers
        }
        self._sources = {source.name: (source, assigned) for source, assigned in state.sources}
        self._profiles = {}
        for interest, assigned in state.profiles:
            self._host(interest, assigned)
        self.catalogue = {source.name: source for source in state.catalogue}

    # Sources.

    def _register_source(
        self, index: int, source: RegisterSource, prefer: Address | None = None
    ) -> Assigned | NameTaken:
        existing = self._sources.get(source.name)
        if existing is not None and existing[0].owner != source.owner:
            return NameTaken(source.name)
        if existing is None or existing[1].broker is None:
            assigned = self._assign(lambda broker: self._root_cost(broker, source), prefer)
        else:
            assigned = existing[1]
            self._add_volume(assigned.broker, -_volume(existing[0]))
        self._add_volume(assigned.broker, _volume(source))
        self._sources[source.name] = source, assigned
        if assigned.broker is not None:
            self.catalogue[source.name] = SourceEntry(
                source.name, index, assigned.broker, source.schema, source.rate, source.size, owner=source.owner
            )
        return assigned

    def _root_cost(self, broker: Address, source: RegisterSource) -> float:
        state = self._brokers[broker]
        load = (state.volume + _volume(source)) / state.capacity if state.capacity > 0 else math.inf
        return math.dist(state.location, source.location) + self._load_weight * load

    def _add_volume(self, broker: Address | None, volume: float) -> None:
        if broker in self._brokers:
            self._brokers[broker].volume += volume

    def _remove_source(self, index: int, command: RemoveSource) -> bool | NameTaken:
        name, existing = command.name, self._sources.get(command.name)
        if existing is None:
            return False
        if existing[0].owner != command.owner:
            return NameTaken(name)
        del self._sources[name]
        self._add_volume(existing[1].broker, -_volume(existing[0]))
        if name in self.catalogue:
            self.catalogue[name] = self.catalogue[name]._replace(version=index, is_gone=True)
        return True

    # Profiles.

    def _register_profile(self, interest: RegisterProfile, prefer: Address | None = None) -> Assigned:
        self._remove_profile(interest.profile)
        assigned = self._assign(lambda broker: self._host_cost(broker, interest), prefer)
        self._host(interest, assigned)
        return assigned

    def _host(self, interest: RegisterProfile, assigned: Assigned) -> None:
        self._profiles[interest.profile] = _Profile(interest, assigned)
        host = None if assigned.broker is None else self._brokers.get(assigned.broker)
        if host is not None:
            host.profiles += 1
            host.conditions.update(_conditions(interest.query))

    def _host_cost(self, broker: Address, interest: RegisterProfile) -> float:
        state = self._brokers[broker]
        mean = max(1.0, sum(other.profiles for other in self._brokers.values()) / len(self._brokers))
        cost = self._load_weight * 0.5 * state.profiles / mean
        if self._placement is not Placement.CONTENT:
            cost += math.dist(state.location, interest.location)
        if self._placement is not Placement.NEAREST:
            # All of its conditions are known there: as good as being there. None is: a unit of distance.
            conditions = _conditions(interest.query)
            existing = sum(path in state.conditions for path in conditions)
            cost += 1 - existing / len(conditions) if conditions else 0
        return cost

    def _remove_profile(self, name: str) -> bool:
        profile = self._profiles.pop(name, None)
        if profile is None:
            return False
        host = self._brokers.get(profile.assigned.broker) if profile.assigned.broker is not None else None
        if host is not None:
            host.profiles -= 1
            host.conditions.subtract(_conditions(profile.registration.query))
            host.conditions += Counter()
        return True

    # Brokers.

    def _remove_broker(self, index: int, broker: Address) -> Reassigned:
        self._brokers.pop(broker, None)
        sources = []
        for name, (source, assigned) in list(self._sources.items()):
            if broker in assigned:
                del self._sources[name]
                self._add_volume(assigned.broker, -_volume(source))
                fresh = self._register_source(index, source, prefer=_survivor(assigned, broker))
                assert isinstance(fresh, Assigned)
                if fresh.broker not in (None, assigned.broker):
                    sources.append(self.catalogue[name])
        profiles = []
        for name, profile in list(self._profiles.items()):
            if broker in profile.assigned:
                before = profile.assigned
                fresh = self._register_profile(profile.registration, prefer=_survivor(before, broker))
                if fresh.broker is not None and fresh.broker != before.broker:
                    profiles.append((name, fresh.broker))
        return Reassigned(tuple(sources), tuple(profiles))

    @property
    def brokers(self) -> dict[Address, AddBroker]:
        """The brokers that offer their services."""
        return {number: AddBroker(number, state.location, state.capacity) for number, state in self._brokers.items()}

    def choose(self, interest: RegisterProfile) -> Assigned:
        """Which broker a profile would get now; nothing is registered."""
        return self._assign(lambda broker: self._host_cost(broker, interest), None)

    def _assign(self, cost: Callable[[Address], float], prefer: Address | None) -> Assigned:
        """The cheapest broker, or the preferred one; and the cheapest other as its backup."""
        order = sorted(self._brokers, key=lambda broker: (broker != prefer, cost(broker), broker))
        return Assigned(order[0] if order else None, order[1] if len(order) > 1 else None)


def _survivor(assigned: Assigned, gone: Address) -> Address | None:
    return assigned.backup if assigned.broker == gone else assigned.broker


def _volume(source: RegisterSource) -> float:
    return source.rate * source.size


def _conditions(requested: RoutingQuery) -> set[LinearPath]:
    return {path for disjunct in requested for path in disjunct.paths}
