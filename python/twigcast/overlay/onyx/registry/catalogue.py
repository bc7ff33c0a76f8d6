"""The registration service: the root of each source and the host of each profile (Diao 2005, section 7.2.1).

The service is a state machine on a replicated log (:mod:`twigcast.overlay.onyx.registry.raft`), so that a few nodes can
offer it together. A source gets a root broker and an entry of the catalogue; a user's profile gets a host broker. Each
has a backup broker as well, which takes over when the first is removed.

The root is chosen by distance to the source and expected volume, the host by distance, by content, or by both. By
*content* a profile goes where profiles with the same conditions are already, since a message that it wants is wanted
there anyway. `load_weight` relates load to distance.
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

#: A point on any map with meaningful distances.
Location: TypeAlias = tuple[float, float]


class Placement(enum.Enum):
    """The criterion for the host of a profile."""

    NEAREST = "nearest"
    CONTENT = "content"
    BOTH = "both"


class AddBroker(NamedTuple):
    """A command that adds a broker or changes its description."""

    broker: Address
    location: Location
    #: Bytes per second that it can take from sources.
    capacity: float


class RemoveBroker(NamedTuple):
    """A command that removes a broker. Its sources and profiles go to their backups."""

    broker: Address


class RegisterSource(NamedTuple):
    """A command that adds a source, or changes it without changing its root."""

    name: str
    location: Location
    schema: str = ""
    rate: float = 1.0
    size: int = 1_000
    #: SHA-256 of its key, in hexadecimal; with another one, it is another source.
    owner: str = ""


class RemoveSource(NamedTuple):
    """A command that removes a source."""

    name: str
    owner: str = ""


class RegisterProfile(NamedTuple):
    """A command that adds a user's query, given its routing query."""

    profile: str
    location: Location
    query: RoutingQuery


class RemoveProfile(NamedTuple):
    """A command that removes a user's query. The host, not the service, handles other changes."""

    profile: str


class Assigned(NamedTuple):
    """A reply: the chosen broker and its backup; `None` if there is none."""

    broker: Address | None
    backup: Address | None


class NameTaken(NamedTuple):
    """A reply: another source has this name."""

    name: str


class Reassigned(NamedTuple):
    """A reply to `RemoveBroker`: sources and profiles with their new brokers."""

    sources: tuple[SourceEntry, ...]
    profiles: tuple[tuple[str, Address], ...]


class RegistryState(NamedTuple):
    """The state of a registry, in the order in which it was made."""

    #: Brokers with their expected volume in bytes per second. The volume is stored, since sums of fractions depend on
    #: their order, and replicas must not differ in the last digit.
    brokers: tuple[tuple[AddBroker, float], ...]
    sources: tuple[tuple[RegisterSource, Assigned], ...]  #: Sources with their brokers.
    profiles: tuple[tuple[RegisterProfile, Assigned], ...]  #: Profiles with their brokers.
    catalogue: tuple[SourceEntry, ...]  #: All entries, also of removed sources.


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
    """The state machine of the registration service.

    Attributes:
        catalogue: The entries of all sources by name, also of removed ones.
    """

    def __init__(self, placement: Placement = Placement.BOTH, load_weight: float = 0.5) -> None:
        """Begins without brokers.

        Args:
            placement: The criterion for hosts.
            load_weight: The cost of a fully loaded broker, in units of distance.
        """
        self.catalogue: dict[str, SourceEntry] = {}
        self._placement = placement
        self._load_weight = load_weight
        self._brokers: dict[Address, _Broker] = {}
        self._sources: dict[str, tuple[RegisterSource, Assigned]] = {}
        self._profiles: dict[str, _Profile] = {}

    def apply(self, index: int, command: object) -> object:
        """Carries out a command of the log.

        #: The entries of all sources by name, also of removed ones.
        self.catalogue: dict[str, SourceEntry] = {}
        otherwise whether anything has changed.
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
        """Returns the state, for `restore` of another registry."""
        return RegistryState(
            tuple((AddBroker(number, one.location, one.capacity), one.volume) for number, one in self._brokers.items()),
            tuple(self._sources.values()),
            tuple((profile.registration, profile.assigned) for profile in self._profiles.values()),
            tuple(self.catalogue.values()),
        )

    def restore(self, state: RegistryState) -> None:
        """Replaces the state by that of another registry."""
        self._brokers = {
            broker.broker: _Broker(broker.location, broker.capacity, volume) for broker, volume in state.brokers
        }
        self._sources = {source.name: (source, assigned) for source, assigned in state.sources}
        self._profiles = {}
        for profile, assigned in state.profiles:
            self._host(profile, assigned)
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

    def _register_profile(self, profile: RegisterProfile, prefer: Address | None = None) -> Assigned:
        self._remove_profile(profile.profile)
        assigned = self._assign(lambda broker: self._host_cost(broker, profile), prefer)
        self._host(profile, assigned)
        return assigned

    def _host(self, profile: RegisterProfile, assigned: Assigned) -> None:
        self._profiles[profile.profile] = _Profile(profile, assigned)
        host = None if assigned.broker is None else self._brokers.get(assigned.broker)
        if host is not None:
            host.profiles += 1
            host.conditions.update(_conditions(profile.query))

    def _host_cost(self, broker: Address, profile: RegisterProfile) -> float:
        state = self._brokers[broker]
        mean = max(1.0, sum(other.profiles for other in self._brokers.values()) / len(self._brokers))
        cost = self._load_weight * 0.5 * state.profiles / mean
        if self._placement is not Placement.CONTENT:
            cost += math.dist(state.location, profile.location)
        if self._placement is not Placement.NEAREST:
            # Conditions that no profile there has cost up to one unit of distance.
            conditions = _conditions(profile.query)
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
        """The registered brokers."""
        return {number: AddBroker(number, state.location, state.capacity) for number, state in self._brokers.items()}

    def choose(self, profile: RegisterProfile) -> Assigned:
        """Returns the broker that a profile would get. Nothing is registered."""
        return self._assign(lambda broker: self._host_cost(broker, profile), None)

    def _assign(self, cost: Callable[[Address], float], prefer: Address | None) -> Assigned:
        """Returns the preferred or else the cheapest broker, and the cheapest other as its backup."""
        order = sorted(self._brokers, key=lambda broker: (broker != prefer, cost(broker), broker))
        return Assigned(order[0] if order else None, order[1] if len(order) > 1 else None)


def _survivor(assigned: Assigned, gone: Address) -> Address | None:
    return assigned.backup if assigned.broker == gone else assigned.broker


def _volume(source: RegisterSource) -> float:
    return source.rate * source.size


def _conditions(requested: RoutingQuery) -> set[LinearPath]:
    return {path for disjunct in requested for path in disjunct.paths}
