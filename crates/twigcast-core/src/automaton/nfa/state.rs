//! One state of the NFA.

use super::items::ItemList;
use crate::ids::{EdgeLabelId, StateId};

/// A state of the NFA, in 16 bytes.
///
/// It stores the one edge that leads to it. Edges that leave it are in the table of all edges; flags say which kinds of them
/// exist.
#[derive(Clone, Debug)]
pub(super) struct NfaState {
    pub(super) items: ItemList,
    /// The state that the edge into this state leaves.
    pub(super) parent: StateId,
    /// The label of the edge into this state: [`NO_EDGE`], [`EPSILON`], [`STAR`] or a name test.
    pub(super) incoming: EdgeLabelId,
    /// Flags, and above them the number of uses: items, attachments and child states. A state without uses is removed,
    /// unless it ever had more than can be counted.
    pub(super) flags_and_uses: u32,
}

/// The label of no edge: of the initial state and of free states.
pub(super) const NO_EDGE: EdgeLabelId = EdgeLabelId::from_u32(0);
/// The label of edges that consume no element.
pub(super) const EPSILON: EdgeLabelId = EdgeLabelId::from_u32(1);
/// The label of edges that take every name.
pub(super) const STAR: EdgeLabelId = EdgeLabelId::from_u32(2);

/// The state has a self-loop (`//`): it stays active below whatever activated it.
pub(super) const IS_DESCENDANT: u32 = 1;
/// Edges with expanded names leave the state.
pub(super) const HAS_NAMES: u32 = 2;
/// Edges with a namespace only leave the state.
pub(super) const HAS_NAMESPACES: u32 = 4;
/// Edges with a local name only leave the state.
pub(super) const HAS_LOCALS: u32 = 8;
/// The engine keeps something of its own for the state.
pub(super) const HAS_ATTACHMENT: u32 = 16;
/// Edges with a name test leave the state.
pub(super) const HAS_LABELLED: u32 = HAS_NAMES | HAS_NAMESPACES | HAS_LOCALS;
/// A `*` edge leaves the state.
pub(super) const HAS_STAR: u32 = 32;
/// An epsilon edge leaves the state. All `//` steps after it share the state with a self-loop to which it leads.
pub(super) const HAS_DESCENDANT: u32 = 64;
const ONE_USE: u32 = 128;
const FLAGS: u32 = ONE_USE - 1;
const USES_MAX: u32 = !FLAGS;

impl NfaState {
    /// Creates a state without items and uses.
    pub(super) fn new(parent: StateId, incoming: EdgeLabelId, flags: u32) -> Self {
        Self { items: ItemList::EMPTY, parent, incoming, flags_and_uses: flags }
    }

    #[inline]
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags_and_uses & flag != 0
    }

    #[inline]
    pub(super) fn begin_use(&mut self) {
        if self.flags_and_uses < USES_MAX {
            self.flags_and_uses += ONE_USE;
        }
    }

    /// Ends a use. Returns `true` if it was the last.
    pub(super) fn end_use(&mut self) -> bool {
        if self.flags_and_uses < USES_MAX {
            self.flags_and_uses -= ONE_USE;
        }
        self.flags_and_uses < ONE_USE
    }
}
