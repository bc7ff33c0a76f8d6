//! Matching that may stop early: an observer sees what has been decided and says when that is enough.

use super::decide::Decisions;

/// A note of an observer on the queries that one state accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ObserverNote {
    /// The queries have not been seen.
    #[default]
    Nothing,
    /// The queries have been seen once, which is not worth more of a note.
    Once,
    /// The groups that the queries belong to, as bits.
    Groups(u64),
}

/// An observer of a message being matched. It is asked in three ways whether it is satisfied, which is when the rest of the
/// message cannot change anything for it; each way looks at more than the one before, and costs more.
pub(super) trait MatchObserver {
    /// Begins a message. Called again if everything has to be decided anew.
    fn begin(&mut self, decisions: &mut Decisions);

    /// Returns `true` if [`Self::is_satisfied_by_decisions`] is to be called after so many elements.
    fn should_poll(&self, element_count: usize) -> bool;

    /// Receives queries that match, where nothing else records them; some may be reported again. The queries that one state
    /// accepts come together, with the observer's note of the last time.
    fn matched(&mut self, queries: &[u32], note: &mut ObserverNote);

    /// Returns the owner of the notes and its version. Notes of another owner or version are removed.
    fn notes_of(&self) -> (u64, u64);

    /// Returns `true` if an earlier call has found that the observer is satisfied. Looks at nothing new.
    fn is_satisfied(&self) -> bool;

    /// Returns `true` if the queries that [`Self::matched`] has received satisfy the observer. To be called where no other
    /// queries were decided.
    fn is_satisfied_by_matches(&mut self) -> bool;

    /// Returns `true` if all that has been decided satisfies the observer. May rule out queries that need not be decided any
    /// more.
    fn is_satisfied_by_decisions(&mut self, decisions: &mut Decisions) -> bool;
}

/// The observer that never stops matching.
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

    fn is_satisfied_by_matches(&mut self) -> bool {
        false
    }

    fn is_satisfied_by_decisions(&mut self, _: &mut Decisions) -> bool {
        false
    }
}
