//! What a matcher has learnt of one layer of the population, and where in the message in hand it has to decide.

use super::decide::{Decisions, MessageRun, ValueLookups};
use super::early_stop::MatchObserver;
use super::query_index::{PathIndex, QueryIndex};
use crate::automaton::dfa::LazyDfa;
use crate::document::NodeId;
use crate::twig::memo::Memo;

/// The lazily built automaton of a layer, decisions filed under its states, and scratch for one message.
#[derive(Debug, Default)]
pub(super) struct PathCache {
    pub(super) dfa: LazyDfa,
    memo: Memo,
    /// Elements at which something remains to be decided, with the index of what.
    pub(super) work: Vec<(NodeId, u32)>,
    lookups: ValueLookups,
}

/// Elements for which look-ups are made together: as many as what is looked up stays in the cache for.
const LOOKUPS_AT_ONCE: usize = 16;
/// Up to this size what was learnt is in the processor's cache anyhow, and looking ahead would gain nothing.
const CACHED_BYTES: usize = 1 << 20;

impl PathCache {
    pub(super) fn bytes(&self) -> usize {
        self.dfa.bytes() + self.memo.bytes()
    }

    pub(super) fn clear(&mut self) {
        self.dfa.clear();
        self.memo.clear();
    }

    /// Make ready for a message: what was learnt of paths that have changed since is forgotten.
    pub(super) fn prepare(&mut self, population: &QueryIndex, paths: &PathIndex) {
        self.work.clear();
        if !self.dfa.is_of(&paths.nfa) {
            self.clear();
        }
        self.dfa.prepare(&paths.nfa, population);
    }

    /// Decide what remains at the elements of the message, until `watch` has enough.
    pub(super) fn decide(
        &mut self,
        run: &mut MessageRun<'_, '_>,
        decisions: &mut Decisions,
        paths: &PathIndex,
        watch: &mut impl MatchObserver,
    ) {
        let Self { dfa, memo, work, lookups, .. } = self;
        let prefetches = dfa.bytes() > CACHED_BYTES;
        for (number, elements) in work.chunks(LOOKUPS_AT_ONCE).enumerate() {
            if prefetches {
                run.look_up(decisions, elements.iter().map(|&(node, id)| (node, &dfa.undecided(id).keyed)), lookups);
            }
            for (index, &(node, id)) in elements.iter().enumerate() {
                let asked = prefetches.then(|| lookups.request(index));
                run.decide(decisions, node, dfa.undecided(id), paths, memo, asked);
                if watch.should_poll(number * LOOKUPS_AT_ONCE + index) && watch.has_enough(decisions) {
                    return;
                }
            }
        }
    }
}
