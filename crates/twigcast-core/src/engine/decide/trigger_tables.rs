//! Trigger tables: the queries that wait, at a state of the automaton, for values of an element and its ancestors.

use super::ancestors::AncestorConditions;
use super::element_values::append_conditions;
use super::lookups::LookupRequest;
use super::state::{Decisions, MessageRun};
use crate::document::NodeId;
use crate::engine::query_index::PathIndex;
use crate::ids::{AtomId, BranchId, ShapeId, StateId, TriggerId};
use crate::plan::Distance;
use crate::predicate::held::HeldConditions;
use crate::predicate::packed::{self, PackedCondition};
use crate::predicate::trigger_table::TriggerTable;
use crate::predicate::waiters::{MultiConditionWaiters, WaitList, Waiter};
use crate::twig::shapes::NO_SHAPE;

/// Up to this number, what waits for conditions of ancestors is kept for siblings; in a deep message there may be far more.
const ABOVE_MAX: usize = 1 << 18;

/// The extent to which it is known, at the current element, which further conditions hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FurtherConditions {
    /// Comparisons and negations aside, those hold of which [`HeldConditions`] says so.
    Known,
    /// No others hold, and perhaps not all of them.
    Bounded,
    /// Nothing is known.
    Unknown,
}

impl Decisions {
    /// Accepts the queries of a list of which nothing else is asked.
    fn accept(&mut self, list: WaitList<'_>) {
        if self.refuted.is_blank() {
            list.satisfied().for_each(|query| self.matched.insert(query));
        } else {
            let refuted = &self.refuted;
            list.satisfied().filter(|&query| !refuted.contains(query)).for_each(|query| self.matched.insert(query));
        }
    }

    /// Decides those that ask for nothing but a further condition.
    fn accept_also(&mut self, others: &mut MultiConditionWaiters<'_>) {
        let Self { matched, refuted, levels, .. } = self;
        let held = levels.held();
        if refuted.is_blank() {
            while let Some((query, also)) = others.next_also() {
                matched.insert_if(query, held.hold(also));
            }
        } else {
            while let Some((query, also)) = others.next_also() {
                matched.insert_if(query, held.hold(also) && !refuted.contains(query));
            }
        }
    }
}

impl MessageRun<'_, '_> {
    /// Tests the triggers whose value condition the element, or an ancestor at the right distance, satisfies. `asked`
    /// is what [`Self::look_up`] found for the element.
    pub(super) fn decide_keyed(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &TriggerTable,
        asked: LookupRequest<'_>,
    ) {
        let uses_lookups = !keyed.distances().union(keyed.comparisons()).is_own();
        if !uses_lookups && asked.is_empty() {
            return;
        }
        let shape_list = asked.shape_list.or_else(|| self.narrow(node, keyed, asked));
        if !uses_lookups && let Some(start) = shape_list {
            let list = self.narrowed.get(start);
            if list.multi_condition.is_empty() {
                return decisions.accept(list);
            }
        }
        let asked = LookupRequest { shape_list, ..asked };
        let further = self.further(decisions, node, keyed);
        self.decide_conditions(decisions, node, keyed, asked, further);
        if uses_lookups {
            self.decide_with_ancestors(decisions, node, keyed, further);
        }
    }

    /// Finds out which further conditions of a table hold at an element.
    fn further(&self, decisions: &mut Decisions, node: NodeId, keyed: &TriggerTable) -> FurtherConditions {
        if keyed.also_distances().is_empty() {
            return FurtherConditions::Known;
        }
        match self.fill_levels(decisions, node, keyed) {
            false => FurtherConditions::Unknown,
            true if decisions.levels.is_exact() => FurtherConditions::Known,
            true => FurtherConditions::Bounded,
        }
    }

