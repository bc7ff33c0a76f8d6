"""All algorithms against libxml2: generated queries on generated messages, and queries coming and going."""

import doctest
import os
import pathlib
import re
from collections.abc import Callable

import pytest

import twigcast.lab.reference
import twigcast.query
from tests.lab.reference.generator import KINDS, Generator, generated, oracle
from twigcast.lab.reference import ALGORITHMS, PUBLISHED, Algorithm, OutsideFragment
from twigcast.lab.reference.gfilter import GFilter
from twigcast.lab.reference.lazy_dfa import LazyDFA
from twigcast.lab.reference.selection import UniformSelectivity
from twigcast.lab.reference.yfilter import YFilter
from twigcast.query import Axis, NameTest, Path, Step, attribute, child, descendant, equal, itself, nested, text

SELECTIVITY = UniformSelectivity({("a", "p"): 0.4, ("b", "p"): 0.1, ("a", "q"): 0.9}, {("a", "p"): 3, ("b", "p"): 2})

CONFIGURATIONS: dict[str, Callable[[], Algorithm]] = {
    **ALGORITHMS,
    "yfilter-sorted": lambda: YFilter(SELECTIVITY),
    "yfilter-lazy-deletion": lambda: YFilter(lazy_deletion=True),
    "lazy-dfa-tiny": lambda: LazyDFA(states_max=3),
    "gfilter-results": lambda: GFilter(keep_results=True),
}

SEEDS = range(20_000, 20_100 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 20_001)
"""As many as the effort profile of ``tests/conftest.py`` asks for."""


def add_all(algorithm: Algorithm, queries: dict[str, Path]) -> dict[str, Path]:
    """Add what the algorithm accepts, and return that."""
    accepted = {}
    for query_id, query in queries.items():
        try:
            algorithm.add(query_id, query)
        except OutsideFragment:
            assert query_id not in algorithm
        else:
            accepted[query_id] = query
    return accepted


def explain(message: bytes, queries: dict[str, Path], got: set[str], expected: set[str]) -> str:
    wrong = {str(queries[query_id]): query_id in expected for query_id in got ^ expected}
    return f"{message.decode()}: expected {wrong}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_equals_libxml2(name: str, kind: str, seed: int) -> None:
    algorithm = CONFIGURATIONS[name]()
    accepted: dict[str, Path] | None = None
    matches = 0
    for queries, message in generated(kind, seed, population=120, messages=20):
        if accepted is None:
            accepted = add_all(algorithm, queries)
            assert len(algorithm) == len(accepted)
        got, expected = algorithm.match(message), oracle(message, accepted)
        assert got == expected, explain(message, accepted, got, expected)
        matches += len(got)
    assert accepted is not None
    # The comparison must not be one of empty sets, nor of a few queries.
    assert matches > 50
    assert len(accepted) >= (20 if name == "yfilter-inline" else 115)


def leave_only(algorithm: Algorithm) -> None:
    if isinstance(algorithm, YFilter):
        algorithm.collect_garbage()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_coming_and_going_leaves_nothing_behind(name: str) -> None:
    generator = Generator(7)
    algorithm = CONFIGURATIONS[name]()
    present: dict[str, Path] = {}
    for turn in range(160):
        if present and generator.random.random() < 0.45:
            gone = generator.random.choice(sorted(present))
            del present[gone]
            algorithm.remove(gone)
            assert gone not in algorithm
        else:
            # Identifiers come back with other queries.
            query_id = generator.random.choice([f"Q{n}" for n in range(60) if f"Q{n}" not in present])
            kind = generator.random.choice(sorted(KINDS))
            present |= add_all(algorithm, {query_id: KINDS[kind](generator)})
        assert len(algorithm) == len(present)
        if turn % 8 == 0:
            message = generator.message()
            got, expected = algorithm.match(message), oracle(message, present)
            assert got == expected, explain(message, present, got, expected)
    leave_only(algorithm)
    assert algorithm.counters.states == size_of(name, present)
    for query_id in sorted(present):
        algorithm.remove(query_id)
    leave_only(algorithm)
    assert algorithm.counters.states == size_of(name, {})
    assert algorithm.match(b"<a><b/></a>") == set()


def size_of(name: str, queries: dict[str, Path]) -> int:
    """Size of the structure when it is built afresh."""
    fresh = CONFIGURATIONS[name]()
    add_all(fresh, queries)
    fresh.add("one more", Path.absolute(child("z")))
    fresh.remove("one more")
    leave_only(fresh)
    return fresh.counters.states


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_modes_deviate(name: str) -> None:
    """And the level checks only where a `//` is near a `*` or between substrings."""
    deviations = 0
    for kind in KINDS:
        algorithm = PUBLISHED[name]()
        accepted: dict[str, Path] | None = None
        for queries, message in generated(kind, 11, population=200, messages=20):
            if accepted is None:
                accepted = add_all(algorithm, queries)
            wrong = algorithm.match(message) ^ oracle(message, accepted)
            deviations += len(wrong)
            if name in ("xfilter-published", "hybrid-diao-published"):
                assert all("//" in str(accepted[query_id]) for query_id in wrong)
    assert deviations > 0


@pytest.mark.parametrize("name", [*ALGORITHMS, *PUBLISHED])
def test_a_refused_query_leaves_nothing_behind(name: str) -> None:
    algorithm = (ALGORITHMS | PUBLISHED)[name]()
    outside = Path.absolute(Step(Axis.CHILD, NameTest("a")), Step(Axis.PARENT, NameTest("b")))
    with pytest.raises(OutsideFragment, match="the parent axis"):
        algorithm.add("Q", outside)
    assert len(algorithm) == 0
    algorithm.add("Q", Path.absolute(child("a"), child("b")))
    with pytest.raises(ValueError, match="there is a query 'Q' already"):
        algorithm.add("Q", Path.absolute(child("c"), child("d")))
    with pytest.raises(KeyError, match="R"):
        algorithm.remove("R")
    assert algorithm.match(b"<c><d/></c>") == set()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_messages_deeper_than_pythons_stack(name: str) -> None:
    depth = 3_000
    message = b'<r p="1">' + b"<a>" * depth + b"<b>x</b>" + b"</a>" * depth + b"</r>"
    algorithm = CONFIGURATIONS[name]()
    queries = {
        "Q1": Path.absolute(descendant("a"), child("b")),
        "Q2": Path.absolute(child("r", equal(attribute("p"), 1)), descendant("b", equal(text(), "x"))),
        "Q3": Path.absolute(child("r", nested(descendant("b"))), descendant("b")),
        "Q4": Path.absolute(child("r", equal(itself(), "x"))),
        "Q5": Path.absolute(child("a"), descendant("b")),
    }
    accepted = add_all(algorithm, queries)
    assert algorithm.match(message) == accepted.keys() - {"Q5"}
    assert len(accepted) >= 4


def test_all_examples_in_the_documentation_run(repository: pathlib.Path) -> None:
    for module in (twigcast.query, twigcast.lab.reference):
        assert doctest.testmod(module).failed == 0
        assert doctest.testmod(module).attempted > 0
    page = (repository / "docs/algorithms/index.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    results = {"import twigcast": None}
    for line in block.splitlines():
        code, _, shown = line.partition("   # ")
        if shown.startswith("{"):
            assert repr(eval(code, results)) == shown.strip()
        else:
            exec(code, results)
