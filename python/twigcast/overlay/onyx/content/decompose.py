"""Decomposition of a condition into a disjunction of conjunctions of linear paths that it implies.

The condition is any XPath 1.0 expression that has to be true at the document node. It is read as a formula over linear
paths. A nested path becomes a linear path that begins with the steps above it (Diao 2005, section 7.3.1). `and`, `or`,
`not()` and unions combine paths. A condition on one element alone stays a condition on its step. All else (positions,
comparisons of two paths, most of what stands under `not()`) is replaced by something that it implies, if need be by
*true*. So each result is necessary for the query, whatever the query is.

Distributing `and` over `or` may grow exponentially. If the product of two disjunctions has more alternatives than the
budget allows, the longer one is replaced by what its alternatives have in common, which each of them implies.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple, TypeAlias

from twigcast._core import truth_without_nodes
from twigcast.overlay.onyx.content.linear import Steps, is_local, is_numeric, own_paths, step_of
from twigcast.overlay.onyx.content.substitution import WithPrefixes
from twigcast.overlay.paths import FLIPPED
from twigcast.query import (
    ANY,
    NODE,
    TEXT,
    And,
    Arithmetic,
    Axis,
    Compare,
    ContextNode,
    Expr,
    Filtered,
    FunctionCall,
    KindTest,
    Literal,
    NameTest,
    Negate,
    Number,
    Or,
    Path,
    Root,
    Step,
    Union,
    Variable,
)
from twigcast.query.functions import FUNCTIONS, result_type
from twigcast.query.reading import XML_NAMESPACE
from twigcast.query.xpath import with_operands


class Budget(NamedTuple):
    """The bounds of a routing query."""

    alternatives_max: int = 64  #: Most disjuncts.
    paths_max: int = 32  #: Most linear paths of one disjunct.
    depth_max: int = 100  #: Greatest nesting of steps and conditions; deeper ones are left out.


class Alternative(NamedTuple):
    """A conjunction, as seen from the current element."""

    here: frozenset[Expr] = frozenset()  #: Conditions on the element.
    below: frozenset[Steps] = frozenset()  #: Linear paths from the element.
    anywhere: frozenset[Steps] = frozenset()  #: Linear paths from the document node.

    def contains(self, other: Alternative) -> bool:
        """Returns whether it requires all that `other` requires."""
        return self.here >= other.here and self.below >= other.below and self.anywhere >= other.anywhere


#: The `or` of its members; without any: false.
Alternatives: TypeAlias = tuple[Alternative, ...]

TRUE: Alternatives = (Alternative(),)
FALSE: Alternatives = ()

_ITSELF = Step(Axis.SELF, NODE)
_FORWARD = (Axis.CHILD, Axis.DESCENDANT, Axis.DESCENDANT_CHILD)


class Decomposed(NamedTuple):
    """The decomposition of a condition."""

    disjuncts: frozenset[frozenset[Steps]]  #: Conjunctions of absolute linear paths.
    is_generalised: bool  #: Whether the budget did not suffice, so that a part is replaced by something wider.


def decompose(condition: Expr, budget: Budget) -> Decomposed:
    """Returns the conjunctions of absolute linear paths one of which follows from a condition at the document node."""
    work = _Decomposer(budget)
    results = [each.below | each.anywhere for each in work.condition(condition, at_root=True)]
    is_generalised = work.is_generalised or any(len(paths) > budget.paths_max for paths in results)
    return Decomposed(frozenset(_largest(paths, budget.paths_max) for paths in results), is_generalised)


def _largest(paths: frozenset[Steps], count: int) -> frozenset[Steps]:
    """Returns the most selective paths. Without some of its paths, a conjunction is wider."""
    if len(paths) <= count:
        return paths
    return frozenset(
        sorted(paths, key=lambda path: (-sum(1 + len(step.conditions) for step in path), repr(path)))[:count]
    )


class _Decomposer:
    """The decomposition of one condition."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._depth = 0
        self.is_generalised = False  #: Whether something did not fit into the budget.

    # Formulas.

    def _either(self, parts: Iterable[Alternatives]) -> Alternatives:
        return reduce(self._or, parts, FALSE)

    def _or(self, one: Alternatives, other: Alternatives) -> Alternatives:
        results = _without_contained((*one, *other))
        return results if len(results) <= self._budget.alternatives_max else self._in_common(results)

    def _in_common(self, alternatives: Alternatives) -> Alternatives:
        self.is_generalised = True
        return _in_common(alternatives)

    def _too_deep(self) -> Alternatives:
        self.is_generalised = True
        return TRUE

    def _all(self, parts: Iterable[Alternatives]) -> Alternatives:
        return reduce(self._both, parts, TRUE)

    def _both(self, one: Alternatives, other: Alternatives) -> Alternatives:
        if len(one) * len(other) > self._budget.alternatives_max:
            one, other = sorted((one, other), key=len)
            other = self._in_common(other)
        return _without_contained(
            Alternative(left.here | right.here, left.below | right.below, left.anywhere | right.anywhere)
            for left in one
            for right in other
        )

    # Expressions as conditions at an element, or at the document node.

    def condition(self, expression: Expr, *, at_root: bool = False, negated: bool = False) -> Alternatives:
        """Returns what an expression implies if it is true or, `negated`, if it is false."""
        if self._depth >= self._budget.depth_max:
            return self._too_deep()
        self._depth += 1
        result = self._condition(expression, at_root=at_root, negated=negated)
        self._depth -= 1
        return result

    def _condition(self, expression: Expr, *, at_root: bool, negated: bool) -> Alternatives:
        match expression:
            case FunctionCall("not", (operand,)):
                return self.condition(operand, at_root=at_root, negated=not negated)
            case FunctionCall("boolean", (operand,)):
                return self.condition(operand, at_root=at_root, negated=negated)
            case FunctionCall("true" | "false" as truth):
                return TRUE if (truth == "true") != negated else FALSE
            case And(operands) | Or(operands) | Union(operands):
                together = isinstance(expression, And) != negated
                if together or at_root or not is_local(expression):
                    parts = (self.condition(operand, at_root=at_root, negated=negated) for operand in operands)
                    return (self._all if together else self._either)(parts)
        if is_local(expression) and not at_root:
            return self._local(expression, negated=negated)
        return TRUE if negated else self._true_elsewhere(expression, at_root=at_root)

    def _true_elsewhere(self, expression: Expr, *, at_root: bool) -> Alternatives:
        """Returns what follows if an expression about more than the current element is true."""
        if isinstance(expression, Path):
            return self._path(expression, at_root=at_root)
        if isinstance(expression, Compare):
            return self._comparison(expression, at_root=at_root)
        return self._needed(expression, at_root=at_root)

    @staticmethod
    def _local(expression: Expr, *, negated: bool) -> Alternatives:
        if isinstance(expression, Path) and all(step == _ITSELF for step in expression.steps):
            return FALSE if negated else TRUE
        if is_numeric(expression):
            # As a predicate it would be a position.
            expression = FunctionCall("boolean", (expression,))
        return (Alternative(here=frozenset({FunctionCall("not", (expression,)) if negated else expression})),)

    def _comparison(self, comparison: Compare, *, at_root: bool) -> Alternatives:
        left, operator, right = comparison.left, comparison.operator, comparison.right
        if result_type(left) != "node-set":
            left, operator, right = right, FLIPPED[operator], left
        if result_type(left) != "node-set" or result_type(right) == "boolean":
            return self._needed(comparison, at_root=at_root)
        if result_type(right) == "node-set":
            # Each side selects a node.
            return self._both(self.condition(left, at_root=at_root), self.condition(right, at_root=at_root))
        if any(True for _ in own_paths(right)) or not is_local(right):
            return self.condition(left, at_root=at_root)
        test = Compare(operator, Path(ContextNode(), (_ITSELF,)), right)
        members = left.operands if isinstance(left, Union) else (left,)
        return self._either(self._filtered(member, test, at_root=at_root) for member in members)

    def _filtered(self, nodes: Expr, test: Expr, *, at_root: bool) -> Alternatives:
        """Returns what follows if some of `nodes` satisfies `test`."""
        if not isinstance(nodes, Path) or not nodes.steps:
            return self.condition(nodes, at_root=at_root)
        *above, last = nodes.steps
        tested = Step(last.axis, last.test, (*last.predicates, test))
        return self.condition(Path(nodes.start, (*above, tested)), at_root=at_root)

    def _needed(self, expression: Expr, *, at_root: bool) -> Alternatives:
        """Returns what follows if an expression is true: where it is false without nodes, a path selects a node."""
        if not _needs_nodes(expression):
            return TRUE
        paths = list(own_paths(expression))
        if len(paths) == 1 and paths[0].steps and _of_first_node(expression):
            test = _replaced(expression)
            if is_local(test):
                return self._filtered(paths[0], test, at_root=at_root)
        return self._either(self.condition(path, at_root=at_root) for path in paths)

    # Paths.

    def _path(self, path: Path, *, at_root: bool) -> Alternatives:
        match path.start:
            case ContextNode():
                return self._steps(path.steps, at_root=at_root)
            case Root():
                return _anywhere(self._steps(path.steps, at_root=True))
            case Filtered(primary, predicates):
                return self._from(primary, predicates, path.steps, at_root=at_root)
            case Variable():
                return TRUE

    def _from(
        self, primary: Expr, predicates: tuple[Expr, ...], steps: tuple[Step, ...], *, at_root: bool
    ) -> Alternatives:
        """Returns what follows if `(primary)[predicates]/steps` selects a node."""
        if isinstance(primary, Union):
            return self._either(self._from(member, predicates, steps, at_root=at_root) for member in primary.operands)
        if not isinstance(primary, Path):
            return TRUE
        if primary.steps:
            *above, last = primary.steps
            own = tuple(test for test in predicates if not is_numeric(test))
            steps = (*above, Step(last.axis, last.test, (*last.predicates, *own)), *steps)
        return self._path(Path(primary.start, steps), at_root=at_root)

    def _steps(self, steps: tuple[Step, ...], *, at_root: bool = False, descendant: bool = False) -> Alternatives:
        """Returns what follows if steps select a node from the current element (`descendant`: or from one below it)."""
        if not steps:
            return TRUE
        if self._depth >= self._budget.depth_max:
            return self._too_deep()
        self._depth += 1
        result = self._first_step(steps, at_root=at_root, descendant=descendant)
        self._depth -= 1
        return result

    def _first_step(self, steps: tuple[Step, ...], *, at_root: bool, descendant: bool) -> Alternatives:
        step, rest = steps[0], steps[1:]
        descendant = descendant or step.axis in (Axis.DESCENDANT, Axis.DESCENDANT_CHILD)
        match step.axis, step.test:
            case (Axis.DESCENDANT_OR_SELF, KindTest("node")):
                return self._steps(rest, at_root=at_root, descendant=True)
            case (Axis.SELF, KindTest("node")):
                own = TRUE if descendant else self._predicates(step, at_root=at_root)
                return self._both(own, self._steps(rest, at_root=at_root, descendant=descendant))
            case (Axis.SELF | Axis.DESCENDANT_OR_SELF, NameTest()):
                return self._named_self(step, rest, at_root=at_root, descendant=descendant)
            case (Axis.ATTRIBUTE, _):
                return self._value(step, at_root=at_root, descendant=descendant)
            case (Axis.CHILD | Axis.DESCENDANT | Axis.DESCENDANT_CHILD, _):
                return self._child(step, rest, at_root=at_root, descendant=descendant)
            case (Axis.SELF | Axis.DESCENDANT_OR_SELF | Axis.NAMESPACE, _):
                return TRUE
            case (_, NameTest() as test):
                # On an axis to other branches: there is an element of that name somewhere.
                return _anywhere(self._element(step, test, rest, descendant=True))
            case (_, KindTest("node")):
                return _anywhere(self._steps(rest, at_root=True, descendant=True))
        return TRUE

    def _child(self, step: Step, rest: tuple[Step, ...], *, at_root: bool, descendant: bool) -> Alternatives:
        if isinstance(step.test, NameTest):
            return self._element(step, step.test, rest, descendant=descendant)
        if step.test == TEXT:
            return self._value(step, at_root=at_root, descendant=descendant)
        if step.test == NODE and _leads_on(rest):
            return self._element(Step(step.axis, ANY), ANY, rest, descendant=descendant)
        return TRUE

    def _predicates(self, step: Step, *, at_root: bool = False) -> Alternatives:
        # The document node has no properties of its own.
        tests = (test for test in step.predicates if not is_numeric(test) and not (at_root and is_local(test)))
        return self._all(self.condition(test, at_root=at_root) for test in tests)

    def _element(self, step: Step, test: NameTest, rest: tuple[Step, ...], *, descendant: bool) -> Alternatives:
        after = self._both(self._predicates(step), self._steps(rest))
        return _without_contained(_below(descendant, test, result) for result in after)

    def _named_self(self, step: Step, rest: tuple[Step, ...], *, at_root: bool, descendant: bool) -> Alternatives:
        """Returns what `self::name` or `descendant-or-self::name` implies."""
        assert isinstance(step.test, NameTest)
        descendant = descendant or step.axis is Axis.DESCENDANT_OR_SELF
        results: list[Alternatives] = []
        if not at_root:
            name: Alternatives = TRUE if step.test == ANY else (Alternative(here=frozenset({_name(step.test)})),)
            results.append(self._all((name, self._predicates(step), self._steps(rest))))
        if descendant:
            results.append(self._element(step, step.test, rest, descendant=True))
        return self._either(results)

    def _value(self, step: Step, *, at_root: bool, descendant: bool) -> Alternatives:
        """Returns what an attribute or a text implies, of the current element or of one below it."""
        axis = Axis.CHILD if step.test == TEXT else Axis.ATTRIBUTE
        own = tuple(
            test for test in step.predicates if is_local(Path(ContextNode(), (Step(axis, step.test, (test,)),)))
        )
        condition = Path(ContextNode(), (Step(axis, step.test, own),))
        results: list[Alternatives] = []
        if not at_root:
            results.append(self._local(condition, negated=False))
        if descendant:
            results.append((Alternative(below=frozenset({(step_of(True, ANY, (condition,)),)})),))
        return self._either(results)


