//! The engine: subscriptions in, matches out.
//!
//! [`Engine`] holds the state that all threads share and only registration changes: vocabulary, compiled queries,
//! subscriptions. [`Matcher`] holds the state of one matching thread. A matcher catches up with the engine before its next
//! message, so a change takes effect with the next message and never interrupts matching. If threads match while others
//! change the population, they match on versions of it (see [`Engine::successor`]).
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
mod budget;
mod bulk_insert;
mod compile;
mod compiled;
mod cover_choice;
mod decide;
mod deliveries;
mod description;
mod early_stop;
mod groups;
mod matcher;
mod matching;
mod needs;
mod node_selection;
mod parse_block;
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
mod throttle;
mod unread_numbers;
mod versions;
mod vocabulary_gc;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::document::Message;
use crate::error::QueryError;
use crate::eval::Evaluator;
use crate::limits::Limits;
use crate::plan::LinearStep;
use crate::query::Dialect;
use crate::query::forms::QueryForms;
use crate::rewrite::batch::BatchQueries;
use crate::rewrite::program::family::FamilyRef;
use crate::rewrite::{Interner, Program};
use crate::util::chunked::Chunked;
use crate::vocabulary::Vocabulary;

pub use crate::ids::Slot;
pub use answer::{Answer, KeySnapshot, MatchedQueries};
pub use bulk_insert::BulkReport;
use compiled::CompiledQueries;
pub use compiled::EvaluationSource;
pub use deliveries::MessageDeliveries;
pub use description::{QueryCheck, check};
pub use matcher::Matcher;
use needs::NeedCounts;
pub use needs::QueryWarning;
pub use node_selection::SelectedNode;
use parse_block::ParseBlock;
pub use prepared_deliveries::PreparedDeliveries;
use query_index::QueryIndex;
pub use query_set::QuerySet;
#[cfg(target_arch = "x86_64")]
pub(crate) use query_set::use_avx2;
pub use subscription_table::QueryContext;
use subscription_table::SubscriptionTable;
use throttle::Throttle;
pub use throttle::ThrottledQuery;
pub use unread_numbers::{UnreadNumber, UnreadNumbers};

/// The reason why a subscription was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddError {
    /// Another subscription has the key.
    DuplicateKey,
    /// The query was refused.
    Query(QueryError),
}

/// A subscription as it was registered.
#[derive(Clone, Debug)]
pub struct SubscriptionRecord<'a> {
    /// Its key.
    pub key: &'a str,
    /// The text of its query.
    pub text: Cow<'a, str>,
    /// The context of its query.
    pub context: &'a QueryContext,
    /// The name of its group; empty if it has none.
    pub group: &'a str,
}

/// A population of subscriptions, compiled.
///
/// Equal queries in equal contexts are one query, with several subscribers. Each query is registered in the query index,
/// or, if it is a For-Where-Return query of a common form, among the batch queries.
#[derive(Debug)]
pub struct Engine {
    limits: Limits,
    vocabulary: Vocabulary,
    query_index: QueryIndex,
    subscription_table: SubscriptionTable,
    /// The parts that For-Where-Return queries have in common.
    interner: Interner,
    compiled: CompiledQueries,
    /// For each query, its family of For-Where-Return queries. Apart from the other data of a query, so that delivering
    /// stays in the processor's cache; only as long as such queries need.
    families: Arc<Vec<FamilyRef>>,
    /// The queries that the batch rewriter decides. They are not in the query index.
    batch_queries: BatchQueries,
    needs: NeedCounts,
    /// The queries that overran on messages.
    throttle: Arc<Throttle>,
    unread_numbers: Arc<UnreadNumbers>,
    /// Grows when the main segment changes so that no cache of a matcher is valid any more (see [`Matcher`]'s `valid_for`).
    main_version: u64,
    /// Results are computed for each query by itself.
    unshared_results: bool,
    /// A message was matched since the main segment last changed, so that matchers have caches that depend on it.
    warm: AtomicBool,
    /// Queries that may have registrations in the recent segment.
    recent: Chunked<u32>,
    /// Tombstones: queries without subscribers that are still in the main segment.
    tombstones: Chunked<u32>,
    /// The number of additions and removals so far.
    changes: u64,
    /// The number of names that queries mentioned after the last vocabulary GC (see [`vocabulary_gc`]).
    names_in_use: usize,
    /// Distinguishes this engine from others, so that a matcher notices when it is used with another one.
    identity: u64,
    /// How many [`successors`](Self::successor) led here, so that the later one of two versions has the greater number.
    /// [`Self::version`] counts changes instead, of which one successor may take many.
    edition: u64,
    /// Scratch: the steps of a query's path, its printed text, and many subscriptions, parsed.
    steps: Vec<LinearStep>,
    printed: String,
    block: ParseBlock,
    /// The forms of the queries that were parsed lately.
    forms: QueryForms<Arc<QueryContext>>,
}

