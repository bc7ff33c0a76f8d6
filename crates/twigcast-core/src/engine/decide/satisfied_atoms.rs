//! The atoms that the elements of a message satisfy.

use crate::document::NodeId;
use crate::ids::AtomId;

const NOT_READ: u32 = u32::MAX;
/// The atoms that elements satisfy, found once a message.
#[derive(Debug, Default)]
pub(super) struct SatisfiedAtoms {
    pub(super) atoms: Vec<AtomId>,
    /// Range in `atoms` by node; its beginning is [`NOT_READ`] where nobody asked yet.
    ranges: Vec<(u32, u32)>,
}

impl SatisfiedAtoms {
    pub(super) fn clear(&mut self) {
        self.atoms.clear();
        self.ranges.clear();
    }

    /// Returns the range of the atoms of an element; `None` if they were not read yet.
    #[inline]
    pub(super) fn atom_range(&self, element: NodeId) -> Option<(u32, u32)> {
        self.ranges.get(element as usize).copied().filter(|range| range.0 != NOT_READ)
    }

    /// Keeps the atoms from an index on as those of one of so many nodes. Returns their range.
    pub(super) fn keep(&mut self, nodes: usize, element: NodeId, start: usize) -> (u32, u32) {
        if self.ranges.is_empty() {
            self.ranges.resize(nodes, (NOT_READ, 0));
        }
        let range = (start as u32, self.atoms.len() as u32);
        self.ranges[element as usize] = range;
        range
    }

    /// Returns the atoms of a range.
    #[inline]
    pub(super) fn of(&self, (start, end): (u32, u32)) -> &[AtomId] {
        &self.atoms[start as usize..end as usize]
    }
}
