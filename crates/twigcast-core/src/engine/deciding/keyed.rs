//! Keys: what the values of an element and its ancestors let through at a state of the automaton.

use std::ops::Range;

use super::{Decisions, Run};
use crate::automaton::nfa::StateId;
use crate::document::{NO_NODE, NodeId};
use crate::engine::population::Paths;
use crate::eval::EvalError;
use crate::plan::Distance;
use crate::predicate::key::{self, AtomId, KeyMask, PackedKey};
use crate::predicate::table::KeyTable;
use crate::predicate::waiting::{List, Others, Waiting};
use crate::twig::branches::BranchId;
use crate::twig::shapes::NO_SHAPE;

/// What ancestors say to a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Above {
    /// Range in [`Decisions::above`].
    start: u32,
    end: u32,
    /// The keys that they satisfy.
    mask: KeyMask,
}

pub(super) const NOT_READ: u32 = u32::MAX;
/// A value at a known level is one of an ancestor: that of the element itself is at distance 0.
const NO_LEVEL: usize = 0;

/// What waits at some elements for the values that they have themselves.
#[derive(Debug, Default)]
pub(in crate::engine) struct Ahead {
    places: Vec<u32>,
    /// Range in `places` by element.
    ranges: Vec<Range<usize>>,
}

impl Ahead {
    /// What waits at one of the elements.
    pub(in crate::engine) fn places(&self, index: usize) -> &[u32] {
        &self.places[self.ranges[index].clone()]
    }
}

impl Decisions {
    /// Accept the queries of a list of which nothing else is asked.
    fn accept(&mut self, list: List<'_>) {
        for query in list.satisfied() {
            if !self.refuted.contains(query) {
                self.matched.insert(query);
            }
        }
    }
}

impl Run<'_, '_> {
    /// Find what waits at elements for the values that they have themselves. That is done for several elements at once,
    /// one kind of look-up after the other: of tables that are not in the processor's cache, the parts that are needed
    /// come in at the same time.
    pub(in crate::engine) fn look_ahead<'k>(
        &self,
        decisions: &mut Decisions,
        elements: impl Iterator<Item = (NodeId, &'k KeyTable)> + Clone,
        ahead: &mut Ahead,
    ) {
        let Ahead { places, ranges } = ahead;
        places.clear();
        ranges.clear();
        for (node, keyed) in elements.clone() {
            let start = places.len();
            self.own_keys(decisions, node, keyed, places);
            ranges.push(start..places.len());
        }
        let tables = elements.map(|(_, keyed)| keyed);
        for (range, keyed) in ranges.iter_mut().zip(tables.clone()) {
            range.end = range.start + keyed.sieve(&mut places[range.clone()]);
        }
        for (range, keyed) in ranges.iter_mut().zip(tables.clone()) {
            range.end = range.start + keyed.locate(&mut places[range.clone()]);
        }
        for (range, keyed) in ranges.iter().zip(tables) {
            keyed.look_at(&places[range.clone()]);
        }
    }

    /// Test the triggers whose key some value of the element, or of an ancestor at the right distance, satisfies. `ahead`:
    /// what [`Self::look_ahead`] found for the element.
    pub(super) fn decide_keyed(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &KeyTable,
        ahead: Option<&[u32]>,
    ) {
        let mut asked = std::mem::take(&mut decisions.asked);
        let places = match ahead {
            Some(places) => places,
            None => {
                asked.clear();
                self.own_keys(decisions, node, keyed, &mut asked);
                keyed.select(&mut asked);
                &asked
            }
        };
        let looks_up = !keyed.distances().union(keyed.comparisons()).is_own();
        if looks_up || !places.is_empty() {
            let mask = self.own_mask(decisions, node, keyed);
            if keyed.all_distances().is_own() {
                self.ask(decisions, node, keyed, places, &mask);
            } else {
                self.chain(decisions, node);
                self.decide_with_ancestors(decisions, node, keyed, places, mask);
            }
        }
        decisions.asked = asked;
    }

