//! The needs of compiled queries: the parts of messages that the scanner has to record, and warnings.

use crate::query::notes::QueryNote;
use crate::scan::ScanOptions;

/// The needs of matching one query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScanNeeds {
    /// Attributes are to be recorded.
    pub(super) attributes: bool,
    /// Text is to be recorded.
    pub(super) text: bool,
    /// The query rewrites, so that delivering (not matching) needs everything recorded.
    pub(super) rewrites: bool,
}

/// The numbers of registered queries that have each need.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NeedCounts {
    attributes: usize,
    text: usize,
    rewrites: usize,
}

impl NeedCounts {
    /// Counts a query that came.
    pub(super) fn add(&mut self, needs: ScanNeeds) {
        self.attributes += usize::from(needs.attributes);
        self.text += usize::from(needs.text);
        self.rewrites += usize::from(needs.rewrites);
    }

    /// Counts a query that went.
    pub(super) fn subtract(&mut self, needs: ScanNeeds) {
        self.attributes -= usize::from(needs.attributes);
        self.text -= usize::from(needs.text);
        self.rewrites -= usize::from(needs.rewrites);
    }

    /// Returns what matching all queries needs recorded.
    pub(super) fn scan_options(self) -> ScanOptions {
        ScanOptions { attributes: self.attributes > 0, text: self.text > 0 }
    }

    /// Returns `true` if some query rewrites.
    pub(super) fn has_rewriting(self) -> bool {
        self.rewrites > 0
    }
}

/// A warning about a query that is accepted but looks wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryWarning {
    /// No message can match.
    NeverMatches,
    /// Every message matches.
    AlwaysMatches,
    /// No shared structure narrows the query down: it is evaluated on each message.
    EvaluatedAlways,
    /// No value leads to the query: it is verified wherever its path leads.
    NoCover,
    /// A path in a constructor has another default namespace than the query.
    LosesDefault,
    /// A path in a constructor has a default namespace, and the query has none.
    GainsDefault,
    /// A place of the query may not be meant as it is written.
    Noted(QueryNote),
}
