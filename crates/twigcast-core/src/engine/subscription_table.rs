//! Subscriptions by key and queries by text.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::budget::GroupId;
use super::groups::Groups;
use super::subscribers::{NONE, SOLE, SharingSlots, Subscribers, SubscribersByQuery};
use crate::ids::{Slot, StringId};
use crate::limits::Limits;
use crate::query::{Dialect, Parameters, ParseOptions};
use crate::util::chunked::Chunked;
use crate::util::cow_map::{CowHashTable, CowMap};
use crate::util::string_arena::{ArenaSpace, StringArena};

/// In place of a query's text: it is the printed path at whose end the query is accepted.
const AS_PATH: StringId = StringId::from_u32(u32::MAX);
/// In place of a query's context: the query has no subscribers any more.
const UNUSED: u32 = u32::MAX;
/// Queries that share an entry of [`SubscriptionTable::plain`]: those of one word of a query set.
const BLOCK: usize = 64;

/// Free slots are reused only when there are more than this, and more than one in so many slots. Until then, key tables
/// that callers have copied stay valid, and a new query gets a slot of its own number, like most.
const SPARE_SLOTS: usize = 64;
const SPARE_PART: usize = 8;

/// The context that gives a query's text its meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueryContext {
    /// Namespace URI by prefix; the empty prefix is the default element namespace.
    pub namespaces: BTreeMap<String, String>,
    /// The spellings that the query may use.
    pub dialect: Dialect,
    /// The values of the query's parameters.
    pub parameters: Parameters,
}

impl QueryContext {
    /// Returns a context without parameters.
    pub fn new(namespaces: BTreeMap<String, String>, dialect: Dialect) -> Self {
        Self { namespaces, dialect, parameters: Parameters::new() }
    }

    /// Returns the settings with which the context's queries are parsed.
    pub fn parse_options<'a>(&'a self, limits: &'a Limits) -> ParseOptions<'a> {
        ParseOptions::new(&self.namespaces, self.dialect, limits).with_parameters(&self.parameters)
    }
}

/// A distinct query.
#[derive(Clone, Debug)]
struct QueryEntry {
    text: StringId,
    context: u32,
    /// The number of subscriptions and other holders.
    uses: u32,
}

/// The distinct contexts of queries.
#[derive(Clone, Debug, Default)]
struct Contexts {
    contexts: Chunked<Option<Arc<QueryContext>>>,
    /// The number of queries with each context.
    uses: Chunked<u32>,
    ids: CowMap<Arc<QueryContext>, u32>,
    free: Chunked<u32>,
    /// The context that was last requested: bulk loads repeat it. It may have no use yet.
    last: Option<u32>,
    /// How many are of queries for another processor. Parameters make contexts many, and each message asks for these.
    external: usize,
}

impl Contexts {
    /// Returns the id of a context, which is added if it is new.
    fn intern(&mut self, context: &QueryContext) -> u32 {
        if let Some(last) = self.last {
            if self.contexts[last as usize].as_deref() == Some(context) {
                return last;
            }
            self.last = None;
            self.drop_unused(last);
        }
        let id = match self.ids.get(context) {
            Some(&id) => id,
            None => self.insert(Arc::new(context.clone())),
        };
        self.last = Some(id);
        id
    }

    fn insert(&mut self, context: Arc<QueryContext>) -> u32 {
        self.external += usize::from(context.dialect == Dialect::XQuery);
        let id = match self.free.pop() {
            Some(id) => {
                self.contexts[id as usize] = Some(Arc::clone(&context));
                id
            }
            None => {
                self.contexts.push(Some(Arc::clone(&context)));
                self.uses.push(0);
                self.uses.len() as u32 - 1
            }
        };
        self.ids.insert(context, id);
        id
    }

    /// Counts one use less.
    fn release(&mut self, id: u32) {
        self.uses[id as usize] -= 1;
        self.drop_unused(id);
    }

    fn drop_unused(&mut self, id: u32) {
        if self.uses[id as usize] > 0 || self.last == Some(id) {
            return;
        }
        if let Some(context) = self.contexts[id as usize].take() {
            self.external -= usize::from(context.dialect == Dialect::XQuery);
            self.ids.remove(&context);
            self.free.push(id);
        }
    }
}

