//! Tables of what waits at one state of the automaton, by the test that leads to it.

use rustc_hash::FxHashMap;

use super::conditions::{self, SharedCondition, SharedConditions};
use super::entry::AccessEntry;
use super::intervals::IntervalIndex;
use super::regions::RegionIndex;
use super::unequal::UnequalIndex;
use crate::ids::{ConditionId, OperandId};
use crate::plan::{NeededChild, NumberRange, Operand, Relation};
use crate::query::ast::NameTest;
use crate::util::cow_map::CowMap;
use crate::vocabulary::Name;

/// From so many uses on, a residual has ranges of its own, and is decided before any of them is looked for.
const GUARD_USES_MIN: u32 = 64;
/// The most residuals at one operand that have ranges of their own.
const GUARDS_MAX: usize = 64;
/// The most families of operands in one table.
const FAMILIES_MAX: usize = 16;

/// All that waits for one test: mostly a single query.
#[derive(Clone, Debug)]
enum AccessList {
    One(AccessEntry),
    Many(Vec<AccessEntry>),
}

/// Ranges that all have the same residual, which is decided before any of them is looked for.
#[derive(Clone, Debug)]
pub struct GuardedRanges {
    /// The residual; [`ConditionId::NONE`]: none.
    pub guard: ConditionId,
    /// Ranges without an upper bound: what one number of a message has led to need not be visited for a lesser one.
    pub above: IntervalIndex,
    /// Ranges without a lower bound.
    pub below: IntervalIndex,
    /// Ranges with both.
    pub between: IntervalIndex,
}

/// The ranges of an operand that are waited for.
#[derive(Clone, Debug, Default)]
pub struct RangeIndex {
    /// By the residual that all of them have.
    pub guarded: Vec<GuardedRanges>,
    /// All others.
    pub mixed: IntervalIndex,
    /// Ranges without an upper bound in which no number may be.
    pub none_above: IntervalIndex,
    /// Ranges without a lower bound in which no number may be.
    pub none_below: IntervalIndex,
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
    /// Regions.
    pub regions: RegionIndex,
    /// Ranges of numbers.
    pub ranges: RangeIndex,
    /// Other values than some.
    pub unequal: Option<Box<UnequalIndex>>,
}

/// By the names of attributes and child elements, the positions of the operands that these are.
#[derive(Clone, Debug, Default)]
pub struct OperandNames {
    attributes: FxHashMap<Name, u32>,
    children: FxHashMap<Name, u32>,
    families: Vec<OperandFamily>,
    unnamed: Vec<u32>,
}

/// Operands that have values only where an element below has one: `fact[@concept = 'X']`, for all texts that stand there for
/// `X`.
#[derive(Clone, Debug)]
pub struct OperandFamily {
    /// The names of the elements that lead there, each a child of the one before.
    pub path: Vec<Name>,
    /// The part of these that is compared.
    pub key: Operand,
    /// By the text that it has to be, the positions of the operands.
    positions: FxHashMap<Box<str>, Vec<u32>>,
}

impl OperandFamily {
    /// Returns the positions of the operands for which an element has to have a text.
    #[inline]
    pub fn positions(&self, text: &str) -> &[u32] {
        self.positions.get(text).map_or(&[], Vec::as_slice)
    }

    /// Returns the positions of all operands.
    pub fn all_positions(&self) -> impl Iterator<Item = u32> + '_ {
        self.positions.values().flatten().copied()
    }
}

/// All that waits at one state. See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct AccessTable {
    /// The operands that lead to queries.
    pub operands: Vec<TableOperand>,
    positions: FxHashMap<OperandId, u32>,
    names: OperandNames,
    /// All that waits for tests other than ranges and regions.
    lists: CowMap<ConditionId, AccessList>,
    /// All that each element leads to.
    unconditional: Vec<AccessEntry>,
    /// See [`Self::words_edition`].
    words_edition: u64,
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

impl GuardedRanges {
    fn new(guard: ConditionId) -> Self {
        let [above, below, between] = [(); 3].map(|()| IntervalIndex::default());
        Self { guard, above, below, between }
    }

