//! Routes: linear paths for the automaton, and what to do where they accept.

use std::rc::Rc;

use super::operand::{Operand, ValueTest};
use super::residual_condition::Condition;
use super::value_condition::{Distance, ValueCondition};
use crate::query::ast::{Expr, LinearStep, NameTest};
use crate::vocabulary::Name;

/// A linear path for the automaton and what to do where it accepts.
#[derive(Clone, Debug)]
pub struct Route {
    /// The path, from the document node.
    pub path: Vec<LinearStep>,
    /// The way to decide the query there.
    pub action: Action,
}

/// A way to decide a query where its path accepts.
#[derive(Clone, Debug)]
pub enum Action {
    /// The query matches.
    Accept,
    /// The query matches if this condition on the structure below holds at the accepting element.
    Twig(Expr),
    /// The query matches if the key and the verification hold.
    Trigger {
        /// A value to look up before anything else.
        key: ValueCondition,
        /// The rest that then remains to be checked.
        verify: Verify,
    },
    /// The query matches if one of these holds.
    Access {
        /// The values that are looked up, and the rest that then remains to be verified.
        entries: Vec<Access>,
        /// The whole query has to be evaluated besides, once a message.
        whole: bool,
    },
    /// Evaluate the whole expression on each message, whatever its names (the path is empty).
    Always,
}

/// A value that is looked up at an element where a path accepts, and the rest that then remains to be verified.
#[derive(Clone, Debug)]
pub struct Access {
    /// The value that leads to the query; `None`: each element does.
    pub test: Option<ValueTest>,
    /// The rest, as a condition on the element; `None`: nothing.
    pub residual: Option<Rc<Condition>>,
}

impl Route {
    /// Returns whether the whole query is evaluated, at least on some messages.
    pub fn evaluates_whole(&self) -> bool {
        match &self.action {
            Action::Always => true,
            Action::Trigger { verify, .. } => verify.whole,
            Action::Access { whole, .. } => *whole,
            Action::Accept | Action::Twig(_) => false,
        }
    }

    /// Makes the route one that only narrows down the messages on which the whole query is evaluated.
    pub fn verify_whole(&mut self) {
        match &mut self.action {
            Action::Always => {}
            Action::Trigger { verify, .. } => verify.whole = true,
            Action::Access { whole, .. } => *whole = true,
            Action::Accept | Action::Twig(_) => {
                let entries = vec![Access { test: None, residual: None }];
                self.action = Action::Access { entries, whole: true };
            }
        }
    }
}

/// The rest to be checked at a trigger: all of these. By default nothing: path and key are the query.
#[derive(Clone, Debug, Default)]
pub struct Verify {
    /// Further keys.
    pub also: Vec<ValueCondition>,
    /// Conditions on the structure below the element at a known distance.
    pub structures: Vec<(Distance, Expr)>,
    /// The whole query, evaluated once a message.
    pub whole: bool,
}

/// Knowledge of which values are rare, as far as population and messages tell: what many queries ask for, many messages are
/// expected to have, until messages show more.
pub trait Frequencies {
    /// Returns in what part of all messages an operand is expected to equal a text.
    fn equality(&self, operand: &Operand, text: &str) -> f32;

    /// Returns how often a test of an element of a name is expected to hold, from 0 to 1; `assumed` is what is expected as far
    /// as no message tells otherwise.
    fn expected(&self, element: NameTest, test: &ValueTest, assumed: f32) -> f32;

    /// Returns how many different bounds the values of an attribute are looked up among.
    fn bounds(&self, name: Name) -> usize;
}
