//! Caches the values of operands and the truth of conditions at the elements of one message.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::word_cache::WordCache;
use crate::access::conditions::SharedConditions;
use crate::access::entry::AccessEntry;
use crate::access::regions::NearRegion;
use crate::access::samples::SampledWords;
use crate::document::NodeId;
use crate::ids::{ConditionId, OperandId};
use crate::plan::{NumberRange, Operand};
use crate::util::bits::has_bit;
use crate::util::epoch_table::EpochTable;
use crate::util::places::Geometry;

/// The most values in the cache. Beyond that it is emptied, and values are read again when they are needed again.
const TEXTS_MAX: usize = 1 << 20;
/// The most decisions in the cache. Beyond that it is emptied, and conditions are decided again when needed again.
const DECISIONS_MAX: usize = 1 << 22;

/// The values of one operand at one element, as ranges of what was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperandRecord {
    pub(super) operand: OperandId,
    /// Texts.
    pub(super) texts: (u32, u32),
    /// The tests for equal texts that they pass, in order; `None`: not determined yet.
    pub(super) equalities: Option<(u32, u32)>,
    /// The texts that are numbers, in order; `None`: not determined yet.
    pub(super) numbers: Option<(u32, u32)>,
    /// The tests for texts that they contain, in order; `None`: not asked yet.
    pub(super) substrings: Option<(u32, u32)>,
    /// Places.
    pub(super) places: (u32, u32),
    /// They are the words of a text, of which the tests for equal texts are known, in no order. Their texts are read only if
    /// something asks for these.
    pub(super) are_words: bool,
    /// The edition of the table for which rows are known, if they are words, and which these are.
    pub(super) rows_of: u64,
    pub(super) rows: (u32, u32),
    /// The texts are read, if they are words.
    pub(super) texts_are_read: bool,
}

impl OperandRecord {
    /// Returns a record of an operand without values.
    pub(super) fn new(operand: OperandId) -> Self {
        Self {
            operand,
            texts: (0, 0),
            equalities: None,
            numbers: None,
            substrings: None,
            places: (0, 0),
            are_words: false,
            rows_of: 0,
            rows: (0, 0),
            texts_are_read: false,
        }
    }
}

/// The tests for texts that the values of one operand at one element equal: what was looked up last. Tables that an element
/// is looked up in one after the other mostly ask for the same.
#[derive(Debug, Default)]
pub(super) struct LastEqualities {
    /// `None`: nothing yet.
    of: Option<(OperandId, NodeId)>,
    tests: Vec<ConditionId>,
}

impl LastEqualities {
    /// Returns the tests of an operand at an element, if these were looked up last.
    #[inline]
    pub(super) fn get(&self, operand: OperandId, node: NodeId) -> Option<&[ConditionId]> {
        (self.of == Some((operand, node))).then_some(&self.tests)
    }

    /// Keeps the tests of an operand at an element.
    pub(super) fn set(&mut self, operand: OperandId, node: NodeId, tests: &[ConditionId]) {
        self.of = Some((operand, node));
        self.tests.clear();
        self.tests.extend_from_slice(tests);
    }
}

/// From so many questions on, what a list of tests has is kept as bits.
const ASKED_MIN: u32 = 8;

/// The tests of one list, as bits once it has been asked for several: of a text with hundreds of words, thousands of queries
/// may ask for some.
#[derive(Debug, Default)]
pub(super) struct HeldTests {
    /// The position of the list among [`OperandValues::tests`].
    of: Option<usize>,
    asked: u32,
    bits: Vec<u64>,
    /// The tests whose bits are set.
    set: Vec<ConditionId>,
}

impl HeldTests {
    /// Begins with the tests of a list that is to begin at a position.
    pub(super) fn begin(&mut self, position: usize) {
        self.forget();
        (self.of, self.asked) = (Some(position), ASKED_MIN);
    }

    /// Adds a test to the list that was begun. Returns whether it is new.
    #[inline(always)]
    pub(super) fn insert(&mut self, test: ConditionId) -> bool {
        let (word, bit) = (test.index() / 64, 1 << (test.index() % 64));
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }

    /// Appends tests to those that were added, so that they can be forgotten.
    pub(super) fn keep(&mut self, tests: &[ConditionId]) {
        self.set.extend_from_slice(tests);
    }

    /// Returns the tests of a list, which begins at a position and is not empty, as bits.
    pub(super) fn bits_of(&mut self, position: usize, tests: &[ConditionId]) -> &[u64] {
        if self.of != Some(position) || self.asked < ASKED_MIN {
            self.begin(position);
            tests.iter().for_each(|&test| _ = self.insert(test));
            self.keep(tests);
        }
        &self.bits
    }

    /// Returns whether a list of tests, in order, which begins at a position has a test.
    pub(super) fn contains(&mut self, position: usize, tests: &[ConditionId], test: ConditionId) -> bool {
        if tests.is_empty() {
            // The next list begins at the same position.
            return false;
        }
        if self.of != Some(position) {
            self.forget();
            self.of = Some(position);
        }
        self.asked += 1;
        if self.asked < ASKED_MIN {
            return tests.binary_search(&test).is_ok();
        }
        if self.asked == ASKED_MIN {
            tests.iter().for_each(|&test| _ = self.insert(test));
            self.keep(tests);
        }
        has_bit(&self.bits, test.index())
    }

    /// Forgets the list.
    pub(super) fn forget(&mut self) {
        for test in self.set.drain(..) {
            self.bits[test.index() / 64] = 0;
        }
        (self.of, self.asked) = (None, 0);
    }
}

/// Index of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordIndex(pub(super) u32);

