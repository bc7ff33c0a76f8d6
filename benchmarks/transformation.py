"""For-Where-Return queries: from the bytes of a message to the payloads, in the published Bib and Book settings.

``library`` and ``manual`` are generated from the DTDs that come with Twigcast, which have the shape of the XQuery use
cases' Bib and Book; ``bib`` and ``book`` are the real ones, where they are at hand.
"""

from __future__ import annotations

import gzip
import tarfile

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import Row, once, parse_with_expat, side_by_side
from benchmarks.workloads import SEED, SHARED
from twigcast import SubscriptionSet
from twigcast.workload import PRESETS, bundled_dtd, flwr_queries

MESSAGES = 100
BINDING_DEPTH = {"library": 2, "manual": 3}


def feeds() -> list[str]:
    """What can be measured here."""
    return ["library", "manual", *(["bib", "book"] if (SHARED / "usecases").is_dir() else [])]


def counts(feed: str) -> list[int]:
    """Sizes of populations."""
    return [100, 10_000, 100_000] if feed in BINDING_DEPTH else [100, 5_000]


def messages(feed: str) -> list[bytes]:
    """The messages of a feed."""
    if feed in BINDING_DEPTH:
        return list(PRESETS[feed].make(bundled_dtd(feed), MESSAGES, SEED))
    with tarfile.open(SHARED / "usecases" / f"{feed}-200.tar.gz") as archive:
        members = sorted((m for m in archive.getmembers() if m.isfile()), key=lambda m: m.name)[:MESSAGES]
        return [file.read() for file in map(archive.extractfile, members) if file is not None]


def queries(feed: str, count: int) -> list[str]:
    """Distinct queries with one predicate path and two return paths each."""
    if feed in BINDING_DEPTH:
        # A hundred thousand distinct queries want larger domains than the published ten values.
        values = 10 if count <= 10_000 else 100
        schema = bundled_dtd(feed)
        return flwr_queries(schema, count, SEED, binding_depth=BINDING_DEPTH[feed], max_value=values)
    with gzip.open(SHARED / "usecases" / f"{feed}_flwr_q5000.txt.gz", "rt", encoding="utf-8") as file:
        return file.read().splitlines()[:count]


def measure(feed: str, count: str) -> Row:
    """One population, in a process of its own."""
    texts = queries(feed, int(count))
    bodies = messages(feed)
    batch = pa.array(bodies, pa.large_binary())
    subscriptions = SubscriptionSet()
    added = once(lambda: subscriptions.add_many([(f"s{number}", text) for number, text in enumerate(texts)]))

    def deliver() -> pa.RecordBatch:
        return subscriptions.match_batch(batch, deliver=True)

    def match() -> pa.RecordBatch:
        return subscriptions.match_batch(batch)

    expat, matching, delivering = side_by_side(5, lambda: parse_with_expat(bodies), match, deliver)
    payloads = deliver().column("payloads").values
    size = pc.sum(pc.binary_length(payloads.dictionary).take(payloads.indices)).as_py()
    return {
        "feed": feed,
        "queries": len(texts),
        "deliveries": len(payloads) / len(bodies),
        "bytes_out": size / len(bodies),
        "E_us": expat.median / len(bodies) * 1e6,
        "us": delivering.median / len(bodies) * 1e6,
        "E": delivering.median / expat.median,
        "match_only_E": matching.median / expat.median,
        "queries_per_s": len(texts) / added,
    }
