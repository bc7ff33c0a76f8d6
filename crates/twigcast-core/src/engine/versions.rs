//! Versions of a population: threads match on one while another one changes.
//!
//! A version is an [`Engine`] that is no longer changed. To change the population, a thread makes the version's
//! [`successor`](Engine::successor), changes that, and puts it in its place. A thread that matches holds the version with
//! which it began. Neither waits for the other. Invariants:
//!
//! - All tables that grow with the population are made of parts that versions share
//!   ([`Chunked`](crate::util::chunked::Chunked), [`CowMap`](crate::util::cow_map::CowMap), or an `Arc` around the whole).
//!   A change copies the parts that it touches and that another version still uses. A part is freed with the last version
//!   that uses it. So a new version costs in proportion to the change, not to the population.
//! - Versions are totally ordered: each has at most one successor. So a version number of a part, by which matchers follow
//!   changes, always means the same state.
//! - A matcher goes from earlier to later versions. On an earlier version it empties its caches.
//! - Slots, numbers of queries and ids of atoms belong to a version. Later versions may use them for something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Engine;
use super::parse_block::ParseBlock;
use crate::query::forms::QueryForms;

/// Changes are quick if the new queries and those that they replace have at most this many bytes together.
const QUICK_BYTES: usize = 4096;

impl Engine {
    /// Returns a copy for changes. It shares everything with this version, which must not be changed any more, nor have
    /// another successor.
    pub fn successor(&self) -> Self {
        let is_warm = self.warm.load(Ordering::Relaxed);
        Self {
            limits: self.limits.clone(),
            throttle: Arc::clone(&self.throttle),
            unread_numbers: Arc::clone(&self.unread_numbers),
            vocabulary: self.vocabulary.clone(),
            query_index: self.query_index.clone(),
            subscription_table: self.subscription_table.clone(),
            interner: self.interner.clone(),
            compiled: self.compiled.clone(),
            families: self.families.clone(),
            batch_queries: self.batch_queries.clone(),
            needs: self.needs,
            // Without any message so far, changes go to the main segment. But one may be matched on this version from now on.
            main_version: self.main_version + u64::from(!is_warm),
            unshared_results: self.unshared_results,
            warm: AtomicBool::new(is_warm),
            recent: self.recent.clone(),
            tombstones: self.tombstones.clone(),
            changes: self.changes,
            names_in_use: self.names_in_use,
            identity: self.identity,
            edition: self.edition + 1,
            steps: Vec::new(),
            printed: String::new(),
            block: ParseBlock::default(),
            forms: QueryForms::default(),
        }
    }

    /// Holds what all versions change together, the records of queries that overran, until the guard is dropped. Whoever
    /// forks the process does so: the child has no other thread that could end a change.
    pub fn hold_records(&self) -> impl Sized + '_ {
        self.throttle.hold()
    }

    /// Returns how many changes, the first ones of some, take together no longer than a glance: the texts are short, and
    /// nothing falls due that takes time in proportion to the population. A change adds a query under a key, or removes a
    /// key with no query. If not `replaces`, queries that others have under the keys stay.
    pub fn quick_changes<'a>(&self, changes: impl IntoIterator<Item = (&'a str, &'a str)>, replaces: bool) -> usize {
        let (mut count, mut bytes) = (0, 0);
        for (key, query) in changes {
            let replaced = if replaces { self.slot_of(key).and_then(|slot| self.query_of(slot)) } else { None };
            bytes += query.len() + replaced.map_or(0, |(text, _)| text.len());
            if bytes > QUICK_BYTES || self.is_merge_due(count + 1) || self.is_vocabulary_gc_due(bytes) {
                break;
            }
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::super::{Engine, Matcher, QueryContext};
    use crate::limits::Limits;
    use crate::testing::Random;

    const FORMS: [&str; 7] = [
        "/m/a{}",
        "//v[@n = '{}']",
        "//v[. = '{}']",
        "/m[v/@n = {}]",
        "//v[starts-with(@n, '{}')]/w",
        "/m[a{}/b or v[@n = '{}' and w]]",
        "for $v in /m/v where $v/@n = '{}' return <r>{$v}</r>",
    ];

    fn message(value: u64) -> Vec<u8> {
        format!("<m><a{value}><b/></a{value}><v n='{value}'><w/></v><v>{value}</v></m>").into_bytes()
    }

    /// A version and, by key, the value that its query asks for.
    type Version = (Arc<Engine>, BTreeMap<String, u64>);

    fn assert_answers(matcher: &mut Matcher, (engine, expected): &Version, value: u64) {
        engine.run(matcher, &message(value)).expect("a well-formed message");
        let answer = engine.answer(matcher);
        let mut keys: Vec<_> = answer.slots().into_iter().filter_map(|slot| engine.key(slot)).collect();
        keys.sort_unstable();
        let expected: Vec<_> = expected.iter().filter(|(_, asked)| **asked == value).map(|(key, _)| &**key).collect();
        assert_eq!(keys, expected);
    }

    /// Versions are kept at random and asked at random, by matchers that go back and forth among them: each answers as it
    /// did when it was the newest.
    #[test]
    fn versions_stay_as_they_were() {
        for seed in 1..6_u64 {
            println!("seed {seed}");
            let mut numbers = Random(seed);
            let mut random = move |bound: u64| numbers.below(bound);
            let context = QueryContext::default();
            let mut newest: Version = (Arc::new(Engine::new(Limits::default())), BTreeMap::new());
            let mut kept: Vec<Version> = Vec::new();
            let mut matchers = [Matcher::new(), Matcher::new()];
            for round in 0..250 {
                if random(3) == 0 {
                    kept.push(newest.clone());
                }
                let (mut successor, mut expected) = (newest.0.successor(), newest.1.clone());
                for _ in 0..=random(12) {
                    let key = format!("k{}", random(90));
                    if random(3) == 0 {
                        assert_eq!(successor.remove(&key), expected.remove(&key).is_some());
                        continue;
                    }
                    let value = random(9);
                    let query = FORMS[random(FORMS.len() as u64) as usize].replace("{}", &value.to_string());
                    successor.add(&key, &query, &context, true).expect("a valid query");
                    expected.insert(key, value);
                }
                match random(20) {
                    0 => successor.compact(),
                    1 => successor.collect_vocabulary(),
                    _ => {}
                }
                newest = (Arc::new(successor), expected);
                let matcher = &mut matchers[random(2) as usize];
                assert_answers(matcher, &newest, random(9));
                if !kept.is_empty() {
                    let index = random(kept.len() as u64) as usize;
                    assert_answers(matcher, &kept[index], random(9));
                    if kept.len() > 6 || round % 7 == 0 {
                        kept.swap_remove(index);
                    }
                }
            }
        }
    }
}
