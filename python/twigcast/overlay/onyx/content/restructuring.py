"""Early restructuring, and the propagation of transformations up the tree (Diao 2005, section 7.3.3).

A *wish* is what all that is behind a link takes of a message: a part of it (early projection), and transformation
steps that all of it begins with (early restructuring). A step is a For-Where-Return query that rewrites each bound
element and keeps the elements around. A profile may ask for a sequence of steps, such as *without images, then tables
as lists*.

A parent puts the wishes of its links and of its own users together: what they have in common (:func:`common`) is its
own wish to its parent; for each link there remains what the link wants beyond that (:func:`remainder`), so that
remainder(common(m)) = original(m). That needs one thing more than the conditions of the thesis: a remainder evaluates
the link's `where` clause, and picks children, after the common steps, so only steps that change nothing which these
look at may be common.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from twigcast.limits import Limits
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.projection import Projection, QueryText, common_part, query_of
from twigcast.overlay.onyx.content.substitution import WithPrefixes
from twigcast.query import Axis, ElementConstructor, NameTest, Path, Variable, expressions
from twigcast.subscriptions import SubscriptionSet

_BOUND = "n"


class TransformationStep(NamedTuple):
    """A step of a restructuring.

    Attributes:
        query: Rewrites the bound elements, keeps those around.
        changed: Names of the children of bound elements that come, go or change by it.
    """

    query: QueryText
    changed: frozenset[NameTest]


class ProjectionRequest(NamedTuple):
    """What is taken of a message.

    Attributes:
        part: A part of it.
        steps: What is done to that first.
    """

    part: Projection
    steps: tuple[TransformationStep, ...] = ()

    def queries(self) -> tuple[QueryText, ...]:
        """The queries to be run one after the other."""
        return (query_of(self.part), *(step.query for step in self.steps))


# Steps.


def without_children(base: Sequence[NameTest], *names: NameTest) -> TransformationStep:
    """The step that takes children of these names out of the bound elements."""

    def content(named: WithPrefixes) -> str:
        tests = " or ".join(f"self::{named.name(test)}" for test in names)
        return f"{{ ${_BOUND}/node()[not({tests})] }}"

    return TransformationStep(_rewriting(base, content), frozenset(names))


def renamed_children(base: Sequence[NameTest], before: NameTest, after: NameTest) -> TransformationStep:
    """The step that gives children of one name another."""

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


# Wishes together.


def common(interests: Iterable[ProjectionRequest | None]) -> ProjectionRequest | None:
    """What all of these have in common; `None`: only the whole message, as it is."""
    existing = list(interests)
    part = common_part(None if interest is None else interest.part for interest in existing)
    if part is None:
        return None
    whole = [interest for interest in existing if interest is not None]
    steps: list[TransformationStep] = []
    for parallel in zip(*(interest.steps for interest in whole), strict=False):
        step = parallel[0]
        if any(other != step for other in parallel) or any(
            _looks_at(interest.part, step.changed) for interest in whole
        ):
            break
        steps.append(step)
    return ProjectionRequest(part, tuple(steps))


def _looks_at(part: Projection, names: frozenset[NameTest]) -> bool:
    """Whether a part may look at children of these names, or pick them."""
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
    """What is left to do of a wish where a part of it, common to others, has been done; `None`: nothing."""
    if original is None or original == done:
        return None
    return ProjectionRequest(original.part, original.steps[len(done.steps) if done is not None else 0 :])


class TransformationPlan:
    """The wishes known to one broker: those of its users, and those of its neighbours."""

    def __init__(self) -> None:
        self._local: dict[Hashable, ProjectionRequest | None] = {}
        self._links: dict[Address, ProjectionRequest | None] = {}

    def set_local(self, key: Hashable, interest: ProjectionRequest | None) -> None:
        """Take what a subscription wishes; `None`: the whole message."""
        self._local[key] = interest

    def remove_local(self, key: Hashable) -> None:
        """A subscription is gone."""
        self._local.pop(key, None)

    def apply(self, neighbour: Address, interest: ProjectionRequest | None) -> None:
        """Take what a neighbour wishes; `None`: the whole message."""
        self._links[neighbour] = interest

    def forget(self, neighbour: Address) -> None:
        """A neighbour wants nothing any more."""
        self._links.pop(neighbour, None)

    def request_to(self, neighbour: Address) -> ProjectionRequest | None:
        """What to tell a neighbour: all that the broker's users and its other neighbours have in common."""
        others = [interest for other, interest in self._links.items() if other != neighbour]
        return common([*self._local.values(), *others])

    def towards(self, neighbour: Address, done: ProjectionRequest | None = None) -> ProjectionRequest | None:
        """What to do to a message before it is sent to a neighbour.

        Args:
            neighbour: Where it goes.
            done: What was done to it before it came; `None`: nothing, as at its root.
        """
        return remainder(self._links.get(neighbour), done)


class Transformation:
    """The queries of a wish, compiled, to be run on many messages."""

    def __init__(self, queries: Iterable[QueryText], limits: Limits | None = None) -> None:
        """Compile them.

        Raises:
            QueryError: One of them is refused.
        """
        self._stages: list[SubscriptionSet] = []
        for query in queries:
            stage = SubscriptionSet(namespaces=dict(query.namespaces), limits=limits or Limits())
            stage.add_many([("only", query.text)]).raise_if_refused()
            self._stages.append(stage)

    def run(self, message: bytes) -> bytes | None:
        """The transformed message; `None` where nothing of it is wanted.

        Raises:
            RejectedMessage: The message is malformed or over a limit.
        """
        for stage in self._stages:
            deliveries = list(stage.deliver(message))
            if not deliveries:
                return None
            message = deliveries[0].payload
        return message
