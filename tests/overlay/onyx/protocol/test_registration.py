"""The registration service: choices of brokers, and a log that survives crashes, losses and partitions."""

from __future__ import annotations

import os
import random
from collections.abc import Hashable
from typing import Any

from twigcast.overlay.onyx.model import RoutingQuery
from twigcast.overlay.onyx.registration import (
    AddBroker,
    Assigned,
    Moved,
    Placement,
    RegisterProfile,
    RegisterSource,
    Registry,
    RemoveBroker,
    RemoveProfile,
    RemoveSource,
)
from twigcast.overlay.onyx.replicated import Applied, Durable, NotLeading, Replica, Replied
from twigcast.overlay.onyx.routing import routing_query
from twigcast.overlay.simulator import NetworkFaults, Simulator

SEED = int(os.environ.get("TWIGCAST_SEED", "20261128"))
ROUNDS = int(os.environ.get("TWIGCAST_ROUNDS", "40"))


def query(area: int) -> RoutingQuery:
    return routing_query(f"/a[@area = '{area}']")


def registry(placement: Placement = Placement.BOTH) -> Registry:
    made = Registry(placement)
    for number, place in enumerate([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]):
        made.apply(number, AddBroker(number, place, 10_000.0))
    return made


def test_a_source_gets_a_near_root_until_that_has_enough_to_do() -> None:
    made = registry()
    assert made.apply(5, RegisterSource("s", (0.1, 0.0), rate=1, size=1_000)) == Assigned(0, 1)
    source = made.catalogue["s"]
    assert (source.root, source.version, source.is_gone) == (0, 5, False)
    # One that would take ten times what a broker can: no broker is near enough any more that has it.
    made.apply(6, RegisterSource("big", (0.0, 0.0), rate=100, size=1_000))
    made.apply(7, RegisterSource("next", (0.1, 0.1), rate=1, size=1_000))
    assert made.catalogue["next"].root != made.catalogue["big"].root
    assert made.apply(8, RemoveSource("big")) is True
    assert made.catalogue["big"].is_gone
    made.apply(9, RegisterSource("later", (0.1, 0.1), rate=1, size=1_000))
    assert made.catalogue["later"].root == 0
    # A change keeps the root.
    made.apply(10, RegisterSource("s", (1.0, 0.0), schema="<!ELEMENT a ANY>"))
    assert (made.catalogue["s"].root, made.catalogue["s"].version) == (0, 10)


def test_profiles_go_to_what_is_near_or_alike() -> None:
    near = registry(Placement.NEAREST)
    alike = registry(Placement.CONTENT)
    for made in (near, alike):
        made.apply(5, RegisterProfile("p1", (0.0, 0.0), query(1)))
        made.apply(6, RegisterProfile("p2", (1.0, 0.0), query(2)))
    assert near.apply(7, RegisterProfile("p3", (1.0, 0.0), query(1))) == Assigned(1, 0)
    first = alike.apply(7, RegisterProfile("p3", (1.0, 0.0), query(1)))
    again = alike.apply(8, RegisterProfile("p1", (0.0, 0.0), query(1)))
    assert isinstance(first, Assigned)
    assert isinstance(again, Assigned)
    assert first.broker == again.broker
    assert alike.apply(9, RemoveProfile("p3")) is True
    assert alike.apply(10, RemoveProfile("p3")) is False


def test_backups_take_over() -> None:
    made = registry()
    made.apply(5, RegisterSource("s", (0.1, 0.0)))
    hosted = made.apply(6, RegisterProfile("p", (0.0, 0.1), query(1)))
    assert isinstance(hosted, Assigned)
    moved = made.apply(7, RemoveBroker(0))
    assert isinstance(moved, Moved)
    assert [(source.name, source.root, source.version) for source in moved.sources] == [("s", 1, 7)]
    assert moved.profiles == (("p", hosted.backup),)
    made.apply(8, RemoveBroker(1))
    made.apply(9, RemoveBroker(2))
    assert made.apply(10, RegisterProfile("q", (0.0, 0.1), query(1))) == Assigned(None, None)
    made.apply(11, AddBroker(7, (5.0, 5.0), 1.0))
    assert made.apply(12, RegisterSource("s", (0.1, 0.0))) == Assigned(7, None)


class Ledger:
    """A machine that writes down what it was told to do."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def apply(self, index: int, command: Any) -> Any:
        self.done.append(command)
        return len(self.done)


class Service:
    """Five replicas, some of which are down at times, and a client that repeats what was not answered."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        faults = NetworkFaults(0.002, 0.03, loss=self.rng.choice((0, 0.1)), duplication=0.05)
        self.simulator = Simulator(seed, faults, on_delivery=self.note)
        self.members = list(range(self.rng.choice((1, 3, 5))))
        self.kept = {member: Durable() for member in self.members}
        self.replied: dict[Hashable, Any] = {}
        self.applied: dict[int, Any] = {}
        self.faults: list[str] = []
        for member in self.members:
            self.start(member)

    def start(self, member: int) -> None:
        replica = Replica(member, self.members, Ledger(), self.kept[member])
        replica.now = replica.heard = self.simulator.now
        self.simulator.add(replica)

    def note(self, time: float, member: int, item: Any) -> None:
        if isinstance(item, Replied):
            if self.replied.setdefault(item.request, item.reply) != item.reply:
                self.faults.append(f"two replies to {item.request}")
        elif isinstance(item, Applied) and self.applied.setdefault(item.number, item.command) != item.command:
            self.faults.append(f"two commands at {item.number}")

    def ledgers(self) -> list[Ledger]:
        machines = [node.machine for node in self.simulator.nodes.values() if isinstance(node, Replica)]
        return [machine for machine in machines if isinstance(machine, Ledger)]

    def ask(self, request: str) -> None:
        alive = [member for member in self.members if member in self.simulator.nodes]
        if request not in self.replied and alive:
            member = self.rng.choice(alive)
            leader = self.simulator.node(member)
            assert isinstance(leader, Replica)
            target = leader.leader if leader.leader in alive else member
            self.simulator.command(target, Replica.request, request, f"do {request}")

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


def test_what_was_answered_is_never_lost_and_nothing_is_done_twice() -> None:
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
        assert not service.faults, (about, service.faults)
        assert len(service.replied) == len(requests), about
        ledgers = [ledger.done for ledger in service.ledgers()]
        assert all(ledger == ledgers[0] for ledger in ledgers), about
        assert sorted(ledgers[0]) == sorted(f"do {request}" for request in requests), about
        for done, reply in answered.items():
            assert ledgers[0][reply - 1] == f"do {done}", about


def test_a_follower_names_the_leader() -> None:
    service = Service(SEED)
    service.simulator.run(until=5)
    replicas = [node for node in service.simulator.nodes.values() if isinstance(node, Replica)]
    (leader,) = [replica for replica in replicas if replica.role == "leader"]
    for replica in replicas:
        if replica is not leader:
            replica.request("r", "do r")
            assert replica.drain().deliveries == [NotLeading("r", leader.address)]
