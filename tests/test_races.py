"""Matching while other threads change the population.

A key says what its query selects (``k7.3`` is ``//v[@n='7']`` in a set of keys of which number 3 is the third), so that
each answer can be judged by itself: whatever the state of the population, a message matches no keys but those of its
values, and always matches those that stay.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator

import pytest

from twigcast import SubscriptionSet
from twigcast.errors import UnknownKey

VALUES = 40
STEADY = [(f"steady{value}", value) for value in range(VALUES)]
CYCLES = 8


def _query(key: str, value: int) -> str:
    kinds = ("//v[@n = '{}']", "/m/v[@n = {}]", "for $v in /m/v where $v/@n = '{}' return <r>{{$v}}</r>")
    return kinds[len(key) % len(kinds)].format(value)


def _message(value: int) -> str:
    return f"<m><v n='{value}'/></m>"


def _passing(worker: int, cycle: int) -> list[tuple[str, int]]:
    """Keys that come and go; the slots of one cycle's are used again for other values by the next."""
    return [(f"w{worker}.{'x' * (n % 3)}{cycle}.{n}", (n * 7 + cycle) % VALUES) for n in range(120)]


def _change(subscriptions: SubscriptionSet, worker: int) -> None:
    for cycle in range(CYCLES):
        passing = _passing(worker, cycle)
        subscriptions.add_many([(key, _query(key, value)) for key, value in passing]).raise_if_refused()
        for key, value in passing[::5]:
            subscriptions.replace(key, _query(key + "x", value))
        for key, _ in passing:
            subscriptions.remove(key)


VALUE_OF = dict(STEADY) | {
    key: value for worker in range(2) for cycle in range(CYCLES) for key, value in _passing(worker, cycle)
}


def _check(value: int, keys: Iterable[str]) -> None:
    results = list(keys)
    assert {VALUE_OF[key] for key in results} == {value}
    assert f"steady{value}" in results
    assert len(results) == len(set(results))


@pytest.fixture(autouse=True)
def _frequent_switches() -> Iterator[None]:
    """Let threads take turns often: races show sooner, and none waits milliseconds for each of its many small steps."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(usual)


def _by_match(subscriptions: SubscriptionSet, value: int) -> None:
    _check(value, subscriptions.match(_message(value)))


def _by_delivery(subscriptions: SubscriptionSet, value: int) -> None:
    deliveries = list(subscriptions.deliver(_message(value)))
    _check(value, (delivery.key for delivery in deliveries))
    assert all(f"<v n='{value}'/>".encode() in delivery.payload for delivery in deliveries)


def _by_batch(subscriptions: SubscriptionSet, value: int) -> None:
    pa = pytest.importorskip("pyarrow")
    values = [(value + n) % VALUES for n in range(64)]
    answers = subscriptions.match_batch(pa.array(map(_message, values)), threads=2)
    for row, keys in zip(values, answers.column("keys").to_pylist(), strict=True):
        assert keys is not None
        _check(row, keys)


def _by_nodes(subscriptions: SubscriptionSet, value: int) -> None:
    message = f"<m>{''.join(f'<v n={str(n)!r}/>' for n in range(VALUES))}</m>"
    for key, expected in _passing(0, value % CYCLES)[::10]:
        try:
            nodes = subscriptions.nodes(message, key)
        except UnknownKey:
            continue
        assert [node.markup for node in nodes] in ([], [f"<v n='{expected}'/>".encode()])
    with pytest.raises(UnknownKey):
        subscriptions.nodes(message, "nobody")


@pytest.mark.parametrize("others", [0, 3_000])
@pytest.mark.parametrize("ask", [_by_match, _by_delivery, _by_batch, _by_nodes])
def test_answers_are_those_of_some_state_of_the_population(
    ask: Callable[[SubscriptionSet, int], None], others: int
) -> None:
    # There is a table of all keys at once, or, where there are many, once it has paid.
    subscriptions = SubscriptionSet([(key, _query(key, value)) for key, value in STEADY])
    subscriptions.add_many((f"other{number}", f"/other{number}") for number in range(others))
    failures: list[BaseException] = []
    changing = threading.Event()
    changing.set()

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001 - all are judged below; a panic is no Exception
            failures.append(failure)

    def matching() -> None:
        value = 0
        while value < 3 or changing.is_set():
            ask(subscriptions, value % VALUES)
            value += 1

    changers = [
        threading.Thread(target=guarded, args=[lambda worker=worker: _change(subscriptions, worker)], daemon=True)
        for worker in range(2)
    ]
    matchers = [threading.Thread(target=guarded, args=[matching], daemon=True) for _ in range(2)]
    for thread in changers + matchers:
        thread.start()
    for thread in changers:
        thread.join(60)
    changing.clear()
    for thread in matchers:
        thread.join(60)
    assert not any(thread.is_alive() for thread in changers + matchers), "the threads wait for each other"
    assert not failures, failures
    assert {key for key in subscriptions if not key.startswith("other")} == {key for key, _ in STEADY}


@pytest.mark.parametrize("threads", [0, 1, 2, 10**6, 2**40])
def test_more_threads_than_there_can_be_do_no_harm(threads: int) -> None:
    pa = pytest.importorskip("pyarrow")
    subscriptions = SubscriptionSet([(key, _query(key, value)) for key, value in STEADY])
    values = [n % VALUES for n in range(20_000)]
    answers = subscriptions.match_batch(pa.array(map(_message, values)), threads=threads)
    assert answers.column("keys").to_pylist() == [[f"steady{value}"] for value in values]


def test_threads_cannot_be_negative() -> None:
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="threads must not be negative"):
        SubscriptionSet([("k", "/m")]).match_batch(pa.array(["<m/>"]), threads=-1)
