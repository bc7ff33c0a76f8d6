"""The interface of a cooperative tree to its query language: CoDD leaves data model and language open (section 3).

A node runs the query engine of the language in use. In a simulation thousands of nodes evaluate the same queries on the
same documents; an engine here answers for all of them, each query on each document once. It numbers the queries, and an
item's answer is one integer with a bit for every query that the item satisfies, so that testing a filter is one AND.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

#: A subscription query, whatever the language.
Query: TypeAlias = Hashable


class Item(NamedTuple):
    """One document of the stream: its number, counted from 1 by the producer, its content and its size."""

    number: int
    content: Any
    size_bytes: int = 1000

    def __repr__(self) -> str:
        return f"Item({self.number})"


class DocumentSummary(Protocol):
    """The memory of a node for the documents that passed."""

    def add(self, item: Item) -> None:
        """Takes note of a document."""
        ...

    def documents(self, queries: Iterable[Query]) -> Any:
        """Returns a bitmap of the remembered documents that satisfy at least one of the queries, by number."""
        ...


class Engine(Protocol):
    """A query language with its data model."""

    def mask(self, queries: Iterable[Query]) -> int:
        """Returns the queries as bits."""
        ...

    def satisfied(self, item: Item) -> int:
        """Returns the queries that an item satisfies, as bits; complete for all queries that `mask` has seen."""
        ...

    def similarity(self, one: Query, other: Query) -> float:
        """Returns the structural match (section 3.1.2): from 0 for nothing in common to 1 for containment."""
        ...

    def summarise(self, queries: frozenset[Query], limit: int) -> frozenset[Query]:
        """Returns at most `limit` queries that together select at least what `queries` select."""
        ...

    def new_summary(self, window: int) -> DocumentSummary:
        """Returns the empty statistics of one node over the last `window` documents."""
        ...

    def query_bytes(self, query: Query) -> int:
        """Returns the size of a query on a wire."""
        ...
