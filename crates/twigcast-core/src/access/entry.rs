//! Numbers of operands and conditions, and the entries that wait for these.

/// Number of a condition. 0 is none: nothing is to be verified.
pub type ConditionId = u32;
/// Number of an operand.
pub type OperandId = u32;

/// The condition that always holds, in place of a number.
pub const NO_CONDITION: ConditionId = 0;

/// A query that waits, and what has to be verified of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessEntry {
    /// The condition that remains to be verified at the element; [`NO_CONDITION`]: none.
    pub residual: ConditionId,
    /// The query, perhaps marked with [`WHOLE`].
    pub query: u32,
}

/// Marks a query that has to be evaluated as a whole besides.
pub const WHOLE: u32 = 1 << 31;
