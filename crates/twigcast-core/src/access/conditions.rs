//! Operands and conditions, each kept once however many queries have it.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use super::entry::{ConditionId, OperandId};
use super::expr_hash::{hash_expr, hash_step};
use super::prefixes::PrefixIndex;
use super::substrings::SubstringIndex;
use crate::ids::StructuralConditionId;
use crate::plan::{Condition, NumberRange, Operand, Relation, ValueTest};
use crate::query::ast::{Expr, NameTest, Step};
use crate::twig::conditions::StructuralConditions;

/// Uses of an operand that are assumed before any is known: so a value is not taken for common because it came first.
const PRIOR_USES: f32 = 20.0;
/// Of these, those of a value that no query has asked for: few, so that operands are tried of which little is known.
const PRIOR_OF_NEW: f32 = 0.1;

/// A condition, with the numbers of those that it is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum SharedCondition {
    /// See [`Condition::All`].
    All(Box<[ConditionId]>),
    /// See [`Condition::Any`].
    Any(Box<[ConditionId]>),
    /// Any of many texts, which the values of an operand equal or contain: a list of codes or words. In order.
    OneOf(OperandId, TextMatch, Box<[ConditionId]>),
    /// See [`Condition::Not`].
    Not(ConditionId),
    /// See [`Condition::Test`].
    Test(OperandId, Relation),
    /// See [`Condition::Expr`].
    Expr(Box<Expr>),
    /// See [`Condition::Structure`].
    Structure(StructuralConditionId),
    /// See [`Condition::Position`].
    Position(Box<Step>),
    /// See [`Condition::Above`].
    Above(u16, ConditionId),
    /// See [`Condition::Ancestor`].
    Ancestor(ConditionId),
    /// See [`Condition::Child`].
    Child(NameTest, ConditionId),
    /// See [`Condition::AtDocument`].
    AtDocument(ConditionId),
    /// See [`Condition::Named`].
    Named(NameTest),
    /// See [`Condition::IsRoot`].
    IsRoot,
}

/// A way to compare values with a list of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextMatch {
    /// A value is one of them.
    Equal,
    /// A value contains one of them.
    Contain,
}

#[derive(Clone, Debug)]
struct ConditionEntry {
    condition: SharedCondition,
    uses: u32,
}

/// An operand and the texts that its values are tested for.
#[derive(Clone, Debug)]
pub struct SharedOperand {
    /// The operand itself.
    pub operand: Operand,
    /// Uses of all its tests.
    uses: u32,
    prefixes: PrefixIndex,
    substrings: SubstringIndex,
}

/// All operands and conditions in use.
#[derive(Clone, Debug, Default)]
pub struct SharedConditions {
    /// By number; the first is never in use.
    conditions: Vec<Option<ConditionEntry>>,
    free: Vec<ConditionId>,
    condition_ids: HashTable<ConditionId>,
    operands: Vec<Option<SharedOperand>>,
    free_operands: Vec<OperandId>,
    operand_ids: HashTable<OperandId>,
    /// The distinct structural conditions, of triggers too.
    pub structures: StructuralConditions,
}

impl SharedConditions {
    /// Returns the number of a condition, with one more use.
    pub fn acquire(&mut self, condition: &Condition) -> ConditionId {
        let shared = match condition {
            Condition::All(operands) => SharedCondition::All(self.acquire_all(operands)),
            Condition::Any(operands) => self.acquire_any(operands),
            Condition::Not(operand) => SharedCondition::Not(self.acquire(operand)),
            Condition::Test(test) => return self.acquire_test(test),
            Condition::Expr(expr) => SharedCondition::Expr(Box::new(expr.clone())),
            Condition::Structure(expr) => SharedCondition::Structure(self.structures.acquire(expr)),
            Condition::Position(step) => SharedCondition::Position(Box::new(step.clone())),
            Condition::Above(levels, operand) => SharedCondition::Above(*levels, self.acquire(operand)),
            Condition::Ancestor(operand) => SharedCondition::Ancestor(self.acquire(operand)),
            Condition::Child(test, operand) => SharedCondition::Child(*test, self.acquire(operand)),
            Condition::AtDocument(operand) => SharedCondition::AtDocument(self.acquire(operand)),
            Condition::Named(test) => SharedCondition::Named(*test),
            Condition::IsRoot => SharedCondition::IsRoot,
        };
        let hash = hash_condition(&shared);
        match self.condition_with(hash, |existing| *existing == shared) {
            Some(id) => {
                self.release_parts(&shared);
                self.use_again(id)
            }
            None => self.insert(hash, shared),
        }
    }

