//! The values of elements: the conditions that they satisfy, and the waiters for these conditions.

use std::ops::Range;

use super::lookups::{ElementLookup, ValueLookups};
use super::state::{Decisions, MessageRun};
use crate::document::NodeId;
use crate::eval::EvalError;
use crate::ids::AtomId;
use crate::predicate::packed::{self, PackedCondition};
use crate::predicate::shape_lists::ShapeLookup;
use crate::predicate::trigger_table::TriggerTable;

/// A value at a known level is one of an ancestor: that of the element itself is at distance 0.
const NO_LEVEL: usize = 0;

impl MessageRun<'_, '_> {
    /// Appends the conditions of a table that an element's own values satisfy.
    pub(super) fn append_own_conditions(
        &self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &TriggerTable,
        conditions: &mut Vec<PackedCondition>,
    ) {
        let prefixes = keyed.distances().prefixes(0, NO_LEVEL);
        if !prefixes.is_empty() {
            let atoms = self.attribute_atoms(decisions, node);
            append_conditions(&prefixes, decisions.attribute_atoms.of(atoms), conditions);
        }
        let asks_values = keyed.distances().union(keyed.comparisons()).content();
        if asks_values && !self.may_read_values(decisions) {
            self.drop_values(decisions, keyed);
        } else if asks_values {
            self.own_values(decisions, node, keyed, conditions);
        }
        self.append_comparisons(decisions, node, &keyed.comparisons().prefixes(0, NO_LEVEL), conditions);
    }

    /// Appends the conditions of a table that an element's text satisfies.
    fn own_values(
        &self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &TriggerTable,
        conditions: &mut Vec<PackedCondition>,
    ) {
        if keyed.distances().content() {
            let atoms = self.content_atoms(decisions, node);
            conditions.extend(decisions.content_atoms.of(atoms).iter().map(|&atom| packed::pack_content(atom)));
        }
        if keyed.comparisons().content() {
            let Decisions { compared_atoms, values_read, .. } = decisions;
            compared_atoms.clear();
            let asked = keyed.ordered_content();
            self.query_index.atoms.ordered_values_of(self.message, node, asked, compared_atoms, values_read);
            conditions.extend(compared_atoms.iter().map(|&atom| packed::pack_content(atom)));
        }
    }

    /// Returns whether less has been read for values of elements than may be. What nested elements hold is read for each
    /// of them.
    #[inline]
    pub(super) fn may_read_values(&self, decisions: &Decisions) -> bool {
        decisions.values_read <= self.values_max
    }

    /// Fails what waits for values, since no more are read.
    #[cold]
    fn drop_values(&self, decisions: &mut Decisions, keyed: &TriggerTable) {
        if decisions.without_values.insert(std::ptr::from_ref(keyed) as usize) {
            keyed.asking_content().for_each(|query| self.fail_for_values(decisions, query));
        }
    }

    /// Fails a query for which too many values of elements would have to be read.
    #[cold]
    pub(super) fn fail_for_values(&self, decisions: &mut Decisions, query: u32) {
        if !decisions.is_decided(query) {
            decisions.fail(query, EvalError::BudgetExceeded { visits_max: self.values_max });
        }
    }

    /// Fills in [`Decisions::levels`] for an element and the further conditions of a table. Returns `false` if those about the
    /// element's text are missing.
    pub(super) fn fill_levels(&self, decisions: &mut Decisions, node: NodeId, keyed: &TriggerTable) -> bool {
        self.move_to(decisions, node);
        let Decisions { ancestors, levels, attribute_atoms, content_atoms, .. } = decisions;
        let (elements, bound) = (ancestors.elements(), self.query_index.atoms.bound());
        let entered = levels.enter(elements, bound, &attribute_atoms.atoms, &content_atoms.atoms);
        for level in entered..elements.len() {
            let Some(&element) = decisions.ancestors.elements().get(level) else { break };
            let range = self.attribute_atoms(decisions, element);
            decisions.levels.push(element, range, &decisions.attribute_atoms.atoms);
        }
        if !keyed.also_distances().content() {
            return true;
        }
        if !self.may_read_values(decisions) {
            return false;
        }
        let range = self.content_atoms(decisions, node);
        decisions.levels.push_content(range, &decisions.content_atoms.atoms);
        true
    }

    /// Appends the conditions that are comparisons and that an element's attributes satisfy.
    pub(super) fn append_comparisons(
        &self,
        decisions: &mut Decisions,
        element: NodeId,
        prefixes: &[PackedCondition],
        conditions: &mut Vec<PackedCondition>,
    ) {
        if prefixes.is_empty() {
            return;
        }
        self.compare_attributes(decisions, element);
        append_conditions(prefixes, &decisions.compared_atoms, conditions);
    }

    /// Finds the comparisons that an element's attributes satisfy.
    pub(super) fn compare_attributes(&self, decisions: &mut Decisions, element: NodeId) {
        decisions.compared_atoms.clear();
        for attribute in self.message.document.attributes_of(element) {
            self.query_index.atoms.comparisons_of(self.message, attribute, &mut decisions.compared_atoms);
        }
    }