    fn of(&mut self, range: NumberRange) -> &mut IntervalIndex {
        match (range.is_open_above(), range.is_open_below()) {
            (true, false) => &mut self.above,
            (false, true) => &mut self.below,
            _ => &mut self.between,
        }
    }

    fn all(&self) -> [&IntervalIndex; 3] {
        [&self.above, &self.below, &self.between]
    }

    /// Visits the entries whose ranges overlap one.
    pub fn for_each_overlapping(&self, sought: NumberRange, mut visit: impl FnMut(AccessEntry)) {
        self.all().into_iter().for_each(|index| index.for_each_overlapping(sought, &mut visit));
    }
}

impl RangeIndex {
    fn insert(&mut self, range: NumberRange, entry: AccessEntry, conditions: &SharedConditions) {
        if let Some(guarded) = self.guarded.iter_mut().find(|guarded| guarded.guard == entry.residual) {
            return guarded.of(range).insert(range, entry);
        }
        let is_guard = entry.residual == ConditionId::NONE || conditions.uses(entry.residual) >= GUARD_USES_MIN;
        if is_guard && self.guarded.len() < GUARDS_MAX {
            let mut guarded = GuardedRanges::new(entry.residual);
            guarded.of(range).insert(range, entry);
            self.guarded.push(guarded);
        } else {
            self.mixed.insert(range, entry);
        }
    }

    fn remove(&mut self, range: NumberRange, entry: AccessEntry) {
        if let Some(position) = self.guarded.iter().position(|guarded| guarded.guard == entry.residual)
            && self.guarded[position].of(range).remove(range, entry)
        {
            if self.guarded[position].all().into_iter().all(IntervalIndex::is_empty) {
                self.guarded.swap_remove(position);
            }
        } else {
            self.mixed.remove(range, entry);
        }
    }

    fn negated(&mut self, range: NumberRange) -> &mut IntervalIndex {
        if range.is_open_above() { &mut self.none_above } else { &mut self.none_below }
    }

    fn indexes(&self) -> impl Iterator<Item = &IntervalIndex> {
        let guarded = self.guarded.iter().flat_map(GuardedRanges::all);
        guarded.chain([&self.mixed, &self.none_above, &self.none_below])
    }

    /// Returns whether no range is waited for.
    pub fn is_empty(&self) -> bool {
        self.guarded.is_empty() && self.mixed.is_empty() && !self.asks_for_none()
    }

    /// Returns whether the absence of numbers leads to queries.
    #[inline]
    pub fn asks_for_none(&self) -> bool {
        !self.none_above.is_empty() || !self.none_below.is_empty()
    }

    /// Visits the entries of the ranges that have none of an operand's numbers, of which the least and greatest are given.
    pub fn for_each_without(&self, numbers: Option<NumberRange>, mut visit: impl FnMut(AccessEntry)) {
        self.none_above.for_each_from(numbers.map(|numbers| numbers.high), u64::MAX, &mut visit);
        self.none_below.for_each_up_to(0, numbers.map(|numbers| numbers.low), &mut visit);
    }

    /// Visits all entries.
    pub fn for_each(&self, mut visit: impl FnMut(AccessEntry)) {
        self.indexes().for_each(|index| index.for_each(&mut visit));
    }
}

impl TableOperand {
    fn new(operand: OperandId) -> Self {
        let (regions, ranges) = (RegionIndex::default(), RangeIndex::default());
        Self { operand, texts: 0, numbers: 0, prefixes: 0, substrings: 0, regions, ranges, unequal: None }
    }

    /// Returns the count of the tests of a kind, if they are found by their texts or numbers.
    fn count_of(&mut self, relation: &Relation) -> Option<&mut u32> {
        match relation {
            Relation::Equals(_) => Some(&mut self.texts),
            Relation::Within(range) if range.is_point() => Some(&mut self.numbers),
            Relation::StartsWith(_) => Some(&mut self.prefixes),
            Relation::Contains(_) => Some(&mut self.substrings),
            Relation::Region(_)
            | Relation::Within(_)
            | Relation::Overlaps(_)
            | Relation::NoneWithin(_)
            | Relation::Differs(_)
            | Relation::NoneEquals(_)
            | Relation::Matches(_)
            | Relation::OtherNumber(_) => None,
        }
    }

