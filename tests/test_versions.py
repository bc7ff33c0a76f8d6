"""Reading a population while others change it: each answer is that of one version, and nobody waits for anybody.

One thread changes a set step by step and notes what it holds after each step. Whoever reads meanwhile has to get
exactly what the set held after one of the steps that were under way or done between the beginning and the end of the
call.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.seeds import seed_or
from twigcast import Limits, SubscriptionSet
from twigcast.errors import UnknownKey

SEED = seed_or(20_260_101)
VALUES = 12
KEYS = 60
ROUNDS = 40
QUERIES = (
    "//v[@n = '{}']",
    "/m/v[@n = {}]",
    "//v[. = 't{}']",
    "/m[v/@n = '{}']",
    "//v[@n = '{}' or @n = 'none']",
    "//v[starts-with(., 't{}-')]",
    "/m/w{}",
    "for $v in /m/v where $v/@n = '{}' return <r>{{$v}}</r>",
    "for $v in //v[contains(., 't{}-')] return <s/>",
)
MESSAGE_VALUES = (0, 1, 2, 5)
MESSAGE = (
    "<m>" + "".join(f"<v n='{value}'>t{value}</v><v>t{value}-x</v><w{value}/>" for value in MESSAGE_VALUES) + "</m>"
).encode()

State = frozenset[tuple[str, str]]
"""The keys that come and go, with their queries."""


@cache
def _is_match(query: str) -> bool:
    """Whether the message matches: a query of these says so by the value in it."""
    return any(query == form.format(value) for form in QUERIES for value in MESSAGE_VALUES)


class Changing:
    """A set that one thread changes, and what it held after each step."""

    def __init__(self, seed: int, steady: int) -> None:
        self.random = random.Random(seed)
        self.steady = [(f"steady{number}", f"/steady{number % 97}/a[@b = '{number}']") for number in range(steady)]
        self.subscriptions = SubscriptionSet(self.steady)
        self.states: list[State] = [frozenset()]
        self.begun = 0
        self.is_over = False

    def run(self) -> None:
        """Makes steps until it is over."""
        current: dict[str, str] = {}
        while not self.is_over:
            key = f"k{self.random.randrange(KEYS)}"
            query = self.random.choice(QUERIES).format(self.random.randrange(VALUES))
            is_removed = key in current and self.random.random() < 0.4
            if is_removed:
                del current[key]
            else:
                current[key] = query
            # A reader that sees a step under way looks for its state as soon as it is there.
            self.begun += 1
            if is_removed:
                self.subscriptions.remove(key)
            else:
                self.subscriptions.replace(key, query)
            self.states.append(frozenset(current.items()))

    def ask(self, question: Callable[[SubscriptionSet], Any], expected: Callable[[State], Any]) -> None:
        """Asks, and checks the answer against the versions of the time between."""
        first = len(self.states) - 1
        answer = question(self.subscriptions)
        last = self.begun
        # The state of a step that has begun is noted once it is done.
        while len(self.states) <= last:
            threading.Event().wait(0.001)
        assert any(answer == expected(state) for state in self.states[first : last + 1])


def _matching(state: State) -> list[str]:
    return sorted(key for key, query in state if _is_match(query))


def _match(changing: Changing) -> None:
    changing.ask(lambda subscriptions: sorted(subscriptions.match(MESSAGE).keys), _matching)


def _deliver(changing: Changing) -> None:
    changing.ask(lambda subscriptions: sorted(delivery.key for delivery in subscriptions.deliver(MESSAGE)), _matching)


def _batch(changing: Changing, threads: int = 1) -> None:
    pa = pytest.importorskip("pyarrow")
    batch = pa.array([MESSAGE] * 24, pa.binary())

    def question(subscriptions: SubscriptionSet) -> list[list[str]]:
        answers = []
        for keys in subscriptions.match_batch(batch, threads=threads)["keys"].to_pylist():
            assert keys is not None
            answers.append(sorted(keys))
        return answers

    changing.ask(question, lambda state: [_matching(state)] * 24)


def _batch_on_threads(changing: Changing) -> None:
    _batch(changing, threads=3)


def _save(changing: Changing, folder: Path) -> None:
    path = folder / f"{threading.get_ident()}.snapshot"

    def question(subscriptions: SubscriptionSet) -> set[tuple[str, str]]:
        subscriptions.save(path)
        return {(key, loaded[key].query) for loaded in [SubscriptionSet.load(path)] for key in loaded}

    steady = set(changing.steady)
    changing.ask(question, lambda state: steady | state)


def _look_up(changing: Changing) -> None:
    def question(subscriptions: SubscriptionSet) -> str | None:
        try:
            return subscriptions["k7"].query
        except UnknownKey:
            return None

    changing.ask(question, lambda state: dict(state).get("k7"))


@contextmanager
def _threads(*works: Callable[[], None]) -> Iterator[list[threading.Thread]]:
    """Runs work in threads of their own, and raises what went wrong there."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001 - all are judged below; a panic is no Exception
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=[work], daemon=True) for work in works]
    for thread in threads:
        thread.start()
    yield threads
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "the threads wait for each other"
    if failures:
        raise failures[0]


