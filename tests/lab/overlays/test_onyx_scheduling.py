"""Scheduling: what gets messages on their way first, nothing for links that do not get the message."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence

import pytest

from tests.seeds import seed_or
from twigcast import SubscriptionSet
from twigcast.answers import Deliveries
from twigcast.lab.overlays.onyx.scheduling import (
    Execution,
    LinkOutput,
    LocalOutput,
    Plan,
    PlanOperator,
    Priority,
    process,
)
from twigcast.overlay.onyx.content.projection import QueryText, Transformation
from twigcast.overlay.onyx.content.routing_query import routing_query
from twigcast.overlay.onyx.content.routing_table import RoutingTable
from twigcast.overlay.onyx.messages import EVERYWHERE, RoutingDelta

SEED = seed_or(20261128)
ROUNDS = int(os.environ.get("TWIGCAST_TEST_ROUNDS", "300"))


def _succeeding(succeeds: bool) -> Callable[[Sequence[object]], object]:
    return lambda _inputs: succeeds


def random_plan(rng: random.Random) -> Plan:
    operators: list[PlanOperator] = []
    for name in range(rng.randint(1, 30)):
        inputs = tuple(sorted(rng.sample(range(name), min(name, rng.choice((0, 1, 1, 2, 3))))))
        ends = rng.random()
        succeeds = rng.random() < 0.5
        operators.append(
            PlanOperator(
                name,
                inputs,
                _succeeding(succeeds),
                routes=frozenset({rng.randrange(4)}) if ends < 0.2 else frozenset(),
                transforms=frozenset({rng.randrange(4)}) if 0.2 < ends < 0.45 else frozenset(),
                serves=0.4 < ends < 0.7,
            )
        )
    return Plan(operators)


def check_step(plan: Plan, execution: Execution) -> bool:
    before = execution.ready()
    selected = frozenset(execution.selected)
    name = execution.step()
    if name is None:
        return False
    chosen = next(priority for priority in Priority if before[priority])
    assert name == before[chosen][0], "first come, first served, of the most urgent class"
    if plan.priority(name) is Priority.MEDIUM:
        assert plan.transforms(name) & selected or plan.serves(name)
        if not plan.transforms(name) & selected:
            high = {each for each in plan.operators if plan.priority(each) is Priority.HIGH}
            assert high <= set(execution.order), "for users alone it runs after routing is decided"
    return True


def test_random_plans_run_in_order_and_completely() -> None:
    waited = 0
    for number in range(ROUNDS):
        seed = SEED + number
        rng = random.Random(seed)
        plan = random_plan(rng)
        execution = plan.execute()
        while check_step(plan, execution):
            pass
        ran = set(execution.order)
        assert len(ran) == len(execution.order), f"seed {seed}"
        for name, operator in plan.operators.items():
            position = execution.order.index(name) if name in ran else -1
            assert name not in ran or all(supplied in execution.order[:position] for supplied in operator.inputs)
            is_high = plan.priority(name) is Priority.HIGH
            needed = is_high or plan.serves(name) or bool(plan.transforms(name) & execution.selected)
            is_idle = not (is_high or plan.serves(name) or plan.transforms(name))
            waited += name not in ran
            assert is_idle or (name in ran) == needed, f"seed {seed}, operator {name}"
    assert waited > ROUNDS / 4


def test_a_transformation_runs_as_soon_as_its_link_is_selected() -> None:
    """Two routes: that of link 1 succeeds, that of 2 fails; users' work stands behind both and the transformation."""
    plan = Plan(
        [
            PlanOperator("local", (), lambda _inputs: True, serves=True),
            PlanOperator("project 1", (), lambda _inputs: True, transforms=frozenset({1})),
            PlanOperator("project 2", (), lambda _inputs: True, transforms=frozenset({2})),
            PlanOperator("shared", (), lambda _inputs: True, transforms=frozenset({2}), serves=True),
            PlanOperator("route 1", (), lambda _inputs: True, routes=frozenset({1})),
            PlanOperator("route 2", (), lambda _inputs: False, routes=frozenset({2})),
        ]
    )
    assert plan.execute().run().order == ["route 1", "route 2", "project 1", "local", "shared"]


def test_what_feeds_routing_is_urgent_whatever_else_it_feeds() -> None:
    plan = Plan(
        [
            PlanOperator("path", (), lambda _inputs: True),
            PlanOperator("join", ("path",), lambda inputs: inputs == [True], routes=frozenset({1})),
            PlanOperator("user", ("path",), lambda _inputs: True, serves=True),
        ]
    )
    assert [plan.priority(name) for name in plan.operators] == [Priority.HIGH, Priority.HIGH, Priority.LOW]
    execution = plan.execute().run()
    assert execution.selected == {1}


def test_a_plan_in_the_wrong_order_is_refused() -> None:
    with pytest.raises(ValueError, match="comes before one of its inputs"):
        Plan([PlanOperator("b", ("a",), lambda _inputs: True), PlanOperator("a", (), lambda _inputs: True)])


def test_the_rule_over_the_engine() -> None:
    table = RoutingTable()
    for neighbour, query in {1: "/b/n", 2: "/b/n[@x = 1]", 3: "/b/m", 4: "/b"}.items():
        requested = tuple((disjunct, EVERYWHERE) for disjunct in routing_query(query))
        assert table.apply(neighbour, RoutingDelta(0, requested, ()))
    users = SubscriptionSet()
    users.add("user", "/b/n/a")
    done: list[str] = []

    class Watched(Transformation):
        def run(self, message: bytes) -> bytes | None:
            done.append("transformed")
            return super().run(message)

    def deliver(xml: bytes) -> Deliveries:
        done.append("users")
        return users.deliver(xml)

    projection = Watched([QueryText("<b>{ for $n in /b/n where $n/@x = 1 return $n }</b>", ())])
    message = b"<b><n><a/></n><n x='1'/></b>"
    stages = process(
        message,
        lambda xml: table.route(xml, "", 0, [1, 2, 3, 4]),
        {2: projection, 3: projection},
        deliver,
    )
    assert next(stages) == LinkOutput(1, message)
    assert next(stages) == LinkOutput(4, message)
    assert done == []
    assert next(stages) == LinkOutput(2, b"<b><n x='1'/></b>")
    assert done == ["transformed"]
    (last,) = stages
    assert isinstance(last, LocalOutput)
    assert [delivery.key for delivery in last.deliveries] == ["user"]
    assert done == ["transformed", "users"]