    /// Decides the rest of [`Self::decide_keyed`] where ancestors have conditions to be looked up.
    fn decide_with_ancestors(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &TriggerTable,
        further: FurtherConditions,
    ) {
        self.move_to(decisions, node);
        let site = (std::ptr::from_ref(keyed) as usize, self.message.document.nodes[node as usize].parent);
        if let Some(&range) = decisions.above_range.get(&site) {
            for index in range.start..range.end {
                let entry = decisions.above[index as usize];
                if may_pass(&entry, further, decisions.levels.held()) {
                    self.test_waiting(decisions, node, entry, further);
                }
            }
            return;
        }
        let start = decisions.above.len() as u32;
        self.decide_ancestor_conditions(decisions, node, keyed, further);
        let end = decisions.above.len() as u32;
        if decisions.above.len() <= ABOVE_MAX {
            decisions.above_range.insert(site, AncestorConditions { start, end });
        } else {
            decisions.above.truncate(start as usize);
        }
    }

    /// Decides what waits for conditions that ancestors satisfy, and keeps what may hold at a sibling.
    fn decide_ancestor_conditions(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &TriggerTable,
        further: FurtherConditions,
    ) {
        let mut asked_above = std::mem::take(&mut decisions.ancestor_conditions);
        asked_above.clear();
        self.append_conditions_above(decisions, keyed, &mut asked_above);
        keyed.select(&mut asked_above);
        for position in &asked_above {
            let list = keyed.get(position);
            decisions.accept(list);
            for entry in list.multi_condition {
                if may_pass(&entry, further, decisions.levels.held()) {
                    self.test_waiting(decisions, node, entry, further);
                }
                if !decisions.is_decided(entry.query) && may_hold_at_sibling(decisions, entry, further) {
                    decisions.above.push(entry);
                }
            }
        }
        decisions.ancestor_conditions = asked_above;
    }

    /// Appends the conditions of a table that ancestors satisfy.
    fn append_conditions_above(
        &self,
        decisions: &mut Decisions,
        keyed: &TriggerTable,
        conditions: &mut Vec<PackedCondition>,
    ) {
        let level = decisions.ancestors.level() as usize;
        for (up, prefix) in keyed.distances().above(level) {
            let Some(element) = decisions.ancestors.above(up) else { continue };
            let atoms = self.attribute_atoms(decisions, element);
            append_conditions(&[prefix], decisions.attribute_atoms.of(atoms), conditions);
        }
        for (up, prefix) in keyed.comparisons().above(level) {
            let Some(element) = decisions.ancestors.above(up) else { continue };
            self.append_comparisons(decisions, element, &[prefix], conditions);
        }
    }

    /// Decides what waits for the conditions of an element.
    fn decide_conditions(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        keyed: &TriggerTable,
        asked: LookupRequest<'_>,
        further: FurtherConditions,
    ) {
        if let Some(start) = asked.shape_list {
            let mut list = self.narrowed.get(start);
            if further == FurtherConditions::Known {
                decisions.accept(list);
                decisions.accept_also(&mut list.multi_condition);
                if list.multi_condition.is_empty() {
                    return;
                }
            }
            // Taken out, since deciding needs the rest.
            let narrowed = std::mem::take(self.narrowed);
            self.decide_list(decisions, node, narrowed.get(start), further);
            *self.narrowed = narrowed;
            return;
        }
        for position in asked.positions {
            self.decide_list(decisions, node, keyed.get(position), further);
        }
    }

    /// Decides what waits for one condition of an element.
    fn decide_list(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        mut list: WaitList<'_>,
        further: FurtherConditions,
    ) {
        decisions.accept(list);
        // Waiters with a single condition come first; where queries came one by one, they are not in order.
        loop {
            let before = list.multi_condition;
            self.accept_below(decisions, node, &mut list.multi_condition);
            if further == FurtherConditions::Known {
                decisions.accept_also(&mut list.multi_condition);
            }
            if list.multi_condition.is_as_long_as(&before) {
                break;
            }
        }
        for entry in list.multi_condition {
            if may_pass(&entry, further, decisions.levels.held()) {
                self.test_waiting(decisions, node, entry, further);
            }
        }
    }

