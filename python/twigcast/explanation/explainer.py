"""Explains why a query matches a message or not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twigcast.engine.session import EngineSession
from twigcast.explanation.rendering import lines
from twigcast.limits import Limits
from twigcast.reading.text import MessageLike
from twigcast.registration import Dialect, require_str

_KEY: Final = "q"
"""The key of the query that is explained."""

_INEXACT: Final = (
    "the conditions on each variable alone are met, but no binding meets those that relate variables to each other"
)


@dataclass(frozen=True, slots=True)
class NodeLocation:
    """A node of the message."""

    path: str
    """As in ``/feed/entry[2]/@id``: names as the message writes them, positions where there are several."""

    kind: str
    """``element``, ``attribute``, ``text``, ``comment``, ``processing-instruction``, ``namespace`` or ``document``."""

    line: int
    """From 1."""

    column: int
    """From 1, in characters."""

    value: str
    """Its string-value, shortened."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A near miss: something that the message has in place of what the query asks for."""

    kind: str
    """Stable identifier, such as ``namespace``, ``case``, ``spelling``, ``white-space``, ``not-a-number``."""

    message: str
    """One sentence."""

    location: NodeLocation | None
    """Where, if it is about one node."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation of why a query matches a message or not. It is true if it does; ``str()`` is text for people."""

    query: str

    matches: bool

    details: Mapping[str, Any]
    """The whole explanation, as plain values:

    - ``result``: what a query that rewrites delivers; ``no_result``: why it delivers nothing although bindings pass
    - ``condition``: what was explained, as XPath; ``exact``: whether it alone decides a match
    - ``node_count`` and ``nodes``: the nodes that it selects, the first as places (see :class:`NodeLocation`)
    - ``absent_names``: names that the message does not use (``name``, ``namespace``), with the ``nearest``
    - ``verdict``: ``text``, ``holds``, ``hints`` (see :class:`Hint`), ``kind``, and by kind: ``all`` and ``any`` have
      ``operands`` and ``not`` has an ``operand``, which are verdicts; ``comparison`` has ``operator``, ``left`` and
      ``right``, each with ``text``, ``kind``, ``count``, ``values`` and (where a path selects nothing) its ``path``;
      ``path`` has ``selected`` and ``steps``; ``value`` has a ``value``
    - each step: ``text``, ``contexts`` (nodes that it starts from), ``candidates`` (nodes that pass its node test),
      ``predicates`` (``text``, ``remaining``), ``selected``, ``hints``, and an ``example``: the ``location`` of a node
      that leads on or comes nearest, with a verdict for each predicate
    """

    def __bool__(self) -> bool:
        return self.matches

    def __str__(self) -> str:
        verdict = "matches" if self.matches else "does not match"
        return "\n".join([f"{verdict}: {self.query}", *lines(self.details)])

    @property
    def nodes(self) -> list[NodeLocation]:
        """The first nodes that the query selects."""
        return [NodeLocation(**position) for position in self.details["nodes"]]

    @property
    def node_count(self) -> int | None:
        """The number of nodes that the query selects; ``None`` if its value is not a node-set."""
        count: int | None = self.details["node_count"]
        return count

    @property
    def hints(self) -> list[Hint]:
        """All near misses, the outermost first."""
        return [
            Hint(hint["kind"], hint["message"], NodeLocation(**hint["place"]) if hint["place"] else None)
            for hint in _hints(self.details["verdict"])
        ]

    def as_dict(self) -> dict[str, Any]:
        """Returns the explanation as plain values."""
        return {"query": self.query, "matches": self.matches, **self.details}


def _hints(part: Any) -> Iterator[dict[str, Any]]:
    """The hints in a part of an explanation."""
    if isinstance(part, list):
        for item in part:
            yield from _hints(item)
    elif isinstance(part, dict):
        yield from part.get("hints", ())
        for name, value in part.items():
            if name != "hints":
                yield from _hints(value)


def explain(
    query: str,
    message: MessageLike,
    *,
    namespaces: Mapping[str, str] | None = None,
    dialect: Dialect = "xpath",
    limits: Limits | None = None,
) -> Explanation:
    """Returns why a query matches a message or not.

    Args:
        query: XPath, or For-Where-Return.
        message: The message. Places in one that is not plain UTF-8 refer to it as converted to UTF-8.
        namespaces: Prefix to namespace; the empty prefix gives the default namespace of element names.
        dialect: How the query is read.
        limits: Limits of the evaluation.

    Raises:
        QueryError: The query is refused.
        MalformedMessage: The message is not well-formed XML.
        MessageLimitExceeded: It is over a limit.
        UndecidedSubscription: The query could not be decided on the message within the limits.
    """
    require_str(query, "query")
    return explain_with(EngineSession.empty(limits or Limits()), query, message, namespaces or {}, dialect)


def explain_with(
    session: EngineSession, query: str, message: MessageLike, namespaces: Mapping[str, str], dialect: Dialect
) -> Explanation:
    """Returns why a query matches a message or not, by a session that has no subscriptions yet."""
    namespaces = dict(namespaces)
    session.add(_KEY, query, namespaces, dialect)
    xml, answer = session.ask(message, lambda xml: session.engine.explain(xml, query, namespaces, dialect))
    details = json.loads(answer)
    condition_holds = details.pop("matches")
    decides = details["exact"] and not session.engine.has_external
    matches = condition_holds if decides else bool(session.match(xml))
    details["note"] = _INEXACT if condition_holds and not matches else None
    deliveries = session.deliver(xml)
    details["result"] = next((d.payload.decode() for d in deliveries if d.rewritten), None)
    details["no_result"] = next((error.reason for error in deliveries.undecided), None)
    return Explanation(query, matches, details)
