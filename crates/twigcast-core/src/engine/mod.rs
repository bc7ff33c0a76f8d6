//! The engine: subscriptions in, matches out.
//!
//! [`Engine`] holds what all threads share and only registration changes: vocabulary, compiled queries, subscriptions.
//! [`Matcher`] holds what one thread changes while it matches. A matcher follows the engine's changes before its next
//! message, so a change counts from the next message on and never interrupts matching.
//!
//! ```
//! use twigcast_core::engine::{Engine, Matcher, QueryContext};
//! use twigcast_core::limits::Limits;
//!
//! let mut engine = Engine::new(Limits::default());
//! let context = QueryContext::default();
//! engine.add("cheap", "/offers/offer[price < 10]", &context, false).expect("a valid query");
//! engine.add("books", "//offer[@kind = 'book']", &context, false).expect("a valid query");
//!
//! let mut matcher = Matcher::new();
//! let message = b"<offers><offer kind='book'><price>12</price></offer></offers>";
//! engine.run(&mut matcher, message).expect("a well-formed message");
//! let keys: Vec<_> = engine.answer(&matcher).slots().into_iter().filter_map(|slot| engine.key(slot)).collect();
//! assert_eq!(keys, ["books"]);
//! ```

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

pub use crate::ids::Slot;
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
pub use subscription_table::QueryContext;
use subscription_table::SubscriptionTable;

/// The reason why a subscription was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddError {
    /// Another subscription has the key.
    DuplicateKey,
    /// The query was refused.
    Query(QueryError),
}

/// A population of subscriptions, compiled.
///
/// Equal queries in equal contexts are one query, with several subscribers. Each query is registered in the query index,
/// or, if it is a For-Where-Return query of a common form, in the catalog of the batch rewriter.
#[derive(Debug)]
pub struct Engine {
    limits: Limits,
    vocabulary: Vocabulary,
    population: QueryIndex,
    registry: SubscriptionTable,
    /// The parts that For-Where-Return queries have in common.
    interner: Interner,
    compiled: CompiledQueries,
    /// For each query, its family of For-Where-Return queries. Apart from the other data of a query, so that delivering
    /// stays in the processor's cache; only as long as such queries need.
    families: Vec<FamilyRef>,
    /// The queries that the batch rewriter decides. They are not in the query index.
    classes: QueryCatalog,
    needs: NeedCounts,
    /// Changes whenever the main segment does.
    main_version: u64,
    /// Results are computed for each query by itself.
    unshared_results: bool,
    /// A message was matched since the main segment last changed, so that matchers have caches that depend on it.
    warm: AtomicBool,
    /// Queries that may have registrations in the recent segment.
    recent: Vec<u32>,
    /// Tombstones: queries without subscribers that are still in the main segment.
    tombstones: Vec<u32>,
    /// The number of additions and removals so far.
    changes: u64,
    /// The number of names that queries mentioned after the last vocabulary GC (see [`vocabulary_gc`]).
    names_in_use: usize,
    /// Distinguishes this engine from others, so that a matcher notices when it is used with another one.
    identity: u64,
    /// Scratch: the steps of a query's path, and its printed text.
    steps: Vec<LinearStep>,
    printed: String,
}

static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(1);

