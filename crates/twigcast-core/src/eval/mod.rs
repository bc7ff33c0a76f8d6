//! The full language on one document: an XPath 1.0 evaluator over the flat tree.
//!
//! It decides what the shared structures leave open, counts and lists selected nodes, and computes the bindings and
//! conditions of For-Where-Return queries. Three ideas keep it fast and bounded:
//!
//! - **Ask only what is needed.** A Boolean question never builds a node-set: a path exists as soon as one node is
//!   reached, a comparison with a constant holds at the first node that satisfies it (`path.rs`, `compare.rs`).
//! - **Node-sets are sets.** A step over many context nodes visits each result once: descendants of nested nodes are
//!   merged ranges, `following` and `preceding` are one range, ancestors stop where an earlier walk has been
//!   (`axes.rs`, `steps.rs`). So the work per step is linear in the document whatever the nesting of the context nodes.
//! - **Work is counted.** Every node looked at costs one visit; over the budget, evaluation ends with
//!   [`EvalError::BudgetExceeded`] instead of taking minutes on one message.
//!
//! Recursion follows the query (which registration limits), never the document.
//!
//! ```
//! use twigcast_core::document::{Document, Message};
//! use twigcast_core::eval::{Context, Evaluator};
//! use twigcast_core::limits::Limits;
//! use twigcast_core::query::{Dialect, ParseOptions, Query, parse};
//! use twigcast_core::scan::{ScanOptions, Scanner};
//! use twigcast_core::vocabulary::Vocabulary;
//!
//! let (limits, mut vocabulary) = (Limits::default(), Vocabulary::new());
//! let namespaces = [("p", "urn:example")];
//! let options = ParseOptions::new(&namespaces, Dialect::XPath, &limits);
//! let Ok(Query::XPath(expr)) = parse("count(//b) + 1", &options, &mut vocabulary) else { unreachable!() };
//! let (source, mut document) = (b"<a><b/><b/></a>", Document::default());
//! Scanner::new().scan(source, &vocabulary, &limits, ScanOptions::ALL, &mut document).expect("well-formed");
//! let evaluator = Evaluator::new(Message { source, document: &document }, &vocabulary, &[]);
//! assert_eq!(evaluator.number(&expr, Context::DOCUMENT), Ok(3.0));
//! ```

mod axes;
mod axis_summaries;
mod bits;
mod cache;
mod cached;
mod compare;
mod counts;
mod evaluator;
mod functions;
mod grams;
mod hours;
mod index;
mod joins;
mod kept_values;
mod memory;
mod node;
mod path;
mod places;
mod plain_paths;
mod position_pattern;
mod predicates;
mod search;
mod steps;
mod summaries;
mod sums;
mod tables;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod texts;
mod typed;
mod value;
mod words;

use std::borrow::Cow;

use crate::document::NodeId;
use crate::query::ast::{ArithmeticOp, Axis, Expr, NodeTest, Step};
use crate::query::functions::ExprType;
use crate::util::number;

pub use evaluator::Evaluator;
use evaluator::OPERATION_VISITS;
pub use node::NodeRef;
pub use places::RegionDistance;
pub use value::{Context, EvalError, Value};

use value::{BarePath, Halt, bare, was_stopped};

