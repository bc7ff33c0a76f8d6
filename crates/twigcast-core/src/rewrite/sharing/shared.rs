//! The state that programs share on one message, computed once.
//!
//! The interner makes equal parts of programs one object ([`super::super::program::family`]). What is computed for such
//! an object is kept here by its address or id:
//!
//! - the *list* of nodes that a binding path selects; paths that select the same nodes share it;
//! - by compared path and list, the *set* of bindings from which the path selects each constant of some query (the
//!   shared selection of Diao 2005), and the set of bindings that satisfy any other condition;
//! - the *column* of a returned path and a list: the bytes of the nodes that the path selects from each binding (the
//!   shared GroupBy); paths that select the same nodes share it;
//! - the payload that a skeleton and columns make of a set (the shared outer join), once for all queries that get it;
//! - for other results, the bytes of the nodes that a path selects from a binding.
//!
//! A set lists indexes into its list, ascending; equal sets have one id. The memory is bounded: past
//! [`crate::limits::Limits::cache_bytes_max`] nothing more is kept, and queries run one by one.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::eval::NodeRef;
use crate::ids::{
    ConstantId, ConstantTableId, FamilyGroupId, NodeListId, NodeSetId, PayloadTableId, SharedColumnId, SharedPathId,
    SkeletonId, TableId,
};
use crate::query::ast::Expr;

use super::super::ExtractError;
use super::super::program::family::{Family, GroupSummary, SUMMARY_COLUMNS_MAX};

/// An expression by its address. It outlives the interpreter.
pub(in crate::rewrite) type ExprAddress = *const Expr;

/// The set without bindings.
pub(in crate::rewrite) const EMPTY: NodeSetId = NodeSetId::from_u32(0);

/// Bytes of a table entry, roughly.
pub(in crate::rewrite) const ENTRY_BYTES: usize = 64;

/// Start and end in the kept bytes.
pub(in crate::rewrite) type SharedRange = (usize, usize);

/// The number of a payload, or `None` if no binding passes.
pub(in crate::rewrite) type SharedPayload = Result<Option<u32>, ExtractError>;

/// Returns the key of an entry by two ids.
#[inline]
pub(in crate::rewrite) fn key(a: impl TableId, b: impl TableId) -> u64 {
    u64::from(a.as_u32()) << u32::BITS | u64::from(b.as_u32())
}

/// The state of a group on this message.
pub(in crate::rewrite) enum GroupState {
    /// A condition that no binding can change does not hold.
    Never,
    /// The common part is too expensive to evaluate for all constants at once. Each query runs by itself.
    Expensive,
    /// The group cannot be evaluated.
    Failed(ExtractError),
    Ready(ReadyGroup),
}

/// A group with the tables of its families.
#[derive(Clone, Copy)]
pub(in crate::rewrite) struct ReadyGroup {
    pub(in crate::rewrite) list: NodeListId,
    /// The bindings that satisfy all other conditions; `ABSENT` if there are no others.
    pub(in crate::rewrite) other_conditions: NodeSetId,
    pub(in crate::rewrite) payloads: PayloadTableId,
    /// Position of its columns in [`SharedState::group_columns`]; `None` if its result is not made of columns.
    pub(in crate::rewrite) columns: Option<usize>,
}

/// Columns by index in the skeleton.
pub(in crate::rewrite) type SharedColumns = [SharedColumnId; SUMMARY_COLUMNS_MAX];

/// The skeleton, columns and set that a payload is made of.
pub(in crate::rewrite) type PayloadParts = (SkeletonId, SharedColumns, NodeSetId);

/// The identity of a payload table: the list, and the skeleton and columns or the shape of what is made of it.
#[derive(PartialEq, Eq, Hash)]
pub(in crate::rewrite) enum PayloadKey {
    Template(NodeListId, SkeletonId, Vec<SharedColumnId>),
    Shape(NodeListId, usize),
}

/// A payload as far as it is kept.
pub(in crate::rewrite) enum KeptPayload {
    /// No binding passes.
    None,
    Outcome(SharedOutcome),
    /// The payload is not made, but all its parts are there.
    Parts(PayloadParts),
}

