//! One state of the automaton.

use super::{NO_ITEM, StateId};

#[derive(Clone, Debug)]
pub(super) struct NfaState {
    /// [`NO_ITEM`], an only acceptance marked `SOLE`, or the head of the state's item list.
    pub(super) items: u32,
    /// The state that the one edge into this state leaves.
    pub(super) parent: StateId,
    /// How the one edge into this state is labelled: [`NO_EDGE`], [`EPSILON`], [`STAR`] or the number of a label.
    pub(super) incoming: EdgeLabelId,
    /// Flags, and above them uses: items here, attachments, and states right below. A state without any use is taken
    /// out, unless it ever had more than can be counted.
    pub(super) flags_and_uses: u32,
}

/// Number of an edge's label.
pub(super) type EdgeLabelId = u32;
/// No edge: the initial state, and states that are free.
pub(super) const NO_EDGE: EdgeLabelId = 0;
/// The edge that takes no name.
pub(super) const EPSILON: EdgeLabelId = 1;
/// The edge that takes every name.
pub(super) const STAR: EdgeLabelId = 2;

/// The state is a descendant-child: it stays active below whatever activated it.
pub(super) const IS_DESCENDANT: u32 = 1;
pub(super) const HAS_NAMES: u32 = 2;
pub(super) const HAS_NAMESPACES: u32 = 4;
pub(super) const HAS_LOCALS: u32 = 8;
pub(super) const HAS_ATTACHMENT: u32 = 16;
/// Any edge with a label.
pub(super) const HAS_LABELLED: u32 = HAS_NAMES | HAS_NAMESPACES | HAS_LOCALS;
/// A `*` edge leaves the state.
pub(super) const HAS_STAR: u32 = 32;
/// The epsilon edge leaves it, to the descendant-child state shared by all `//` steps that leave this state.
pub(super) const HAS_DESCENDANT: u32 = 64;
const ONE_USE: u32 = 128;
const FLAGS: u32 = ONE_USE - 1;
const USES_MAX: u32 = !FLAGS;

impl NfaState {
    pub(super) fn new(parent: StateId, incoming: EdgeLabelId, flags: u32) -> Self {
        Self { items: NO_ITEM, parent, incoming, flags_and_uses: flags }
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

    /// Whether that was the last one.
    pub(super) fn end_use(&mut self) -> bool {
        if self.flags_and_uses < USES_MAX {
            self.flags_and_uses -= ONE_USE;
        }
        self.flags_and_uses < ONE_USE
    }
}
