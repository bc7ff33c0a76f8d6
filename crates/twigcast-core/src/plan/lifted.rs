//! Conditions on attributes as conditions on their elements, which an index serves.
//!
//! An element has one attribute of a name at most, so `a/@b[lower-case(.) = 'x']` is `a[lower-case(@b) = 'x']/@b`.

use crate::query::ast::{Axis, Expr, NameTest, NodeTest, Path, PathStart, Step};
use crate::query::position::{is_positional, uses_position};

/// Returns the expression with the conditions on attributes as conditions on the elements that have them; `None` if there are
/// none.
pub(super) fn lifted(expr: &Expr) -> Option<Expr> {
    // Few have any, and a copy costs more than a look.
    if !has_conditions_on_attributes(expr) {
        return None;
    }
    let mut expr = expr.clone();
    lift(&mut expr).then_some(expr)
}

/// Returns whether a path anywhere in an expression ends in an attribute with predicates.
fn has_conditions_on_attributes(expr: &Expr) -> bool {
    let in_path = |path: &Path| {
        let ends_in_such =
            path.steps.last().is_some_and(|last| last.axis == Axis::Attribute && !last.predicates.is_empty());
        let of_start = match &path.start {
            PathStart::Filter { predicates, .. } => predicates.as_slice(),
            PathStart::Root | PathStart::Context | PathStart::Variable(_) => &[],
        };
        let mut predicates = of_start.iter().chain(path.steps.iter().flat_map(|step| &step.predicates));
        ends_in_such || predicates.any(has_conditions_on_attributes)
    };
    let within = match expr {
        Expr::Path(path) => in_path(path),
        Expr::Map { value, .. } => has_conditions_on_attributes(value),
        _ => false,
    };
    within || expr.operands().any(has_conditions_on_attributes)
}

/// Rewrites an expression; returns whether anything changed.
fn lift(expr: &mut Expr) -> bool {
    match expr {
        Expr::Or(operands) | Expr::And(operands) | Expr::Union(operands) => lift_all(operands),
        Expr::Call { arguments, .. } => lift_all(arguments),
        Expr::Compare { left, right, .. } | Expr::Arithmetic { left, right, .. } => lift(left) | lift(right),
        Expr::Negate(operand) => lift(operand),
        Expr::Map { nodes, value } => lift(nodes) | lift(value),
        Expr::Number(_)
        | Expr::Literal(_)
        | Expr::Pattern(_)
        | Expr::Selection(_)
        | Expr::Region(_)
        | Expr::Typed(_) => false,
        Expr::Path(path) => {
            let in_start = match &mut path.start {
                PathStart::Filter { primary, predicates } => lift(primary) | lift_all(predicates),
                PathStart::Root | PathStart::Context | PathStart::Variable(_) => false,
            };
            let in_steps = path.steps.iter_mut().fold(false, |changed, step| lift_all(&mut step.predicates) | changed);
            in_start | in_steps | lift_last_step(path)
        }
    }
}

fn lift_all(list: &mut [Expr]) -> bool {
    list.iter_mut().fold(false, |changed, expr| lift(expr) | changed)
}

/// Moves the predicates of an attribute at the end of a path to the element before it.
fn lift_last_step(path: &mut Path) -> bool {
    let from_root = path.start == PathStart::Root && path.steps.len() == 2;
    let [.., element, attribute] = path.steps.as_mut_slice() else { return false };
    let is_named = attribute.axis == Axis::Attribute && matches!(attribute.test, NodeTest::Name(NameTest::Name(_)));
    if !is_named || attribute.predicates.is_empty() || attribute.predicates.iter().any(is_positional) {
        return false;
    }
    let is_element =
        matches!(element.axis, Axis::Child | Axis::Descendant) && matches!(element.test, NodeTest::Name(_));
    // `//@b`: the document node has no attributes.
    let is_anywhere = from_root && super::condition::is_double_slash(element);
    if !is_element && !is_anywhere {
        return false;
    }
    let itself = Step { predicates: Vec::new(), ..attribute.clone() };
    let mut conditions = attribute.predicates.clone();
    if !conditions.iter_mut().all(|condition| of_attribute(condition, &itself)) {
        return false;
    }
    if is_anywhere {
        *element = Step { axis: Axis::Descendant, test: NodeTest::Name(NameTest::Any), predicates: Vec::new() };
    }
    element.predicates.extend(conditions);
    attribute.predicates.clear();
    true
}

/// Rewrites a condition on an attribute as one on its element. Returns `false` if it asks for more than the attribute.
fn of_attribute(condition: &mut Expr, attribute: &Step) -> bool {
    match condition {
        Expr::Or(operands) | Expr::And(operands) | Expr::Union(operands) => {
            operands.iter_mut().all(|operand| of_attribute(operand, attribute))
        }
        Expr::Call { function, arguments } => {
            !function.facts().reads_context(arguments.len())
                && arguments.iter_mut().all(|argument| of_attribute(argument, attribute))
        }
        Expr::Compare { left, right, .. } | Expr::Arithmetic { left, right, .. } => {
            of_attribute(left, attribute) && of_attribute(right, attribute)
        }
        Expr::Negate(operand) => of_attribute(operand, attribute),
        Expr::Map { nodes, value } => !uses_position(value) && of_attribute(nodes, attribute),
        Expr::Number(_)
        | Expr::Literal(_)
        | Expr::Pattern(_)
        | Expr::Selection(_)
        | Expr::Region(_)
        | Expr::Typed(_) => true,
        Expr::Path(Path { start: PathStart::Context, steps }) => {
            let is_itself = matches!(steps.as_slice(), [Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates }]
                if predicates.is_empty());
            if is_itself {
                steps[0] = attribute.clone();
            }
            is_itself
        }
        Expr::Path(Path { start, .. }) => *start == PathStart::Root,
    }
}