    /// Returns the range of the atoms that an element's attributes satisfy.
    #[inline]
    pub(super) fn attribute_atoms(&self, decisions: &mut Decisions, element: NodeId) -> (u32, u32) {
        decisions.attribute_atoms.atom_range(element).unwrap_or_else(|| self.read_attributes(decisions, element))
    }

    /// Returns the range of the atoms that an element's text satisfies.
    #[inline]
    pub(super) fn content_atoms(&self, decisions: &mut Decisions, element: NodeId) -> (u32, u32) {
        decisions.content_atoms.atom_range(element).unwrap_or_else(|| self.read_content(decisions, element))
    }

    fn read_content(&self, decisions: &mut Decisions, element: NodeId) -> (u32, u32) {
        let Decisions { content_atoms, values_read, .. } = decisions;
        let start = content_atoms.atoms.len();
        self.query_index.atoms.of_content(self.message, element, &mut content_atoms.atoms, values_read);
        content_atoms.keep(self.message.document.nodes.len(), element, start)
    }

    fn read_attributes(&self, decisions: &mut Decisions, element: NodeId) -> (u32, u32) {
        let document = self.message.document;
        let atoms = &mut decisions.attribute_atoms;
        let start = atoms.atoms.len();
        for attribute in document.attributes_of(element) {
            self.query_index.atoms.of_attribute(self.message, attribute, &mut atoms.atoms);
        }
        atoms.keep(document.nodes.len(), element, start)
    }

    /// Looks up what waits at elements for the values that they have themselves. That is done for several elements at once,
    /// one kind of look-up after the other: of tables that are not in the processor's cache, the parts that are needed
    /// come in at the same time.
    pub(in crate::engine) fn look_up<'k>(
        &self,
        decisions: &mut Decisions,
        tables: impl Iterator<Item = (NodeId, &'k TriggerTable)> + Clone,
        lookups: &mut ValueLookups,
    ) {
        let ValueLookups { conditions, positions, elements } = lookups;
        conditions.clear();
        elements.clear();
        std::hint::black_box(tables.clone().fold(0, |seen, (_, keyed)| seen ^ keyed.prefetch_table()));
        for (node, keyed) in tables.clone() {
            let start = conditions.len();
            self.append_own_conditions(decisions, node, keyed, conditions);
            let conditions = start..conditions.len();
            elements.push(ElementLookup {
                conditions,
                positions_end: start,
                hash: None,
                candidate: None,
                shape_list: None,
            });
        }
        positions.resize(positions.len().max(conditions.len()), 0);
        let seen = elements.iter().zip(tables.clone());
        let seen = seen.fold(0, |seen, (element, (_, keyed))| {
            seen ^ keyed.prefetch_filter(&conditions[element.conditions.clone()])
        });
        std::hint::black_box(seen);
        for (element, (node, keyed)) in elements.iter_mut().zip(tables.clone()) {
            let start = element.conditions.start;
            element.conditions.end = start + keyed.sieve(&mut conditions[element.conditions.clone()]);
            element.positions_end = start;
            element.hash = self
                .shape_lookup(node, keyed, &conditions[element.conditions.clone()])
                .map(|sought| self.narrowed.hash(sought));
        }
        self.narrowed.prefetch_hashes(elements.iter().filter_map(|element| element.hash));
        for element in elements.iter_mut() {
            element.candidate = element.hash.and_then(|hash| self.narrowed.candidate(hash));
        }
        self.narrowed.prefetch_candidates(elements.iter().filter_map(|element| element.candidate));
        for (element, (node, keyed)) in elements.iter_mut().zip(tables.clone()) {
            if let (Some(hash), Some(candidate)) = (element.hash, element.candidate) {
                let sought = self.shape_lookup(node, keyed, &conditions[element.conditions.clone()]);
                element.shape_list = sought.and_then(|sought| self.narrowed.find(sought, hash, candidate));
            }
        }
        for (element, (_, keyed)) in elements.iter_mut().zip(tables.clone()) {
            if element.shape_list.is_none() {
                let Range { start, end } = element.conditions;
                element.positions_end = start + keyed.locate(&conditions[start..end], &mut positions[start..end]);
            }
        }
        for (element, (_, keyed)) in elements.iter().zip(tables) {
            keyed.prefetch_lists(&positions[element.conditions.start..element.positions_end]);
        }
    }

    /// Returns the key of the list of waiters that remain at an element of this shape; `None` if its shape is undecided.
    #[inline]
    fn shape_lookup<'k>(
        &self,
        node: NodeId,
        keyed: &'k TriggerTable,
        conditions: &'k [PackedCondition],
    ) -> Option<ShapeLookup<'k>> {
        if conditions.is_empty() || !keyed.asks_branches() {
            return None;
        }
        Some((keyed, conditions, self.decided_shape(node)?))
    }
}

/// Appends the conditions of atoms with each prefix.
#[inline]
pub(super) fn append_conditions(prefixes: &[PackedCondition], atoms: &[AtomId], conditions: &mut Vec<PackedCondition>) {
    for prefix in prefixes {
        conditions.extend(atoms.iter().map(|&atom| packed::with_prefix(*prefix, atom)));
    }
}
