"""All algorithms against libxml2: generated queries on generated messages, and queries coming and going."""

import random
from collections.abc import Callable, Iterator

import pytest
from lxml import etree

from twigcast.query import (
    Axis,
    Expr,
    NameTest,
    Operator,
    Path,
    Step,
    attribute,
    child,
    compare,
    descendant,
    itself,
    nested,
    position,
    text,
)
from twigcast.reference import ALGORITHMS, PUBLISHED, Algorithm, UnsupportedQuery
from twigcast.reference.gfilter import GFilter
from twigcast.reference.lazy_dfa import LazyDFA
from twigcast.reference.selection import UniformSelectivity
from twigcast.reference.yfilter import YFilter

NAMES = "abc"
OPERATORS = [*"=<>", "!=", "<=", ">="]
SELECTIVITY = UniformSelectivity({("a", "p"): 0.4, ("b", "p"): 0.1, ("a", "q"): 0.9}, {("a", "p"): 3, ("b", "p"): 2})

CONFIGURATIONS: dict[str, Callable[[], Algorithm]] = {
    **ALGORITHMS,
    "yfilter-sorted": lambda: YFilter(SELECTIVITY),
    "yfilter-lazy-deletion": lambda: YFilter(lazy_deletion=True),
    "lazy-dfa-tiny": lambda: LazyDFA(states_max=3),
    "gfilter-results": lambda: GFilter(keep_results=True),
}


class Generator:
    """Small recursive messages over few names, and queries that have a fair chance on them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def message(self) -> bytes:
        return self._element(1).encode()

    def _element(self, level: int) -> str:
        name = self.random.choice(NAMES)
        attributes = "".join(
            f' {key}="{self.random.choice(["1", "2", "03", "x"])}"' for key in "pq" if self.random.random() < 0.35
        )
        parts: list[str] = []
        for _ in range(self.random.choice([0, 1, 1, 2, 3]) if level < 6 else 0):
            parts.append(self._text())
            parts.append(self._element(level + 1))
        parts.append(self._text())
        return f"<{name}{attributes}>{''.join(parts)}</{name}>"

    def _text(self) -> str:
        return self.random.choice(["", "", "", "1", "2", "x", "<!--c-->", "1<!--c-->2", "<![CDATA[x]]>1"])

    def linear(self) -> Path:
        return Path.absolute(*(self._step(()) for _ in range(self.random.randint(1, 5))))

    def conditional(self) -> Path:
        return Path.absolute(*(self._step(self._conditions()) for _ in range(self.random.randint(1, 4))))

    def twig(self, *, values: bool) -> Path:
        return Path.absolute(*self._twig_steps(0, values))

    def _twig_steps(self, depth: int, values: bool) -> list[Step]:
        steps = []
        for _ in range(self.random.randint(1, 3 if depth < 2 else 2)):
            predicates: list[Expr] = list(self._conditions()) if values and self.random.random() < 0.3 else []
            while depth < 2 and self.random.random() < 0.35:
                path = nested(*self._twig_steps(depth + 1, values))
                value = values and self.random.random() < 0.2
                predicates.append(compare(path, self._operator(), self._value()) if value else path)
            steps.append(self._step(tuple(predicates)))
        return steps

    def _step(self, predicates: tuple[Expr, ...]) -> Step:
        name = "*" if self.random.random() < 0.2 else self.random.choice(NAMES)
        return (descendant if self.random.random() < 0.35 else child)(name, *predicates)

    def _conditions(self) -> tuple[Expr, ...]:
        return tuple(self._condition() for _ in range(self.random.choice([0, 0, 1, 1, 2])))

    def _condition(self) -> Expr:
        kind = self.random.random()
        if kind < 0.15:
            return attribute(self.random.choice("pq"))
        if kind < 0.55:
            return compare(attribute(self.random.choice("pq")), self._operator(), self._value())
        if kind < 0.7:
            return compare(text(), self._operator(), self._value())
        if kind < 0.8:
            return compare(itself(), self._operator(), self._value())
        return position(self._operator(), self.random.randint(1, 3))

    def _operator(self) -> Operator:
        return Operator(self.random.choice(OPERATORS))

    def _value(self) -> str | float:
        values: list[str | float] = ["1", "x", 1.0, 2.0, 3.0]
        return self.random.choice(values)


KINDS: dict[str, Callable[[Generator], Path]] = {
    "linear": Generator.linear,
    "conditional": Generator.conditional,
    "twig": lambda generator: generator.twig(values=False),
    "twig with values": lambda generator: generator.twig(values=True),
}


def oracle(message: bytes, queries: dict[str, Path]) -> set[str]:
    document = etree.fromstring(message).getroottree()
    return {query_id for query_id, query in queries.items() if document.xpath(str(query))}


def generated(kind: str, seed: int, population: int, messages: int) -> Iterator[tuple[dict[str, Path], bytes]]:
    generator = Generator(seed)
    queries = {f"Q{number}": KINDS[kind](generator) for number in range(population)}
    for _ in range(messages):
        yield queries, generator.message()


def add_all(algorithm: Algorithm, queries: dict[str, Path]) -> dict[str, Path]:
    """Add what the algorithm accepts, and return that."""
    accepted = {}
    for query_id, query in queries.items():
        try:
            algorithm.add(query_id, query)
        except UnsupportedQuery:
            assert query_id not in algorithm
        else:
            accepted[query_id] = query
    return accepted


def explain(message: bytes, queries: dict[str, Path], got: set[str], expected: set[str]) -> str:
    wrong = {str(queries[query_id]): query_id in expected for query_id in got ^ expected}
    return f"{message.decode()}: expected {wrong}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_equals_libxml2(name: str, kind: str) -> None:
    algorithm = CONFIGURATIONS[name]()
    accepted: dict[str, Path] | None = None
    matches = 0
    for queries, message in generated(kind, 20_000 + len(kind), population=120, messages=20):
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
    with pytest.raises(UnsupportedQuery, match="the parent axis"):
        algorithm.add("Q", outside)
    assert len(algorithm) == 0
    algorithm.add("Q", Path.absolute(child("a"), child("b")))
    with pytest.raises(ValueError, match="there is a query 'Q' already"):
        algorithm.add("Q", Path.absolute(child("c"), child("d")))
    with pytest.raises(KeyError, match="R"):
        algorithm.remove("R")
    assert algorithm.match(b"<c><d/></c>") == set()
