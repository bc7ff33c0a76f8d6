//! What remains to be decided where the automaton accepts: twigs, triggers, whole expressions.

mod accesses;
mod ancestors;
mod condition_memo;
mod conditions;
mod lookups;
mod operand_values;
mod satisfied_atoms;
mod simulation;
mod trigger_tables;
mod triggers;
mod twigs;

use rustc_hash::{FxHashMap, FxHashSet};

use self::ancestors::AncestorStack;
pub(super) use self::condition_memo::{ConditionMemo, OperandValues};
pub(super) use self::lookups::{LookupRequest, ValueLookups};
use self::satisfied_atoms::SatisfiedAtoms;
use self::trigger_tables::AncestorConditions;
use super::Engine;
use super::query_index::{PathIndex, QueryIndex};
use super::query_set::QuerySet;
use crate::automaton::dfa::StateDecisions;
use crate::document::{Message, NodeId};
use crate::eval::{EvalError, Evaluator};
use crate::ids::ShapeId;
use crate::predicate::held::AtomLevels;
use crate::predicate::packed::{AtomId, PackedCondition};
use crate::predicate::shape_lists::ShapeWaitLists;
use crate::predicate::waiters::Waiter;
use crate::twig::conditions::ConditionDecisions;
use crate::twig::memo::Memo;
use crate::twig::satisfied::SatisfiedBranches;
use crate::twig::shapes::Shapes;

/// What is known so far of the message in hand.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) matched: QuerySet,
    /// Queries whose whole expression was evaluated and false.
    refuted: QuerySet,
    pub(super) failures: Vec<(u32, EvalError)>,
    failed: QuerySet,
    /// Queries that failed since what they share with others is too expensive to read; each may be decided by itself.
    pub(super) alone: Vec<u32>,
    attribute_atoms: SatisfiedAtoms,
    /// Those that their text satisfies.
    content_atoms: SatisfiedAtoms,
    /// Which keys hold for the element in hand.
    levels: AtomLevels,
    /// What was read for values of elements, in visits, and the tables of which no value is read any more.
    values_read: u64,
    without_values: FxHashSet<usize>,
    compared_atoms: Vec<AtomId>,
    twig_matches: Vec<u32>,
    /// The element in hand and its ancestors.
    ancestors: AncestorStack,
    /// Keys that an element satisfies, and those that its ancestors do.
    own_conditions: Vec<PackedCondition>,
    lookups: ValueLookups,
    ancestor_conditions: Vec<PackedCondition>,
    /// What waits for keys that the ancestors of an element satisfy and needs further tests at the element itself.
    above: Vec<Waiter>,
    /// What the ancestors of an element say, by table and parent: siblings have the same ancestors, so they are asked
    /// once for all.
    above_range: FxHashMap<(usize, NodeId), AncestorConditions>,
}

impl Decisions {
    pub(super) fn reset(&mut self, query_bound: usize) {
        self.matched.reset(query_bound);
        self.refuted.clear();
        self.failures.clear();
        self.failed.clear();
        self.alone.clear();
        self.levels.reset(&self.attribute_atoms.atoms, &self.content_atoms.atoms);
        self.attribute_atoms.clear();
        self.content_atoms.clear();
        self.values_read = 0;
        self.without_values.clear();
        self.above.clear();
        self.above_range.clear();
        self.ancestors.clear();
    }

    /// Nobody asks for these queries any more: they count as decided.
    pub(super) fn rule_out(&mut self, queries: &QuerySet) {
        self.refuted.insert_all(queries);
    }

    /// Looks at ancestors so far.
    pub(super) fn ancestor_checks(&self) -> u64 {
        self.ancestors.ancestor_checks
    }

    fn fail(&mut self, query: u32, error: EvalError) {
        // One record a query and message; it is not tried again on this message.
        self.refuted.insert_growing(query);
        if self.failed.insert_new(query) {
            self.failures.push((query, error));
        }
    }

    /// Records that what a query shares with others failed. A query that is only too expensive so is decided by itself in
    /// the end.
    fn fail_shared(&mut self, query: u32, error: EvalError) {
        if matches!(error, EvalError::BudgetExceeded { .. }) && !self.failed.contains(query) {
            self.alone.push(query);
        }
        self.fail(query, error);
    }

    fn is_decided(&self, query: u32) -> bool {
        self.matched.contains(query) || self.refuted.contains(query)
    }
}

/// One message in hand.
pub(super) struct MessageRun<'a, 't> {
    pub(super) engine: &'a Engine,
    pub(super) population: &'a QueryIndex,
    pub(super) evaluator: Evaluator<'a>,
    pub(super) message: Message<'a>,
    pub(super) budget: usize,
    /// What may be read for values of elements, in visits.
    pub(super) values_max: u64,
    pub(super) shape_of: &'t [ShapeId],
    pub(super) shapes: &'t Shapes,
    pub(super) satisfied: &'t mut SatisfiedBranches,
    pub(super) narrowed: &'t mut ShapeWaitLists,
    pub(super) decided: &'t mut ConditionDecisions,
    pub(super) memo: &'t mut ConditionMemo,
    pub(super) values: OperandValues<'a>,
}

impl<'a> MessageRun<'a, '_> {
    /// Decide all that waits at an element whose DFA state is `state`. `asked`: what [`Self::look_up`] found for it.
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
