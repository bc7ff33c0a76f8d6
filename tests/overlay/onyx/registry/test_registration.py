"""The registration service: choices of brokers, and a log that survives crashes, losses and partitions."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Hashable
from typing import Any

import pytest

from tests.seeds import seed_or
from twigcast.broker.overlay.registry.codec import read, write
from twigcast.lab.overlays.simulator import NetworkFaults, Simulator
from twigcast.overlay.onyx.content.routing_query import routing_query
from twigcast.overlay.onyx.messages import RoutingQuery
from twigcast.overlay.onyx.registry import raft
from twigcast.overlay.onyx.registry.catalogue import (
    AddBroker,
    Assigned,
    Placement,
    Reassigned,
    RegisterProfile,
    RegisterSource,
    Registry,
    RemoveBroker,
    RemoveProfile,
    RemoveSource,
)
from twigcast.overlay.onyx.registry.raft import Applied, NotLeading, PersistentState, RaftNode, RequestApplied, Restored

SEED = seed_or(20261128)
ROUNDS = int(os.environ.get("TWIGCAST_TEST_ROUNDS", "40"))


def query(area: int) -> RoutingQuery:
    return routing_query(f"/a[@area = '{area}']")


def registry(placement: Placement = Placement.BOTH) -> Registry:
    created = Registry(placement)
    for number, position in enumerate([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]):
        created.apply(number, AddBroker(number, position, 10_000.0))
    return created


def test_a_source_gets_a_near_root_until_that_has_enough_to_do() -> None:
    created = registry()
    assert created.apply(5, RegisterSource("s", (0.1, 0.0), rate=1, size=1_000)) == Assigned(0, 1)
    source = created.catalogue["s"]
    assert (source.root, source.version, source.is_gone) == (0, 5, False)
    # One that would take ten times what a broker can: no broker is near enough any more that has it.
    created.apply(6, RegisterSource("big", (0.0, 0.0), rate=100, size=1_000))
    created.apply(7, RegisterSource("next", (0.1, 0.1), rate=1, size=1_000))
    assert created.catalogue["next"].root != created.catalogue["big"].root
    assert created.apply(8, RemoveSource("big")) is True
    assert created.catalogue["big"].is_gone
    created.apply(9, RegisterSource("later", (0.1, 0.1), rate=1, size=1_000))
    assert created.catalogue["later"].root == 0
    # A change keeps the root.
    created.apply(10, RegisterSource("s", (1.0, 0.0), schema="<!ELEMENT a ANY>"))
    assert (created.catalogue["s"].root, created.catalogue["s"].version) == (0, 10)


def test_profiles_go_to_what_is_near_or_alike() -> None:
    near = registry(Placement.NEAREST)
    alike = registry(Placement.CONTENT)
    for created in (near, alike):
        created.apply(5, RegisterProfile("p1", (0.0, 0.0), query(1)))
        created.apply(6, RegisterProfile("p2", (1.0, 0.0), query(2)))
    assert near.apply(7, RegisterProfile("p3", (1.0, 0.0), query(1))) == Assigned(1, 0)
    first = alike.apply(7, RegisterProfile("p3", (1.0, 0.0), query(1)))
    again = alike.apply(8, RegisterProfile("p1", (0.0, 0.0), query(1)))
    assert isinstance(first, Assigned)
    assert isinstance(again, Assigned)
    assert first.broker == again.broker
    assert alike.apply(9, RemoveProfile("p3")) is True
    assert alike.apply(10, RemoveProfile("p3")) is False


def test_backups_take_over() -> None:
    created = registry()
    created.apply(5, RegisterSource("s", (0.1, 0.0)))
    hosted = created.apply(6, RegisterProfile("p", (0.0, 0.1), query(1)))
    assert isinstance(hosted, Assigned)
    moved = created.apply(7, RemoveBroker(0))
    assert isinstance(moved, Reassigned)
    assert [(source.name, source.root, source.version) for source in moved.sources] == [("s", 1, 7)]
    assert moved.profiles == (("p", hosted.backup),)
    created.apply(8, RemoveBroker(1))
    created.apply(9, RemoveBroker(2))
    assert created.apply(10, RegisterProfile("q", (0.0, 0.1), query(1))) == Assigned(None, None)
    created.apply(11, AddBroker(7, (5.0, 5.0), 1.0))
    assert created.apply(12, RegisterSource("s", (0.1, 0.0))) == Assigned(7, None)


class Ledger:
    """A machine that writes down what it was told to do."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def apply(self, index: int, command: Any) -> Any:
        self.done.append(command)
        return len(self.done)

    def state(self) -> str:
        return json.dumps(self.done)

    def restore(self, state: str) -> None:
        self.done = json.loads(state)