/// The outcome of making a payload.
#[derive(Clone, Copy)]
pub(in crate::rewrite) enum SharedOutcome {
    Payload(u32),
    /// The index of the error.
    Failed(u32),
}

/// The bindings to make a result of.
pub(in crate::rewrite) struct SharedBindings {
    pub(in crate::rewrite) list: NodeListId,
    pub(in crate::rewrite) set: NodeSetId,
}

/// Everything that is kept for one message: see the module's documentation.
#[derive(Default)]
pub(in crate::rewrite) struct SharedState {
    pub(in crate::rewrite) groups: FxHashMap<FamilyGroupId, GroupState>,
    /// By path; `ABSENT` before it is evaluated.
    pub(in crate::rewrite) sources: Vec<NodeListId>,
    pub(in crate::rewrite) lists: Vec<Rc<[NodeRef]>>,
    pub(in crate::rewrite) list_ids: FxHashMap<Rc<[NodeRef]>, NodeListId>,
    pub(in crate::rewrite) sets: Vec<Rc<[u32]>>,
    pub(in crate::rewrite) set_ids: FxHashMap<Rc<[u32]>, NodeSetId>,
    /// By list and path.
    pub(in crate::rewrite) tables: FxHashMap<u64, ConstantTableId>,
    pub(in crate::rewrite) table_count: usize,
    /// By table and constant.
    pub(in crate::rewrite) by_constant: FxHashMap<u64, NodeSetId>,
    pub(in crate::rewrite) passing: FxHashMap<(NodeListId, ExprAddress), NodeSetId>,
    /// By list and path; `None` if the path has no column.
    pub(in crate::rewrite) columns: FxHashMap<u64, Option<SharedColumnId>>,
    /// By list, and the number of nodes and the nodes of each binding.
    pub(in crate::rewrite) column_ids: FxHashMap<Vec<u32>, SharedColumnId>,
    /// By column: the position of its first entry in `entries`.
    pub(in crate::rewrite) column_starts: Vec<usize>,
    pub(in crate::rewrite) entries: Vec<SharedRange>,
    /// Columns of the groups, one after the other.
    pub(in crate::rewrite) group_columns: Vec<SharedColumnId>,
    pub(in crate::rewrite) payload_tables: FxHashMap<PayloadKey, PayloadTableId>,
    /// By table and set.
    pub(in crate::rewrite) payloads: FxHashMap<u64, SharedOutcome>,
    /// Payloads of groups that have a summary.
    pub(in crate::rewrite) summary_payloads: FxHashMap<PayloadParts, SharedOutcome>,
    pub(in crate::rewrite) errors: Vec<ExtractError>,
    pub(in crate::rewrite) path_bytes: FxHashMap<(ExprAddress, NodeRef), SharedRange>,
    pub(in crate::rewrite) bytes: Vec<u8>,
    /// Bytes that may still be kept.
    pub(in crate::rewrite) bytes_left: usize,
}

impl SharedState {
    /// Creates an empty state that keeps up to `bytes_max` bytes.
    pub fn new(bytes_max: usize, path_bound: usize) -> Self {
        let empty: Rc<[u32]> = Rc::new([]);
        Self {
            sources: vec![NodeListId::ABSENT; path_bound],
            sets: vec![Rc::clone(&empty)],
            set_ids: FxHashMap::from_iter([(empty, EMPTY)]),
            bytes_left: bytes_max,
            ..Self::default()
        }
    }

    /// Takes bytes from the limit. Returns `false` if too few are left.
    pub(in crate::rewrite) fn reserve(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.bytes_left;
        if fits {
            self.bytes_left -= bytes;
        }
        fits
    }

