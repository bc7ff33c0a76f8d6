"""Changing a large population: insertion, the next message, changes while matching, and several threads."""

from __future__ import annotations

import os
import time

import pyarrow as pa

from benchmarks import workloads
from benchmarks.measure import Row, once, parse_with_expat, side_by_side
from benchmarks.workloads import has_shared
from twigcast import SubscriptionSet
from twigcast.workload import bundled_dtd, path_queries

BASE = 100_000
CHANGED = 1_000
MANY = 1_000_000
FURTHER = 100_000
RATE = 10_000


def _population() -> tuple[str, list[str], list[str]]:
    """A feed, the queries to start with, and further ones."""
    if has_shared():
        all_queries = workloads.queries("nitf", "500k-d8")
        return "nitf", all_queries[:BASE], all_queries[BASE:]
    all_queries = workloads.queries("news", "100k")
    half = len(all_queries) // 2
    return "news", all_queries[:half], all_queries[half:]


def measure_insertion() -> list[Row]:
    """Adding to a large warm set, and what the next pass over the messages costs."""
    feed, base, further = _population()
    messages = workloads.messages(feed)
    batch = pa.array(messages, pa.large_binary())
    subscriptions = SubscriptionSet()
    subscriptions.add_many([(f"b{number}", query) for number, query in enumerate(base)])
    expat, warm = side_by_side(5, lambda: parse_with_expat(messages), lambda: subscriptions.match_batch(batch))
    rows = []
    for round_ in range(3):
        some = further[round_ * CHANGED : (round_ + 1) * CHANGED]
        named = [(f"n{round_}.{number}", query) for number, query in enumerate(some)]
        adding = once(lambda named=named: subscriptions.add_many(named))  # type: ignore[misc]
        first = once(lambda: subscriptions.match_batch(batch[:1]))
        unchanged = once(lambda: subscriptions.match_batch(batch[:1]))
        after = once(lambda: subscriptions.match_batch(batch))
        rows.append(
            {
                "into": len(base) + round_ * CHANGED,
                "added": len(some),
                "queries_per_s": len(some) / adding,
                "next_message_E": first / (expat.median / len(messages)),
                "same_message_again_E": unchanged / (expat.median / len(messages)),
                "pass_after_E": after / expat.median,
                "usual_pass_E": warm.median / expat.median,
            }
        )
    bulk = SubscriptionSet()
    bulk.add_many([(f"b{number}", query) for number, query in enumerate(base)])
    many = further[: len(base)]
    seconds = once(lambda: bulk.add_many([(f"m{number}", query) for number, query in enumerate(many)]))
    rows.append({"into": len(base), "added": len(many), "queries_per_s": len(many) / seconds})
    return rows


def measure_mixed() -> list[Row]:
    """As many changes as can be, ten after each message, and a steady rate of them beside none."""
    many = path_queries(bundled_dtd("news"), MANY + FURTHER, workloads.SEED, depth=8)
    return [_in_turn(), *(_at_rate(rate, many[:MANY], many[MANY:]) for rate in (0, RATE))]


def _in_turn(seconds: float = 5.0) -> Row:
    """Ten changes after each message: five removals and five additions."""
    feed, base, further = _population()
    messages = workloads.messages(feed)
    subscriptions = _warm(base, messages)
    changing = 0.0
    spent: list[float] = []
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        for number in range(len(spent) * 5, len(spent) * 5 + 5):
            key, query = f"b{number % len(base)}", further[number % len(further)]
            changing += once(lambda key=key, query=query: _change(subscriptions, key, query))  # type: ignore[misc]
        message = messages[len(spent) % len(messages)]
        spent.append(once(lambda message=message: subscriptions.match(message)))  # type: ignore[misc]
    return {
        "what": "ten changes after each message",
        "subscriptions": len(subscriptions),
        "changes_per_s": len(spent) * 10 / (time.perf_counter() - start),
        "changes_per_s_alone": len(spent) * 10 / changing,
        **_pauses(spent, time.perf_counter() - start),
    }


def _at_rate(rate: int, base: list[str], further: list[str], seconds: float = 10.0) -> Row:
    """Many subscriptions: before each message, the changes that are due at ``rate`` a second. By the clock.

    One thread does both: of two, Python lets the one that changes run every five milliseconds only.
    """
    messages = workloads.messages("news")
    subscriptions = _warm(base, messages)
    changed, changing = 0, 0.0
    spent: list[float] = []
    start = before = time.perf_counter()
    while before - start < seconds:
        due = int((before - start) * rate)
        while changed < due:
            _change(subscriptions, f"b{changed // 2 % len(base)}", further[changed // 2 % len(further)])
            changed += 2
        begin = time.perf_counter()
        changing += begin - before
        subscriptions.match(messages[len(spent) % len(messages)])
        before = time.perf_counter()
        spent.append(before - begin)
    return {
        "what": f"{rate:,} changes a second" if rate else "no changes",
        "subscriptions": len(subscriptions),
        "changes_per_s": changed / (before - start),
        "changes_per_s_alone": changed / changing if rate else None,
        **_pauses(spent, before - start),
    }


def _warm(base: list[str], messages: list[bytes]) -> SubscriptionSet:
    """A set that has seen all messages once."""
    subscriptions = SubscriptionSet()
    subscriptions.add_many([(f"b{number}", query) for number, query in enumerate(base)])
    for message in messages:
        subscriptions.match(message)
    return subscriptions


def _change(subscriptions: SubscriptionSet, key: str, query: str) -> None:
    """Two changes: a subscription goes, and another comes."""
    subscriptions.discard(key)
    subscriptions.add(key, query)


def _pauses(spent: list[float], seconds: float) -> Row:
    """How long messages took, in seconds each, of a time of so many seconds."""
    spent = sorted(spent)
    return {
        "messages_per_s": len(spent) / seconds,
        "match_us": sum(spent) / len(spent) * 1e6,
        "match_p99_us": spent[len(spent) * 99 // 100] * 1e6,
        "worst_match_us": spent[-1] * 1e6,
    }


def measure_threads() -> list[Row]:
    """One call, several threads, one shared population; by the clock."""
    feed = "nitf" if has_shared() else "news"
    messages = workloads.messages(feed) * 4
    subscriptions = SubscriptionSet()
    queries = workloads.queries(feed, "100k")
    subscriptions.add_many([(f"b{number}", query) for number, query in enumerate(queries)])
    batch = pa.array(messages, pa.large_binary())
    rows = []
    for threads in (1, 2):
        subscriptions.match_batch(batch, threads=threads)
        spent = []
        for _ in range(5):
            start = time.perf_counter()
            subscriptions.match_batch(batch, threads=threads)
            spent.append(time.perf_counter() - start)
        rows.append({"threads": threads, "cores": os.cpu_count(), "messages_per_s": len(messages) / min(spent)})
    return rows
