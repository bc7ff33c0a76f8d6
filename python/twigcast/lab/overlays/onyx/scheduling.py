"""Dependency-aware priority scheduling of the operators of one broker's plan (Diao 2005, section 7.4.1).

One plan holds all that a broker does with a message: the routing queries and the transformation queries of its links,
and the queries of its users. Shared parts occur once. An operator can run when its inputs have finished. Of those that
can run, the most urgent class runs first:

* *high*: operators that contribute to a routing query;
* *medium*: others that contribute to a transformation query. These are *dependent*: one may run only if a
  transformation query to which it contributes is needed, that is, if the routing query of its link has succeeded;
* *low*: the rest, which serve the broker's own users.

Each class has a queue, first in, first out. A dependent operator whose condition is not true yet is in a wait queue. So
work for the broker's own users never delays forwarding, and nothing is transformed for a link that does not get the
message.

The thesis discards the wait queue at the end of a message. But users' queries may need an operator in it as well. So
when no high operator is left, and routing is decided, such an operator is treated as a low one.

:class:`Plan` is the readable form over single operators. The compiled engine decides whole stages at a time;
:func:`process` is the same rule there. The broker keeps the order, without queues: see
:mod:`twigcast.overlay.onyx.protocol.forwarding` and decision 0025. The tests compare the two forms on random plans.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from twigcast.answers import Deliveries
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.projection import Transformation

#: Name of an operator.
Name: TypeAlias = Hashable


class Priority(IntEnum):
    """The classes of operators, the most urgent first."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


class PlanOperator(NamedTuple):
    """An operator of the plan.

    Attributes:
        name: Identifies it.
        inputs: Operators that must have finished before.
        run: Computes its result from those of its inputs; a true one means success.
        routes: Links whose routing query it decides when it succeeds.
        transforms: Links whose transformation query ends at it.
        serves: Whether a user's query ends at it.
    """

    name: Name
    inputs: tuple[Name, ...]
    run: Callable[[Sequence[object]], object]
    routes: frozenset[Address] = frozenset()
    transforms: frozenset[Address] = frozenset()
    serves: bool = False


class _Contributes(NamedTuple):
    """The queries to which an operator contributes, by itself or through others."""

    routes: frozenset[Address]
    transforms: frozenset[Address]
    serves: bool

    @property
    def priority(self) -> Priority:
        if self.routes:
            return Priority.HIGH
        return Priority.MEDIUM if self.transforms else Priority.LOW


class Plan:
    """The operators of one broker, with their consumers."""

    def __init__(self, operators: Iterable[PlanOperator]) -> None:
        """Takes the operators, each after its inputs.

        Raises:
            ValueError: An operator comes before one of its inputs, or twice.
        """
        self.operators: dict[Name, PlanOperator] = {}
        self.consumers: dict[Name, list[Name]] = {}
        for operator in operators:
            if operator.name in self.operators or any(name not in self.operators for name in operator.inputs):
                raise ValueError(f"operator {operator.name!r} occurs twice, or comes before one of its inputs")
            self.operators[operator.name] = operator
            self.consumers[operator.name] = []
            for name in dict.fromkeys(operator.inputs):
                self.consumers[name].append(operator.name)
        self._contributes: dict[Name, _Contributes] = {}
        for name in reversed(self.operators):
            operator = self.operators[name]
            below = [self._contributes[consumer] for consumer in self.consumers[name]]
            self._contributes[name] = _Contributes(
                operator.routes.union(*(each.routes for each in below)),
                operator.transforms.union(*(each.transforms for each in below)),
                operator.serves or any(each.serves for each in below),
            )

    def priority(self, name: Name) -> Priority:
        """Returns the class of an operator."""
        return self._contributes[name].priority

    def transforms(self, name: Name) -> frozenset[Address]:
        """Returns the links to whose transformation an operator contributes."""
        return self._contributes[name].transforms

    def serves(self, name: Name) -> bool:
        """Returns whether an operator contributes to a user's query."""
        return self._contributes[name].serves

    def execute(self) -> Execution:
        """Starts the execution for a message."""
        return Execution(self)


