//! Twigs: nested paths, decided from what holds at the shapes below.

use super::state::{Decisions, MessageRun};
use crate::automaton::dfa::StateDecisions;
use crate::document::NodeId;
use crate::eval::{EvalError, NodeRef};
use crate::ids::{BranchId, ShapeId, TwigId};
use crate::predicate::trigger_table::TriggerTable;
use crate::twig::memo::Memo;
use crate::twig::shapes::NO_SHAPE;
use crate::twig::{Twig, TwigCondition};

impl<'a> MessageRun<'a, '_> {
    pub(super) fn decide_twigs(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        state: &StateDecisions,
        memo: &mut Memo,
    ) {
        let shape = self.shape_of[node as usize];
        let Some(others) = &state.unindexed else { return };
        if shape == NO_SHAPE || state.asks_branches() && !self.satisfied.is_decided(shape) {
            for twig in others.all_twigs() {
                self.test_twig(decisions, node, twig);
            }
            return;
        }
        if let Some(matched) = memo.get(state.twigs_version, shape) {
            for &query in matched {
                decisions.matched.insert(query);
            }
            return;
        }
        let mut matched = std::mem::take(&mut decisions.twig_matches);
        matched.clear();
        if state.asks_branches() {
            self.decide_branching(decisions, shape, &others.branching, &mut matched);
        }
        let complete = self.evaluate_twigs(decisions, node, shape, &others.twigs, &mut matched);
        for &query in &matched {
            decisions.matched.insert(query);
        }
        if complete && memo.bytes() < self.budget / 2 {
            memo.insert(state.twigs_version, shape, &matched);
        }
        decisions.twig_matches = matched;
    }

    /// Finds the queries whose branches all hold at elements of a shape.
    fn decide_branching(
        &mut self,
        decisions: &mut Decisions,
        shape: ShapeId,
        branching: &TriggerTable,
        matched: &mut Vec<u32>,
    ) {
        self.satisfied.make_current(self.shapes, self.query_index.branches.bound(), shape);
        let satisfied = &*self.satisfied;
        let asked = &mut decisions.own_conditions;
        asked.clear();
        asked.extend(satisfied.at_shape().iter().map(|branch| branch.as_u32()));
        branching.select(asked);
        for position in &*asked {
            let list = branching.get(position);
            matched.extend(list.satisfied());
            for entry in list.multi_condition {
                if entry.also.is_some_and(|also| !satisfied.holds(BranchId::from_u32(also.get()))) {
                    continue;
                }
                let holds = entry.trigger.is_none_or(|twig| match self.query_index.twigs.get(TwigId::from_u32(twig)) {
                    Some(Twig { condition: TwigCondition::Branches(all), .. }) => {
                        self.query_index.branches.rest(all).iter().all(|&branch| satisfied.holds(branch))
                    }
                    _ => false,
                });
                if holds {
                    matched.push(entry.query);
                }
            }
        }
    }

    /// Evaluates twigs one by one. Returns `false` if some could not be decided.
    fn evaluate_twigs(
        &self,
        decisions: &mut Decisions,
        node: NodeId,
        shape: ShapeId,
        twigs: &[TwigId],
        matched: &mut Vec<u32>,
    ) -> bool {
        let (children, below) = (self.shapes.children_mask(shape), self.shapes.below_mask(shape));
        let mut complete = true;
        for &number in twigs {
            let Some(twig) = self.query_index.twigs.get(number) else { continue };
            if let TwigCondition::Expr(evaluated) = &twig.condition {
                let required = &evaluated.1;
                if !required.children.within(children) || !required.below.within(below) {
                    continue;
                }
            }
            match self.twig_holds(node, twig) {
                Ok(true) => matched.push(twig.query),
                Ok(false) => {}
                Err(error) => {
                    complete = false;
                    decisions.fail(twig.query, error);
                }
            }
        }
        complete
    }

    fn twig_holds(&self, node: NodeId, twig: &'a Twig) -> Result<bool, EvalError> {
        self.evaluator.resume(twig.query);
        match &twig.condition {
            TwigCondition::Branches(all) => self.query_index.branches.hold_at(&self.evaluator, node, all),
            TwigCondition::Expr(evaluated) => self.evaluator.condition(&evaluated.0, NodeRef::Node(node)),
        }
    }

    pub(super) fn test_twig(&self, decisions: &mut Decisions, node: NodeId, number: TwigId) {
        let Some(twig) = self.query_index.twigs.get(number) else { return };
        if decisions.is_decided(twig.query) {
            return;
        }
        match self.twig_holds(node, twig) {
            Ok(true) => decisions.matched.insert(twig.query),
            Ok(false) => {}
            Err(error) => decisions.fail(twig.query, error),
        }
    }
}
