"""Sets that change between questions of all kinds, with small and large caches; their copies; answers that are kept.

What a set answers is what one made afresh answers, and how many nodes a path selects is what lxml says. Batches that
were answered before stay what they were, also in slices and from several threads: their memory is used again only when
nobody can look at it any more.
"""

from __future__ import annotations

import copy
import os
import pickle
import random
import warnings
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from lxml import etree

from tests.seeds import seed_or
from twigcast import Limits, SubscriptionSet
from twigcast.arrow_types import MatchRow
from twigcast.engine.arrow import keys_of_groups
from twigcast.errors import QueryWarning

SEED = seed_or(20_260_101)
ROUNDS = 400 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 10
NAMESPACES = {"p": "urn:x"}
CONDITIONS = ["[@n = '{}']", "[@n]", "[b]", "[b/c and @n]", "[. = 'x']", "[not(@n)]"]
HELD_MAX = 40


def _path(randomness: random.Random) -> str:
    steps = "".join(
        randomness.choice(["/", "/", "/", "//"]) + randomness.choice(["a", "b", "c", "d", "*", "p:a"])
        for _ in range(randomness.randint(1, 4))
    )
    condition = randomness.choice(CONDITIONS) if randomness.random() < 0.4 else ""
    return steps + condition.format(randomness.randrange(4))


def _query(randomness: random.Random) -> str:
    if randomness.random() < 0.9:
        return _path(randomness)
    path = randomness.choice(["//a", "//b", "/r/c", "//a/d"])
    where = randomness.choice(["", "where $v/@n ", "where $v/b "])
    return f"for $v in {path} {where}return <r>{{ $v{randomness.choice(['', '/b', '/@n'])} }}</r>"


def _message(randomness: random.Random) -> bytes:
    def element(depth: int) -> str:
        name = randomness.choice(["a", "b", "c", "d", "a", "b", "p:a", f"e{randomness.randrange(30)}"])
        declared = f" xmlns:p='urn:{randomness.choice('xy')}'"
        attribute = randomness.choice(["", f" n='{randomness.randrange(4)}'", ' m="y"', declared])
        if depth == 0:
            return f"<{name}{attribute}>{randomness.choice(['', 'x', '&amp;', 'x' * 40])}</{name}>"
        return f"<{name}{attribute}>{''.join(element(depth - 1) for _ in range(randomness.randrange(4)))}</{name}>"

    return f"<r xmlns:p='urn:x'>{''.join(element(4) for _ in range(randomness.randint(1, 3)))}</r>".encode()


def _sorted(rows: Iterable[Any]) -> list[Any]:
    return [None if row is None else sorted(row) for row in rows]


def _payloads_by_key(row: MatchRow) -> dict[str, bytes | None]:
    assert row["keys"] is not None
    assert row["payloads"] is not None
    return dict(zip(row["keys"], row["payloads"], strict=True))


