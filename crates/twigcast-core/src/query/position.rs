//! Dependence of expressions on the context position and size.

use super::ast::{Expr, Path, PathStart};
use super::functions::{Dependence, ExprType};

/// Returns what the value of an expression depends on besides the context node.
pub fn dependence(expr: &Expr) -> Dependence {
    let own = match expr {
        Expr::Call { function, .. } => function.facts().depends_on,
        _ => Dependence::Node,
    };
    expr.operands().map(dependence).fold(own, Ord::max)
}

/// Returns `true` if the value of an expression depends on the context position or size.
pub fn uses_position(expr: &Expr) -> bool {
    dependence(expr) != Dependence::Node
}

/// Returns what the truth of a predicate depends on besides the context node. A number is compared with the position,
/// and so is a variable, which may hold one.
pub fn predicate_dependence(predicate: &Expr) -> Dependence {
    let own = dependence(predicate);
    let is_variable =
        matches!(predicate, Expr::Path(Path { start: PathStart::Variable(_), steps }) if steps.is_empty());
    if is_variable || predicate.static_type(&[]) == ExprType::Number { own.max(Dependence::Position) } else { own }
}

/// Returns `true` if the truth of a predicate may depend on the context position or size.
pub fn is_positional(predicate: &Expr) -> bool {
    predicate_dependence(predicate) != Dependence::Node
}
