"""Changes of all kinds and sizes, while several threads match: each answer is that of a population that there was.

Many subscriptions that come at once are learnt by the matchers that are free, in the change itself; single ones by the
next message. What a set answers without being changed meanwhile is what one made afresh answers.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from tests.seeds import seed_or
from twigcast import Limits, SubscriptionSet

SEED = seed_or(20_260_101)
TRIALS = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 4
CHANGES = 30
NAMES = ["a", "b", "c", "d", "e", "f"]


def _message(randomness: random.Random) -> bytes:
    def element(depth: int) -> str:
        name = randomness.choice(NAMES)
        inside = "".join(element(depth - 1) for _ in range(randomness.randrange(4))) if depth else "x"
        return f"<{name} n='{randomness.randrange(3)}'>{inside}</{name}>"

    return f"<r>{element(5)}{element(3)}</r>".encode()


def _query(randomness: random.Random, conditions: bool) -> str:
    steps = "".join(
        randomness.choice(["/", "/", "//"]) + randomness.choice([*NAMES, "*"]) for _ in range(randomness.randint(1, 4))
    )
    condition = randomness.choice(["[@n = 1]", "[@n]", "[b]", "[b/c or d]"]) if conditions else ""
    return f"/r{steps}{condition if randomness.random() < 0.3 else ''}"


@dataclass
class _History:
    """What was in a set, by version, where nothing was changed at the time."""

    subscriptions: SubscriptionSet
    held: dict[str, str] = field(default_factory=dict)
    by_version: dict[int, dict[str, str]] = field(default_factory=dict)

    def note(self) -> None:
        self.by_version[self.subscriptions.version] = dict(self.held)

    def add(self, new: dict[str, str], *, at_once: bool) -> None:
        if at_once:
            self.subscriptions.add_many(list(new.items()), replace=True).raise_if_refused()
        else:
            for key, query in new.items():
                self.subscriptions.replace(key, query)
        self.held |= new

    def remove(self, keys: list[str]) -> None:
        for key in keys:
            assert self.subscriptions.discard(key) == (key in self.held)
            self.held.pop(key, None)


@dataclass(frozen=True)
class _Seen:
    """What messages matched while the version stayed."""

    version: int
    numbers: list[int]
    keys: Sequence[list[str] | None]


def _watch(subscriptions: SubscriptionSet, messages: list[bytes], seed: int, is_over: threading.Event) -> list[_Seen]:
    """Match at random until all changes are made, and note what can be told to be right or wrong."""
    randomness, seen = random.Random(seed), list[_Seen]()
    while not is_over.is_set() or not seen:
        numbers = [randomness.randrange(len(messages)) for _ in range(randomness.choice([1, 1, 30]))]
        before = subscriptions.version
        if randomness.random() < 0.5:
            keys: Sequence[list[str] | None] = [subscriptions.match(messages[number]).keys for number in numbers]
        else:
            threads = randomness.choice([1, 2])
            batch = pa.array([messages[number] for number in numbers])
            keys = subscriptions.match_batch(batch, threads=threads).column("keys").to_pylist()
        if subscriptions.version == before:
            seen.append(_Seen(before, numbers, keys))
    return seen


def _change(history: _History, randomness: random.Random, conditions: bool) -> None:
    count = randomness.choice([1, 1, 5, 40, 130, 500])
    kind = randomness.randrange(4)
    if kind == 0 and history.held:
        history.remove(randomness.sample(sorted(history.held), min(count, len(history.held))))
    elif kind == 1 and history.held:
        keys = randomness.sample(sorted(history.held), min(count, len(history.held)))
        history.add({key: _query(randomness, conditions) for key in keys}, at_once=True)
    else:
        new = {f"k{randomness.randrange(5_000)}": _query(randomness, conditions) for _ in range(count)}
        history.add(new, at_once=kind == 2)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(TRIALS))
def test_answers_are_those_of_the_population_at_the_time(trial: int) -> None:
    seed = SEED + trial
    print(f"seed {seed}")
    randomness = random.Random(seed)
    conditions = trial % 2 == 1
    limits = Limits(cache_bytes_max=randomness.choice([1 << 26, 1 << 26, 1 << 18]))
    history = _History(SubscriptionSet(limits=limits))
    messages = [_message(randomness) for _ in range(20)]
    history.add({f"k{number}": _query(randomness, conditions) for number in range(2_000)}, at_once=True)
    for message in messages * 3:
        history.subscriptions.match(message)
    history.note()
    is_over, seen = threading.Event(), list[_Seen]()

    def watching(number: int) -> Callable[[], None]:
        return lambda: seen.extend(_watch(history.subscriptions, messages, seed + number, is_over))

    threads = [threading.Thread(target=watching(number)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(CHANGES):
            _change(history, randomness, conditions)
            history.note()
            seen += _watch(history.subscriptions, messages, randomness.randrange(1 << 30), _over())
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    _compare(history, messages, seen)


def _over() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def _compare(history: _History, messages: list[bytes], seen: list[_Seen]) -> None:
    compared = 0
    for version, held in history.by_version.items():
        answers = [one for one in seen if one.version == version]
        fresh = SubscriptionSet(held.items())
        numbers = {number for one in answers for number in one.numbers}
        expected = {number: sorted(fresh.match(messages[number]).keys) for number in numbers}
        for one in answers:
            assert [keys and sorted(keys) for keys in one.keys] == [expected[number] for number in one.numbers], version
            compared += len(one.numbers)
    assert compared >= CHANGES