static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(1);

impl Engine {
    /// Creates an engine without subscriptions.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            vocabulary: Vocabulary::new(),
            query_index: QueryIndex::default(),
            subscription_table: SubscriptionTable::default(),
            interner: Interner::default(),
            compiled: CompiledQueries::default(),
            families: Arc::default(),
            batch_queries: BatchQueries::default(),
            needs: NeedCounts::default(),
            throttle: Arc::default(),
            unread_numbers: Arc::default(),
            main_version: 0,
            unshared_results: false,
            warm: AtomicBool::new(false),
            recent: Chunked::default(),
            tombstones: Chunked::default(),
            changes: 0,
            names_in_use: 0,
            identity: NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed),
            edition: 0,
            steps: Vec::new(),
            printed: String::new(),
            block: ParseBlock::default(),
            forms: QueryForms::default(),
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
        self.subscription_table.len()
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
        Evaluator::new(message, &self.vocabulary, &[]).with_budget(self.limits.query_visits(message.visits_of_size()))
    }

    /// Returns the key of a slot in use.
    pub fn key(&self, slot: Slot) -> Option<&str> {
        self.subscription_table.key(slot)
    }

    /// Returns a number that changes when a slot is reused. While it stays the same, slots in use keep their keys; free
    /// slots may come into use.
    pub fn keys_version(&self) -> u64 {
        self.subscription_table.keys_version()
    }

    /// Returns one past the largest slot.
    pub fn slot_bound(&self) -> usize {
        self.subscription_table.slot_bound()
    }

    /// Returns the slot of a key.
    pub fn slot_of(&self, key: &str) -> Option<Slot> {
        self.subscription_table.slot_of(key)
    }

    /// Returns the text and the context of a subscription's query.
    pub fn query_of(&self, slot: Slot) -> Option<(Cow<'_, str>, &QueryContext)> {
        let query = self.subscription_table.query_of(slot)?;
        Some((self.text_of(query), self.context_of(query)))
    }

    fn context_of(&self, query: u32) -> &QueryContext {
        self.subscription_table.context(self.subscription_table.query(query).1)
    }

    /// Returns `true` if the subscription delivers a result instead of the message.
    pub fn rewrites(&self, slot: Slot) -> bool {
        let query = self.subscription_table.query_of(slot);
        query.is_some_and(|query| self.rewrites_query(query))
    }

    /// Puts a subscription into a group, which has a budget of its own in each message; the empty name stands for the group
    /// of all that have none. Returns `false` if there is no subscription with this key.
    pub fn assign_group(&mut self, key: &str, group: &str) -> bool {
        let slot = self.subscription_table.slot_of(key);
        if let Some(slot) = slot {
            self.subscription_table.groups_mut().assign(slot, group);
        }
        slot.is_some()
    }

    /// Returns the name of a subscription's group.
    pub fn group(&self, slot: Slot) -> &str {
        self.subscription_table.groups().name(slot)
    }

    /// Returns the subscriptions that are set aside on the next message, with why and for how long, by slot.
    pub fn throttled(&self) -> Vec<(Slot, ThrottledQuery)> {
        let mut list = Vec::new();
        let mut slots = Vec::new();
        for throttled in self.throttle.set_aside() {
            slots.clear();
            self.subscription_table.subscribers().append_subscribers(throttled.query, &mut slots);
            list.extend(slots.iter().map(|&slot| (slot, throttled)));
        }
        // Of one that is set aside for both stages, the longer pause.
        list.sort_unstable_by_key(|&(slot, throttled)| (slot, std::cmp::Reverse(throttled.messages)));
        list.dedup_by_key(|&mut (slot, _)| slot);
        list
    }

    /// Chooses whether results of different queries are computed together, as they are by default. Deliveries are the same
    /// either way; this serves to measure what sharing saves.
    pub fn share_results(&mut self, share: bool) {
        self.unshared_results = !share;
    }

    /// Returns the values with exponents that comparisons have read as no number.
    pub fn unread_numbers(&self) -> &Arc<UnreadNumbers> {
        &self.unread_numbers
    }

    /// Returns `true` if there may be external queries.
    pub fn has_external(&self) -> bool {
        self.subscription_table.has_external()
    }

    /// Returns `true` if the subscription's query is external: a match is then only necessary for its result.
    pub fn is_external(&self, slot: Slot) -> bool {
        self.subscription_table.query_of(slot).is_some_and(|query| self.context_of(query).dialect == Dialect::XQuery)
    }

    /// Returns all subscriptions.
    pub fn subscriptions(&self) -> impl Iterator<Item = SubscriptionRecord<'_>> {
        (0..self.slot_bound() as Slot).filter_map(|slot| {
            let (text, context) = self.query_of(slot)?;
            Some(SubscriptionRecord { key: self.key(slot)?, text, context, group: self.group(slot) })
        })
    }

    /// Returns the counts and the sizes of the shared structures.
    pub fn statistics(&self) -> BTreeMap<&'static str, usize> {
        BTreeMap::from([
            ("subscriptions", self.subscription_table.len()),
            ("contexts", self.subscription_table.contexts().count()),
            ("queries", self.compiled.count() - self.tombstones.len()),
            ("recent_queries", self.recent.len()),
            ("dead_queries", self.tombstones.len()),
            ("nfa_states", self.query_index.main.nfa.state_count() + self.query_index.recent.nfa.state_count() - 1),
            ("nfa_bytes", self.query_index.main.nfa.bytes() + self.query_index.recent.nfa.bytes()),
            ("twigs", self.query_index.twigs.len()),
            ("branches", self.query_index.branches.len()),
            ("branch_bytes", self.query_index.branches.bytes()),
            ("triggers", self.query_index.triggers.len()),
            (
                "crowded_states",
                self.query_index.main.trigger_tables.len() + self.query_index.recent.trigger_tables.len(),
            ),
            ("accesses", self.query_index.access_count()),
            ("access_bytes", self.query_index.access_bytes()),
            ("conditions", self.query_index.shared.len()),
            ("groups", self.subscription_table.groups().count()),
            ("unread_numbers", usize::try_from(self.unread_numbers.count()).unwrap_or(usize::MAX)),
            ("throttled", self.throttle.set_aside_count()),
            ("evaluated_always", self.query_index.always.len()),
            ("condition_bytes", self.query_index.shared.structures.bytes()),
            ("atom_bytes", self.query_index.atoms.bytes()),
            ("registry_bytes", self.subscription_table.bytes()),
            ("compiled_bytes", self.compiled.bytes()),
        ])
    }
}

/// Returns the name of a dialect in interfaces.
pub fn dialect_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::XPath => "xpath",
        Dialect::Legacy => "legacy",
        Dialect::Doubles => "doubles",
        Dialect::Native => "native",
        Dialect::XQuery => "xquery",
    }
}

/// Returns the dialect with a name in interfaces.
pub fn dialect(name: &str) -> Option<Dialect> {
    match name {
        "xpath" => Some(Dialect::XPath),
        "legacy" => Some(Dialect::Legacy),
        "doubles" => Some(Dialect::Doubles),
        "native" => Some(Dialect::Native),
        "xquery" => Some(Dialect::XQuery),
        _ => None,
    }
}
