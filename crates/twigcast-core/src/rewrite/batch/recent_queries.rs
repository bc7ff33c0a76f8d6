//! Queries that were added or removed since the condition index was laid out.
//!
//! Laying it out takes time in proportion to all queries, so it is not done for each change. Removed queries are
//! skipped and added ones decided one by one, until that has cost about as much as a new layout. Skipping costs too:
//! while there is a removed query, results are numbered delivery by delivery.

use super::queries::BatchQueries;

/// Cost of deciding one query, in units of the cost of laying out one.
const DECIDE_COST: usize = 8;

/// Number of deliveries numbered one by one for the cost of laying out one query: 10 to 18 ns more for each, where the
/// layout takes 100 to 800 ns.
const SKIPPED_PER_UNIT: usize = 16;

/// Cost of resolving one path.
const PATH_COST: usize = 16;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct RecentQueries {
    /// The queries that were added or removed, as bits.
    changed: Vec<u64>,
    /// The recent batch queries.
    queries: Vec<u32>,
    /// The cost of skipping and deciding them since the layout.
    spent: usize,
}

impl RecentQueries {
    /// Forgets all changes after a new layout.
    pub fn clear(&mut self) {
        self.changed.clear();
        self.queries.clear();
        self.spent = 0;
    }

    /// Adds the queries that were added to the batch queries or removed from them.
    pub fn add_changes(&mut self, changes: &[u32], queries: &BatchQueries) {
        for &query in changes {
            let word = query as usize / 64;
            if self.changed.len() <= word {
                self.changed.resize(word + 1, 0);
            }
            self.changed[word] |= 1 << (query % 64);
        }
        self.queries.extend_from_slice(changes);
        self.queries.sort_unstable();
        self.queries.dedup();
        self.queries.retain(|&query| queries.contains(query));
    }

    /// Adds the cost of numbering the results of `count` queries, if removed ones had to be skipped.
    pub fn add_numbered(&mut self, count: usize) {
        if !self.is_empty() {
            self.spent += count.div_ceil(SKIPPED_PER_UNIT);
        }
    }

    /// Adds the cost of the next message. Returns `true` if a new layout costs less.
    pub fn add_message(&mut self, queries: &BatchQueries) -> bool {
        self.spent += DECIDE_COST * self.queries.len();
        self.spent > queries.len() + PATH_COST * queries.path_count()
    }

    /// Returns `true` if no query was added or removed.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// Returns the queries to be decided one by one, ascending.
    pub fn queries(&self) -> &[u32] {
        &self.queries
    }

    /// Returns `true` if a query was added or removed.
    #[inline]
    pub fn contains(&self, query: u32) -> bool {
        self.changed.get(query as usize / 64).is_some_and(|word| word >> (query % 64) & 1 == 1)
    }

    /// Returns the queries that were added or removed, as bits.
    pub fn changed(&self) -> &[u64] {
        &self.changed
    }
}