    /// Stores the waiters for the conditions of an element whose branches hold there. Returns where the new list begins;
    /// `None` if storing it does not pay.
    fn narrow(&mut self, node: NodeId, keyed: &TriggerTable, asked: LookupRequest<'_>) -> Option<u32> {
        if asked.is_empty() || !keyed.asks_branches() || self.narrowed.bytes() >= self.budget / 4 {
            return None;
        }
        let shape = self.decided_shape(node)?;
        let Self { narrowed, satisfied, shapes, query_index, .. } = self;
        narrowed.insert((keyed, asked.conditions, shape), asked.positions, |branch| {
            satisfied.make_current(shapes, query_index.branches.bound(), shape);
            satisfied.holds(branch)
        })
    }

    /// Returns the shape of an element, if it is known which branches hold there.
    #[inline]
    pub(super) fn decided_shape(&self, element: NodeId) -> Option<ShapeId> {
        let shape = *self.shape_of.get(element as usize)?;
        (shape != NO_SHAPE && self.satisfied.is_decided(shape)).then_some(shape)
    }

    /// Decides those that ask for nothing but a branch at the element, if what holds there is known.
    fn accept_below(&mut self, decisions: &mut Decisions, node: NodeId, others: &mut MultiConditionWaiters<'_>) {
        let Some((query, branch)) = others.next_below() else { return };
        if !self.make_current(node) {
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

    pub(super) fn decide_trigger_table(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        paths: &PathIndex,
        state: StateId,
    ) {
        if let Some(table) = paths.trigger_tables.get(&state) {
            self.decide_alone(decisions, node, table);
        }
    }

    /// Looks up what waits for the values of one element, and decides it as [`Self::decide_keyed`] does.
    pub(super) fn decide_alone(&mut self, decisions: &mut Decisions, node: NodeId, keyed: &TriggerTable) {
        let mut lookups = std::mem::take(&mut decisions.lookups);
        self.look_up(decisions, std::iter::once((node, keyed)), &mut lookups);
        self.decide_keyed(decisions, node, keyed, lookups.request(0));
        decisions.lookups = lookups;
    }

    /// Tests a waiter whose condition holds and of which [`may_pass`] is true.
    fn test_waiting(&mut self, decisions: &mut Decisions, node: NodeId, entry: Waiter, further: FurtherConditions) {
        if decisions.is_decided(entry.query) {
            return;
        }
        if entry.below != BranchId::NONE && !self.branch_holds(decisions, node, entry.below, entry.query) {
            return;
        }
        if let Some(also) = entry.also
            && (further != FurtherConditions::Known || packed::is_comparison(also.get()))
            && !self.further_condition_holds(decisions, node, also.get(), entry.query)
        {
            return;
        }
        match entry.trigger {
            None => decisions.matched.insert(entry.query),
            Some(trigger) => self.test(decisions, node, TriggerId::from_u32(trigger)),
        }
    }

    fn further_condition_holds(
        &self,
        decisions: &mut Decisions,
        node: NodeId,
        condition: PackedCondition,
        query: u32,
    ) -> bool {
        let (distance, atom) = packed::unpack(condition);
        if packed::is_content(condition) {
            if !self.may_read_values(decisions) {
                self.fail_for_values(decisions, query);
                return false;
            }
            if atom.is_comparison() {
                return self.attribute_holds(decisions, node, atom);
            }
            let atoms = self.content_atoms(decisions, node);
            return decisions.content_atoms.of(atoms).contains(&atom);
        }
        let Some(element) = self.at(decisions, node, distance) else { return false };
        self.attribute_holds(decisions, element, atom)
    }

    /// Makes an element's shape the current one, if its branches have been decided.
    #[inline]
    fn make_current(&mut self, element: NodeId) -> bool {
        let Some(shape) = self.decided_shape(element) else { return false };
        self.satisfied.make_current(self.shapes, self.query_index.branches.bound(), shape);
        true
    }

    /// Returns whether a branch holds at an element. A query for which that is too expensive to find out fails.
    #[inline]
    pub(super) fn branch_holds(
        &mut self,
        decisions: &mut Decisions,
        element: NodeId,
        branch: BranchId,
        query: u32,
    ) -> bool {
        if self.make_current(element) {
            return self.satisfied.holds(branch);
        }
        self.evaluator.resume(query);
        let holds = self.query_index.branches.holds_at(&self.evaluator, element, branch);
        holds.unwrap_or_else(|error| {
            decisions.fail(query, error);
            false
        })
    }

    /// Returns whether an element satisfies an atom about attributes, or a comparison.
    fn attribute_holds(&self, decisions: &mut Decisions, element: NodeId, atom: AtomId) -> bool {
        if atom.is_comparison() {
            return self.query_index.atoms.comparison_holds(self.message, element, atom, &mut decisions.values_read);
        }
        let atoms = self.attribute_atoms(decisions, element);
        decisions.attribute_atoms.of(atoms).contains(&atom)
    }

    /// Returns the element at a distance from another.
    pub(super) fn at(&self, decisions: &mut Decisions, node: NodeId, distance: Distance) -> Option<NodeId> {
        if distance == Distance::Up(0) {
            return Some(node);
        }
        self.move_to(decisions, node);
        match distance {
            Distance::Up(levels) => decisions.ancestors.above(usize::from(levels)),
            Distance::Level(level) => decisions.ancestors.at(u32::from(level)),
        }
    }

    /// Makes an element the current one of the ancestor stack.
    pub(super) fn move_to(&self, decisions: &mut Decisions, node: NodeId) {
        decisions.ancestors.move_to(&self.message.document.nodes, node);
    }

    /// Returns whether the element at a distance satisfies an atom. A query for which that is too expensive to find out fails.
    pub(super) fn satisfies(
        &self,
        decisions: &mut Decisions,
        node: NodeId,
        (distance, atom): (Distance, AtomId),
        query: u32,
    ) -> bool {
        let Some(element) = self.at(decisions, node, distance) else { return false };
        self.has_atom(decisions, element, atom, query)
    }

    /// Returns whether an element satisfies an atom.
    fn has_atom(&self, decisions: &mut Decisions, element: NodeId, atom: AtomId, query: u32) -> bool {
        let is_content = self.query_index.atoms.is_content(atom);
        if is_content && !self.may_read_values(decisions) {
            self.fail_for_values(decisions, query);
            return false;
        }
        if is_content && !atom.is_comparison() {
            let atoms = self.content_atoms(decisions, element);
            return decisions.content_atoms.of(atoms).contains(&atom);
        }
        self.attribute_holds(decisions, element, atom)
    }
}

/// Returns whether the further condition may hold, as far as is known.
#[inline]
fn may_pass(entry: &Waiter, further: FurtherConditions, held: HeldConditions<'_>) -> bool {
    let may_hold = |also| packed::is_comparison(also) || further == FurtherConditions::Unknown || held.hold(also);
    entry.also.is_none_or(|also| may_hold(also.get()))
}

/// Returns whether a test that failed at an element could succeed at a sibling: not if a further condition is asked of an
/// ancestor.
fn may_hold_at_sibling(decisions: &Decisions, entry: Waiter, further: FurtherConditions) -> bool {
    let Some(also) = entry.also.map(|also| also.get()) else { return true };
    let is_own = match packed::unpack(also).0 {
        Distance::Up(levels) => levels == 0,
        Distance::Level(level) => u32::from(level) == decisions.ancestors.level(),
    };
    is_own || may_pass(&entry, further, decisions.levels.held())
}
