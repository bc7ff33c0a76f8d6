//! The engine: subscriptions in, matches out.
//!
//! [`Engine`] holds what all threads share and only registration changes: vocabulary, compiled queries, subscriptions.
//! [`Matcher`] holds what one thread changes while it matches. A matcher follows the engine's changes by itself, before
//! the next message, so a change counts from the next message on and never stops anybody.

mod answer;
mod book;
mod change_log;
mod compiled;
mod deciding;
mod layer;
mod matcher;
mod pages;
mod population;
mod query_set;
mod registry;
pub mod routing;
mod selection;
mod texts;
mod verify;
mod watch;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::automaton::nfa::{Item, StateId};
use crate::certainty;
use crate::document::Message;
use crate::error::{MessageError, QueryError};
use crate::eval::Evaluator;
use crate::extract::family::FamilyRef;
use crate::extract::guided::Classes;
use crate::extract::{Interner, Program};
use crate::limits::Limits;
use crate::plan::{self, Action, LinearStep, Route, Verify};
use crate::query::ast::Expr;
use crate::query::matching::matching_condition;
use crate::query::{self, Dialect, ParseOptions, Query, normal, plain, plain::Spelling};
use crate::scan::Want;
use crate::stream::dictionary::Dictionary;
use crate::vocabulary::Vocabulary;

pub use answer::Answer;
use change_log::ChangeLog;
pub use compiled::Evaluated;
use compiled::{CompiledQueries, CompiledQuery, Evaluation, Places};
pub use matcher::Matcher;
use population::{Layer, Population};
pub use query_set::QuerySet;
use registry::Registry;
pub use registry::{QueryContext, Slot};
pub use selection::{Delivered, PreparedDeliveries, Selected};

/// What matching a query asks of the scanner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Needs {
    attributes: bool,
    text: bool,
    /// The query rewrites, so that delivering (not matching) asks for everything.
    rewrites: bool,
}

/// Why a subscription was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddError {
    /// The key is taken.
    DuplicateKey,
    /// The query was refused.
    Query(QueryError),
}

/// What registration found worth saying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// No message can match.
    NeverMatches,
    /// Every message matches.
    AlwaysMatches,
    /// No shared structure narrows it down: it is evaluated on each message.
    EvaluatedAlways,
}

/// A population of subscriptions, compiled. See the module's documentation.
#[derive(Debug)]
pub struct Engine {
    limits: Limits,
    vocabulary: Vocabulary,
    population: Population,
    registry: Registry,
    /// What For-Where-Return queries have in common.
    interner: Interner,
    compiled: CompiledQueries,
    /// By query: what it has in common with others that rewrite. Apart, so that delivering stays in the cache; only as
    /// long as such queries ask for.
    families: Vec<FamilyRef>,
    /// The queries that are in no other shared structure: see [`crate::extract::guided`].
    classes: Classes,
    /// How many compiled queries need attributes and text, and how many rewrite.
    needing: (usize, usize, usize),
    /// Changes of the recent layer.
    log: ChangeLog,
    /// Changes whenever the bulk does.
    bulk_version: u64,
    /// Results are made for each query by itself.
    unshared_results: bool,
    /// A message was matched since the bulk last changed, so that matchers have learnt something of it.
    warm: AtomicBool,
    /// Queries that may have registrations in the recent layer.
    recent: Vec<u32>,
    /// Queries that nobody subscribes to any more but that still stand in the bulk.
    dead: Vec<u32>,
    /// Additions and removals so far. Those of a query that other subscriptions share leave the automaton alone, and so
    /// are not in the log.
    changes: u64,
    /// Tells this engine from others, so that a matcher notices when it is handed another one.
    identity: u64,
    /// The path of the query in hand, and its text.
    steps: Vec<LinearStep>,
    printed: String,
}

/// Queries that come or go before they are merged into the bulk, at the least.
const COMPACTED_MIN: usize = 1024;

static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(1);