    fn acquire_all(&mut self, conditions: &[Rc<Condition>]) -> Box<[ConditionId]> {
        let mut ids: Vec<_> = conditions.iter().map(|condition| self.acquire(condition)).collect();
        // What is decided by a look comes before what is evaluated.
        ids.sort_by_key(|&id| self.condition(id).map_or(0, SharedCondition::effort));
        ids.into()
    }

    fn acquire_any(&mut self, conditions: &[Rc<Condition>]) -> SharedCondition {
        let mut ids = self.acquire_all(conditions);
        let kind = |id: &ConditionId| match self.condition(*id)? {
            SharedCondition::Test(operand, Relation::Equals(_)) => Some((*operand, TextMatch::Equal)),
            SharedCondition::Test(operand, Relation::Contains(_)) => Some((*operand, TextMatch::Contain)),
            _ => None,
        };
        match ids.first().and_then(kind) {
            Some((operand, how)) if ids.iter().all(|id| kind(id) == Some((operand, how))) => {
                ids.sort_unstable();
                SharedCondition::OneOf(operand, how, ids)
            }
            _ => SharedCondition::Any(ids),
        }
    }

    /// Returns the number of a test, with one more use.
    pub fn acquire_test(&mut self, test: &ValueTest) -> ConditionId {
        let operand = self.acquire_operand(&test.operand);
        let hash = hash_test(operand, &test.relation);
        let is_same = |existing: &SharedCondition| matches!(existing, SharedCondition::Test(of, relation) if *of == operand && *relation == test.relation);
        if let Some(id) = self.condition_with(hash, is_same) {
            return self.use_again(id);
        }
        let id = self.insert(hash, SharedCondition::Test(operand, test.relation.clone()));
        if let Some(shared) = self.operand_mut(operand) {
            match &test.relation {
                Relation::StartsWith(prefix) => shared.prefixes.insert(prefix, id),
                Relation::Contains(_) => shared.substrings.insert(id),
                _ => {}
            }
        }
        id
    }

    /// Adds one use to a condition.
    pub fn acquire_again(&mut self, id: ConditionId) -> ConditionId {
        if let Some(&SharedCondition::Test(operand, _)) = self.condition(id)
            && let Some(shared) = self.operand_mut(operand)
        {
            shared.uses += 1;
        }
        self.use_again(id)
    }

    fn use_again(&mut self, id: ConditionId) -> ConditionId {
        if let Some(entry) = &mut self.conditions[id as usize] {
            entry.uses += 1;
        }
        id
    }

    fn insert(&mut self, hash: u64, condition: SharedCondition) -> ConditionId {
        let entry = Some(ConditionEntry { condition, uses: 1 });
        let id = match self.free.pop() {
            Some(id) => {
                self.conditions[id as usize] = entry;
                id
            }
            None => {
                if self.conditions.is_empty() {
                    self.conditions.push(None);
                }
                self.conditions.push(entry);
                self.conditions.len() as ConditionId - 1
            }
        };
        let Self { conditions, condition_ids, .. } = self;
        condition_ids.insert_unique(hash, id, |&id| hash_of(conditions, id));
        id
    }

    fn condition_with(&self, hash: u64, is_it: impl Fn(&SharedCondition) -> bool) -> Option<ConditionId> {
        self.condition_ids.find(hash, |&id| self.condition(id).is_some_and(&is_it)).copied()
    }

