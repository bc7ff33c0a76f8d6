//! Tables of what waits at one state of the automaton, by the test that leads to it.

use rustc_hash::FxHashMap;

use super::conditions::{SharedCondition, SharedConditions};
use super::entry::{AccessEntry, ConditionId, NO_CONDITION, OperandId};
use super::intervals::IntervalIndex;
use crate::plan::{NumberRange, Operand, Relation};
use crate::query::ast::NameTest;
use crate::vocabulary::Name;

/// From so many uses on, a residual has ranges of its own, and is decided before any of them is looked for.
const GUARD_USES_MIN: u32 = 64;
/// So many residuals may have ranges of their own at one place.
const GUARDS_MAX: usize = 64;

/// All that waits for one test: mostly a single query.
#[derive(Clone, Debug)]
enum AccessList {
    One(AccessEntry),
    Many(Vec<AccessEntry>),
}

/// The ranges of an operand that are waited for.
#[derive(Clone, Debug, Default)]
pub struct RangeIndex {
    /// By the residual that all of them have.
    pub guarded: Vec<(ConditionId, IntervalIndex)>,
    /// All others.
    pub mixed: IntervalIndex,
}

/// The ways in which an operand leads to queries. The counts are of entries.
#[derive(Clone, Debug)]
pub struct TableOperand {
    /// The operand.
    pub operand: OperandId,
    /// Equal texts.
    pub texts: u32,
    /// Equal numbers.
    pub numbers: u32,
    /// Prefixes.
    pub prefixes: u32,
    /// Contained texts.
    pub substrings: u32,
    /// Ranges of numbers.
    pub ranges: RangeIndex,
}

/// By the names of attributes and child elements, the positions of the operands that these are.
#[derive(Clone, Debug, Default)]
pub struct OperandNames {
    attributes: FxHashMap<Name, u32>,
    children: FxHashMap<Name, u32>,
    unnamed: Vec<u32>,
}

/// All that waits at one state. See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct AccessTable {
    /// The operands that lead to queries.
    pub operands: Vec<TableOperand>,
    positions: FxHashMap<OperandId, u32>,
    names: OperandNames,
    /// All that waits for tests other than ranges.
    lists: FxHashMap<ConditionId, AccessList>,
    /// All that each element leads to.
    unconditional: Vec<AccessEntry>,
}

impl AccessList {
    fn as_slice(&self) -> &[AccessEntry] {
        match self {
            Self::One(entry) => std::slice::from_ref(entry),
            Self::Many(entries) => entries,
        }
    }

    fn insert(&mut self, entry: AccessEntry) {
        match self {
            Self::One(first) => {
                let mut entries = vec![*first, entry];
                entries.sort_unstable();
                *self = Self::Many(entries);
            }
            Self::Many(entries) => insert_sorted(entries, entry),
        }
    }

    /// Removes an entry. Returns whether none is left.
    fn remove(&mut self, entry: AccessEntry) -> bool {
        match self {
            Self::One(only) => *only == entry,
            Self::Many(entries) => {
                remove_sorted(entries, entry);
                entries.is_empty()
            }
        }
    }
}

// Entries with the same residual stand together, so that it is decided once for all of them.
fn insert_sorted(entries: &mut Vec<AccessEntry>, entry: AccessEntry) {
    let position = entries.partition_point(|existing| *existing < entry);
    entries.insert(position, entry);
}

fn remove_sorted(entries: &mut Vec<AccessEntry>, entry: AccessEntry) {
    if let Ok(position) = entries.binary_search(&entry) {
        entries.remove(position);
    }
}

impl RangeIndex {
    fn insert(&mut self, range: NumberRange, entry: AccessEntry, conditions: &SharedConditions) {
        if let Some((_, index)) = self.guarded.iter_mut().find(|(residual, _)| *residual == entry.residual) {
            return index.insert(range, entry);
        }
        let is_guard = entry.residual != NO_CONDITION && conditions.uses(entry.residual) >= GUARD_USES_MIN;
        if is_guard && self.guarded.len() < GUARDS_MAX {
            let mut index = IntervalIndex::default();
            index.insert(range, entry);
            self.guarded.push((entry.residual, index));
        } else {
            self.mixed.insert(range, entry);
        }
    }