impl Engine {
    /// An engine without subscriptions.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            vocabulary: Vocabulary::new(),
            population: Population::default(),
            registry: Registry::default(),
            interner: Interner::default(),
            compiled: CompiledQueries::default(),
            families: Vec::new(),
            classes: Classes::default(),
            needing: (0, 0, 0),
            log: ChangeLog::default(),
            bulk_version: 0,
            unshared_results: false,
            warm: AtomicBool::new(false),
            recent: Vec::new(),
            dead: Vec::new(),
            changes: 0,
            identity: NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed),
            steps: Vec::new(),
            printed: String::new(),
        }
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The names that queries mention.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// How many subscriptions there are.
    pub fn len(&self) -> usize {
        self.registry.len()
    }

    /// No subscription?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Grows with each change of the population.
    pub fn version(&self) -> u64 {
        self.changes
    }

    /// One past the largest query number.
    pub fn query_bound(&self) -> usize {
        self.compiled.bound()
    }

    /// Add a subscription.
    ///
    /// # Errors
    /// [`AddError::DuplicateKey`] unless `replace` is set; [`AddError::Query`] when the query is refused, in which case
    /// nothing changes (also not the subscription that was to be replaced).
    pub fn add(
        &mut self,
        key: &str,
        text: &str,
        context: &QueryContext,
        replace: bool,
    ) -> Result<Option<Warning>, AddError> {
        let known = self.registry.slot_of(key);
        if known.is_some() && !replace {
            return Err(AddError::DuplicateKey);
        }
        let context = self.registry.intern_context(context);
        let query = self.query_for(text, context).map_err(AddError::Query)?;
        let warning = self.compiled.warning(query);
        // Hold on to the new query before the old subscription lets go: they may be the same.
        if let Some(slot) = known {
            self.registry.hold(query);
            self.remove_slot(slot);
            self.registry.unhold(query);
        }
        self.registry.subscribe(key, query);
        self.changes += 1;
        self.compact_if_due();
        Ok(warning)
    }

    /// The query with this text, compiled now if it is new.
    fn query_for(&mut self, text: &str, context: u32) -> Result<u32, QueryError> {
        let mut steps = std::mem::take(&mut self.steps);
        let given = Arc::clone(self.registry.context(context));
        let options = ParseOptions { namespaces: &given.namespaces, dialect: given.dialect, limits: &self.limits };
        let query = match plain::read(text, &options, &mut self.vocabulary, &mut steps) {
            Some(spelling) => {
                let is_as_printed = spelling == Spelling::Sure || self.prints_as(&steps, context, text);
                Ok(self.path_query(text, context, &steps, is_as_printed))
            }
            None => self.other_query(text, context),
        };
        self.steps = steps;
        query
    }

    fn other_query(&mut self, text: &str, context: u32) -> Result<u32, QueryError> {
        if let Some(query) = self.registry.find_query(text, context) {
            return Ok(query);
        }
        let compiled = self.compile(text, context)?;
        let query = self.register(context, compiled);
        self.registry.keep_text(query, text);
        Ok(query)
    }

    /// The query of a plain path. Its text is kept only where the path does not tell it: where it is spelled in another
    /// way than the path would be printed, or where another query stands at the path's end already.
    fn path_query(&mut self, text: &str, context: u32, steps: &[LinearStep], is_as_printed: bool) -> u32 {
        let layer = self.layer();
        // Whoever would follow changes of the bulk starts afresh anyway.
        let mut changes = Vec::new();
        let (main, state) = match layer {
            Layer::Main => {
                let state = self.population.main.nfa.state_of(steps, &mut changes);
                changes.clear();
                (Some(state), Some(state))
            }
            Layer::Recent => (self.population.main.nfa.find(steps), None),
        };
        let mut known = main.and_then(|state| self.query_at(Layer::Main, state, context));
        if known.is_none() && layer == Layer::Recent {
            let state = self.population.recent.nfa.find(steps);
            known = state.and_then(|state| self.query_at(Layer::Recent, state, context));
        }
        // A query that is found either way stands at the path's end, so no state is left over.
        if let Some(query) = known.filter(|_| is_as_printed).or_else(|| self.registry.find_query(text, context)) {
            return query;
        }
        let query = self.registry.add_query(context);
        let nfa = self.population.nfa_mut(layer);
        let state = state.unwrap_or_else(|| nfa.state_of(steps, &mut changes));
        let item = nfa.insert_item(state, Item::Accept(query), &mut changes);
        let is_first = nfa.first_accepted(state) == Some(query);
        if layer == Layer::Recent {
            self.log.extend(changes);
            self.recent.push(query);
        }
        self.compiled.put_path(query, layer, item);
        if !is_as_printed || !is_first {
            self.registry.keep_text(query, text);
        }
        query
    }

    /// Where a query goes that comes now.
    fn layer(&self) -> Layer {
        if self.warm.load(Ordering::Relaxed) { Layer::Recent } else { Layer::Main }
    }

    /// The query whose text is the path to a state, in a context.
    fn query_at(&self, layer: Layer, state: StateId, context: u32) -> Option<u32> {
        let query = self.population.paths(layer).nfa.first_accepted(state)?;
        self.registry.is_path(query, context).then_some(query)
    }

    fn prints_as(&mut self, steps: &[LinearStep], context: u32, text: &str) -> bool {
        let mut printed = std::mem::take(&mut self.printed);
        printed.clear();
        let is_same = self.print(steps, context, &mut printed) && printed == text;
        self.printed = printed;
        is_same
    }

    fn print(&self, steps: &[LinearStep], context: u32, text: &mut String) -> bool {
        let namespaces = &self.registry.context(context).namespaces;
        let given = namespaces.iter().map(|(prefix, uri)| (prefix.as_str(), uri.as_str()));
        plain::print(steps, given, &self.vocabulary, text)
    }

    /// The text of a query.
    fn text_of(&self, query: u32) -> Cow<'_, str> {
        let (kept, context) = self.registry.query(query);
        match (kept, self.compiled.path(query)) {
            (Some(text), _) => Cow::Borrowed(text),
            (None, Some((layer, item))) => {
                let nfa = &self.population.paths(layer).nfa;
                let mut text = String::new();
                self.print(&nfa.path_of(nfa.state_of_item(item)), context, &mut text);
                Cow::Owned(text)
            }
            (None, None) => Cow::Borrowed(""),
        }
    }

    /// Remove a subscription; whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        match self.registry.slot_of(key) {
            Some(slot) => {
                self.remove_slot(slot);
                self.changes += 1;
                self.compact_if_due();
                true
            }
            None => false,
        }
    }

    fn remove_slot(&mut self, slot: Slot) {
        if let Some(query) = self.registry.unsubscribe(slot) {
            self.retire(query);
        }
    }

    /// A query is gone from the registry: let it take no part in matching any more.
    fn retire(&mut self, query: u32) {
        let Some(places) = self.compiled.places(query) else { return };
        let needs = self.compiled.needs(query);
        let is_loose = places.as_slice().iter().all(|&place| self.population.is_loose(place));
        self.count_needs(needs, false);
        if self.warm.load(Ordering::Relaxed) && !is_loose {
            // Without subscribers it can do no harm; taking it out now would cost what matchers have learnt.
            self.dead.push(query);
        } else {
            self.take_out(query);
        }
    }

    /// Take a query out of the shared structures.
    fn take_out(&mut self, query: u32) {
        let Some(places) = self.compiled.take(query) else { return };
        let mut changes = Vec::new();
        self.population.remove(query, places.as_slice(), &mut changes);
        self.classes.remove(query);
        self.log.extend(changes);
        if let Some(family) = self.families.get_mut(query as usize) {
            *family = FamilyRef::NONE;
        }
        self.registry.free_number(query);
    }

    /// Merge what came and went into the bulk once it is an eighth of it: rarely enough that what matchers lose by it
    /// costs little a change.
    fn compact_if_due(&mut self) {
        let due = COMPACTED_MIN + self.compiled.bound() / 8;
        if self.recent.len() > due || self.dead.len() > due {
            self.compact();
        }
    }

    /// Merge the queries that came since the last time into the bulk and take out those that went. Happens by itself.
    pub fn compact(&mut self) {
        for query in std::mem::take(&mut self.dead) {
            self.take_out(query);
        }
        let mut recent = std::mem::take(&mut self.recent);
        recent.sort_unstable();
        recent.dedup();
        for query in recent {
            let population = &mut self.population;
            self.compiled.move_places(query, |place| population.promote(place));
            self.keep_untold_text(query);
        }
        self.interner.tidy();
        self.bulk_version += 1;
        self.log.forget();
        self.warm.store(false, Ordering::Relaxed);
    }

    /// Keep the text of a query that is at the end of its path with others now, where it would not be found.
    fn keep_untold_text(&mut self, query: u32) {
        let Some((layer, item)) = self.compiled.path(query) else { return };
        let nfa = &self.population.paths(layer).nfa;
        if nfa.first_accepted(nfa.state_of_item(item)) != Some(query) {
            let text = self.text_of(query).into_owned();
            self.registry.keep_text(query, &text);
        }
    }

    fn compile(&mut self, text: &str, context: u32) -> Result<NewQuery, QueryError> {
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
        let needs = Needs { rewrites: program.is_some(), ..needs(&routes) };
        let evaluated = match &program {
            Some(program) if necessary => Evaluated::Bindings(Arc::clone(program)),
            _ if whole => Evaluated::Expr(Arc::new(expr)),
            _ => Evaluated::Nothing,
        };
        Ok(NewQuery { routes, evaluated, program, needs, warning })
    }

    fn parse(&mut self, text: &str, context: u32) -> Result<Query, QueryError> {
        let context = self.registry.context(context);
        let options = ParseOptions { namespaces: &context.namespaces, dialect: context.dialect, limits: &self.limits };
        query::parse(text, &options, &mut self.vocabulary)
    }

    fn register(&mut self, context: u32, mut new: NewQuery) -> u32 {
        let query = self.registry.add_query(context);
        let mut changes = Vec::new();
        let mut routes = std::mem::take(&mut new.routes);
        if self.is_guided(query, context, new.program.as_deref()) {
            routes.clear();
            (new.needs.attributes, new.needs.text) = (true, true);
        }
        let layer = self.layer();
        let places = Places::from(self.population.insert(query, routes, layer, &mut changes));
        self.log.extend(changes);
        if layer == Layer::Recent && !places.as_slice().is_empty() {
            self.recent.push(query);
        }
        self.count_needs(new.needs, true);
        let family = new.program.as_ref().map_or(FamilyRef::NONE, |program| program.family_ref());
        self.compiled.put(query, new.compiled(places));
        if family != FamilyRef::NONE && self.families.len() <= query as usize {
            self.families.resize(query as usize + 1, FamilyRef::NONE);
        }
        if let Some(known) = self.families.get_mut(query as usize) {
            *known = family;
        }
        query
    }

    /// Files a query with those that guides decide, if it is of the kind; whether it is.
    fn is_guided(&mut self, query: u32, context: u32, program: Option<&Program>) -> bool {
        let is_own = self.registry.context(context).dialect != Dialect::XQuery;
        is_own && program.is_some_and(|program| self.classes.add(query, program))
    }

    fn count_needs(&mut self, needs: Needs, added: bool) {
        let (attributes, text) = (usize::from(needs.attributes), usize::from(needs.text));
        let rewrites = usize::from(needs.rewrites);
        if added {
            self.needing.0 += attributes;
            self.needing.1 += text;
            self.needing.2 += rewrites;
        } else {
            self.needing.0 -= attributes;
            self.needing.1 -= text;
            self.needing.2 -= rewrites;
        }
    }

    pub(crate) fn evaluated(&self, query: u32) -> &Evaluated {
        self.compiled.evaluated(query)
    }

    /// What a query delivers, if it rewrites.
    pub(crate) fn program(&self, query: u32) -> Option<&Program> {
        self.compiled.program(query)
    }

    pub(crate) fn evaluator<'a>(&'a self, message: Message<'a>) -> Evaluator<'a> {
        Evaluator::new(message, &self.vocabulary, &[]).with_budget(self.limits.query_visits_max as u64)
    }

    /// Match one message; the answer is in the matcher ([`Matcher::matched`], [`Self::slots`]).
    ///
    /// # Errors
    /// The message is malformed, over a limit, or needs conversion first.
    pub fn run(&self, matcher: &mut Matcher, source: &[u8]) -> Result<(), MessageError> {
        let want = Want { attributes: self.needing.0 > 0, text: self.needing.1 > 0 };
        self.run_wanting(matcher, source, want, true)
    }

    /// Like [`Self::run`], for a message that comes as an element stream (see [`crate::stream`]).
    ///
    /// # Errors
    /// The stream is damaged, of another version or dictionary, or what it says is no message or over a limit.
    pub fn run_stream(
        &self,
        matcher: &mut Matcher,
        stream: &[u8],
        dictionary: &Dictionary,
    ) -> Result<(), MessageError> {
        let want = Want { attributes: self.needing.0 > 0, text: self.needing.1 > 0 };
        self.catch_up(matcher);
        self.warm.store(true, Ordering::Relaxed);
        matcher.with_stream(self, (stream, dictionary), want, |matcher, source| matcher.run(self, source, true))
    }

    fn run_wanting(&self, matcher: &mut Matcher, source: &[u8], want: Want, marks: bool) -> Result<(), MessageError> {
        self.catch_up(matcher);
        matcher.scan(self, source, want)?;
        if !self.warm.load(Ordering::Relaxed) {
            self.warm.store(true, Ordering::Relaxed);
        }
        matcher.run(self, source, marks);
        Ok(())
    }

    fn catch_up(&self, matcher: &mut Matcher) {
        if matcher.valid_for != (self.identity, self.bulk_version) {
            matcher.forget();
            matcher.valid_for = (self.identity, self.bulk_version);
        } else {
            match self.log.since(matcher.version) {
                Some(changes) => matcher.follow(self, changes),
                None => matcher.forget_recent(),
            }
        }
        matcher.version = self.log.version();
    }

    /// The key of a slot.
    pub fn key(&self, slot: Slot) -> Option<&str> {
        self.registry.key(slot)
    }

    /// One past the largest slot.
    pub fn slot_bound(&self) -> usize {
        self.registry.slot_bound()
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &str) -> Option<Slot> {
        self.registry.slot_of(key)
    }

    /// The text and context of a subscription's query.
    pub fn query_of(&self, slot: Slot) -> Option<(Cow<'_, str>, &QueryContext)> {
        let query = self.registry.query_of(slot)?;
        Some((self.text_of(query), self.context_of(query)))
    }

    fn context_of(&self, query: u32) -> &QueryContext {
        self.registry.context(self.registry.query(query).1)
    }

    /// Does the subscription deliver a payload of its own?
    pub fn rewrites(&self, slot: Slot) -> bool {
        let query = self.registry.query_of(slot);
        query.is_some_and(|query| self.rewrites_query(query))
    }

    /// Whether results of different queries are computed together, as they are unless told otherwise. What is delivered
    /// is the same; this is for measuring what sharing is worth.
    pub fn share_results(&mut self, share: bool) {
        self.unshared_results = !share;
    }

    /// May there be queries that another processor evaluates?
    pub fn has_external(&self) -> bool {
        self.registry.contexts().any(|context| context.dialect == Dialect::XQuery)
    }

    /// Does another processor evaluate the subscription's query? To match here is only necessary then.
    pub fn is_external(&self, slot: Slot) -> bool {
        self.registry.query_of(slot).is_some_and(|query| self.context_of(query).dialect == Dialect::XQuery)
    }

    /// All subscriptions: key, query text, context.
    pub fn subscriptions(&self) -> impl Iterator<Item = (&str, Cow<'_, str>, &QueryContext)> {
        (0..self.slot_bound() as Slot).filter_map(|slot| {
            let (text, context) = self.query_of(slot)?;
            Some((self.key(slot)?, text, context))
        })
    }

    /// Counts and sizes of the shared structures.
    pub fn statistics(&self) -> BTreeMap<&'static str, usize> {
        BTreeMap::from([
            ("subscriptions", self.registry.len()),
            ("contexts", self.registry.contexts().count()),
            ("queries", self.compiled.count() - self.dead.len()),
            ("recent_queries", self.recent.len()),
            ("dead_queries", self.dead.len()),
            ("nfa_states", self.population.main.nfa.state_count() + self.population.recent.nfa.state_count() - 1),
            ("nfa_bytes", self.population.main.nfa.bytes() + self.population.recent.nfa.bytes()),
            ("twigs", self.population.twigs.len()),
            ("branches", self.population.branches.len()),
            ("branch_bytes", self.population.branches.bytes()),
            ("triggers", self.population.triggers.len()),
            ("crowded_states", self.population.main.crowded.len() + self.population.recent.crowded.len()),
            ("evaluated_always", self.population.always.len()),
            ("condition_bytes", self.population.conditions.bytes()),
            ("atom_bytes", self.population.atoms.bytes()),
            ("registry_bytes", self.registry.bytes()),
            ("compiled_bytes", self.compiled.bytes()),
        ])
    }
}