    /// Keeps bytes, if the limit allows it.
    pub(in crate::rewrite) fn keep(&mut self, bytes: &[u8]) -> Option<SharedRange> {
        if !self.reserve(bytes.len()) {
            return None;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Some((start, self.bytes.len()))
    }

    /// Returns the id of a set, or `None` if the limit is reached.
    pub(in crate::rewrite) fn set_id(&mut self, set: Vec<u32>) -> Option<NodeSetId> {
        if let Some(&existing) = self.set_ids.get(&set[..]) {
            return Some(existing);
        }
        if !self.reserve(ENTRY_BYTES + size_of_val(&set[..])) {
            return None;
        }
        let id = NodeSetId::new(self.sets.len());
        let set: Rc<[u32]> = set.into();
        self.sets.push(Rc::clone(&set));
        self.set_ids.insert(set, id);
        Some(id)
    }

    /// Returns the intersection of two sets, or `None` if the limit is reached.
    pub(in crate::rewrite) fn intersection(&mut self, a: NodeSetId, b: NodeSetId) -> Option<NodeSetId> {
        if a == b || a == EMPTY {
            return Some(a);
        }
        let common = intersection(&self.sets[a.index()], &self.sets[b.index()]);
        self.set_id(common)
    }

    /// Returns the table of the payloads with a key.
    pub(in crate::rewrite) fn payload_table(&mut self, key: PayloadKey) -> PayloadTableId {
        let next = PayloadTableId::new(self.payload_tables.len());
        *self.payload_tables.entry(key).or_insert(next)
    }

    /// Returns the number of a payload, or why it failed.
    pub(in crate::rewrite) fn outcome(&self, inserted: SharedOutcome) -> Result<u32, ExtractError> {
        match inserted {
            SharedOutcome::Payload(number) => Ok(number),
            SharedOutcome::Failed(error) => Err(self.errors[error as usize].clone()),
        }
    }

    /// Keeps the outcome of a payload.
    pub(in crate::rewrite) fn outcome_of(&mut self, payload: &Result<u32, ExtractError>) -> SharedOutcome {
        match payload {
            Ok(number) => SharedOutcome::Payload(*number),
            Err(error) => {
                self.errors.push(error.clone());
                SharedOutcome::Failed(self.errors.len() as u32 - 1)
            }
        }
    }

    /// Returns what is kept of the payload of a family with one constant, or `None` if its group is not evaluated.
    #[inline]
    pub(in crate::rewrite) fn look_up(&self, group: GroupSummary, constant: ConstantId) -> Option<KeptPayload> {
        let list = *self.sources.get(group.source.index()).filter(|&&list| list != NodeListId::ABSENT)?;
        let table = *self.tables.get(&key(list, group.compared))?;
        let Some(&set) = self.by_constant.get(&key(table, constant)) else { return Some(KeptPayload::None) };
        let mut columns = [SharedColumnId::ABSENT; SUMMARY_COLUMNS_MAX];
        for (column, &path) in
            columns.iter_mut().zip(&group.columns).take_while(|(_, path)| **path != SharedPathId::ABSENT)
        {
            *column = (*self.columns.get(&key(list, path))?)?;
        }
        let parts = (group.skeleton, columns, set);
        Some(match self.summary_payloads.get(&parts) {
            Some(&outcome) => KeptPayload::Outcome(outcome),
            None => KeptPayload::Parts(parts),
        })
    }

    /// Returns the bindings of a family, or `None` if the limit is reached.
    pub(in crate::rewrite) fn bindings_of(&mut self, ready: ReadyGroup, family: &Family) -> Option<NodeSetId> {
        let mut set = ready.other_conditions;
        for (path, constant) in family.group.compared.iter().zip(&family.constants) {
            let table = *self.tables.get(&key(ready.list, path.id))?;
            let equal = self.by_constant.get(&key(table, constant.id)).copied().unwrap_or(EMPTY);
            set = if set == NodeSetId::ABSENT { equal } else { self.intersection(set, equal)? };
        }
        Some(set)
    }
}

/// Returns the elements that two ascending lists have in common.
fn intersection(a: &[u32], b: &[u32]) -> Vec<u32> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut both = Vec::new();
    while let (Some(&&x), Some(&&y)) = (a.peek(), b.peek()) {
        if x <= y {
            a.next();
        }
        if y <= x {
            b.next();
        }
        if x == y {
            both.push(x);
        }
    }
    both
}