    /// [`Self::decide_keyed`] where some keys are about ancestors. `mask`: the further keys that the element satisfies.
    fn decide_with_ancestors(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &KeyTable,
        places: &[u32],
        mut mask: KeyMask,
    ) {
        let site = (std::ptr::from_ref(keyed) as usize, self.message.document.nodes[node as usize].parent);
        if let Some(&known) = decisions.above_range.get(&site) {
            mask.insert_all(&known.mask);
            self.ask(decisions, node, keyed, places, &mask);
            for index in known.start..known.end {
                let entry = decisions.above[index as usize];
                if may_pass(&entry, &mask) {
                    self.test_waiting(decisions, node, entry);
                }
            }
            return;
        }
        let above_mask = self.mask_above(decisions, keyed);
        mask.insert_all(&above_mask);
        self.ask(decisions, node, keyed, places, &mask);
        let start = decisions.above.len() as u32;
        if !keyed.distances().union(keyed.comparisons()).is_own() {
            self.ask_above(decisions, node, keyed, &mask, &above_mask);
        }
        let end = decisions.above.len() as u32;
        decisions.above_range.insert(site, Above { start, end, mask: above_mask });
    }

    /// The further keys of a table that the ancestors of the element in hand satisfy.
    fn mask_above(&self, decisions: &mut Decisions, keyed: &KeyTable) -> KeyMask {
        let mut mask = KeyMask::default();
        let depth = decisions.chain.len();
        for up in 1..depth {
            let prefixes = keyed.also_distances().prefixes(up, depth - up);
            if !prefixes.is_empty() {
                let atoms = self.attribute_atoms(decisions, decisions.chain[up]);
                insert_keys(&prefixes, &decisions.attribute_atoms[atoms], &mut mask);
            }
        }
        mask
    }

    /// Let through what waits for keys that ancestors satisfy, and note what may hold at a sibling.
    fn ask_above(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &KeyTable,
        mask: &KeyMask,
        above_mask: &KeyMask,
    ) {
        let mut asked_above = std::mem::take(&mut decisions.asked_above);
        asked_above.clear();
        let depth = decisions.chain.len();
        for up in 1..depth {
            let element = decisions.chain[up];
            let prefixes = keyed.distances().prefixes(up, depth - up);
            if !prefixes.is_empty() {
                let atoms = self.attribute_atoms(decisions, element);
                append_keys(&prefixes, &decisions.attribute_atoms[atoms], &mut asked_above);
            }
            let prefixes = keyed.comparisons().prefixes(up, depth - up);
            self.append_comparisons(decisions, element, &prefixes, &mut asked_above);
        }
        keyed.select(&mut asked_above);
        for place in &asked_above {
            let list = keyed.get(place);
            decisions.accept(list);
            for entry in list.others {
                if may_pass(&entry, mask) {
                    self.test_waiting(decisions, node, entry);
                }
                if !decisions.is_decided(entry.query) && may_hold_at_sibling(decisions, entry, above_mask) {
                    decisions.above.push(entry);
                }
            }
        }
        decisions.asked_above = asked_above;
    }

    /// Let through what waits at some places of a table.
    fn ask(&mut self, decisions: &mut Decisions, node: NodeId, keyed: &KeyTable, places: &[u32], mask: &KeyMask) {
        for place in places {
            let mut list = keyed.get(place);
            decisions.accept(list);
            self.accept_below(decisions, node, &mut list.others);
            for entry in list.others.filter(|entry| may_pass(entry, mask)) {
                self.test_waiting(decisions, node, entry);
            }
        }
    }

    /// Decide those that ask for nothing but a branch at the element, if what holds there is known.
    fn accept_below(&mut self, decisions: &mut Decisions, node: NodeId, others: &mut Others<'_>) {
        let Some((query, branch)) = others.next_below() else { return };
        if !self.take_in_hand(node) {
            self.test_below(decisions, node, query, branch);
            while let Some((query, branch)) = others.next_below() {
                self.test_below(decisions, node, query, branch);
            }
            return;
        }
        let Decisions { matched, refuted, .. } = decisions;
        matched.insert_if(query, self.satisfied.holds(branch) && !refuted.contains(query));
        if refuted.is_blank() {
            while let Some((query, branch)) = others.next_below() {
                matched.insert_if(query, self.satisfied.holds(branch));
            }
        } else {
            while let Some((query, branch)) = others.next_below() {
                matched.insert_if(query, self.satisfied.holds(branch) && !refuted.contains(query));
            }
        }
    }

    #[cold]
    fn test_below(&mut self, decisions: &mut Decisions, node: NodeId, query: u32, branch: BranchId) {
        if !decisions.is_decided(query) && self.branch_holds(decisions, node, branch, query) {
            decisions.matched.insert(query);
        }
    }