    /// Takes one use from a condition. The last one takes it out.
    pub fn release(&mut self, id: ConditionId) {
        let Some(Some(entry)) = self.conditions.get_mut(id as usize) else { return };
        entry.uses -= 1;
        if let SharedCondition::Test(operand, _) = entry.condition {
            return self.release_test(id, operand);
        }
        if entry.uses == 0
            && let Some(condition) = self.take_out(id)
        {
            self.release_parts(&condition);
        }
    }

    fn release_parts(&mut self, condition: &SharedCondition) {
        if let SharedCondition::Structure(structure) = condition {
            self.structures.release(*structure);
        }
        condition.operands().iter().for_each(|&operand| self.release(operand));
    }

    fn release_test(&mut self, id: ConditionId, operand: OperandId) {
        let is_last = self.uses(id) == 0;
        let condition = if is_last { self.take_out(id) } else { None };
        let Some(shared) = self.operand_mut(operand) else { return };
        match condition {
            Some(SharedCondition::Test(_, Relation::StartsWith(prefix))) => shared.prefixes.remove(&prefix),
            Some(SharedCondition::Test(_, Relation::Contains(_))) => shared.substrings.remove(id),
            _ => {}
        }
        shared.uses -= 1;
        if shared.uses == 0 {
            let hash = hash_operand(&shared.operand);
            if let Ok(entry) = self.operand_ids.find_entry(hash, |&existing| existing == operand) {
                entry.remove();
            }
            self.operands[operand as usize] = None;
            self.free_operands.push(operand);
        }
    }

    fn take_out(&mut self, id: ConditionId) -> Option<SharedCondition> {
        let hash = hash_of(&self.conditions, id);
        if let Ok(entry) = self.condition_ids.find_entry(hash, |&existing| existing == id) {
            entry.remove();
        }
        let entry = self.conditions[id as usize].take()?;
        self.free.push(id);
        Some(entry.condition)
    }

    fn acquire_operand(&mut self, operand: &Operand) -> OperandId {
        let hash = hash_operand(operand);
        if let Some(id) = self.operand_id(hash, operand) {
            if let Some(shared) = self.operand_mut(id) {
                shared.uses += 1;
            }
            return id;
        }
        let shared = SharedOperand {
            operand: operand.clone(),
            uses: 1,
            prefixes: PrefixIndex::default(),
            substrings: SubstringIndex::default(),
        };
        let id = match self.free_operands.pop() {
            Some(id) => {
                self.operands[id as usize] = Some(shared);
                id
            }
            None => {
                self.operands.push(Some(shared));
                self.operands.len() as OperandId - 1
            }
        };
        let Self { operands, operand_ids, .. } = self;
        let rehash = |&id: &OperandId| {
            operands[id as usize].as_ref().map_or(0, |shared: &SharedOperand| hash_operand(&shared.operand))
        };
        operand_ids.insert_unique(hash, id, rehash);
        id
    }

    fn operand_id(&self, hash: u64, operand: &Operand) -> Option<OperandId> {
        self.operand_ids.find(hash, |&id| self.operand(id).is_some_and(|shared| shared.operand == *operand)).copied()
    }

    fn operand_mut(&mut self, id: OperandId) -> Option<&mut SharedOperand> {
        self.operands.get_mut(id as usize)?.as_mut()
    }

    /// Returns a condition.
    #[inline]
    pub fn condition(&self, id: ConditionId) -> Option<&SharedCondition> {
        self.conditions.get(id as usize)?.as_ref().map(|entry| &entry.condition)
    }

    /// Returns how many queries and conditions use a condition.
    pub fn uses(&self, id: ConditionId) -> u32 {
        self.conditions.get(id as usize).and_then(Option::as_ref).map_or(0, |entry| entry.uses)
    }

    /// Returns an operand.
    #[inline]
    pub fn operand(&self, id: OperandId) -> Option<&SharedOperand> {
        self.operands.get(id as usize)?.as_ref()
    }

