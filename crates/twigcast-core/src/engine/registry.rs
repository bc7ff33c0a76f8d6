//! Subscriptions by key and queries by text.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::query::Dialect;

/// Number of a subscription: small, stable while it lives, used again afterwards.
pub type Slot = u32;

const NONE: u32 = u32::MAX;
/// Marks a query's subscription as its only one.
const SOLE: u32 = 1 << 31;
/// Queries that share an entry of [`Registry::plain`]: those of one word of a set.
const BLOCK: usize = 64;

/// What a query's text means depends on this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueryContext {
    /// Namespace URI by prefix; the empty prefix is the default element namespace.
    pub namespaces: BTreeMap<String, String>,
    /// Which spellings are understood.
    pub dialect: Dialect,
}

#[derive(Debug)]
struct Subscription {
    /// Empty and `query == NONE`: a free slot.
    key: Box<str>,
    query: u32,
    /// Where it stands among the subscriptions of a query that several share; for a free slot, the next free one.
    place: u32,
}

#[derive(Debug)]
struct QueryEntry {
    text: Box<str>,
    context: u32,
    /// Subscriptions, and holds on it while one is being replaced.
    uses: u32,
}

/// The subscriptions of one query.
pub(super) enum Subscribers<'a> {
    Sole(Slot),
    Several(&'a [Slot]),
}

/// All subscriptions and the distinct queries that they share.
#[derive(Debug)]
pub(super) struct Registry {
    subscriptions: Vec<Subscription>,
    free_slot: Slot,
    count: usize,
    by_key: HashTable<Slot>,
    queries: Vec<QueryEntry>,
    /// By query: its only subscription, marked [`SOLE`], or an index into `sharing`, or [`NONE`]. What answers are made
    /// from, kept apart so that walking it stays in the cache.
    subscribed: Vec<u32>,
    /// Of each [`BLOCK`] of queries, how many have one subscription, of their own number: after a bulk load most have,
    /// and a block where all have needs no look at `subscribed`.
    plain: Vec<u8>,
    /// The subscriptions of queries that several share.
    sharing: Vec<Vec<Slot>>,
    free_sharing: Vec<u32>,
    free_queries: Vec<u32>,
    by_text: HashTable<u32>,
    contexts: Vec<QueryContext>,
    context_ids: HashMap<QueryContext, u32>,
    hasher: RandomState,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            subscriptions: Vec::new(),
            free_slot: NONE,
            count: 0,
            by_key: HashTable::new(),
            queries: Vec::new(),
            subscribed: Vec::new(),
            plain: Vec::new(),
            sharing: Vec::new(),
            free_sharing: Vec::new(),
            free_queries: Vec::new(),
            by_text: HashTable::new(),
            contexts: Vec::new(),
            context_ids: HashMap::new(),
            hasher: RandomState::default(),
        }
    }
}

impl Registry {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn slot_bound(&self) -> usize {
        self.subscriptions.len()
    }

    pub(super) fn intern_context(&mut self, context: &QueryContext) -> u32 {
        // Bulk loads repeat the context of the entry before.
        if self.contexts.last() == Some(context) {
            return self.contexts.len() as u32 - 1;
        }
        if let Some(&id) = self.context_ids.get(context) {
            return id;
        }
        let id = self.contexts.len() as u32;
        self.contexts.push(context.clone());
        self.context_ids.insert(context.clone(), id);
        id
    }

    pub(super) fn contexts(&self) -> &[QueryContext] {
        &self.contexts
    }

    pub(super) fn context(&self, id: u32) -> &QueryContext {
        &self.contexts[id as usize]
    }

    fn text_hash(&self, text: &str, context: u32) -> u64 {
        self.hasher.hash_one((text, context))
    }

    pub(super) fn find_query(&self, text: &str, context: u32) -> Option<u32> {
        let hash = self.text_hash(text, context);
        let found = self.by_text.find(hash, |&query| {
            let entry = &self.queries[query as usize];
            entry.context == context && *entry.text == *text
        });
        found.copied()
    }

