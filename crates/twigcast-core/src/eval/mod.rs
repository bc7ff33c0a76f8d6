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
//! use twigcast_core::scan::{RecordOptions, Scanner};
//! use twigcast_core::vocabulary::Vocabulary;
//!
//! let (limits, mut vocabulary) = (Limits::default(), Vocabulary::new());
//! let namespaces = [("p", "urn:example")];
//! let options = ParseOptions { namespaces: &namespaces, dialect: Dialect::XPath, limits: &limits };
//! let Ok(Query::XPath(expr)) = parse("count(//b) + 1", &options, &mut vocabulary) else { unreachable!() };
//! let (source, mut document) = (b"<a><b/><b/></a>", Document::default());
//! Scanner::new().scan(source, &vocabulary, &limits, RecordOptions::ALL, &mut document).expect("well-formed");
//! let evaluator = Evaluator::new(Message { source, document: &document }, &vocabulary, &[]);
//! assert_eq!(evaluator.number(&expr, Context::DOCUMENT), Ok(3.0));
//! ```

mod axes;
mod bits;
mod cache;
mod compare;
mod counts;
mod functions;
mod grams;
mod index;
mod joins;
mod memory;
mod node;
mod path;
mod predicates;
mod steps;
mod tables;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod texts;

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;

use rustc_hash::FxHashMap;

use crate::document::{Message, NodeId};
use crate::query::ast::{ArithmeticOp, Axis, Expr, NodeTest, Path, PathStart, Step};
use crate::query::functions::ExprType;
use crate::util::number;
use crate::vocabulary::Vocabulary;

pub use node::NodeRef;

use cache::EvalCache;
use grams::Grams;
use texts::MessageText;

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A truth value.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A string.
    String(Cow<'a, str>),
    /// A node-set, distinct and in document order.
    Nodes(Vec<NodeRef>),
}

/// The context of an evaluation: node, position and size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Context {
    /// The context node.
    pub node: NodeRef,
    /// The context position, from 1.
    pub position: u32,
    /// The context size.
    pub size: u32,
}

impl Context {
    /// The document node, alone: where a query starts.
    pub const DOCUMENT: Self = Self::at(NodeRef::Node(0));

    /// Returns the context of a node alone.
    pub const fn at(node: NodeRef) -> Self {
        Self { node, position: 1, size: 1 }
    }
}

/// Evaluation ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// The query looked at more nodes of this message than it may.
    BudgetExceeded {
        /// The limit on the visits.
        visits_max: u64,
    },
    /// Something that is no node-set stands where only a node-set can.
    NotANodeSet,
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BudgetExceeded { visits_max } => {
                write!(f, "the query is too expensive on this message: it looked at more than {visits_max} nodes")
            }
            Self::NotANodeSet => write!(f, "a value that is no node-set stands where a node-set is needed"),
        }
    }
}

impl std::error::Error for EvalError {}

/// Why a walk over nodes ended before its end.
enum Halt {
    /// The caller has what it wanted.
    Found,
    /// No further node of this step can pass (a position is used up). Never leaves the step.
    StepDone,
    /// Evaluation failed.
    Failed(EvalError),
}

impl From<EvalError> for Halt {
    fn from(error: EvalError) -> Self {
        Self::Failed(error)
    }
}

/// Whether a walk was ended by its caller.
fn was_stopped(walk: Result<(), Halt>) -> Result<bool, EvalError> {
    match walk {
        Ok(()) | Err(Halt::StepDone) => Ok(false),
        Err(Halt::Found) => Ok(true),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// No query pays for visits.
const NOBODY: u32 = u32::MAX;

/// Visits of one query that are worth remembering while others are at work.
const SPENT_MIN: u64 = 256;

/// Visits after which a query counts as expensive: from then on it pays to remember what it asks repeatedly.
const EXPENSIVE_MIN: u64 = 1_000;

/// What is called for each node of a walk.
type Visit<'v> = &'v mut dyn FnMut(NodeRef) -> Result<(), Halt>;

/// Evaluates expressions on one message.
///
/// The queries must outlive it: what does not change from node to node is remembered by the address of its expression.
pub struct Evaluator<'a> {
    message: Message<'a>,
    vocabulary: &'a Vocabulary,
    variables: &'a [Value<'a>],
    visits: Cell<u64>,
    visits_max: Cell<u64>,
    /// Whose visits are being counted, and what others that were expensive have had.
    payer: Cell<u32>,
    spent: RefCell<FxHashMap<u32, u64>>,
    /// How many predicates are being evaluated, one inside the other.
    nesting: Cell<u32>,
    cache: RefCell<EvalCache>,
    /// All text of the message, once it was asked for; nothing in it if it would take too much memory.
    texts: OnceCell<Option<MessageText>>,
    /// Bytes that were searched for texts, and the pieces of the text of the message, once that was often.
    searched: Cell<u64>,
    grams: OnceCell<Option<Grams>>,
    /// Whether there is an `xml:lang`, once that was asked often.
    has_languages: OnceCell<bool>,
}

