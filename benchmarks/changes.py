"""Changing a large population: insertion, the next message, changes while matching, and several threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from statistics import median

import pyarrow as pa

from benchmarks import workloads
from benchmarks.measure import Row, once, parse_with_expat, side_by_side
from benchmarks.workloads import has_shared
from twigcast import SubscriptionSet
from twigcast.lab.workload import bundled_dtd, path_queries

BASE = 100_000
CHANGED = 1_000
SETS = 7
MANY = 1_000_000
FURTHER = 100_000
RATE = 10_000
THREAD_ROUNDS = 25
WAITING_QUERIES = 50_000
WAITING_BATCH = 20_000
WAITING_RATE = 100
WAITING_SECONDS = 15.0
THREAD_BATCHES = 8
TARGET_TIMES_ONE = 1.8
"""Messages a second of two threads on two cores, as a multiple of what one reaches."""


def _population() -> tuple[str, list[str], list[str]]:
    """A feed, the queries to start with, and further ones."""
    if has_shared():
        all_queries = workloads.queries("nitf", "500k-d8")
        return "nitf", all_queries[:BASE], all_queries[BASE:]
    all_queries = workloads.queries("news", "100k")
    half = len(all_queries) // 2
    return "news", all_queries[:half], all_queries[half:]


def measure_insertion() -> list[Row]:
    """Changing a large warm set, and what the next message and the next pass over all messages cost."""
    feed, base, further = _population()
    messages = workloads.messages(feed)
    seconds = median(_adding_as_many(base, further) for _ in range(3))
    bulk = {"change": "added", "to": len(base), "queries": len(base), "queries_per_s": len(base) / seconds}
    rows = [
        row for change in ("added", "removed", "replaced") for row in _after_changes(change, base, further, messages)
    ]
    return [*rows, bulk]


def _adding_as_many(base: list[str], further: list[str]) -> float:
    """Seconds to double a set."""
    bulk = SubscriptionSet()
    bulk.add_many([(f"b{number}", query) for number, query in enumerate(base)])
    pairs = [(f"m{number}", query) for number, query in enumerate(further[: len(base)])]
    return once(lambda: bulk.add_many(pairs))


def _after_changes(change: str, base: list[str], further: list[str], messages: list[bytes]) -> list[Row]:
    """Three pairs of changes in a row, of several sets that are alike: medians."""
    sets = [_changing_a_set(change, number, base, further, messages) for number in range(SETS)]
    return [
        {
            "change": change,
            "to": len(base) + round_ * 2 * CHANGED * ((change == "added") - (change == "removed")),
            "queries": CHANGED,
            **{column: median(row[column] for row in rows) for column in rows[0]},
        }
        for round_, rows in enumerate(zip(*sets, strict=True))
    ]


class _Changing:
    """A set that is changed, and another that is changed in the same way just before.

    After that the caches are as cold for a message as after its own change, but there is nothing to be learnt.
    """

    def __init__(self, change: str, base: list[str], further: list[str], messages: list[bytes]) -> None:
        self.change, self.further, self.messages = change, further, messages
        self.batch = pa.array(messages, pa.large_binary())
        self.changed, self.other = _warm(base, messages), _warm(base, messages)
        self.changes = 0

    def passed(self) -> None:
        self.changed.match_batch(self.batch)

    def once_each(self, ask: Callable[[], object]) -> tuple[float, float, float]:
        """A question after a change of the other set, the change, and the question after that; before each, a pass."""
        self.other.match(self.messages[0])
        self.passed()
        _change_many(self.other, self.change, self.changes, self.further)
        cold = once(ask)
        self.passed()
        changing = _change_many(self.changed, self.change, self.changes, self.further)
        self.changes += 1
        return cold, changing, once(ask)


def _changing_a_set(change: str, number: int, base: list[str], further: list[str], messages: list[bytes]) -> list[Row]:
    """Three pairs of changes in a row; the next message is matched by itself after one, as a batch after the other."""
    changing = _Changing(change, base, further, messages)
    subscriptions, batch = changing.changed, changing.batch
    expat, usual = side_by_side(5, lambda: parse_with_expat(messages), changing.passed)
    per_message = expat.median / len(messages)
    rows: list[Row] = []
    for round_ in range(number * 3, number * 3 + 3):
        start = round_ * 53 % len(messages)
        message, one = messages[start], batch[start : start + 1]
        among_others = _among_others(subscriptions, messages, start)
        cold, seconds, first = changing.once_each(lambda message=message: subscriptions.match(message))  # type: ignore[misc]
        after = once(changing.passed)
        cold_batch, _, first_batch = changing.once_each(lambda one=one: subscriptions.match_batch(one))  # type: ignore[misc]
        rows.append(
            {
                "queries_per_s": CHANGED / seconds,
                "usual_match_E": among_others / per_message,
                "cold_match_E": cold / per_message,
                "next_match_E": first / per_message,
                "next_of_cold": first / cold,
                "next_of_usual": first / among_others,
                "cold_batch_E": cold_batch / per_message,
                "next_batch_E": first_batch / per_message,
                "batch_of_cold": first_batch / cold_batch,
                "pass_after_E": after / expat.median,
                "usual_pass_E": usual.median / expat.median,
                "pass_of_usual": after / usual.median,
            }
        )
    return rows


def _among_others(subscriptions: SubscriptionSet, messages: list[bytes], number: int) -> float:
    """Seconds for a message by itself in a stream of others."""
    spent = []
    for _ in range(3):
        for before in range(number - 10, number):
            subscriptions.match(messages[before])
        spent.append(once(lambda: subscriptions.match(messages[number])))
    return median(spent)


def _change_many(subscriptions: SubscriptionSet, change: str, round_: int, further: list[str]) -> float:
    """Seconds for a thousand changes; keys that go are spread over the set."""
    numbers = range(round_ * CHANGED, (round_ + 1) * CHANGED)
    keys = [f"b{number * 7}" for number in numbers]
    new = [further[number % len(further)] for number in numbers]
    if change == "removed":
        return once(lambda: [subscriptions.discard(key) for key in keys])
    if change == "added":
        keys = [f"n{number}" for number in numbers]
    pairs = list(zip(keys, new, strict=True))
    return once(lambda: subscriptions.add_many(pairs, replace=change == "replaced"))


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


def measure_waiting() -> list[Row]:
    """Single messages beside a long batch, without changes and with some; by the clock."""
    messages = workloads.messages("news")
    queries = workloads.queries("news", "100k")[:WAITING_QUERIES]
    subscriptions = _warm(queries, messages)
    batch = pa.array((messages * (WAITING_BATCH // len(messages) + 1))[:WAITING_BATCH], pa.large_binary())
    rows = [_beside_batches(rate, subscriptions, queries, messages, batch) for rate in (0, WAITING_RATE)]
    rows[1]["p999_of_alone"] = float(rows[1]["match_p999_us"]) / float(rows[0]["match_p999_us"])
    return rows


def _beside_batches(
    rate: int, subscriptions: SubscriptionSet, queries: list[str], messages: list[bytes], batch: pa.Array
) -> Row:
    """One thread matches the batch over and over, one changes at ``rate`` a second, and this one matches messages."""
    end = time.perf_counter() + WAITING_SECONDS
    batches: list[float] = []
    changing: list[float] = []

    def match_batches() -> None:
        while time.perf_counter() < end:
            batches.append(once(lambda: subscriptions.match_batch(batch)))

    def change() -> None:
        while time.perf_counter() < end:
            number = len(changing)
            key, query = f"b{number % len(queries)}", queries[number * 7 % len(queries)]
            start = time.perf_counter()
            subscriptions.replace(key, query)
            changing.append(time.perf_counter() - start)
            time.sleep(1 / rate)

    threads = [threading.Thread(target=work) for work in ([match_batches, change] if rate else [match_batches])]
    for thread in threads:
        thread.start()
    spent: list[float] = []
    while time.perf_counter() < end:
        start = time.perf_counter()
        subscriptions.match(messages[len(spent) % len(messages)])
        spent.append(time.perf_counter() - start)
        time.sleep(0.001)
    for thread in threads:
        thread.join()
    spent.sort()
    changing.sort()
    return {
        "what": f"{rate} changes a second" if rate else "no changes",
        "subscriptions": len(subscriptions),
        "matches": len(spent),
        "batch_s": median(batches),
        "match_p50_us": median(spent) * 1e6,
        "match_p999_us": spent[len(spent) * 999 // 1000] * 1e6,
        "worst_match_us": spent[-1] * 1e6,
        "change_p50_us": median(changing) * 1e6 if changing else None,
        "change_p99_us": changing[len(changing) * 99 // 100] * 1e6 if changing else None,
        "p999_of_alone": None,
    }


def measure_threads() -> list[Row]:
    """One shared population, batches on one thread and on two; by the clock, in turn."""
    feed = "nitf" if has_shared() else "news"
    messages = workloads.messages(feed) * 4
    return [row for population in ("1k", "10k", "100k") for row in _on_threads(feed, population, messages)]


def _on_threads(feed: str, population: str, messages: list[bytes]) -> list[Row]:
    queries = workloads.queries(feed, population)
    subscriptions = SubscriptionSet((f"b{number}", query) for number, query in enumerate(queries))
    batch = pa.array(messages, pa.large_binary())
    counts = (1, 2)
    spent: dict[int, list[float]] = {threads: [] for threads in counts}
    for _ in range(1 + THREAD_ROUNDS):
        for threads in counts:
            start = time.perf_counter()
            for _ in range(THREAD_BATCHES):
                subscriptions.match_batch(batch, threads=threads)
            spent[threads].append(time.perf_counter() - start)
    rows = []
    for threads in counts:
        # In the first round automata are made.
        taken = spent[threads][1:]
        rate = len(messages) * THREAD_BATCHES / median(taken)
        row = {"queries": len(queries), "threads": threads, "cores": os.cpu_count(), "messages_per_s": rate}
        if threads > 1:
            ratios = [one / this for one, this in zip(spent[1][1:], taken, strict=True)]
            row |= {"times_one": median(ratios), "target_times_one": TARGET_TIMES_ONE}
        rows.append(row)
    return rows
