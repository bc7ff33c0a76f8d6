//! Hashes of expressions, by which equal ones find one another.

use std::hash::{Hash, Hasher};

use crate::query::ast::{Expr, Path, PathStart, Step};
use crate::util::number::constant_bits;

/// Hashes an expression. Equal expressions hash alike.
pub(super) fn hash_expr(expr: &Expr, state: &mut impl Hasher) {
    std::mem::discriminant(expr).hash(state);
    match expr {
        Expr::Or(operands) | Expr::And(operands) | Expr::Union(operands) => hash_all(operands, state),
        Expr::Compare { op, left, right } => {
            op.hash(state);
            hash_expr(left, state);
            hash_expr(right, state);
        }
        Expr::Arithmetic { op, left, right } => {
            op.hash(state);
            hash_expr(left, state);
            hash_expr(right, state);
        }
        Expr::Negate(operand) => hash_expr(operand, state),
        Expr::Map { nodes, value } => {
            hash_expr(nodes, state);
            hash_expr(value, state);
        }
        Expr::Path(path) => hash_path(path, state),
        Expr::Number(number) => constant_bits(*number).hash(state),
        Expr::Literal(text) => text.hash(state),
        Expr::Pattern(pattern) => pattern.hash(state),
        Expr::Selection(selection) => selection.hash(state),
        Expr::Region(region) => region.hash(state),
        Expr::Typed(constant) => constant.hash(state),
        Expr::Call { function, arguments } => {
            function.hash(state);
            hash_all(arguments, state);
        }
    }
}

fn hash_all(operands: &[Expr], state: &mut impl Hasher) {
    operands.len().hash(state);
    operands.iter().for_each(|operand| hash_expr(operand, state));
}

fn hash_path(path: &Path, state: &mut impl Hasher) {
    match &path.start {
        PathStart::Root => 0_u8.hash(state),
        PathStart::Context => 1_u8.hash(state),
        PathStart::Variable(id) => (2_u8, id).hash(state),
        PathStart::Filter { primary, predicates } => {
            3_u8.hash(state);
            hash_expr(primary, state);
            hash_all(predicates, state);
        }
    }
    path.steps.len().hash(state);
    path.steps.iter().for_each(|step| hash_step(step, state));
}

/// Hashes a step. Equal steps hash alike.
pub(super) fn hash_step(step: &Step, state: &mut impl Hasher) {
    step.axis.hash(state);
    step.test.hash(state);
    hash_all(&step.predicates, state);
}