impl Engine {
    /// Creates an engine without subscriptions.
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
            main_version: 0,
            unshared_results: false,
            warm: AtomicBool::new(false),
            recent: Vec::new(),
            tombstones: Vec::new(),
            changes: 0,
            names_in_use: 0,
            identity: NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed),
            steps: Vec::new(),
            printed: String::new(),
        }
    }

    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the names that queries mention.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns the number of subscriptions.
    pub fn len(&self) -> usize {
        self.registry.len()
    }

    /// Returns `true` if the set holds no subscriptions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a number that grows with each change of the population.
    pub fn version(&self) -> u64 {
        self.changes
    }

    /// Returns one past the largest query number.
    pub fn query_bound(&self) -> usize {
        self.compiled.bound()
    }

    /// Returns what is kept of a query to evaluate it by itself.
    pub(crate) fn evaluated(&self, query: u32) -> &EvaluationSource {
        self.compiled.evaluated(query)
    }

    /// Returns the program of a query, if it rewrites.
    pub(crate) fn program(&self, query: u32) -> Option<&Program> {
        self.compiled.program(query)
    }

    /// Returns an evaluator for a message, with the budget of one query.
    pub(crate) fn evaluator<'a>(&'a self, message: Message<'a>) -> Evaluator<'a> {
        Evaluator::new(message, &self.vocabulary, &[]).with_budget(self.limits.query_visits_max as u64)
    }

    /// Returns the key of a slot in use.
    pub fn key(&self, slot: Slot) -> Option<&str> {
        self.registry.key(slot)
    }

    /// Returns a number that changes when a slot is reused. While it stays the same, slots in use keep their keys; free
    /// slots may come into use.
    pub fn keys_version(&self) -> u64 {
        self.registry.keys_version()
    }

    /// Returns one past the largest slot.
    pub fn slot_bound(&self) -> usize {
        self.registry.slot_bound()
    }

    /// Returns the slot of a key.
    pub fn slot_of(&self, key: &str) -> Option<Slot> {
        self.registry.slot_of(key)
    }

    /// Returns the text and the context of a subscription's query.
    pub fn query_of(&self, slot: Slot) -> Option<(Cow<'_, str>, &QueryContext)> {
        let query = self.registry.query_of(slot)?;
        Some((self.text_of(query), self.context_of(query)))
    }

    fn context_of(&self, query: u32) -> &QueryContext {
        self.registry.context(self.registry.query(query).1)
    }

    /// Returns `true` if the subscription delivers a result instead of the message.
    pub fn rewrites(&self, slot: Slot) -> bool {
        let query = self.registry.query_of(slot);
        query.is_some_and(|query| self.rewrites_query(query))
    }

    /// Chooses whether results of different queries are computed together, as they are by default. Deliveries are the same
    /// either way; this serves to measure what sharing saves.
    pub fn share_results(&mut self, share: bool) {
        self.unshared_results = !share;
    }

    /// Returns `true` if there may be external queries.
    pub fn has_external(&self) -> bool {
        self.registry.contexts().any(|context| context.dialect == Dialect::XQuery)
    }

    /// Returns `true` if the subscription's query is external: a match is then only necessary for its result.
    pub fn is_external(&self, slot: Slot) -> bool {
        self.registry.query_of(slot).is_some_and(|query| self.context_of(query).dialect == Dialect::XQuery)
    }

    /// Returns all subscriptions: key, text and context of the query.
    pub fn subscriptions(&self) -> impl Iterator<Item = (&str, Cow<'_, str>, &QueryContext)> {
        (0..self.slot_bound() as Slot).filter_map(|slot| {
            let (text, context) = self.query_of(slot)?;
            Some((self.key(slot)?, text, context))
        })
    }

    /// Returns counts and sizes of the shared structures.
    pub fn statistics(&self) -> BTreeMap<&'static str, usize> {
        BTreeMap::from([
            ("subscriptions", self.registry.len()),
            ("contexts", self.registry.contexts().count()),
            ("queries", self.compiled.count() - self.tombstones.len()),
            ("recent_queries", self.recent.len()),
            ("dead_queries", self.tombstones.len()),
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

/// Returns the name of a dialect in interfaces.
pub fn dialect_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::XPath => "xpath",
        Dialect::Legacy => "legacy",
        Dialect::XQuery => "xquery",
    }
}

/// Returns the dialect with a name in interfaces.
pub fn dialect(name: &str) -> Option<Dialect> {
    match name {
        "xpath" => Some(Dialect::XPath),
        "legacy" => Some(Dialect::Legacy),
        "xquery" => Some(Dialect::XQuery),
        _ => None,
    }
}
