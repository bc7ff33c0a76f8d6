//! From the queries that a message matched to the subscriptions.

use std::sync::Arc;

use super::query_set::{self, QuerySet};
use super::subscribers::{Subscribers, SubscribersByQuery};
use super::{Engine, Matcher, Slot};

/// An answer of less than one in so many subscriptions is put in order by sorting.
const SPARSE: usize = 64;

impl Engine {
    /// The answer to the last message.
    pub fn answer(&self, matcher: &Matcher) -> Answer {
        let matched = matcher.matched();
        Answer {
            subscribers: Arc::clone(self.registry.subscribers()),
            queries: MatchedQueries::of(matched, self.query_bound()),
            count: self.subscription_count(matched),
        }
    }

    /// The keys of all slots as they are now.
    pub fn keys_now(&self) -> KeySnapshot {
        KeySnapshot { subscribers: Arc::clone(self.registry.subscribers()), version: self.keys_version() }
    }

    /// How many subscriptions the last message matched.
    pub fn match_count(&self, matcher: &Matcher) -> usize {
        self.subscription_count(matcher.matched())
    }

    fn subscription_count(&self, matched: &QuerySet) -> usize {
        if self.registry.is_all_plain() {
            return matched.len();
        }
        let count = |(block, word): (usize, u64)| {
            let others = query_set::members(block, word & self.registry.other(block));
            let others: usize = others.map(|query| self.registry.uses(query) as usize).sum();
            (word & self.registry.plain(block)).count_ones() as usize + others
        };
        matched.words().map(count).sum()
    }

    /// The distinct queries that the last message matched and somebody subscribes to, ascending, appended to `queries`.
    pub fn matched_queries(&self, matcher: &Matcher, queries: &mut Vec<u32>) {
        let set = matcher.matched();
        if self.dead.is_empty() {
            return set.append_to(queries);
        }
        set.append_admitted_to(queries, |block, word| word & (self.registry.plain(block) | self.registry.other(block)));
    }

    /// The slots of the subscriptions to a query, in no order, appended to `slots`.
    pub fn subscribers(&self, query: u32, slots: &mut Vec<Slot>) {
        self.registry.subscribers().append_subscribers(query, slots);
    }

    /// The slots of the subscriptions that the last message matched, ascending, appended to `slots`.
    pub fn slots(&self, matcher: &Matcher, slots: &mut Vec<Slot>) {
        let matched = matcher.matched();
        if self.registry.is_all_plain() {
            return matched.append_to(slots);
        }
        if !self.registry.has_other() {
            return matched.append_admitted_to(slots, |block, word| word & self.registry.plain(block));
        }
        if matched.len() * self.registry.mean_subscribers().max(1) > self.slot_bound() / SPARSE {
            return self.slots_by_set(matched, slots);
        }
        let start = slots.len();
        let mut others = Vec::new();
        matched.append_admitted_to(slots, |block, word| {
            let others_here = query_set::members(block, word & self.registry.other(block));
            others_here.for_each(|query| self.registry.subscribers().append_subscribers(query, &mut others));
            word & self.registry.plain(block)
        });
        if !others.is_empty() {
            // Two runs in order are soon one.
            put_in_order(&mut others, self.slot_bound());
            slots.append(&mut others);
            slots[start..].sort();
        }
    }

    /// [`Self::slots`] where there are many: a bit is set for each, which puts them in order.
    fn slots_by_set(&self, matched: &QuerySet, slots: &mut Vec<Slot>) {
        // First those that are the query's number, which takes no more than a look at all words.
        let mut set = matched.masked(self.registry.all_plain(), self.slot_bound().max(self.query_bound()));
        matched.for_each_common(self.registry.all_other(), |block, common| {
            for query in query_set::members(block, common) {
                match self.registry.subscribers().subscribers(query) {
                    Subscribers::Sole(slot) => set.insert(slot),
                    Subscribers::Several(several) => several.iter().for_each(|&slot| set.insert(slot)),
                }
            }
        });
        set.append_to(slots);
    }
}

/// Put distinct slots below `bound` in order: by sorting, or, where there are many of them, by setting a bit for each.
fn put_in_order(slots: &mut [Slot], bound: usize) {
    if slots.len() < bound / SPARSE {
        slots.sort_unstable();
        return;
    }
    let mut set = QuerySet::default();
    set.reset(bound);
    slots.iter().for_each(|&slot| set.insert(slot));
    slots.iter_mut().zip(set.iter()).for_each(|(entry, slot)| *entry = slot);
}

/// The keys of all slots as they were at one moment; what comes and goes later changes nothing.
#[derive(Clone, Debug)]
pub struct KeySnapshot {
    subscribers: Arc<SubscribersByQuery>,
    version: u64,
}

