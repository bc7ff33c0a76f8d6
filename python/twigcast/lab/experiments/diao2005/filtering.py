"""Measures filters: indexing, matching without parsing, counters; results are checked before anything is timed."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from statistics import median

from lxml import etree

from twigcast.lab.experiments.framework.claims import grows_less, ordered
from twigcast.lab.experiments.framework.matchers import (
    ENGINE,
    NOTHING,
    Contender,
    EngineMatcher,
    Matcher,
    with_engine,
)
from twigcast.lab.experiments.framework.model import MQPT, TOTAL, Measured, Point, X
from twigcast.lab.experiments.framework.timing import REPETITIONS, clock, in_turn
from twigcast.lab.experiments.framework.workloads import build
from twigcast.lab.reference.events import read_events

ORACLE_SAMPLE = 200
"""Queries per point that lxml evaluates one by one, to check all series against."""

INDEXING = "indexing_ms"
MATCHED = "matched"
LOST = "lost_matches"
FALSE = "false_matches"
PARSING = "parsing_ms"
MEMORY = "memory_mb"
"""Python's memory for the stored queries and one message, the queries' texts left out."""
MEMORY_QUERIES_MAX = 10_000
"""Memory is measured up to so many queries: it grows in proportion, and tracing it takes several times as long."""


DEARER_TRANSITIONS = (
    "Python's YFilter keeps an entry with its predecessors for every state it enters, which predicates and nested "
    "paths need; Hybrid compares two numbers. Per transition YFilter costs more, so where transitions differ little, "
    "as with few queries, Hybrid is ahead. The order in transitions, which has no language in it, is as published."
)
"""Why YFilter may not come first in time."""


TRANSITION_CLAIMS = (
    ordered(
        "The same order in transitions followed, which do not depend on the machine",
        ("YFilter", "Hybrid", "XFilter (List Balance)"),
        metric="transitions",
    ).conjectured(),
    grows_less(
        "YFilter's transitions grow by a smaller factor than Hybrid's",
        "YFilter",
        "Hybrid",
        metric="transitions",
        factor=True,
    ).conjectured(),
)
"""What we conjecture of transitions wherever the source compares the three in time."""


class WrongResultError(AssertionError):
    """Two series, or a series and lxml, disagree: nothing that they take can be compared."""


def measuring(*contenders: Contender, memory: bool = False) -> Callable[[Point], list[Measured]]:
    """Returns the measurement of most figures: these contenders, the first one exact, on the workload of the point."""

    def measure(point: Point) -> list[Measured]:
        queries, documents = build(point.parameters)
        measured = memory and len(queries) <= MEMORY_QUERIES_MAX
        needed = measure_memory(point.x, contenders, queries, documents[0]) if measured else []
        return [*measure_filters(point.x, contenders, queries, documents), *needed]

    return measure


def measure_memory(x: X, contenders: Sequence[Contender], queries: Sequence[str], document: bytes) -> list[Measured]:
    """Measures the memory that each contender needs for the queries, and while it matches one message."""
    named = {f"q{number}": query for number, query in enumerate(queries)}
    rows = []
    for contender in contenders:
        gc.collect()
        tracemalloc.start()
        matcher = contender.make()
        matcher.add_all(named)
        matcher.prepare([document])
        matcher.run(0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append(Measured(contender.name, x, MEMORY, (peak / 1e6,)))
    return rows


def measure_filters(
    x: X,
    contenders: Sequence[Contender],
    queries: Sequence[str],
    documents: Sequence[bytes],
    *,
    repetitions: int = REPETITIONS,
    engine: bool = True,
) -> list[Measured]:
    """Measures every contender, and our engine, on the same queries and messages.

    Times are per message. For the published algorithms MQPT is the time on events that have been read, and the total
    adds the time of reading them with expat; for the engine the total is the time from bytes to results, and MQPT
    leaves out what an engine with one query that nothing matches takes for the same bytes.

    Raises:
        WrongResultError: the results of two exact series differ, or differ from lxml's.
    """
    named = {f"q{number}": query for number, query in enumerate(queries)}
    chosen = with_engine(contenders) if engine else contenders
    expected: list[set[str]] | None = None
    measured: list[Measured] = []
    matchers = []
    for contender in chosen:
        matcher = contender.make()
        matchers.append(matcher)
        started = clock()
        matcher.add_all(named)
        indexing = (clock() - started) * 1000
        matcher.prepare(documents)
        matcher.counters()
        results = [matcher.match(number) for number in range(len(documents))]
        counted = matcher.counters()
        if expected is None and contender.exact:
            expected = results
            check_with_lxml(named, documents, results)
        measured += _compare(contender, x, results, expected)
        measured += _counters(contender.name, x, counted, len(documents), results)
        measured.append(Measured(contender.name, x, INDEXING, (indexing,)))
    works = [partial(_pass, matcher, len(documents)) for matcher in matchers]
    bare = [_engine_alone(documents)] if engine else []
    parsed, *rest = in_turn([partial(_read, documents), *works, *bare], repetitions=repetitions, per=len(documents))
    for contender, times in zip(chosen, rest, strict=False):
        measured += _timed(contender.name, x, times, rest[-1] if contender.name == ENGINE else parsed)
    return measured


def _timed(series: str, x: X, times: tuple[float, ...], parsing: tuple[float, ...]) -> list[Measured]:
    """What was timed, as MQPT and total: the engine's times include parsing, those of the others do not."""
    if series == ENGINE:
        without = tuple(max(time - min(parsing), 0.0) for time in times)
        total = times
    else:
        without = times
        total = tuple(time + median(parsing) for time in times)
    return [
        Measured(series, x, MQPT, without),
        Measured(series, x, TOTAL, total),
        Measured(series, x, PARSING, parsing),
    ]