impl<'a> Evaluator<'a> {
    /// Creates an evaluator without a budget. `variables` holds the values of the For-Where-Return variables by number.
    pub fn new(message: Message<'a>, vocabulary: &'a Vocabulary, variables: &'a [Value<'a>]) -> Self {
        Self {
            message,
            vocabulary,
            variables,
            visits: Cell::new(0),
            visits_max: Cell::new(u64::MAX),
            payer: Cell::new(NOBODY),
            spent: RefCell::default(),
            nesting: Cell::new(0),
            cache: RefCell::new(EvalCache::new(message.document.nodes.len())),
            texts: OnceCell::new(),
            searched: Cell::new(0),
            grams: OnceCell::new(),
            has_languages: OnceCell::new(),
        }
    }

    /// Returns the evaluator with a budget: it ends with [`EvalError::BudgetExceeded`] after `visits_max` visits.
    #[must_use]
    pub fn with_budget(self, visits_max: u64) -> Self {
        self.visits_max.set(visits_max);
        self
    }

    /// Returns the message.
    pub fn message(&self) -> Message<'a> {
        self.message
    }

    /// Returns how many nodes were looked at so far.
    pub fn visits(&self) -> u64 {
        self.visits.get()
    }

    /// Starts counting visits afresh, for the next query on the same message.
    pub fn reset_visits(&self) {
        self.visits.set(0);
    }

    /// Has the query at work become expensive?
    fn is_expensive(&self) -> bool {
        self.visits.get() >= EXPENSIVE_MIN
    }

    /// Counts visits for one query from now on, on top of those that it has had on this message. So a query that is
    /// asked of many nodes has one budget for all of them.
    pub fn resume(&self, query: u32) {
        let payer = self.payer.replace(query);
        if payer == query {
            return;
        }
        let mut spent = self.spent.borrow_mut();
        if self.visits.get() >= SPENT_MIN && payer != NOBODY {
            spent.insert(payer, self.visits.get());
        }
        self.visits.set(if spent.is_empty() { 0 } else { spent.get(&query).copied().unwrap_or(0) });
    }

    /// Counts `visits` more visits.
    #[inline]
    pub(crate) fn charge(&self, visits: u64) -> Result<(), EvalError> {
        let total = self.visits.get() + visits;
        self.visits.set(total);
        let visits_max = self.visits_max.get();
        if total > visits_max {
            return Err(EvalError::BudgetExceeded { visits_max });
        }
        Ok(())
    }

    /// Returns the value of an expression.
    pub fn value(&self, expr: &'a Expr, context: Context) -> Result<Value<'a>, EvalError> {
        match expr {
            Expr::Or(_) | Expr::And(_) | Expr::Compare { .. } => Ok(Value::Boolean(self.boolean(expr, context)?)),
            Expr::Arithmetic { .. } | Expr::Negate(_) | Expr::Number(_) => {
                Ok(Value::Number(self.number(expr, context)?))
            }
            Expr::Literal(text) => Ok(Value::String(Cow::Borrowed(text))),
            Expr::Union(_) => Ok(Value::Nodes(self.nodes(expr, context)?)),
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
            Expr::Path(path) => match bare(path) {
                Some(BarePath::Variable(variable)) => Ok(truth(&self.variables[variable])),
                Some(BarePath::Expression(primary)) => self.boolean(primary, context),
                None => self.path_exists(path, context),
            },
            Expr::Call { function, arguments } => self.call_boolean(*function, arguments, context),
            Expr::Literal(text) => Ok(!text.is_empty()),
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
        self.nested(|| match self.common_truth(expr, context)? {
            Some(truth) => Ok(truth),
            None => self.boolean(expr, context),
        })
    }

    /// Returns the value of an expression that is asked of one node after the other.
    pub fn value_at(&self, expr: &'a Expr, node: NodeRef) -> Result<Value<'a>, EvalError> {
        self.nested(|| self.value(expr, Context::at(node)))
    }

    /// Returns `string()` of an expression that is asked of one node after the other.
    pub fn string_at(&self, expr: &'a Expr, node: NodeRef) -> Result<Cow<'a, str>, EvalError> {
        self.nested(|| self.string(expr, Context::at(node)))
    }

    /// Returns `number()` of an expression that is asked of one node after the other.
    pub fn number_at(&self, expr: &'a Expr, node: NodeRef) -> Result<f64, EvalError> {
        self.nested(|| self.number(expr, Context::at(node)))
    }

    /// Evaluate as in a predicate.
    fn nested<T>(&self, evaluate: impl FnOnce() -> Result<T, EvalError>) -> Result<T, EvalError> {
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
            Expr::Arithmetic { op, left, right } => {
                let (left, right) = (self.number(left, context)?, self.number(right, context)?);
                Ok(match op {
                    ArithmeticOp::Add => left + right,
                    ArithmeticOp::Subtract => left - right,
                    ArithmeticOp::Multiply => left * right,
                    ArithmeticOp::Divide => left / right,
                    // Like IEEE 754 remainder, but truncating: exactly what `%` does on floats.
                    ArithmeticOp::Modulo => left % right,
                })
            }
            Expr::Or(_) | Expr::And(_) | Expr::Compare { .. } => Ok(f64::from(u8::from(self.boolean(expr, context)?))),
            Expr::Literal(text) => Ok(number::parse(text)),
            Expr::Path(path) if bare(path).is_none() => {
                self.path_first(path, context)?.map_or(Ok(f64::NAN), |node| self.number_value(node))
            }
            Expr::Call { .. } => match self.call_number(expr, context)? {
                Some(number) => Ok(number),
                None => self.number_of(self.value(expr, context)?),
            },
            Expr::Path(_) | Expr::Union(_) => self.number_of(self.value(expr, context)?),
        }
    }

    /// `number()` of a value.
    fn number_of(&self, value: Value<'a>) -> Result<f64, EvalError> {
        match value {
            Value::Number(number) => Ok(number),
            Value::Boolean(truth) => Ok(f64::from(u8::from(truth))),
            Value::String(text) => Ok(number::parse(&text)),
            Value::Nodes(nodes) => nodes.first().map_or(Ok(f64::NAN), |&node| self.number_value(node)),
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
                self.sort_unique(&mut nodes);
                Ok(nodes)
            }
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
            _ => Ok(self.nodes(expr, context)?.len()),
        }
    }

    /// Returns `true` if a relative path selects a node from a context node.
    pub fn exists(&self, steps: &'a [Step], from: NodeRef) -> Result<bool, EvalError> {
        self.steps_reach(steps, from, &mut |_| Err(Halt::Found))
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

/// A path without steps or predicates: another way to write a variable or an expression of any type.
enum BarePath<'e> {
    Variable(usize),
    Expression(&'e Expr),
}

fn bare(path: &Path) -> Option<BarePath<'_>> {
    if !path.steps.is_empty() {
        return None;
    }
    match &path.start {
        PathStart::Variable(id) => Some(BarePath::Variable(id.index())),
        PathStart::Filter { primary, predicates } if predicates.is_empty() => Some(BarePath::Expression(primary)),
        _ => None,
    }
}

/// Returns `boolean()` of a value.
pub(super) fn truth(value: &Value<'_>) -> bool {
    match value {
        Value::Boolean(truth) => *truth,
        Value::Number(number) => number::is_true(*number),
        Value::String(text) => !text.is_empty(),
        Value::Nodes(nodes) => !nodes.is_empty(),
    }
}
