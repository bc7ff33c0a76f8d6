//! Structural conditions that triggers ask for, each kept once and decided once for each shape.

use rustc_hash::FxHashMap;

use super::RequiredNames;
use super::shapes::ShapeId;
use crate::query::ast::{Expr, Function, NameTest, NodeTest, Step};

/// Number of a condition.
pub type StructuralConditionId = u32;

/// A condition and what it needs.
#[derive(Clone, Debug)]
pub struct StructuralCondition {
    /// To be evaluated at the element.
    pub expr: Expr,
    /// Names that it requires below the element.
    pub required: RequiredNames,
    spelled: Box<[u8]>,
    uses: u32,
}

/// The distinct conditions in use. A number is never used twice, so what was decided under one stays true.
#[derive(Clone, Debug, Default)]
pub struct StructuralConditions {
    entries: FxHashMap<StructuralConditionId, StructuralCondition>,
    by_spelling: FxHashMap<Box<[u8]>, StructuralConditionId>,
    next: StructuralConditionId,
}

impl StructuralConditions {
    /// The number of a condition, with one more use.
    pub fn acquire(&mut self, expr: &Expr) -> StructuralConditionId {
        let mut spelled = Vec::new();
        spell(expr, &mut spelled);
        if let Some(&id) = self.by_spelling.get(spelled.as_slice()) {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.uses += 1;
            }
            return id;
        }
        let spelled: Box<[u8]> = spelled.into();
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        let required = RequiredNames::of(expr);
        self.entries
            .insert(id, StructuralCondition { expr: expr.clone(), required, spelled: spelled.clone(), uses: 1 });
        self.by_spelling.insert(spelled, id);
        id
    }

    /// One use less; the last one forgets the condition.
    pub fn release(&mut self, id: StructuralConditionId) {
        let Some(condition) = self.entries.get_mut(&id) else { return };
        condition.uses -= 1;
        if condition.uses == 0
            && let Some(condition) = self.entries.remove(&id)
        {
            self.by_spelling.remove(&condition.spelled);
        }
    }

    /// A condition.
    #[inline]
    pub fn get(&self, id: StructuralConditionId) -> Option<&StructuralCondition> {
        self.entries.get(&id)
    }

    /// No condition at all?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes on the heap, by estimate.
    pub fn bytes(&self) -> usize {
        self.entries.values().map(|entry| 4 * entry.spelled.len() + 200).sum()
    }
}

/// What was decided of conditions at shapes.
#[derive(Debug, Default)]
pub struct ConditionDecisions {
    truths: FxHashMap<(StructuralConditionId, ShapeId), bool>,
}

impl ConditionDecisions {
    /// Forget all.
    pub fn clear(&mut self) {
        self.truths.clear();
    }

    /// Bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.truths.len() * 26
    }

    /// Whether the condition holds at elements of the shape, if that was decided.
    #[inline]
    pub fn get(&self, condition: StructuralConditionId, shape: ShapeId) -> Option<bool> {
        self.truths.get(&(condition, shape)).copied()
    }

    /// File a decision.
    pub fn insert(&mut self, condition: StructuralConditionId, shape: ShapeId, truth: bool) {
        self.truths.insert((condition, shape), truth);
    }
}

/// Write a structural condition so that equal ones, and only those, are spelled alike.
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
        Expr::Compare { .. } | Expr::Arithmetic { .. } | Expr::Negate(_) | Expr::Number(_) | Expr::Literal(_) => {
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
