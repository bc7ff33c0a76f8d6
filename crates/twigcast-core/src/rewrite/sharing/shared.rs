//! What the programs of one session have in common, computed once a message.
//!
//! The interner makes what is equal one object (`family.rs`); here its results are kept by that object's address or
//! number:
//!
//! - the *list* of nodes that a binding path selects; paths that select the same nodes share it;
//! - by compared path and list, the *set* of bindings from which the path leads to a value, for each value that is some
//!   query's constant (the shared selection); and the set of those that satisfy any other condition;
//! - the *column* of a returned path and a list: the bytes of the nodes that the path leads to from each binding (the
//!   shared GroupBy); paths that lead to the same nodes share it;
//! - the payload that a skeleton and columns make of a set (the shared outer join): one, however many queries get it;
//! - for results of other kinds, the bytes of a result for a binding and of a path from it.
//!
//! Sets are indices into the list, ascending; equal sets have one number. The memory is bounded: past
//! [`crate::limits::Limits::cache_bytes_max`] nothing more is kept, and queries are run one by one.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::eval::NodeRef;
use crate::query::ast::Expr;

use super::super::ExtractError;
use super::super::program::family::{BRIEF_COLUMNS, ConstantId, Family, FamilyGroupId, GroupSummary, NONE};

/// An expression or result by its address. It outlives the session.
pub(in crate::rewrite) type ExprAddress = *const Expr;

/// Numbers of node lists and of sets of bindings.
pub(in crate::rewrite) type NodeListId = u32;
pub(in crate::rewrite) type NodeSetId = u32;

/// The set without bindings.
pub(in crate::rewrite) const EMPTY: NodeSetId = 0;

/// What an entry of a table takes, about.
pub(in crate::rewrite) const ENTRY_BYTES: usize = 64;

/// Start and end in the kept bytes.
pub(in crate::rewrite) type SharedRange = (usize, usize);

/// Number of a column, of the sets by constant that a path leads to, and of the payloads by set.
pub(in crate::rewrite) type SharedColumnId = u32;
pub(in crate::rewrite) type SharedTableId = u32;

/// A payload's number; `None`: no binding passes.
pub(in crate::rewrite) type SharedPayload = Result<Option<u32>, ExtractError>;

/// Two numbers as a key.
#[inline]
pub(in crate::rewrite) fn key(a: u32, b: u32) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

/// A group on this message.
pub(in crate::rewrite) enum GroupState {
    /// A condition that no binding can change does not hold.
    Never,
    /// What its queries have in common is too expensive to evaluate for all constants at once: each is run by itself.
    Expensive,
    /// It cannot be evaluated.
    Failed(ExtractError),
    Ready(Ready),
}

/// A group with what its families are looked up in.
#[derive(Clone, Copy)]
pub(in crate::rewrite) struct Ready {
    pub(in crate::rewrite) list: NodeListId,
    /// The bindings that satisfy all other conditions; [`NONE`]: there are none.
    pub(in crate::rewrite) other_conditions: NodeSetId,
    pub(in crate::rewrite) payloads: SharedTableId,
    /// Where its columns begin among those of all groups; [`NONE`] if its result is not made of columns.
    pub(in crate::rewrite) columns: u32,
}

/// Columns by place in the skeleton.
pub(in crate::rewrite) type SharedColumns = [SharedColumnId; BRIEF_COLUMNS];

/// Skeleton, columns and set.
pub(in crate::rewrite) type BriefKey = (u32, SharedColumns, NodeSetId);

/// What became of a payload.
#[derive(Clone, Copy)]
pub(in crate::rewrite) enum SharedOutcome {
    Payload(u32),
    /// Number of the error.
    Failed(u32),
}

/// The bindings to make a result of.
pub(in crate::rewrite) struct SharedBindings {
    pub(in crate::rewrite) list: NodeListId,
    pub(in crate::rewrite) set: NodeSetId,
}

