//! Triggers one by one: what remains to be tested of a query once its path and key hold.

use super::upward::upward;
use super::{Decisions, MessageRun};
use crate::document::NodeId;
use crate::engine::EvaluationSource;
use crate::engine::query_index::CompiledTrigger;
use crate::eval::{Context, EvalError, NodeRef};
use crate::ids::StructuralConditionId;
use crate::rewrite::Payloads;
use crate::twig::shapes::NO_SHAPE;

/// So many candidates of one place are kept account of one by one.
const CANDIDATES_MANY: usize = 64;

impl<'a> MessageRun<'a, '_> {
    pub(super) fn decide_candidates(&mut self, decisions: &mut Decisions, node: NodeId, candidates: &[u32]) {
        if candidates.len() >= CANDIDATES_MANY && decisions.open_count + candidates.len() <= self.budget / 16 {
            return self.decide_open(decisions, node, candidates);
        }
        for &number in candidates {
            self.decide_candidate(decisions, node, number);
        }
    }

    fn decide_candidate(&mut self, decisions: &mut Decisions, node: NodeId, number: u32) {
        let holds = match self.population.triggers.get(number) {
            Some(trigger) if trigger.key.is_some() => self.key_holds(decisions, node, trigger),
            _ => true,
        };
        if holds {
            self.test(decisions, node, number);
        }
    }

    /// The same for many candidates, of which those are tested at further elements that are not decided by then. Lists of
    /// candidates stay where they are as long as a message is decided.
    fn decide_open(&mut self, decisions: &mut Decisions, node: NodeId, candidates: &[u32]) {
        let position = candidates.as_ptr().addr();
        let mut open = decisions.open.remove(&position).unwrap_or_else(|| {
            decisions.open_count += candidates.len();
            candidates.to_vec()
        });
        open.retain(|&number| {
            let Some(trigger) = self.population.triggers.get(number) else { return false };
            if decisions.is_decided(trigger.query) || self.is_ruled_out(trigger) {
                return false;
            }
            self.decide_candidate(decisions, node, number);
            true
        });
        decisions.open.insert(position, open);
    }

    /// Is it known that a trigger's conditions hold at no element of the message?
    fn is_ruled_out(&self, trigger: &CompiledTrigger) -> bool {
        let Some(rest) = trigger.rest.as_ref().filter(|_| self.evaluator.has_grams()) else { return false };
        rest.upward.iter().flat_map(|check| &check.conditions).any(|condition| self.evaluator.rules_out(condition))
    }

    pub(super) fn key_holds(&self, decisions: &mut Decisions, node: NodeId, trigger: &CompiledTrigger) -> bool {
        trigger.key.is_none_or(|key| self.satisfies(decisions, node, key, trigger.query))
    }

    /// Test a trigger whose path and key hold at the element.
    pub(super) fn test(&mut self, decisions: &mut Decisions, node: NodeId, number: u32) {
        let Some(trigger) = self.population.triggers.get(number) else { return };
        if decisions.is_decided(trigger.query) {
            return;
        }
        match self.holds(decisions, node, number, trigger) {
            Ok(true) if trigger.asks_whole() => self.evaluate_whole(decisions, trigger.query),
            Ok(true) => decisions.matched.insert(trigger.query),
            Ok(false) => {}
            Err(error) => decisions.fail(trigger.query, error),
        }
    }

    /// Do all tests of a trigger hold, but for its key and the whole expression?
    fn holds(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        number: u32,
        trigger: &'a CompiledTrigger,
    ) -> Result<bool, EvalError> {
        let CompiledTrigger { query, also, below, rest, .. } = trigger;
        if also.is_some_and(|key| !self.satisfies(decisions, node, key, *query))
            || *below != 0 && !self.branch_holds(decisions, node, *below, *query)
        {
            return Ok(false);
        }
        let Some(rest) = rest else { return Ok(true) };
        if !rest.also.iter().all(|&key| self.satisfies(decisions, node, key, *query))
            || !rest.below.iter().all(|&branch| self.branch_holds(decisions, node, branch, *query))
        {
            return Ok(false);
        }
        for &(distance, condition) in &rest.shapes {
            let Some(element) = self.at(decisions, node, distance) else { return Ok(false) };
            if !self.has_structure(element, condition)? {
                return Ok(false);
            }
        }
        if rest.upward.is_empty() {
            return Ok(true);
        }
        self.evaluator.resume(*query);
        upward(&self.evaluator, &mut decisions.ancestors, number, &rest.upward, node)
    }

    /// Does a structural condition hold at an element?
    fn has_structure(&mut self, element: NodeId, number: StructuralConditionId) -> Result<bool, EvalError> {
        let shape = self.shape_of[element as usize];
        if let Some(truth) = self.decided.get(number, shape) {
            return Ok(truth);
        }
        let Some(condition) = self.population.conditions.get(number) else { return Ok(false) };
        if shape != NO_SHAPE {
            let required = &condition.required;
            if !required.children.within(self.shapes.children_mask(shape))
                || !required.below.within(self.shapes.below_mask(shape))
            {
                return Ok(false);
            }
        }
        // Conditions are shared, so each has a budget of its own; numbers of queries start at the other end.
        self.evaluator.resume(u32::MAX - 1 - number.as_u32());
        let truth = self.evaluator.condition(&condition.expr, NodeRef::Node(element))?;
        if shape != NO_SHAPE && self.decided.bytes() < self.budget / 4 {
            self.decided.insert(number, shape, truth);
        }
        Ok(truth)
    }

    pub(in crate::engine) fn evaluate_whole(&self, decisions: &mut Decisions, query: u32) {
        if decisions.is_decided(query) {
            return;
        }
        let holds = match self.engine.evaluated(query) {
            EvaluationSource::Nothing => return,
            EvaluationSource::Expr(expr) => {
                self.evaluator.resume(query);
                self.evaluator.boolean(expr, Context::DOCUMENT)
            }
            EvaluationSource::Bindings(program) => {
                self.engine.interpreter(self.message, &mut Payloads::default()).matches(program)
            }
        };
        match holds {
            Ok(true) => decisions.matched.insert(query),
            Ok(false) => decisions.refuted.insert_growing(query),
            Err(error) => decisions.fail(query, error),
        }
    }
}
