//! The dependence of predicates on positions, decided from their form, and the position from which on they fail.

use crate::query::ast::{Axis, CompareOp, Expr, Function, PathStart};
use crate::query::functions::{Dependence, ExprType};
use crate::query::position::{predicate_dependence, uses_position};

use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::value::{Context, EvalError, Value};

/// Returns what a list of predicates depends on.
pub(super) fn dependence_of_all(predicates: &[Expr]) -> Dependence {
    predicates.iter().map(predicate_dependence).max().unwrap_or(Dependence::Node)
}

/// Returns the last position at which a predicate can hold, where its form tells.
pub(super) fn position_limit(predicate: &Expr) -> Option<f64> {
    match predicate {
        Expr::Number(number) => Some(*number),
        Expr::Compare { op, left, right } => match (op, &**left, &**right) {
            (CompareOp::Equal, Expr::Number(k), position) | (CompareOp::Equal, position, Expr::Number(k)) => {
                is_position(position).then_some(*k)
            }
            (CompareOp::Less | CompareOp::LessOrEqual, position, Expr::Number(k))
            | (CompareOp::Greater | CompareOp::GreaterOrEqual, Expr::Number(k), position)
                if is_position(position) =>
            {
                let strict = matches!(op, CompareOp::Less | CompareOp::Greater);
                Some(if strict { k.ceil() - 1.0 } else { *k })
            }
            _ => None,
        },
        Expr::And(operands) => operands.iter().filter_map(position_limit).reduce(f64::min),
        Expr::Or(operands) => {
            // An operand of a disjunction is a condition: a number would not be compared with the position.
            let limit = |operand: &Expr| position_limit(operand).filter(|_| !matches!(operand, Expr::Number(_)));
            operands.iter().map(limit).try_fold(f64::NEG_INFINITY, |most, limit| Some(most.max(limit?)))
        }
        _ => None,
    }
}

/// Returns `true` if the predicates choose the last node and nothing else.
pub(super) fn is_last(predicates: &[Expr]) -> bool {
    let is_call = |expr: &Expr| matches!(expr, Expr::Call { function: Function::Last, .. });
    match predicates {
        [Expr::Compare { op: CompareOp::Equal, left, right }] => {
            is_position(left) && is_call(right) || is_call(left) && is_position(right)
        }
        [predicate] => is_call(predicate),
        _ => false,
    }
}

/// Returns `true` if a predicate chooses the first node and nothing else.
pub(super) fn is_first(predicate: &Expr) -> bool {
    match predicate {
        Expr::Number(number) => *number == 1.0,
        Expr::Compare { op: CompareOp::Equal, left, right } => {
            let is_one = |expr: &Expr| matches!(expr, Expr::Number(number) if *number == 1.0);
            is_position(left) && is_one(right) || is_one(left) && is_position(right)
        }
        _ => false,
    }
}

fn is_position(expr: &Expr) -> bool {
    matches!(expr, Expr::Call { function: Function::Position, .. })
}

/// Returns whether the truth of a predicate can cost more than a look at the node, its attributes or its children.
fn is_costly(predicate: &Expr) -> bool {
    match predicate {
        Expr::Path(path) => match (&path.start, path.steps.as_slice()) {
            (PathStart::Filter { .. }, _) | (_, [_, _, ..]) => true,
            (_, []) => false,
            (_, [step]) => {
                !matches!(step.axis, Axis::Child | Axis::Attribute | Axis::SelfAxis | Axis::Parent)
                    || step.predicates.iter().any(is_costly)
            }
        },
        other => other.operands().any(is_costly),
    }
}

impl<'a> Evaluator<'a> {
    /// Returns the type of an expression; that of a variable is the type of its value.
    pub(super) fn type_of(&self, expr: &Expr) -> ExprType {
        expr.type_by(&|variable| match self.variables[variable.index()] {
            Value::Boolean(_) => ExprType::Boolean,
            Value::Number(_) => ExprType::Number,
            Value::String(_) => ExprType::String,
            Value::Nodes(_) => ExprType::NodeSet,
            Value::Temporal(temporal) => ExprType::Temporal(temporal.kind()),
        })
    }

    /// Returns `true` if a predicate holds.
    pub(super) fn predicate(&self, predicate: &'a Expr, context: Context) -> Result<bool, EvalError> {
        self.charge(1)?;
        let nesting = self.nesting.get();
        self.nesting.set(nesting + 1);
        let holds = if self.type_of(predicate) == ExprType::Number {
            self.number(predicate, context).map(|number| number == f64::from(context.position))
        } else if self.is_expensive() && is_costly(predicate) && !uses_position(predicate) {
            match self.common_truth(predicate, context) {
                Ok(None) if nesting > 0 => self.remembered(predicate, context, context.node),
                Ok(None) => self.boolean(predicate, context),
                Ok(Some(holds)) => Ok(holds),
                Err(error) => Err(error),
            }
        } else {
            self.boolean(predicate, context)
        };
        self.nesting.set(nesting);
        holds
    }

    /// Decides a predicate inside another one. It is asked of the same node once for each node of the outer one; so that
    /// nested brackets do not multiply, it is decided once.
    ///
    /// `anchor` is the node that it is a predicate of.
    pub(super) fn remembered(&self, predicate: &'a Expr, context: Context, anchor: NodeRef) -> Result<bool, EvalError> {
        let cached = self.cache.borrow().predicate(predicate, anchor);
        if let Some(holds) = cached {
            return Ok(holds);
        }
        let holds = self.boolean(predicate, context)?;
        self.cache.borrow_mut().keep_predicate(predicate, anchor, holds);
        Ok(holds)
    }

    /// Returns `true` if predicates that depend on the node alone all hold.
    pub(super) fn all_hold(&self, predicates: &'a [Expr], node: NodeRef) -> Result<bool, EvalError> {
        for predicate in predicates {
            if !self.predicate(predicate, Context::at(node))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