class Execution:
    """One message on its way through a plan.

    Attributes:
        selected: Links whose routing query has succeeded so far.
        results: Results of the operators that have run.
        order: These operators, in the order in which they ran.
    """

    def __init__(self, plan: Plan) -> None:
        """Queues the operators without inputs."""
        self._plan = plan
        self.selected: set[Address] = set()
        self.results: dict[Name, object] = {}
        self.order: list[Name] = []
        self._missing = {name: len(set(operator.inputs)) for name, operator in plan.operators.items()}
        self._queues: dict[Priority, deque[Name]] = {priority: deque() for priority in Priority}
        self._waiting: deque[Name] = deque()
        self._high_left = sum(plan.priority(name) is Priority.HIGH for name in plan.operators)
        for name, missing in self._missing.items():
            if not missing:
                self._enqueue(name)

    def ready(self) -> dict[Priority, tuple[Name, ...]]:
        """Returns the operators that can run, by class."""
        return {priority: tuple(queue) for priority, queue in self._queues.items()}

    def step(self) -> Name | None:
        """Runs the next operator. Returns its name, or `None` if there is none."""
        queue = next((queue for queue in self._queues.values() if queue), None)
        if queue is None:
            return None
        name = queue.popleft()
        operator = self._plan.operators[name]
        self.order.append(name)
        self.results[name] = operator.run([self.results[supplied] for supplied in operator.inputs])
        if self.results[name]:
            self.selected |= operator.routes
        self._high_left -= self._plan.priority(name) is Priority.HIGH
        for consumer in self._plan.consumers[name]:
            self._missing[consumer] -= 1
            if not self._missing[consumer]:
                self._enqueue(consumer)
        self._review_waiting()
        return name

    def run(self) -> Execution:
        """Runs all operators that are needed."""
        while self.step() is not None:
            pass
        self._waiting.clear()
        return self

    def _enqueue(self, name: Name) -> None:
        priority = self._plan.priority(name)
        if priority is Priority.MEDIUM and not self._plan.transforms(name) & self.selected:
            self._waiting.append(name)
        else:
            self._queues[priority].append(name)
        if not self._high_left:
            self._review_waiting()

    def _review_waiting(self) -> None:
        still: deque[Name] = deque()
        for name in self._waiting:
            if self._plan.transforms(name) & self.selected:
                self._queues[Priority.MEDIUM].append(name)
            elif not self._high_left and self._plan.serves(name):
                self._queues[Priority.LOW].append(name)
            else:
                still.append(name)
        self._waiting = still


# The same rule over the compiled engine.


class LinkOutput(NamedTuple):
    """A message for a neighbour."""

    neighbour: Address
    body: bytes


class LocalOutput(NamedTuple):
    """The results of the queries of the broker's own users."""

    deliveries: Deliveries


def process(
    message: bytes,
    route: Callable[[bytes], Iterable[Address]],
    transformations: Mapping[Address, Transformation],
    deliver: Callable[[bytes], Deliveries],
) -> Iterator[LinkOutput | LocalOutput]:
    """Yields the outputs for a message, the most urgent first. Each is computed when the caller requests it.

    Routing is decided first. Then the message goes to links without a transformation, and then, transformed, to other
    selected links. The broker's own users come last.

    Args:
        message: XML.
        route: Returns the neighbours that get the message.
        transformations: By neighbour, the transformation of its link.
        deliver: Returns the results for the broker's own users.

    Raises:
        RejectedMessage: The message is malformed or over a limit.
    """
    selected = sorted(route(message))
    transformed = [neighbour for neighbour in selected if neighbour in transformations]
    yield from (LinkOutput(neighbour, message) for neighbour in selected if neighbour not in transformations)
    for neighbour in transformed:
        body = transformations[neighbour].run(message)
        if body is not None:
            yield LinkOutput(neighbour, body)
    yield LocalOutput(deliver(message))
