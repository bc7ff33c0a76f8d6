//! What a matcher has learnt of one layer of the population, and where in the message in hand it has to decide.

use super::deciding::{Ahead, Decisions, Run};
use super::population::{Paths, Population};
use super::query_set::QuerySet;
use super::watch::Watch;
use crate::automaton::dfa::{BudgetReached, DEAD, DfaId, LazyDfa, START};
use crate::document::{Document, NodeId, NodeKind};
use crate::twig::memo::Memo;

/// The lazily built automaton of a layer, decisions filed under its states, and scratch for one message.
#[derive(Debug, Default)]
pub(super) struct LearntPaths {
    pub(super) dfa: LazyDfa,
    memo: Memo,
    state_of: Vec<DfaId>,
    /// Elements at which something remains to be decided.
    work: Vec<(NodeId, DfaId)>,
    ahead: Ahead,
}

/// Elements for which look-ups are made together: as many as what is looked up stays in the cache for.
const AHEAD: usize = 16;
/// Up to this size what was learnt is in the processor's cache anyhow, and looking ahead would gain nothing.
const CACHED_BYTES: usize = 1 << 20;

impl LearntPaths {
    pub(super) fn bytes(&self) -> usize {
        self.dfa.bytes() + self.memo.bytes()
    }

    pub(super) fn clear(&mut self) {
        self.dfa.clear();
        self.memo.clear();
    }

    /// Lead the automaton over the document; collect plain acceptances and the elements where more is to be decided.
    pub(super) fn lead(
        &mut self,
        document: &Document,
        population: &Population,
        paths: &Paths,
        message_number: u64,
        budget: usize,
        matched: &mut QuerySet,
    ) -> Result<(), BudgetReached> {
        let nodes = &document.nodes;
        let nfa = &paths.nfa;
        self.work.clear();
        if nfa.state_count() == 1 {
            return Ok(());
        }
        self.dfa.prepare(nfa, population);
        self.state_of.clear();
        self.state_of.resize(nodes.len(), DEAD);
        self.state_of[0] = START;
        let mut index = 1;
        while index < nodes.len() {
            let node = &nodes[index];
            if node.kind != NodeKind::Element {
                index += 1;
                continue;
            }
            let id = self.dfa.next(nfa, population, self.state_of[node.parent as usize], node.name, budget)?;
            if id == DEAD {
                index = node.end as usize;
                continue;
            }
            self.state_of[index] = id;
            let state = self.dfa.state_mut(id);
            if state.seen != message_number {
                state.seen = message_number;
                self.dfa.refresh(nfa, population, id);
                for &query in &self.dfa.state(id).accepts {
                    matched.insert(query);
                }
            }
            if self.dfa.state(id).has_work() {
                self.work.push((index as NodeId, id));
            }
            index += 1;
        }
        Ok(())
    }

    /// Decide what remains at the elements that [`Self::lead`] collected, until `watch` has enough.
    pub(super) fn decide(
        &mut self,
        run: &mut Run<'_, '_>,
        decisions: &mut Decisions,
        paths: &Paths,
        watch: &mut impl Watch,
    ) {
        let Self { dfa, memo, work, ahead, .. } = self;
        let looks_ahead = dfa.bytes() > CACHED_BYTES;
        for (number, elements) in work.chunks(AHEAD).enumerate() {
            if looks_ahead {
                run.look_ahead(decisions, elements.iter().map(|&(node, id)| (node, &dfa.state(id).keyed)), ahead);
            }
            for (index, &(node, id)) in elements.iter().enumerate() {
                let ahead = looks_ahead.then(|| ahead.places(index));
                run.decide(decisions, node, dfa.state(id), paths, memo, ahead);
                if watch.looks_at(number * AHEAD + index) && watch.has_enough(decisions) {
                    return;
                }
            }
        }
    }
}