def _name(test: NameTest) -> Expr:
    return Path(ContextNode(), (Step(Axis.SELF, test),))


def _leads_on(steps: tuple[Step, ...]) -> bool:
    """Returns whether steps select nodes only below elements, and not below text and other nodes."""
    return bool(steps) and steps[0].axis in (*_FORWARD, Axis.ATTRIBUTE)


def _below(descendant: bool, test: NameTest, result: Alternative) -> Alternative:
    """Returns what holds at an element, as seen from its parent."""
    step = step_of(descendant, test, result.here)
    paths = frozenset((step, *path) for path in result.below) or frozenset({(step,)})
    return Alternative(below=paths, anywhere=result.anywhere)


def _anywhere(results: Alternatives) -> Alternatives:
    """Returns what holds at the document node, as seen from any element."""
    return tuple(Alternative(anywhere=alternative.below | alternative.anywhere) for alternative in results)


def _without_contained(alternatives: Iterable[Alternative]) -> Alternatives:
    """Returns alternatives without repetitions, and without those that contain another."""
    kept: list[Alternative] = []
    for alternative in dict.fromkeys(alternatives):
        if not any(alternative.contains(other) for other in kept):
            kept = [other for other in kept if not other.contains(alternative)]
            kept.append(alternative)
    return tuple(kept)


