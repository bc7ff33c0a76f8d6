//! Which waiting queries matched at an element of a certain automaton state and shape.

use rustc_hash::FxHashMap;

use super::shapes::ShapeId;

/// Decisions, filed under the version of a state's twig list (see [`crate::automaton::dfa::StateDecisions::twigs_version`])
/// and a shape. A decision is the list of queries that matched.
#[derive(Debug, Default)]
pub struct Memo {
    decisions: FxHashMap<(u32, ShapeId), (u32, u32)>,
    queries: Vec<u32>,
}

impl Memo {
    /// Forget all.
    pub fn clear(&mut self) {
        self.decisions.clear();
        self.queries.clear();
    }

    /// Bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.decisions.len() * 36 + self.queries.len() * 4
    }

    /// The queries that matched, if that was decided before.
    #[inline]
    pub fn get(&self, twigs_version: u32, shape: ShapeId) -> Option<&[u32]> {
        let &(start, end) = self.decisions.get(&(twigs_version, shape))?;
        Some(&self.queries[start as usize..end as usize])
    }

    /// File a decision.
    pub fn insert(&mut self, twigs_version: u32, shape: ShapeId, matched: &[u32]) {
        let start = self.queries.len() as u32;
        self.queries.extend_from_slice(matched);
        self.decisions.insert((twigs_version, shape), (start, self.queries.len() as u32));
    }
}
