"""Early restructuring, and the propagation of transformations up the tree (Diao 2005, section 7.3.3).

A *projection request* is what all brokers behind a link use of a message: a part of it (early projection), and the
transformation steps with which all of them begin (early restructuring). A step is a For-Where-Return query that
rewrites each bound element and keeps the elements around it, such as *without images* or *tables as lists*.

A parent combines the requests of its links and of its own users. What they have in common (:func:`common`) is its own
request to its parent. For each link a :func:`remainder` is left, so that remainder(common(m)) = original(m). This needs
one condition more than the thesis states: a remainder evaluates the `where` clause of the link, and selects children,
after the common steps. So a step can be common only if it changes nothing that these use.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.projection import Projection, QueryText, common_part, query_of
from twigcast.overlay.onyx.content.substitution import WithPrefixes
from twigcast.query import Axis, ElementConstructor, NameTest, Path, Variable, expressions

_BOUND = "n"


class TransformationStep(NamedTuple):
    """A step of a restructuring.

    Attributes:
        query: Rewrites the bound elements and keeps the elements around them.
        changed: Names of the children of bound elements that it adds, removes or changes.
    """

    query: QueryText
    changed: frozenset[NameTest]


class ProjectionRequest(NamedTuple):
    """A request for a part of messages, after some steps.

    Attributes:
        part: The part.
        steps: The steps that are run on it.
    """

    part: Projection
    steps: tuple[TransformationStep, ...] = ()

    def queries(self) -> tuple[QueryText, ...]:
        """Returns the queries, to be run one after the other."""
        return (query_of(self.part), *(step.query for step in self.steps))


# Steps.


def without_children(base: Sequence[NameTest], *names: NameTest) -> TransformationStep:
    """Returns the step that removes children of some names from the bound elements."""

    def content(named: WithPrefixes) -> str:
        tests = " or ".join(f"self::{named.name(test)}" for test in names)
        return f"{{ ${_BOUND}/node()[not({tests})] }}"

    return TransformationStep(_rewriting(base, content), frozenset(names))


def renamed_children(base: Sequence[NameTest], before: NameTest, after: NameTest) -> TransformationStep:
    """Returns the step that renames children of the bound elements."""

    def content(named: WithPrefixes) -> str:
        name = named.name(after)
        rebuilt = f"<{name}>{{ $c/@* }}{{ $c/node() }}</{name}>"
        return f"{{ for $c in ${_BOUND}/node() return if ($c/self::{named.name(before)}) then {rebuilt} else $c }}"

    return TransformationStep(_rewriting(base, content), frozenset({before, after}))


def _rewriting(base: Sequence[NameTest], content: Callable[[WithPrefixes], str]) -> QueryText:
    prefixes: dict[str, str] = {}
    named = WithPrefixes(lambda uri: prefixes.setdefault(uri, f"p{len(prefixes) + 1}"))
    names = [str(named.name(test)) for test in base]
    inside = content(named)
    bound = f"<{names[-1]}>{{ ${_BOUND}/@* }}{inside}</{names[-1]}>"
    text = f"{{ for ${_BOUND} in /{'/'.join(names)} return {bound} }}"
    for name in reversed(names[1:-1]):
        text = f"<{name}>{text}</{name}>"
    declarations = tuple((prefix, uri) for uri, prefix in prefixes.items())
    start = str(ElementConstructor(names[0], declarations=declarations)).removesuffix(f"</{names[0]}>")
    return QueryText(f"{start}{text}</{names[0]}>", declarations)


# Combined requests.


def common(interests: Iterable[ProjectionRequest | None]) -> ProjectionRequest | None:
    """Returns what all requests have in common; `None`: only the whole message."""
    existing = list(interests)
    part = common_part(None if interest is None else interest.part for interest in existing)
    if part is None:
        return None
    whole = [interest for interest in existing if interest is not None]
    steps: list[TransformationStep] = []
    for parallel in zip(*(interest.steps for interest in whole), strict=False):
        step = parallel[0]
        if any(other != step for other in parallel) or any(_may_use(interest.part, step.changed) for interest in whole):
            break
        steps.append(step)
    return ProjectionRequest(part, tuple(steps))


def _may_use(part: Projection, names: frozenset[NameTest]) -> bool:
    """Returns whether a part may use children of some names."""
    if (part.children or part.dropped) & names:
        return True
    for condition in (condition for one in part.where for condition in one):
        for expression in expressions(condition):
            if not isinstance(expression, Path) or not isinstance(expression.start, Variable):
                continue
            first = expression.steps[0] if expression.steps else None
            if first is None or not isinstance(first.test, NameTest):
                return True
            if first.axis is Axis.CHILD and first.test in names:
                return True
            is_open = first.test.local == "*" or first.test.namespace is None
            if first.axis is not Axis.ATTRIBUTE and (first.axis is not Axis.CHILD or is_open):
                return True
    return False


def remainder(original: ProjectionRequest | None, done: ProjectionRequest | None) -> ProjectionRequest | None:
    """Returns what is left of a request after its common part was done; `None`: nothing."""
    if original is None or original == done:
        return None
    return ProjectionRequest(original.part, original.steps[len(done.steps) if done is not None else 0 :])


class TransformationPlan:
    """The projection requests of the users and neighbours of one broker."""

    def __init__(self) -> None:
        self._local: dict[Hashable, ProjectionRequest | None] = {}
        self._links: dict[Address, ProjectionRequest | None] = {}

    def set_local(self, key: Hashable, interest: ProjectionRequest | None) -> None:
        """Sets the request of a subscription; `None`: the whole message."""
        self._local[key] = interest

    def remove_local(self, key: Hashable) -> None:
        """Removes a subscription."""
        self._local.pop(key, None)

    def apply(self, neighbour: Address, interest: ProjectionRequest | None) -> None:
        """Sets the request of a neighbour; `None`: the whole message."""
        self._links[neighbour] = interest

    def forget(self, neighbour: Address) -> None:
        """Removes a neighbour."""
        self._links.pop(neighbour, None)

    def request_to(self, neighbour: Address) -> ProjectionRequest | None:
        """Returns the request to a neighbour: what the users and the other neighbours have in common."""
        others = [interest for other, interest in self._links.items() if other != neighbour]
        return common([*self._local.values(), *others])

    def towards(self, neighbour: Address, done: ProjectionRequest | None = None) -> ProjectionRequest | None:
        """Returns what has to be done to a message before it is sent to a neighbour.

        Args:
            neighbour: The receiver.
            done: What was done to the message before it arrived; `None`: nothing, as at its root.
        """
        return remainder(self._links.get(neighbour), done)