def _in_common(alternatives: Alternatives) -> Alternatives:
    """Returns what all alternatives have in common, as the only one."""
    first, *others = alternatives
    for other in others:
        first = Alternative(first.here & other.here, first.below & other.below, first.anywhere & other.anywhere)
    return (first,)


def _needs_nodes(expression: Expr) -> bool:
    """Returns whether an expression is certainly false where none of its paths leads anywhere."""
    prefixes: dict[str, str] = {XML_NAMESPACE: "xml"}
    renamed = WithPrefixes(lambda uri: prefixes.setdefault(uri, f"n{len(prefixes)}")).expression(expression)
    text = str(renamed)
    return truth_without_nodes(text, {prefix: uri for uri, prefix in prefixes.items()}) is False


# One path inside functions.


def _of_first_node(expression: Expr) -> bool:
    """Returns whether only the first node, or some node, of the single path of an expression matters."""
    match expression:
        case Path() | Literal() | Number():
            return True
        case Compare(_, left, right):
            are_boolean = "boolean" in (result_type(left), result_type(right))
            return not are_boolean and _of_first_node(left) and _of_first_node(right)
        case Arithmetic(_, left, right):
            return _of_first_node(left) and _of_first_node(right)
        case Negate(operand):
            return _of_first_node(operand)
        case FunctionCall(function, arguments):
            return FUNCTIONS[function].uses_first_node and bool(arguments) and all(map(_of_first_node, arguments))
    return False


def _replaced(expression: Expr) -> Expr:
    """Returns an expression with `.` in place of its path."""
    if isinstance(expression, Path):
        return Path(ContextNode(), (_ITSELF,))
    return with_operands(expression, _replaced)
