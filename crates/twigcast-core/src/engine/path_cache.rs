//! The path cache: the lazy DFA and memo tables of one segment, per matcher.

use super::decide::{Decisions, MessageRun, ValueLookups};
use super::early_stop::MatchObserver;
use super::query_index::{PathIndex, QueryIndex};
use crate::automaton::dfa::LazyDfa;
use crate::document::NodeId;
use crate::twig::memo::Memo;

/// The lazy DFA of a segment, decisions memoised for its states, and working memory for one message.
#[derive(Debug, Default)]
pub(super) struct PathCache {
    pub(super) dfa: LazyDfa,
    memo: Memo,
    /// The elements of the current message that leave something to be decided, with the index of what.
    pub(super) work: Vec<(NodeId, u32)>,
    lookups: ValueLookups,
}

/// Elements for which lookups are made together: as many as what is looked up stays in the cache for.
const BATCH_ELEMENTS: usize = 16;
/// Up to this size the DFA stays in the processor's cache, and looking ahead gains nothing.
const CACHED_BYTES: usize = 1 << 20;

impl PathCache {
    pub(super) fn bytes(&self) -> usize {
        self.dfa.bytes() + self.memo.bytes()
    }

    pub(super) fn clear(&mut self) {
        self.dfa.clear();
        self.memo.clear();
    }

    /// Prepares for a message: clears the cache if the paths have changed.
    pub(super) fn prepare(&mut self, query_index: &QueryIndex, paths: &PathIndex) {
        self.work.clear();
        if !self.dfa.is_of(&paths.nfa) {
            self.clear();
        }
        self.dfa.prepare(&paths.nfa, query_index);
    }

    /// Decides what remains at the elements of the message, until the observer has enough.
    pub(super) fn decide(
        &mut self,
        run: &mut MessageRun<'_, '_>,
        decisions: &mut Decisions,
        paths: &PathIndex,
        observer: &mut impl MatchObserver,
    ) {
        let Self { dfa, memo, work, lookups, .. } = self;
        let prefetches = dfa.bytes() > CACHED_BYTES;
        for (batch, elements) in work.chunks(BATCH_ELEMENTS).enumerate() {
            if prefetches {
                run.look_up(decisions, elements.iter().map(|&(node, id)| (node, &dfa.undecided(id).keyed)), lookups);
            }
            for (index, &(node, id)) in elements.iter().enumerate() {
                let request = prefetches.then(|| lookups.request(index));
                run.decide(decisions, node, dfa.undecided(id), paths, memo, request);
                if observer.should_poll(batch * BATCH_ELEMENTS + index) && observer.is_satisfied_by_decisions(decisions)
                {
                    return;
                }
            }
        }
    }
}