/// A query compiled but not registered yet.
struct NewQuery {
    routes: Vec<Route>,
    evaluated: Evaluated,
    program: Option<Arc<Program>>,
    needs: Needs,
    warning: Option<Warning>,
}

impl NewQuery {
    fn compiled(self, places: Places) -> CompiledQuery {
        let Self { evaluated, program, needs, warning, .. } = self;
        CompiledQuery { places, evaluation: Evaluation::of(evaluated, program), needs, warning }
    }
}

/// What is worth saying of a query with these routes; `necessary`: it may not match where its expression is true.
fn warning(expr: &Expr, routes: &[Route], necessary: bool) -> Option<Warning> {
    match certainty::truth(expr) {
        Some(false) => Some(Warning::NeverMatches),
        Some(true) if !necessary => Some(Warning::AlwaysMatches),
        _ if routes.is_empty() => Some(Warning::NeverMatches),
        _ => routes.iter().any(|route| matches!(route.action, Action::Always)).then_some(Warning::EvaluatedAlways),
    }
}

fn needs(routes: &[Route]) -> Needs {
    // A trigger's conditions may ask for anything; telling attributes from text there would spare the scanner little.
    let by_value = routes.iter().any(|route| matches!(route.action, Action::Trigger { .. } | Action::Always));
    let keys_only = routes.iter().all(|route| match &route.action {
        Action::Accept | Action::Twig(_) => true,
        Action::Trigger { key: Some(key), verify } if verify.is_exact() => {
            key.value.is_attribute() && verify.also.iter().all(|key| key.value.is_attribute())
        }
        _ => false,
    });
    Needs { attributes: by_value, text: by_value && !keys_only, rewrites: false }
}

/// How one query would run, without registering it.
#[derive(Clone, Debug)]
pub struct Check {
    /// The query's normal form.
    pub normal_form: String,
    /// Name of the route, see [`plan::route_name`].
    pub route: &'static str,
    /// What the route means, in one sentence.
    pub reason: &'static str,
    /// What registration would warn of.
    pub warning: Option<Warning>,
}

/// Parse and plan a query alone.
///
/// # Errors
/// The query is refused.
pub fn check(text: &str, context: &QueryContext, limits: &Limits) -> Result<Check, QueryError> {
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
    Ok(Check { normal_form: printed.text, route, reason, warning: new.warning })
}

/// The name of a dialect in interfaces.
pub fn dialect_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::XPath => "xpath",
        Dialect::Legacy => "legacy",
        Dialect::XQuery => "xquery",
    }
}

/// Dialect by the name used in interfaces.
pub fn dialect(name: &str) -> Option<Dialect> {
    match name {
        "xpath" => Some(Dialect::XPath),
        "legacy" => Some(Dialect::Legacy),
        "xquery" => Some(Dialect::XQuery),
        _ => None,
    }
}