impl<'a> Evaluator<'a> {
    /// Returns the value of an expression.
    pub fn value(&self, expr: &'a Expr, context: Context) -> Result<Value<'a>, EvalError> {
        match expr {
            Expr::Or(_) | Expr::And(_) | Expr::Compare { .. } => Ok(Value::Boolean(self.boolean(expr, context)?)),
            Expr::Arithmetic { op, .. } if op.is_of_temporals() => self.typed_result(expr, context),
            Expr::Typed(_) => self.typed_result(expr, context),
            Expr::Arithmetic { .. } | Expr::Negate(_) | Expr::Number(_) => {
                Ok(Value::Number(self.number(expr, context)?))
            }
            Expr::Literal(text) => Ok(Value::String(Cow::Borrowed(text))),
            Expr::Pattern(pattern) => Ok(Value::String(Cow::Borrowed(pattern.text()))),
            Expr::Selection(selection) => Ok(Value::String(Cow::Borrowed(selection.text()))),
            Expr::Region(region) => Ok(Value::String(Cow::Borrowed(region.text()))),
            Expr::Union(_) | Expr::Map { .. } => Ok(Value::Nodes(self.nodes(expr, context)?)),
            Expr::Path(path) => match bare(path) {
                Some(BarePath::Variable(variable)) => Ok(self.variables[variable].clone()),
                Some(BarePath::Expression(primary)) => self.value(primary, context),
                None => Ok(Value::Nodes(self.nodes(expr, context)?)),
            },
            Expr::Call { function, arguments } => self.call(*function, arguments, context),
        }
    }

    /// Returns `boolean()` of an expression: what decides whether a query matches.
    pub fn boolean(&self, expr: &'a Expr, context: Context) -> Result<bool, EvalError> {
        match expr {
            Expr::Or(operands) => self.any(operands, context),
            Expr::And(operands) => {
                for operand in operands {
                    if !self.boolean(operand, context)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expr::Compare { op, left, right } => self.compare(*op, left, right, context),
            Expr::Union(operands) => self.any(operands, context),
            Expr::Map { nodes, value } => self.truth_of_map(nodes, value, context),
            Expr::Path(path) => match bare(path) {
                Some(BarePath::Variable(variable)) => Ok(self.truth(&self.variables[variable])),
                Some(BarePath::Expression(primary)) => self.boolean(primary, context),
                None if self.may_select_values(path, context) => Ok(self.truth_of_items(&self.nodes(expr, context)?)),
                None => self.path_exists(path, context),
            },
            Expr::Call { function, arguments } => self.call_boolean(*function, arguments, context),
            Expr::Literal(text) => Ok(!text.is_empty()),
            Expr::Pattern(pattern) => Ok(!pattern.text().is_empty()),
            Expr::Selection(selection) => Ok(!selection.text().is_empty()),
            Expr::Region(_) => Ok(true),
            Expr::Typed(_) => Ok(self.truth(&self.typed_result(expr, context)?)),
            Expr::Arithmetic { op, .. } if op.is_of_temporals() => Ok(self.truth(&self.typed_result(expr, context)?)),
            Expr::Arithmetic { .. } | Expr::Negate(_) | Expr::Number(_) => {
                Ok(number::is_true(self.number(expr, context)?))
            }
        }
    }

    fn any(&self, operands: &'a [Expr], context: Context) -> Result<bool, EvalError> {
        for operand in operands {
            if self.boolean(operand, context)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns `boolean()` of a condition that is asked of one node after the other: what it says of other parts of the
    /// message than the node's is found once.
    pub fn condition(&self, expr: &'a Expr, node: NodeRef) -> Result<bool, EvalError> {
        let context = Context::at(node);
        self.within_predicate(|| match self.common_truth(expr, context)? {
            Some(truth) => Ok(truth),
            None => self.boolean(expr, context),
        })
    }

    /// Returns the value of an expression that is asked of one node after the other.
    pub fn value_at(&self, expr: &'a Expr, node: NodeRef) -> Result<Value<'a>, EvalError> {
        self.within_predicate(|| self.value(expr, Context::at(node)))
    }

    /// Returns `string()` of an expression that is asked of one node after the other.
    pub fn string_at(&self, expr: &'a Expr, node: NodeRef) -> Result<Cow<'a, str>, EvalError> {
        self.within_predicate(|| self.string(expr, Context::at(node)))
    }

    /// Returns `number()` of an expression that is asked of one node after the other.
    pub fn number_at(&self, expr: &'a Expr, node: NodeRef) -> Result<f64, EvalError> {
        self.within_predicate(|| self.number(expr, Context::at(node)))
    }

    /// Evaluates something as in a predicate.
    pub(super) fn within_predicate<T>(&self, evaluate: impl FnOnce() -> Result<T, EvalError>) -> Result<T, EvalError> {
        let nesting = self.nesting.replace(self.nesting.get() + 1);
        let value = evaluate();
        self.nesting.set(nesting);
        value
    }

    /// Returns `number()` of an expression.
    pub fn number(&self, expr: &'a Expr, context: Context) -> Result<f64, EvalError> {
        match expr {
            Expr::Number(number) => Ok(*number),
            Expr::Negate(operand) => Ok(-self.number(operand, context)?),
            Expr::Arithmetic { op, .. } if op.is_of_temporals() => self.number_of(self.typed_result(expr, context)?),
            Expr::Typed(_) => self.number_of(self.typed_result(expr, context)?),
            Expr::Arithmetic { op, left, right } => {
                self.charge(OPERATION_VISITS)?;
                let (left, right) = (self.number(left, context)?, self.number(right, context)?);
                Ok(match op {
                    ArithmeticOp::Add => left + right,
                    ArithmeticOp::Subtract => left - right,
                    ArithmeticOp::Multiply => left * right,
                    ArithmeticOp::Divide => left / right,
                    // Like IEEE 754 remainder, but truncating: exactly what `%` does on floats.
                    ArithmeticOp::Modulo => left % right,
                    // Those of dates and durations are above.
                    _ => f64::NAN,
                })
            }
            Expr::Or(_) | Expr::And(_) | Expr::Compare { .. } => Ok(f64::from(u8::from(self.boolean(expr, context)?))),
            Expr::Literal(text) => Ok(number::parse(text)),
            Expr::Pattern(pattern) => Ok(number::parse(pattern.text())),
            Expr::Selection(selection) => Ok(number::parse(selection.text())),
            Expr::Region(_) => Ok(f64::NAN),
            Expr::Path(path) if bare(path).is_none() => {
                self.path_first(path, context)?.map_or(Ok(f64::NAN), |node| self.number_value(node))
            }
            Expr::Call { .. } => match self.call_number(expr, context)? {
                Some(number) => Ok(number),
                None => self.number_of(self.value(expr, context)?),
            },
            Expr::Path(_) | Expr::Union(_) | Expr::Map { .. } => self.number_of(self.value(expr, context)?),
        }
    }

    /// Returns `number()` of a value.
    fn number_of(&self, value: Value<'a>) -> Result<f64, EvalError> {
        match value {
            Value::Number(number) => Ok(number),
            Value::Boolean(truth) => Ok(f64::from(u8::from(truth))),
            Value::String(text) => Ok(number::parse(&text)),
            Value::Nodes(nodes) => nodes.first().map_or(Ok(f64::NAN), |&node| self.number_value(node)),
            Value::Temporal(_) => Ok(f64::NAN),
        }
    }

    /// Returns `string()` of an expression.
    pub fn string(&self, expr: &'a Expr, context: Context) -> Result<Cow<'a, str>, EvalError> {
        if let Expr::Path(path) = expr
            && bare(path).is_none()
        {
            return self.path_first(path, context)?.map_or(Ok(Cow::Borrowed("")), |node| self.string_value(node));
        }
        match self.value(expr, context)? {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number::format(number)),
            Value::Boolean(truth) => Ok(Cow::Borrowed(if truth { "true" } else { "false" })),
            Value::Nodes(nodes) => nodes.first().map_or(Ok(Cow::Borrowed("")), |&node| self.string_value(node)),
            Value::Temporal(temporal) => Ok(Cow::Owned(temporal.to_string())),
        }
    }

    /// Returns the nodes that an expression selects, distinct and in document order.
    pub fn nodes(&self, expr: &'a Expr, context: Context) -> Result<Vec<NodeRef>, EvalError> {
        match expr {
            Expr::Path(path) => self.path_nodes(path, context),
            Expr::Union(operands) => {
                let mut nodes = Vec::new();
                for operand in operands {
                    nodes.append(&mut self.nodes(operand, context)?);
                }
                self.sort_unique(&mut nodes)?;
                Ok(nodes)
            }
            Expr::Map { nodes, value } => self.mapped(nodes, value, context),
            Expr::Call { .. } => match self.value(expr, context)? {
                Value::Nodes(nodes) => Ok(nodes),
                _ => Err(EvalError::NotANodeSet),
            },
            _ => Err(EvalError::NotANodeSet),
        }
    }

    /// Returns how many nodes an expression selects.
    pub fn count(&self, expr: &'a Expr, context: Context) -> Result<usize, EvalError> {
        match expr {
            Expr::Path(path) => self.path_count(path, context, usize::MAX),
            Expr::Map { nodes, value } if self.has_one_value(value) => self.count(nodes, context),
            _ => Ok(self.nodes(expr, context)?.len()),
        }
    }

    /// Returns `true` if a relative path selects a node from a context node.
    pub fn exists(&self, steps: &'a [Step], from: NodeRef) -> Result<bool, EvalError> {
        self.steps_reach(steps, from, &mut |_| Err(Halt::Stopped))
    }

    /// Returns `true` if `child::test[predicates]`, taken from the parent of `node`, selects `node`.
    ///
    /// Positions count among the parent's children. The step's axis is not looked at.
    pub fn predicates_hold(&self, step: &'a Step, node: NodeId) -> Result<bool, EvalError> {
        self.selects_as_child(step, node)
    }

    /// Does an expression hold as a predicate: is a number the context position, is anything else true? For conditions
    /// that are asked of one node after the other, since what does not depend on the node is remembered.
    pub fn holds(&self, predicate: &'a Expr, context: Context) -> Result<bool, EvalError> {
        self.predicate(predicate, context)
    }

    /// Returns `true` if the value of an expression is a number.
    pub fn is_number(&self, expr: &Expr) -> bool {
        self.type_of(expr) == ExprType::Number
    }

    /// Returns the nodes on an axis that pass a node test, in axis order: what the predicates of a step choose from.
    pub fn candidates(&self, from: NodeRef, axis: Axis, test: &NodeTest) -> Result<Vec<NodeRef>, EvalError> {
        let mut nodes = Vec::new();
        was_stopped(self.walk(from, axis, test, &mut |node| {
            nodes.push(node);
            Ok(())
        }))?;
        Ok(nodes)
    }

    /// Keeps the nodes of a list that pass a predicate, positions counting in the list's order.
    pub fn keep(&self, predicate: &'a Expr, nodes: &mut Vec<NodeRef>) -> Result<(), EvalError> {
        self.filter(std::slice::from_ref(predicate), nodes)
    }

    /// Returns the nodes that one step selects from context nodes (distinct, in document order): the same kind of list.
    pub fn step(&self, contexts: &[NodeRef], step: &'a Step) -> Result<Vec<NodeRef>, EvalError> {
        self.step_nodes(contexts, step)
    }
}