/// All subscriptions and the distinct queries that they share.
#[derive(Clone, Debug, Default)]
pub(super) struct SubscriptionTable {
    subscribers: Arc<SubscribersByQuery>,
    key_space: ArenaSpace,
    /// For each slot of a query with several subscriptions, its index among them. Empty until a query has several.
    positions: Chunked<u32>,
    free_slot: Option<Slot>,
    free_slots: usize,
    /// Free slots are reused for new keys, until there are none.
    reuses_slots: bool,
    /// The number of times that a slot was reused.
    reused: u64,
    /// The number of times that a subscription was registered, modulo 2^32.
    registrations: u32,
    count: usize,
    by_key: CowHashTable<Slot>,
    queries: Chunked<QueryEntry>,
    /// The number of entries of `queries` that were never in use (see [`Self::skip_numbers`]).
    skipped: usize,
    texts: StringArena,
    text_space: ArenaSpace,
    /// For each [`BLOCK`] of queries, as bits, those with one subscription whose slot is the query's number: after a bulk load
    /// nearly all, and their subscribers need no lookup.
    plain: Vec<u64>,
    /// The same for queries with other subscriptions.
    other: Vec<u64>,
    /// The number of queries in each of the two.
    plain_count: usize,
    other_count: usize,
    free_sharing: Chunked<u32>,
    free_queries: Chunked<u32>,
    /// The queries whose text is kept, by text and context.
    by_text: CowHashTable<u32>,
    contexts: Contexts,
    groups: Groups,
    hasher: RandomState,
}

impl SubscriptionTable {
    /// Returns the number of subscriptions.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns one past the largest slot.
    pub(super) fn slot_bound(&self) -> usize {
        self.subscribers.keys.len()
    }

    /// Returns a number that changes when a slot is reused. While it stays the same, slots in use keep their keys.
    pub(super) fn keys_version(&self) -> u64 {
        self.reused
    }

