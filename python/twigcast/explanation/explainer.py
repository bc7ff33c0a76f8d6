"""Explains why a query matches a message or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from heapq import nlargest
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from twigcast.engine.session import EngineSession
from twigcast.errors import UndecidedSubscription
from twigcast.explanation.rendering import lines
from twigcast.limits import Limits
from twigcast.notebook import html_code, html_marked, html_table
from twigcast.publication import microseconds
from twigcast.query_check import QueryReport
from twigcast.reading.text import MessageLike
from twigcast.registration import Dialect, Params, Subscription, require_str
from twigcast.subscription_items import checked_dialect, checked_namespaces, checked_params
from twigcast.windows.explaining import WindowExplanation

_EXPLAINED_AT_ONCE: Final = 200
"""Subscriptions whose nearness is found in one call, between two moments at which progress is shown."""

_KEY: Final = "q"
"""The key of the query that is explained."""

_INEXACT: Final = (
    "the conditions on each variable alone are met, but no binding meets those that relate variables to each other"
)


@dataclass(frozen=True, slots=True)
class NodeLocation:
    """A node of the message."""

    path: str
    """Such as ``/feed/entry[2]/@id``: names as in the message, positions where there are several."""

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
    """A near miss: something that the message has in place of what the query needs."""

    kind: str
    """Stable identifier, such as ``namespace``, ``case``, ``spelling``, ``white-space``, ``not-a-number``."""

    message: str
    """One sentence."""

    location: NodeLocation | None
    """The node that the hint is about, if it is about one."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation of why a query matches a message or not: true if it does. ``str()`` returns it as text."""

    query: str

    matches: bool

    details: Mapping[str, Any]
    """The whole explanation, as plain values:

    - ``result``: the result of a For-Where-Return query; ``no_result``: why it is empty although bindings pass
    - ``running``: how the query runs, with the members of :class:`QueryReport`: ``route``, ``reason``, ``cover``,
      ``cost``, ``warnings``
    - ``condition``: what was explained, as XPath; ``exact``: whether it alone decides a match
    - ``node_count`` and ``nodes``: the nodes that it selects, the first as places (see :class:`NodeLocation`)
    - ``absent_names``: names that the message does not use (``name``, ``namespace``), with the ``nearest``
    - ``maps``: the regions that were asked for, each with its ``text``, and the ``places`` compared with it. These and
      the ``region`` are drawings: ``lines`` of longitudes and latitudes, rings if ``is_area``
    - ``nearness``: how much of the condition holds, from 0 to 1
    - ``verdict``: ``text``, ``holds``, ``hints`` (see :class:`Hint`), ``kind``, and by kind: ``all`` and ``any`` have
      ``operands`` and ``not`` has an ``operand``, which are verdicts; ``comparison`` has ``operator``, ``left`` and
      ``right``, each with ``text``, ``kind``, ``count``, ``values`` and (where a path selects nothing) its ``path``;
      ``path`` has ``selected`` and ``steps``; ``value`` has a ``value``
    - ``window``: of a subscription with a window, the members of
      :class:`~twigcast.windows.explaining.WindowExplanation`
    - each step: ``text``, ``contexts`` (nodes that it starts from), ``candidates`` (nodes that pass its node test),
      ``predicates`` (``text``, ``remaining``), ``selected``, ``hints``, and an ``example``: the ``location`` of a node
      that leads on or comes nearest, with a verdict for each predicate
    """

    def __bool__(self) -> bool:
        return self.matches

    def __str__(self) -> str:
        verdict = "matches" if self.matches else "does not match"
        return "\n".join([f"{verdict}: {self.query}", *lines(self.details)])

    def _repr_html_(self) -> str:
        head, *rest = str(self).split("\n")
        return html_table(head, ["step by step"], [(html_marked(rest),)] if rest else [], 1 if rest else 0)

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
    def nearness(self) -> float:
        """The share of the query that holds, from 0 to 1: 1 if the message matches.

        It orders queries by how near a message comes to them. Its steps have no other meaning.
        """
        share: float = self.details["nearness"]
        return 1.0 if self.matches else share

    @property
    def hints(self) -> list[Hint]:
        """All near misses, the outermost first."""
        return [
            Hint(hint["kind"], hint["message"], NodeLocation(**hint["place"]) if hint["place"] else None)
            for hint in _hints(self.details["verdict"])
        ]

    def with_window(self, window: WindowExplanation) -> Explanation:
        """Returns the explanation with what the window of its subscription makes of the message."""
        return replace(self, details={**self.details, "window": window.as_dict()})

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


