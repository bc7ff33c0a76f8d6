//! The answer to one message: from the queries that it matched to the subscriptions.

use std::sync::Arc;

use super::query_set::{self, QuerySet};
use super::slot_order::SlotCollector;
use super::subscribers::SubscribersByQuery;
use super::{Engine, Matcher, Slot};

impl Engine {
    /// Returns the answer to the last message.
    pub fn answer(&self, matcher: &Matcher) -> Answer {
        let matched = matcher.matched();
        Answer {
            subscribers: Arc::clone(self.subscription_table.subscribers()),
            keys_version: self.keys_version(),
            version: self.version(),
            queries: MatchedQueries::of(matched, self.query_bound()),
            count: self.subscription_count(matched),
        }
    }

    /// Returns the keys of all slots as they are now.
    pub fn keys_now(&self) -> KeySnapshot {
        KeySnapshot { subscribers: Arc::clone(self.subscription_table.subscribers()), version: self.keys_version() }
    }

    /// Returns how many subscriptions the last message matched.
    pub fn match_count(&self, matcher: &Matcher) -> usize {
        self.subscription_count(matcher.matched())
    }

    fn subscription_count(&self, matched: &QuerySet) -> usize {
        if self.subscription_table.is_all_plain() {
            return matched.len();
        }
        let count = |(block, word): (usize, u64)| {
            let others = query_set::word_members(block, word & self.subscription_table.other(block));
            let others: usize = others.map(|query| self.subscription_table.uses(query) as usize).sum();
            (word & self.subscription_table.plain(block)).count_ones() as usize + others
        };
        matched.words().map(count).sum()
    }

    /// Appends the distinct queries with subscribers that the last message matched, ascending.
    pub fn matched_queries(&self, matcher: &Matcher, queries: &mut Vec<u32>) {
        let set = matcher.matched();
        if self.tombstones.is_empty() {
            return set.append_to(queries);
        }
        set.append_admitted_to(queries, |block, word| {
            word & (self.subscription_table.plain(block) | self.subscription_table.other(block))
        });
    }

    /// Appends the slots of the subscriptions to a query, in no order.
    pub fn subscribers(&self, query: u32, slots: &mut Vec<Slot>) {
        self.subscription_table.subscribers().append_subscribers(query, slots);
    }

    /// Appends the slots of the subscriptions that the last message matched, ascending.
    pub fn slots(&self, matcher: &Matcher, slots: &mut Vec<Slot>) {
        let matched = matcher.matched();
        if self.subscription_table.is_all_plain() {
            return matched.append_to(slots);
        }
        if !self.subscription_table.has_other() {
            return matched.append_admitted_to(slots, |block, word| word & self.subscription_table.plain(block));
        }
        let mut others = SlotCollector::for_many(self.slot_bound(), matched.len());
        matched.for_each_common(self.subscription_table.all_other(), |block, common| {
            query_set::word_members(block, common)
                .for_each(|query| others.add(self.subscription_table.subscribers(), query));
        });
        // Slots that equal the query's number are found word by word.
        others.append_with(slots, matched, self.subscription_table.all_plain());
    }
}

/// The keys of all slots at one moment. Later changes of the set do not change it.
#[derive(Clone, Debug)]
pub struct KeySnapshot {
    subscribers: Arc<SubscribersByQuery>,
    version: u64,
}

impl KeySnapshot {
    /// Returns [`Engine::keys_version`] at that moment.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the key that a slot had.
    pub fn key(&self, slot: Slot) -> Option<&str> {
        self.subscribers.key(slot)
    }
}

/// The subscriptions that one message matched: the queries that it matched, and their subscribers at that moment. Keys
/// are looked up when they are read. Later changes of the set do not change it.
#[derive(Clone, Debug)]
pub struct Answer {
    subscribers: Arc<SubscribersByQuery>,
    keys_version: u64,
    version: u64,
    queries: MatchedQueries,
    count: usize,
}

/// The queries that a message matched: as bits, or as an ascending list where that takes less memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedQueries(QueryNumbers);

#[derive(Clone, Debug, PartialEq, Eq)]
enum QueryNumbers {
    Bits(QuerySet),
    List(Box<[u32]>),
}

impl MatchedQueries {
    fn of(set: &QuerySet, bound: usize) -> Self {
        let members = set.len();
        let is_list = members < bound / 32;
        Self(if is_list { QueryNumbers::List(set.iter().collect()) } else { QueryNumbers::Bits(set.clone()) })
    }

    fn contains(&self, query: u32) -> bool {
        match &self.0 {
            QueryNumbers::Bits(set) => set.contains(query),
            QueryNumbers::List(list) => list.binary_search(&query).is_ok(),
        }
    }

    fn for_each(&self, work: impl FnMut(u32)) {
        match &self.0 {
            QueryNumbers::Bits(set) => set.iter().for_each(work),
            QueryNumbers::List(list) => list.iter().copied().for_each(work),
        }
    }
}

impl Answer {
    /// Returns how many subscriptions matched.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if no subscription matched.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the slots of the subscriptions at that moment, ascending.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(self.count);
        let mut collected = SlotCollector::new(self.subscribers.keys.len());
        self.queries.for_each(|query| collected.add(&self.subscribers, query));
        collected.append_to(&mut slots);
        slots
    }

    /// Returns the key that a slot had at that moment.
    pub fn key(&self, slot: Slot) -> Option<&str> {
        self.subscribers.key(slot)
    }

    /// Returns [`Engine::keys_version`] at that moment.
    pub fn keys_version(&self) -> u64 {
        self.keys_version
    }

    /// Returns [`Engine::version`] at that moment, and the queries that matched. Answers of one engine that are alike in both
    /// have the same slots.
    pub fn identity(&self) -> (u64, &MatchedQueries) {
        (self.version, &self.queries)
    }

    /// Returns whether the subscription that has a slot now is the one that had it at that moment, neither replaced nor
    /// removed.
    pub fn is_current(&self, engine: &Engine, slot: Slot) -> bool {
        let then = self.subscribers.query_of(slot).and_then(|_| self.subscribers.registrations.get(slot as usize));
        let now = engine.subscription_table.subscribers();
        then.is_some() && then == now.query_of(slot).and_then(|_| now.registrations.get(slot as usize))
    }

    /// Returns whether a subscription had a key at that moment. Compares all keys, for the rare case that a key is gone.
    pub fn had_key(&self, key: &str) -> bool {
        (0..self.subscribers.keys.len() as Slot).any(|slot| self.key(slot) == Some(key))
    }

    /// Returns `true` if the subscription of a slot matched.
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
    use crate::testing::Random;

    /// Subscriptions are added and removed at random. The slots of an answer are those of the keys that should match,
    /// ascending, whether queries have one subscription or many.
    #[test]
    fn answers_are_the_slots_of_the_matching_keys_in_order() {
        for (seed, texts) in [(1_u64, 3), (2, 40), (3, 400), (4, 4_000)] {
            println!("seed {seed}");
            let mut random = Random(seed);
            let mut engine = Engine::new(Limits::default());
            let mut matcher = Matcher::new();
            let mut expected: BTreeMap<String, bool> = BTreeMap::new();
            for round in 0..2_000 {
                let key = format!("k{}", random.below(700));
                if random.below(3) == 0 {
                    assert_eq!(engine.remove(&key), expected.remove(&key).is_some());
                } else {
                    let (text, matches) = (random.below(texts), random.below(2) == 0);
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
                assert_eq!(slots.remove(0), Slot::MAX, "earlier entries stay");
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
