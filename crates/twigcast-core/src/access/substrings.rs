//! Texts that values may contain, found all at once by automata (Aho and Corasick 1975).
//!
//! An automaton cannot grow, so there are several, as in an LSM tree: what comes joins the smallest, and a tier that has
//! become too large is merged into the next one. Automata are made when a message first needs them, outside all changes. A
//! text that goes is forgotten at once and taken out when its automaton is made anew.

use std::sync::OnceLock;

use aho_corasick::AhoCorasick;

use super::entry::ConditionId;

/// Texts in the smallest tier, and how many times as many each next one may have.
const TIER_MIN: usize = 64;
const TIER_FACTOR: usize = 8;
/// In place of a test that is gone.
const GONE: ConditionId = 0;

/// The texts that an operand's values are tested for.
#[derive(Clone, Debug, Default)]
pub(super) struct SubstringIndex {
    tiers: Vec<Tier>,
}

#[derive(Clone, Debug, Default)]
struct Tier {
    tests: Vec<ConditionId>,
    gone: usize,
    /// The automaton, whose patterns have the places of their tests; `None` inside where it could not be made.
    automaton: OnceLock<Option<AhoCorasick>>,
}

impl Tier {
    fn change(&mut self) {
        self.automaton.take();
        self.tests.retain(|&test| test != GONE);
        self.gone = 0;
    }
}

impl SubstringIndex {
    pub(super) fn is_empty(&self) -> bool {
        self.tiers.iter().all(|tier| tier.tests.len() == tier.gone)
    }

    pub(super) fn insert(&mut self, test: ConditionId) {
        let mut added = vec![test];
        for level in 0.. {
            if self.tiers.len() == level {
                self.tiers.push(Tier::default());
            }
            let tier = &mut self.tiers[level];
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
            tier.tests[position] = GONE;
            tier.gone += 1;
            if tier.automaton.get().is_none() || tier.gone * 2 > tier.tests.len() {
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
        for tier in self.tiers.iter().filter(|tier| tier.tests.len() > tier.gone) {
            let automaton = tier.automaton.get_or_init(|| {
                // None is gone as long as there is no automaton. Only more texts than it can count have none.
                AhoCorasick::new(tier.tests.iter().map(|&test| part(test))).ok()
            });
            match automaton {
                Some(automaton) => {
                    let matches = automaton.find_overlapping_iter(value);
                    tests
                        .extend(matches.map(|part| tier.tests[part.pattern().as_usize()]).filter(|&test| test != GONE));
                }
                None => tests.extend(tier.tests.iter().filter(|&&test| test != GONE && value.contains(part(test)))),
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

    /// Returns bytes on the heap, by estimate.
    pub(super) fn bytes(&self) -> usize {
        let automata = self.tiers.iter().filter_map(|tier| tier.automaton.get()?.as_ref());
        let tests = self.tiers.iter().map(|tier| tier.tests.capacity() * size_of::<ConditionId>());
        automata.map(AhoCorasick::memory_usage).sum::<usize>() + tests.sum::<usize>()
    }
}