@pytest.mark.parametrize("steady", [0, 100, 3_000])
def test_every_answer_is_that_of_one_version(steady: int, tmp_path: Path) -> None:
    print("seed", SEED)
    asked = [_match, _match, _deliver, _batch, _batch_on_threads, _look_up, lambda changing: _save(changing, tmp_path)]
    _ask_on_threads(Changing(SEED + steady, steady), asked)


def test_matchers_with_small_caches_follow_versions() -> None:
    print("seed", SEED)
    changing = Changing(SEED, 200)
    changing.subscriptions = SubscriptionSet(changing.steady, limits=Limits(cache_bytes_max=1))
    _ask_on_threads(changing, [_match, _match, _batch_on_threads])


def _ask_on_threads(changing: Changing, asked: list[Callable[[Changing], None]]) -> None:
    def repeatedly(ask: Callable[[Changing], None]) -> Callable[[], None]:
        def work() -> None:
            for _ in range(ROUNDS):
                ask(changing)

        return work

    with _threads(changing.run):
        try:
            with _threads(*map(repeatedly, asked)):
                pass
        finally:
            changing.is_over = True
    assert len(changing.states) > ROUNDS, "the set has changed between questions"


def _beside_a_batch(change: Callable[[SubscriptionSet, int], object], count: int) -> None:
    """Makes changes beside a batch, and checks that they are done before it ends, and that it has seen none of them.

    How many messages take long enough depends on the machine, so there are more of them until it does.
    """
    pa = pytest.importorskip("pyarrow")
    subscriptions = SubscriptionSet((f"k{n}", f"//v[@n = '{n}']") for n in range(2_000))
    message = f"<m>{''.join(f'<v n={str(n)!r}/>' for n in range(0, 2_000, 20))}</m>"
    expected = [f"k{n}" for n in range(0, 2_000, 20)]
    messages = 500
    while True:
        batch = pa.array([message] * messages)
        answers: list[Any] = []
        match_batch = partial(subscriptions.match_batch, batch)
        with _threads(lambda answers=answers, match=match_batch: answers.append(match())) as [thread]:  # type: ignore[misc]
            # Any answer tells that threads have had their turns.
            subscriptions.match(message)
            for number in range(count):
                change(subscriptions, number)
            is_first = thread.is_alive()
        keys = answers[0].column("keys").to_pylist()
        for number in range(2_000):
            subscriptions.replace(f"k{number}", f"//v[@n = '{number}']")
        if is_first:
            assert all({key for key in row if not key.startswith("new")} <= set(expected) for row in keys)
            assert keys.count(keys[0]) == len(keys), "all messages of a batch have one version"
            return
        assert messages < 1_000_000, "changes wait for the batch"
        messages *= 4