    /// Returns the test whether an operand equals a text, if any query has it.
    #[inline]
    pub fn equality(&self, operand: OperandId, text: &str) -> Option<ConditionId> {
        let is_it = |existing: &SharedCondition| match existing {
            SharedCondition::Test(of, Relation::Equals(existing)) => *of == operand && **existing == *text,
            _ => false,
        };
        self.condition_with(hash_equality(operand, text), is_it)
    }

    /// Returns the test whether an operand is a number, if any query has it.
    #[inline]
    pub fn number_equality(&self, operand: OperandId, number: u64) -> Option<ConditionId> {
        let relation = Relation::Within(NumberRange { low: number, high: number });
        let is_it = |existing: &SharedCondition| match existing {
            SharedCondition::Test(of, existing) => *of == operand && *existing == relation,
            _ => false,
        };
        self.condition_with(hash_test(operand, &relation), is_it)
    }

    /// Returns whether several queries or conditions use a condition.
    #[inline]
    pub fn is_shared(&self, id: ConditionId) -> bool {
        self.uses(id) > 1
    }

    /// Appends the tests for texts that a value of an operand starts with.
    pub fn append_prefixes(&self, operand: OperandId, value: &str, tests: &mut Vec<ConditionId>) {
        if let Some(shared) = self.operand(operand).filter(|shared| !shared.prefixes.is_empty()) {
            shared.prefixes.append_of(value, tests);
        }
    }

    /// Appends the tests for texts that a value of an operand contains.
    pub fn append_substrings(&self, operand: OperandId, value: &str, tests: &mut Vec<ConditionId>) {
        if let Some(shared) = self.operand(operand).filter(|shared| !shared.substrings.is_empty()) {
            let part = |test| match self.condition(test) {
                Some(SharedCondition::Test(_, Relation::Contains(part))) => &**part,
                _ => "",
            };
            shared.substrings.append_of(value, part, tests);
        }
    }

    /// Returns in what part of all messages an operand is expected to equal a text: as often as queries ask for it.
    pub fn frequency(&self, operand: &Operand, text: &str) -> f32 {
        let operand = self.operand_id(hash_operand(operand), operand);
        let total = operand.and_then(|id| self.operand(id)).map_or(0, |shared| shared.uses);
        let test = operand.and_then(|id| self.equality(id, text));
        let uses = test.map_or(0, |id| self.uses(id));
        (uses as f32 + PRIOR_OF_NEW) / (total as f32 + PRIOR_USES)
    }

    /// Returns how many conditions there are.
    pub fn len(&self) -> usize {
        self.condition_ids.len()
    }

    /// Returns whether there is no condition.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns bytes on the heap, by estimate: of expressions, only those that stand by themselves are counted.
    pub fn bytes(&self) -> usize {
        let texts = self.conditions.iter().flatten().map(|entry| match &entry.condition {
            SharedCondition::All(operands)
            | SharedCondition::Any(operands)
            | SharedCondition::OneOf(_, _, operands) => size_of_val(&**operands),
            SharedCondition::Test(_, Relation::Equals(text) | Relation::Differs(text)) => text.len(),
            SharedCondition::Test(_, Relation::StartsWith(text) | Relation::Contains(text)) => text.len(),
            SharedCondition::Expr(_) => size_of::<Expr>(),
            SharedCondition::Position(_) => size_of::<Step>(),
            _ => 0,
        });
        let operands = self.operands.iter().flatten();
        let finders = operands.map(|shared| shared.prefixes.bytes() + shared.substrings.bytes());
        texts.sum::<usize>()
            + finders.sum::<usize>()
            + self.conditions.capacity() * size_of::<Option<ConditionEntry>>()
            + self.operands.capacity() * size_of::<Option<SharedOperand>>()
            + (self.condition_ids.capacity() + self.operand_ids.capacity()) * 5
    }
}

