//! What a predicate depends on, decided from its form: whether positions matter, and from which position on it fails.

use crate::query::ast::{Axis, CompareOp, Expr, Function, PathStart};
use crate::query::functions::ExprType;

use super::{BarePath, Context, EvalError, Evaluator, NodeRef, Value, bare};

/// What the truth of a predicate depends on besides the node. Later variants include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dependence {
    /// Nothing.
    Node,
    /// The context position.
    Position,
    /// The context size, so that all candidates must be known first.
    Size,
}

/// What a list of predicates depends on.
pub(super) fn dependence_of_all(predicates: &[Expr]) -> Dependence {
    predicates.iter().map(predicate_dependence).max().unwrap_or(Dependence::Node)
}

/// What a predicate depends on. A number stands for a test of the position.
pub(super) fn predicate_dependence(predicate: &Expr) -> Dependence {
    let own = dependence(predicate);
    match predicate {
        Expr::Number(_) | Expr::Arithmetic { .. } | Expr::Negate(_) => own.max(Dependence::Position),
        Expr::Call { function, .. } if function_type(*function) == ExprType::Number => own.max(Dependence::Position),
        // A variable or an expression in parentheses may be a number.
        Expr::Path(path) if bare(path).is_some() => own.max(Dependence::Position),
        _ => own,
    }
}

fn dependence(expr: &Expr) -> Dependence {
    match expr {
        Expr::Number(_) | Expr::Literal(_) => Dependence::Node,
        Expr::Negate(operand) => dependence(operand),
        Expr::Compare { left, right, .. } | Expr::Arithmetic { left, right, .. } => {
            dependence(left).max(dependence(right))
        }
        Expr::Or(operands) | Expr::And(operands) | Expr::Union(operands) => dependence_of_any(operands),
        Expr::Path(path) => match &path.start {
            // Steps and predicates have contexts of their own, the primary expression has this one.
            PathStart::Filter { primary, .. } => dependence(primary),
            PathStart::Root | PathStart::Context | PathStart::Variable(_) => Dependence::Node,
        },
        Expr::Call { function: Function::Position, .. } => Dependence::Position,
        Expr::Call { function: Function::Last, .. } => Dependence::Size,
        Expr::Call { arguments, .. } => dependence_of_any(arguments),
    }
}

fn dependence_of_any(operands: &[Expr]) -> Dependence {
    operands.iter().map(dependence).max().unwrap_or(Dependence::Node)
}

/// The last position at which a predicate can hold, where its form tells.
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
        _ => None,
    }
}

/// Do predicates choose the last node, and nothing else?
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

fn is_position(expr: &Expr) -> bool {
    matches!(expr, Expr::Call { function: Function::Position, .. })
}

/// The type that a function returns.
pub(super) fn function_type(function: Function) -> ExprType {
    use Function as F;
    match function {
        F::Last | F::Position | F::Count | F::StringLength | F::Number | F::Sum | F::Floor | F::Ceiling | F::Round => {
            ExprType::Number
        }
        F::Id => ExprType::NodeSet,
        F::LocalName
        | F::NamespaceUri
        | F::Name
        | F::String
        | F::Concat
        | F::SubstringBefore
        | F::SubstringAfter
        | F::Substring
        | F::NormalizeSpace
        | F::Translate => ExprType::String,
        F::StartsWith | F::Contains | F::Boolean | F::Not | F::True | F::False | F::Lang => ExprType::Boolean,
    }
}

/// Can the truth of a predicate cost more than a look at the node, its attributes or its children?
fn is_costly(predicate: &Expr) -> bool {
    match predicate {
        Expr::Or(operands) | Expr::And(operands) | Expr::Union(operands) => operands.iter().any(is_costly),
        Expr::Compare { left, right, .. } | Expr::Arithmetic { left, right, .. } => is_costly(left) || is_costly(right),
        Expr::Negate(operand) => is_costly(operand),
        Expr::Number(_) | Expr::Literal(_) => false,
        Expr::Path(path) => match (&path.start, path.steps.as_slice()) {
            (PathStart::Filter { .. }, _) | (_, [_, _, ..]) => true,
            (_, []) => false,
            (_, [step]) => {
                !matches!(step.axis, Axis::Child | Axis::Attribute | Axis::SelfAxis | Axis::Parent)
                    || step.predicates.iter().any(is_costly)
            }
        },
        Expr::Call { arguments, .. } => arguments.iter().any(is_costly),
    }
}

impl<'a> Evaluator<'a> {
    /// The type of an expression; that of a variable is the type of its value.
    pub(super) fn type_of(&self, expr: &Expr) -> ExprType {
        match expr {
            Expr::Or(_) | Expr::And(_) | Expr::Compare { .. } => ExprType::Boolean,
            Expr::Arithmetic { .. } | Expr::Negate(_) | Expr::Number(_) => ExprType::Number,
            Expr::Literal(_) => ExprType::String,
            Expr::Union(_) => ExprType::NodeSet,
            Expr::Call { function, .. } => function_type(*function),
            Expr::Path(path) => match bare(path) {
                None => ExprType::NodeSet,
                Some(BarePath::Expression(primary)) => self.type_of(primary),
                Some(BarePath::Variable(variable)) => match self.variables[variable] {
                    Value::Boolean(_) => ExprType::Boolean,
                    Value::Number(_) => ExprType::Number,
                    Value::String(_) => ExprType::String,
                    Value::Nodes(_) => ExprType::NodeSet,
                },
            },
        }
    }

    /// Does a predicate hold?
    pub(super) fn predicate(&self, predicate: &'a Expr, context: Context) -> Result<bool, EvalError> {
        let nesting = self.nesting.get();
        self.nesting.set(nesting + 1);
        let holds = if self.type_of(predicate) == ExprType::Number {
            self.number(predicate, context).map(|number| number == f64::from(context.position))
        } else if self.is_expensive() && is_costly(predicate) && dependence(predicate) == Dependence::Node {
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

    /// A predicate inside another one is asked about the same node once for each node of the outer one; so that nested
    /// brackets do not multiply, it is decided once.
    ///
    /// `anchor`: the node whose it is.
    pub(super) fn remembered(&self, predicate: &'a Expr, context: Context, anchor: NodeRef) -> Result<bool, EvalError> {
        let cached = self.cache.borrow().predicate(predicate, anchor);
        if let Some(holds) = cached {
            return Ok(holds);
        }
        let holds = self.boolean(predicate, context)?;
        self.cache.borrow_mut().keep_predicate(predicate, anchor, holds);
        Ok(holds)
    }

    /// Do predicates that depend on the node alone all hold?
    pub(super) fn all_hold(&self, predicates: &'a [Expr], node: NodeRef) -> Result<bool, EvalError> {
        for predicate in predicates {
            if !self.predicate(predicate, Context::at(node))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