def test_a_change_is_done_while_a_batch_runs() -> None:
    _beside_a_batch(lambda subscriptions, n: subscriptions.replace(f"k{n * 20}", f"//v[@n = '{n}x']"), 40)


def test_many_changes_are_done_while_a_batch_runs() -> None:
    def change(subscriptions: SubscriptionSet, number: int) -> None:
        new = [(f"new{number}.{n}", f"/m/v[@n = '{n}']/a{n % 7}") for n in range(1_000)]
        subscriptions.add_many(new).raise_if_refused()
        for key, _ in new:
            subscriptions.remove(key)

    # The segments are merged on the way, several times.
    _beside_a_batch(change, 3)


def test_a_match_does_not_wait_for_a_bulk_load() -> None:
    """Matches go on beside a bulk load, and see parts of it only where it is made in steps."""
    subscriptions = SubscriptionSet([("first", "/m")])
    new = [(f"k{n}", f"//v[@n = '{n}' and starts-with(., 't{n}')]/following-sibling::w{n % 50}") for n in range(40_000)]
    with _threads(lambda: subscriptions.add_many(new).raise_if_refused()) as [thread]:
        answered = 0
        while thread.is_alive():
            assert subscriptions.match("<m/>").keys == ["first"]
            answered += 1
    assert len(subscriptions) == len(new) + 1
    assert answered > 20


# Forking --------------------------------------------------------------------------------------------------------------


def _work_in_child(subscriptions: SubscriptionSet, steady: int) -> None:
    """Reads and changes the set as any process does."""
    message = "<m><v n='3'/></m>"
    assert "steady3" in subscriptions.match(message).keys
    assert "steady3" in [delivery.key for delivery in subscriptions.deliver(message)]
    subscriptions.add("child", "/m/v")
    subscriptions.replace("child", "/m")
    subscriptions.add_many((f"child{n}", f"/m/v[@n = '{n}']") for n in range(500)).raise_if_refused()
    assert {"child", "child3", "steady3"} <= set(subscriptions.match(message).keys)
    with _threads(lambda: subscriptions.remove("child")):
        pass
    assert "child" not in subscriptions
    assert len([key for key in subscriptions if key.startswith("steady")]) == steady


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_works_while_threads_use_the_set() -> None:
    pa = pytest.importorskip("pyarrow")
    steady = 400
    subscriptions = SubscriptionSet((f"steady{n}", f"//v[@n = '{n}']") for n in range(steady))
    batch = pa.array([f"<m><v n='{n}'/></m>" for n in range(300)])
    is_over = False

    def repeatedly(work: Callable[[int], object]) -> Callable[[], None]:
        def run() -> None:
            number = 0
            while not is_over:
                work(number)
                number += 1

        return run

    def change(number: int) -> None:
        subscriptions.replace(f"k{number % 50}", f"/m/v[@n = '{number % 7}']")

    def change_many(number: int) -> None:
        subscriptions.add_many(
            [(f"m{n}", f"//v[@n = '{number}']") for n in range(300)], replace=True
        ).raise_if_refused()

    works = [
        lambda _: subscriptions.match("<m><v n='3'/></m>"),
        lambda _: list(subscriptions.deliver("<m><v n='3'/></m>")),
        lambda _: subscriptions.match_batch(batch, threads=2),
        change,
        change_many,
    ]
    forking = multiprocessing.get_context("fork")
    with _threads(*map(repeatedly, works)):
        try:
            for _ in range(25):
                child = forking.Process(target=_work_in_child, args=[subscriptions, steady])
                child.start()
                child.join(60)
                is_stuck = child.is_alive()
                if is_stuck:
                    child.kill()
                    child.join()
                assert not is_stuck, "the child waits for a thread that it does not have"
                assert child.exitcode == 0
        finally:
            is_over = True
    assert "child" not in subscriptions
