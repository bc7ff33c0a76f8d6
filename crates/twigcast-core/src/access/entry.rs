//! Numbers of operands and conditions, and the entries that wait for these.

use crate::ids::ConditionId;

impl ConditionId {
    /// In place of a condition: the one that always holds, so nothing is to be verified.
    pub const NONE: Self = Self::from_u32(0);
}

/// A query that waits, and what has to be verified of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessEntry {
    /// The condition that remains to be verified at the element; [`ConditionId::NONE`]: none.
    pub residual: ConditionId,
    /// The query, perhaps marked with [`WHOLE`].
    pub query: u32,
}

/// Marks a query that has to be evaluated as a whole besides.
pub const WHOLE: u32 = 1 << 31;