def _pass(matcher: Matcher, count: int) -> None:
    for number in range(count):
        matcher.run(number)


def _read(documents: Sequence[bytes]) -> None:
    for document in documents:
        read_events(document)


def _engine_alone(documents: Sequence[bytes]) -> Callable[[], object]:
    """An engine with one query that nothing matches, warm: what it takes is scanning."""
    matcher = EngineMatcher()
    matcher.add_all({"nothing": NOTHING})
    matcher.prepare(documents)
    _pass(matcher, len(documents))
    return partial(_pass, matcher, len(documents))


def _counters(
    series: str, x: X, counted: Mapping[str, float], documents: int, result: Sequence[set[str]]
) -> list[Measured]:
    """Counters per message; sizes and peaks as they are."""
    rows = []
    for name, value in counted.items():
        total = name == "states" or name.endswith("_peak") or name.startswith("engine ")
        rows.append(Measured(series, x, name, (value if total else value / documents,)))
    rows.append(Measured(series, x, MATCHED, (sum(map(len, result)) / documents,)))
    return rows


def _compare(
    contender: Contender, x: X, result: Sequence[set[str]], expected: Sequence[set[str]] | None
) -> list[Measured]:
    if expected is None:
        raise WrongResultError(f"{contender.name} is not exact, so it cannot come first")
    if result == list(expected):
        return [] if contender.exact else _errors(contender.name, x, result, expected)
    if not contender.exact:
        return _errors(contender.name, x, result, expected)
    for number, (one, other) in enumerate(zip(result, expected, strict=True)):
        if one != other:
            raise WrongResultError(f"{contender.name}, document {number}: {sorted(one ^ other)[:5]} differ")
    raise AssertionError("equal after all")


def _errors(series: str, x: X, results: Sequence[set[str]], expected: Sequence[set[str]]) -> list[Measured]:
    lost = sum(len(e - f) for f, e in zip(results, expected, strict=True)) / len(results)
    false = sum(len(f - e) for f, e in zip(results, expected, strict=True)) / len(results)
    return [Measured(series, x, LOST, (lost,)), Measured(series, x, FALSE, (false,))]


def check_with_lxml(queries: Mapping[str, str], documents: Sequence[bytes], result: Sequence[set[str]]) -> None:
    """Evaluates a sample of the queries one by one with libxml2.

    Raises:
        WrongResultError: it finds otherwise.
    """
    random = Random(f"oracle {len(queries)}").random  # noqa: S311  (a reproducible sample)
    chosen = [query_id for query_id in queries if random() < ORACLE_SAMPLE / len(queries)]
    trees = [etree.fromstring(document) for document in documents]
    for query_id in chosen:
        evaluate = etree.XPath(f"boolean({queries[query_id]})")
        for number, tree in enumerate(trees):
            if bool(evaluate(tree)) != (query_id in result[number]):
                raise WrongResultError(f"lxml finds otherwise for {queries[query_id]} on document {number}")
