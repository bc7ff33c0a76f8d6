//! Boolean analysis of expressions: which are paths in disguise, which paths they cannot be true without.

use crate::analysis;
use crate::query::ast::{Axis, Expr, Function, NodeTest, Path, PathStart, Step};
use crate::query::position::is_positional;

/// Returns the expression as one location path whose existence is the expression's truth, where that is exact:
/// `P`, `boolean(P)`, `count(P) > 0`, `P = 'v'` (as `P[. = 'v']`) and the like.
pub(super) fn as_path(expr: &Expr) -> Option<Path> {
    let (path, comparison) = expr.asked_path()?;
    if !matches!(path.start, PathStart::Root | PathStart::Context) {
        return None;
    }
    let mut path = path.clone();
    if let Some((op, constant)) = comparison {
        let this = Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: vec![] };
        let this = Expr::Path(Path { start: PathStart::Context, steps: vec![this] });
        let compared = Expr::Compare { op, left: Box::new(this), right: Box::new(constant.clone()) };
        path.steps.last_mut()?.predicates.push(compared);
    }
    Some(path)
}

/// Returns absolute paths of which at least one selects a node whenever the expression is true; without any, the
/// expression is never true. `None` if no such paths are known.
pub(super) fn necessary_paths(expr: &Expr) -> Option<Vec<Path>> {
    if let Expr::And(operands) = expr {
        // Any conjunct will do; the one with the longest single path filters best.
        return operands
            .iter()
            .filter_map(necessary_paths)
            .min_by_key(|paths| (paths.len(), usize::MAX - paths.iter().map(|p| p.steps.len()).min().unwrap_or(0)));
    }
    if analysis::truth_without_nodes(expr) != Some(false) {
        return None;
    }
    let mut paths = Vec::new();
    collect_paths(expr, &mut paths)?;
    Some(paths)
}

/// Collects the paths of an expression that start at the document node, except those in predicates.
fn collect_paths(expr: &Expr, paths: &mut Vec<Path>) -> Option<()> {
    match expr {
        Expr::Path(Path { start: PathStart::Variable(_), .. }) => None,
        Expr::Path(path) if matches!(path.start, PathStart::Root | PathStart::Context) => {
            paths.push(path.clone());
            Some(())
        }
        other => other.operands().try_for_each(|operand| collect_paths(operand, paths)),
    }
}

/// Returns whether the expression asks for element structure only: forward paths over names, `and`, `or`, `not()`, no
/// positions and no values. Then its truth at an element depends only on the shape of the subtree, duplicates aside.
pub(super) fn is_structural(expr: &Expr) -> bool {
    match expr {
        Expr::Or(operands) | Expr::And(operands) => operands.iter().all(is_structural),
        Expr::Call { function: Function::Not | Function::Boolean, arguments } => is_structural(&arguments[0]),
        Expr::Call { function: Function::True | Function::False, .. } => true,
        Expr::Union(operands) => operands.iter().all(is_structural),
        Expr::Path(path) => {
            matches!(path.start, PathStart::Context)
                && path.steps.iter().enumerate().all(|(index, step)| match (step.axis, &step.test) {
                    // Only in front of a step to children does it not matter that it also leads to text.
                    (Axis::DescendantOrSelf, NodeTest::Node) => {
                        step.predicates.is_empty()
                            && path
                                .steps
                                .get(index + 1)
                                .is_some_and(|next| matches!(next.axis, Axis::Child | Axis::Descendant))
                    }
                    (Axis::Child | Axis::Descendant | Axis::DescendantOrSelf | Axis::SelfAxis, NodeTest::Name(_))
                    | (Axis::SelfAxis, NodeTest::Node) => {
                        step.predicates.iter().all(|p| !is_positional(p) && is_structural(p))
                    }
                    _ => false,
                })
        }
        _ => false,
    }
}

/// Returns whether this is the step `descendant-or-self::node()` of the abbreviation `//`.
pub(super) fn is_double_slash(step: &Step) -> bool {
    step.axis == Axis::DescendantOrSelf && step.test == NodeTest::Node && step.predicates.is_empty()
}