    fn remove(&mut self, range: NumberRange, entry: AccessEntry) {
        if let Some(position) = self.guarded.iter().position(|(residual, _)| *residual == entry.residual)
            && self.guarded[position].1.remove(range, entry)
        {
            if self.guarded[position].1.is_empty() {
                self.guarded.swap_remove(position);
            }
        } else {
            self.mixed.remove(range, entry);
        }
    }

    /// Returns whether no range is waited for.
    pub fn is_empty(&self) -> bool {
        self.guarded.is_empty() && self.mixed.is_empty()
    }

    /// Visits all entries.
    pub fn for_each(&self, mut visit: impl FnMut(AccessEntry)) {
        self.guarded.iter().for_each(|(_, index)| index.for_each(&mut visit));
        self.mixed.for_each(visit);
    }
}

impl TableOperand {
    fn new(operand: OperandId) -> Self {
        Self { operand, texts: 0, numbers: 0, prefixes: 0, substrings: 0, ranges: RangeIndex::default() }
    }

    /// Returns the count of the tests of a kind, if they are found by their texts or numbers.
    fn count_of(&mut self, relation: &Relation) -> Option<&mut u32> {
        match relation {
            Relation::Equals(_) => Some(&mut self.texts),
            Relation::Within(range) if range.is_point() => Some(&mut self.numbers),
            Relation::StartsWith(_) => Some(&mut self.prefixes),
            Relation::Contains(_) => Some(&mut self.substrings),
            Relation::Within(_) | Relation::Overlaps(_) | Relation::Differs(_) | Relation::OtherNumber(_) => None,
        }
    }

    /// Returns whether only numbers lead to queries.
    #[inline]
    pub fn asks_numbers_only(&self) -> bool {
        self.texts + self.prefixes + self.substrings == 0
    }

    fn is_empty(&self) -> bool {
        self.texts + self.numbers + self.prefixes + self.substrings == 0 && self.ranges.is_empty()
    }
}

impl OperandNames {
    fn insert(&mut self, operand: OperandId, position: u32, conditions: &SharedConditions) {
        match conditions.operand(operand).map(|shared| &shared.operand) {
            Some(Operand::Attribute(name)) => _ = self.attributes.insert(*name, position),
            Some(Operand::Children(NameTest::Name(name))) => _ = self.children.insert(*name, position),
            _ => self.unnamed.push(position),
        }
    }

    /// Returns operands without names.
    #[inline]
    pub fn unnamed(&self) -> &[u32] {
        &self.unnamed
    }

    /// Returns whether any operand is an attribute.
    #[inline]
    pub fn has_attributes(&self) -> bool {
        !self.attributes.is_empty()
    }

    /// Returns whether any operand is a child element.
    #[inline]
    pub fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Returns the operand that an attribute is.
    #[inline]
    pub fn attribute(&self, name: Name) -> Option<u32> {
        self.attributes.get(&name).copied()
    }

    /// Returns the operand that child elements of a name are.
    #[inline]
    pub fn child(&self, name: Name) -> Option<u32> {
        self.children.get(&name).copied()
    }
}