class Service:
    """Five replicas, some of which are down at times, and a client that repeats what was not answered."""

    def __init__(self, seed: int, entries_max: int = 0) -> None:
        self.rng = random.Random(seed)
        faults = NetworkFaults(0.002, 0.03, loss=self.rng.choice((0, 0.1)), duplication=0.05)
        self.simulator = Simulator(seed, faults, on_delivery=self.note)
        self.members = list(range(self.rng.choice((1, 3, 5))))
        self.entries_max = entries_max or self.rng.choice((2, 4, 1_000))
        self.kept = {member: PersistentState() for member in self.members}
        self.replied: dict[Hashable, Any] = {}
        self.applied: dict[int, Any] = {}
        self.faults: list[str] = []
        self.restored = 0
        for member in self.members:
            self.start(member)

    def start(self, member: int) -> None:
        replica = RaftNode(member, self.members, Ledger(), self.kept[member], entries_max=self.entries_max)
        replica.now = replica.last_contact = self.simulator.now
        self.simulator.add(replica)

    def note(self, time: float, member: int, item: Any) -> None:
        if isinstance(item, RequestApplied):
            if self.replied.setdefault(item.request, item.reply) != item.reply:
                self.faults.append(f"two replies to {item.request}")
        elif isinstance(item, Restored):
            self.restored += 1
        elif isinstance(item, Applied) and self.applied.setdefault(item.number, item.command) != item.command:
            self.faults.append(f"two commands at {item.number}")

    def ledgers(self) -> list[Ledger]:
        machines = [node.machine for node in self.simulator.nodes.values() if isinstance(node, RaftNode)]
        return [machine for machine in machines if isinstance(machine, Ledger)]

    def ask(self, request: str) -> None:
        alive = [member for member in self.members if member in self.simulator.nodes]
        if request not in self.replied and alive:
            member = self.rng.choice(alive)
            leader = self.simulator.node(member)
            assert isinstance(leader, RaftNode)
            target = leader.leader if leader.leader in alive else member
            self.simulator.command(target, RaftNode.request, request, f"do {request}")

    def step(self) -> None:
        draw = self.rng.random()
        member = self.rng.choice(self.members)
        if draw < 0.12 and member in self.simulator.nodes:
            self.simulator.remove(member)
        elif draw < 0.3 and member not in self.simulator.nodes:
            self.start(member)
        elif draw < 0.36:
            self.simulator.partition([self.rng.sample(self.members, len(self.members) // 2)])
        elif draw < 0.45:
            self.simulator.heal()


def test_what_was_answered_is_never_lost_and_nothing_is_done_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the log is kept whole, or shortened all the time and given in small pieces to those that were away."""
    monkeypatch.setattr(raft, "PIECE_CHARACTERS", 50)
    restored = 0
    for seed in range(SEED, SEED + ROUNDS):
        service = Service(seed)
        requests = [f"r{number}" for number in range(12)]
        for _ in range(60):
            service.step()
            service.ask(service.rng.choice(requests))
            service.simulator.run(until=service.simulator.now + service.rng.choice((0.02, 0.3, 1.0)))
        answered = dict(service.replied)
        service.simulator.heal()
        for member in service.members:
            if member not in service.simulator.nodes:
                service.start(member)
        for _ in range(200):
            for request in requests:
                service.ask(request)
            service.simulator.run(until=service.simulator.now + 0.5)
            if len(service.replied) == len(requests):
                break
        service.simulator.run(until=service.simulator.now + 3)
        about = f"seed {seed}"
        restored += service.restored
        assert all(len(kept.log) <= service.entries_max + 1 for kept in service.kept.values()), about
        assert not service.faults, (about, service.faults)
        assert len(service.replied) == len(requests), about
        ledgers = [ledger.done for ledger in service.ledgers()]
        assert all(ledger == ledgers[0] for ledger in ledgers), about
        assert sorted(ledgers[0]) == sorted(f"do {request}" for request in requests), about
        for done, reply in answered.items():
            assert ledgers[0][reply - 1] == f"do {done}", about
    assert restored or ROUNDS < 10


def test_who_was_away_across_a_shortening_gets_what_the_others_have_become() -> None:
    for seed in range(SEED, SEED + 20):
        service = Service(seed, entries_max=6)
        while len(service.members) < 3:
            seed += 1_000
            service = Service(seed, entries_max=6)
        away = service.rng.choice(service.members)
        requests = [f"r{number}" for number in range(40)]

        def all_done(some: list[str], service: Service = service) -> None:
            for _ in range(400):
                for request in some:
                    service.ask(request)
                service.simulator.run(until=service.simulator.now + 0.5)
                if all(request in service.replied for request in some):
                    return
            raise AssertionError("no answer")

        all_done(requests[:10])
        service.simulator.remove(away)
        behind = service.kept[away].last
        all_done(requests[10:])
        about = f"seed {seed}"
        assert min(kept.base for member, kept in service.kept.items() if member != away) > behind, about
        service.start(away)
        service.simulator.run(until=service.simulator.now + 30)
        replica = service.simulator.node(away)
        assert isinstance(replica, RaftNode)
        assert isinstance(replica.machine, Ledger)
        others = [ledger.done for ledger in service.ledgers()]
        assert replica.machine.done == others[0], about
        assert len(others[0]) == len(requests), about
        assert service.restored >= 1, about
        assert not service.faults, about
        # What was carried out before is known there too: asked again, it is not done again.
        assert replica.replies["r0"] == service.replied["r0"], about


def test_a_registry_goes_on_where_another_one_was() -> None:
    """Through a text, at a random place: the same replies to the same commands, and the same catalogue."""
    for seed in range(SEED, SEED + ROUNDS):
        rng = random.Random(seed)
        created = Registry(rng.choice(list(Placement)))
        other: Registry | None = None
        for index in range(1, 120):
            command = some_command(rng)
            reply = created.apply(index, command)
            if other is not None:
                assert other.apply(index, command) == reply, (seed, index, command)
            if (other is None and rng.random() < 0.02) or index == 60:
                other = Registry(created._placement)
                other.apply(0, AddBroker(99, (0.0, 0.0), 1.0))
                other.restore(read(write(created.state())))
        assert other is not None
        assert other.state() == created.state(), seed


def some_command(rng: random.Random) -> Any:
    position = rng.random(), rng.random()
    name, number = f"n{rng.randrange(8)}", rng.randrange(5)
    owner = rng.choice(("", "k"))
    return rng.choice(
        (
            AddBroker(number, position, rng.choice((0.0, 1e4, 1e6 / 3))),
            RemoveBroker(number),
            RegisterSource(name, position, "<!ELEMENT a ANY>", rng.random() * 3, rng.randrange(9_000), owner),
            RemoveSource(name, owner),
            RegisterProfile(name, position, query(number)),
            RegisterProfile(name, position, query(number)),
            RemoveProfile(name),
        )
    )


def test_a_follower_names_the_leader() -> None:
    service = Service(SEED)
    service.simulator.run(until=5)
    replicas = [node for node in service.simulator.nodes.values() if isinstance(node, RaftNode)]
    (leader,) = [replica for replica in replicas if replica.role == "leader"]
    for replica in replicas:
        if replica is not leader:
            replica.request("r", "do r")
            assert replica.drain().deliveries == [NotLeading("r", leader.address)]
