//! Values, contexts and errors: what the parts of the evaluator pass to each other.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::node::NodeRef;
use crate::query::ast::{Expr, Path, PathStart};
use crate::util::places::Geometry;
use crate::util::temporal::Temporal;
use crate::util::words::{PlacedWords, StemLanguage, WordOptions};

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A truth value.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A string.
    String(Cow<'a, str>),
    /// A node-set, distinct and in document order. No value of any type is an empty one.
    Nodes(Vec<NodeRef>),
    /// A date, a time or a duration.
    Temporal(Temporal),
}

/// A value that stands among nodes in a sequence.
#[derive(Clone, Debug)]
pub(super) enum KeptValue {
    Text(Rc<str>),
    Number(f64),
}

/// The values of one message, by index.
pub(crate) type KeptValues = Rc<RefCell<Vec<KeptValue>>>;

/// The words of the texts of a message that selections were verified on.
pub(super) type WordsOfTexts = RefCell<FxHashMap<(NodeRef, WordOptions, Option<StemLanguage>), Rc<PlacedWords>>>;

/// The places of the nodes of a message that were asked for.
pub(super) type PlacesOfNodes = RefCell<FxHashMap<NodeRef, Rc<[Rc<Geometry>]>>>;

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
    /// The visits that a message may cost for all queries were used up before the query was decided.
    MessageBudgetExceeded {
        /// The visits of the query in its last turn, which were not enough; 0 if it had none.
        visits: u64,
        /// The limit on the visits of all queries.
        message_visits_max: u64,
    },
    /// The query overran on earlier messages and was not evaluated on this one.
    Throttled {
        /// On how many messages it overran.
        overruns: u32,
        /// After how many further messages it is tried again.
        messages: u64,
    },
    /// Something that is no node-set stands where only a node-set can.
    NotANodeSet,
}

impl EvalError {
    /// Returns `true` if more visits might have brought an answer.
    pub fn is_overrun(&self) -> bool {
        matches!(self, Self::BudgetExceeded { .. } | Self::MessageBudgetExceeded { .. })
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BudgetExceeded { visits_max } => {
                write!(f, "the query is too expensive on this message: it looked at more than {visits_max} nodes")
            }
            Self::MessageBudgetExceeded { visits, message_visits_max } => {
                write!(
                    f,
                    "the query is too expensive on this message: {visits} visits gave no answer, and the \
                     {message_visits_max} for all queries together were used up (message_visits_max, group_visits_max); \
                     a condition on a value, such as [@kind = 'x'], beside the expensive one keeps it from most messages"
                )
            }
            Self::Throttled { overruns, messages } => {
                write!(
                    f,
                    "the query is set aside (throttled), since it was too expensive on {overruns} messages; it is tried \
                     again after {messages} more, or at once when it is replaced by a cheaper one"
                )
            }
            Self::NotANodeSet => write!(f, "a value that is no node-set stands where a node-set is needed"),
        }
    }
}

impl std::error::Error for EvalError {}

/// The reason for which a walk over nodes ended before its end.
pub(super) enum Halt {
    /// The caller needs no further node.
    Stopped,
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

/// Returns whether a walk was ended by its caller.
pub(super) fn was_stopped(walk: Result<(), Halt>) -> Result<bool, EvalError> {
    match walk {
        Ok(()) | Err(Halt::StepDone) => Ok(false),
        Err(Halt::Stopped) => Ok(true),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// A function that is called for each node of a walk.
pub(super) type Visit<'v> = &'v mut dyn FnMut(NodeRef) -> Result<(), Halt>;

/// A path without steps or predicates: another way to write a variable or an expression of any type.
pub(super) enum BarePath<'e> {
    Variable(usize),
    Expression(&'e Expr),
}

/// Returns the variable or expression that a path merely wraps; `None` if it has steps or predicates.
pub(super) fn bare(path: &Path) -> Option<BarePath<'_>> {
    if !path.steps.is_empty() {
        return None;
    }
    match &path.start {
        PathStart::Variable(id) => Some(BarePath::Variable(id.index())),
        PathStart::Filter { primary, predicates } if predicates.is_empty() => Some(BarePath::Expression(primary)),
        _ => None,
    }
}
