//! From the text of a query to its places in the shared structures.

use std::sync::Arc;

use super::compiled::{CompiledQuery, EvaluationPlan, EvaluationSource, Registrations};
use super::needs::{QueryWarning, ScanNeeds};
use super::query_index::Segment;
use super::{Engine, QueryContext};
use crate::analysis;
use crate::error::QueryError;
use crate::limits::Limits;
use crate::plan::{self, Action, Route, Verify};
use crate::query::ast::Expr;
use crate::query::matching::matching_condition;
use crate::query::{self, Dialect, ParseOptions, Query, normal};
use crate::rewrite::Program;
use crate::rewrite::program::family::FamilyRef;

impl Engine {
    pub(super) fn compile(&mut self, text: &str, context: u32) -> Result<UnregisteredQuery, QueryError> {
        let (expr, program) = match self.parse(text, context)? {
            Query::XPath(expr) => (expr, None),
            Query::Flwr(flwr) => {
                let condition = matching_condition(&flwr);
                let program = Arc::new(Program::compile(&flwr, &self.vocabulary, &mut self.interner));
                (condition.expr, Some((program, condition.exact)))
            }
        };
        let expr = normal::normalise(expr);
        let mut routes = plan::plan(&expr);
        let necessary = matches!(program, Some((_, false)));
        if necessary {
            routes.iter_mut().for_each(Route::verify_whole);
        }
        let external = self.registry.context(context).dialect == Dialect::XQuery;
        let warning = warning(&expr, &routes, necessary || external);
        let whole = routes.iter().any(|route| {
            matches!(&route.action, Action::Always | Action::Trigger { verify: Verify { whole: true, .. }, .. })
        });
        let program = program.map(|(program, _)| program);
        let needs = ScanNeeds { rewrites: program.is_some(), ..needs(&routes) };
        let evaluated = match &program {
            Some(program) if necessary => EvaluationSource::Bindings(Arc::clone(program)),
            _ if whole => EvaluationSource::Expr(Arc::new(expr)),
            _ => EvaluationSource::Nothing,
        };
        Ok(UnregisteredQuery { routes, evaluated, program, needs, warning })
    }

    pub(super) fn parse(&mut self, text: &str, context: u32) -> Result<Query, QueryError> {
        let context = self.registry.context(context);
        let options = ParseOptions { namespaces: &context.namespaces, dialect: context.dialect, limits: &self.limits };
        query::parse(text, &options, &mut self.vocabulary)
    }

    pub(super) fn register(&mut self, context: u32, new: UnregisteredQuery) -> u32 {
        let query = self.registry.add_query(context);
        self.register_as(query, context, new);
        query
    }

    /// Register a query that has its number already.
    pub(super) fn register_as(&mut self, query: u32, context: u32, mut new: UnregisteredQuery) {
        let mut routes = std::mem::take(&mut new.routes);
        if self.is_guided(query, context, new.program.as_deref()) {
            routes.clear();
            (new.needs.attributes, new.needs.text) = (true, true);
        }
        let layer = self.layer();
        let registrations = Registrations::from(self.population.insert(query, routes, layer));
        if layer == Segment::Recent && !registrations.as_slice().is_empty() {
            self.recent.push(query);
        }
        self.needs.add(new.needs);
        let family = new.program.as_ref().map_or(FamilyRef::NONE, |program| program.family_ref());
        self.compiled.put(query, new.compiled(registrations));
        if family != FamilyRef::NONE && self.families.len() <= query as usize {
            self.families.resize(query as usize + 1, FamilyRef::NONE);
        }
        if let Some(existing) = self.families.get_mut(query as usize) {
            *existing = family;
        }
    }

    /// Files a query with those that guides decide, if it is of the kind; whether it is.
    fn is_guided(&mut self, query: u32, context: u32, program: Option<&Program>) -> bool {
        let is_own = self.registry.context(context).dialect != Dialect::XQuery;
        is_own && program.is_some_and(|program| self.classes.add(query, program))
    }
}

/// A query compiled but not registered yet.
pub(super) struct UnregisteredQuery {
    routes: Vec<Route>,
    evaluated: EvaluationSource,
    program: Option<Arc<Program>>,
    needs: ScanNeeds,
    warning: Option<QueryWarning>,
}

impl UnregisteredQuery {
    fn compiled(self, registrations: Registrations) -> CompiledQuery {
        let Self { evaluated, program, needs, warning, .. } = self;
        CompiledQuery { registrations, evaluation: EvaluationPlan::of(evaluated, program), needs, warning }
    }
}

/// What is worth saying of a query with these routes; `necessary`: it may not match where its expression is true.
fn warning(expr: &Expr, routes: &[Route], necessary: bool) -> Option<QueryWarning> {
    match analysis::truth(expr) {
        Some(false) => Some(QueryWarning::NeverMatches),
        Some(true) if !necessary => Some(QueryWarning::AlwaysMatches),
        _ if routes.is_empty() => Some(QueryWarning::NeverMatches),
        _ => routes.iter().any(|route| matches!(route.action, Action::Always)).then_some(QueryWarning::EvaluatedAlways),
    }
}

fn needs(routes: &[Route]) -> ScanNeeds {
    // A trigger's conditions may ask for anything; telling attributes from text there would spare the scanner little.
    let by_value = routes.iter().any(|route| matches!(route.action, Action::Trigger { .. } | Action::Always));
    let keys_only = routes.iter().all(|route| match &route.action {
        Action::Accept | Action::Twig(_) => true,
        Action::Trigger { key: Some(key), verify } if verify.is_exact() => {
            key.value.is_attribute() && verify.also.iter().all(|key| key.value.is_attribute())
        }
        _ => false,
    });
    ScanNeeds { attributes: by_value, text: by_value && !keys_only, rewrites: false }
}

/// How one query would run, without registering it.
#[derive(Clone, Debug)]
pub struct QueryCheck {
    /// The query's normal form.
    pub normal_form: String,
    /// Name of the route, see [`plan::route_name`].
    pub route: &'static str,
    /// What the route means, in one sentence.
    pub reason: &'static str,
    /// What registration would warn of.
    pub warning: Option<QueryWarning>,
}

/// Parse and plan a query alone.
///
/// # Errors
/// The query is refused.
pub fn check(text: &str, context: &QueryContext, limits: &Limits) -> Result<QueryCheck, QueryError> {
    let mut engine = Engine::new(limits.clone());
    let interned = engine.registry.intern_context(context);
    let parsed = engine.parse(text, interned)?;
    let new = engine.compile(text, interned)?;
    let printed = match parsed {
        Query::XPath(expr) => {
            query::display::expression(&normal::normalise(expr), &engine.vocabulary, &context.namespaces)
        }
        Query::Flwr(flwr) => query::flwr_text::query(&flwr, &engine.vocabulary, &context.namespaces),
    };
    let (route, reason) = match context.dialect {
        Dialect::XQuery if new.warning.is_none() => (
            "xquery",
            "Saxon evaluates it on the messages in which its binding path, in the normal form, leads somewhere",
        ),
        Dialect::XQuery => ("xquery", "Saxon evaluates it on each message, since no binding path narrows them down"),
        _ => (plan::route_name(&new.routes), plan::route_reason(&new.routes)),
    };
    Ok(QueryCheck { normal_form: printed.text, route, reason, warning: new.warning })
}
