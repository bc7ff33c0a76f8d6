//! Binary operators, and what they make of their operands.

use super::ast::{ArithmeticOp, CompareOp, Expr, Function};

/// A binary operator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Compare(CompareOp),
    Arithmetic(ArithmeticOp),
}

/// Returns `true` if `operator` extends the list that `left` is.
pub(super) fn is_chain(left: &Expr, operator: Operator) -> bool {
    matches!((left, operator), (Expr::Or(_), Operator::Or) | (Expr::And(_), Operator::And))
}

/// Does `right` compare with a constant what the last operand of `left` compares with one?
pub(super) fn is_of_same_list(left: &Expr, right: &Expr) -> bool {
    let last = match left {
        Expr::Or(operands) => operands.last(),
        other => Some(other),
    };
    last.and_then(compared_operand).is_some_and(|operand| Some(operand) == compared_operand(right))
}

/// What an expression compares with a constant.
fn compared_operand(expr: &Expr) -> Option<&Expr> {
    let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(_) | Expr::Number(_));
    match expr {
        Expr::Compare { left, right, .. } if is_constant(right) => Some(left),
        Expr::Compare { left, right, .. } if is_constant(left) => Some(right),
        Expr::Call { function: Function::Contains | Function::StartsWith, arguments } => match arguments.as_slice() {
            [operand, part] if is_constant(part) => Some(operand),
            _ => None,
        },
        _ => None,
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
    }
}

/// The operands of an associative operator in one list; `operands_of` opens an operand that is itself such a list.
fn joined(left: Expr, right: Expr, operands_of: impl Fn(Expr) -> Result<Vec<Expr>, Expr>) -> Vec<Expr> {
    let mut operands = operands_of(left).unwrap_or_else(|operand| vec![operand]);
    match operands_of(right) {
        Ok(more) => operands.extend(more),
        Err(operand) => operands.push(operand),
    }
    operands
}
