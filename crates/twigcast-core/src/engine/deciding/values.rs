//! The values of an element and the keys that they satisfy.

use std::ops::Range;

use super::{Decisions, Run};
use crate::document::NodeId;
use crate::eval::EvalError;
use crate::predicate::key::{self, AtomId, KeyMask, PackedKey};
use crate::predicate::table::KeyTable;

const NOT_READ: u32 = u32::MAX;
/// A value at a known level is one of an ancestor: that of the element itself is at distance 0.
const NO_LEVEL: usize = 0;

impl Run<'_, '_> {
    /// Append the keys of a table that an element's own values satisfy.
    pub(super) fn own_keys(
        &self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &KeyTable,
        keys: &mut Vec<PackedKey>,
    ) {
        let prefixes = keyed.distances().prefixes(0, NO_LEVEL);
        if !prefixes.is_empty() {
            let atoms = self.attribute_atoms(decisions, node);
            append_keys(&prefixes, &decisions.attribute_atoms[atoms], keys);
        }
        let asks_values = keyed.distances().union(keyed.comparisons()).content();
        if asks_values && !self.may_read_values(decisions) {
            self.give_values_up(decisions, keyed);
        } else if asks_values {
            self.own_values(decisions, node, keyed, keys);
        }
        self.append_comparisons(decisions, node, &keyed.comparisons().prefixes(0, NO_LEVEL), keys);
    }

    /// Append the keys of a table that an element's text satisfies.
    fn own_values(&self, decisions: &mut Decisions, node: NodeId, keyed: &KeyTable, keys: &mut Vec<PackedKey>) {
        if keyed.distances().content() {
            self.read_content(decisions, node);
            keys.extend(decisions.content_atoms.iter().map(|&atom| key::pack_content(atom)));
        }
        if keyed.comparisons().content() {
            let Decisions { compared_atoms: found, values_read, .. } = decisions;
            found.clear();
            let asked = keyed.ordered_content();
            self.population.atoms.ordered_values_of(self.message, node, asked, found, values_read);
            keys.extend(found.iter().map(|&atom| key::pack_content(atom)));
        }
    }

    /// Has less been read for values of elements than may be? What nested elements hold is read for each of them.
    #[inline]
    pub(super) fn may_read_values(&self, decisions: &Decisions) -> bool {
        decisions.values_read <= self.values_max
    }

    /// No more values are read: what waits for some cannot be decided.
    #[cold]
    fn give_values_up(&self, decisions: &mut Decisions, keyed: &KeyTable) {
        if decisions.without_values.insert(std::ptr::from_ref(keyed) as usize) {
            keyed.asking_content().for_each(|query| self.fail_for_values(decisions, query));
        }
    }

    #[cold]
    pub(super) fn fail_for_values(&self, decisions: &mut Decisions, query: u32) {
        if !decisions.is_decided(query) {
            decisions.fail(query, EvalError::BudgetExceeded { visits_max: self.values_max });
        }
    }

    /// The further keys of a table that an element's own values satisfy.
    pub(super) fn own_mask(&self, decisions: &mut Decisions, node: NodeId, keyed: &KeyTable) -> KeyMask {
        let mut mask = KeyMask::default();
        let prefixes = keyed.also_distances().prefixes(0, NO_LEVEL);
        if !prefixes.is_empty() {
            let atoms = self.attribute_atoms(decisions, node);
            insert_keys(&prefixes, &decisions.attribute_atoms[atoms], &mut mask);
        }
        if keyed.also_distances().content() && !self.may_read_values(decisions) {
            // They fail when they are tested.
            mask.insert_everything();
        } else if keyed.also_distances().content() {
            self.read_content(decisions, node);
            decisions.content_atoms.iter().for_each(|&atom| mask.insert(key::pack_content(atom)));
        }
        mask
    }

    /// Append the keys that are comparisons and that an element's attributes satisfy.
    pub(super) fn append_comparisons(
        &self,
        decisions: &mut Decisions,
        element: NodeId,
        prefixes: &[PackedKey],
        keys: &mut Vec<PackedKey>,
    ) {
        if prefixes.is_empty() {
            return;
        }
        self.compare_attributes(decisions, element);
        append_keys(prefixes, &decisions.compared_atoms, keys);
    }

    /// Find the comparisons that an element's attributes satisfy.
    pub(super) fn compare_attributes(&self, decisions: &mut Decisions, element: NodeId) {
        decisions.compared_atoms.clear();
        for attribute in self.message.document.attributes_of(element) {
            self.population.atoms.comparisons_of(self.message, attribute, &mut decisions.compared_atoms);
        }
    }

    /// The atoms that an element's attributes satisfy, found once a message.
    #[inline]
    pub(super) fn attribute_atoms(&self, decisions: &mut Decisions, element: NodeId) -> Range<usize> {
        match decisions.atom_range.get(element as usize) {
            Some(&(start, end)) if start != NOT_READ => start as usize..end as usize,
            _ => self.read_attributes(decisions, element),
        }
    }

    /// Find the atoms that an element's text satisfies, unless it was the last one asked for.
    pub(super) fn read_content(&self, decisions: &mut Decisions, element: NodeId) {
        if decisions.content_of != element {
            decisions.content_of = element;
            decisions.content_atoms.clear();
            let Decisions { content_atoms, values_read, .. } = decisions;
            self.population.atoms.of_content(self.message, element, content_atoms, values_read);
        }
    }

    fn read_attributes(&self, decisions: &mut Decisions, element: NodeId) -> Range<usize> {
        let document = self.message.document;
        if decisions.atom_range.is_empty() {
            decisions.atom_range.resize(document.nodes.len(), (NOT_READ, 0));
        }
        let start = decisions.attribute_atoms.len();
        for attribute in document.attributes_of(element) {
            self.population.atoms.of_attribute(self.message, attribute, &mut decisions.attribute_atoms);
        }
        let end = decisions.attribute_atoms.len();
        decisions.atom_range[element as usize] = (start as u32, end as u32);
        start..end
    }
}

/// Append the keys of atoms with each prefix.
#[inline]
pub(super) fn append_keys(prefixes: &[PackedKey], atoms: &[AtomId], keys: &mut Vec<PackedKey>) {
    for prefix in prefixes {
        keys.extend(atoms.iter().map(|&atom| key::with_prefix(*prefix, atom)));
    }
}

/// Add the keys of atoms with each prefix to a mask.
#[inline]
pub(super) fn insert_keys(prefixes: &[PackedKey], atoms: &[AtomId], mask: &mut KeyMask) {
    for prefix in prefixes {
        atoms.iter().for_each(|&atom| mask.insert(key::with_prefix(*prefix, atom)));
    }
}
