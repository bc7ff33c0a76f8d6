//! Queries that came or went since the selector was laid out.
//!
//! To lay it out takes a while if there are many queries; so it is not done for each change. Those that went are skipped,
//! and those that came are decided one by one, until doing so has cost about as much as to lay all out anew. So it is where
//! queries only went: as long as some have to be skipped, results are named the slower way, one delivery at a time.

use super::catalog::QueryCatalog;

/// What it costs to decide a query by itself, in units of what it costs to lay one out.
const ALONE: usize = 8;

/// Queries whose results are named the slower way, for what it costs to lay one out: 10 to 18 ns more for each, where one
/// is laid out in 100 to 800.
const SKIPPING: usize = 16;

/// What it costs to find what a path means.
const PATH: usize = 16;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct RecentQueries {
    /// The queries of which the selector knows nothing, or nothing true, as bits.
    changed: Vec<u64>,
    /// Those of them that there are.
    queries: Vec<u32>,
    /// What they have cost so far.
    spent: usize,
}

impl RecentQueries {
    pub fn clear(&mut self) {
        self.changed.clear();
        self.queries.clear();
        self.spent = 0;
    }

    /// Takes notice of changes.
    pub fn note(&mut self, changes: &[u32], classes: &QueryCatalog) {
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
        self.queries.retain(|&query| classes.contains(query));
    }

    /// The results of so many queries were named while some had to be skipped.
    pub fn note_named(&mut self, queries: usize) {
        if self.is_any() {
            self.spent += queries.div_ceil(SKIPPING);
        }
    }

    /// Another message comes: is it time to lay all out?
    pub fn is_due(&mut self, classes: &QueryCatalog) -> bool {
        self.spent += ALONE * self.queries.len();
        self.spent > classes.len() + PATH * classes.path_count()
    }

    /// Did any query come or go?
    pub fn is_any(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The queries to be decided one by one.
    pub fn queries(&self) -> &[u32] {
        &self.queries
    }

    #[inline]
    pub fn contains(&self, query: u32) -> bool {
        self.changed.get(query as usize / 64).is_some_and(|word| word >> (query % 64) & 1 == 1)
    }

    /// The queries that came or went, as bits.
    pub fn changed(&self) -> &[u64] {
        &self.changed
    }
}
