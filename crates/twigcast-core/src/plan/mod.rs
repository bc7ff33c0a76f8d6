//! Plans: how a query will run, decided from the query alone.
//!
//! Every query becomes one or more *routes*. A route is a linear path for the shared automaton plus what remains to be
//! checked when the automaton accepts it:
//! - [`Action::Accept`]: nothing; the path is the query (YFilter's case).
//! - [`Action::Twig`]: the path leads to the topmost branching step; the rest asks for structure only, so its truth
//!   depends on nothing but the shape of the subtree (see [`crate::twig`]).
//! - [`Action::Trigger`]: structure and equalities decide, and one equality is a *key* that a hash look-up tests for all
//!   queries at once. The path leads to the last element of which a value is asked: what the path says below it is
//!   structure, known of all queries at once from the shape of the subtree; what it says above is looked up (Diao 2005,
//!   section 5.1: selection postponed).
//! - [`Action::Access`]: any other condition. The path leads to an element of which the query needs some value; an index of
//!   such values leads to the query, and what remains is verified there (see [`cover`](self::cover)).
//! - [`Action::Always`]: no necessary path is known; the expression is evaluated on each message.
//!
//! The query matches a message when any of its routes does.
//!
//! ```
//! use twigcast_core::limits::Limits;
//! use twigcast_core::plan::{plan, route_name};
//! use twigcast_core::query::{Dialect, ParseOptions, Query, normal, parse};
//! use twigcast_core::vocabulary::Vocabulary;
//!
//! let route_of = |text| {
//!     let (limits, namespaces) = (Limits::default(), [("p", "urn:example")]);
//!     let options = ParseOptions::new(&namespaces, Dialect::XPath, &limits);
//!     let Ok(Query::XPath(expr)) = parse(text, &options, &mut Vocabulary::new()) else { unreachable!() };
//!     route_name(&plan(&normal::normalise(expr)))
//! };
//! assert_eq!(route_of("/feed//price"), "automaton");
//! assert_eq!(route_of("/feed[item/price]"), "twig");
//! assert_eq!(route_of("/feed/item[@kind = 'new']"), "keyed");
//! assert_eq!(route_of("not(/feed)"), "always");
//! ```

mod condition;
mod cost;
mod cover;
mod description;
mod formula;
mod lifted;
mod operand;
mod path;
mod residual;
mod residual_condition;
mod route;
mod trigger;
mod value_condition;

use self::cover::Covers;
use crate::query::ast::{Expr, Function, NameTest};
use crate::vocabulary::Name;

pub use crate::query::ast::LinearStep;
pub use cost::{cost, how_often};
pub use description::cover;
pub use operand::{NeededChild, NumberRange, Operand, Relation, ValueTest, has_text, order_of, ordered};
pub use residual_condition::Condition;
pub use route::{Access, Action, Frequencies, Route, Verify};
pub use value_condition::{ConditionValue, Constant, Distance, ValueCondition, number_key};

/// Nothing is known of values.
struct UnknownFrequencies;

impl Frequencies for UnknownFrequencies {
    fn equality(&self, _operand: &Operand, _text: &str) -> f32 {
        0.05
    }

    fn expected(&self, _element: NameTest, _test: &ValueTest, assumed: f32) -> f32 {
        assumed
    }

    fn bounds(&self, _name: Name) -> usize {
        0
    }
}

/// Returns the routes of a query (normalised; see [`crate::query`]) by itself. An empty list: it can never match.
pub fn plan(query: &Expr) -> Vec<Route> {
    plan_among(query, &UnknownFrequencies)
}

/// Returns the routes of a query in a population.
pub fn plan_among(query: &Expr, frequencies: &dyn Frequencies) -> Vec<Route> {
    let mut routes = Vec::new();
    let mut covers = Covers::new(frequencies);
    plan_boolean(query, &mut covers, &mut routes);
    routes.extend(covers.into_routes());
    routes
}

/// Appends the exact route of each alternative of the query, in boolean context, and adds the others to the covers.
fn plan_boolean(expr: &Expr, covers: &mut Covers<'_>, routes: &mut Vec<Route>) {
    match expr {
        Expr::Or(operands) | Expr::Union(operands) => {
            operands.iter().for_each(|operand| plan_boolean(operand, covers, routes));
        }
        Expr::Call { function: Function::Boolean, arguments } => plan_boolean(&arguments[0], covers, routes),
        _ => match trigger::exact_route(expr, covers.frequencies()) {
            Some(route) => routes.push(route),
            None => covers.add(lifted::lifted(expr).as_ref().unwrap_or(expr)),
        },
    }
}

/// Returns a name for the route of a query, for `check` and `describe`.
pub fn route_name(routes: &[Route]) -> &'static str {
    costliest(routes).map_or("never", |class| class.name)
}

/// Returns what the route of a query means, in one sentence.
pub fn route_reason(routes: &[Route]) -> &'static str {
    costliest(routes).map_or("no message can match it, so it takes no part in matching", |class| class.reason)
}

/// Returns what a query of these routes costs on a message, in words.
pub fn route_cost(routes: &[Route]) -> &'static str {
    costliest(routes).map_or("nothing", |class| class.cost)
}

/// What is said of a route: the class of its cost.
struct CostClass {
    name: &'static str,
    reason: &'static str,
    cost: &'static str,
}

const COST_CLASSES: [CostClass; 6] = [
    CostClass {
        name: "automaton",
        reason: "a plain path: the shared automaton decides it",
        cost: "nothing extra: one look-up at each element serves all such queries",
    },
    CostClass {
        name: "twig",
        reason: "structure only: decided once for each shape of subtree that occurs",
        cost: "a look-up at elements of a shape that was seen before",
    },
    CostClass {
        name: "keyed",
        reason: "found by a value that it needs, in an index of all queries; only then is the rest of it verified",
        cost: "a look-up of values; more only where one that it needs occurs",
    },
    CostClass {
        name: "candidate",
        reason: "no value leads to it: its conditions are verified at each element where its path accepts",
        cost: "an evaluation at each element where its path leads, until it has matched",
    },
    CostClass {
        name: "verified",
        reason: "evaluated as a whole, but only on messages that hold what is necessary for it",
        cost: "an evaluation on each message that holds what is necessary for it",
    },
    CostClass {
        name: "always",
        reason: "evaluated as a whole on each message: nothing in it names an element that must be there",
        cost: "an evaluation on each message",
    },
];

/// Returns the class of the costliest route; `None` if there is none.
fn costliest(routes: &[Route]) -> Option<&'static CostClass> {
    let rank = |action: &Action| match action {
        Action::Accept => 0,
        Action::Twig(_) => 1,
        Action::Trigger { verify: Verify { whole: true, .. }, .. } | Action::Access { whole: true, .. } => 4,
        Action::Access { entries, .. } if entries.iter().any(|access| access.test.is_none()) => 3,
        Action::Trigger { .. } | Action::Access { .. } => 2,
        Action::Always => 5,
    };
    routes.iter().map(|route| rank(&route.action)).max().map(|rank| &COST_CLASSES[rank])
}