/// All values read so far.
#[derive(Debug, Default)]
pub(in crate::engine) struct OperandValues<'a> {
    pub(super) records: Vec<OperandRecord>,
    pub(super) texts: Vec<Cow<'a, str>>,
    pub(super) numbers: Vec<u64>,
    pub(super) tests: Vec<ConditionId>,
    pub(super) places: Vec<Rc<Geometry>>,
    /// Rows of words, each with its test and its position.
    pub(super) rows: Vec<(ConditionId, u32)>,
    /// The words of a message that is sampled.
    pub(in crate::engine) words: Vec<SampledWords>,
}

pub(super) fn span(range: (u32, u32)) -> Range<usize> {
    range.0 as usize..range.1 as usize
}

impl OperandValues<'_> {
    /// Returns the places of a record.
    pub(super) fn places_of(&self, record: RecordIndex) -> &[Rc<Geometry>] {
        &self.places[span(self.records[record.0 as usize].places)]
    }

    /// Forgets what was read, if that is much. Returns whether it is.
    fn trim(&mut self, known: &mut EpochTable) -> bool {
        let is_much = self.texts.len()
            + self.numbers.len()
            + self.tests.len()
            + self.records.len()
            + self.places.len()
            + self.rows.len()
            > TEXTS_MAX;
        if is_much {
            *self = Self::default();
            known.clear();
        }
        is_much
    }

    /// Returns the operands that were read, and what they were each time; those aside that are words.
    pub(in crate::engine) fn by_operand<'o>(
        &'o self,
        shared: &'o SharedConditions,
    ) -> impl Iterator<Item = (&'o Operand, &'o [Cow<'o, str>])> {
        self.records.iter().filter(|record| !record.are_words).filter_map(|record| {
            let operand = &shared.operand(record.operand)?.operand;
            Some((operand, self.texts.get(span(record.texts))?))
        })
    }

    /// Returns the texts of a record.
    pub(super) fn texts(&self, record: RecordIndex) -> &[Cow<'_, str>] {
        &self.texts[span(self.records[record.0 as usize].texts)]
    }

    /// Returns the numbers of a range.
    pub(super) fn numbers(&self, numbers: Range<usize>) -> &[u64] {
        &self.numbers[numbers]
    }

    /// Returns the tests of a range.
    pub(super) fn tests(&self, tests: Range<usize>) -> &[ConditionId] {
        &self.tests[tests]
    }
}

/// Decisions about operands and conditions at the elements of one message, and scratch for it.
#[derive(Debug, Default)]
pub(in crate::engine) struct ConditionMemo {
    /// By operand and node, the record of the operand's values.
    pub(super) operands: EpochTable,
    /// By operand, what was looked at to read it; those aside that are expressions.
    pub(super) visits: EpochTable,
    /// The sum of these.
    pub(in crate::engine) values_read: u64,
    /// By condition and node, whether it holds.
    pub(super) decisions: EpochTable,
    /// The number of ancestors looked at so far, in this message and all before.
    pub(in crate::engine) ancestor_checks: u64,
    /// Tests that hold at the current element.
    pub(super) tests: Vec<ConditionId>,
    pub(super) last_equalities: LastEqualities,
    pub(super) held: HeldTests,
    pub(super) words: WordCache,
    /// Scratch: the tests that hold of a guard's operand.
    pub(super) guard_tests: Vec<ConditionId>,
    /// Scratch: conditions that are read ahead.
    pub(super) reached: Vec<ConditionId>,
    /// Operands that may have values there.
    pub(super) positions: Vec<u32>,
    /// By the address of ranges with the same residual, the numbers for which those with one bound were visited.
    pub(super) visited: FxHashMap<usize, NumberRange>,
    /// Entries that wait for ranges that they are in.
    pub(super) entries: Vec<AccessEntry>,
    /// Queries that wait for regions that may meet a place.
    pub(super) near_regions: Vec<NearRegion>,
    /// By kind of needed elements and node, the hashes of the texts that are there, in order; `None`: these are too long to be
    /// read for that.
    pub(super) needed: FxHashMap<(u32, NodeId), Option<Box<[u64]>>>,
}

impl ConditionMemo {
    /// Begins with a message.
    pub(in crate::engine) fn clear(&mut self) {
        self.operands.clear();
        self.visits.clear();
        self.values_read = 0;
        self.decisions.clear();
        self.visited.clear();
        self.needed.clear();
        self.last_equalities.of = None;
        self.held.forget();
        self.words.begin();
    }

    /// Lets the memory of all tables go.
    pub(in crate::engine) fn forget(&mut self) {
        *self = Self { ancestor_checks: self.ancestor_checks, ..Self::default() };
    }

    /// Returns the bytes of the tables.
    pub(in crate::engine) fn bytes(&self) -> usize {
        self.operands.bytes() + self.visits.bytes() + self.decisions.bytes() + self.words.bytes()
    }

    /// Empties the caches that are full.
    pub(super) fn trim(&mut self, values: &mut OperandValues<'_>) {
        if values.trim(&mut self.operands) {
            self.held.forget();
        }
        if self.decisions.len() > DECISIONS_MAX {
            self.decisions.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a list has is the same before and after it is kept as bits, and nothing of it is left for the next list.
    #[test]
    fn tests_are_found_however_often_a_list_is_asked() {
        let lists: [Vec<ConditionId>; 4] = [&[3, 64, 700][..], &[], &[2, 63], &[64, 65, 66]]
            .map(|ids| ids.iter().map(|&id| ConditionId::from_u32(id)).collect());
        let mut held = HeldTests::default();
        for _ in 0..3 {
            let mut position = 0;
            for list in &lists {
                for id in (0..720).chain([2, 3, 9_000]).map(ConditionId::from_u32) {
                    assert_eq!(held.contains(position, list, id), list.contains(&id), "{id:?} in {list:?}");
                }
                position += list.len();
            }
        }
    }
}
