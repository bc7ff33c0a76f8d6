"""Subscriptions that cost the square of a message, beside a group of ordinary ones that must not notice."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from benchmarks.measure import Row
from twigcast import Subscription, SubscriptionSet

GOOD = 1_000
HOSTILE = 300
ELEMENTS = 3_000
ROUNDS = 5
LATER = 40
"""Messages after which those that overran are set aside for long."""

KINDS: dict[str, Callable[[int], str]] = {
    "every k-th follower": lambda n: f"//a[following-sibling::a[position() mod {n + 3} = 0]/@none]",
    "sums of every third": lambda n: f"//a[sum(following::a[position() mod 3 = 1]/b) = -{n}]",
    "order of followers": lambda n: f"//a[@x > following-sibling::a/@x][@x = -{n}]",
    "last of a path": lambda n: f"//a[(following::a/b)[last()] = 'q{n}']",
    "text of all at each": lambda n: f"//b[substring(translate(/, '{n}', ''), ., 9) = 'q{n}']",
    "join of all with all": lambda n: f"for $x in //a for $y in //a where $x/b = $y/@n{n} return <z>{{ $y }}</z>",
}


def _good() -> list[Subscription]:
    """Returns what people ask: nearly all by a value, some by structure, negation and position."""
    others = ["//a[not(b)]", "not(//c)", "//a[last()]/b", "count(//a) > 3", "//a[b = '7'][not(@y)]", "/r/a[3][@x]"]
    queries = [f"/r/a[@x = '{n}']" if n % 2 else f"//a[b = '{n}'][@x > 5]" for n in range(GOOD - len(others))]
    return [Subscription(f"good {n}", query, group="good") for n, query in enumerate([*queries, *others])]


def message() -> str:
    """Returns a message of many small elements."""
    return "<r>" + "".join(f"<a x='{n}'><b>{n}</b></a>" for n in range(ELEMENTS)) + "</r>"


def _seconds(subscriptions: SubscriptionSet, message: bytes) -> tuple[float, set[str], int]:
    start = time.process_time()
    match = subscriptions.match(message)
    keys = set(match.keys)
    undecided = match.undecided
    return time.process_time() - start, keys, len(undecided)


def measure() -> list[Row]:
    """Each kind of costly query, 300 times, beside the group of good ones."""
    body = message().encode()
    alone = SubscriptionSet(_good())
    _seconds(alone, body)
    times = [_seconds(alone, body) for _ in range(ROUNDS)]
    good_ms = statistics.median(seconds for seconds, _, _ in times) * 1e3
    expected = times[0][1]
    rows: list[Row] = []
    for kind, query in KINDS.items():
        hostile = [Subscription(f"hostile {n}", query(n), group="hostile") for n in range(HOSTILE)]
        subscriptions = SubscriptionSet([*hostile, *_good()])
        first = [_seconds(subscriptions, body) for _ in range(3)]
        later = [_seconds(subscriptions, body) for _ in range(LATER)]
        for _, keys, _ in first + later:
            if {key for key in keys if key.startswith("good")} != expected:
                sys.exit(f"{kind}: the good group has not all its answers")
        rows.append(
            {
                "hostile": kind,
                "subscriptions": HOSTILE + GOOD,
                "kb": len(body) // 1000,
                "good_alone_ms": good_ms,
                "first_ms": statistics.median(seconds for seconds, _, _ in first) * 1e3,
                "later_ms": statistics.median(seconds for seconds, _, _ in later) * 1e3,
                "worst_ms": max(seconds for seconds, _, _ in first + later) * 1e3,
                "undecided": first[0][2],
                "good_missing": 0,
            }
        )
    return rows
