"""Why a query matches a message or not: the query taken apart, each part evaluated, and hints where it fails.

A location path is followed step by step and predicate by predicate: the first prefix that selects nothing is where it
fails. There the message is searched for what the step may have meant: the same name in another namespace, the names
that are there instead, the values that were compared. Every part is evaluated by the engine itself, so an explanation
cannot disagree with a match.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from xml.sax.saxutils import unescape

from twigcast.answers import Node
from twigcast.characters import MessageLike, as_bytes
from twigcast.conversion import to_utf8
from twigcast.errors import QueryWarning
from twigcast.explanation.condition import conditions, with_predicate
from twigcast.explanation.names import Kind, MessageNames
from twigcast.limits import Limits
from twigcast.query import (
    ANY,
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
    parse,
)
from twigcast.subscriptions import Dialect, SubscriptionSet

_SHOWN_MAX: Final = 5
"""Values or names listed in one note."""

_VALUE_CHARACTERS_MAX: Final = 60
"""Characters shown of one value."""


_MARKUP = re.compile(r"<!--.*?-->|<!\[CDATA\[(?P<text>.*?)\]\]>|<(?:[^>\"']|\"[^\"]*\"|'[^']*')*>", re.DOTALL)


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


class _Explainer:
    """Takes queries apart and evaluates the parts on one message.

    Args:
        xml: A well-formed message, as plain UTF-8.
        namespaces: Prefix to namespace of the query.
        limits: Limits of the evaluation.
    """

    def __init__(self, xml: bytes, namespaces: Mapping[str, str], limits: Limits) -> None:
        self._xml = xml
        self._namespaces = namespaces
        self._limits = limits
        self._names = MessageNames(xml)

    # Evaluating -------------------------------------------------------------------------------------------------------

    def holds(self, expression: Expr) -> bool:
        """Whether an expression is true of the message."""
        return bool(self._set_of(expression).match(self._xml))

    def nodes(self, path: Expr) -> list[Node]:
        """The nodes that a path selects."""
        return self._set_of(path).nodes(self._xml, "q")

    def _set_of(self, expression: Expr) -> SubscriptionSet:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QueryWarning)
            return SubscriptionSet([("q", str(expression))], namespaces=self._namespaces, limits=self._limits)

    # Taking apart -----------------------------------------------------------------------------------------------------

    def explain(self, expression: Expr) -> Finding:
        """One expression, evaluated at the document node."""
        match expression:
            case And(operands):
                parts = tuple(self.explain(operand) for operand in operands)
                return Finding(str(expression), all(part.holds for part in parts), parts=parts)
            case Or(operands) | Union(operands):
                parts = tuple(self.explain(operand) for operand in operands)
                return Finding(str(expression), any(part.holds for part in parts), parts=parts)
            case Call("not", (operand,)):
                part = self.explain(operand)
                return Finding(str(expression), not part.holds, parts=(part,))
            case Call("boolean", (operand,)):
                part = self.explain(operand)
                return Finding(str(expression), part.holds, parts=(part,))
            case Path():
                return self._explain_path(expression)
        return Finding(str(expression), self.holds(expression), notes=tuple(self._operand_notes(expression, None)))

    def _explain_path(self, path: Path) -> Finding:
        """A path, followed until it selects nothing."""
        parts: list[Finding] = []
        before: Path | None = None
        for prefix in _prefixes(path):
            selected = len(self.nodes(prefix))
            if selected:
                parts.append(Finding(str(prefix), True, selected))
            else:
                notes = tuple(self._path_notes(before, prefix))
                parts.append(Finding(str(prefix), False, 0, notes, tuple(self._nested(before, prefix))))
                break
            before = prefix
        last = parts[-1]
        return last if len(parts) == 1 else Finding(str(path), last.holds, last.nodes, parts=tuple(parts))

    def _nested(self, before: Path | None, prefix: Path) -> Iterator[Finding]:
        """The nested paths of a predicate that fails, which select nothing themselves."""
        if before is None or not prefix.steps or not prefix.steps[-1].predicates:
            return
        for condition in _conjuncts(prefix.steps[-1].predicates[-1]):
            for path in _operand_paths(condition):
                located = _located(path, before)
                if located is not None and len(path.steps) > 1 and not self.nodes(located):
                    yield self._explain_path(located)

    # Looking for what was meant ---------------------------------------------------------------------------------------

    def _path_notes(self, before: Path | None, prefix: Path) -> Iterator[str]:
        """What the message has where ``prefix``, one step or predicate longer than ``before``, selects nothing."""
        step = prefix.steps[-1] if prefix.steps else None
        if step is None:
            return
        if step.predicates and before is not None:
            yield from self._predicate_notes(before, step.predicates[-1])
        elif isinstance(step.test, NameTest):
            yield from self._name_notes(before, step, step.test)

    def _name_notes(self, before: Path | None, step: Step, test: NameTest) -> Iterator[str]:
        what: Kind = "attribute" if step.axis is Axis.ATTRIBUTE else "element"
        elsewhere = self._names.namespaces_of(what, test.local) - {test.namespace}
        if test.local != "*" and elsewhere and test.namespace is not None:
            for namespace in sorted(elsewhere):
                yield _other_namespace(what, test, namespace)
        elif self._names.count(what, test):
            yield f"there is {_article(what)} {test} elsewhere in the message"
        else:
            similar = self._names.similar(what, test.local)
            if similar:
                yield f"there is no {what} {test} in the message; there is {_listed(similar)}"
        if before is not None and step.axis in (Axis.CHILD, Axis.ATTRIBUTE):
            wildcard = replace(step, test=ANY, predicates=())
            there = sorted({node.name for node in self.nodes(replace(before, steps=(*before.steps, wildcard)))})
            yield f"the {what}s there: {_listed(there) if there else 'none'}"

    def _predicate_notes(self, before: Path, predicate: Expr) -> Iterator[str]:
        """Which conditions of a predicate fail on every node, and on what values."""
        for condition in _conjuncts(predicate):
            if not self.nodes(with_predicate(before, condition)):
                found = list(self._operand_notes(condition, before))
                yield f"{condition} holds of none of them" if not found else "; ".join(found)

    def _operand_notes(self, condition: Expr, base: Path | None) -> Iterator[str]:
        """The values of the paths that a condition compares, at the nodes of ``base`` or in the whole message."""
        for path in _operand_paths(condition):
            located = _located(path, base)
            if located is None:
                continue
            values = [_value(node) for node in self.nodes(located)]
            if values:
                yield f"{path} is {_listed([repr(value) for value in dict.fromkeys(values)])}"
            else:
                yield f"{path} selects nothing"


def explain(
    query: str,
    message: MessageLike,
    *,
    namespaces: Mapping[str, str] | None = None,
    dialect: Dialect = "xpath",
    limits: Limits | None = None,
) -> Explanation:
    """Why a query matches a message or not.

    Args:
        query: XPath, or For-Where-Return.
        message: The message.
        namespaces: Prefix to namespace; the empty prefix gives the default namespace of element names.
        dialect: How the query is read.
        limits: Limits of the evaluation.

    Raises:
        QueryError: The query is refused.
        MalformedMessage: The message is not well-formed XML.
        MessageLimitExceeded: It is over a limit.
    """
    limits = limits or Limits()
    namespaces = dict(namespaces or {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        asked = SubscriptionSet([("q", query)], namespaces=namespaces, dialect=dialect, limits=limits)
    match = asked.match(message)
    undecided = tuple(failure.reason for failure in match.undecided)
    explainer = _Explainer(to_utf8(as_bytes(message), limits.message_bytes_max), namespaces, limits)
    findings = [explainer.explain(expression) for expression in conditions(parse(query, namespaces, dialect))]
    if len(findings) == 1:
        finding = replace(findings[0], notes=findings[0].notes + undecided)
    else:
        finding = Finding(query, bool(match), notes=undecided, parts=tuple(findings))
    return Explanation(query, bool(match), finding)


# --- parts of queries -------------------------------------------------------------------------------------------------


def _prefixes(path: Path) -> Iterator[Path]:
    """The path up to each of its steps, first without and then with one after the other of the step's predicates."""
    if isinstance(path.start, Filtered):
        yield Path(path.start)
    for index, step in enumerate(path.steps):
        for count in range(len(step.predicates) + 1):
            yield Path(path.start, (*path.steps[:index], replace(step, predicates=step.predicates[:count])))