impl SharedCondition {
    /// Returns the conditions that it is made of.
    fn operands(&self) -> &[ConditionId] {
        match self {
            Self::All(operands) | Self::Any(operands) | Self::OneOf(_, _, operands) => operands,
            Self::Not(operand)
            | Self::Above(_, operand)
            | Self::Ancestor(operand)
            | Self::Child(_, operand)
            | Self::AtDocument(operand) => std::slice::from_ref(operand),
            Self::Test(..) | Self::Expr(_) | Self::Structure(_) | Self::Position(_) | Self::Named(_) | Self::IsRoot => {
                &[]
            }
        }
    }

    /// Returns whether it is decided from other conditions on the same element.
    pub fn is_composite(&self) -> bool {
        matches!(self, Self::All(_) | Self::Any(_))
    }

    /// Returns in what order conditions are decided that all have to hold.
    fn effort(&self) -> u8 {
        match self {
            Self::Named(_) | Self::IsRoot => 0,
            Self::Test(_, Relation::Contains(_)) => 3,
            Self::Test(..) => 1,
            Self::Above(..) | Self::AtDocument(_) | Self::Structure(_) => 2,
            Self::OneOf(_, TextMatch::Equal, _) => 2,
            Self::OneOf(_, TextMatch::Contain, _) => 3,
            Self::All(_) | Self::Any(_) | Self::Not(_) | Self::Child(..) | Self::Ancestor(_) => 4,
            Self::Position(_) => 5,
            Self::Expr(_) => 6,
        }
    }
}

fn hash_of(conditions: &[Option<ConditionEntry>], id: ConditionId) -> u64 {
    conditions[id as usize].as_ref().map_or(0, |entry| hash_condition(&entry.condition))
}

fn hash_condition(condition: &SharedCondition) -> u64 {
    let mut state = FxHasher::default();
    match condition {
        SharedCondition::Test(operand, relation) => return hash_test(*operand, relation),
        SharedCondition::Expr(expr) => hash_expr(expr, &mut state),
        SharedCondition::Structure(structure) => structure.hash(&mut state),
        SharedCondition::Position(step) => hash_step(step, &mut state),
        SharedCondition::Above(levels, _) => levels.hash(&mut state),
        SharedCondition::OneOf(operand, how, _) => (operand, how).hash(&mut state),
        SharedCondition::Child(test, _) | SharedCondition::Named(test) => test.hash(&mut state),
        _ => {}
    }
    std::mem::discriminant(condition).hash(&mut state);
    condition.operands().hash(&mut state);
    finished(state)
}

fn hash_test(operand: OperandId, relation: &Relation) -> u64 {
    let mut state = FxHasher::default();
    match relation {
        Relation::Equals(text) => return hash_equality(operand, text),
        Relation::Differs(text) => (1_u8, text).hash(&mut state),
        Relation::StartsWith(text) => (2_u8, text).hash(&mut state),
        Relation::Contains(text) => (3_u8, text).hash(&mut state),
        Relation::Within(range) => (4_u8, range).hash(&mut state),
        Relation::Overlaps(range) => (5_u8, range).hash(&mut state),
        Relation::OtherNumber(bits) => (6_u8, bits).hash(&mut state),
    }
    operand.hash(&mut state);
    finished(state)
}

#[inline]
fn hash_equality(operand: OperandId, text: &str) -> u64 {
    let mut state = FxHasher::default();
    operand.hash(&mut state);
    text.hash(&mut state);
    finished(state)
}

fn hash_operand(operand: &Operand) -> u64 {
    let mut state = FxHasher::default();
    std::mem::discriminant(operand).hash(&mut state);
    match operand {
        Operand::Own | Operand::Texts => {}
        Operand::Attribute(name) => name.hash(&mut state),
        Operand::Children(test) => test.hash(&mut state),
        Operand::Nodes(expr) | Operand::Text(expr) | Operand::Number(expr) => hash_expr(expr, &mut state),
    }
    finished(state)
}

/// Returns a hash whose high and low bits are both mixed, as the tables need them.
#[inline]
fn finished(state: FxHasher) -> u64 {
    let hash = state.finish();
    hash ^ hash.rotate_left(32)
}
