"""Messages and queries: generated from the news DTD that comes with Twigcast, and real ones where they are at hand.

The folder of shared data, beside the project, holds 500 NITF documents and query files made by YFilter's own generator;
the published measurements were made on such. Without it the generated workloads stand alone.
"""

from __future__ import annotations

import gzip
import random
import re
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from twigcast.lab.workload import PRESETS, bundled_dtd, path_queries

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SEED = 7
MESSAGES = 500


@dataclass(frozen=True)
class Workload:
    """Queries for one set of messages."""

    name: str
    feed: str
    """``news`` (generated), ``nitf`` or ``xmark`` (real)."""
    what: str


@dataclass(frozen=True)
class Generated:
    """Parameters of a generated workload."""

    count: int
    what: str
    predicates: int = 0
    nested: int = 0
    by_order: bool = False
    values: bool = False
    """Compare the value of the last element by order."""


GENERATED = {
    "1k": Generated(1_000, "1,000 distinct paths"),
    "10k": Generated(10_000, "10,000 distinct paths"),
    "100k": Generated(100_000, "100,000 distinct paths"),
    "p1-50k": Generated(50_000, "50,000, one predicate each", predicates=1),
    "p2-50k": Generated(50_000, "50,000, two predicates each", predicates=2),
    "order-50k": Generated(
        50_000, "50,000, one predicate each, numbers compared by order", predicates=1, by_order=True
    ),
    "values-50k": Generated(50_000, "50,000, the last element's value compared by order", values=True),
    "np1-50k": Generated(50_000, "50,000, one nested path each", nested=1),
    "np3-50k": Generated(50_000, "50,000, three nested paths each", nested=3),
}

REAL = {
    "1k": ("d6_q1k", "1,000 distinct paths"),
    "10k": ("d6_q10k", "10,000 distinct paths"),
    "100k": ("d6_q100k", "100,000 distinct paths"),
    "500k-d8": ("d8_q500k", "500,000 distinct paths, depth 8"),
    "500k-random": ("yfilter_authors_500000_random", "500,000 with duplicates"),
    "p1-50k": ("d6_p1_50k", "50,000, one predicate each"),
    "p2-50k": ("d6_p2_50k", "50,000, two predicates each"),
    "order-50k": ("d6_p1_50k", "50,000, one predicate each, numbers compared by order"),
    "values-50k": ("d6_q100k", "50,000, the last element's value compared by order"),
    "np1-50k": ("d6_np1_50k", "50,000, one nested path each"),
    "np3-50k": ("d6_np3_50k", "50,000, three nested paths each"),
    "w0.4-10k": ("d10_w0.4_ds0_10k", "10,000, depth 10, * at 0.4"),
    "w0.8-10k": ("d10_w0.8_ds0_10k", "10,000, depth 10, * at 0.8"),
    "ds0.4-10k": ("d10_w0_ds0.4_10k", "10,000, depth 10, // at 0.4"),
    "ds0.8-10k": ("d10_w0_ds0.8_10k", "10,000, depth 10, // at 0.8"),
}


def has_shared() -> bool:
    """Whether the real documents and query files are at hand."""
    return (SHARED / "nitf").is_dir()


@cache
def messages(feed: str) -> list[bytes]:
    """The messages of a feed."""
    if feed == "news":
        return list(PRESETS["news"].make(bundled_dtd("news"), MESSAGES, SEED))
    if feed == "nitf":
        with tarfile.open(SHARED / "nitf" / "nitf-500.tar.gz") as archive:
            members = sorted((m for m in archive.getmembers() if m.isfile()), key=lambda m: m.name)
            return [file.read() for file in map(archive.extractfile, members) if file is not None]
    if feed == "xmark":
        return [gzip.decompress((SHARED / "xmark" / "auction-f0.03.xml.gz").read_bytes())]
    raise ValueError(f"there is no feed {feed!r}")


@cache
def queries(feed: str, name: str) -> list[str]:
    """The queries of a workload."""
    if feed == "news":
        requested = GENERATED[name]
        schema = bundled_dtd("news")
        domains = PRESETS["news"].domains(schema, SEED)
        created = path_queries(
            schema, requested.count, SEED, predicates=requested.predicates, nested=requested.nested, domains=domains
        )
        created = by_order(created) if requested.by_order else created
        return by_value(created) if requested.values else created
    folder = SHARED / ("xmark" if feed == "xmark" else "nitf/queries")
    stem = "queries_d8_w0.2_ds0.2_5k" if feed == "xmark" else REAL[name][0]
    with gzip.open(folder / f"{stem}.txt.gz", "rt", encoding="utf-8") as file:
        created = file.read().splitlines()
    if name == "values-50k":
        return by_value(created[: GENERATED[name].count])
    return by_order(created) if name == "order-50k" else created


def by_order(queries: list[str]) -> list[str]:
    """The queries with the tests of attributes for a number made comparisons by order."""
    chance = random.Random(SEED)
    equality = re.compile(r"(\[@[\w.:-]+)=([0-9]+\])")
    return [
        equality.sub(lambda result: result[1] + chance.choice(("<", "<=", ">", ">=")) + result[2], q) for q in queries
    ]


def by_value(paths: list[str]) -> list[str]:
    """Paths, each with a comparison by order of the value of its last element with a small number."""
    chance = random.Random(SEED)
    return [f"{path}[. {chance.choice(('<', '<=', '>', '>='))} {chance.randrange(1, 21)}]" for path in paths]


def workloads() -> list[Workload]:
    """All that can be run here."""
    created = [Workload(name, "news", requested.what) for name, requested in GENERATED.items()]
    if has_shared():
        created += [Workload(name, "nitf", what) for name, (_, what) in REAL.items()]
        created.append(Workload("xmark-5k", "xmark", "XMark document of 3.5 MB, 5,000 paths, depth 8"))
    return created
