//! Blocks of subscriptions that are parsed before they are added.

use crate::ids::StateId;
use crate::plan::LinearStep;
use crate::query::plain::PathSpelling;

/// Subscriptions in a block.
pub(super) const BLOCK: usize = 32;

/// A subscription that was parsed ahead.
#[derive(Debug, Default)]
pub(super) struct ParsedSubscription {
    pub(super) key_hash: u64,
    /// Another subscription had the key.
    pub(super) is_duplicate: bool,
    /// `None`: the query is no plain path.
    pub(super) spelling: Option<PathSpelling>,
    pub(super) steps: Vec<LinearStep>,
}

/// A block of parsed subscriptions. The memory is used again for the next block.
#[derive(Debug, Default)]
pub(super) struct ParseBlock {
    pub(super) parsed: Vec<ParsedSubscription>,
    /// The states to which the paths lead in a version of the main segment's NFA.
    pub(super) in_main: Vec<Option<StateId>>,
    pub(super) version: u64,
}
