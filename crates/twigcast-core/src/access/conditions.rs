//! Operands and conditions, each kept once however many queries have it.

use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHasher;

use super::expr_hash::{hash_expr, hash_step};
use super::prefixes::PrefixIndex;
use super::substrings::SubstringIndex;
use crate::ids::{ConditionId, OperandId, StructuralConditionId};
use crate::plan::{Condition, NeededChild, NumberRange, Operand, Relation, ValueTest};
use crate::query::ast::{Expr, NameTest, Step};
use crate::twig::conditions::StructuralConditions;
use crate::util::chunked::Chunked;
use crate::util::cow_map::CowHashTable;
use crate::vocabulary::Name;

/// The uses that are assumed of an operand in addition to those that are counted. Without them, the first value that a query
/// asks for would be taken for the only one, and so for common.
const PRIOR_USES: f32 = 20.0;
/// The part of these uses that is assumed of each value. It is small, so that a value which few queries ask for is taken for
/// rare, and an operand of which little is known is tried.
const PRIOR_OF_NEW: f32 = 0.1;
/// The most kinds of elements of which it is known which operands need them.
const NEEDED_MAX: usize = 64;

/// Returns an edition that no other words have that this process asks for.
pub(super) fn next_words_edition() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

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
    /// Of a test, how many times queries ask for it, by way of conditions that they share too.
    asked: u32,
    users: Users,
}

/// How many queries use something, each counted once however often it does. What one query uses is acquired, and released,
/// by and by with nothing of another query in between.
#[derive(Clone, Copy, Debug)]
struct Users {
    count: u32,
    /// The query that came or went last, and in the lowest bit whether it came.
    last: u32,
}

impl Users {
    const NONE: Self = Self { count: 0, last: u32::MAX };

    fn has_noted(self, query: u32, comes: bool) -> bool {
        self.last == query << 1 | u32::from(comes)
    }

    fn note(&mut self, query: u32, comes: bool) {
        if !self.has_noted(query, comes) {
            self.last = query << 1 | u32::from(comes);
            self.count = self.count.saturating_add_signed(if comes { 1 } else { -1 });
        }
    }
}

/// Conditions by id, in small chunks: what they hold is copied with a chunk one by one.
type ConditionEntries = Chunked<Option<ConditionEntry>, 512>;

/// An operand and the texts that its values are tested for.
#[derive(Clone, Debug)]
pub struct SharedOperand {
    /// The operand itself.
    pub operand: Operand,
    /// Uses of all its tests.
    uses: u32,
    /// How many times queries ask for these.
    asked: u32,
    users: Users,
    /// The text that it needs so as to have a value.
    pub needed: Option<NeededText>,
    prefixes: Arc<PrefixIndex>,
    substrings: Arc<SubstringIndex>,
}

/// Elements below one, a part of which operands need: `fact[@concept = 'X']`, for all texts that stand there for `X`.
#[derive(Clone, Debug, PartialEq)]
pub struct NeededElements {
    /// The names of the elements that lead there, each a child of the one before.
    pub path: Vec<Name>,
    /// The part of these that is compared.
    pub key: Operand,
}

/// A text without which an operand has no value, nor a number.
#[derive(Clone, Copy, Debug)]
pub struct NeededText {
    /// The elements where it has to be, by number.
    pub elements: u32,
    /// Its hash.
    pub hash: u64,
}

/// All operands and conditions in use.
#[derive(Clone, Debug, Default)]
pub struct SharedConditions {
    /// By number; the first is never in use.
    conditions: ConditionEntries,
    free: Chunked<ConditionId>,
    condition_ids: CowHashTable<ConditionId>,
    operands: Vec<Option<Arc<SharedOperand>>>,
    free_operands: Vec<OperandId>,
    operand_ids: CowHashTable<OperandId>,
    /// What operands need, by number. A few kinds, which stay.
    needed: Vec<NeededElements>,
    /// The query whose conditions are acquired or released.
    user: u32,
    /// See [`Self::words_edition`].
    words_edition: u64,
    /// The distinct structural conditions, of triggers too.
    pub structures: StructuralConditions,
}

