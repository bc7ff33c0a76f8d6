"""From a query's condition to a disjunction of conjunctions of linear paths that the condition implies.

The condition is any XPath 1.0 expression, to be true at the document node. It is read as a formula over linear paths:
a nested path becomes a linear path of its own that begins with the steps up to where it hangs (Diao 2005, section
7.3.1), `and`, `or`, `not()` and unions combine them, what speaks of one element alone stays as a condition on its step.
The rest (positions, comparisons of two paths, most of what stands under `not()`) is replaced by something it implies,
in the end by *true*. So each answer is necessary for the query, whatever the query is.

Distributing `and` over `or` can explode. Where the product of two disjunctions would have more than the budget's
alternatives, the longer one is replaced by what its alternatives have in common, which each of them implies.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple, TypeAlias

from twigcast._core import truth_without_nodes
from twigcast.overlay.onyx.content.linear import FLIPPED, Steps, is_local, is_numeric, own_paths, step_of
from twigcast.overlay.onyx.content.substitution import WithPrefixes
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


class Budget(NamedTuple):
    """How much a routing query may hold.

    Attributes:
        alternatives_max: Disjuncts.
        paths_max: Linear paths of one disjunct.
        depth_max: How deep steps and conditions may stand inside each other; what is deeper is left out.
    """

    alternatives_max: int = 64
    paths_max: int = 32
    depth_max: int = 100


class Alternative(NamedTuple):
    """A conjunction, seen from the element in hand.

    Attributes:
        here: Conditions on the element itself.
        below: Linear paths from the element on.
        anywhere: Linear paths from the document node.
    """

    here: frozenset[Expr] = frozenset()
    below: frozenset[Steps] = frozenset()
    anywhere: frozenset[Steps] = frozenset()

    def contains(self, other: Alternative) -> bool:
        """Whether it asks for all that `other` asks for."""
        return self.here >= other.here and self.below >= other.below and self.anywhere >= other.anywhere


#: The `or` of its members; without any: false.
Alternatives: TypeAlias = tuple[Alternative, ...]

TRUE: Alternatives = (Alternative(),)
FALSE: Alternatives = ()

_ITSELF = Step(Axis.SELF, NODE)
_FORWARD = (Axis.CHILD, Axis.DESCENDANT, Axis.DESCENDANT_CHILD)


class Decomposed(NamedTuple):
    """What became of a condition.

    Attributes:
        disjuncts: Each a conjunction of absolute linear paths.
        is_generalised: The budget did not suffice: something wider stands in place of a part.
    """

    disjuncts: frozenset[frozenset[Steps]]
    is_generalised: bool


def decompose(condition: Expr, budget: Budget) -> Decomposed:
    """The disjunction of conjunctions of absolute linear paths that a condition at the document node implies."""
    work = _Decomposition(budget)
    results = [each.below | each.anywhere for each in work.condition(condition, at_root=True)]
    is_generalised = work.is_generalised or any(len(paths) > budget.paths_max for paths in results)
    return Decomposed(frozenset(_largest(paths, budget.paths_max) for paths in results), is_generalised)


def _largest(paths: frozenset[Steps], count: int) -> frozenset[Steps]:
    """The paths that say most; a conjunction may lose any without becoming narrower."""
    if len(paths) <= count:
        return paths
    return frozenset(
        sorted(paths, key=lambda path: (-sum(1 + len(step.conditions) for step in path), repr(path)))[:count]
    )


class _Decomposition:
    """Decomposes one condition."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._depth = 0
        self.is_generalised = False
        """Something did not fit into the budget."""

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
        """What the truth of an expression (or its falsehood) implies."""
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
        """An expression that looks at more than the element in hand is true."""
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
            # Each side has a node.
            return self._both(self.condition(left, at_root=at_root), self.condition(right, at_root=at_root))
        if any(True for _ in own_paths(right)) or not is_local(right):
            return self.condition(left, at_root=at_root)
        test = Compare(operator, Path(ContextNode(), (_ITSELF,)), right)
        members = left.operands if isinstance(left, Union) else (left,)
        return self._either(self._filtered(member, test, at_root=at_root) for member in members)

    def _filtered(self, nodes: Expr, test: Expr, *, at_root: bool) -> Alternatives:
        """There is a node among `nodes` that satisfies `test`."""
        if not isinstance(nodes, Path) or not nodes.steps:
            return self.condition(nodes, at_root=at_root)
        *above, last = nodes.steps
        tested = Step(last.axis, last.test, (*last.predicates, test))
        return self.condition(Path(nodes.start, (*above, tested)), at_root=at_root)

    def _needed(self, expression: Expr, *, at_root: bool) -> Alternatives:
        """An expression that is false where none of its paths leads anywhere: one of them does."""
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
        """`(primary)[predicates]/steps`."""
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
        """The steps lead somewhere from the element in hand (`descendant`: or from something below it)."""
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
                # Backwards or sidewards: an element of that name is somewhere.
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
        # Of the document node by itself there is nothing to say.
        tests = (test for test in step.predicates if not is_numeric(test) and not (at_root and is_local(test)))
        return self._all(self.condition(test, at_root=at_root) for test in tests)

    def _element(self, step: Step, test: NameTest, rest: tuple[Step, ...], *, descendant: bool) -> Alternatives:
        after = self._both(self._predicates(step), self._steps(rest))
        return _without_contained(_below(descendant, test, result) for result in after)

    def _named_self(self, step: Step, rest: tuple[Step, ...], *, at_root: bool, descendant: bool) -> Alternatives:
        """`self::name` or `descendant-or-self::name`."""
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
        """An attribute or a text: of the element in hand, or of one below it."""
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
    """Whether steps lead on from elements only, and not from text and the like."""
    return bool(steps) and steps[0].axis in (*_FORWARD, Axis.ATTRIBUTE)


