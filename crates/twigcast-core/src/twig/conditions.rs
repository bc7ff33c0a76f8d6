//! Structural conditions that triggers need. Each is kept once, and decided once for each shape.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::RequiredNames;
use crate::ids::{ShapeId, StructuralConditionId};
use crate::query::ast::{Expr, Function, NameTest, NodeTest, Step};
use crate::util::cow_map::CowMap;

/// A structural condition and the names that it requires.
#[derive(Clone, Debug)]
pub struct StructuralCondition {
    /// The expression to be evaluated at the element.
    pub expr: Expr,
    /// Names that it requires below the element.
    pub required: RequiredNames,
    /// The spelling by which equal conditions are found, see [`spell`].
    spelling: Box<[u8]>,
    /// The number of triggers that need it.
    uses: u32,
}

/// The distinct structural conditions in use.
#[derive(Clone, Debug, Default)]
pub struct StructuralConditions {
    entries: CowMap<StructuralConditionId, Arc<StructuralCondition>>,
    ids_by_spelling: CowMap<Box<[u8]>, StructuralConditionId>,
    /// The number of the next id.
    next: u32,
}

impl StructuralConditions {
    /// Returns the id of a condition, counting one more use.
    pub fn acquire(&mut self, expr: &Expr) -> StructuralConditionId {
        let mut spelling = Vec::new();
        spell(expr, &mut spelling);
        if let Some(&id) = self.ids_by_spelling.get(spelling.as_slice()) {
            if let Some(entry) = self.entries.get_mut(&id) {
                Arc::make_mut(entry).uses += 1;
            }
            return id;
        }
        let spelling: Box<[u8]> = spelling.into();
        let id = StructuralConditionId::from_u32(self.next);
        self.next = self.next.wrapping_add(1);
        let required = RequiredNames::of(expr);
        let condition = StructuralCondition { expr: expr.clone(), required, spelling: spelling.clone(), uses: 1 };
        self.entries.insert(id, Arc::new(condition));
        self.ids_by_spelling.insert(spelling, id);
        id
    }

    /// Counts one use less. A condition without uses is removed.
    pub fn release(&mut self, id: StructuralConditionId) {
        let Some(condition) = self.entries.get_mut(&id) else { return };
        let condition = Arc::make_mut(condition);
        condition.uses -= 1;
        if condition.uses == 0
            && let Some(condition) = self.entries.remove(&id)
        {
            self.ids_by_spelling.remove(&condition.spelling);
        }
    }

    /// Returns the condition with an id.
    #[inline]
    pub fn get(&self, id: StructuralConditionId) -> Option<&StructuralCondition> {
        self.entries.get(&id).map(Arc::as_ref)
    }

    /// Returns `true` if there is no condition.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.entries.values().map(|entry| 4 * entry.spelling.len() + 200).sum()
    }
}

/// The truth of conditions at shapes, as far as it was decided.
#[derive(Debug, Default)]
pub struct ConditionDecisions {
    truths: FxHashMap<(StructuralConditionId, ShapeId), bool>,
}

impl ConditionDecisions {
    /// Removes all decisions.
    pub fn clear(&mut self) {
        self.truths.clear();
    }

    /// Returns the bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.truths.len() * 26
    }

    /// Returns whether a condition holds at elements of a shape, if that was decided.
    #[inline]
    pub fn get(&self, condition: StructuralConditionId, shape: ShapeId) -> Option<bool> {
        self.truths.get(&(condition, shape)).copied()
    }

    /// Adds a decision.
    pub fn insert(&mut self, condition: StructuralConditionId, shape: ShapeId, truth: bool) {
        self.truths.insert((condition, shape), truth);
    }
}

/// Writes a structural condition so that equal conditions, and only those, are spelled alike.
fn spell(expr: &Expr, out: &mut Vec<u8>) {
    match expr {
        Expr::And(operands) => spell_list(b'&', operands, out),
        Expr::Or(operands) => spell_list(b'|', operands, out),
        Expr::Union(operands) => spell_list(b'u', operands, out),
        Expr::Call { function, arguments } => {
            out.push(match function {
                Function::Not => b'!',
                Function::True => b't',
                Function::False => b'f',
                _ => b'b',
            });
            spell_list(b'(', arguments, out);
        }
        Expr::Path(path) => {
            out.push(b'/');
            out.extend_from_slice(&(path.steps.len() as u32).to_le_bytes());
            path.steps.iter().for_each(|step| spell_step(step, out));
        }
        // Nothing else is structural.
        Expr::Compare { .. }
        | Expr::Arithmetic { .. }
        | Expr::Negate(_)
        | Expr::Map { .. }
        | Expr::Number(_)
        | Expr::Literal(_)
        | Expr::Pattern(_)
        | Expr::Selection(_)
        | Expr::Region(_)
        | Expr::Typed(_) => {
            out.extend_from_slice(format!("{expr:?}").as_bytes());
        }
    }
}

fn spell_list(mark: u8, operands: &[Expr], out: &mut Vec<u8>) {
    out.push(mark);
    out.extend_from_slice(&(operands.len() as u32).to_le_bytes());
    operands.iter().for_each(|operand| spell(operand, out));
}

fn spell_step(step: &Step, out: &mut Vec<u8>) {
    out.push(step.axis as u8);
    let (mark, namespace, local) = match step.test {
        NodeTest::Name(NameTest::Any) => (b'*', 0, 0),
        NodeTest::Name(NameTest::Name(name)) => (b'n', name.namespace.as_u32(), name.local.as_u32()),
        NodeTest::Name(NameTest::Namespace(namespace)) => (b'p', namespace.as_u32(), 0),
        NodeTest::Name(NameTest::Local(local)) => (b'l', 0, local.as_u32()),
        _ => (b'.', 0, 0),
    };
    out.push(mark);
    out.extend_from_slice(&namespace.to_le_bytes());
    out.extend_from_slice(&local.to_le_bytes());
    spell_list(b'[', &step.predicates, out);
}
