//! Accesses: the queries that the values of an element lead to.

use super::{Decisions, MessageRun};
use crate::access::conditions::NO_CONDITION;
use crate::access::table::{AccessEntry, AccessTable, RangeIndex, TableOperand, WHOLE};
use crate::document::NodeId;
use crate::engine::query_index::PathIndex;
use crate::eval::EvalError;
use crate::ids::StateId;
use crate::plan::NumberRange;

impl MessageRun<'_, '_> {
    /// Decides what waits at an element for one state of the automaton.
    pub(super) fn decide_access_table(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        paths: &PathIndex,
        state: StateId,
    ) {
        let Some(table) = paths.access_tables.get(&state) else { return };
        self.memo.trim(&mut self.values);
        self.decide_entries(decisions, node, table.unconditional());
        for operand in &table.operands {
            if let Err(error) = self.decide_operand(decisions, node, table, operand) {
                let conditions = &self.population.shared;
                table.for_each_of(operand, conditions, |entry| decisions.fail_if_open(entry, &error));
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
                        decisions.fail(query, error);
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
            self.fail(query, error.clone());
        }
    }
}
