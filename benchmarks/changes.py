"""Changing a large population: insertion, the next message, changes while matching, and several threads."""

from __future__ import annotations

import os
import time

import pyarrow as pa

from benchmarks import workloads
from benchmarks.measure import Row, once, parse_with_expat, side_by_side
from benchmarks.workloads import has_shared
from twigcast import SubscriptionSet

BASE = 100_000
CHANGED = 1_000


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


def measure_mixed(seconds: float = 5.0) -> Row:
    """Ten changes after each message: five removals and five additions."""
    feed, base, further = _population()
    messages = workloads.messages(feed)
    subscriptions = SubscriptionSet()
    subscriptions.add_many([(f"b{number}", query) for number, query in enumerate(base)])
    for message in messages:
        subscriptions.match(message)
    matching = changing = 0.0
    worst = 0.0
    count = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        message = messages[count % len(messages)]
        for number in range(5):
            at = (count * 5 + number) % len(base)
            changing += once(lambda at=at: subscriptions.discard(f"b{at}"))  # type: ignore[misc]
            query = further[(count * 5 + number) % len(further)]
            changing += once(
                lambda at=at, query=query: (
                    subscriptions.replace(f"b{at}", query)  # type: ignore[misc]
                    if f"b{at}" in subscriptions
                    else subscriptions.add(f"b{at}", query)
                )
            )
        spent = once(lambda message=message: subscriptions.match(message))  # type: ignore[misc]
        matching += spent
        worst = max(worst, spent)
        count += 1
    return {
        "subscriptions": len(subscriptions),
        "messages": count,
        "changes": count * 10,
        "changes_per_s_alone": count * 10 / changing,
        "match_us": matching / count * 1e6,
        "worst_match_us": worst * 1e6,
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
