"""Partitioning by exclusiveness patterns."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from tests.seeds import seed_or
from twigcast import SubscriptionSet
from twigcast.overlay.errors import ImpossibleSetting
from twigcast.overlay.onyx.content.exclusiveness import (
    ExclusivenessPattern,
    Partitioning,
    PatternReader,
    Selections,
    assign,
    at_random,
    bound,
    clustered,
    coverage,
    expected,
    moved,
    select_patterns,
    selections_of,
)
from twigcast.overlay.onyx.content.routing_query import routing_query
from twigcast.overlay.onyx.messages import LinearPath

SEED = seed_or(20261128)
ROUNDS = int(os.environ.get("TWIGCAST_TEST_ROUNDS", "15"))


def selections(query: str) -> Selections:
    return selections_of(routing_query(query))


def pattern(path: str, subject: str) -> ExclusivenessPattern:
    return ExclusivenessPattern(LinearPath(path), subject)


def test_what_a_query_selects() -> None:
    result = selections("/a/b[@id = 1][c = 'x']/d[@k > 3]")
    assert result == {(pattern("/a/b", "@id"), 1.0), (pattern("/a/b/c", "."), "x")}
    assert selections("/a[@x = 1] | /a[@x = 1]/b") == {(pattern("/a", "@x"), 1.0)}
    assert selections("/a[@x = 1] | /b") == frozenset()
    assert selections("/a[@x = 1 or @y = 2]") == frozenset()


def test_greedy_selection_covers_all_and_prefers_what_occurs_once() -> None:
    queries = [selections(f"/m/a[@v = '{n}']") for n in range(5)] + [selections(f"/m/b[@v = '{n}']") for n in range(3)]
    queries += [selections("/m[a/@v = '1'][c/@v = '2']"), selections("/m/x")]
    a, b, c = (pattern(f"/m/{name}", "@v") for name in "abc")
    assert {each: len(numbers) for each, numbers in coverage(queries).items()} == {a: 6, b: 3, c: 1}
    assert select_patterns(queries, lambda _: True) == [a, b]
    both = [selections(f"/m[a/@v = '{n}'][c/@v = '{n}']") for n in range(4)]
    assert select_patterns(both, lambda each: each == c) == [c]
    assert select_patterns([*both, selections("/m/a[@v = '9']")], lambda each: each == c) == [a]


def random_query(rng: random.Random) -> str:
    steps = [f"{name}[@v = '{rng.randrange(12)}']" for name in rng.sample("abcd", rng.randint(0, 3))]
    if rng.random() < 0.2:
        steps.append(f"e = {rng.randrange(5)}")
    return "/m" + "".join(f"[{step}]" for step in steps)


def random_message(rng: random.Random) -> bytes:
    elements = "".join(f"<{rng.choice('abcd')} v='{rng.randrange(12)}'/>" for _ in range(rng.randint(0, 6)))
    value = rng.choice(("1", "1.0", "03", "7", "x"))
    return f"<m>{elements}<e>{value}</e></m>".encode()


def test_a_message_that_matches_a_query_matches_its_partition() -> None:
    fewer = 0
    for number in range(ROUNDS):
        seed = SEED + number
        rng = random.Random(seed)
        texts = [random_query(rng) for _ in range(60)]
        queries = [selections(text) for text in texts]
        reader = PatternReader(coverage(queries))
        sample = [random_message(rng) for _ in range(10)]
        patterns = select_patterns(queries, reader.occur_once(sample).__contains__)
        partitioning = Partitioning(queries, patterns, 8, seed)
        assert all(
            (partition == partitioning.dont_care) == (not query)
            for partition, query in zip(partitioning.partition_of, queries, strict=True)
        ), f"seed {seed}"
        subscriptions = SubscriptionSet()
        subscriptions.add_many([(str(index), text) for index, text in enumerate(texts)]).raise_if_refused()
        for _ in range(10):
            message = random_message(rng)
            admitted = partitioning.matched(reader.values(message))
            fewer += len(admitted) < 8
            for key in subscriptions.match(message).keys:
                assert partitioning.partition_of[int(key)] in admitted, f"seed {seed}: {texts[int(key)]}\n{message!r}"
    assert fewer > ROUNDS * 5


def test_values_of_patterns() -> None:
    reader = PatternReader(
        [
            pattern("/m/a", "@v"),
            pattern("//e", "."),
            ExclusivenessPattern(LinearPath("//n1:f", (("n1", "urn:f"),)), "@k"),
        ]
    )
    values = reader.values(b"<m><a v='1'/><a v='2 &amp; 3'/><a/><e>x<b>y</b></e><f xmlns='urn:f' k='z'/></m>")
    assert list(values.values()) == [["1", "2 & 3"], ["xy"], ["z"]]
    assert reader.occur_once([b"<m><a v='1'/><a v='2'/><e/></m>"]) == {pattern("//e", "."), *list(values)[2:]}


def test_buckets_hold_about_as_many_queries_each() -> None:
    queries = [selections(f"/m[@v = {n}]") for n in range(1000)]
    sizes = Counter(Partitioning(queries, [pattern("/m", "@v")], 10).partition_of)
    assert set(sizes) == set(range(10))
    assert max(sizes.values()) <= 1.2 * min(sizes.values())


def test_bounds() -> None:
    assert bound(10, 1, 200) == 0.05
    assert bound(10, 30, 200) == 1.0
    assert round(expected(10, 1, 200), 3) == 0.049
    assert round(expected(10, 10, 200), 3) == 0.394
    with pytest.raises(ImpossibleSetting):
        Partitioning([], [], 0)


def test_other_partitions() -> None:
    assert sorted(Counter(at_random(1000, 4)).keys()) == [0, 1, 2, 3]
    assert clustered(["b", "a", "b", "a"], 2) == [1, 0, 1, 0]


def test_placement_keeps_queries_near_within_capacity() -> None:
    nearest: list[Counter[int]] = [Counter({1: 8, 2: 2}), Counter({1: 7, 2: 3}), Counter({1: 1, 3: 9})]
    assert assign(nearest, 20) == [1, 1, 3]
    assert moved(nearest, [1, 1, 3]) == 6
    assert assign(nearest, 10) == [1, 2, 3]
    assert assign(nearest, 5) == [1, 2, 3]
    assert assign([], 5) == []
    with pytest.raises(ImpossibleSetting):
        assign([Counter()], 5)
