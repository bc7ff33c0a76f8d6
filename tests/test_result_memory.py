"""Large results stream: they are not in memory twice. Measured in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource
from twigcast import SubscriptionSet

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

item = b"<i><t>" + b"words and words " * 12 + b"</t></i>"
message = b"<f>" + item * (50_000_000 // len(item)) + b"</f>"
subscriptions = SubscriptionSet([(str(number), query) for number, query in enumerate(QUERIES)])
subscriptions.node_counts(message)
before = peak()
deliveries = subscriptions.deliver(message)
made = sum(map(len, deliveries.payloads))
assert made > 49_000_000 * len(QUERIES), made
print((peak() - before) / made)
"""

BATCH = """
import pyarrow as pa
subscriptions.match_batch(pa.array([b"<f/>"]), deliver=True)
column = pa.array([message], pa.large_binary())
subscriptions.match_batch(column)
before = peak()
payloads = subscriptions.match_batch(column, deliver=True).column("payloads").values
print((peak() - before) / payloads.dictionary.nbytes)
"""


def growth(program: str, queries: list[str]) -> float:
    """By how much the peak of memory grows with the results, as a multiple of their size."""
    command = [sys.executable, "-c", f"QUERIES = {queries!r}\n{program}"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


@pytest.mark.parametrize(
    "queries",
    [
        ["for $i in /f/i return <r>{ $i }</r>"],
        ["<all>{ for $i in /f/i order by $i return <r>{ $i/t }</r> }</all>"],
        ["for $i in /f/i where $i/t return <r>{ $i/t }</r>"],
        ["for $i in /f/i return <r>{ $i }</r>", "for $i in /f/i where $i/t return <other>{ $i/t }</other>"],
    ],
    ids=["one", "ordered", "kept", "two"],
)
def test_a_large_result_is_in_memory_once(queries: list[str]) -> None:
    # What is kept for other queries takes its share, and ordering keeps each binding's key, a copy of the text here,
    # until the bindings are in order.
    assert growth(PROGRAM, queries) < (2.4 if "order by" in queries[0] else 1.6)


@pytest.mark.slow
def test_so_is_one_of_a_batch() -> None:
    program = PROGRAM.split("subscriptions.node_counts")[0] + BATCH
    assert growth(program, ["for $i in /f/i return <r>{ $i }</r>"]) < 1.6


HELD = """
import pyarrow as pa
from pathlib import Path

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

column = pa.array([b"<f><i/></f>"], pa.large_binary())
subscriptions.match_batch(column, deliver=True)
before = resident()
held = [subscriptions.match_batch(column, deliver=True) for _ in range(4_000)]
print((resident() - before) / len(held))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the resident memory from /proc")
def test_small_batches_that_are_kept_keep_little_memory() -> None:
    # Results are put together in memory made ready by the page; what little there is of them does not hold it.
    program = PROGRAM.split("subscriptions.node_counts")[0] + HELD
    assert growth(program, ["for $i in /f/i return <r>{ $i }</r>"]) < 12_000


AFTER_A_LARGE_ONE = HELD.replace(
    "before =",
    """
large = pa.array([b"<f>" + b"<i>words and words</i>" * 100_000 + b"</f>"], pa.large_binary())
for _ in range(4):
    subscriptions.match_batch(large, deliver=True)
    subscriptions.deliver(large[0].as_py()).arrow()
before =""",
).replace(
    "for _ in range(4_000)]",
    "for _ in range(2_000)]\nheld += [subscriptions.deliver(b'<f><i/></f>').arrow() for _ in range(2_000)]",
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the resident memory from /proc")
def test_small_answers_that_are_kept_do_not_keep_the_memory_of_a_large_one() -> None:
    # A few may be in memory that a large answer before them needed: with 2 MB of it each, 4,000 would hold 8 GB.
    program = PROGRAM.split("subscriptions.node_counts")[0] + AFTER_A_LARGE_ONE
    assert growth(program, ["for $i in /f/i return <r>{ $i }</r>"]) < 12_000


EXPORTED = """
from pathlib import Path
import resource
from twigcast import SubscriptionSet

subscriptions = SubscriptionSet([(str(number), query) for number, query in enumerate(QUERIES)])
message = b"<f>" + b"<i>words and words</i>" * 50 + b"</f>"

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

def export(count):
    for index in range(count):
        deliveries = subscriptions.deliver(message)
        unused = deliveries._results.__arrow_c_array__()
        part = deliveries.arrow().column("payload").dictionary[:1]
        unused = subscriptions._session.engine.key_table().__arrow_c_array__()
        subscriptions.replace(str(index % len(QUERIES)), QUERIES[index % len(QUERIES)])

export(2_000)
before = resident()
export(10_000)
print(resident() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the resident memory from /proc")
def test_exported_arrays_give_their_memory_back_whether_they_are_imported_or_not() -> None:
    # Each round exports some 3,000 bytes three times.
    assert growth(EXPORTED, ["//i", "for $i in /f/i return <r>{ $i }</r>"]) < 8_000_000
