"""Filtering: from the bytes of a message to the matching keys, for all workloads."""

from __future__ import annotations

import sys

import lxml.etree
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import workloads
from benchmarks.measure import Row, once, parse_with_expat, resident_bytes, side_by_side
from twigcast import SubscriptionSet

ROUNDS = 7
LXML_QUERIES_MAX = 1_000
LXML_MESSAGES = 50


def measure(feed: str, name: str) -> Row:
    """One workload, in a process of its own (memory is measured too)."""
    messages = workloads.messages(feed)
    queries = workloads.queries(feed, name)
    keys = [f"s{number}" for number in range(len(queries))]
    batch = pa.array(messages, pa.large_binary())
    warm_up(messages[:3])
    subscriptions = SubscriptionSet()
    before = resident_bytes()
    added = once(lambda: subscriptions.add_many(list(zip(keys, queries, strict=True))))
    memory = resident_bytes() - before

    def match() -> pa.RecordBatch:
        return subscriptions.match_batch(batch)

    def match_groups() -> pa.RecordBatch:
        return subscriptions.match_batch(batch, grouped=True)

    first = once(match)
    expat, ours, groups = side_by_side(ROUNDS, lambda: parse_with_expat(messages), match, match_groups)
    matches = len(match().column("keys").values)
    if pc.sum(match_groups().column("matches")).as_py() != matches:
        sys.exit(f"{feed} {name}: the groups hold another number of keys")
    unseen = _unseen(feed, subscriptions_of(keys, queries), messages)
    count = len(messages)
    return {
        "workload": f"{feed} {name}",
        "queries": len(queries),
        "matches": matches / count,
        "E_us": expat.median / count * 1e6,
        "us": ours.median / count * 1e6,
        "E": ours.median / expat.median,
        "best_E": ours.best / expat.best,
        "grouped_E": groups.median / expat.median,
        "first_pass_E": first / expat.median,
        "unseen_E": unseen / expat.median if unseen is not None else None,
        "messages_per_s": count / ours.median,
        "bytes_per_query": memory / len(queries),
        "queries_per_s": len(queries) / added,
    }


def warm_up(messages: list[bytes]) -> None:
    """Load what is loaded once a process, so that it counts for no workload."""
    small = SubscriptionSet()
    small.add("warm", "//up")
    small.match_batch(pa.array(messages, pa.large_binary()))


def subscriptions_of(keys: list[str], queries: list[str]) -> SubscriptionSet:
    """A set without anything learnt from messages yet."""
    subscriptions = SubscriptionSet()
    subscriptions.add_many(list(zip(keys, queries, strict=True)))
    return subscriptions


def _unseen(feed: str, subscriptions: SubscriptionSet, messages: list[bytes]) -> float | None:
    """Seconds that all messages would take if each were new: the second half, after the first half was matched."""
    if len(messages) < 2:
        return None
    half = len(messages) // 2
    subscriptions.match_batch(pa.array(messages[:half], pa.large_binary()))
    later = pa.array(messages[half:], pa.large_binary())
    spent = once(lambda: subscriptions.match_batch(later))
    share = sum(map(len, messages[half:])) / sum(map(len, messages))
    return spent / share


def measure_lxml(feed: str, name: str) -> Row:
    """The peer: libxml2 with one compiled XPath per query, on fewer messages."""
    messages = workloads.messages(feed)[:LXML_MESSAGES]
    queries = workloads.queries(feed, name)[:LXML_QUERIES_MAX]
    compiled = [lxml.etree.XPath(query) for query in queries]
    subscriptions = subscriptions_of([f"s{number}" for number in range(len(queries))], queries)

    def match() -> list[list[int]]:
        trees = [lxml.etree.fromstring(message) for message in messages]
        return [[number for number, query in enumerate(compiled) if query(tree)] for tree in trees]

    expected = [[f"s{number}" for number in row] for row in match()]
    results = [sorted(subscriptions.match(message).keys, key=lambda key: int(key[1:])) for message in messages]
    if results != expected:
        sys.exit(f"{feed} {name}: the answers differ from libxml2's")
    expat, theirs = side_by_side(3, lambda: parse_with_expat(messages), match)
    return {
        "workload": f"{feed} {name}",
        "queries": len(queries),
        "us": theirs.median / len(messages) * 1e6,
        "E": theirs.median / expat.median,
        "same_answers": True,
    }
