"""The functions of XPath by name, and what is true of them without evaluating.

The rows are those of the compiled core: parser, planner and evaluator read the same table.
"""

from collections.abc import Mapping
from types import MappingProxyType

from twigcast._core import XPathFunction, functions
from twigcast.query.xpath import (
    And,
    Arithmetic,
    Compare,
    Expr,
    Filtered,
    FunctionCall,
    Literal,
    Negate,
    Number,
    Or,
    Path,
    Variable,
)

FUNCTIONS: Mapping[str, XPathFunction] = MappingProxyType({row.name: row for row in functions()})
"""All functions: those of XPath 1.0 in the order of the Recommendation, then those of XPath 3.1."""


def result_type(expression: Expr) -> str | None:
    """Returns the type of an expression, as :attr:`XPathFunction.result_type` names it; ``None`` for a variable."""
    match expression:
        case And() | Or() | Compare():
            return "boolean"
        case Number() | Arithmetic() | Negate():
            return "number"
        case Literal():
            return "string"
        case FunctionCall(function):
            return FUNCTIONS[function].result_type
        case Path(Filtered(primary, ()), ()):
            return result_type(primary)
        case Path(Variable(), ()):
            return None
    return "node-set"