def _below(descendant: bool, test: NameTest, result: Alternative) -> Alternative:
    """What holds at an element, seen from the one above it."""
    step = step_of(descendant, test, result.here)
    paths = frozenset((step, *path) for path in result.below) or frozenset({(step,)})
    return Alternative(below=paths, anywhere=result.anywhere)


def _anywhere(results: Alternatives) -> Alternatives:
    """What holds at the document node, seen from wherever."""
    return tuple(Alternative(anywhere=alternative.below | alternative.anywhere) for alternative in results)


def _without_contained(alternatives: Iterable[Alternative]) -> Alternatives:
    """Without repetition, and without those that ask for more than another."""
    kept: list[Alternative] = []
    for alternative in dict.fromkeys(alternatives):
        if not any(alternative.contains(other) for other in kept):
            kept = [other for other in kept if not other.contains(alternative)]
            kept.append(alternative)
    return tuple(kept)


def _in_common(alternatives: Alternatives) -> Alternatives:
    """What all alternatives imply, as one."""
    first, *others = alternatives
    for other in others:
        first = Alternative(first.here & other.here, first.below & other.below, first.anywhere & other.anywhere)
    return (first,)


def _needs_nodes(expression: Expr) -> bool:
    """Whether an expression is certainly false where none of its paths leads anywhere."""
    prefixes: dict[str, str] = {XML_NAMESPACE: "xml"}
    renamed = WithPrefixes(lambda uri: prefixes.setdefault(uri, f"n{len(prefixes)}")).expression(expression)
    text = str(renamed)
    return truth_without_nodes(text, {prefix: uri for uri, prefix in prefixes.items()}) is False


# One path inside functions.


def _of_first_node(expression: Expr) -> bool:
    """Whether the expression's only path counts by its first node, or by some node."""
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
    """The expression with `.` in place of its path."""
    match expression:
        case Path():
            return Path(ContextNode(), (_ITSELF,))
        case Compare(operator, left, right):
            return Compare(operator, _replaced(left), _replaced(right))
        case Arithmetic(operator, left, right):
            return Arithmetic(operator, _replaced(left), _replaced(right))
        case Negate(operand):
            return Negate(_replaced(operand))
        case FunctionCall(function, arguments):
            return FunctionCall(function, tuple(map(_replaced, arguments)))
    return expression