def _conjuncts(predicate: Expr) -> tuple[Expr, ...]:
    """The conditions that a predicate combines by ``and``."""
    return predicate.operands if isinstance(predicate, And) else (predicate,)


def _operand_paths(expression: Expr) -> Iterator[Path]:
    """The paths whose values an expression compares or hands to a function."""
    match expression:
        case Compare(_, left, right):
            yield from _operand_paths(left)
            yield from _operand_paths(right)
        case Call(_, arguments):
            for argument in arguments:
                yield from _operand_paths(argument)
        case Path():
            yield expression


def _located(path: Path, base: Path | None) -> Path | None:
    """A path inside a predicate as a path from the document node; ``None`` where it has no such form."""
    if isinstance(path.start, Root) or base is None:
        return path
    if isinstance(path.start, Context):
        return replace(base, steps=base.steps + path.steps)
    return None


# --- words ------------------------------------------------------------------------------------------------------------


def _value(node: Node) -> str:
    """The string-value of a node, more or less, cut to a length that can be shown."""
    markup = node.markup.decode("utf-8", "replace")
    match node.kind:
        case "element":
            markup = _MARKUP.sub(lambda found: found["text"] or "", markup)
        case "attribute":
            markup = markup.partition("=")[2].strip().strip("\"'")
    value = unescape(markup, {"&quot;": '"', "&apos;": "'"})
    return value if len(value) <= _VALUE_CHARACTERS_MAX else f"{value[:_VALUE_CHARACTERS_MAX]}..."


def _listed(items: Sequence[str]) -> str:
    shown = ", ".join(items[:_SHOWN_MAX])
    return f"{shown} and {len(items) - _SHOWN_MAX} more" if len(items) > _SHOWN_MAX else shown


def _other_namespace(kind: Kind, test: NameTest, namespace: str) -> str:
    where = f"the namespace {namespace!r}" if namespace else "no namespace"
    remedy = f"bind a prefix to it or write {'@' if kind == 'attribute' else ''}*:{test.local}"
    if not namespace:
        remedy = "write it without a prefix" if test.prefix else f"write *:{test.local}"
    return f"the message has {_article(kind)} {test.local} in {where}: {remedy}"


def _article(kind: Kind) -> str:
    return f"an {kind}"


def _lines(finding: Finding, depth: int) -> Iterator[str]:
    """A finding as lines of text."""
    mark = "+" if finding.holds else "-"
    count = "" if finding.nodes is None else f"  ({finding.nodes:,} node{'' if finding.nodes == 1 else 's'})"
    yield f"{'  ' * depth}{mark} {finding.text}{count}"
    for note in finding.notes:
        yield f"{'  ' * depth}    {note}"
    for part in finding.parts:
        yield from _lines(part, depth + 1)


def _as_dict(finding: Finding) -> dict[str, Any]:
    return {
        "query": finding.text,
        "holds": finding.holds,
        "nodes": finding.nodes,
        "notes": list(finding.notes),
        "parts": [_as_dict(part) for part in finding.parts],
    }
