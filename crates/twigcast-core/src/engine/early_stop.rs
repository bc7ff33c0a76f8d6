//! Matching that may stop early: somebody watches what has been decided and says when that is enough.

use super::decide::Decisions;

/// What is noted with queries that are told of together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ObserverNote {
    /// They are new.
    #[default]
    Nothing,
    /// They came once, which is not worth a note.
    Once,
    /// The groups that they are of, as bits.
    Groups(u64),
}

/// One who watches a message being matched.
pub(super) trait MatchObserver {
    /// Nothing is decided yet, or all is to be decided again.
    fn begin(&mut self, decisions: &mut Decisions);

    /// Is it worth asking [`Self::has_enough`] after so many elements?
    fn should_poll(&self, element_count: usize) -> bool;

    /// Queries turn out to match, where nobody keeps a record of what does; some may be told of again. Those of one
    /// state of an automaton come together: what is noted with them is there the next time.
    fn matched(&mut self, queries: &[u32], noted: &mut ObserverNote);

    /// Until when notes are good: whose they are, and its state.
    fn notes_of(&self) -> (u64, u64);

    /// Is what was told of by [`Self::matched`] enough, as far as that is seen without a look?
    fn is_satisfied(&self) -> bool;

    /// Is what was told of by [`Self::matched`] enough, and nothing was found in another way?
    fn has_enough_results(&mut self) -> bool;

    /// Is what has been decided enough? May rule out what need not be decided any more.
    fn has_enough(&mut self, decisions: &mut Decisions) -> bool;
}

/// Nobody: all is decided.
pub(super) struct NoObserver;

impl MatchObserver for NoObserver {
    fn begin(&mut self, _: &mut Decisions) {}

    fn should_poll(&self, _: usize) -> bool {
        false
    }

    fn matched(&mut self, _: &[u32], _: &mut ObserverNote) {}

    fn notes_of(&self) -> (u64, u64) {
        (0, 0)
    }

    fn is_satisfied(&self) -> bool {
        false
    }

    fn has_enough_results(&mut self) -> bool {
        false
    }

    fn has_enough(&mut self, _: &mut Decisions) -> bool {
        false
    }
}
