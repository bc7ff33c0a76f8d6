//! Memory for operands and conditions at the elements of one message.

use std::borrow::Cow;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::access::entry::AccessEntry;
use crate::document::NodeId;
use crate::ids::{ConditionId, OperandId};
use crate::plan::NumberRange;
use crate::util::epoch_table::EpochTable;

/// After so many values what was read is forgotten, and read again where it is needed again.
const TEXTS_MAX: usize = 1 << 20;
/// After so many decisions those of the message are forgotten, and made again where they are needed again.
const DECISIONS_MAX: usize = 1 << 22;

/// The values of one operand at one element, as ranges of what was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperandRecord {
    pub(super) operand: OperandId,
    /// Texts.
    pub(super) texts: (u32, u32),
    /// Which of the texts that queries ask for they are, as tests in order; `None`: not asked yet.
    pub(super) equalities: Option<(u32, u32)>,
    /// The texts that are numbers, in order; `None`: not asked yet.
    pub(super) numbers: Option<(u32, u32)>,
    /// The tests for texts that they contain, in order; `None`: not asked yet.
    pub(super) substrings: Option<(u32, u32)>,
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
}

pub(super) fn span(range: (u32, u32)) -> Range<usize> {
    range.0 as usize..range.1 as usize
}

impl OperandValues<'_> {
    /// Forgets what was read, if that is much.
    fn trim(&mut self, known: &mut EpochTable) {
        if self.texts.len() + self.numbers.len() + self.tests.len() + self.records.len() > TEXTS_MAX {
            *self = Self::default();
            known.clear();
        }
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
    /// Scratch: the tests that hold of a guard's operand.
    pub(super) guard_tests: Vec<ConditionId>,
    /// Operands that may have values there.
    pub(super) positions: Vec<u32>,
    /// By the address of ranges with the same residual, the numbers for which those with one bound were visited.
    pub(super) visited: FxHashMap<usize, NumberRange>,
    /// Entries that wait for ranges that they are in.
    pub(super) entries: Vec<AccessEntry>,
}

impl ConditionMemo {
    /// Begins with a message.
    pub(in crate::engine) fn clear(&mut self) {
        self.operands.clear();
        self.visits.clear();
        self.values_read = 0;
        self.decisions.clear();
        self.visited.clear();
        self.last_equalities.of = None;
    }

    /// Lets the memory of all tables go.
    pub(in crate::engine) fn forget(&mut self) {
        *self = Self { ancestor_checks: self.ancestor_checks, ..Self::default() };
    }

    /// Returns the bytes of the tables.
    pub(in crate::engine) fn bytes(&self) -> usize {
        self.operands.bytes() + self.visits.bytes() + self.decisions.bytes()
    }

    /// Forgets what was found, if that is much.
    pub(super) fn trim(&mut self, values: &mut OperandValues<'_>) {
        values.trim(&mut self.operands);
        if self.decisions.len() > DECISIONS_MAX {
            self.decisions.clear();
        }
    }
}
