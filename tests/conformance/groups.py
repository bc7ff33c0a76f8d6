"""Cases that can be asked together: one set of all their subscriptions, and all their messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tests.conformance import engines
from tests.conformance.answers import Answer, Check, no_answer
from tests.conformance.cases import Case
from twigcast import Subscription, SubscriptionSet

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
        sorted_ = {message: _by_case(answer) for message, answer in by_message.items()}
        for number, case in enumerate(self.cases):
            whole, parts = by_message[case.message], sorted_[case.message]
            yield case, replace(
                whole,
                keys=None if whole.keys is None else frozenset(parts["keys"].get(number, ())),
                nodes=None if whole.nodes is None else parts["nodes"].get(number, {}),
                counts=None if whole.counts is None else parts["counts"].get(number, {}),
                payloads=None if whole.payloads is None else parts["payloads"].get(number, {}),
                undecided=parts["undecided"].get(number, {}),
            )


def _by_case(answer: Answer) -> dict[str, dict[int, dict[str, object]]]:
    parts: dict[str, dict[int, dict[str, object]]] = {}
    for name in ("keys", "nodes", "counts", "payloads", "undecided"):
        told = getattr(answer, name) or {}
        parts[name] = defaultdict(dict)
        for key in told:
            number, _, own = key.partition(" ")
            parts[name][int(number)][own] = None if name == "keys" else told[key]
    return parts


def groups(
    check: Check,
    cases: Iterable[Case],
    reason: Callable[[Case], str | None] = no_answer,
    key: Callable[[Case], object] = lambda _: None,
) -> Iterator[Group]:
    """The cases that a runner takes, by limits and by whatever else must be the same."""
    found: dict[tuple[Setting, object], Group] = {}
    for case in check.select(cases, reason):
        setting = tuple(sorted(case.limits.items()))
        found.setdefault((setting, key(case)), Group(case.limits)).cases.append(case)
    yield from found.values()