impl SharedConditions {
    /// Sets the query whose conditions are acquired or released from now on.
    pub fn begin_query(&mut self, query: u32) {
        self.user = query;
    }

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
                self.undo_parts(&shared);
                self.note_user(id, true);
                self.use_again(id)
            }
            None => {
                let id = self.insert(hash, shared);
                self.note_user(id, true);
                id
            }
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
            self.ask(id, 1);
            return self.use_again(id);
        }
        let id = self.insert(hash, SharedCondition::Test(operand, test.relation.clone()));
        self.ask(id, 1);
        if matches!(test.relation, Relation::Equals(_)) {
            self.note_words(operand);
        }
        if let Some(shared) = self.operand_mut(operand) {
            match &test.relation {
                Relation::StartsWith(prefix) => Arc::make_mut(&mut shared.prefixes).insert(prefix, id),
                Relation::Contains(_) => Arc::make_mut(&mut shared.substrings).insert(id),
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
        self.ask(id, 1);
        self.use_again(id)
    }

    /// Counts that queries ask for the tests of a condition one time more, or less.
    fn ask(&mut self, id: ConditionId, change: i32) {
        self.note_user(id, change > 0);
        let Some(Some(entry)) = self.conditions.get_mut(id.index()) else { return };
        if let SharedCondition::Test(operand, _) = entry.condition {
            entry.asked = entry.asked.saturating_add_signed(change);
            if let Some(shared) = self.operand_mut(operand) {
                shared.asked = shared.asked.saturating_add_signed(change);
            }
            return;
        }
        for part in 0..entry.condition.operands().len() {
            let part = self.condition(id).and_then(|condition| condition.operands().get(part).copied());
            part.into_iter().for_each(|part| self.ask(part, change));
        }
    }

    /// Counts the query at work as one that uses a condition, or uses it no more.
    fn note_user(&mut self, id: ConditionId, comes: bool) {
        let user = self.user;
        let Some(Some(entry)) = self.conditions.get_mut(id.index()) else { return };
        entry.users.note(user, comes);
        if let SharedCondition::Test(operand, _) | SharedCondition::OneOf(operand, ..) = entry.condition
            && self.operand(operand).is_some_and(|shared| !shared.users.has_noted(user, comes))
            && let Some(shared) = self.operand_mut(operand)
        {
            shared.users.note(user, comes);
        }
    }

    /// Returns how many queries use a condition.
    pub fn users_of_condition(&self, id: ConditionId) -> u32 {
        self.conditions.get(id.index()).and_then(Option::as_ref).map_or(0, |entry| entry.users.count)
    }

    /// Returns how many queries use an operand.
    pub fn users_of_operand(&self, id: OperandId) -> u32 {
        self.operand(id).map_or(0, |operand| operand.users.count)
    }

    /// Releases the parts that were acquired for a condition which turned out to be there already. That condition keeps its own
    /// use of them, so none falls out of use. The counts of how often queries ask for them do not change.
    fn undo_parts(&mut self, condition: &SharedCondition) {
        if let SharedCondition::Structure(structure) = condition {
            self.structures.release(*structure);
        }
        for &part in condition.operands() {
            let Some(Some(entry)) = self.conditions.get_mut(part.index()) else { continue };
            entry.uses -= 1;
            if let SharedCondition::Test(operand, _) = entry.condition
                && let Some(shared) = self.operand_mut(operand)
            {
                shared.uses -= 1;
            }
        }
    }

    fn use_again(&mut self, id: ConditionId) -> ConditionId {
        if let Some(entry) = &mut self.conditions[id.index()] {
            entry.uses += 1;
        }
        id
    }

    fn insert(&mut self, hash: u64, condition: SharedCondition) -> ConditionId {
        let entry = Some(ConditionEntry { condition, uses: 1, asked: 0, users: Users::NONE });
        let id = match self.free.pop() {
            Some(id) => {
                self.conditions[id.index()] = entry;
                id
            }
            None => {
                if self.conditions.is_empty() {
                    self.conditions.push(None);
                }
                self.conditions.push(entry);
                ConditionId::new(self.conditions.len() - 1)
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
        let Some(Some(entry)) = self.conditions.get_mut(id.index()) else { return };
        entry.uses -= 1;
        if let SharedCondition::Test(operand, _) = entry.condition {
            self.ask(id, -1);
            return self.release_test(id, operand);
        }
        if entry.uses > 0 {
            self.ask(id, -1);
        } else if let Some(condition) = self.take_out(id) {
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
        if let Some(SharedCondition::Test(_, Relation::Equals(_))) = condition {
            self.note_words(operand);
        }
        let Some(shared) = self.operand_mut(operand) else { return };
        match condition {
            Some(SharedCondition::Test(_, Relation::StartsWith(prefix))) => {
                Arc::make_mut(&mut shared.prefixes).remove(&prefix)
            }
            Some(SharedCondition::Test(_, Relation::Contains(_))) => Arc::make_mut(&mut shared.substrings).remove(id),
            _ => {}
        }
        shared.uses -= 1;
        if shared.uses == 0 {
            let hash = hash_operand(&shared.operand);
            self.operand_ids.remove(hash, |&existing| existing == operand);
            self.operands[operand.index()] = None;
            self.free_operands.push(operand);
        }
    }

    /// Draws another edition if an operand, for which a test comes or goes, is the words of a text.
    fn note_words(&mut self, operand: OperandId) {
        if self.is_words(operand) {
            self.words_edition = next_words_edition();
        }
    }

    /// Returns whether an operand is the words of a text.
    pub fn is_words(&self, operand: OperandId) -> bool {
        self.operand(operand).is_some_and(|shared| shared.operand.words_of().is_some())
    }

    /// Returns a number that is another one whenever other words are asked for, or by tests of other ids.
    ///
    /// No two sets of conditions, and no two states of one, have the same but clones.
    #[inline]
    pub fn words_edition(&self) -> u64 {
        self.words_edition
    }

    fn take_out(&mut self, id: ConditionId) -> Option<SharedCondition> {
        let hash = hash_of(&self.conditions, id);
        self.condition_ids.remove(hash, |&existing| existing == id);
        let entry = self.conditions[id.index()].take()?;
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
        let needed = self.needed_text(operand);
        let shared = Arc::new(SharedOperand {
            operand: operand.clone(),
            uses: 1,
            asked: 0,
            users: Users::NONE,
            needed,
            prefixes: Arc::default(),
            substrings: Arc::default(),
        });
        let id = match self.free_operands.pop() {
            Some(id) => {
                self.operands[id.index()] = Some(shared);
                id
            }
            None => {
                self.operands.push(Some(shared));
                OperandId::new(self.operands.len() - 1)
            }
        };
        let Self { operands, operand_ids, .. } = self;
        let rehash = |&id: &OperandId| {
            operands[id.index()].as_ref().map_or(0, |shared: &Arc<SharedOperand>| hash_operand(&shared.operand))
        };
        operand_ids.insert_unique(hash, id, rehash);
        id
    }

    /// Returns the text that an operand needs, if it needs one of a kind that is known, or of a new one of the first few.
    fn needed_text(&mut self, operand: &Operand) -> Option<NeededText> {
        let NeededChild { path, key, text } = operand.needed_child()?;
        let wanted = NeededElements { path, key };
        let elements = match self.needed.iter().position(|known| *known == wanted) {
            Some(position) => position,
            None if self.needed.len() < NEEDED_MAX => {
                self.needed.push(wanted);
                self.needed.len() - 1
            }
            None => return None,
        };
        Some(NeededText { elements: elements as u32, hash: hash_needed(text) })
    }

    /// Returns where operands need texts of a kind.
    #[inline]
    pub fn needed_elements(&self, number: u32) -> Option<&NeededElements> {
        self.needed.get(number as usize)
    }

    fn operand_id(&self, hash: u64, operand: &Operand) -> Option<OperandId> {
        self.operand_ids.find(hash, |&id| self.operand(id).is_some_and(|shared| shared.operand == *operand)).copied()
    }

    fn operand_mut(&mut self, id: OperandId) -> Option<&mut SharedOperand> {
        self.operands.get_mut(id.index())?.as_mut().map(Arc::make_mut)
    }

    /// Returns a condition.
    #[inline]
    pub fn condition(&self, id: ConditionId) -> Option<&SharedCondition> {
        self.conditions.get(id.index())?.as_ref().map(|entry| &entry.condition)
    }

    /// Returns whether a condition, or one that it is made of, excludes values.
    pub fn excludes(&self, id: ConditionId) -> bool {
        match self.condition(id) {
            Some(SharedCondition::Test(_, relation)) => matches!(
                relation,
                Relation::Differs(_) | Relation::NoneEquals(_) | Relation::NoneWithin(_) | Relation::OtherNumber(_)
            ),
            Some(SharedCondition::Not(_)) => true,
            // Of texts that are there.
            Some(SharedCondition::OneOf(..)) | None => false,
            Some(condition) => condition.operands().iter().any(|&part| self.excludes(part)),
        }
    }

    /// Returns how many queries and conditions use a condition.
    pub fn uses(&self, id: ConditionId) -> u32 {
        self.conditions.get(id.index()).and_then(Option::as_ref).map_or(0, |entry| entry.uses)
    }

    /// Returns how many times queries ask for a test.
    pub fn asked(&self, id: ConditionId) -> u32 {
        self.conditions.get(id.index()).and_then(Option::as_ref).map_or(0, |entry| entry.asked)
    }

    /// Returns an operand.
    #[inline]
    pub fn operand(&self, id: OperandId) -> Option<&SharedOperand> {
        self.operands.get(id.index())?.as_deref()
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

    /// Returns a condition, and whether several queries or conditions use it.
    #[inline]
    pub fn entry(&self, id: ConditionId) -> Option<(&SharedCondition, bool)> {
        self.conditions.get(id.index())?.as_ref().map(|entry| (&entry.condition, entry.uses > 1))
    }

    /// Appends the tests for texts that a value of an operand starts with.
    pub fn append_prefixes(&self, operand: OperandId, value: &str, tests: &mut Vec<ConditionId>) {
        let Some(shared) = self.operand(operand).filter(|shared| !shared.prefixes.is_empty()) else { return };
        match shared.prefixes.few_lengths() {
            Some(lengths) => tests.extend(lengths.filter_map(|length| self.prefix(operand, value.get(..length)?))),
            None => shared.prefixes.append_of(value, tests),
        }
    }

    /// Returns the test whether the values of an operand start with a text, if any query has it.
    #[inline]
    fn prefix(&self, operand: OperandId, text: &str) -> Option<ConditionId> {
        let is_it = |existing: &SharedCondition| match existing {
            SharedCondition::Test(of, Relation::StartsWith(existing)) => *of == operand && **existing == *text,
            _ => false,
        };
        self.condition_with(hash_prefix(operand, text), is_it)
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
        let total = operand.and_then(|id| self.operand(id)).map_or(0, |shared| shared.asked);
        let test = operand.and_then(|id| self.equality(id, text));
        let asked = test.map_or(0, |id| self.asked(id));
        (asked as f32 + PRIOR_OF_NEW) / (total as f32 + PRIOR_USES)
    }

    /// Returns how many conditions there are.
    pub fn len(&self) -> usize {
        self.condition_ids.len()
    }

    /// Returns whether there is no condition.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes on the heap, by estimate: of expressions, only those that stand by themselves are counted.
    pub fn bytes(&self) -> usize {
        let texts = self.conditions.iter().flatten().map(|entry| match &entry.condition {
            SharedCondition::All(operands)
            | SharedCondition::Any(operands)
            | SharedCondition::OneOf(_, _, operands) => size_of_val(&**operands),
            SharedCondition::Test(_, Relation::Equals(text)) => text.len(),
            SharedCondition::Test(_, Relation::Differs(texts) | Relation::NoneEquals(texts)) => {
                texts.iter().map(|text| size_of_val(text) + text.len()).sum()
            }
            SharedCondition::Test(_, Relation::StartsWith(text) | Relation::Contains(text)) => text.len(),
            SharedCondition::Test(_, Relation::Region(question)) => question.bytes(),
            SharedCondition::Expr(_) => size_of::<Expr>(),
            SharedCondition::Position(_) => size_of::<Step>(),
            _ => 0,
        });
        let operands = self.operands.iter().flatten();
        let finders = operands.map(|shared| shared.prefixes.bytes() + shared.substrings.bytes());
        texts.sum::<usize>()
            + finders.sum::<usize>()
            + self.conditions.bytes()
            + self.operands.capacity() * size_of::<Option<SharedOperand>>()
            + (self.condition_ids.capacity() + self.operand_ids.capacity()) * 5
    }
}

impl SharedCondition {
    /// Returns the conditions that it is made of.
    pub(super) fn operands(&self) -> &[ConditionId] {
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

    /// Returns the rank of the condition in a conjunction: those of lower rank cost less, and are decided first.
    fn effort(&self) -> u8 {
        match self {
            Self::Named(_) | Self::IsRoot => 0,
            Self::Test(_, Relation::Contains(_)) => 3,
            Self::Test(_, Relation::Matches(_) | Relation::Region(_)) => 4,
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

/// Returns the hash of a [`NeededText`].
#[inline]
pub fn hash_needed(text: &str) -> u64 {
    let mut state = FxHasher::default();
    text.hash(&mut state);
    finished(state)
}

fn hash_of(conditions: &ConditionEntries, id: ConditionId) -> u64 {
    conditions[id.index()].as_ref().map_or(0, |entry| hash_condition(&entry.condition))
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
        Relation::Differs(texts) => (1_u8, texts).hash(&mut state),
        Relation::NoneEquals(texts) => (9_u8, texts).hash(&mut state),
        Relation::StartsWith(text) => return hash_prefix(operand, text),
        Relation::Contains(text) => (3_u8, text).hash(&mut state),
        Relation::Matches(pattern) => (8_u8, pattern).hash(&mut state),
        Relation::Within(range) => (4_u8, range).hash(&mut state),
        Relation::Overlaps(range) => (5_u8, range).hash(&mut state),
        Relation::OtherNumber(bits) => (6_u8, bits).hash(&mut state),
        Relation::NoneWithin(range) => (7_u8, range).hash(&mut state),
        Relation::Region(question) => (10_u8, question.relation, &question.region).hash(&mut state),
    }
    operand.hash(&mut state);
    finished(state)
}

/// Returns a hash of a test, whether any query has it or not.
pub(super) fn hash_value_test(test: &ValueTest) -> u64 {
    hash_operand(&test.operand) ^ hash_test(OperandId::from_u32(0), &test.relation)
}

/// Returns a hash of a text as the value of an operand of which the hash is given.
#[inline]
pub fn hash_text_of(operand: u64, text: &str) -> u64 {
    operand ^ hash_equality(OperandId::from_u32(0), text)
}

#[inline]
fn hash_equality(operand: OperandId, text: &str) -> u64 {
    let mut state = FxHasher::default();
    operand.hash(&mut state);
    text.hash(&mut state);
    finished(state)
}

#[inline]
fn hash_prefix(operand: OperandId, text: &str) -> u64 {
    let mut state = FxHasher::default();
    (2_u8, operand).hash(&mut state);
    text.hash(&mut state);
    finished(state)
}

/// Returns a hash of an operand, whether any query has it or not.
pub fn hash_operand(operand: &Operand) -> u64 {
    let mut state = FxHasher::default();
    std::mem::discriminant(operand).hash(&mut state);
    match operand {
        Operand::Own | Operand::Texts => {}
        Operand::Attribute(name) => name.hash(&mut state),
        Operand::Children(test) => test.hash(&mut state),
        Operand::Nodes(expr) | Operand::Text(expr) | Operand::Number(expr) => hash_expr(expr, &mut state),
        Operand::Places(expr) => hash_expr(expr, &mut state),
        Operand::Typed(cast, expr) => {
            cast.hash(&mut state);
            hash_expr(expr, &mut state);
        }
    }
    finished(state)
}

/// Returns a hash whose high and low bits are both mixed, as the tables need them.
#[inline]
fn finished(state: FxHasher) -> u64 {
    let hash = state.finish();
    hash ^ hash.rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lower_case(text: &str) -> ValueTest {
        let function = crate::query::ast::Function::LowerCase;
        let operand = Operand::Text(Expr::Call { function, arguments: Vec::new() }.into());
        ValueTest { operand, relation: Relation::Equals(text.into()) }
    }

    #[test]
    fn a_query_is_one_user_of_an_operand_however_often_it_asks_for_it() {
        let mut conditions = SharedConditions::default();
        let mut ids = Vec::new();
        for query in 0..10 {
            conditions.begin_query(query);
            for text in 0..100 {
                ids.push((query, conditions.acquire_test(&lower_case(&text.to_string()))));
            }
        }
        let Some(&SharedCondition::Test(operand, _)) = conditions.condition(ids[0].1) else { panic!("a test") };
        assert_eq!(conditions.users_of_operand(operand), 10);
        assert_eq!(conditions.users_of_condition(ids[0].1), 10);
        for &(query, id) in ids.iter().filter(|(query, _)| *query >= 3) {
            conditions.begin_query(query);
            conditions.release(id);
        }
        assert_eq!(conditions.users_of_operand(operand), 3);
        assert_eq!(conditions.users_of_condition(ids[0].1), 3);
    }
}
