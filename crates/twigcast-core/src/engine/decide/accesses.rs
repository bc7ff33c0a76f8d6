//! Accesses: the queries that the values of an element lead to.

use super::{Decisions, MessageRun};
use crate::access::entry::{AccessEntry, NO_CONDITION, WHOLE};
use crate::access::table::{AccessTable, RangeIndex, TableOperand};
use crate::document::{NodeId, NodeKind};
use crate::engine::query_index::PathIndex;
use crate::eval::EvalError;
use crate::ids::StateId;
use crate::plan::NumberRange;

/// So few operands are read one by one, whatever names the element has.
const OPERANDS_FEW: usize = 4;

impl MessageRun<'_, '_> {
    /// Decides what waits at an element for one state of the automaton that has a table of its own.
    pub(super) fn decide_access_table(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        paths: &PathIndex,
        state: StateId,
    ) {
        if let Some(table) = paths.access_tables.get(&state) {
            self.decide_accesses(decisions, node, table);
        }
    }

    /// Decides what waits in a table at an element.
    pub(super) fn decide_accesses(&mut self, decisions: &mut Decisions, node: NodeId, table: &AccessTable) {
        if table.is_empty() {
            return;
        }
        self.memo.trim(&mut self.values);
        self.decide_entries(decisions, node, table.unconditional());
        let mut positions = std::mem::take(&mut self.memo.positions);
        positions.clear();
        self.append_operands(node, table, &mut positions);
        for &position in &positions {
            let operand = &table.operands[position as usize];
            if let Err(error) = self.decide_operand(decisions, node, table, operand) {
                let conditions = &self.population.shared;
                table.for_each_of(operand, conditions, |entry| decisions.fail_if_open(entry, &error));
            }
        }
        self.memo.positions = positions;
    }

    /// Appends the positions of a table's operands that may have values at an element. Of attributes and child elements,
    /// these are found by the names that the element has.
    fn append_operands(&self, node: NodeId, table: &AccessTable, positions: &mut Vec<u32>) {
        let document = self.message.document;
        if table.operands.len() < OPERANDS_FEW {
            positions.extend(0..table.operands.len() as u32);
            return;
        }
        let names = table.names();
        positions.extend_from_slice(names.unnamed());
        if names.has_attributes() {
            let attributes = document.attributes_of(node).iter();
            positions.extend(attributes.filter_map(|attribute| names.attribute(attribute.name)));
        }
        if names.has_children() {
            let start = positions.len();
            let elements = document.children(node).map(|child| &document.nodes[child as usize]);
            let elements = elements.filter(|child| child.kind == NodeKind::Element);
            positions.extend(elements.filter_map(|child| names.child(child.name)));
            positions[start..].sort_unstable();
            positions.dedup();
        }
    }

    /// Decides accesses by themselves, where there is no table.
    pub(super) fn decide_access(&mut self, decisions: &mut Decisions, node: NodeId, number: u32) {
        let population = self.population;
        for (test, entry) in population.access_entries(number) {
            if decisions.is_decided(entry.query & !WHOLE) {
                return;
            }
            match self.condition(test, node) {
                Ok(true) => self.decide_entries(decisions, node, &[entry]),
                Ok(false) => {}
                Err(error) => decisions.fail_if_open(entry, &error),
            }
        }
    }

    /// Decides what waits for the values of an operand.
    fn decide_operand(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        table: &AccessTable,
        wanted: &TableOperand,
    ) -> Result<(), EvalError> {
        let operand = wanted.operand;
        if wanted.asks_numbers_only() && !self.may_be_number(operand, node) {
            return Ok(());
        }
        let record = self.operand(operand, node)?;
        let shared = &self.population.shared;
        let mut tests = std::mem::take(&mut self.memo.tests);
        tests.clear();
        if wanted.texts > 0 {
            let equalities = self.equalities_of(record);
            tests.extend_from_slice(self.values.tests(equalities));
            tests.dedup();
        }
        if wanted.prefixes > 0 {
            self.values.texts(record).iter().for_each(|text| shared.append_prefixes(operand, text, &mut tests));
        }
        if wanted.numbers > 0 {
            let numbers = self.numbers_of(record);
            let numbers = self.values.numbers(numbers).iter();
            tests.extend(numbers.filter_map(|&number| shared.number_equality(operand, number)));
        }
        if wanted.substrings > 0 {
            match self.substrings_of(record) {
                Ok(substrings) => tests.extend_from_slice(self.values.tests(substrings)),
                Err(error) => {
                    self.memo.tests = tests;
                    return Err(error);
                }
            }
        }
        for &test in &tests {
            self.decide_entries(decisions, node, table.list(test));
        }
        self.memo.tests = tests;
        if !wanted.ranges.is_empty() {
            let numbers = self.numbers_of(record);
            if let [low, ..] = *self.values.numbers(numbers.clone())
                && let [.., high] = *self.values.numbers(numbers)
            {
                self.decide_ranges(decisions, node, &wanted.ranges, NumberRange { low, high });
            }
        }
        Ok(())
    }

    /// Decides what waits for numbers of a range.
    fn decide_ranges(&mut self, decisions: &mut Decisions, node: NodeId, ranges: &RangeIndex, sought: NumberRange) {
        let mut entries = std::mem::take(&mut self.memo.entries);
        entries.clear();
        for (guard, index) in &ranges.guarded {
            match self.condition(*guard, node) {
                Ok(true) => index.for_each_overlapping(sought, |entry| {
                    if entry.query & WHOLE == 0 {
                        decisions.match_if_open(entry.query);
                    } else {
                        entries.push(AccessEntry { residual: NO_CONDITION, ..entry });
                    }
                }),
                Ok(false) => {}
                Err(error) => index.for_each_overlapping(sought, |entry| decisions.fail_if_open(entry, &error)),
            }
        }
        ranges.mixed.for_each_overlapping(sought, |entry| entries.push(entry));
        self.decide_entries(decisions, node, &entries);
        self.memo.entries = entries;
    }

    /// Verifies what remains of queries that an element has led to.
    fn decide_entries(&mut self, decisions: &mut Decisions, node: NodeId, entries: &[AccessEntry]) {
        let mut last = (NO_CONDITION, true);
        for &entry in entries {
            let query = entry.query & !WHOLE;
            if decisions.is_decided(query) {
                continue;
            }
            if entry.residual != last.0 {
                match self.condition(entry.residual, node) {
                    Ok(holds) => last = (entry.residual, holds),
                    Err(error) => {
                        decisions.fail_shared(query, error);
                        continue;
                    }
                }
            }
            match (last.1, entry.query & WHOLE != 0) {
                (false, _) => {}
                (true, false) => decisions.matched.insert(query),
                (true, true) => self.evaluate_whole(decisions, query),
            }
        }
    }
}

impl Decisions {
    fn match_if_open(&mut self, query: u32) {
        if self.refuted.is_blank() || !self.refuted.contains(query) {
            self.matched.insert(query);
        }
    }

    fn fail_if_open(&mut self, entry: AccessEntry, error: &EvalError) {
        let query = entry.query & !WHOLE;
        if !self.is_decided(query) {
            self.fail_shared(query, error.clone());
        }
    }
}
