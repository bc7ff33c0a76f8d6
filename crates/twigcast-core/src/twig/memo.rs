//! Memoised decisions of twigs.

use rustc_hash::FxHashMap;

use crate::ids::ShapeId;

/// The queries that matched at elements of a DFA state and a shape, by the version of the state's list of twigs (see
/// [`StateDecisions::twigs_version`](crate::automaton::dfa::StateDecisions::twigs_version)) and the shape.
#[derive(Debug, Default)]
pub struct Memo {
    /// Ranges in `queries`.
    decisions: FxHashMap<(u32, ShapeId), (u32, u32)>,
    queries: Vec<u32>,
}

impl Memo {
    /// Removes all decisions.
    pub fn clear(&mut self) {
        self.decisions.clear();
        self.queries.clear();
    }

    /// Returns the bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.decisions.len() * 36 + self.queries.len() * 4
    }

    /// Returns the queries that matched, if that was decided before.
    #[inline]
    pub fn get(&self, twigs_version: u32, shape: ShapeId) -> Option<&[u32]> {
        let &(start, end) = self.decisions.get(&(twigs_version, shape))?;
        Some(&self.queries[start as usize..end as usize])
    }

    /// Adds a decision.
    pub fn insert(&mut self, twigs_version: u32, shape: ShapeId, matched: &[u32]) {
        let start = self.queries.len() as u32;
        self.queries.extend_from_slice(matched);
        self.decisions.insert((twigs_version, shape), (start, self.queries.len() as u32));
    }
}
