//! The state of matching one message, which all parts of deciding share.

use rustc_hash::{FxHashMap, FxHashSet};

use super::ancestors::{AncestorConditions, AncestorStack};
use super::condition_memo::{ConditionMemo, OperandValues};
use super::lookups::ValueLookups;
use super::satisfied_atoms::SatisfiedAtoms;
use crate::access::samples::TestVisits;
use crate::document::{Message, NodeId};
use crate::engine::Engine;
use crate::engine::budget::MessageBudget;
use crate::engine::query_index::QueryIndex;
use crate::engine::query_set::QuerySet;
use crate::eval::{EvalError, Evaluator};
use crate::ids::{AtomId, ConditionId, ShapeId};
use crate::predicate::held::AtomLevels;
use crate::predicate::packed::PackedCondition;
use crate::predicate::shape_lists::ShapeWaitLists;
use crate::predicate::waiters::Waiter;
use crate::twig::conditions::ConditionDecisions;
use crate::twig::satisfied::SatisfiedBranches;
use crate::twig::shapes::Shapes;

/// The decisions on one message so far: the queries that match and those that failed, and the values read for them.
#[derive(Debug, Default)]
pub(in crate::engine) struct Decisions {
    pub(in crate::engine) matched: QuerySet,
    /// Queries whose whole expression was evaluated and false.
    pub(super) refuted: QuerySet,
    pub(in crate::engine) failures: Vec<(u32, EvalError)>,
    pub(super) failed: QuerySet,
    /// Queries that are postponed: they are decided by turns at the end (see [`MessageBudget`]).
    pub(in crate::engine) postponed: Vec<u32>,
    /// Queries that are set aside on this message, and why.
    pub(in crate::engine) set_aside: FxHashMap<u32, EvalError>,
    /// Queries whose results are not made for this message, and why.
    pub(in crate::engine) without_results: FxHashMap<u32, EvalError>,
    /// The budget of the message, and its visits so far.
    pub(in crate::engine) budget: MessageBudget,
    /// The tests that have led to queries in vain, of a message that is sampled.
    pub(in crate::engine) visits: Vec<(ConditionId, TestVisits)>,
    pub(super) attribute_atoms: SatisfiedAtoms,
    /// The atoms that the text of elements satisfies.
    pub(super) content_atoms: SatisfiedAtoms,
    /// Which keys hold at the current element.
    pub(super) levels: AtomLevels,
    /// The visits that reading the values of elements has cost, and the tables and operands, by their addresses, of which
    /// no value is read any more.
    pub(super) values_read: u64,
    pub(super) without_values: FxHashSet<usize>,
    pub(super) compared_atoms: Vec<AtomId>,
    pub(super) twig_matches: Vec<u32>,
    /// The current element and its ancestors.
    pub(super) ancestors: AncestorStack,
    /// Keys that an element satisfies.
    pub(super) own_conditions: Vec<PackedCondition>,
    pub(super) lookups: ValueLookups,
    pub(super) ancestor_conditions: Vec<PackedCondition>,
    /// Waiters that conditions on ancestors let through and that need further tests at the element itself.
    pub(super) above: Vec<Waiter>,
    /// The parts of `above` by table and parent: siblings have the same ancestors, so one lookup serves all of them.
    pub(super) above_range: FxHashMap<(usize, NodeId), AncestorConditions>,
}

impl Decisions {
    /// Begins with a message, for so many queries.
    pub(in crate::engine) fn reset(&mut self, query_bound: usize) {
        self.matched.reset(query_bound);
        self.refuted.clear();
        self.failures.clear();
        self.failed.clear();
        self.postponed.clear();
        self.visits.clear();
        self.set_aside.clear();
        self.without_results.clear();
        self.budget = MessageBudget::default();
        self.levels.reset(&self.attribute_atoms.atoms, &self.content_atoms.atoms);
        self.attribute_atoms.clear();
        self.content_atoms.clear();
        self.values_read = 0;
        self.without_values.clear();
        self.above.clear();
        self.above_range.clear();
        self.ancestors.clear();
    }

    /// Counts queries as decided that nobody asks for any more.
    pub(in crate::engine) fn rule_out(&mut self, queries: &QuerySet) {
        self.refuted.insert_all(queries);
    }

    /// Returns what was read for values of elements, in visits.
    pub(in crate::engine) fn values_read(&self) -> u64 {
        self.values_read
    }

    /// Returns how many times an ancestor has been visited.
    pub(in crate::engine) fn ancestor_checks(&self) -> u64 {
        self.ancestors.ancestor_checks
    }

    /// Records the failure of a query. It is tried again on this message only if it was too expensive beside the
    /// others.
    pub(in crate::engine) fn fail(&mut self, query: u32, error: EvalError) {
        self.refuted.insert_growing(query);
        if !self.failed.insert_new(query) {
            return;
        }
        match self.set_aside.get(&query) {
            Some(reason) => self.failures.push((query, reason.clone())),
            None if error.is_overrun() => self.postponed.push(query),
            None => self.failures.push((query, error)),
        }
    }

    /// Returns whether a query is set aside. It is undecided then, since it would have to be evaluated.
    #[inline]
    pub(in crate::engine) fn is_set_aside(&mut self, query: u32) -> bool {
        !self.set_aside.is_empty() && self.fail_if_set_aside(query)
    }

    #[cold]
    fn fail_if_set_aside(&mut self, query: u32) -> bool {
        let Some(reason) = self.set_aside.get(&query).cloned() else { return false };
        self.fail(query, reason);
        true
    }

    /// Returns whether a query has matched, has failed, or is known to be false.
    pub(super) fn is_decided(&self, query: u32) -> bool {
        self.matched.contains(query) || self.refuted.contains(query)
    }
}

/// A message that is being matched, with what the queries and earlier messages provide for it.
pub(in crate::engine) struct MessageRun<'a, 't> {
    pub(in crate::engine) engine: &'a Engine,
    pub(in crate::engine) query_index: &'a QueryIndex,
    pub(in crate::engine) evaluator: Evaluator<'a>,
    pub(in crate::engine) message: Message<'a>,
    pub(in crate::engine) budget: usize,
    /// The limit on [`Decisions::values_read`].
    pub(in crate::engine) values_max: u64,
    /// The values and tests of the message are noted (see [`crate::access::samples`]).
    pub(in crate::engine) is_sampled: bool,
    /// The budget with which the message began.
    pub(in crate::engine) costs: MessageBudget,
    pub(in crate::engine) shape_of: &'t [ShapeId],
    pub(in crate::engine) shapes: &'t Shapes,
    pub(in crate::engine) satisfied: &'t mut SatisfiedBranches,
    pub(in crate::engine) narrowed: &'t mut ShapeWaitLists,
    pub(in crate::engine) decided: &'t mut ConditionDecisions,
    pub(in crate::engine) memo: &'t mut ConditionMemo,
    pub(in crate::engine) values: OperandValues<'a>,
}
