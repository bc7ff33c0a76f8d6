//! The nodes that a clause of a join ranges over.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::eval::NodeRef;

/// The nodes of a clause, and which of them have a value. Keyed per process: what messages hold must not decide how far one has
/// to look.
#[derive(Debug)]
pub(super) struct NodesByValue {
    pub(super) nodes: Vec<NodeRef>,
    pub(super) by_value: HashMap<Box<str>, Vec<u32>, RandomState>,
}
