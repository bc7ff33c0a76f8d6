"""Why a query matches a message or not: the query taken apart, each part evaluated, and hints where it fails.

A location path is followed step by step and predicate by predicate: the first prefix that selects nothing is where it
fails. There the message is searched for what the step may have meant: the same name in another namespace, the names that
are there instead, the values that were compared. Every part is evaluated by the engine itself, so an explanation cannot
disagree with a match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from xml.sax.saxutils import unescape

from twigcast.answers import Node, ask_single
from twigcast.conversion import to_utf8
from twigcast.errors import NeedsConversion, QueryError
from twigcast.limits import Limits
from twigcast.names import names_in
from twigcast.query import (
    And,
    Axis,
    Call,
    Compare,
    Context,
    Expr,
    Filtered,
    NameTest,
    Or,
    Path,
    Root,
    Step,
    Union,
    Variable,
)
from twigcast.query_reading import Reader, read_tree
from twigcast.subscriptions import Dialect, MessageLike, SubscriptionSet, as_bytes

_SHOWN_MAX: Final = 5
_VALUE_CHARACTERS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Finding:
    """One part of a query on one message."""

    text: str
    """The part, as a query."""

    holds: bool

    nodes: int | None = None
    """How many nodes it selects, where it selects nodes."""

    notes: tuple[str, ...] = ()
    """What the message has instead."""

    parts: tuple[Finding, ...] = ()
    """What it is made of."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a query matches a message or not."""

    query: str
    matches: bool
    finding: Finding

    def __bool__(self) -> bool:
        return self.matches

    def __str__(self) -> str:
        verdict = "matches" if self.matches else "does not match"
        return "\n".join([f"{verdict}: {self.query}", *_lines(self.finding, 1)])

    def as_dict(self) -> dict[str, Any]:
        """The explanation as plain values."""
        return {"query": self.query, "matches": self.matches, "finding": _as_dict(self.finding)}

    def failures(self) -> Iterator[Finding]:
        """The parts that fail by themselves, in the order of the query."""
        yield from _failures(self.finding)
