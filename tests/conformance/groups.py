"""Cases that can be asked together: one set of all their subscriptions, and all their messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tests.conformance import engines
from tests.conformance.answers import Answer, Check, no_answer
from tests.conformance.cases import Case
from twigcast import Subscription, SubscriptionSet

T = TypeVar("T")
Setting = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Group:
    """Cases with the same limits; each subscription gets a key that says whose it is."""

    limits: Mapping[str, int]
    cases: list[Case] = field(default_factory=list)

    @property
    def subscriptions(self) -> list[Subscription]:
        """Those of all cases."""
        return [
            engines.subscription(query, f"{number} {query.key}")
            for number, case in enumerate(self.cases)
            for query in case.accepted
        ]

    @property
    def messages(self) -> list[bytes]:
        """Each message once."""
        return list(dict.fromkeys(case.message for case in self.cases))

    def located(self, message: bytes) -> list[str]:
        """Keys of the subscriptions whose selected nodes the cases of a message name."""
        return [
            f"{number} {key}" for number, case in enumerate(self.cases) if case.message == message for key in case.nodes
        ]

    def population(self) -> SubscriptionSet:
        """The set of all subscriptions."""
        found = engines.empty_set(self.limits)
        refused = engines.add(found, self.subscriptions)
        assert not refused, refused
        return found

    def answers(self, by_message: Mapping[bytes, Answer]) -> Iterator[tuple[Case, Answer]]:
        """What was answered to each case, out of the answers of all."""
        parts = {message: _Parts(answer) for message, answer in by_message.items()}
        for number, case in enumerate(self.cases):
            yield case, parts[case.message].of(number)


class _Parts:
    """An answer to many cases, in parts."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._keys = _by_case(dict.fromkeys(answer.keys or ()))
        self._nodes = _by_case(answer.nodes)
        self._counts = _by_case(answer.counts)
        self._payloads = _by_case(answer.payloads)
        self._undecided = _by_case(answer.undecided)

    def of(self, number: int) -> Answer:
        """The part of one case."""
        return replace(
            self._answer,
            keys=None if self._answer.keys is None else frozenset(self._keys[number]),
            nodes=None if self._answer.nodes is None else self._nodes[number],
            counts=None if self._answer.counts is None else self._counts[number],
            payloads=None if self._answer.payloads is None else self._payloads[number],
            undecided=self._undecided[number],
        )


def _by_case(values: Mapping[str, T] | None) -> dict[int, dict[str, T]]:
    parts: dict[int, dict[str, T]] = defaultdict(dict)
    for key, value in (values or {}).items():
        number, _, own = key.partition(" ")
        parts[int(number)][own] = value
    return parts


def groups(
    check: Check,
    cases: Iterable[Case],
    reason: Callable[[Case], str | None] = no_answer,
) -> Iterator[Group]:
    """The cases that a runner takes, by limits."""
    found: dict[Setting, Group] = {}
    for case in check.select(cases, reason):
        found.setdefault(tuple(sorted(case.limits.items())), Group(case.limits)).cases.append(case)
    yield from found.values()
