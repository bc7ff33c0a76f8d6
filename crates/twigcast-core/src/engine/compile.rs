//! Compiling a query: from its text to its registrations in the shared structures.

use std::sync::Arc;

use super::compiled::{CompiledQuery, EvaluationPlan, EvaluationSource, Registrations};
use super::needs::{QueryWarning, ScanNeeds};
use super::query_index::Segment;
use super::{Engine, QueryContext};
use crate::analysis;
use crate::error::QueryError;
use crate::limits::Limits;
use crate::plan::{self, Action, Route};
use crate::query::ast::Expr;
use crate::query::matching::matching_condition;
use crate::query::{self, Dialect, ParseOptions, Query, normal};
use crate::rewrite::Program;
use crate::rewrite::program::family::FamilyRef;

impl Engine {
    /// Compiles a query without registering it.
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
        let mut routes = plan::plan_among(&expr, &self.population);
        let necessary = matches!(program, Some((_, false)));
        if necessary {
            routes.iter_mut().for_each(Route::verify_whole);
        }
        let external = self.registry.context(context).dialect == Dialect::XQuery;
        let warning = warning(&expr, &routes, necessary || external);
        let whole = routes.iter().any(Route::evaluates_whole);
        let program = program.map(|(program, _)| program);
        let needs = ScanNeeds { rewrites: program.is_some(), ..needs(&routes) };
        let evaluated = match &program {
            Some(program) if necessary => EvaluationSource::Bindings(Arc::clone(program)),
            _ if whole => EvaluationSource::Expr(Arc::new(expr)),
            _ => EvaluationSource::Nothing,
        };
        Ok(UnregisteredQuery { routes, evaluated, program, needs, warning })
    }

    /// Parses a query, adding its names to the vocabulary.
    pub(super) fn parse(&mut self, text: &str, context: u32) -> Result<Query, QueryError> {
        let context = self.registry.context(context);
        let options = ParseOptions { namespaces: &context.namespaces, dialect: context.dialect, limits: &self.limits };
        query::parse(text, &options, &mut self.vocabulary)
    }

    /// Registers a compiled query under a new number, which is returned.
    pub(super) fn register(&mut self, context: u32, new: UnregisteredQuery) -> u32 {
        let query = self.registry.add_query(context);
        self.register_as(query, context, new);
        query
    }

    /// Registers a compiled query under its number.
    pub(super) fn register_as(&mut self, query: u32, context: u32, mut new: UnregisteredQuery) {
        let mut routes = std::mem::take(&mut new.routes);
        if self.add_to_catalog(query, context, new.program.as_deref()) {
            routes.clear();
            (new.needs.attributes, new.needs.text) = (true, true);
        }
        let segment = self.segment();
        let registrations = Registrations::from(self.population.insert(query, routes, segment));
        if segment == Segment::Recent && !registrations.as_slice().is_empty() {
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

    /// Adds a query to the catalog of the batch rewriter. Returns `false` if it is not of the kind.
    fn add_to_catalog(&mut self, query: u32, context: u32, program: Option<&Program>) -> bool {
        let is_own = self.registry.context(context).dialect != Dialect::XQuery;
        is_own && program.is_some_and(|program| self.classes.add(query, program))
    }
}

/// A query that is compiled but not registered.
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

/// Returns what is worth warning of, of a query with these routes; `necessary`: its expression may be true where the query
/// does not match.
fn warning(expr: &Expr, routes: &[Route], necessary: bool) -> Option<QueryWarning> {
    match analysis::truth(expr) {
        Some(false) => Some(QueryWarning::NeverMatches),
        Some(true) if !necessary => Some(QueryWarning::AlwaysMatches),
        _ if routes.is_empty() => Some(QueryWarning::NeverMatches),
        _ => routes.iter().any(|route| matches!(route.action, Action::Always)).then_some(QueryWarning::EvaluatedAlways),
    }
}

/// Returns what the routes of a query need of the scanner.
fn needs(routes: &[Route]) -> ScanNeeds {
    // A trigger's conditions may need anything. Distinguishing attributes from text there would save the scanner little.
    let by_value = routes.iter().any(|route| !matches!(route.action, Action::Accept | Action::Twig(_)));
    let keys_only = routes.iter().all(|route| match &route.action {
        Action::Accept | Action::Twig(_) => true,
        Action::Trigger { key, verify } if !verify.whole => {
            key.value.is_attribute() && verify.also.iter().all(|key| key.value.is_attribute())
        }
        _ => false,
    });
    ScanNeeds { attributes: by_value, text: by_value && !keys_only, rewrites: false }
}

/// The report on how one query would run, without registering it.
#[derive(Clone, Debug)]
pub struct QueryCheck {
    /// The query's normal form.
    pub normal_form: String,
    /// The name of the route, see [`plan::route_name`].
    pub route: &'static str,
    /// The meaning of the route, and the values that lead to the query.
    pub reason: String,
    /// The warning that registration would give.
    pub warning: Option<QueryWarning>,
}

/// Checks a query: parses and plans it by itself.
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
    let print = |expr: &Expr| query::display::expression(expr, &engine.vocabulary, &context.namespaces).text;
    let (route, reason) = match context.dialect {
        Dialect::XQuery if new.warning.is_none() => (
            "xquery",
            "Saxon evaluates it on the messages in which its binding path, in the normal form, leads somewhere",
        ),
        Dialect::XQuery => ("xquery", "Saxon evaluates it on each message, since no binding path narrows them down"),
        _ => (plan::route_name(&new.routes), plan::route_reason(&new.routes)),
    };
    let reason = match plan::cover(&new.routes, print) {
        Some(cover) => format!("{reason}; {cover}"),
        None => reason.to_owned(),
    };
    Ok(QueryCheck { normal_form: printed.text, route, reason, warning: new.warning })
}