    /// Returns whether values lead to queries by texts and numbers that they equal, differ from or start with.
    #[inline]
    pub fn asks_single_values(&self) -> bool {
        self.substrings == 0 && self.regions.is_empty() && self.ranges.is_empty()
    }

    /// Returns whether nothing but equal texts leads to queries.
    #[inline]
    pub fn asks_equal_texts_only(&self) -> bool {
        self.numbers + self.prefixes == 0 && self.asks_single_values() && self.unequal.is_none()
    }

    /// Returns whether only numbers lead to queries.
    #[inline]
    pub fn asks_numbers_only(&self) -> bool {
        self.texts + self.prefixes + self.substrings == 0
            && self.regions.is_empty()
            && !self.ranges.asks_for_none()
            && self.unequal.is_none()
    }

    /// Returns whether the absence of values leads to queries.
    #[inline]
    fn asks_for_none(&self) -> bool {
        self.ranges.asks_for_none() || self.unequal.as_ref().is_some_and(|unequal| unequal.asks_for_none())
    }

    fn is_empty(&self) -> bool {
        self.texts + self.numbers + self.prefixes + self.substrings == 0
            && self.regions.is_empty()
            && self.ranges.is_empty()
            && self.unequal.is_none()
    }
}

impl OperandNames {
    fn insert(&mut self, operand: &TableOperand, position: u32, conditions: &SharedConditions) {
        if operand.asks_for_none() {
            self.unnamed.push(position);
            return;
        }
        match conditions.operand(operand.operand).map(|shared| &shared.operand) {
            Some(Operand::Attribute(name)) => _ = self.attributes.insert(*name, position),
            Some(Operand::Children(NameTest::Name(name))) => _ = self.children.insert(*name, position),
            Some(other) if self.insert_in_family(other, position) => {}
            _ => self.unnamed.push(position),
        }
    }

    /// Returns whether an operand is of a family, to which it is added.
    fn insert_in_family(&mut self, operand: &Operand, position: u32) -> bool {
        let Some(NeededChild { path, key, text }) = operand.needed_child() else { return false };
        let family = match self.families.iter().position(|family| family.path == path && family.key == key) {
            Some(family) => family,
            None if self.families.len() < FAMILIES_MAX => {
                self.families.push(OperandFamily { path, key, positions: FxHashMap::default() });
                self.families.len() - 1
            }
            None => return false,
        };
        self.families[family].positions.entry(text.into()).or_default().push(position);
        true
    }

    /// Returns the families of operands.
    #[inline]
    pub fn families(&self) -> &[OperandFamily] {
        &self.families
    }

    /// Returns the positions of the operands without names, and of those whose absence leads to queries.
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

    /// Returns the position of the operand that an attribute is.
    #[inline]
    pub fn attribute(&self, name: Name) -> Option<u32> {
        self.attributes.get(&name).copied()
    }

    /// Returns the position of the operand that child elements of a name are.
    #[inline]
    pub fn child(&self, name: Name) -> Option<u32> {
        self.children.get(&name).copied()
    }
}

