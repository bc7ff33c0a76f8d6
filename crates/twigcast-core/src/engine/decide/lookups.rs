//! The results of lookups for several elements at once.

use std::ops::Range;

use crate::predicate::packed::PackedCondition;

/// The results of lookups for some elements, by the values of the elements themselves.
#[derive(Debug, Default)]
pub(in crate::engine) struct ValueLookups {
    pub(super) conditions: Vec<PackedCondition>,
    pub(super) positions: Vec<u32>,
    pub(super) elements: Vec<ElementLookup>,
}

/// The results of the lookups for one element.
#[derive(Debug)]
pub(super) struct ElementLookup {
    /// Range in [`ValueLookups::conditions`].
    pub(super) conditions: Range<usize>,
    /// The end of its range in [`ValueLookups::positions`], which begins where that of the conditions does.
    pub(super) positions_end: usize,
    /// The hash of the list of the element's shape; then its likely position, and where it begins.
    pub(super) hash: Option<u32>,
    pub(super) candidate: Option<u32>,
    pub(super) shape_list: Option<u32>,
}

/// The results for one element, by its own values.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct LookupRequest<'a> {
    /// Conditions that it has and that something may wait for.
    pub(super) conditions: &'a [PackedCondition],
    /// The positions of the waiters for them.
    pub(super) positions: &'a [u32],
    /// In place of these: where the list of waiters at elements of this shape begins (see
    /// [`crate::predicate::shape_lists`]).
    pub(super) shape_list: Option<u32>,
}

impl LookupRequest<'_> {
    /// Returns whether nothing waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty() && self.shape_list.is_none()
    }
}

impl ValueLookups {
    /// Returns the waiters at one of the elements.
    #[inline]
    pub(in crate::engine) fn request(&self, index: usize) -> LookupRequest<'_> {
        let ElementLookup { conditions, positions_end, shape_list, .. } = &self.elements[index];
        LookupRequest {
            conditions: &self.conditions[conditions.clone()],
            positions: &self.positions[conditions.start..*positions_end],
            shape_list: *shape_list,
        }
    }
}
