//! Reports on how queries run: alone, and in a population.

use super::compile::UnregisteredQuery;
use super::needs::QueryWarning;
use super::{Engine, QueryContext, Slot};
use crate::error::QueryError;
use crate::limits::Limits;
use crate::plan::{self, Action, Route};
use crate::query::ast::Expr;
use crate::query::{self, Dialect, Query, normal};

/// The report on how one query runs.
#[derive(Clone, Debug)]
pub struct QueryCheck {
    /// The query's normal form.
    pub normal_form: String,
    /// The name of the route, see [`plan::route_name`].
    pub route: &'static str,
    /// The meaning of the route.
    pub reason: &'static str,
    /// The values that lead to the query, in words; `None` if none do.
    pub cover: Option<String>,
    /// The cost of the query on a message, in words.
    pub cost: &'static str,
    /// The warning that registration gives.
    pub warning: Option<QueryWarning>,
}

/// A query that was planned by itself.
struct PlannedAlone {
    engine: Engine,
    normal_form: String,
    compiled: UnregisteredQuery,
}

impl PlannedAlone {
    fn of(text: &str, context: &QueryContext, limits: &Limits) -> Result<Self, QueryError> {
        let mut engine = Engine::new(limits.clone());
        let interned = engine.subscription_table.intern_context(context);
        let parsed = engine.parse(text, interned)?;
        let compiled = engine.compile(text, interned)?;
        let printed = match parsed {
            Query::XPath(expr) => {
                query::display::expression(&normal::normalise(expr), &engine.vocabulary, &context.namespaces)
            }
            Query::Flwr(flwr) => query::flwr_text::query(&flwr, &engine.vocabulary, &context.namespaces),
        };
        Ok(Self { engine, normal_form: printed.text, compiled })
    }

    /// Returns the report on the query as it runs by some routes of an engine.
    fn report(&self, context: &QueryContext, routes: &[Route], engine: &Engine) -> QueryCheck {
        let warning = self.compiled.warning();
        let (route, reason, cost) = match context.dialect {
            Dialect::XQuery
                if matches!(warning, None | Some(QueryWarning::LosesDefault | QueryWarning::GainsDefault)) =>
            {
                (
                    "xquery",
                    "Saxon evaluates it on the messages in which its binding path, in the normal form, leads somewhere",
                    "an evaluation by Saxon on each of these messages",
                )
            }
            Dialect::XQuery => (
                "xquery",
                "Saxon evaluates it on each message, since no binding path narrows them down",
                "an evaluation by Saxon on each message",
            ),
            _ => (plan::route_name(routes), plan::route_reason(routes), plan::route_cost(routes)),
        };
        let print = |expr: &Expr| query::display::expression(expr, &engine.vocabulary, &context.namespaces).text;
        let cover = plan::cover(routes, print);
        QueryCheck { normal_form: self.normal_form.clone(), route, reason, cover, cost, warning }
    }
}

/// Checks a query: parses and plans it by itself.
///
/// # Errors
/// The query is refused.
pub fn check(text: &str, context: &QueryContext, limits: &Limits) -> Result<QueryCheck, QueryError> {
    let mut alone = PlannedAlone::of(text, context, limits)?;
    let checked = alone.report(context, alone.compiled.routes(), &alone.engine);
    // As it would be registered: what the batch rewriter decides has no cover and needs none.
    let interned = alone.engine.subscription_table.intern_context(context);
    let query = alone.engine.other_query(text, interned)?;
    Ok(QueryCheck { warning: alone.engine.warning(query), ..checked })
}

impl Engine {
    /// Returns what is worth warning of, of a query.
    pub(super) fn warning(&self, query: u32) -> Option<QueryWarning> {
        self.compiled.warning(query).or_else(|| self.lacks_cover(query).then_some(QueryWarning::NoCover))
    }

    fn lacks_cover(&self, query: u32) -> bool {
        let Some(registrations) = self.compiled.registrations(query) else { return false };
        registrations.as_slice().iter().any(|&registration| self.query_index.lacks_cover(registration))
    }

    /// Returns the report on the query of a subscription as it runs in this set; `None` if the slot is not in use.
    ///
    /// # Errors
    /// The query is refused, which it was not when it was added.
    pub fn describe(&self, slot: Slot) -> Option<Result<QueryCheck, QueryError>> {
        let query = self.subscription_table.query_of(slot)?;
        let (text, context) = (self.text_of(query), self.context_of(query));
        let alone = match PlannedAlone::of(&text, context, &self.limits) {
            Ok(alone) => alone,
            Err(error) => return Some(Err(error)),
        };
        let warning = self.warning(query);
        if self.batch_queries.contains(query) {
            let checked = alone.report(context, alone.compiled.routes(), &alone.engine);
            let reason = "decided together with all For-Where-Return queries of its kind";
            let cost = "a part of what these cost together, which grows with their different paths and conditions";
            return Some(Ok(QueryCheck { reason, cost, cover: None, warning, ..checked }));
        }
        // What structure alone decides runs everywhere alike; which values lead to a query depends on the population.
        let structural = |route: &&Route| !matches!(route.action, Action::Trigger { .. } | Action::Access { .. });
        let mut routes: Vec<Route> = alone.compiled.routes().iter().filter(structural).cloned().collect();
        let registrations = self.compiled.registrations(query)?;
        let registered = registrations.as_slice().iter();
        routes.extend(registered.filter_map(|&one| self.query_index.keyed_route(one)));
        let mut checked = alone.report(context, &routes, self);
        let has_accesses = routes.iter().any(|route| matches!(route.action, Action::Access { .. }));
        if let Some(cover) = checked.cover.as_mut().filter(|_| has_accesses) {
            cover.push_str(", ");
            cover.push_str(plan::how_often(plan::cost(&routes, &self.query_index)));
        }
        Some(Ok(QueryCheck { warning, ..checked }))
    }
}