@dataclass(frozen=True, slots=True)
class NearMisses:
    """The subscriptions that a message does not match, as far as they can be explained: the nearest ones first."""

    explanations: Mapping[str, Explanation]
    """Those that were asked for, by key."""

    count: int
    """How many there are altogether."""

    undecided: Sequence[UndecidedSubscription]
    """Those that could not be decided on the message within the limits."""

    def _repr_html_(self) -> str:
        rows = [
            *(
                (key, html_code(one.query), f"{one.nearness:.0%}", html_marked(str(one).split("\n")[1:]))
                for key, one in self.explanations.items()
            ),
            *((error.key, "", "", error.reason) for error in self.undecided),
        ]
        caption = f"{self.count:,} {'subscription does' if self.count == 1 else 'subscriptions do'} not match"
        return html_table(caption, ["key", "query", "nearness", "step by step"], rows, self.count + len(self.undecided))


def nearest(
    session: EngineSession,
    message: MessageLike,
    explain_key: Callable[[str], Explanation],
    keys: Iterable[str],
    count: int,
) -> NearMisses:
    """Returns those of some keys of a session that a message comes nearest to, explained by ``explain_key``."""
    found: list[tuple[str, float]] = []
    undecided: list[UndecidedSubscription] = []
    remaining = iter(keys)
    while part := list(islice(remaining, _EXPLAINED_AT_ONCE)):
        message, (explained, failures) = session.ask(message, partial(session.engine.nearness, keys=part))
        found += explained
        undecided += failures
    best = nlargest(count, found, key=itemgetter(1))
    return NearMisses({key: explain_key(key) for key, _ in best}, len(found), undecided)


def explain(
    query: str,
    message: MessageLike,
    *,
    namespaces: Mapping[str, str] | None = None,
    dialect: Dialect = "xpath",
    limits: Limits | None = None,
    params: Params | None = None,
    published: datetime | None = None,
) -> Explanation:
    """Returns why a query matches a message or not.

    Args:
        query: XPath, or For-Where-Return.
        message: The message. Places in one that is not plain UTF-8 refer to it as converted to UTF-8.
        namespaces: Prefix to namespace; the empty prefix gives the default namespace of element names.
        dialect: How the query is read.
        limits: Limits of the evaluation.
        params: The values of ``$name`` in the query, by name.
        published: When the message was published, which is ``$now`` to the query; without it, the present.

    Raises:
        QueryError: The query is refused.
        InvalidContext: The namespaces or the parameters cannot be used, or there is no such dialect.
        MalformedMessage: The message is not well-formed XML.
        MessageLimitExceeded: It is over a limit.
        UndecidedSubscription: The query could not be decided on the message within the limits.
    """
    require_str(query, "query")
    checked_dialect(dialect)
    session = EngineSession.empty(limits or Limits(), is_quiet=True)
    asked = Subscription(_KEY, query, checked_namespaces(namespaces), dialect, params=checked_params(params))
    return explain_with(session, asked, message, published=published)


def explain_with(
    session: EngineSession,
    asked: Subscription,
    message: MessageLike,
    report: QueryReport | None = None,
    published: datetime | None = None,
) -> Explanation:
    """Returns why a query matches a message or not, by a session that has no subscriptions yet.

    `report` says how the query runs in the set that it is of; by default, it runs alone.
    """
    published = published or datetime.now(UTC)
    query, namespaces, dialect = asked.query, dict(asked.namespaces), asked.dialect or "xpath"
    session.add(_KEY, query, namespaces, dialect, params=asked.params)
    added = session.engine.query(_KEY)
    as_read = dialect if added is None else added.dialect
    report = report or QueryReport.of(session.engine.describe(_KEY))
    explain_one = partial(
        session.engine.explain,
        query=query,
        namespaces=namespaces,
        dialect=as_read,
        params=asked.params,
        published=microseconds(published),
    )
    xml, answer = session.ask(message, explain_one)
    details = json.loads(answer)
    condition_holds = details.pop("matches")
    decides = details["exact"] and not session.engine.has_external
    matches = condition_holds if decides else bool(session.match(xml, published))
    details["note"] = _INEXACT if condition_holds and not matches else None
    deliveries = session.deliver(xml, published=published)
    details["result"] = next((d.payload.decode() for d in deliveries if d.rewritten), None)
    details["no_result"] = next((error.reason for error in deliveries.undecided), None)
    details["running"] = {
        "route": report.route,
        "reason": report.reason,
        "cover": report.cover,
        "cost": report.cost,
        "warnings": list(report.warnings),
    }
    return Explanation(query, matches, details)
