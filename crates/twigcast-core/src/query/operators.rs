//! Binary operators, and what they make of their operands.

use super::ast::{ArithmeticOp, CompareOp, Expr, Function};

/// A binary operator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Compare(CompareOp),
    Arithmetic(ArithmeticOp),
    /// `||`.
    Join,
    /// `to`.
    Range,
    /// `is`, `<<`, `>>`.
    NodeOrder(NodeOrder),
    /// `contains text`: what follows is no expression.
    ContainsText,
}

/// An order of two nodes in the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeOrder {
    Same,
    Before,
    After,
}

/// A side of an operator.
#[derive(Clone)]
pub(super) enum Side {
    /// One expression.
    One(Expr),
    /// `('a', 'b')` or `1 to 5`: the other side of a comparison is compared with each.
    Several(Vec<Expr>),
}

impl Side {
    /// Returns the expressions of the side.
    pub(super) fn all(&self) -> &[Expr] {
        match self {
            Self::One(expr) => std::slice::from_ref(expr),
            Self::Several(list) => list,
        }
    }
}

/// The number of the first name that stands for an expression rather than a variable.
pub(super) const SUBSTITUTED_FIRST: usize = 1 << 30;

/// An expression that a name stands for.
pub(super) struct Substitution {
    pub value: Side,
    /// Its levels.
    pub height: usize,
    /// The context that the expression is about, by number; `None` if it means the same in each.
    pub context: Option<usize>,
}

/// Returns the function of XPath 1.0 that a function with a set of nodes is.
pub(super) fn existence(name: &str) -> Option<(Function, &'static str)> {
    match name {
        "exists" => Some((Function::Boolean, "exists(nodes)")),
        "empty" => Some((Function::Not, "empty(nodes)")),
        _ => None,
    }
}

/// Returns `true` if `operator` extends the list that `left` is.
pub(super) fn is_chain(left: &Expr, operator: Operator) -> bool {
    matches!((left, operator), (Expr::Or(_), Operator::Or) | (Expr::And(_), Operator::And))
}

/// Returns whether `right` compares with a constant what the last operand of `left` compares with one.
pub(super) fn is_of_same_list(left: &Expr, right: &Expr) -> bool {
    let last = match left {
        Expr::Or(operands) => operands.last(),
        other => Some(other),
    };
    last.and_then(compared_operand).is_some_and(|operand| Some(operand) == compared_operand(right))
}

/// Returns what an expression compares with a constant.
fn compared_operand(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Call { function: Function::Contains | Function::StartsWith | Function::EndsWith, arguments } => {
            match arguments.as_slice() {
                [operand, part] if part.is_constant() => Some(operand),
                _ => None,
            }
        }
        _ => Some(expr.compared_with_constant()?.0),
    }
}

pub(super) fn combine(operator: Operator, left: Expr, right: Expr) -> Expr {
    match operator {
        Operator::Or => Expr::Or(joined(left, right, |operand| match operand {
            Expr::Or(operands) => Ok(operands),
            other => Err(other),
        })),
        Operator::And => Expr::And(joined(left, right, |operand| match operand {
            Expr::And(operands) => Ok(operands),
            other => Err(other),
        })),
        Operator::Compare(op) => Expr::Compare { op, left: Box::new(left), right: Box::new(right) },
        Operator::Arithmetic(op) => Expr::Arithmetic { op, left: Box::new(left), right: Box::new(right) },
        // A range, or a comparison of places, is made where it is read.
        Operator::Join | Operator::Range | Operator::NodeOrder(_) | Operator::ContainsText => {
            Expr::Call { function: Function::Concat, arguments: vec![left, right] }
        }
    }
}

/// Returns the operands of an associative operator in one list; `operands_of` opens an operand that is itself such a
/// list.
fn joined(left: Expr, right: Expr, operands_of: impl Fn(Expr) -> Result<Vec<Expr>, Expr>) -> Vec<Expr> {
    let mut operands = operands_of(left).unwrap_or_else(|operand| vec![operand]);
    match operands_of(right) {
        Ok(more) => operands.extend(more),
        Err(operand) => operands.push(operand),
    }
    operands
}
