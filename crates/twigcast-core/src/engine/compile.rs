//! Compiling a query: from its text to its registrations in the shared structures.

use std::sync::Arc;

use super::Engine;
use super::compiled::{CompiledQuery, EvaluationPlan, EvaluationSource, Registrations};
use super::needs::{QueryWarning, ScanNeeds};
use super::query_index::Segment;
use crate::analysis;
use crate::error::QueryError;
use crate::plan::{self, Action, Route};
use crate::query::ast::Expr;
use crate::query::matching::matching_condition;
use crate::query::notes::QueryNote;
use crate::query::{self, Dialect, Query, normal};
use crate::rewrite::Program;
use crate::rewrite::program::family::FamilyRef;

impl Engine {
    /// Compiles a query without registering it.
    pub(super) fn compile(&mut self, text: &str, context: u32) -> Result<UnregisteredQuery, QueryError> {
        if let Some(expr) = self.expression_of_form(text, context) {
            return Ok(self.planned(expr, None, context, (None, None)));
        }
        let mut default_warning = None;
        let (parsed, note) = self.parse_noting(text, context)?;
        let is_xpath = matches!(parsed, Query::XPath(_));
        let (expr, program) = match parsed {
            Query::XPath(expr) => (expr, None),
            Query::Flwr(flwr) => {
                default_warning = if flwr.loses_default {
                    Some(QueryWarning::LosesDefault)
                } else {
                    flwr.gains_default.then_some(QueryWarning::GainsDefault)
                };
                let condition = matching_condition(&flwr);
                let program = Arc::new(Program::compile(&flwr, &self.vocabulary, &mut self.interner));
                (condition.expr, Some((program, condition.exact)))
            }
        };
        let expr = normal::normalise(expr);
        if is_xpath && note.is_none() {
            self.learn_form(text, context, &expr);
        }
        Ok(self.planned(expr, program, context, (note, default_warning)))
    }

    /// Plans a query of which the expression is in normal form; of one that rewrites, with its program, and whether the
    /// expression says exactly when it matches.
    fn planned(
        &self,
        expr: Expr,
        program: Option<(Arc<Program>, bool)>,
        context: u32,
        (note, default_warning): (Option<QueryNote>, Option<QueryWarning>),
    ) -> UnregisteredQuery {
        let mut routes = plan::plan_among(&expr, &self.query_index);
        let necessary = matches!(program, Some((_, false)));
        if necessary {
            routes.iter_mut().for_each(Route::verify_whole);
        }
        let external = self.subscription_table.context(context).dialect == Dialect::XQuery;
        let warning = match (warning(&expr, &routes, necessary || external), note) {
            // Why nothing matches is worth more than that nothing does.
            (None | Some(QueryWarning::NeverMatches), Some(note)) => Some(QueryWarning::Noted(note)),
            (warning, _) => warning,
        };
        let warning = warning.or(default_warning);
        let whole = routes.iter().any(Route::evaluates_whole);
        let program = program.map(|(program, _)| program);
        let needs = ScanNeeds { rewrites: program.is_some(), ..needs(&routes) };
        let evaluated = match &program {
            Some(program) if necessary => EvaluationSource::Bindings(Arc::clone(program)),
            _ if whole => EvaluationSource::Expr(Arc::new(expr)),
            _ => EvaluationSource::Nothing,
        };
        UnregisteredQuery { routes, evaluated, program, needs, warning }
    }

    /// Returns the expression of a query in normal form, if one that differs in its constants only is known.
    fn expression_of_form(&mut self, text: &str, context: u32) -> Option<Expr> {
        let context = self.subscription_table.context(context);
        self.forms.expression(text, context, &context.parse_options(&self.limits))
    }

    fn learn_form(&mut self, text: &str, context: u32, expr: &Expr) {
        let context = self.subscription_table.context(context);
        self.forms.learn(text, context, expr, &context.parse_options(&self.limits), &mut self.vocabulary);
    }

    /// Parses a query, adding its names to the vocabulary.
    pub(super) fn parse(&mut self, text: &str, context: u32) -> Result<Query, QueryError> {
        let context = self.subscription_table.context(context);
        let options = context.parse_options(&self.limits);
        query::parse(text, &options, &mut self.vocabulary)
    }

    fn parse_noting(&mut self, text: &str, context: u32) -> Result<(Query, Option<QueryNote>), QueryError> {
        let context = self.subscription_table.context(context);
        let options = context.parse_options(&self.limits);
        query::parse_noting(text, &options, &mut self.vocabulary)
    }

    /// Registers a compiled query under a new number, which is returned.
    pub(super) fn register(&mut self, context: u32, new: UnregisteredQuery) -> u32 {
        let query = self.subscription_table.add_query(context);
        self.register_as(query, context, new);
        query
    }

    /// Registers a compiled query under its number.
    pub(super) fn register_as(&mut self, query: u32, context: u32, mut new: UnregisteredQuery) {
        let mut routes = std::mem::take(&mut new.routes);
        if self.add_to_batch_queries(query, context, new.program.as_deref()) {
            routes.clear();
            (new.needs.attributes, new.needs.text) = (true, true);
        }
        let segment = self.segment();
        let registrations = Registrations::from(self.query_index.insert(query, routes, segment));
        if segment == Segment::Recent && !registrations.as_slice().is_empty() {
            self.recent.push(query);
        }
        self.needs.add(new.needs);
        let family = new.program.as_ref().map_or(FamilyRef::NONE, |program| program.family_ref());
        self.compiled.put(query, new.compiled(registrations));
        self.set_family(query, family);
    }

    /// Sets the family of a query.
    pub(super) fn set_family(&mut self, query: u32, family: FamilyRef) {
        if self.families.get(query as usize).copied().unwrap_or(FamilyRef::NONE) == family {
            return;
        }
        let families = Arc::make_mut(&mut self.families);
        if families.len() <= query as usize {
            families.resize(query as usize + 1, FamilyRef::NONE);
        }
        families[query as usize] = family;
    }

    /// Adds a query to the batch queries. Returns `false` if it is not of the kind.
    fn add_to_batch_queries(&mut self, query: u32, context: u32, program: Option<&Program>) -> bool {
        let is_own = self.subscription_table.context(context).dialect != Dialect::XQuery;
        is_own && program.is_some_and(|program| self.batch_queries.add(query, program))
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
    pub(super) fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// Returns the warning that is kept with the query.
    pub(super) fn warning(&self) -> Option<QueryWarning> {
        self.warning
    }

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