    /// Append the keys of a table that an element's own values satisfy.
    fn own_keys(&self, decisions: &mut Decisions, node: NodeId, keyed: &KeyTable, keys: &mut Vec<PackedKey>) {
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
    fn may_read_values(&self, decisions: &Decisions) -> bool {
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
    fn fail_for_values(&self, decisions: &mut Decisions, query: u32) {
        if !decisions.is_decided(query) {
            decisions.fail(query, EvalError::BudgetExceeded { visits_max: self.values_max });
        }
    }

    /// The further keys of a table that an element's own values satisfy.
    fn own_mask(&self, decisions: &mut Decisions, node: NodeId, keyed: &KeyTable) -> KeyMask {
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

    pub(super) fn decide_crowd(&mut self, decisions: &mut Decisions, node: NodeId, paths: &Paths, state: StateId) {
        if let Some(table) = paths.crowded.get(&state) {
            self.decide_keyed(decisions, node, table, None);
        }
    }

    /// Test what waits for a key that holds, of which [`may_pass`] says that it may be more.
    fn test_waiting(&mut self, decisions: &mut Decisions, node: NodeId, entry: Waiting) {
        if decisions.is_decided(entry.query) {
            return;
        }
        if entry.below.is_some_and(|branch| !self.branch_holds(decisions, node, branch.get(), entry.query)) {
            return;
        }
        if entry.also.is_some_and(|also| !self.further_key_holds(decisions, node, also.get(), entry.query)) {
            return;
        }
        match entry.trigger {
            None => decisions.matched.insert(entry.query),
            Some(trigger) => self.test(decisions, node, trigger),
        }
    }

    fn further_key_holds(&self, decisions: &mut Decisions, node: NodeId, key: PackedKey, query: u32) -> bool {
        let (distance, atom) = key::unpack(key);
        if key::is_content(key) {
            if !self.may_read_values(decisions) {
                self.fail_for_values(decisions, query);
                return false;
            }
            if key::is_comparison(atom) {
                return self.attribute_holds(decisions, node, atom);
            }
            self.read_content(decisions, node);
            return decisions.content_atoms.contains(&atom);
        }
        if distance == Distance::Any {
            return self.any_satisfies(decisions, node, atom);
        }
        let Some(element) = self.at(decisions, node, distance) else { return false };
        self.attribute_holds(decisions, element, atom)
    }

    /// Take an element's shape in hand, if what holds there is known.
    #[inline]
    fn take_in_hand(&mut self, element: NodeId) -> bool {
        let shape = self.shape_of[element as usize];
        let is_known = shape != NO_SHAPE && self.satisfied.knows(shape);
        if is_known {
            self.satisfied.take_in_hand(self.shapes, self.population.branches.bound(), shape);
        }
        is_known
    }

    /// Does a branch hold at an element? A query for which that is too expensive to find out fails.
    #[inline]
    pub(super) fn branch_holds(
        &mut self,
        decisions: &mut Decisions,
        element: NodeId,
        branch: BranchId,
        query: u32,
    ) -> bool {
        if self.take_in_hand(element) {
            return self.satisfied.holds(branch);
        }
        self.evaluator.resume(query);
        let holds = self.population.branches.holds_at(&self.evaluator, element, branch);
        holds.unwrap_or_else(|error| {
            decisions.fail(query, error);
            false
        })
    }

    /// Does an element satisfy an atom about attributes, or a comparison?
    fn attribute_holds(&self, decisions: &mut Decisions, element: NodeId, atom: AtomId) -> bool {
        if key::is_comparison(atom) {
            return self.population.atoms.comparison_holds(self.message, element, atom, &mut decisions.values_read);
        }
        let atoms = self.attribute_atoms(decisions, element);
        decisions.attribute_atoms[atoms].contains(&atom)
    }

    /// Note the element and its ancestors, for finding those at a distance.
    pub(super) fn chain(&self, decisions: &mut Decisions, node: NodeId) {
        if decisions.chain.first() == Some(&node) {
            return;
        }
        decisions.chain.clear();
        let mut element = node;
        while element != 0 && element != NO_NODE {
            decisions.chain.push(element);
            element = self.message.document.nodes[element as usize].parent;
        }
    }

    /// The element at a known distance from another.
    pub(super) fn at(&self, decisions: &mut Decisions, node: NodeId, distance: Distance) -> Option<NodeId> {
        if distance == Distance::Up(0) {
            return Some(node);
        }
        self.chain(decisions, node);
        let up = match distance {
            Distance::Up(levels) => usize::from(levels),
            Distance::Level(level) => decisions.chain.len().checked_sub(usize::from(level))?,
            Distance::Any => return None,
        };
        decisions.chain.get(up).copied()
    }

    /// Does the element at a distance satisfy an atom? A query for which that is too expensive to find out fails.
    pub(super) fn satisfies(
        &self,
        decisions: &mut Decisions,
        node: NodeId,
        (distance, atom): (Distance, AtomId),
        query: u32,
    ) -> bool {
        if distance == Distance::Any {
            return self.any_satisfies(decisions, node, atom);
        }
        let Some(element) = self.at(decisions, node, distance) else { return false };
        self.has_atom(decisions, element, atom, query)
    }

    /// Does an element satisfy an atom?
    fn has_atom(&self, decisions: &mut Decisions, element: NodeId, atom: AtomId, query: u32) -> bool {
        let is_content = self.population.atoms.is_content(atom);
        if is_content && !self.may_read_values(decisions) {
            self.fail_for_values(decisions, query);
            return false;
        }
        if is_content && !key::is_comparison(atom) {
            let mut atoms = Vec::new();
            self.population.atoms.of_content(self.message, element, &mut atoms, &mut decisions.values_read);
            return atoms.contains(&atom);
        }
        self.attribute_holds(decisions, element, atom)
    }

    /// Does an element or any ancestor satisfy an atom about attributes?
    pub(super) fn any_satisfies(&self, decisions: &mut Decisions, node: NodeId, atom: AtomId) -> bool {
        self.chain(decisions, node);
        (0..decisions.chain.len()).any(|up| self.attribute_holds(decisions, decisions.chain[up], atom))
    }

    /// Append the keys that are comparisons and that an element's attributes satisfy.
    fn append_comparisons(
        &self,
        decisions: &mut Decisions,
        element: NodeId,
        prefixes: &[PackedKey],
        keys: &mut Vec<PackedKey>,
    ) {
        if prefixes.is_empty() {
            return;
        }
        let mut atoms = std::mem::take(&mut decisions.compared_atoms);
        atoms.clear();
        for attribute in self.message.document.attributes_of(element) {
            self.population.atoms.comparisons_of(self.message, attribute, &mut atoms);
        }
        append_keys(prefixes, &atoms, keys);
        decisions.compared_atoms = atoms;
    }

    /// The atoms that an element's attributes satisfy, found once a message.
    #[inline]
    fn attribute_atoms(&self, decisions: &mut Decisions, element: NodeId) -> Range<usize> {
        match decisions.atom_range.get(element as usize) {
            Some(&(start, end)) if start != NOT_READ => start as usize..end as usize,
            _ => self.read_attributes(decisions, element),
        }
    }

    /// Find the atoms that an element's text satisfies, unless it was the last one asked for.
    fn read_content(&self, decisions: &mut Decisions, element: NodeId) {
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
fn append_keys(prefixes: &[PackedKey], atoms: &[AtomId], keys: &mut Vec<PackedKey>) {
    for prefix in prefixes {
        keys.extend(atoms.iter().map(|&atom| key::with_prefix(*prefix, atom)));
    }
}

/// Add the keys of atoms with each prefix to a mask.
#[inline]
fn insert_keys(prefixes: &[PackedKey], atoms: &[AtomId], mask: &mut KeyMask) {
    for prefix in prefixes {
        atoms.iter().for_each(|&atom| mask.insert(key::with_prefix(*prefix, atom)));
    }
}

/// May the further key hold, for all that the mask of those that do says?
#[inline]
fn may_pass(entry: &Waiting, mask: &KeyMask) -> bool {
    entry.also.is_none_or(|also| key::is_comparison(also.get()) || mask.may_hold(also.get()))
}

/// Could a test that failed at an element succeed at a sibling? Not if a further key is asked of an ancestor.
fn may_hold_at_sibling(decisions: &Decisions, entry: Waiting, above: &KeyMask) -> bool {
    let Some(also) = entry.also.map(|also| also.get()) else { return true };
    let is_own = match key::unpack(also).0 {
        Distance::Up(levels) => levels == 0,
        Distance::Level(level) => usize::from(level) == decisions.chain.len(),
        Distance::Any => true,
    };
    is_own || key::is_comparison(also) || above.may_hold(also)
}
