//! Structural conditions that triggers ask for, each kept once and decided once for each shape.

use rustc_hash::FxHashMap;

use super::Required;
use super::shapes::ShapeId;
use crate::query::ast::{Expr, Function, NameTest, NodeTest, Step};

/// Number of a condition.
pub type ConditionId = u32;

/// A condition and what it needs.
#[derive(Clone, Debug)]
pub struct Condition {
    /// To be evaluated at the element.
    pub expr: Expr,
    /// Names that it requires below the element.
    pub required: Required,
    spelled: Box<[u8]>,
    uses: u32,
}

/// The distinct conditions in use.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    entries: Vec<Option<Condition>>,
    free: Vec<ConditionId>,
    by_spelling: FxHashMap<Box<[u8]>, ConditionId>,
}

impl Conditions {
    /// The number of a condition, with one more use.
    pub fn acquire(&mut self, expr: &Expr) -> ConditionId {
        let mut spelled = Vec::new();
        spell(expr, &mut spelled);
        if let Some(&id) = self.by_spelling.get(spelled.as_slice()) {
            if let Some(entry) = &mut self.entries[id as usize] {
                entry.uses += 1;
            }
            return id;
        }
        let spelled: Box<[u8]> = spelled.into();
        let required = Required::of(expr);
        let entry = Some(Condition { expr: expr.clone(), required, spelled: spelled.clone(), uses: 1 });
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as ConditionId - 1
            }
        };
        self.by_spelling.insert(spelled, id);
        id
    }

    /// One use less; the last one forgets the condition. True if it is gone, so that its number may come to mean another.
    pub fn release(&mut self, id: ConditionId) -> bool {
        let Some(entry) = self.entries.get_mut(id as usize) else { return false };
        let Some(condition) = entry else { return false };
        condition.uses -= 1;
        if condition.uses > 0 {
            return false;
        }
        if let Some(condition) = entry.take() {
            self.by_spelling.remove(&condition.spelled);
        }
        self.free.push(id);
        true
    }

    /// A condition.
    #[inline]
    pub fn get(&self, id: ConditionId) -> Option<&Condition> {
        self.entries.get(id as usize)?.as_ref()
    }

    /// No condition at all?
    pub fn is_empty(&self) -> bool {
        self.entries.len() == self.free.len()
    }

    /// Bytes on the heap, by estimate.
    pub fn bytes(&self) -> usize {
        let used = self.entries.iter().flatten().map(|entry| 4 * entry.spelled.len() + 200).sum::<usize>();
        used + self.entries.capacity() * size_of::<Option<Condition>>()
    }
}

/// What was decided of conditions at shapes.
#[derive(Debug, Default)]
pub struct Decided {
    truths: FxHashMap<(ConditionId, ShapeId), bool>,
}

impl Decided {
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
    pub fn get(&self, condition: ConditionId, shape: ShapeId) -> Option<bool> {
        self.truths.get(&(condition, shape)).copied()
    }

    /// File a decision.
    pub fn insert(&mut self, condition: ConditionId, shape: ShapeId, truth: bool) {
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
        NodeTest::Name(NameTest::Name(name)) => (b'n', name.namespace.0, name.local.0),
        NodeTest::Name(NameTest::Namespace(namespace)) => (b'p', namespace.0, 0),
        NodeTest::Name(NameTest::Local(local)) => (b'l', 0, local.0),
        _ => (b'.', 0, 0),
    };
    out.push(mark);
    out.extend_from_slice(&namespace.to_le_bytes());
    out.extend_from_slice(&local.to_le_bytes());
    spell_list(b'[', &step.predicates, out);
}
