//! Binary operators, and what they make of their operands.

use super::ast::{ArithmeticOp, CompareOp, Expr};

/// A binary operator.
#[derive(Clone, Copy)]
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
