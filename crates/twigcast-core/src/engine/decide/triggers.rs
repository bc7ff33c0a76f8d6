//! Triggers one by one: what remains to be tested of a query once its path and key hold.

use super::state::{Decisions, MessageRun};
use crate::document::NodeId;
use crate::engine::EvaluationSource;
use crate::engine::query_index::CompiledTrigger;
use crate::eval::{Context, EvalError, NodeRef};
use crate::ids::{BranchId, ConditionId, StructuralConditionId, TriggerId};
use crate::rewrite::Payloads;
use crate::twig::shapes::NO_SHAPE;

impl<'a> MessageRun<'a, '_> {
    /// Tests triggers one by one whose keys are not looked up.
    pub(super) fn decide_candidates(&mut self, decisions: &mut Decisions, node: NodeId, candidates: &[TriggerId]) {
        for &number in candidates {
            let Some(trigger) = self.query_index.triggers.get(number) else { continue };
            if !decisions.is_decided(trigger.query) && self.key_holds(decisions, node, trigger) {
                self.test(decisions, node, number);
            }
        }
    }

    pub(super) fn key_holds(&self, decisions: &mut Decisions, node: NodeId, trigger: &CompiledTrigger) -> bool {
        self.satisfies(decisions, node, trigger.key, trigger.query)
    }

    /// Tests a trigger whose path and key hold at the element.
    pub(super) fn test(&mut self, decisions: &mut Decisions, node: NodeId, number: TriggerId) {
        let Some(trigger) = self.query_index.triggers.get(number) else { return };
        if decisions.is_decided(trigger.query) {
            return;
        }
        if trigger.is_evaluated() && decisions.is_set_aside(trigger.query) {
            return;
        }
        match self.holds(decisions, node, trigger) {
            Ok(true) if trigger.asks_whole() => self.evaluate_whole(decisions, trigger.query),
            Ok(true) => decisions.matched.insert(trigger.query),
            Ok(false) => {}
            Err(error) => decisions.fail(trigger.query, error),
        }
    }

    /// Returns whether all tests of a trigger hold, but for its key and the whole expression.
    fn holds(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        trigger: &'a CompiledTrigger,
    ) -> Result<bool, EvalError> {
        let CompiledTrigger { query, also, below, rest, .. } = trigger;
        if also.is_some_and(|key| !self.satisfies(decisions, node, key, *query))
            || *below != BranchId::NONE && !self.branch_holds(decisions, node, *below, *query)
        {
            return Ok(false);
        }
        let Some(rest) = rest else { return Ok(true) };
        if !rest.also.iter().all(|&key| self.satisfies(decisions, node, key, *query))
            || !rest.below.iter().all(|&branch| self.branch_holds(decisions, node, branch, *query))
        {
            return Ok(false);
        }
        for &(distance, condition) in &rest.structures {
            let Some(element) = self.at(decisions, node, distance) else { return Ok(false) };
            if !self.has_structure(element, condition)? {
                return Ok(false);
            }
        }
        if rest.residual == ConditionId::NONE {
            return Ok(true);
        }
        self.memo.trim(&mut self.values);
        self.condition(rest.residual, node)
    }

    /// Returns whether a structural condition holds at an element.
    pub(super) fn has_structure(&mut self, element: NodeId, number: StructuralConditionId) -> Result<bool, EvalError> {
        let shape = self.shape_of[element as usize];
        if let Some(truth) = self.decided.get(number, shape) {
            return Ok(truth);
        }
        let Some(condition) = self.query_index.shared.structures.get(number) else { return Ok(false) };
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
        if decisions.is_decided(query) || decisions.is_set_aside(query) {
            return;
        }
        let holds = match self.engine.evaluated(query) {
            EvaluationSource::Nothing => return,
            EvaluationSource::Expr(expr) => {
                self.evaluator.resume(query);
                self.evaluator.boolean(expr, Context::DOCUMENT)
            }
            EvaluationSource::Bindings(program) => {
                self.evaluator.resume(query);
                let mut payloads = Payloads::default();
                let mut interpreter = self.engine.interpreter(self.message, &mut payloads);
                interpreter.allow(self.evaluator.remaining());
                let holds = interpreter.matches(program);
                self.evaluator.charge(interpreter.visits()).and(holds)
            }
        };
        match holds {
            Ok(true) => decisions.matched.insert(query),
            Ok(false) => decisions.refuted.insert_growing(query),
            Err(error) => decisions.fail(query, error),
        }
    }
}
