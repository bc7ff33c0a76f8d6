//! Finds conditions that exclude each other, and conditions of which at least one always holds.

use crate::query::ast::{CompareOp, Expr, Function};

use super::values::AbstractValue;

/// Evaluates an expression in the context of the conditions.
type ValueOf<'v, 'e> = &'v dyn Fn(&'e Expr) -> AbstractValue<'e>;

/// Longer lists are not compared each with each: it would take quadratic time.
const COMPARED_MAX: usize = 32;

/// Returns the truth of `a or b or ...`.
pub(super) fn any<'e>(operands: &'e [Expr], value: ValueOf<'_, 'e>) -> Option<bool> {
    let truths = operands.iter().map(|operand| value(operand).truth());
    match fold(truths, true) {
        None if pairs(operands).any(|(a, b)| is_negation(a, b) || is_negation(b, a)) => Some(true),
        decided => decided,
    }
}

/// Returns the truth of `a and b and ...`.
pub(super) fn all<'e>(operands: &'e [Expr], value: ValueOf<'_, 'e>) -> Option<bool> {
    let truths = operands.iter().map(|operand| value(operand).truth());
    match fold(truths, false) {
        None if exclude_each_other(operands.iter(), value) => Some(false),
        decided => decided,
    }
}

/// Returns `decisive` if one of the truths is that, and the opposite if all are the opposite.
fn fold(truths: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut open = false;
    for truth in truths {
        match truth {
            Some(truth) if truth == decisive => return Some(decisive),
            Some(_) => {}
            None => open = true,
        }
    }
    if open { None } else { Some(!decisive) }
}

/// Returns `true` if two of these conditions on a node cannot hold together.
pub(super) fn exclude_each_other<'e>(conditions: impl Iterator<Item = &'e Expr>, value: ValueOf<'_, 'e>) -> bool {
    let conditions: Vec<&Expr> = conditions.take(COMPARED_MAX).collect();
    if conditions.len() < 2 {
        return false;
    }
    let demands: Vec<_> = conditions.iter().map(|&condition| Demand::of(condition, value)).collect();
    for (index, (a, first)) in conditions.iter().zip(&demands).enumerate() {
        for (b, second) in conditions.iter().zip(&demands).skip(index + 1) {
            let absent = |demand: &Option<Demand<'_>>, other: &Expr| {
                demand.as_ref().is_some_and(|demand| demand.of_nodes && is_negation(demand.subject, other))
            };
            if is_negation(a, b) || is_negation(b, a) || absent(first, b) || absent(second, a) {
                return true;
            }
            if let (Some(first), Some(second)) = (first, second)
                && first.single
                && first.subject == second.subject
                && first.bound.excludes(&second.bound)
            {
                return true;
            }
        }
    }
    false
}

fn pairs(operands: &[Expr]) -> impl Iterator<Item = (&Expr, &Expr)> {
    let some = &operands[..operands.len().min(COMPARED_MAX)];
    some.iter().enumerate().flat_map(move |(index, a)| some[index + 1..].iter().map(move |b| (a, b)))
}

/// Returns whether `b` is `not(a)`.
fn is_negation(a: &Expr, b: &Expr) -> bool {
    matches!(b, Expr::Call { function: Function::Not, arguments } if arguments.len() == 1 && arguments[0] == *a)
}

/// The bound that a comparison with a constant sets to its other operand.
struct Demand<'e> {
    subject: &'e Expr,
    /// The subject is a node-set, which must not be empty then.
    of_nodes: bool,
    /// The subject has one value (or, as a node-set, no more than one).
    single: bool,
    bound: Bound,
}

enum Bound {
    Is(String),
    IsNot(String),
    Number(CompareOp, f64),
}

impl<'e> Demand<'e> {
    fn of(condition: &'e Expr, value: ValueOf<'_, 'e>) -> Option<Self> {
        let Expr::Compare { op, left, right } = condition else { return None };
        let (a, b) = (value(left), value(right));
        let (subject, read, op, constant) = match (a.number(), b.number()) {
            (None, Some(_)) => (&**left, a, *op, b),
            (Some(_), None) => (&**right, b, op.flipped(), a),
            _ => return None,
        };
        let (of_nodes, single) = match &read {
            AbstractValue::Nodes(nodes) => (true, nodes.single),
            AbstractValue::Text(_) | AbstractValue::Number(_) => (false, true),
            AbstractValue::Boolean(_) | AbstractValue::Typed | AbstractValue::Unknown => return None,
        };
        let bound = match (op, &constant) {
            (CompareOp::Equal, AbstractValue::Text(Some(text))) if !matches!(read, AbstractValue::Number(_)) => {
                Bound::Is(text.to_string())
            }
            (CompareOp::NotEqual, AbstractValue::Text(Some(text))) if !matches!(read, AbstractValue::Number(_)) => {
                Bound::IsNot(text.to_string())
            }
            _ => Bound::Number(op, constant.number()?),
        };
        Some(Self { subject, of_nodes, single, bound })
    }
}

impl Bound {
    /// Returns whether there is no value that is within both.
    fn excludes(&self, other: &Self) -> bool {
        use CompareOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        match (self, other) {
            (Self::Is(a), Self::Is(b)) => a != b,
            (Self::Is(a), Self::IsNot(b)) | (Self::IsNot(b), Self::Is(a)) => a == b,
            (Self::Is(text), Self::Number(op, number)) | (Self::Number(op, number), Self::Is(text)) => {
                !op.holds(crate::util::number::parse(text), *number)
            }
            (Self::Number(Equal, a), Self::Number(op, b)) | (Self::Number(op, b), Self::Number(Equal, a)) => {
                !op.holds(*a, *b)
            }
            (Self::Number(lower @ (Greater | GreaterOrEqual), a), Self::Number(upper @ (Less | LessOrEqual), b))
            | (Self::Number(upper @ (Less | LessOrEqual), b), Self::Number(lower @ (Greater | GreaterOrEqual), a)) => {
                a > b || (a == b && (*lower == Greater || *upper == Less))
            }
            _ => false,
        }
    }
}
