//! The values of an element and the keys that they satisfy.

use super::{Decisions, MessageRun};
use crate::document::NodeId;
use crate::eval::EvalError;
use crate::predicate::packed::{self, AtomId, PackedCondition};
use crate::predicate::trigger_table::TriggerTable;

const NOT_READ: u32 = u32::MAX;
/// A value at a known level is one of an ancestor: that of the element itself is at distance 0.
const NO_LEVEL: usize = 0;

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

    #[inline]
    fn atom_range(&self, element: NodeId) -> Option<(u32, u32)> {
        self.ranges.get(element as usize).copied().filter(|range| range.0 != NOT_READ)
    }

    /// Keep the atoms from a place on as those of one of so many nodes.
    fn keep(&mut self, nodes: usize, element: NodeId, start: usize) -> (u32, u32) {
        if self.ranges.is_empty() {
            self.ranges.resize(nodes, (NOT_READ, 0));
        }
        let range = (start as u32, self.atoms.len() as u32);
        self.ranges[element as usize] = range;
        range
    }

    /// The atoms of a range.
    #[inline]
    pub(super) fn of(&self, (start, end): (u32, u32)) -> &[AtomId] {
        &self.atoms[start as usize..end as usize]
    }
}

impl MessageRun<'_, '_> {
    /// Append the keys of a table that an element's own values satisfy.
    pub(super) fn own_keys(
        &self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &TriggerTable,
        keys: &mut Vec<PackedCondition>,
    ) {
        let prefixes = keyed.distances().prefixes(0, NO_LEVEL);
        if !prefixes.is_empty() {
            let atoms = self.attribute_atoms(decisions, node);
            append_keys(&prefixes, decisions.attribute_atoms.of(atoms), keys);
        }
        let asks_values = keyed.distances().union(keyed.comparisons()).content();
        if asks_values && !self.may_read_values(decisions) {
            self.drop_values(decisions, keyed);
        } else if asks_values {
            self.own_values(decisions, node, keyed, keys);
        }
        self.append_comparisons(decisions, node, &keyed.comparisons().prefixes(0, NO_LEVEL), keys);
    }

    /// Append the keys of a table that an element's text satisfies.
    fn own_values(
        &self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &TriggerTable,
        keys: &mut Vec<PackedCondition>,
    ) {
        if keyed.distances().content() {
            let atoms = self.content_atoms(decisions, node);
            keys.extend(decisions.content_atoms.of(atoms).iter().map(|&atom| packed::pack_content(atom)));
        }
        if keyed.comparisons().content() {
            let Decisions { compared_atoms, values_read, .. } = decisions;
            compared_atoms.clear();
            let asked = keyed.ordered_content();
            self.population.atoms.ordered_values_of(self.message, node, asked, compared_atoms, values_read);
            keys.extend(compared_atoms.iter().map(|&atom| packed::pack_content(atom)));
        }
    }

    /// Has less been read for values of elements than may be? What nested elements hold is read for each of them.
    #[inline]
    pub(super) fn may_read_values(&self, decisions: &Decisions) -> bool {
        decisions.values_read <= self.values_max
    }

    /// No more values are read: what waits for some cannot be decided.
    #[cold]
    fn drop_values(&self, decisions: &mut Decisions, keyed: &TriggerTable) {
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

    /// Let [`Decisions::levels`] tell which further keys of a table hold for the element in hand; false if it cannot tell
    /// those about the element's text.
    pub(super) fn fill_levels(&self, decisions: &mut Decisions, node: NodeId, keyed: &TriggerTable) -> bool {
        self.move_to(decisions, node);
        let Decisions { ancestors, levels, attribute_atoms, content_atoms, .. } = decisions;
        let (elements, bound) = (ancestors.elements(), self.population.atoms.bound());
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

    /// Append the keys that are comparisons and that an element's attributes satisfy.
    pub(super) fn append_comparisons(
        &self,
        decisions: &mut Decisions,
        element: NodeId,
        prefixes: &[PackedCondition],
        keys: &mut Vec<PackedCondition>,
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

    /// The range of the atoms that an element's attributes satisfy.
    #[inline]
    pub(super) fn attribute_atoms(&self, decisions: &mut Decisions, element: NodeId) -> (u32, u32) {
        decisions.attribute_atoms.atom_range(element).unwrap_or_else(|| self.read_attributes(decisions, element))
    }

    /// The range of the atoms that an element's text satisfies.
    #[inline]
    pub(super) fn content_atoms(&self, decisions: &mut Decisions, element: NodeId) -> (u32, u32) {
        decisions.content_atoms.atom_range(element).unwrap_or_else(|| self.read_content(decisions, element))
    }

    fn read_content(&self, decisions: &mut Decisions, element: NodeId) -> (u32, u32) {
        let Decisions { content_atoms, values_read, .. } = decisions;
        let start = content_atoms.atoms.len();
        self.population.atoms.of_content(self.message, element, &mut content_atoms.atoms, values_read);
        content_atoms.keep(self.message.document.nodes.len(), element, start)
    }

    fn read_attributes(&self, decisions: &mut Decisions, element: NodeId) -> (u32, u32) {
        let document = self.message.document;
        let atoms = &mut decisions.attribute_atoms;
        let start = atoms.atoms.len();
        for attribute in document.attributes_of(element) {
            self.population.atoms.of_attribute(self.message, attribute, &mut atoms.atoms);
        }
        atoms.keep(document.nodes.len(), element, start)
    }
}

/// Append the keys of atoms with each prefix.
#[inline]
pub(super) fn append_keys(prefixes: &[PackedCondition], atoms: &[AtomId], keys: &mut Vec<PackedCondition>) {
    for prefix in prefixes {
        keys.extend(atoms.iter().map(|&atom| packed::with_prefix(*prefix, atom)));
    }
}
