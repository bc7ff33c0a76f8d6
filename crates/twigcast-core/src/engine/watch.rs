//! Matching that may stop early: somebody watches what has been decided and says when that is enough.

use super::deciding::Decisions;

/// One who watches a message being matched.
pub(super) trait Watch {
    /// Nothing is decided yet, or all is to be decided again.
    fn begin(&mut self, decisions: &mut Decisions);

    /// Is it worth asking [`Self::has_enough`] after so many elements?
    fn looks_at(&self, element_count: usize) -> bool;

    /// Is what has been decided enough? May rule out what need not be decided any more.
    fn has_enough(&mut self, decisions: &mut Decisions) -> bool;
}

/// Nobody: all is decided.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    fn begin(&mut self, _: &mut Decisions) {}

    fn looks_at(&self, _: usize) -> bool {
        false
    }

    fn has_enough(&mut self, _: &mut Decisions) -> bool {
        false
    }
}