    /// Returns the groups of subscriptions.
    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(super) fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
    }

    /// Returns the group that pays for the evaluation of a query: that of one of its subscriptions.
    pub(super) fn group_of_query(&self, query: u32) -> GroupId {
        match self.subscribers.subscribers(query) {
            Subscribers::Sole(slot) => self.groups.of(slot),
            Subscribers::Several(slots) => slots.first().map_or(0, |&slot| self.groups.of(slot)),
        }
    }

    /// Returns the subscribers of each query.
    pub(super) fn subscribers(&self) -> &Arc<SubscribersByQuery> {
        &self.subscribers
    }

    fn subscribers_mut(&mut self) -> &mut SubscribersByQuery {
        Arc::make_mut(&mut self.subscribers)
    }

    /// Returns the id of a context, which is added if it is new.
    pub(super) fn intern_context(&mut self, context: &QueryContext) -> u32 {
        self.contexts.intern(context)
    }

    /// Returns whether any context is one of queries for another processor.
    pub(super) fn has_external(&self) -> bool {
        self.contexts.external > 0
    }

    /// Returns all contexts in use.
    pub(super) fn contexts(&self) -> impl Iterator<Item = &QueryContext> {
        self.contexts.contexts.iter().flatten().map(Arc::as_ref)
    }

    /// Returns a context; the default one if the id is not in use.
    pub(super) fn context(&self, id: u32) -> &Arc<QueryContext> {
        static DEFAULT: std::sync::LazyLock<Arc<QueryContext>> = std::sync::LazyLock::new(Arc::default);
        self.contexts.contexts.get(id as usize).and_then(Option::as_ref).unwrap_or(&DEFAULT)
    }

    fn text_hash(&self, text: &str, context: u32) -> u64 {
        self.hasher.hash_one((text, context))
    }

    /// Returns the query with a text in a context, if its text is kept.
    pub(super) fn find_query(&self, text: &str, context: u32) -> Option<u32> {
        if self.by_text.is_empty() {
            return None;
        }
        let hash = self.text_hash(text, context);
        let existing = self.by_text.find(hash, |&query| {
            let entry = &self.queries[query as usize];
            entry.context == context && self.texts.get(entry.text) == text
        });
        existing.copied()
    }

    /// Returns `true` if a query has subscribers, this context, and its printed path as its text.
    pub(super) fn is_path(&self, query: u32, context: u32) -> bool {
        self.queries.get(query as usize).is_some_and(|entry| entry.text == AS_PATH && entry.context == context)
    }

    /// Adds a query without subscribers. Its text is its printed path, until [`Self::keep_text`].
    pub(super) fn add_query(&mut self, context: u32) -> u32 {
        self.contexts.uses[context as usize] += 1;
        let entry = QueryEntry { text: AS_PATH, context, uses: 0 };
        match self.free_queries.pop() {
            Some(query) => {
                self.queries[query as usize] = entry;
                query
            }
            None => {
                self.skip_numbers();
                self.push_query(entry);
                self.queries.len() as u32 - 1
            }
        }
    }

    fn push_query(&mut self, entry: QueryEntry) {
        self.queries.push(entry);
        self.subscribers_mut().subscribed.push(NONE);
        self.plain.resize(self.queries.len().div_ceil(BLOCK), 0);
        self.other.resize(self.plain.len(), 0);
    }

    /// Skips the numbers up to that of the slot that the next subscription gets, so that a new query has the number of its
    /// slot also where some subscriptions before shared a query. As long as at least half of the numbers are in use, this
    /// costs less than to look up the slot of each query that matches.
    fn skip_numbers(&mut self) {
        let slot = self.slot_bound();
        if self.reuses_slots || (self.queries.len() - self.skipped) * 2 < slot {
            return;
        }
        while self.queries.len() < slot {
            self.push_query(QueryEntry { text: AS_PATH, context: UNUSED, uses: 0 });
            self.skipped += 1;
        }
    }

    /// Keeps the text of a query, unless it is kept already.
    pub(super) fn keep_text(&mut self, query: u32, text: &str) {
        let Some(entry) = self.queries.get_mut(query as usize).filter(|entry| entry.text == AS_PATH) else { return };
        entry.text = self.text_space.put(&mut self.texts, text);
        let hash = self.hasher.hash_one((text, entry.context));
        let (queries, texts, hasher) = (&self.queries, &self.texts, &self.hasher);
        self.by_text.insert_unique(hash, query, |&other| {
            let entry = &queries[other as usize];
            hasher.hash_one((texts.get(entry.text), entry.context))
        });
    }

    /// Returns the text of a query, if it is kept, and the id of its context.
    pub(super) fn query(&self, query: u32) -> (Option<&str>, u32) {
        let entry = &self.queries[query as usize];
        ((entry.text != AS_PATH).then(|| self.texts.get(entry.text)), entry.context)
    }

    /// Counts one more holder of a query.
    pub(super) fn hold(&mut self, query: u32) {
        self.queries[query as usize].uses += 1;
    }

    /// Counts one holder less, without removing the query.
    pub(super) fn unhold(&mut self, query: u32) {
        self.queries[query as usize].uses -= 1;
    }

    /// Returns the number of subscriptions and other holders of a query.
    #[inline]
    pub(super) fn uses(&self, query: u32) -> u32 {
        self.queries.get(query as usize).map_or(0, |entry| entry.uses)
    }

    /// Counts one holder less. Returns `true` if that was the last, and the query was removed.
    pub(super) fn release(&mut self, query: u32) -> bool {
        self.unhold(query);
        let is_gone = self.uses(query) == 0;
        if is_gone {
            self.drop_query(query);
        }
        is_gone
    }

    /// Returns the hash of a key.
    #[inline]
    pub(super) fn key_hash(&self, key: &str) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Adds a subscription under a key that has none.
    pub(super) fn subscribe(&mut self, key: &str, hash: u64, query: u32) -> Slot {
        let free = self.free_slot.filter(|_| self.reuses_slots);
        self.registrations = self.registrations.wrapping_add(1);
        let subscribers = Arc::make_mut(&mut self.subscribers);
        let text = self.key_space.put(&mut subscribers.texts, key);
        let slot = match free {
            Some(slot) => {
                let next = subscribers.keys.get(slot as usize).map(|next| next.as_u32());
                self.free_slot = next.filter(|&next| next != NONE);
                self.free_slots -= 1;
                self.reuses_slots = self.free_slots > 0;
                self.reused += 1;
                subscribers.keys.set(slot as usize, text);
                subscribers.queries.set(slot as usize, query);
                subscribers.registrations.set(slot as usize, self.registrations);
                slot
            }
            None => {
                subscribers.queries.push(query);
                subscribers.registrations.push(self.registrations);
                subscribers.keys.push(text);
                subscribers.keys.len() as Slot - 1
            }
        };
        self.link(slot, query);
        self.queries[query as usize].uses += 1;
        self.count += 1;
        let (subscribers, hasher) = (&self.subscribers, &self.hasher);
        self.by_key.insert_unique(hash, slot, |&other| {
            hasher.hash_one(subscribers.keys.get(other as usize).map_or("", |&text| subscribers.texts.get(text)))
        });
        slot
    }

    /// Removes a subscription. Returns its query if that was the last subscription: it was removed, too.
    pub(super) fn unsubscribe(&mut self, slot: Slot) -> Option<u32> {
        let query = self.query_of(slot)?;
        let text = *self.subscribers.keys.get(slot as usize)?;
        let hash = self.hasher.hash_one(self.subscribers.texts.get(text));
        self.by_key.remove(hash, |&other| other == slot);
        self.unlink(slot, query);
        self.groups.release(slot);
        let subscribers = Arc::make_mut(&mut self.subscribers);
        self.key_space.remove(&mut subscribers.texts, text);
        subscribers.queries.set(slot as usize, NONE);
        subscribers.keys.set(slot as usize, StringId::from_u32(self.free_slot.unwrap_or(NONE)));
        self.free_slot = Some(slot);
        self.free_slots += 1;
        self.reuses_slots |= self.free_slots > SPARE_SLOTS + self.slot_bound() / SPARE_PART;
        self.count -= 1;
        let owner = &mut self.queries[query as usize];
        owner.uses -= 1;
        if owner.uses > 0 {
            return None;
        }
        self.drop_query(query);
        Some(query)
    }

    /// Returns the entry of a query in [`SubscribersByQuery::subscribed`].
    fn subscribed(&self, query: u32) -> u32 {
        self.subscribers.subscribed.get(query as usize).copied().unwrap_or(NONE)
    }

    /// Adds a slot to the subscriptions of a query.
    fn link(&mut self, slot: Slot, query: u32) {
        match self.subscribed(query) {
            NONE => self.set_subscribed(query, slot | SOLE),
            sole if sole & SOLE != 0 => {
                let sole = sole & !SOLE;
                self.set_position(sole, 0);
                self.set_position(slot, 1);
                let slots = Arc::new(SharingSlots::new(vec![sole, slot]));
                let free = self.free_sharing.pop();
                let sharing = &mut self.subscribers_mut().sharing;
                let number = match free {
                    Some(number) => {
                        sharing.set(number as usize, slots);
                        number
                    }
                    None => {
                        sharing.push(slots);
                        sharing.len() as u32 - 1
                    }
                };
                self.set_subscribed(query, number);
            }
            number => {
                let Some(slots) = self.subscribers_mut().sharing.get_mut(number as usize) else { return };
                let position = Arc::make_mut(slots).push(slot);
                self.set_position(slot, position);
            }
        }
    }

    fn set_position(&mut self, slot: Slot, position: u32) {
        while self.positions.len() <= slot as usize {
            self.positions.push(0);
        }
        self.positions[slot as usize] = position;
    }

    /// Removes a slot from the subscriptions of a query.
    fn unlink(&mut self, slot: Slot, query: u32) {
        let number = self.subscribed(query);
        if number & SOLE != 0 {
            self.set_subscribed(query, NONE);
            return;
        }
        let position = self.positions[slot as usize];
        let Some(slots) = Arc::make_mut(&mut self.subscribers).sharing.get_mut(number as usize) else { return };
        let slots = Arc::make_mut(slots);
        if let Some(moved) = slots.swap_remove(position) {
            self.positions[moved as usize] = position;
        }
        if let &[sole] = slots.as_slice() {
            *slots = SharingSlots::default();
            self.free_sharing.push(number);
            self.set_subscribed(query, sole | SOLE);
        }
    }

    fn set_subscribed(&mut self, query: u32, value: u32) {
        let Some(entry) = self.subscribers_mut().subscribed.get_mut(query as usize) else { return };
        let before = std::mem::replace(entry, value);
        let is_other = |value: u32| value != NONE && value != query | SOLE;
        let (was, is) = (before == query | SOLE, value == query | SOLE);
        let (was_other, is_other) = (is_other(before), is_other(value));
        let (block, bit) = (query as usize / BLOCK, 1 << (query & 63));
        let set = |word: &mut u64, is: bool| *word = if is { *word | bit } else { *word & !bit };
        set(&mut self.plain[block], is);
        set(&mut self.other[block], is_other);
        self.plain_count = self.plain_count - usize::from(was) + usize::from(is);
        self.other_count = self.other_count - usize::from(was_other) + usize::from(is_other);
    }

    fn drop_query(&mut self, query: u32) {
        let entry = &mut self.queries[query as usize];
        let context = std::mem::replace(&mut entry.context, UNUSED);
        let text = std::mem::replace(&mut entry.text, AS_PATH);
        self.contexts.release(context);
        if text == AS_PATH {
            return;
        }
        let hash = self.text_hash(self.texts.get(text), context);
        self.by_text.remove(hash, |&other| other == query);
        self.text_space.remove(&mut self.texts, text);
    }

    /// Makes the number of a removed query available again.
    pub(super) fn free_number(&mut self, query: u32) {
        self.free_queries.push(query);
    }

    /// Returns the slot of a key.
    pub(super) fn slot_of(&self, key: &str) -> Option<Slot> {
        self.slot_at(key, self.key_hash(key))
    }

    /// Returns the slot of a key with this hash.
    #[inline]
    pub(super) fn slot_at(&self, key: &str, hash: u64) -> Option<Slot> {
        let subscribers = &self.subscribers;
        let has_key =
            |&slot: &Slot| subscribers.keys.get(slot as usize).is_some_and(|&text| subscribers.texts.get(text) == key);
        self.by_key.find(hash, has_key).copied()
    }

    /// Returns the key of a slot in use.
    pub(super) fn key(&self, slot: Slot) -> Option<&str> {
        self.subscribers.key(slot)
    }

    /// Returns the query of a slot in use.
    pub(super) fn query_of(&self, slot: Slot) -> Option<u32> {
        self.subscribers.query_of(slot)
    }

    /// Returns the queries of a block with one subscription whose slot is the query's number.
    #[inline]
    pub(super) fn plain(&self, block: usize) -> u64 {
        self.plain[block]
    }

    /// Returns the queries of a block with other subscriptions.
    #[inline]
    pub(super) fn other(&self, block: usize) -> u64 {
        self.other[block]
    }

    /// Returns `true` if each query has one subscription whose slot is the query's number.
    #[inline]
    pub(super) fn is_all_plain(&self) -> bool {
        self.plain_count == self.queries.len()
    }

    /// Returns the queries with one subscription whose slot is the query's number, as bits.
    pub(super) fn all_plain(&self) -> &[u64] {
        &self.plain
    }

    /// Returns the queries with other subscriptions, as bits.
    pub(super) fn all_other(&self) -> &[u64] {
        &self.other
    }

    /// Returns `true` if some query has other subscriptions.
    pub(super) fn has_other(&self) -> bool {
        self.other_count > 0
    }

    pub(super) fn bytes(&self) -> usize {
        self.subscribers.bytes()
            + self.groups.bytes()
            + self.texts.bytes()
            + self.queries.bytes()
            + self.positions.bytes()
            + self.free_queries.bytes()
            + (self.by_key.capacity() + self.by_text.capacity()) * 5
    }
}
