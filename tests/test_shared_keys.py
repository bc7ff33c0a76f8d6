"""Keys as objects: matches with the same queries share them, and none sees what happens to another or to the set."""

from __future__ import annotations

import pickle
import random
import sys
import threading
import tracemalloc
from collections.abc import Iterator

import pytest

from twigcast import Match, SubscriptionSet

NAMES = [f"n{number}" for number in range(8)]


def _message(names: list[str]) -> bytes:
    return b"<r>%s</r>" % b"".join(f"<{name}/>".encode() for name in names)


def _ways(match: Match) -> Iterator[list[str]]:
    """All ways to read the keys."""
    yield list(match)
    yield match.keys
    yield [key for key in match]  # noqa: C416 - a loop is what is meant
    yield list(match.freeze())
    yield list(pickle.loads(pickle.dumps(match)))


@pytest.mark.parametrize("seed", range(6))
def test_keys_are_those_of_the_moment_whatever_was_asked_before(seed: int) -> None:
    """Answers alternate, and the set changes under them: keys are added, removed and given to other queries."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    subscriptions, wanted = SubscriptionSet(), dict[str, str]()
    held: list[tuple[Match, set[str]]] = []
    for step in range(120):
        for _ in range(rng.choice([0, 0, 1, 40])):
            key, name = f"k{rng.randrange(300)}", rng.choice(NAMES)
            if rng.random() < 0.3:
                subscriptions.discard(key)
                wanted.pop(key, None)
            else:
                (subscriptions.replace if key in wanted else subscriptions.add)(key, f"/r/{name}")
                wanted[key] = name
        names = rng.sample(NAMES, rng.choice([1, 4, 7]))
        match = subscriptions.match(_message(names))
        expected = {key for key, name in wanted.items() if name in names}
        held.append((match, expected))
        for earlier, keys in rng.sample(held, min(3, len(held))):
            first = list(earlier)
            assert set(first) == keys, step
            assert len(first) == len(keys) == len(earlier), step
            assert all(way == first for way in _ways(earlier)), step
            assert all((f"k{number}" in earlier) == (f"k{number}" in keys) for number in range(0, 300, 17)), step


def test_a_list_of_keys_belongs_to_its_match() -> None:
    subscriptions = SubscriptionSet({f"k{number}": "/r/n0" for number in range(100)})
    first, second = subscriptions.match(_message(["n0"])), subscriptions.match(_message(["n0", "n1"]))
    first.keys.clear()
    assert len(list(second)) == len(second.keys) == 100
    assert len(list(first)) == 100, "nor does the list change what the match says"
    assert first.keys == []


def test_matches_with_the_same_queries_share_their_keys() -> None:
    subscriptions = SubscriptionSet({f"k{number}": "/r/n0" for number in range(100)})
    one, other = (list(subscriptions.match(_message(names))) for names in (["n0"], ["n1", "n0"]))
    assert all(a is b for a, b in zip(one, other, strict=True))


def test_keys_that_nobody_asks_for_are_no_objects() -> None:
    count = 20_000
    subscriptions = SubscriptionSet({f"subscriber-{number}": "/r/n0" for number in range(count)})
    subscriptions.match(_message(["n0"]))
    tracemalloc.start()
    try:
        match = subscriptions.match(_message(["n0"]))
        assert len(match) == count
        assert "subscriber-7" in match
        assert tracemalloc.get_traced_memory()[0] < count, "less than a byte a key"
        keys = list(match)
        assert tracemalloc.get_traced_memory()[0] > count * sys.getsizeof(keys[0])
    finally:
        tracemalloc.stop()


def test_threads_read_keys_of_different_versions() -> None:
    subscriptions = SubscriptionSet({f"k{number}": f"/r/{NAMES[number % 8]}" for number in range(800)})
    failures: list[str] = []
    done = threading.Event()

    def read(names: list[str]) -> None:
        while not done.is_set():
            match = subscriptions.match(_message(names))
            keys = list(match)
            fixed = [key for key in keys if not key.startswith("new")]
            wanted = [f"k{number}" for number in range(800) if NAMES[number % 8] in names]
            if len(keys) != len(match) or sorted(fixed) != sorted(wanted):
                failures.append(f"{names}: {len(keys)} keys of {len(match)}")
                return

    threads = [threading.Thread(target=read, args=(NAMES[first : first + 3],)) for first in range(6)]
    for thread in threads:
        thread.start()
    for number in range(300):
        subscriptions.add(f"new{number}", f"/r/{NAMES[number % 8]}")
        if number % 3:
            subscriptions.discard(f"new{number - 1}")
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
