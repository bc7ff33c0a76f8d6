//! The current element and its ancestors.
//!
//! Elements are decided in document order, so from one to the next most ancestors stay.

use crate::document::{NO_NODE, Node, NodeId};

/// A level: that of the root element is 1. 0 is none.
pub(super) type Level = u32;

/// The current element and its ancestors.
#[derive(Debug, Default)]
pub(super) struct AncestorStack {
    /// From the root element down.
    elements: Vec<NodeId>,
    /// Looks at ancestors so far, of this message and all before.
    pub(super) ancestor_checks: u64,
}

impl AncestorStack {
    pub(super) fn clear(&mut self) {
        self.elements.clear();
    }

    /// Makes an element the current one.
    pub(super) fn move_to(&mut self, nodes: &[Node], node: NodeId) {
        if self.elements.last() == Some(&node) {
            return;
        }
        let before = self.elements.len();
        while self.elements.pop_if(|top| *top > node || nodes[*top as usize].end <= node).is_some() {}
        let kept = self.elements.len();
        let lowest = self.elements.last().copied().unwrap_or(0);
        let mut element = node;
        while element != lowest && element != 0 && element != NO_NODE {
            self.elements.push(element);
            element = nodes[element as usize].parent;
        }
        self.elements[kept..].reverse();
        self.ancestor_checks += (before - kept + self.elements.len() - kept) as u64;
    }

    /// Returns the level of the current element.
    #[inline]
    pub(super) fn level(&self) -> Level {
        self.elements.len() as Level
    }

    /// Returns the current element and its ancestors, from the root element down.
    #[inline]
    pub(super) fn elements(&self) -> &[NodeId] {
        &self.elements
    }

    /// Returns the element of a level.
    #[inline]
    pub(super) fn at(&self, level: Level) -> Option<NodeId> {
        self.elements.get((level as usize).checked_sub(1)?).copied()
    }

    /// Returns the element so many levels above the current one.
    #[inline]
    pub(super) fn above(&self, up: usize) -> Option<NodeId> {
        self.elements.get(self.elements.len().checked_sub(1 + up)?).copied()
    }
}

/// The waiters of one table that conditions on ancestors let through, for all elements of one parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct AncestorConditions {
    /// Range in [`super::state::Decisions::above`].
    pub(super) start: u32,
    pub(super) end: u32,
}
