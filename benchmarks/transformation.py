"""For-Where-Return queries: from the bytes of a message to the payloads, in the published Bib and Book settings.

``library`` and ``manual`` are generated from the DTDs that come with Twigcast, which have the shape of the XQuery use
cases' Bib and Book; ``bib`` and ``book`` are the real ones, where they are at hand. A feed's ``-full`` has binding
paths that go as deep as they may, which meets the one published number of matches (see ``flwr_parts``); without, half
of the binding paths are the root. ``-3`` has three predicate paths a query, as one point of the published figure 6.8;
``-v100`` has a hundred values where the others have ten, as the published figure 6.11, which is the one that goes from
5,000 to 40,000 queries.
"""

from __future__ import annotations

import gzip
import resource
import tarfile
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import Row, once, parse_with_expat, side_by_side
from benchmarks.workloads import SEED, SHARED
from twigcast import SubscriptionSet
from twigcast.lab.workload import PRESETS, FlwrQuery, bundled_dtd, flwr_parts

MESSAGES = 100
BATCH = 10
"""Messages of a batch, where several are delivered at once as in the pipeline; more would mostly measure how the system
hands out memory for the answer."""
BINDING_DEPTH = {"library": 2, "manual": 3}
PREDICATES = 3
MANY_VALUES = 100
LARGE_BYTES = 50_000_000
LARGE_QUERIES = {
    "each binding whole": ["for $i in /f/i return <r>{ $i }</r>"],
    "where, a path": ["for $i in /f/i where $i/t return <r>{ $i/t }</r>"],
    "both": ["for $i in /f/i return <r>{ $i }</r>", "for $i in /f/i where $i/t return <other>{ $i/t }</other>"],
}
UNSHARED_QUERIES = 40_000
"""The population of the published comparison of shared and separate plans."""

TARGET_E = {10_000: 3, 100_000: 10}
"""By number of queries: E a message in all."""
TARGET_COPIES = 4
"""Times what copying all that is delivered takes, once results dominate: where copying takes longer than parsing."""
TARGET_UNSHARED = 5
"""Times as long without sharing, at least."""


def feeds() -> list[str]:
    """What can be measured here."""
    real = ["bib", "book"] if (SHARED / "usecases").is_dir() else []
    full = [f"{feed}-full" for feed in BINDING_DEPTH]
    generated = [*BINDING_DEPTH, *full]
    options = [f"v{MANY_VALUES}", f"{PREDICATES}"]
    return [*generated, *(f"{feed}-{option}" for option in options for feed in generated), *real]


def counts(feed: str) -> list[int]:
    """Sizes of populations."""
    if feed in BINDING_DEPTH:
        return [100, 10_000, UNSHARED_QUERIES, 100_000]
    if feed.endswith("-full"):
        return [10_000, 100_000]
    return [10_000] if feed.partition("-")[0] in BINDING_DEPTH else [100, 5_000]


def messages(feed: str) -> list[bytes]:
    """The messages of a feed."""
    base = feed.partition("-")[0]
    if base in BINDING_DEPTH:
        return list(PRESETS[base].make(bundled_dtd(base), MESSAGES, SEED))
    with tarfile.open(SHARED / "usecases" / f"{feed}-200.tar.gz") as archive:
        members = sorted((m for m in archive.getmembers() if m.isfile()), key=lambda m: m.name)[:MESSAGES]
        return [file.read() for file in map(archive.extractfile, members) if file is not None]


def parts(feed: str, count: int) -> list[FlwrQuery]:
    """Distinct queries with two return paths each, of a feed that is generated."""
    base, *options = feed.split("-")
    return flwr_parts(
        bundled_dtd(base),
        count,
        SEED,
        binding_depth=BINDING_DEPTH[base],
        # A hundred thousand distinct queries want larger domains than the published ten values.
        max_value=MANY_VALUES if count > 10_000 or f"v{MANY_VALUES}" in options else 10,
        predicate_paths=PREDICATES if str(PREDICATES) in options else 1,
        full_bindings="full" in options,
    )


def queries(feed: str, count: int) -> list[str]:
    """Distinct queries with two return paths each."""
    if feed.partition("-")[0] in BINDING_DEPTH:
        return [part.text for part in parts(feed, count)]
    with gzip.open(SHARED / "usecases" / f"{feed}_flwr_q5000.txt.gz", "rt", encoding="utf-8") as file:
        return file.read().splitlines()[:count]


