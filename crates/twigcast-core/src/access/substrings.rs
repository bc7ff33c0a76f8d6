//! Texts that values may contain, found all at once by automata (Aho and Corasick 1975).
//!
//! An automaton cannot grow, so there are several, as in an LSM tree: what comes joins the smallest, and a tier that has
//! become too large is merged into the next one. Automata are made when a message first needs them, outside all changes. A
//! text that goes is forgotten at once and taken out when its automaton is made anew.

use crate::ids::ConditionId;
use std::sync::{Arc, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// Texts in the smallest tier, and how many times as many each next one may have.
const TIER_MIN: usize = 64;
const TIER_FACTOR: usize = 8;
/// An automaton of longer texts has failure links: following them for each of its states, as making it without them takes,
/// costs the square of a text such as `aaa...ab`.
const WITHOUT_LINKS_MAX: usize = 256;
/// So many occurrences, and so many for each byte of a value, are gone through before texts are searched for one by one: of
/// texts that are parts of each other, as many occur at each byte as there are.
const OCCURRENCES_MIN: usize = 1 << 12;
const OCCURRENCES_PER_BYTE: usize = 4;
/// In place of a test that was removed.
const REMOVED: ConditionId = ConditionId::NONE;

/// The texts that an operand's values are tested for.
#[derive(Clone, Debug, Default)]
pub(super) struct SubstringIndex {
    tiers: Vec<Arc<Tier>>,
}

#[derive(Clone, Debug, Default)]
struct Tier {
    tests: Vec<ConditionId>,
    removed: usize,
    /// The automaton, whose patterns have the places of their tests; `None` inside where it could not be made.
    automaton: OnceLock<Option<AhoCorasick>>,
}

impl Tier {
    fn change(&mut self) {
        self.automaton.take();
        self.tests.retain(|&test| test != REMOVED);
        self.removed = 0;
    }
}

impl SubstringIndex {
    pub(super) fn is_empty(&self) -> bool {
        self.tiers.iter().all(|tier| tier.tests.len() == tier.removed)
    }

    pub(super) fn insert(&mut self, test: ConditionId) {
        let mut added = vec![test];
        for level in 0.. {
            if self.tiers.len() == level {
                self.tiers.push(Arc::default());
            }
            let tier = Arc::make_mut(&mut self.tiers[level]);
            tier.change();
            tier.tests.append(&mut added);
            if tier.tests.len() <= TIER_MIN * TIER_FACTOR.pow(level as u32) {
                return;
            }
            added = std::mem::take(&mut tier.tests);
        }
    }

    pub(super) fn remove(&mut self, test: ConditionId) {
        for tier in &mut self.tiers {
            let Some(position) = tier.tests.iter().position(|&existing| existing == test) else { continue };
            let tier = Arc::make_mut(tier);
            tier.tests[position] = REMOVED;
            tier.removed += 1;
            if tier.automaton.get().is_none() || tier.removed * 2 > tier.tests.len() {
                tier.change();
            }
            return;
        }
    }

    /// Appends the tests for texts that a value contains, in order and each once. `part` tells the text of a test.
    pub(super) fn append_of<'p>(
        &self,
        value: &str,
        part: impl Fn(ConditionId) -> &'p str,
        tests: &mut Vec<ConditionId>,
    ) {
        let start = tests.len();
        for tier in self.tiers.iter().filter(|tier| tier.tests.len() > tier.removed) {
            let automaton = tier.automaton.get_or_init(|| {
                // No test was removed as long as there is no automaton. Only more texts than it can count have none.
                let longest = tier.tests.iter().map(|&test| part(test).len()).max().unwrap_or_default();
                let kind = (longest > WITHOUT_LINKS_MAX).then_some(AhoCorasickKind::ContiguousNFA);
                AhoCorasick::builder().kind(kind).build(tier.tests.iter().map(|&test| part(test))).ok()
            });
            let most = OCCURRENCES_MIN + OCCURRENCES_PER_BYTE * value.len();
            let start = tests.len();
            let is_complete = automaton.as_ref().is_some_and(|automaton| {
                let mut occurrences = automaton.find_overlapping_iter(value);
                let found = occurrences.by_ref().take(most);
                let found = found.map(|occurrence| tier.tests[occurrence.pattern().as_usize()]);
                tests.extend(found.filter(|&test| test != REMOVED));
                occurrences.next().is_none()
            });
            if !is_complete {
                tests.truncate(start);
                tests.extend(tier.tests.iter().filter(|&&test| test != REMOVED && value.contains(part(test))));
            }
        }
        tests[start..].sort_unstable();
        let mut kept = start;
        for index in start..tests.len() {
            if kept == start || tests[kept - 1] != tests[index] {
                tests[kept] = tests[index];
                kept += 1;
            }
        }
        tests.truncate(kept);
    }

    /// Returns the bytes on the heap, by estimate.
    pub(super) fn bytes(&self) -> usize {
        let automata = self.tiers.iter().filter_map(|tier| tier.automaton.get()?.as_ref());
        let tests = self.tiers.iter().map(|tier| tier.tests.capacity() * size_of::<ConditionId>());
        automata.map(AhoCorasick::memory_usage).sum::<usize>() + tests.sum::<usize>()
    }
}