impl AccessTable {
    /// Lets an entry wait for a test; for [`NO_CONDITION`], for each element.
    pub fn insert(&mut self, test: ConditionId, entry: AccessEntry, conditions: &SharedConditions) {
        let Some(SharedCondition::Test(operand, relation)) = conditions.condition(test) else {
            return insert_sorted(&mut self.unconditional, entry);
        };
        let position = match self.position(*operand) {
            Some(position) => position,
            None => {
                self.operands.push(TableOperand::new(*operand));
                self.positions.insert(*operand, self.operands.len() as u32 - 1);
                self.names.insert(*operand, self.operands.len() as u32 - 1, conditions);
                self.operands.len() - 1
            }
        };
        let table_operand = &mut self.operands[position];
        if let Relation::Within(range) | Relation::Overlaps(range) = relation
            && table_operand.count_of(relation).is_none()
        {
            return table_operand.ranges.insert(*range, entry, conditions);
        }
        if let Some(count) = table_operand.count_of(relation) {
            *count += 1;
        }
        match self.lists.get_mut(&test) {
            Some(list) => list.insert(entry),
            None => _ = self.lists.insert(test, AccessList::One(entry)),
        }
    }

    /// Removes what [`Self::insert`] added.
    pub fn remove(&mut self, test: ConditionId, entry: AccessEntry, conditions: &SharedConditions) {
        let Some(SharedCondition::Test(operand, relation)) = conditions.condition(test) else {
            return remove_sorted(&mut self.unconditional, entry);
        };
        let Some(position) = self.position(*operand) else { return };
        let table_operand = &mut self.operands[position];
        match (table_operand.count_of(relation), relation) {
            (None, Relation::Within(range) | Relation::Overlaps(range)) => table_operand.ranges.remove(*range, entry),
            (count, _) => {
                if let Some(count) = count {
                    *count -= 1;
                }
                if self.lists.get_mut(&test).is_some_and(|list| list.remove(entry)) {
                    self.lists.remove(&test);
                }
            }
        }
        if self.operands[position].is_empty() {
            self.operands.swap_remove(position);
            self.number_operands(conditions);
        }
    }

    #[inline]
    fn position(&self, operand: OperandId) -> Option<usize> {
        self.positions.get(&operand).map(|&position| position as usize)
    }

    fn number_operands(&mut self, conditions: &SharedConditions) {
        self.names = OperandNames::default();
        self.positions.clear();
        for (position, operand) in (0..).zip(&self.operands) {
            self.positions.insert(operand.operand, position);
            self.names.insert(operand.operand, position, conditions);
        }
    }

    /// Returns the operands by the names that they ask for.
    #[inline]
    pub fn names(&self) -> &OperandNames {
        &self.names
    }

    /// Returns what waits for a test that is no range.
    #[inline]
    pub fn list(&self, test: ConditionId) -> &[AccessEntry] {
        self.lists.get(&test).map_or(&[], AccessList::as_slice)
    }

    /// Returns what each element leads to.
    #[inline]
    pub fn unconditional(&self) -> &[AccessEntry] {
        &self.unconditional
    }

    /// Visits all that waits for tests of an operand.
    pub fn for_each_of(
        &self,
        operand: &TableOperand,
        conditions: &SharedConditions,
        mut visit: impl FnMut(AccessEntry),
    ) {
        operand.ranges.for_each(&mut visit);
        for (test, list) in &self.lists {
            let is_its =
                matches!(conditions.condition(*test), Some(SharedCondition::Test(of, _)) if *of == operand.operand);
            if is_its {
                list.as_slice().iter().copied().for_each(&mut visit);
            }
        }
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.operands.is_empty() && self.unconditional.is_empty()
    }

    /// Returns bytes on the heap, by estimate.
    pub fn bytes(&self) -> usize {
        let lists = self.lists.values().map(|list| match list {
            AccessList::One(_) => 0,
            AccessList::Many(entries) => entries.capacity() * size_of::<AccessEntry>(),
        });
        let ranges = self.operands.iter().map(|operand| {
            let guarded = operand.ranges.guarded.iter().map(|(_, index)| index.bytes());
            guarded.sum::<usize>() + operand.ranges.mixed.bytes()
        });
        lists.sum::<usize>()
            + ranges.sum::<usize>()
            + self.lists.capacity() * (size_of::<(ConditionId, AccessList)>() + 1)
            + self.operands.capacity() * size_of::<TableOperand>()
            + self.unconditional.capacity() * size_of::<AccessEntry>()
    }
}