impl KeySnapshot {
    /// [`Engine::keys_version`] then.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The key that a slot had.
    pub fn key(&self, slot: Slot) -> Option<&str> {
        self.subscribers.key(slot)
    }
}

/// The subscriptions that one message matched, as they were then: the queries that it matched, and who subscribed to
/// them. Keys are looked up when they are asked for; what comes and goes later changes nothing.
#[derive(Clone, Debug)]
pub struct Answer {
    subscribers: Arc<SubscribersByQuery>,
    queries: MatchedQueries,
    count: usize,
}

/// A set of queries, as bits or, where that takes less, one after the other, ascending.
#[derive(Clone, Debug)]
enum MatchedQueries {
    Bits(QuerySet),
    List(Box<[u32]>),
}

impl MatchedQueries {
    fn of(set: &QuerySet, bound: usize) -> Self {
        let members = set.len();
        if members < bound / 32 { Self::List(set.iter().collect()) } else { Self::Bits(set.clone()) }
    }

    fn contains(&self, query: u32) -> bool {
        match self {
            Self::Bits(set) => set.contains(query),
            Self::List(list) => list.binary_search(&query).is_ok(),
        }
    }

    fn for_each(&self, work: impl FnMut(u32)) {
        match self {
            Self::Bits(set) => set.iter().for_each(work),
            Self::List(list) => list.iter().copied().for_each(work),
        }
    }
}

impl Answer {
    /// How many subscriptions matched.
    pub fn len(&self) -> usize {
        self.count
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The slots of the subscriptions, as they were numbered then, ascending.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(self.count);
        self.queries.for_each(|query| self.subscribers.append_subscribers(query, &mut slots));
        if !slots.is_sorted() {
            put_in_order(&mut slots, self.subscribers.keys.len());
        }
        slots
    }

    /// The key that a slot had then.
    pub fn key(&self, slot: Slot) -> Option<&str> {
        self.subscribers.key(slot)
    }

    /// Returns whether the subscription that has a slot now is the one that had it then: not replaced, not removed.
    pub fn is_current(&self, engine: &Engine, slot: Slot) -> bool {
        let then = self.subscribers.query_of(slot).and_then(|_| self.subscribers.registrations.get(slot));
        let now = engine.registry.subscribers();
        then.is_some() && then == now.query_of(slot).and_then(|_| now.registrations.get(slot))
    }

    /// Returns whether a subscription had a key then. It compares all keys: for the rare case that one is gone.
    pub fn had_key(&self, key: &str) -> bool {
        (0..self.subscribers.keys.len() as Slot).any(|slot| self.key(slot) == Some(key))
    }

    /// Did the subscription of a slot match?
    pub fn has(&self, slot: Slot) -> bool {
        self.subscribers.query_of(slot).is_some_and(|query| self.queries.contains(query))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::QueryContext;
    use super::*;
    use crate::limits::Limits;

    /// Subscriptions come and go at random; the slots of an answer are those of the keys that should be in it,
    /// ascending, whether queries have one subscription or many.
    #[test]
    fn answers_are_the_slots_of_the_matching_keys_in_order() {
        for (seed, texts) in [(1_u64, 3), (2, 40), (3, 400), (4, 4_000)] {
            println!("seed {seed}");
            let mut state = seed;
            let mut random = move |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            };
            let mut engine = Engine::new(Limits::default());
            let mut matcher = Matcher::new();
            let mut expected: BTreeMap<String, bool> = BTreeMap::new();
            for round in 0..2_000 {
                let key = format!("k{}", random(700));
                if random(3) == 0 {
                    assert_eq!(engine.remove(&key), expected.remove(&key).is_some());
                } else {
                    let (text, matches) = (random(texts), random(2) == 0);
                    let query = format!("/{}[not(@n{text})]", if matches { "a" } else { "b" });
                    engine.add(&key, &query, &QueryContext::default(), true).expect("a valid query");
                    expected.insert(key, matches);
                }
                if round % 20 != 0 {
                    continue;
                }
                engine.run(&mut matcher, b"<a/>").expect("a well-formed message");
                let mut slots = vec![Slot::MAX];
                engine.slots(&matcher, &mut slots);
                assert_eq!(slots.remove(0), Slot::MAX, "what was there stays");
                assert!(slots.is_sorted());
                let mut keys: Vec<_> = slots.iter().filter_map(|&slot| engine.key(slot)).collect();
                keys.sort_unstable();
                let expected_keys: Vec<_> =
                    expected.iter().filter(|(_, matches)| **matches).map(|(key, _)| &**key).collect();
                assert_eq!(keys, expected_keys);
            }
        }
    }
}
