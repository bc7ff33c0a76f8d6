//! The engine: subscriptions in, matches out.
//!
//! [`Engine`] holds what all threads share and only registration changes: vocabulary, compiled queries, subscriptions.
//! [`Matcher`] holds what one thread changes while it matches. A matcher follows the engine's changes by itself, before
//! the next message, so a change counts from the next message on and never stops anybody.

mod answer;
mod bulk_insert;
mod compile;
mod compiled;
mod decide;
mod deliveries;
mod early_stop;
mod matcher;
mod matching;
mod needs;
mod node_selection;
mod parsed_queries;
mod path_cache;
mod prepared_deliveries;
mod product;
mod query_index;
mod query_set;
pub mod routing;
mod slot_order;
mod stream_matcher;
mod subscribe;
mod subscribers;
mod subscription_table;
mod vocabulary_gc;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::document::Message;
use crate::error::QueryError;
use crate::eval::Evaluator;
use crate::limits::Limits;
use crate::plan::LinearStep;
use crate::query::Dialect;
use crate::rewrite::batch::QueryCatalog;
use crate::rewrite::program::family::FamilyRef;
use crate::rewrite::{Interner, Program};
use crate::vocabulary::Vocabulary;

pub use answer::{Answer, KeySnapshot};
pub use bulk_insert::BulkReport;
pub use compile::{QueryCheck, check};
use compiled::CompiledQueries;
pub use compiled::EvaluationSource;
pub use deliveries::MessageDeliveries;
pub use matcher::Matcher;
use needs::NeedCounts;
pub use needs::QueryWarning;
pub use node_selection::SelectedNode;
pub use prepared_deliveries::PreparedDeliveries;
use query_index::QueryIndex;
pub use query_set::QuerySet;
#[cfg(target_arch = "x86_64")]
pub(crate) use query_set::use_avx2;
use subscription_table::SubscriptionTable;
pub use subscription_table::{QueryContext, Slot};

/// Why a subscription was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddError {
    /// The key is taken.
    DuplicateKey,
    /// The query was refused.
    Query(QueryError),
}

/// A population of subscriptions, compiled. See the module's documentation.
#[derive(Debug)]
pub struct Engine {
    limits: Limits,
    vocabulary: Vocabulary,
    population: QueryIndex,
    registry: SubscriptionTable,
    /// What For-Where-Return queries have in common.
    interner: Interner,
    compiled: CompiledQueries,
    /// By query: what it has in common with others that rewrite. Apart, so that delivering stays in the cache; only as
    /// long as such queries ask for.
    families: Vec<FamilyRef>,
    /// The queries that are in no other shared structure: see [`crate::rewrite::batch`].
    classes: QueryCatalog,
    needs: NeedCounts,
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
    /// Additions and removals so far.
    changes: u64,
    /// Names that queries mentioned when this was last looked at (see [`vocabulary_gc`]).
    names_in_use: usize,
    /// Tells this engine from others, so that a matcher notices when it is handed another one.
    identity: u64,
    /// The path of the query in hand, and its text.
    steps: Vec<LinearStep>,
    printed: String,
}

static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(1);

impl Engine {
    /// An engine without subscriptions.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            vocabulary: Vocabulary::new(),
            population: QueryIndex::default(),
            registry: SubscriptionTable::default(),
            interner: Interner::default(),
            compiled: CompiledQueries::default(),
            families: Vec::new(),
            classes: QueryCatalog::default(),
            needs: NeedCounts::default(),
            bulk_version: 0,
            unshared_results: false,
            warm: AtomicBool::new(false),
            recent: Vec::new(),
            dead: Vec::new(),
            changes: 0,
            names_in_use: 0,
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

    pub(crate) fn evaluated(&self, query: u32) -> &EvaluationSource {
        self.compiled.evaluated(query)
    }

    /// What a query delivers, if it rewrites.
    pub(crate) fn program(&self, query: u32) -> Option<&Program> {
        self.compiled.program(query)
    }

    pub(crate) fn evaluator<'a>(&'a self, message: Message<'a>) -> Evaluator<'a> {
        Evaluator::new(message, &self.vocabulary, &[]).with_budget(self.limits.query_visits_max as u64)
    }

    /// The key of a slot.
    pub fn key(&self, slot: Slot) -> Option<&str> {
        self.registry.key(slot)
    }

    /// As long as it stays, slots that are in use now have no other keys than now; others may come into use.
    pub fn keys_version(&self) -> u64 {
        self.registry.keys_version()
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
            ("crowded_states", self.population.main.trigger_tables.len() + self.population.recent.trigger_tables.len()),
            ("accesses", self.population.access_count()),
            ("access_bytes", self.population.access_bytes()),
            ("conditions", self.population.shared.len()),
            ("evaluated_always", self.population.always.len()),
            ("condition_bytes", self.population.shared.structures.bytes()),
            ("atom_bytes", self.population.atoms.bytes()),
            ("registry_bytes", self.registry.bytes()),
            ("compiled_bytes", self.compiled.bytes()),
        ])
    }
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
