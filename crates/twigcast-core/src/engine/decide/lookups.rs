//! Looking up what waits for the values of elements, for several elements at once.

use std::ops::Range;

use super::{Decisions, MessageRun};
use crate::document::NodeId;
use crate::predicate::packed::PackedCondition;
use crate::predicate::shape_lists::ShapeLookup;
use crate::predicate::trigger_table::TriggerTable;

/// What waits at some elements for the values that they have themselves.
#[derive(Debug, Default)]
pub(in crate::engine) struct ValueLookups {
    keys: Vec<PackedCondition>,
    positions: Vec<u32>,
    elements: Vec<ElementLookup>,
}

#[derive(Debug)]
struct ElementLookup {
    /// Range in `keys`.
    keys: Range<usize>,
    /// Where the range in `places` ends, which begins where that of the keys does.
    positions_end: usize,
    /// What is left at elements of its shape: the hash by which that is found, where it may stand, and where it begins.
    hash: Option<u32>,
    candidate: Option<u32>,
    shape_list: Option<u32>,
}

/// What waits at one element for the values that it has itself.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct LookupRequest<'a> {
    /// Keys that it has and that something may wait for.
    pub(super) keys: &'a [PackedCondition],
    /// The places of what waits for them.
    pub(super) positions: &'a [u32],
    /// In place of these: where the list begins of what waits at elements of this shape (see
    /// [`crate::predicate::shape_lists`]).
    pub(super) shape_list: Option<u32>,
}

impl LookupRequest<'_> {
    /// Does nothing wait?
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty() && self.shape_list.is_none()
    }
}

impl ValueLookups {
    /// What waits at one of the elements.
    #[inline]
    pub(in crate::engine) fn request(&self, index: usize) -> LookupRequest<'_> {
        let ElementLookup { keys, positions_end, shape_list, .. } = &self.elements[index];
        LookupRequest {
            keys: &self.keys[keys.clone()],
            positions: &self.positions[keys.start..*positions_end],
            shape_list: *shape_list,
        }
    }
}

impl MessageRun<'_, '_> {
    /// Find what waits at elements for the values that they have themselves. That is done for several elements at once,
    /// one kind of look-up after the other: of tables that are not in the processor's cache, the parts that are needed
    /// come in at the same time.
    pub(in crate::engine) fn look_up<'k>(
        &self,
        decisions: &mut Decisions,
        tables: impl Iterator<Item = (NodeId, &'k TriggerTable)> + Clone,
        lookups: &mut ValueLookups,
    ) {
        let ValueLookups { keys, positions, elements } = lookups;
        keys.clear();
        elements.clear();
        std::hint::black_box(tables.clone().fold(0, |seen, (_, keyed)| seen ^ keyed.prefetch_table()));
        for (node, keyed) in tables.clone() {
            let start = keys.len();
            self.own_keys(decisions, node, keyed, keys);
            let keys = start..keys.len();
            elements.push(ElementLookup { keys, positions_end: start, hash: None, candidate: None, shape_list: None });
        }
        positions.resize(positions.len().max(keys.len()), 0);
        let seen = elements.iter().zip(tables.clone());
        let seen =
            seen.fold(0, |seen, (element, (_, keyed))| seen ^ keyed.prefetch_filter(&keys[element.keys.clone()]));
        std::hint::black_box(seen);
        for (element, (node, keyed)) in elements.iter_mut().zip(tables.clone()) {
            let start = element.keys.start;
            element.keys.end = start + keyed.sieve(&mut keys[element.keys.clone()]);
            element.positions_end = start;
            element.hash =
                self.shape_lookup(node, keyed, &keys[element.keys.clone()]).map(|sought| self.narrowed.hash(sought));
        }
        self.narrowed.prefetch_hashes(elements.iter().filter_map(|element| element.hash));
        for element in elements.iter_mut() {
            element.candidate = element.hash.and_then(|hash| self.narrowed.candidate(hash));
        }
        self.narrowed.prefetch_candidates(elements.iter().filter_map(|element| element.candidate));
        for (element, (node, keyed)) in elements.iter_mut().zip(tables.clone()) {
            if let (Some(hash), Some(candidate)) = (element.hash, element.candidate) {
                let sought = self.shape_lookup(node, keyed, &keys[element.keys.clone()]);
                element.shape_list = sought.and_then(|sought| self.narrowed.find(sought, hash, candidate));
            }
        }
        for (element, (_, keyed)) in elements.iter_mut().zip(tables.clone()) {
            if element.shape_list.is_none() {
                let Range { start, end } = element.keys;
                element.positions_end = start + keyed.locate(&keys[start..end], &mut positions[start..end]);
            }
        }
        for (element, (_, keyed)) in elements.iter().zip(tables) {
            keyed.prefetch_lists(&positions[element.keys.start..element.positions_end]);
        }
    }

    /// By what it is found what is left at elements of a shape, where that may be known.
    #[inline]
    fn shape_lookup<'k>(
        &self,
        node: NodeId,
        keyed: &'k TriggerTable,
        keys: &'k [PackedCondition],
    ) -> Option<ShapeLookup<'k>> {
        if keys.is_empty() || !keyed.asks_branches() {
            return None;
        }
        Some((keyed, keys, self.decided_shape(node)?))
    }
}
