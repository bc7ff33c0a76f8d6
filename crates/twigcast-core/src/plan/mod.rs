//! How a query will run, decided from the query alone.
//!
//! Every query becomes one or more *routes*. A route is a linear path for the shared automaton plus what remains to be
//! checked when the automaton accepts it:
//! - [`Action::Accept`]: nothing; the path is the query (YFilter's case).
//! - [`Action::Twig`]: the path leads to the topmost branching step; the rest asks for structure only, so its truth
//!   depends on nothing but the shape of the subtree (see [`crate::twig`]).
//! - [`Action::Trigger`]: values decide. The path leads to an element that every match must hold (the *trigger*), where
//!   possible with a *key*, an equality that a hash look-up can test for all queries at once. That is the last element of
//!   which a value is asked: what the path says below it is structure, known of all queries at once from the shape of the
//!   subtree; what it says above is looked up or verified upwards (Diao 2005, section 5.1: selection postponed).
//! - [`Action::Always`]: no necessary path is known; the expression is evaluated on each message.
//!
//! The query matches a message when any of its routes does.

mod condition;
mod path;
mod trigger;
mod value_condition;

use crate::query::ast::{Axis, Expr, Step};

pub use crate::query::ast::LinearStep;
pub use value_condition::{ConditionValue, Constant, Distance, ValueCondition, number_key};

/// A linear path for the automaton and what to do where it accepts.
#[derive(Clone, Debug)]
pub struct Route {
    /// The path, from the document node.
    pub path: Vec<LinearStep>,
    /// What to do.
    pub action: Action,
}

/// What to do where a route's path accepts.
#[derive(Clone, Debug)]
pub enum Action {
    /// The query matches.
    Accept,
    /// The query matches if this condition on the structure below holds at the accepting element.
    Twig(Expr),
    /// The query matches if the key and the verification hold.
    Trigger {
        /// A value to look up before anything else.
        key: Option<ValueCondition>,
        /// What then remains to be checked.
        verify: Verify,
    },
    /// Evaluate the whole expression on each message, whatever its names (the path is empty).
    Always,
}

impl Route {
    /// Makes the route one that only narrows down the messages on which the whole query is evaluated.
    pub fn verify_whole(&mut self) {
        let (key, verify) = match std::mem::replace(&mut self.action, Action::Always) {
            Action::Always => return,
            Action::Trigger { key, verify } => (key, verify),
            Action::Accept | Action::Twig(_) => (None, Verify::default()),
        };
        // What was to be verified one by one is part of the whole.
        self.action = Action::Trigger { key, verify: Verify { upward: Vec::new(), whole: true, ..verify } };
    }
}

/// What remains to be checked at a trigger: all of these. By default nothing: path and key are the query.
#[derive(Clone, Debug, Default)]
pub struct Verify {
    /// Further keys.
    pub also: Vec<ValueCondition>,
    /// Conditions on the structure below the element at a known distance.
    pub shapes: Vec<(Distance, Expr)>,
    /// Some choice of ancestors for the path's steps passes these checks; one entry a step, outermost first. Empty:
    /// nothing is to be chosen.
    pub upward: Vec<StepCheck>,
    /// The whole expression, evaluated once a message.
    pub whole: bool,
}

impl Verify {
    /// Do look-ups decide all?
    pub fn is_exact(&self) -> bool {
        self.upward.is_empty() && !self.whole
    }
}

/// What an element must pass to stand for one step of the path.
#[derive(Clone, Debug)]
pub struct StepCheck {
    /// How the element relates to the one of the step before.
    pub step: LinearStep,
    /// Conditions that do not depend on the context position.
    pub conditions: Vec<Expr>,
    /// The step itself, where a predicate depends on the position among the parent's children.
    pub positional: Option<Box<Step>>,
}

impl StepCheck {
    fn is_trivial(&self) -> bool {
        self.conditions.is_empty() && self.positional.is_none()
    }
}

/// The routes of a query (normalised; see [`crate::query`]). An empty list: it can never match.
pub fn plan(query: &Expr) -> Vec<Route> {
    let mut routes = Vec::new();
    plan_boolean(query, &mut routes);
    routes
}

/// Routes for one alternative of the query, in boolean context.
fn plan_boolean(expr: &Expr, routes: &mut Vec<Route>) {
    match expr {
        Expr::Or(operands) | Expr::Union(operands) => {
            for operand in operands {
                plan_boolean(operand, routes);
            }
        }
        Expr::Call { function: crate::query::ast::Function::Boolean, arguments } => plan_boolean(&arguments[0], routes),
        _ => match condition::as_path(expr) {
            Some(path) => path::plan_path(&path, routes),
            None => plan_necessary(expr, routes),
        },
    }
}

/// A route that only narrows down the messages on which the whole expression is evaluated.
fn plan_necessary(expr: &Expr, routes: &mut Vec<Route>) {
    match condition::necessary_paths(expr) {
        Some(paths) => {
            for path in paths {
                routes.extend(path::necessary_routes(&path));
            }
        }
        None => routes.push(Route { path: Vec::new(), action: Action::Always }),
    }
}

/// Is this the step `descendant-or-self::node()` of the abbreviation `//`?
fn is_double_slash(step: &Step) -> bool {
    step.axis == Axis::DescendantOrSelf && step.test == crate::query::ast::NodeTest::Node && step.predicates.is_empty()
}

/// A name for the route of a query, for `check` and `describe`.
pub fn route_name(routes: &[Route]) -> &'static str {
    costliest(routes).map_or("never", |(name, _)| name)
}

/// What the route of a query means, in one sentence.
pub fn route_reason(routes: &[Route]) -> &'static str {
    costliest(routes).map_or("no message can match it, so it takes no part in matching", |(_, reason)| reason)
}

const ROUTES: [(&str, &str); 6] = [
    ("automaton", "a plain path: the shared automaton decides it"),
    ("twig", "structure only: decided once for each shape of subtree that occurs"),
    ("keyed", "looked up by value where its path accepts, together with all queries that wait there"),
    ("candidate", "its conditions are tested at each element where its path accepts"),
    ("verified", "evaluated as a whole, but only on messages that hold its necessary path"),
    ("always", "evaluated as a whole on each message: nothing in it names an element that must be there"),
];

/// Name and meaning of the costliest route; `None` if there is none.
fn costliest(routes: &[Route]) -> Option<(&'static str, &'static str)> {
    let rank = |action: &Action| match action {
        Action::Accept => 0,
        Action::Twig(_) => 1,
        Action::Trigger { verify, .. } if verify.whole => 4,
        Action::Trigger { key: Some(_), .. } => 2,
        Action::Trigger { key: None, .. } => 3,
        Action::Always => 5,
    };
    routes.iter().map(|route| rank(&route.action)).max().map(|rank| ROUTES[rank])
}
