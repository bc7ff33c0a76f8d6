//! Conditions on elements: each is decided once a message for each element, however many queries have it.

use super::state::MessageRun;
use crate::access::conditions::SharedCondition;
use crate::document::{NO_NODE, NodeId, NodeKind};
use crate::eval::{EvalError, NodeRef};
use crate::ids::ConditionId;
use crate::plan::Relation;

/// Conditions count their visits for themselves, since queries share them: their numbers begin here.
const CONDITION_PAYERS: u32 = 1 << 30;

/// In the table of decisions: what a condition is at an element.
const FALSE: u32 = 0;
const TRUE: u32 = 1;
const TOO_EXPENSIVE: u32 = 2;
const NOT_A_NODE_SET: u32 = 3;

impl<'a> MessageRun<'a, '_> {
    /// Returns whether a condition holds at a node.
    pub(super) fn condition(&mut self, id: ConditionId, node: NodeId) -> Result<bool, EvalError> {
        let Some((condition, is_shared)) = self.query_index.shared.entry(id) else {
            return Ok(id == ConditionId::NONE);
        };
        match condition {
            SharedCondition::Test(operand, relation)
                if !is_shared || !matches!(relation, Relation::Matches(_) | Relation::Region(_)) =>
            {
                self.test_holds(id, *operand, relation, node)
            }
            SharedCondition::Named(test) => Ok(test.accepts(self.message.document.nodes[node as usize].name)),
            SharedCondition::IsRoot => Ok(self.message.document.nodes[node as usize].parent == 0),
            SharedCondition::Structure(structure) if node != 0 => self.has_structure(node, *structure),
            SharedCondition::Not(operand) => Ok(!self.condition(*operand, node)?),
            SharedCondition::AtDocument(operand) => self.condition(*operand, 0),
            SharedCondition::Above(levels, operand) => {
                let mut element = node;
                self.memo.ancestor_checks += u64::from(*levels);
                for _ in 0..*levels {
                    element = self.message.document.nodes[element as usize].parent;
                    if element == NO_NODE || element == 0 {
                        return Ok(false);
                    }
                }
                self.condition(*operand, element)
            }
            _ if !is_shared && condition.is_composite() => self.decide_condition(id, condition, node),
            _ => self.remembered(id, condition, node),
        }
    }

    fn remembered(&mut self, id: ConditionId, condition: &'a SharedCondition, node: NodeId) -> Result<bool, EvalError> {
        let key = u64::from(id.as_u32()) << 32 | u64::from(node);
        match self.memo.decisions.get(key) {
            Some(TOO_EXPENSIVE) => return Err(self.budget_exceeded()),
            Some(NOT_A_NODE_SET) => return Err(EvalError::NotANodeSet),
            Some(decision) => return Ok(decision == TRUE),
            None => {}
        }
        let truth = self.decide_condition(id, condition, node);
        let decision = match &truth {
            Ok(true) => TRUE,
            Ok(false) => FALSE,
            Err(EvalError::NotANodeSet) => NOT_A_NODE_SET,
            Err(_) => TOO_EXPENSIVE,
        };
        self.memo.decisions.insert(key, decision);
        truth
    }

    fn decide_condition(
        &mut self,
        id: ConditionId,
        condition: &'a SharedCondition,
        node: NodeId,
    ) -> Result<bool, EvalError> {
        match condition {
            SharedCondition::All(operands) => {
                for &operand in operands {
                    if !self.condition(operand, node)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            SharedCondition::Any(operands) => {
                for &operand in operands {
                    if self.condition(operand, node)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            SharedCondition::OneOf(operand, how, tests) => self.has_one_of(*operand, *how, tests, node),
            SharedCondition::Child(test, operand) => {
                let document = self.message.document;
                for child in document.children(node) {
                    let child_node = &document.nodes[child as usize];
                    let is_named = child_node.kind == NodeKind::Element && test.accepts(child_node.name);
                    if is_named && self.condition(*operand, child)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            SharedCondition::Ancestor(operand) => self.ancestor_satisfies(id, *operand, node),
            SharedCondition::Expr(expr) => {
                self.resume_condition(id);
                self.evaluator.condition(expr, NodeRef::Node(node))
            }
            SharedCondition::Structure(structure) => self.has_structure(node, *structure),
            SharedCondition::Position(step) => {
                self.resume_condition(id);
                self.evaluator.predicates_hold(step, node)
            }
            SharedCondition::Test(operand, relation) => self.test_holds(id, *operand, relation, node),
            // These are decided without being remembered.
            SharedCondition::Named(_)
            | SharedCondition::IsRoot
            | SharedCondition::Not(_)
            | SharedCondition::AtDocument(_)
            | SharedCondition::Above(..) => self.condition(id, node),
        }
    }

    /// Has all queries pay that use a condition.
    pub(super) fn resume_condition(&self, id: ConditionId) {
        let users = || self.query_index.shared.users_of_condition(id);
        self.evaluator.resume_shared(CONDITION_PAYERS + id.as_u32(), users);
    }

    /// Returns whether some ancestor satisfies a condition. Each ancestor is tested once: the answer for an element is
    /// that for all elements below it.
    fn ancestor_satisfies(&mut self, id: ConditionId, operand: ConditionId, node: NodeId) -> Result<bool, EvalError> {
        let key = |node: NodeId| u64::from(id.as_u32()) << 32 | u64::from(node);
        let mut asked = Vec::new();
        let mut element = node;
        let holds = loop {
            if let Some(decision) = self.memo.decisions.get(key(element)).filter(|&decision| decision <= TRUE) {
                break decision == TRUE;
            }
            asked.push(element);
            self.memo.ancestor_checks += 1;
            element = self.message.document.nodes[element as usize].parent;
            if element == 0 || element == NO_NODE {
                break false;
            }
            if self.condition(operand, element)? {
                break true;
            }
        };
        for element in asked {
            self.memo.decisions.insert(key(element), if holds { TRUE } else { FALSE });
        }
        Ok(holds)
    }
}
