//! What changed in the automaton, for the matchers that have states built from it.

use crate::automaton::nfa::Change;

/// Changes kept; a matcher further behind starts afresh.
const KEPT_MAX: usize = 1 << 18;

/// Numbered changes, the oldest dropped.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    changes: Vec<Change>,
    /// Number of the first change kept.
    first: u64,
}

impl ChangeLog {
    /// The number that the next change will have.
    pub(super) fn version(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    pub(super) fn extend(&mut self, changes: Vec<Change>) {
        self.changes.extend(changes);
        // Half of what is kept goes at a time, so that moving the rest costs little a change.
        if self.changes.len() > KEPT_MAX {
            let dropped = self.changes.len() - KEPT_MAX / 2;
            self.changes.drain(..dropped);
            self.first += dropped as u64;
        }
    }

    /// Everything changed: no matcher can follow.
    pub(super) fn forget(&mut self) {
        self.first = self.version() + 1;
        self.changes.clear();
    }

    /// The changes since a version, `None` if they are no longer kept.
    pub(super) fn since(&self, version: u64) -> Option<&[Change]> {
        let skip = version.checked_sub(self.first)? as usize;
        self.changes.get(skip..)
    }
}