    /// Add a query that nobody subscribes to yet.
    pub(super) fn add_query(&mut self, text: &str, context: u32) -> u32 {
        let entry = QueryEntry { text: text.into(), context, uses: 0 };
        let query = match self.free_queries.pop() {
            Some(query) => {
                self.queries[query as usize] = entry;
                query
            }
            None => {
                self.queries.push(entry);
                self.subscribed.push(NONE);
                self.plain.resize(self.queries.len().div_ceil(BLOCK), 0);
                self.queries.len() as u32 - 1
            }
        };
        let hash = self.text_hash(text, context);
        let (queries, hasher) = (&self.queries, &self.hasher);
        self.by_text.insert_unique(hash, query, |&other| {
            let entry = &queries[other as usize];
            hasher.hash_one((&*entry.text, entry.context))
        });
        query
    }

    /// The text and context of a query.
    pub(super) fn query(&self, query: u32) -> (&str, u32) {
        let entry = &self.queries[query as usize];
        (&entry.text, entry.context)
    }

    pub(super) fn hold(&mut self, query: u32) {
        self.queries[query as usize].uses += 1;
    }

    pub(super) fn unhold(&mut self, query: u32) {
        self.queries[query as usize].uses -= 1;
    }

    /// How many subscriptions and other holders a query has.
    pub(super) fn uses(&self, query: u32) -> u32 {
        self.queries.get(query as usize).map_or(0, |entry| entry.uses)
    }

    /// Let go of a query that was held; whether it is gone now.
    pub(super) fn release(&mut self, query: u32) -> bool {
        self.unhold(query);
        let is_gone = self.uses(query) == 0;
        if is_gone {
            self.drop_query(query);
        }
        is_gone
    }

    pub(super) fn subscribe(&mut self, key: &str, query: u32) -> Slot {
        let entry = Subscription { key: key.into(), query, place: 0 };
        let slot = if self.free_slot == NONE {
            self.subscriptions.push(entry);
            self.subscriptions.len() as u32 - 1
        } else {
            let slot = self.free_slot;
            self.free_slot = std::mem::replace(&mut self.subscriptions[slot as usize], entry).place;
            slot
        };
        self.link(slot, query);
        self.queries[query as usize].uses += 1;
        self.count += 1;
        let (subscriptions, hasher) = (&self.subscriptions, &self.hasher);
        self.by_key
            .insert_unique(hasher.hash_one(key), slot, |&other| hasher.hash_one(&*subscriptions[other as usize].key));
        slot
    }

    /// End a subscription; the query, if nobody subscribes to it any more (it is then gone).
    pub(super) fn unsubscribe(&mut self, slot: Slot) -> Option<u32> {
        let entry = self.subscriptions.get(slot as usize)?;
        let query = entry.query;
        if query == NONE {
            return None;
        }
        let hash = self.hasher.hash_one(&*entry.key);
        if let Ok(found) = self.by_key.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
        self.unlink(slot, query);
        self.subscriptions[slot as usize] = Subscription { key: "".into(), query: NONE, place: self.free_slot };
        self.free_slot = slot;
        self.count -= 1;
        let owner = &mut self.queries[query as usize];
        owner.uses -= 1;
        if owner.uses > 0 {
            return None;
        }
        self.drop_query(query);
        Some(query)
    }

    fn link(&mut self, slot: Slot, query: u32) {
        match self.subscribed[query as usize] {
            NONE => self.set_subscribed(query, slot | SOLE),
            sole if sole & SOLE != 0 => {
                let slots = vec![sole & !SOLE, slot];
                self.subscriptions[slot as usize].place = 1;
                self.subscriptions[(sole & !SOLE) as usize].place = 0;
                let number = match self.free_sharing.pop() {
                    Some(number) => {
                        self.sharing[number as usize] = slots;
                        number
                    }
                    None => {
                        self.sharing.push(slots);
                        self.sharing.len() as u32 - 1
                    }
                };
                self.set_subscribed(query, number);
            }
            number => {
                let slots = &mut self.sharing[number as usize];
                self.subscriptions[slot as usize].place = slots.len() as u32;
                slots.push(slot);
            }
        }
    }

