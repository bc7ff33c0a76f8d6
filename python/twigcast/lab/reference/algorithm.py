"""The interface that all published algorithms share: queries in, events in, query identifiers out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import ClassVar

from twigcast.lab.reference.events import Characters, Element, EndElement, Event, StartElement, Tree, read_events
from twigcast.lab.reference.language import PathQuery, path_query
from twigcast.query import Query


@dataclass(slots=True)
class Counters:
    """The work of an algorithm, counted (spec of the measures: Diao 2005, section 4.4.2; Dai 2009, section 4.2).

    All but ``states`` add up over messages until :meth:`reset`; an algorithm leaves those at 0 that it has no use for.
    """

    states: int = 0
    """Size of the shared structure now: machine states, trie nodes, path nodes, suffix nodes."""
    transitions: int = 0
    """Edges followed, candidates checked, pointers followed: the steps of the search."""
    active_states_peak: int = 0
    """Largest number of active states (candidates, stack objects) for one open element."""
    accepting_visits: int = 0
    """How often an accepting state was reached, or a query's structure found."""
    path_matches: int = 0
    """Sequences of elements enumerated, one element for each location step."""
    predicate_evaluations: int = 0
    """Conditions tested on elements."""
    store_checks_failed: int = 0
    """How many NP-Filter operators ended at the store check: some constituent path had no match."""
    candidates_peak: int = 0
    """Largest number of partial results held at one time."""

    def reset(self) -> None:
        """Forgets the work done. The size of the structure stays."""
        for counter in fields(self):
            if counter.name != "states":
                setattr(self, counter.name, 0)

    def as_dict(self) -> dict[str, int]:
        """Returns the counters by name."""
        return asdict(self)


class Algorithm(ABC):
    """A matching algorithm with its stored queries.

    Queries may be added and removed at any time between messages, without rebuilding the others.
    """

    title: ClassVar[str]
    """The name in the literature."""
    source: ClassVar[str]
    """Where it is published."""

    def __init__(self) -> None:
        self.counters = Counters()
        self._queries: dict[str, PathQuery] = {}

    def __len__(self) -> int:
        return len(self._queries)

    def __contains__(self, query_id: str) -> bool:
        return query_id in self._queries

    def add(self, query_id: str, query: Query | PathQuery) -> None:
        """Stores a query.

        Raises:
            UnsupportedQuery: The algorithm does not handle it; the error names the construct. Nothing was stored.
            ValueError: The identifier is taken.
        """
        if query_id in self._queries:
            raise ValueError(f"there is a query {query_id!r} already")
        path = query if isinstance(query, PathQuery) else path_query(query)
        self._insert(query_id, path)
        self._queries[query_id] = path
        self.counters.states = self._size()

    def remove(self, query_id: str) -> None:
        """Drops a query.

        Raises:
            KeyError: There is no such query.
        """
        self._delete(query_id, self._queries.pop(query_id))
        self.counters.states = self._size()

    def match(self, message: bytes) -> set[str]:
        """Returns the identifiers of the queries that select something in the message.

        Raises:
            xml.parsers.expat.ExpatError: The message is not well-formed.
        """
        return self.match_events(read_events(message))

    def match_events(self, events: Sequence[Event]) -> set[str]:
        """Matches a message that has been parsed, as :meth:`match` does."""
        tree = Tree()
        self._start_document(tree.document)
        for event in events:
            if isinstance(event, StartElement):
                self._start_element(tree.start(event))
            elif isinstance(event, EndElement):
                self._end_element(tree.end())
            else:
                assert isinstance(event, Characters)
                tree.characters(event)
        return self._end_document(tree.document)

    @abstractmethod
    def _insert(self, query_id: str, query: PathQuery) -> None: ...

    @abstractmethod
    def _delete(self, query_id: str, query: PathQuery) -> None: ...

    @abstractmethod
    def _size(self) -> int: ...

    @abstractmethod
    def _start_document(self, document: Element) -> None: ...

    @abstractmethod
    def _start_element(self, element: Element) -> None: ...

    @abstractmethod
    def _end_element(self, element: Element) -> None: ...

    @abstractmethod
    def _end_document(self, document: Element) -> set[str]: ...