def measure(feed: str, count: str) -> Row:
    """One population, in a process of its own."""
    texts = queries(feed, int(count))
    bodies = messages(feed)
    subscriptions = SubscriptionSet()
    added = once(lambda: subscriptions.add_many([(f"s{number}", text) for number, text in enumerate(texts)]))
    batches = [pa.array([body], pa.large_binary()) for body in bodies]
    several = [pa.array(bodies[at : at + BATCH], pa.large_binary()) for at in range(0, len(bodies), BATCH)]

    def ask(batches: list[pa.Array], *, deliver: bool) -> None:
        for batch in batches:
            subscriptions.match_batch(batch, deliver=deliver)

    def know() -> None:
        for body in bodies:
            subscriptions.deliver(body)

    def tell() -> None:
        for body in bodies:
            _ = subscriptions.deliver(body).payload_indices

    def make() -> None:
        for body in bodies:
            subscriptions.deliver(body).arrow()

    deliveries, different, delivered = _counted(subscriptions, batches)
    delivered_together = [sum(delivered[at : at + BATCH]) for at in range(0, len(delivered), BATCH)]
    expat, matching, knowing, telling, making, by_arrow, in_batches, copying, copying_all, copying_batches = (
        side_by_side(
            5,
            lambda: parse_with_expat(bodies),
            lambda: ask(batches, deliver=False),
            know,
            tell,
            make,
            lambda: ask(batches, deliver=True),
            lambda: ask(several, deliver=True),
            copier(different),
            copier(delivered),
            copier(delivered_together),
        )
    )
    return {
        "feed": feed,
        "queries": len(texts),
        "deliveries": deliveries / len(bodies),
        "bytes_out": sum(delivered) / len(bodies),
        "different_bytes": sum(different) / len(bodies),
        "E_us": expat.median / len(bodies) * 1e6,
        "match_only_E": matching.median / expat.median,
        "known_E": knowing.median / expat.median,
        "told_E": telling.median / expat.median,
        "E": making.median / expat.median,
        "arrow_E": by_arrow.median / expat.median,
        "batch_E": in_batches.median / expat.median,
        "target_E": TARGET_E.get(len(texts)),
        "copy_different_E": copying.median / expat.median,
        "copy_all_E": copying_all.median / expat.median,
        "copy_batch_E": copying_batches.median / expat.median,
        "copies": making.median / copying_all.median,
        "batch_copies": in_batches.median / copying_batches.median,
        "target_copies": TARGET_COPIES if copying_all.median > expat.median else None,
        "unshared_times": _unshared(subscriptions, batches[:10]) if len(texts) == UNSHARED_QUERIES else None,
        "target_unshared": TARGET_UNSHARED if len(texts) == UNSHARED_QUERIES else None,
        "queries_per_s": len(texts) / added,
    }


def _counted(subscriptions: SubscriptionSet, batches: list[pa.Array]) -> tuple[int, list[int], list[int]]:
    """Deliveries in all; by batch, the bytes of different payloads, and of all that are delivered."""
    all_payloads = [subscriptions.match_batch(batch, deliver=True).column("payloads").values for batch in batches]
    lengths = [pc.binary_length(payloads.dictionary) for payloads in all_payloads]
    different = [pc.sum(sizes).as_py() or 0 for sizes in lengths]
    delivered = [
        pc.sum(sizes.take(payloads.indices)).as_py() or 0 for sizes, payloads in zip(lengths, all_payloads, strict=True)
    ]
    return sum(map(len, all_payloads)), different, delivered


def copier(sizes: list[int]) -> Callable[[], None]:
    """What copies so many bytes each time, from memory in use to memory in use."""
    largest = max(sizes)
    source, target = memoryview(b"\x01" * largest), memoryview(bytearray(b"\x02" * largest))

    def copy() -> None:
        for size in sizes:
            target[:size] = source[:size]

    return copy


def _unshared(subscriptions: SubscriptionSet, batches: list[pa.Array]) -> float:
    """How many times as long it takes if each query's result is computed by itself, from the same matches."""

    def deliver(share: bool) -> None:
        subscriptions._session.engine.share_results(share)
        for batch in batches:
            subscriptions.match_batch(batch, deliver=True)

    shared, unshared = side_by_side(3, lambda: deliver(True), lambda: deliver(False))
    subscriptions._session.engine.share_results(True)
    return unshared.median / shared.median


def measure_memory(kind: str) -> Row:
    """Peak memory of delivering one large message with many bindings, in a process of its own."""
    item = b"<i><t>" + b"words and words " * 12 + b"</t></i>"
    message = b"<f>" + item * (LARGE_BYTES // len(item)) + b"</f>"
    subscriptions = SubscriptionSet([(str(number), query) for number, query in enumerate(LARGE_QUERIES[kind])])
    subscriptions.node_counts(message)
    before = _peak_bytes()
    results = sum(map(len, subscriptions.deliver(message).payloads))
    peak = _peak_bytes()
    return {
        "queries": kind,
        "message_mb": len(message) / 1e6,
        "bindings": LARGE_BYTES // len(item),
        "results_mb": results / 1e6,
        "peak_before_mb": before / 1e6,
        "peak_mb": peak / 1e6,
        "grown_by_results": (peak - before) / results,
    }


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
