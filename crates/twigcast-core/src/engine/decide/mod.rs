//! Decides what the automaton leaves open where it accepts: twigs, triggers, accesses and whole expressions.

mod accesses;
mod ancestors;
mod condition_memo;
mod conditions;
mod element_values;
mod lookups;
mod operand_values;
mod satisfied_atoms;
mod simulation;
mod state;
mod trigger_tables;
mod triggers;
mod twigs;
mod word_cache;
mod words;

pub(super) use self::condition_memo::{ConditionMemo, OperandValues};
pub(super) use self::lookups::{LookupRequest, ValueLookups};
pub(super) use self::state::{Decisions, MessageRun};
use super::query_index::PathIndex;
use crate::automaton::dfa::StateDecisions;
use crate::document::NodeId;
use crate::twig::memo::Memo;

impl<'a> MessageRun<'a, '_> {
    /// Decides all that waits at an element whose DFA state is `state`. `own_conditions` is what [`Self::look_up`] found for it.
    pub(super) fn decide(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        state: &StateDecisions,
        paths: &PathIndex,
        memo: &mut Memo,
        own_conditions: Option<LookupRequest<'_>>,
    ) {
        if state.has_twigs() {
            self.decide_twigs(decisions, node, state, memo);
        }
        match own_conditions {
            _ if state.keyed.is_empty() => {}
            Some(asked) => self.decide_keyed(decisions, node, &state.keyed, asked),
            None => self.decide_alone(decisions, node, &state.keyed),
        }
        let Some(others) = &state.unindexed else { return };
        self.decide_accesses(decisions, node, &others.accesses);
        for attached in &others.attached {
            self.decide_trigger_table(decisions, node, paths, *attached);
            self.decide_access_table(decisions, node, paths, *attached);
        }
        self.decide_candidates(decisions, node, &others.candidates);
    }
}
