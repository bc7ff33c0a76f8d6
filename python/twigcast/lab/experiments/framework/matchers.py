"""The contenders: the published algorithms and our engine, behind one small interface."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from twigcast.lab.reference import ALGORITHMS, PUBLISHED, Algorithm, PathQuery, YFilter
from twigcast.lab.reference.events import Event, read_events
from twigcast.lab.reference.language import AttributePredicate, LocationStep, NestedPath, Predicate, Test, TextPredicate
from twigcast.lab.reference.selection import UniformSelectivity
from twigcast.lab.workload import ValueDomains
from twigcast.query import Operator

ENGINE = "Twigcast"
"""The series of our engine."""


NOTHING = "//nothing-is-called-so"
"""A query that no message matches: an engine with this query alone scans each message, and does little else."""


class Matcher(Protocol):
    """A contender with its queries."""

    def add_all(self, queries: Mapping[str, str]) -> None:
        """Stores queries by identifier."""

    def prepare(self, documents: Sequence[bytes]) -> None:
        """Parses the messages, outside the time that is measured."""

    def match(self, number: int) -> set[str]:
        """Matches one of the prepared messages. Returns the identifiers of queries."""

    def run(self, number: int) -> None:
        """Matches one of the prepared messages without making a Python set of the result: this is timed."""

    def counters(self) -> Mapping[str, float]:
        """Returns the work done since the last call, and the size of the structure."""


class ReferenceMatcher:
    """A published algorithm on parsed events."""

    def __init__(self, algorithm: Algorithm) -> None:
        """Wraps an algorithm."""
        self.algorithm = algorithm
        self._events: list[Sequence[Event]] = []

    def add_all(self, queries: Mapping[str, str]) -> None:
        """Stores queries. Parsing them is part of what is measured."""
        for query_id, text in queries.items():
            self.algorithm.add(query_id, parse_path(text))

    def prepare(self, documents: Sequence[bytes]) -> None:
        """Reads the events."""
        self._events = [read_events(document) for document in documents]

    def match(self, number: int) -> set[str]:
        """Matches one message."""
        return self.algorithm.match_events(self._events[number])

    def run(self, number: int) -> None:
        """Matches one message."""
        self.algorithm.match_events(self._events[number])

    def counters(self) -> Mapping[str, float]:
        """Returns the algorithm's own counters, and resets them."""
        counted = {name: float(value) for name, value in self.algorithm.counters.as_dict().items()}
        self.algorithm.counters.reset()
        return counted


class EngineMatcher:
    """Our engine on bytes: it scans and matches in one pass, so parsing cannot be left out."""

    def __init__(self) -> None:
        """Makes an empty engine."""
        from twigcast.engine.session import EngineSession
        from twigcast.limits import Limits

        self._session = EngineSession.empty(Limits())
        self._documents: Sequence[bytes] = ()
        self._keys: list[str] | None = None
        """By slot, read when first needed: reading them all is no part of storing a few more."""

    def add_all(self, queries: Mapping[str, str]) -> None:
        """Stores queries by key."""
        self._session.add_many(queries.items(), {}, "xpath").raise_if_refused()
        self._keys = None

    def prepare(self, documents: Sequence[bytes]) -> None:
        """Keeps the bytes."""
        self._documents = documents

    def match(self, number: int) -> set[str]:
        """Matches one message."""
        if self._keys is None:
            self._keys = self._session.engine.keys()  # nothing is ever removed, so they stand by slot
        return {self._keys[slot] for slot in self._session.engine.match(self._documents[number])}

    def run(self, number: int) -> None:
        """Matches one message, down to the slots."""
        self._session.engine.match(self._documents[number])

    def counters(self) -> Mapping[str, float]:
        """Returns the sizes of the shared structures."""
        return {f"engine {name}": float(value) for name, value in self._session.engine.statistics().items()}


@dataclass(frozen=True, slots=True)
class Contender:
    """A series: its name, how to make it, and whether it is exact."""

    name: str
    make: Callable[[], Matcher]
    exact: bool = True


def reference(name: str, key: str) -> Contender:
    """Returns a published algorithm by its key in ``ALGORITHMS`` or ``PUBLISHED``."""
    factory = ALGORITHMS.get(key) or PUBLISHED[key]
    return Contender(name, lambda: ReferenceMatcher(factory()), exact=key in ALGORITHMS)


XFILTER = reference("XFilter (List Balance)", "xfilter")
HYBRID = reference("Hybrid", "hybrid-diao")
YFILTER = reference("YFilter", "yfilter")
INLINE = reference("Inline", "yfilter-inline")
POSTPONED = reference("Selection Postponed", "yfilter")
BFILTER = reference("BFilter", "bfilter")
BFILTER_PUBLISHED = reference("BFilter, as published", "bfilter-published")


def sorting_yfilter(name: str, domains: ValueDomains) -> Contender:
    """Returns YFilter with predicate sorting by the statistics of the workload."""
    return Contender(name, lambda: ReferenceMatcher(YFilter(selectivity_of(domains))))


def selectivity_of(domains: ValueDomains) -> UniformSelectivity:
    """Returns the statistics that predicates are sorted by, from the domains that documents are made with."""
    occurrence: dict[tuple[str, str], float] = {}
    distinct: dict[tuple[str, str], int] = {}
    for element, attributes in domains.attributes.items():
        for attribute in attributes:
            occurrence[element, attribute.name] = attribute.probability
            distinct[element, attribute.name] = max(1, len(attribute.values))
    for element, values in domains.text.items():
        occurrence[element, "text()"] = 1.0
        distinct[element, "text()"] = len(values)
    return UniformSelectivity(occurrence, distinct)


def with_engine(contenders: Sequence[Contender]) -> list[Contender]:
    """Returns these contenders, and our engine."""
    return [*contenders, Contender(ENGINE, EngineMatcher)]


_STEP = re.compile(r"(\.?//?|)(\*|[\w.\-]+)((?:\[[^\]]*\])*)")
_PREDICATE = re.compile(r"\[([^\]]*)\]")
_VALUE = re.compile(r"(@[\w.\-]+|text\(\))(!=|<=|>=|=|<|>)(.+)")


def parse_path(text: str) -> PathQuery:
    """Parses a path query as the generator writes it, into the form that the algorithms take."""
    steps = []
    position = 0
    while position < len(text):
        result = _STEP.match(text, position)
        if result is None:
            raise ValueError(f"not a path query of the generator: {text}")
        axis, name, predicates = result.groups()
        steps.append(
            LocationStep(
                "//" if axis.endswith("//") else "/", name, tuple(map(_predicate, _PREDICATE.findall(predicates)))
            )
        )
        position = result.end()
    return PathQuery(tuple(steps))


def _predicate(text: str) -> Predicate:
    value = _VALUE.fullmatch(text)
    if value is None:
        return NestedPath(parse_path(text))
    item, operator, constant = value.groups()
    test = Test(Operator(operator), constant[1:-1] if constant[0] in "\"'" else float(constant))
    return TextPredicate(test) if item == "text()" else AttributePredicate(item[1:], test)