class Trial:
    """A set, what should be in it, copies of both at earlier times, and messages."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        limits = Limits(cache_bytes_max=self.random.choice([1, 20_000, 60_000, 1 << 18, 1 << 26, 1 << 26]))
        self.subscriptions = SubscriptionSet([], namespaces=NAMESPACES, limits=limits)
        self.expected: dict[str, str] = {}
        self.copies: list[tuple[SubscriptionSet, dict[str, str]]] = []
        self.messages = [_message(self.random) for _ in range(self.random.choice([3, 20, 40]))]
        self.held: list[tuple[pa.Array, list[Any]]] = []
        self.add("first", self.random.choice([0, 1, 30, 400]))

    def add(self, kind: str, count: int) -> None:
        new = {f"{kind}{self.random.randrange(1_000)}": _query(self.random) for _ in range(count)}
        new = {key: query for key, query in new.items() if key not in self.expected}
        self.subscriptions.add_many(new.items()).raise_if_refused()
        self.expected |= new

    def change(self) -> None:
        match self.random.randrange(9):
            case 0 | 1 | 2:
                for _ in range(self.random.choice([1, 1, 5, 60])):
                    key, query = f"k{self.random.randrange(400)}", _query(self.random)
                    (self.subscriptions.replace if key in self.expected else self.subscriptions.add)(key, query)
                    self.expected[key] = query
            case 3:
                self.add("many", self.random.choice([3, 100]))
            case 4 | 5:
                keys = self.random.sample(sorted(self.expected), len(self.expected))
                for key in keys[: self.random.choice([1, 3, len(keys) // 2, len(keys)])]:
                    self.subscriptions.remove(key)
                    del self.expected[key]
            case 6:
                self.copies.append((copy.deepcopy(self.subscriptions), dict(self.expected)))
            case 7 if self.random.randrange(4) == 0:
                self.subscriptions = pickle.loads(pickle.dumps(self.subscriptions))
            case _:
                pass

    def check(self) -> None:
        some = self.random.sample(self.messages, self.random.choice([1, 3, len(self.messages)]))
        asked = [(self.subscriptions, self.expected)]
        if self.copies:
            asked.append(self.random.choice(self.copies))
        for subscriptions, expected in asked:
            afresh = SubscriptionSet(sorted(expected.items()), namespaces=NAMESPACES)
            ask = self.random.choice([self._match, self._batch, self._payloads, self._deliver, self._nodes])
            ask(subscriptions, afresh, some)

    def _match(self, subscriptions: SubscriptionSet, afresh: SubscriptionSet, messages: list[bytes]) -> None:
        for message in messages:
            assert sorted(subscriptions.match(message)) == sorted(afresh.match(message)), message

    def _batch(self, subscriptions: SubscriptionSet, afresh: SubscriptionSet, messages: list[bytes]) -> None:
        grouped, column = self.random.randrange(3) == 0, pa.array([*messages, b"<a>"], pa.large_binary())
        answers = subscriptions.match_batch(column, grouped=grouped, threads=self.random.randint(1, 3))
        keys = keys_of_groups(answers.column("groups")) if grouped else answers.column("keys")
        assert _sorted(keys.to_pylist()) == _sorted(afresh.match_batch(column).column("keys").to_pylist())
        self._hold(answers.column(0))

    def _payloads(self, subscriptions: SubscriptionSet, afresh: SubscriptionSet, messages: list[bytes]) -> None:
        column = pa.array([*messages, b"<a>"], pa.large_binary())
        answers = subscriptions.match_batch(column, deliver=True, threads=self.random.randint(1, 2))
        others = afresh.match_batch(column, deliver=True)
        for row, other in zip(answers.to_pylist(), others.to_pylist(), strict=True):
            assert (row["keys"] is None) == (other["keys"] is None)
            if row["keys"] is not None:
                assert _payloads_by_key(row) == _payloads_by_key(other)
        self._hold(answers.column("payloads"))
        self._hold(answers.column("payloads").slice(1, 1))

    def _deliver(self, subscriptions: SubscriptionSet, afresh: SubscriptionSet, messages: list[bytes]) -> None:
        for message in messages[:10]:
            both = (subscriptions.deliver(message), afresh.deliver(message))
            result, expected = ({one.key: one.payload for one in deliveries} for deliveries in both)
            assert result == expected, message

    def _nodes(self, subscriptions: SubscriptionSet, afresh: SubscriptionSet, messages: list[bytes]) -> None:
        for message in messages[:5]:
            counts, tree = subscriptions.node_counts(message), etree.fromstring(message)
            assert counts == afresh.node_counts(message), message
            for key in afresh.keys()[:30]:
                path = afresh[key].query
                if not path.startswith("for"):
                    assert counts.get(key, 0) == len(tree.xpath(path, namespaces=NAMESPACES)), (path, message)

    def _hold(self, answers: pa.Array) -> None:
        self.held.append((answers, answers.to_pylist()))
        if len(self.held) > HELD_MAX:
            self.release(self.random.randrange(HELD_MAX))

    def release(self, position: int) -> None:
        answers, expected = self.held.pop(position)
        assert answers.to_pylist() == expected


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_set_that_changes_answers_like_one_made_afresh(number: int) -> None:
    trial = Trial(SEED + number)
    with warnings.catch_warnings():
        # Some of the paths select something in each message.
        warnings.simplefilter("ignore", QueryWarning)
        for _ in range(20):
            trial.change()
            trial.check()
    while trial.held:
        trial.release(0)
