"""Queries and messages made to defeat the lazily built automaton: it stays near the NFA's bound, in fixed memory."""

from __future__ import annotations

import random
import sys
from itertools import product

import pyarrow as pa

from benchmarks.filtering import warm_up
from benchmarks.measure import Row, parse_with_expat, resident_bytes, side_by_side
from twigcast import Limits, SubscriptionSet

SEED = 7
NAMES = "abcd"
STARS_MAX = 40
MESSAGES = 60
ELEMENTS = 1_000
DEPTH_MAX = 150
CACHE_BYTES = 16 << 20
ROUNDS = 3


def queries() -> list[str]:
    """Paths that ask which names stood so many levels above: each history of names is a state of its own."""
    ends = product(NAMES, NAMES, range(STARS_MAX))
    paths = [f"//{first}{'/*' * stars}/{last}" for first, last, stars in ends]
    return paths + [f"//{a}//{b}//{c}/{d}" for a, b, c, d in product(NAMES, repeat=4)]


def messages(chance: random.Random) -> list[bytes]:
    """Deep messages whose elements are named by chance, so that hardly any history comes twice."""
    return [_message(chance) for _ in range(MESSAGES)]


def _message(chance: random.Random) -> bytes:
    parts: list[str] = []
    open_names: list[str] = []
    for _ in range(ELEMENTS):
        while len(open_names) > 1 and (len(open_names) > DEPTH_MAX or chance.random() < 0.45):
            parts.append(f"</{open_names.pop()}>")
        name = chance.choice(NAMES)
        open_names.append(name)
        parts.append(f"<{name}>")
    parts.extend(f"</{name}>" for name in reversed(open_names))
    return "".join(parts).encode()


def measure() -> list[Row]:
    """The engine as it is, with a cache of a few megabytes, and without any cache, which is the NFA alone."""
    asked = queries()
    chance = random.Random(SEED)
    # A cache of hardly anything is full within any message, so all but one of seventeen run on the NFA at once.
    sets = {"small cache": CACHE_BYTES, "default cache": Limits().cache_bytes_max, "NFA alone": 1}
    feeds = [pa.array(messages(chance), pa.large_binary()) for _ in range(ROUNDS)]
    plain = [message for feed in feeds for message in feed.to_pylist()]
    warm_up(plain[:3])
    rows: list[Row] = []
    expected: list[int] | None = None
    for name, cache_bytes in sets.items():
        subscriptions = SubscriptionSet(limits=Limits(cache_bytes_max=cache_bytes))
        subscriptions.add_many([(f"s{number}", query) for number, query in enumerate(asked)])
        before = resident_bytes()

        def match(subscriptions: SubscriptionSet = subscriptions) -> list[int]:
            return [len(subscriptions.match_batch(feed).column("keys").values) for feed in feeds]

        expat, ours = side_by_side(ROUNDS, lambda: parse_with_expat(plain), match)
        counts = match()
        if expected is not None and counts != expected:
            sys.exit(f"{name}: another number of keys")
        expected = counts
        rows.append(
            {
                "runs_on": name,
                "queries": len(asked),
                "elements": ELEMENTS,
                "cache_bytes_max": cache_bytes,
                "bytes_grown": resident_bytes() - before,
                "us": ours.median / len(plain) * 1e6,
                "E": ours.median / expat.median,
            }
        )
    alone = rows[-1]["us"]
    return [{**row, "of_nfa": row["us"] / alone} for row in rows]