/// Results kept for one message.
pub(in crate::rewrite) struct Shared {
    pub(in crate::rewrite) groups: FxHashMap<FamilyGroupId, GroupState>,
    /// By path; [`NONE`] where it is not known.
    pub(in crate::rewrite) sources: Vec<NodeListId>,
    pub(in crate::rewrite) lists: Vec<Rc<[NodeRef]>>,
    pub(in crate::rewrite) list_ids: FxHashMap<Rc<[NodeRef]>, NodeListId>,
    pub(in crate::rewrite) sets: Vec<Rc<[u32]>>,
    pub(in crate::rewrite) set_ids: FxHashMap<Rc<[u32]>, NodeSetId>,
    /// By list and path.
    pub(in crate::rewrite) tables: FxHashMap<u64, SharedTableId>,
    pub(in crate::rewrite) table_count: SharedTableId,
    /// By table and constant.
    pub(in crate::rewrite) by_constant: FxHashMap<u64, NodeSetId>,
    pub(in crate::rewrite) passing: FxHashMap<(NodeListId, ExprAddress), NodeSetId>,
    /// By list and path; `None`: not to be had.
    pub(in crate::rewrite) columns: FxHashMap<u64, Option<SharedColumnId>>,
    /// By list and nodes.
    pub(in crate::rewrite) column_ids: FxHashMap<Vec<u32>, SharedColumnId>,
    /// By column, where its entries begin in `entries`.
    pub(in crate::rewrite) column_starts: Vec<usize>,
    pub(in crate::rewrite) entries: Vec<SharedRange>,
    /// Columns of the groups, one after the other.
    pub(in crate::rewrite) group_columns: Vec<SharedColumnId>,
    pub(in crate::rewrite) payload_tables: FxHashMap<Vec<u32>, SharedTableId>,
    /// By table and set.
    pub(in crate::rewrite) payloads: FxHashMap<u64, SharedOutcome>,
    /// Of groups that are put in brief: by skeleton, columns and set.
    pub(in crate::rewrite) brief_payloads: FxHashMap<BriefKey, SharedOutcome>,
    pub(in crate::rewrite) errors: Vec<ExtractError>,
    pub(in crate::rewrite) path_bytes: FxHashMap<(ExprAddress, NodeRef), SharedRange>,
    pub(in crate::rewrite) bytes: Vec<u8>,
    /// Bytes that may still be kept, in all.
    pub(in crate::rewrite) bytes_left: usize,
}

impl Shared {
    pub fn new(bytes_max: usize, path_bound: usize) -> Self {
        let empty: Rc<[u32]> = Rc::new([]);
        Self {
            groups: FxHashMap::default(),
            sources: vec![NONE; path_bound],
            lists: Vec::new(),
            list_ids: FxHashMap::default(),
            sets: vec![Rc::clone(&empty)],
            set_ids: FxHashMap::from_iter([(empty, EMPTY)]),
            tables: FxHashMap::default(),
            table_count: 0,
            by_constant: FxHashMap::default(),
            passing: FxHashMap::default(),
            columns: FxHashMap::default(),
            column_ids: FxHashMap::default(),
            column_starts: Vec::new(),
            entries: Vec::new(),
            group_columns: Vec::new(),
            payload_tables: FxHashMap::default(),
            payloads: FxHashMap::default(),
            brief_payloads: FxHashMap::default(),
            errors: Vec::new(),
            path_bytes: FxHashMap::default(),
            bytes: Vec::new(),
            bytes_left: bytes_max,
        }
    }

    /// Takes room for something to keep; `false` if there is none.
    pub(in crate::rewrite) fn reserve(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.bytes_left;
        if fits {
            self.bytes_left -= bytes;
        }
        fits
    }