impl AccessTable {
    /// Lets an entry wait for a test; for [`ConditionId::NONE`], for each element.
    pub fn insert(&mut self, test: ConditionId, entry: AccessEntry, conditions: &SharedConditions) {
        let Some(SharedCondition::Test(operand, relation)) = conditions.condition(test) else {
            return insert_sorted(&mut self.unconditional, entry);
        };
        let is_word = matches!(relation, Relation::Equals(_)) && conditions.is_words(*operand);
        let known = self.position(*operand);
        let position = known.unwrap_or(self.operands.len());
        if known.is_none() {
            self.positions.insert(*operand, position as u32);
            self.operands.push(TableOperand::new(*operand));
        }
        let table_operand = &mut self.operands[position];
        let asked = table_operand.asks_for_none();
        if UnequalIndex::serves(relation) {
            if self.lists.get(&test).is_none() {
                let is_number = || conditions.operand(*operand).is_some_and(|shared| shared.operand.is_number());
                let unequal = table_operand.unequal.get_or_insert_with(|| Box::new(UnequalIndex::new(is_number())));
                unequal.insert(relation, test);
            }
        } else if let Relation::NoneWithin(range) = relation {
            table_operand.ranges.negated(*range).insert(*range, entry);
        }
        if known.is_none() {
            // Once it is known whether its absence leads to queries, so that the others keep their numbers.
            self.names.insert(table_operand, position as u32, conditions);
        } else if table_operand.asks_for_none() != asked {
            self.number_operands(conditions);
        }
        let table_operand = &mut self.operands[position];
        if let Relation::NoneWithin(range) = relation
            && !range.is_point()
        {
            return;
        }
        if let Relation::Within(range) | Relation::Overlaps(range) = relation
            && table_operand.count_of(relation).is_none()
        {
            return table_operand.ranges.insert(*range, entry, conditions);
        }
        if let Relation::Region(question) = relation {
            return table_operand.regions.insert(test, question, entry);
        }
        if let Some(count) = table_operand.count_of(relation) {
            *count += 1;
        }
        if is_word {
            self.words_edition = conditions::next_words_edition();
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
        let is_word = matches!(relation, Relation::Equals(_)) && conditions.is_words(*operand);
        let Some(position) = self.position(*operand) else { return };
        let table_operand = &mut self.operands[position];
        let asked = table_operand.asks_for_none();
        match (table_operand.count_of(relation), relation) {
            (None, Relation::NoneWithin(range)) if !range.is_point() => {
                table_operand.ranges.negated(*range).remove(*range, entry);
            }
            (None, Relation::Within(range) | Relation::Overlaps(range)) => table_operand.ranges.remove(*range, entry),
            (_, Relation::Region(question)) => table_operand.regions.remove(test, question, entry),
            (count, _) => {
                if let Some(count) = count {
                    *count -= 1;
                }
                if is_word {
                    self.words_edition = conditions::next_words_edition();
                }
                if self.lists.get_mut(&test).is_some_and(|list| list.remove(entry)) {
                    self.lists.remove(&test);
                    if let Some(unequal) = &mut table_operand.unequal {
                        unequal.remove(relation, test);
                        table_operand.unequal.take_if(|unequal| unequal.is_empty());
                    }
                }
            }
        }
        let (is_empty, asks) = (table_operand.is_empty(), table_operand.asks_for_none());
        if is_empty {
            self.operands.swap_remove(position);
        }
        if is_empty || asks != asked {
            self.number_operands(conditions);
        }
    }

    /// Returns a number that is another one whenever something else waits for words of texts.
    ///
    /// No two tables, and no two states of one, have the same but clones. 0: nothing waits.
    #[inline]
    pub fn words_edition(&self) -> u64 {
        self.words_edition
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
            self.names.insert(operand, position, conditions);
        }
    }

    /// Returns the operands by the names that they ask for.
    #[inline]
    pub fn names(&self) -> &OperandNames {
        &self.names
    }

    /// Returns what waits for a test that is no range and no region.
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
        operand.regions.for_each(&mut visit);
        for (test, list) in self.lists.iter() {
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

    /// Returns the bytes on the heap, by estimate.
    pub fn bytes(&self) -> usize {
        let lists = self.lists.values().map(|list| match list {
            AccessList::One(_) => 0,
            AccessList::Many(entries) => entries.capacity() * size_of::<AccessEntry>(),
        });
        let ranges = self.operands.iter().flat_map(|operand| operand.ranges.indexes().map(IntervalIndex::bytes));
        let unequal =
            self.operands.iter().filter_map(|operand| operand.unequal.as_ref()).map(|unequal| unequal.bytes());
        lists.sum::<usize>()
            + ranges.sum::<usize>()
            + self.operands.iter().map(|operand| operand.regions.bytes()).sum::<usize>()
            + unequal.sum::<usize>()
            + self.lists.capacity() * (size_of::<(ConditionId, AccessList)>() + 1)
            + self.operands.capacity() * size_of::<TableOperand>()
            + self.unconditional.capacity() * size_of::<AccessEntry>()
    }
}