    fn unlink(&mut self, slot: Slot, query: u32) {
        let number = self.subscribed[query as usize];
        if number & SOLE != 0 {
            self.set_subscribed(query, NONE);
            return;
        }
        let slots = &mut self.sharing[number as usize];
        let place = self.subscriptions[slot as usize].place;
        slots.swap_remove(place as usize);
        if let Some(&moved) = slots.get(place as usize) {
            self.subscriptions[moved as usize].place = place;
        }
        if let &[sole] = slots.as_slice() {
            *slots = Vec::new();
            self.free_sharing.push(number);
            self.set_subscribed(query, sole | SOLE);
        }
    }

    fn set_subscribed(&mut self, query: u32, value: u32) {
        let before = std::mem::replace(&mut self.subscribed[query as usize], value);
        let plain = &mut self.plain[query as usize / BLOCK];
        *plain -= u8::from(before == query | SOLE);
        *plain += u8::from(value == query | SOLE);
    }

    fn drop_query(&mut self, query: u32) {
        let entry = &mut self.queries[query as usize];
        let text = std::mem::take(&mut entry.text);
        let context = entry.context;
        let hash = self.text_hash(&text, context);
        if let Ok(found) = self.by_text.find_entry(hash, |&other| other == query) {
            found.remove();
        }
    }

    /// Let the number of a query that is gone be used again.
    pub(super) fn free_number(&mut self, query: u32) {
        self.free_queries.push(query);
    }

    pub(super) fn slot_of(&self, key: &str) -> Option<Slot> {
        let hash = self.hasher.hash_one(key);
        self.by_key.find(hash, |&slot| *self.subscriptions[slot as usize].key == *key).copied()
    }

    pub(super) fn key(&self, slot: Slot) -> Option<&str> {
        let entry = self.subscriptions.get(slot as usize)?;
        (entry.query != NONE).then_some(&*entry.key)
    }

    pub(super) fn query_of(&self, slot: Slot) -> Option<u32> {
        let query = self.subscriptions.get(slot as usize)?.query;
        (query != NONE).then_some(query)
    }

    /// The slots of a query's subscriptions, in no order.
    #[inline]
    pub(super) fn subscribers(&self, query: u32) -> Subscribers<'_> {
        match self.subscribed[query as usize] {
            NONE => Subscribers::Several(&[]),
            sole if sole & SOLE != 0 => Subscribers::Sole(sole & !SOLE),
            number => Subscribers::Several(&self.sharing[number as usize]),
        }
    }

    /// Append the slots of a query's subscriptions.
    pub(super) fn append_subscribers(&self, query: u32, slots: &mut Vec<Slot>) {
        match self.subscribers(query) {
            Subscribers::Sole(slot) => slots.push(slot),
            Subscribers::Several(several) => slots.extend_from_slice(several),
        }
    }

    /// Does each query of a block have one subscription, of the query's own number?
    #[inline]
    pub(super) fn is_plain(&self, block: usize) -> bool {
        usize::from(self.plain[block]) == BLOCK
    }

    /// How many subscriptions a query has, on average.
    pub(super) fn mean_subscribers(&self) -> usize {
        self.count / (self.queries.len() - self.free_queries.len()).max(1)
    }

    pub(super) fn bytes(&self) -> usize {
        let strings: usize = self.subscriptions.iter().map(|s| s.key.len() + 16).sum::<usize>()
            + self.queries.iter().map(|q| q.text.len() + 16).sum::<usize>();
        strings
            + self.subscriptions.capacity() * size_of::<Subscription>()
            + self.subscribed.capacity() * 4
            + self.sharing.iter().map(|slots| slots.capacity() * 4 + size_of::<Vec<Slot>>()).sum::<usize>()
            + self.queries.capacity() * size_of::<QueryEntry>()
            + (self.by_key.capacity() + self.by_text.capacity()) * 5
    }
}