    /// Keeps the bytes of a result, if there is room.
    pub(in crate::rewrite) fn keep(&mut self, bytes: &[u8]) -> Option<SharedRange> {
        if !self.reserve(bytes.len()) {
            return None;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Some((start, self.bytes.len()))
    }

    /// The number of a set; `None`: there is no room for it.
    pub(in crate::rewrite) fn set_id(&mut self, set: Vec<u32>) -> Option<NodeSetId> {
        if let Some(&existing) = self.set_ids.get(&set[..]) {
            return Some(existing);
        }
        if !self.reserve(ENTRY_BYTES + size_of_val(&set[..])) {
            return None;
        }
        let id = self.sets.len() as NodeSetId;
        let set: Rc<[u32]> = set.into();
        self.sets.push(Rc::clone(&set));
        self.set_ids.insert(set, id);
        Some(id)
    }

    /// What two sets have in common.
    pub(in crate::rewrite) fn both(&mut self, a: NodeSetId, b: NodeSetId) -> Option<NodeSetId> {
        if a == b || a == EMPTY {
            return Some(a);
        }
        let both = intersection(&self.sets[a as usize], &self.sets[b as usize]);
        self.set_id(both)
    }

    /// The table of the payloads that the same is made in of bindings in the same list.
    pub(in crate::rewrite) fn payload_table(&mut self, key: Vec<u32>) -> SharedTableId {
        let next = self.payload_tables.len() as SharedTableId;
        *self.payload_tables.entry(key).or_insert(next)
    }

    pub(in crate::rewrite) fn outcome(&self, inserted: SharedOutcome) -> Result<u32, ExtractError> {
        match inserted {
            SharedOutcome::Payload(number) => Ok(number),
            SharedOutcome::Failed(error) => Err(self.errors[error as usize].clone()),
        }
    }

    pub(in crate::rewrite) fn outcome_of(&mut self, payload: &Result<u32, ExtractError>) -> SharedOutcome {
        match payload {
            Ok(number) => SharedOutcome::Payload(*number),
            Err(error) => {
                self.errors.push(error.clone());
                SharedOutcome::Failed(self.errors.len() as u32 - 1)
            }
        }
    }

    /// The payload of a family that is told in brief, as far as its parts are known.
    #[inline]
    pub(in crate::rewrite) fn look_up(&self, brief: GroupSummary, constant: ConstantId) -> Option<SharedState> {
        let list = *self.sources.get(brief.source as usize).filter(|&&list| list != NONE)?;
        let table = *self.tables.get(&key(list, brief.compared))?;
        let Some(&set) = self.by_constant.get(&key(table, constant)) else { return Some(SharedState::Nothing) };
        let mut columns = [NONE; BRIEF_COLUMNS];
        for (column, &path) in columns.iter_mut().zip(&brief.columns).take_while(|(_, path)| **path != NONE) {
            *column = (*self.columns.get(&key(list, path))?)?;
        }
        let position = (brief.skeleton, columns, set);
        Some(match self.brief_payloads.get(&position) {
            Some(&outcome) => SharedState::Payload(outcome),
            None => SharedState::Parts(position),
        })
    }
}

/// What is known of a payload.
pub(in crate::rewrite) enum SharedState {
    /// No binding passes.
    Nothing,
    Payload(SharedOutcome),
    /// All that it is made of.
    Parts(BriefKey),
}

impl Shared {
    /// The bindings of a family in a group that is ready; `None`: there is no room for another set.
    pub(in crate::rewrite) fn bindings_of(&mut self, ready: Ready, family: &Family) -> Option<NodeSetId> {
        let mut set = ready.other_conditions;
        for (path, constant) in family.group.compared.iter().zip(&family.constants) {
            let table = *self.tables.get(&key(ready.list, path.id))?;
            let nodes_found = self.by_constant.get(&key(table, constant.id)).copied().unwrap_or(EMPTY);
            set = if set == NONE { nodes_found } else { self.both(set, nodes_found)? };
        }
        Some(set)
    }
}

/// What two ascending lists have in common.
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
