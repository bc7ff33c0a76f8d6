//! Accesses: the queries that the values of an element lead to.

use std::collections::hash_map::Entry;

use super::condition_memo::RecordIndex;
use super::operand_values::{TooLong, read_short, read_short_below};
use super::state::{Decisions, MessageRun};
use crate::access::conditions::{SharedCondition, SharedConditions};
use crate::access::entry::{AccessEntry, WHOLE};
use crate::access::regions::{NearRegion, RegionIndex};
use crate::access::samples::TestVisits;
use crate::access::table::{AccessTable, GuardedRanges, OperandFamily, RangeIndex, TableOperand};
use crate::access::unequal::{UnequalIndex, UnequalValues};
use crate::document::{NodeId, NodeKind};
use crate::engine::query_index::PathIndex;
use crate::eval::EvalError;
use crate::ids::{AccessId, ConditionId, OperandId, StateId};
use crate::plan::{NumberRange, Operand, Relation, number_key, ordered};
use crate::util::number;

/// The number of operands below which they are read one by one, whatever names the element has.
const OPERANDS_FEW: usize = 4;
/// Steps of outlines that count as a visit.
const OUTLINE_STEPS: u64 = 4;

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
            let key = std::ptr::from_ref(operand) as usize;
            if decisions.without_values.contains(&key) || self.is_for_those_set_aside(decisions, table, operand) {
                continue;
            }
            if let Err(error) = self.decide_operand(decisions, node, table, operand) {
                let conditions = &self.query_index.shared;
                table.for_each_of(operand, conditions, |entry| decisions.fail_if_open(entry, &error));
                // Nobody asks for its values on this message any more.
                decisions.without_values.insert(key);
            }
        }
        self.memo.positions = positions;
    }

    /// Returns whether an operand would be evaluated only for queries that are set aside. They are undecided then.
    fn is_for_those_set_aside(&self, decisions: &mut Decisions, table: &AccessTable, operand: &TableOperand) -> bool {
        let shared = &self.query_index.shared;
        let is_evaluated = || {
            let operand = shared.operand(operand.operand).map(|shared| &shared.operand);
            matches!(
                operand,
                Some(
                    Operand::Nodes(_) | Operand::Text(_) | Operand::Number(_) | Operand::Typed(..) | Operand::Places(_)
                )
            )
        };
        if decisions.set_aside.is_empty() || !is_evaluated() {
            return false;
        }
        let mut queries = Vec::new();
        table.for_each_of(operand, shared, |entry| queries.push(entry.query & !WHOLE));
        if !queries.iter().all(|query| decisions.set_aside.contains_key(query)) {
            return false;
        }
        for query in queries {
            if !decisions.is_decided(query) {
                decisions.is_set_aside(query);
            }
        }
        decisions.without_values.insert(std::ptr::from_ref(operand) as usize);
        true
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
        if !names.families().is_empty() {
            let start = positions.len();
            names.families().iter().for_each(|family| self.append_of_family(node, family, positions));
            positions[start..].sort_unstable();
            positions.dedup();
        }
    }

    /// Appends the positions of a family's operands for which an element has one below that they need.
    fn append_of_family(&self, node: NodeId, family: &OperandFamily, positions: &mut Vec<u32>) {
        let mut append = |value: &str| positions.extend_from_slice(family.positions(value));
        if read_short_below(self.message, node, &family.path, &family.key, &mut append).is_err() {
            positions.extend(family.all_positions());
        }
    }

    /// Decides accesses by themselves, where there is no table.
    pub(super) fn decide_access(&mut self, decisions: &mut Decisions, node: NodeId, number: AccessId) {
        let query_index = self.query_index;
        for (test, entry) in query_index.access_entries(number) {
            if decisions.is_decided(entry.query & !WHOLE) {
                return;
            }
            match self.condition(test, node) {
                Ok(true) => self.decide_tested(decisions, node, test, &[entry]),
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
        if wanted.asks_single_values() && self.decide_short(decisions, node, table, wanted).is_ok() {
            return Ok(());
        }
        if wanted.asks_numbers_only() && !self.may_be_number(operand, node) {
            return Ok(());
        }
        let record = self.operand_for(operand, node, Some(table))?;
        let are_words = self.are_words(record);
        if are_words {
            self.decide_words(decisions, node, table, record);
            if wanted.asks_equal_texts_only() {
                return Ok(());
            }
            self.read_texts(record, node)?;
        }
        let shared = &self.query_index.shared;
        let mut tests = std::mem::take(&mut self.memo.tests);
        tests.clear();
        if wanted.texts > 0 && !are_words {
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
        if let Some(unequal) = &wanted.unequal {
            self.append_unequal(unequal, record, &mut tests);
        }
        for &test in &tests {
            self.decide_tested(decisions, node, test, table.list(test));
        }
        self.memo.tests = tests;
        if !wanted.regions.is_empty() {
            self.decide_regions(decisions, node, wanted, record)?;
        }
        if !wanted.ranges.is_empty() {
            self.decide_ranges_of(decisions, node, &wanted.ranges, record);
        }
        Ok(())
    }

    /// Decides what waits for numbers of a record.
    fn decide_ranges_of(&mut self, decisions: &mut Decisions, node: NodeId, ranges: &RangeIndex, record: RecordIndex) {
        let numbers = self.numbers_of(record);
        let numbers = match *self.values.numbers(numbers) {
            [low, .., high] => Some(NumberRange { low, high }),
            [only] => Some(NumberRange { low: only, high: only }),
            [] => None,
        };
        if let Some(sought) = numbers {
            self.decide_ranges(decisions, node, ranges, sought);
        }
        if ranges.asks_for_none() {
            let mut entries = std::mem::take(&mut self.memo.entries);
            entries.clear();
            ranges.for_each_without(numbers, |entry| entries.push(entry));
            self.decide_entries(decisions, node, &entries);
            self.memo.entries = entries;
        }
    }

    /// Decides what waits for places of an operand. Most regions are decided by their outlines; of the others, those that still
    /// lead somewhere are compared with the places exactly, each once for all queries that have it.
    fn decide_regions(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        wanted: &TableOperand,
        record: RecordIndex,
    ) -> Result<(), EvalError> {
        let mut near = std::mem::take(&mut self.memo.near_regions);
        near.clear();
        let mut steps = 0;
        for place in self.values.places_of(record) {
            let is_open = |entry: AccessEntry| !decisions.is_decided(entry.query & !WHOLE);
            steps += wanted.regions.append_near(place, is_open, &mut near);
        }
        self.memo.values_read += near.len() as u64;
        self.resume_operand(wanted.operand);
        let charged = self.evaluator.charge(steps / OUTLINE_STEPS);
        if charged.is_ok() {
            self.decide_near(decisions, node, &wanted.regions, &mut near);
        }
        self.memo.near_regions = near;
        charged
    }

    /// Decides what waits for regions that meet a place, or may meet one.
    fn decide_near(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        regions: &RegionIndex,
        near: &mut Vec<NearRegion>,
    ) {
        let mut unsure = Vec::new();
        for found in near.drain(..) {
            let test = if found.is_sure && !self.is_sampled { None } else { regions.test_of(&found) };
            match test {
                Some(test) if !found.is_sure => unsure.push((test, found.entry)),
                Some(test) => self.decide_tested(decisions, node, test, &[found.entry]),
                None => _ = self.decide_entries(decisions, node, &[found.entry]),
            }
        }
        unsure.sort_unstable();
        for same in unsure.chunk_by(|one, other| one.0 == other.0) {
            let test = same[0].0;
            let open = same.iter().map(|(_, entry)| *entry).filter(|entry| !decisions.is_decided(entry.query & !WHOLE));
            let open: Vec<AccessEntry> = open.collect();
            if open.is_empty() {
                continue;
            }
            match self.condition(test, node) {
                Ok(true) => self.decide_tested(decisions, node, test, &open),
                Ok(false) => {}
                Err(error) => open.iter().for_each(|&entry| decisions.fail_if_open(entry, &error)),
            }
        }
    }

    /// Appends the tests for other values than some that hold of those that were read.
    fn append_unequal(&mut self, unequal: &UnequalIndex, record: RecordIndex, tests: &mut Vec<ConditionId>) {
        let numbers = if unequal.asks_for_numbers() { self.numbers_of(record) } else { 0..0 };
        let (count, texts) = (self.count_of_values(record), self.values.texts(record));
        let values = UnequalValues { texts, numbers: self.values.numbers(numbers), count };
        unequal.append(values, &self.query_index.shared, tests);
    }

    /// Appends the tests for other values than some that hold at an element where all values are short.
    fn append_short_unequal(
        &self,
        unequal: &UnequalIndex,
        (node, read): (NodeId, &Operand),
        tests: &mut Vec<ConditionId>,
    ) -> Result<(), TooLong> {
        let (mut texts, mut numbers) = (Vec::new(), Vec::new());
        read_short(self.message, read, node, |value| texts.push(value.to_owned()))?;
        if unequal.asks_for_numbers() {
            numbers.extend(texts.iter().filter_map(|text| number_key(number::parse(text))).map(ordered));
            numbers.sort_unstable();
        }
        let values = UnequalValues { texts: &texts, numbers: &numbers, count: texts.len() };
        unequal.append(values, &self.query_index.shared, tests);
        Ok(())
    }

    /// Decides what waits for the values of an operand, at an element where all of these are short.
    fn decide_short(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        table: &AccessTable,
        wanted: &TableOperand,
    ) -> Result<(), TooLong> {
        let operand = wanted.operand;
        let shared = &self.query_index.shared;
        let Some(read) = shared.operand(operand).map(|shared| &shared.operand) else { return Err(TooLong) };
        let mut tests = std::mem::take(&mut self.memo.tests);
        tests.clear();
        let mut is_read = Ok(());
        if wanted.texts > 0 {
            is_read = self.append_short_equalities(node, (operand, read), &mut tests);
        }
        if is_read.is_ok() && wanted.prefixes + wanted.numbers > 0 {
            is_read = read_short(self.message, read, node, |value| {
                if wanted.prefixes > 0 {
                    shared.append_prefixes(operand, value, &mut tests);
                }
                if wanted.numbers > 0 {
                    let number = number_key(number::parse(value)).map(ordered);
                    tests.extend(number.and_then(|number| shared.number_equality(operand, number)));
                }
            });
        }
        if is_read.is_ok()
            && let Some(unequal) = &wanted.unequal
        {
            is_read = self.append_short_unequal(unequal, (node, read), &mut tests);
        }
        if is_read.is_ok() {
            self.memo.values_read += 1;
            if tests.len() > 1 {
                tests.sort_unstable();
                tests.dedup();
            }
            for &test in &tests {
                self.decide_tested(decisions, node, test, table.list(test));
            }
        }
        self.memo.tests = tests;
        is_read
    }

    /// Appends the tests for texts that the values of an operand equal, at an element where all of these are short.
    fn append_short_equalities(
        &mut self,
        node: NodeId,
        (operand, read): (OperandId, &Operand),
        tests: &mut Vec<ConditionId>,
    ) -> Result<(), TooLong> {
        let last = &mut self.memo.last_equalities;
        if let Some(known) = last.get(operand, node) {
            tests.extend_from_slice(known);
            return Ok(());
        }
        let shared = &self.query_index.shared;
        let start = tests.len();
        read_short(self.message, read, node, |value| tests.extend(shared.equality(operand, value)))?;
        last.set(operand, node, &tests[start..]);
        Ok(())
    }

    /// Returns whether the residual that ranges share holds at an element. Many that ask for another text of the same operand
    /// are decided by one look-up.
    fn guard_holds(&mut self, guard: ConditionId, node: NodeId) -> Result<bool, EvalError> {
        let shared = &self.query_index.shared;
        if let Some(&SharedCondition::Test(operand, Relation::Equals(_))) = shared.condition(guard)
            && let Some(read) = shared.operand(operand)
        {
            let mut tests = std::mem::take(&mut self.memo.guard_tests);
            tests.clear();
            let is_read = self.append_short_equalities(node, (operand, &read.operand), &mut tests);
            let holds = tests.contains(&guard);
            self.memo.guard_tests = tests;
            if is_read.is_ok() {
                return Ok(holds);
            }
        }
        self.condition(guard, node)
    }

    /// Decides what waits for numbers of a range.
    fn decide_ranges(&mut self, decisions: &mut Decisions, node: NodeId, ranges: &RangeIndex, sought: NumberRange) {
        let mut entries = std::mem::take(&mut self.memo.entries);
        entries.clear();
        for guarded in &ranges.guarded {
            match self.guard_holds(guarded.guard, node) {
                Ok(true) => self.append_guarded(decisions, guarded, sought, &mut entries),
                Ok(false) => {}
                Err(error) => guarded.for_each_overlapping(sought, |entry| decisions.fail_if_open(entry, &error)),
            }
        }
        ranges.mixed.for_each_overlapping(sought, |entry| entries.push(entry));
        self.decide_entries(decisions, node, &entries);
        self.memo.entries = entries;
    }

    /// Matches the queries whose ranges overlap one, where nothing else remains. Those that have to be evaluated as a whole
    /// are appended. Ranges with one bound are visited once a message, however many elements have numbers in them.
    fn append_guarded(
        &mut self,
        decisions: &mut Decisions,
        guarded: &GuardedRanges,
        sought: NumberRange,
        entries: &mut Vec<AccessEntry>,
    ) {
        let mut visit = |entry: AccessEntry| {
            if entry.query & WHOLE == 0 {
                decisions.match_if_open(entry.query);
            } else {
                entries.push(AccessEntry { residual: ConditionId::NONE, ..entry });
            }
        };
        guarded.between.for_each_overlapping(sought, &mut visit);
        if guarded.above.is_empty() && guarded.below.is_empty() {
            return;
        }
        // Nothing moves while a message is matched.
        let visited = self.memo.visited.entry(std::ptr::from_ref(guarded).addr());
        let (greatest, least) = match visited {
            Entry::Vacant(vacant) => {
                vacant.insert(sought);
                (None, None)
            }
            Entry::Occupied(mut visited) => {
                let NumberRange { low, high } = *visited.get();
                visited.insert(NumberRange { low: low.min(sought.low), high: high.max(sought.high) });
                (Some(high), Some(low))
            }
        };
        guarded.above.for_each_from(greatest, sought.high, &mut visit);
        guarded.below.for_each_up_to(sought.low, least, &mut visit);
    }

    /// Verifies what remains of queries that a test has led to. Of a message that is sampled, it is noted how many in vain.
    pub(super) fn decide_tested(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        test: ConditionId,
        entries: &[AccessEntry],
    ) {
        let in_vain = self.decide_entries(decisions, node, entries);
        if self.is_sampled && in_vain > 0 {
            decisions.visits.push((test, TestVisits { elements: 1, in_vain }));
        }
    }

    /// Verifies what remains of queries that an element has led to. Returns how many it does not hold of.
    pub(super) fn decide_entries(&mut self, decisions: &mut Decisions, node: NodeId, entries: &[AccessEntry]) -> u32 {
        let mut in_vain = 0;
        let mut last = (ConditionId::NONE, true);
        // Of few, reading takes no longer one by one. One of a list tells for all.
        let is_long = entries.len() >= SharedConditions::READ_AT_ONCE;
        let reads_ahead = is_long && self.query_index.shared.is_read_ahead(entries[entries.len() / 2].residual);
        for block in entries.chunks(SharedConditions::READ_AT_ONCE) {
            if reads_ahead {
                self.read_ahead(decisions, block);
            }
            for &entry in block {
                in_vain += self.decide_entry(decisions, node, entry, &mut last);
            }
        }
        in_vain
    }

    /// Verifies what remains of a query, unless that is what remained of the `last` one too. Returns 1 if it does not hold.
    #[inline]
    fn decide_entry(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        entry: AccessEntry,
        last: &mut (ConditionId, bool),
    ) -> u32 {
        let query = entry.query & !WHOLE;
        if decisions.is_decided(query) || (entry.residual != ConditionId::NONE && decisions.is_set_aside(query)) {
            return 0;
        }
        if entry.residual != last.0 {
            match self.condition(entry.residual, node) {
                Ok(holds) => *last = (entry.residual, holds),
                Err(error) => {
                    decisions.fail(query, error);
                    return 0;
                }
            }
        }
        match (last.1, entry.query & WHOLE != 0) {
            (false, _) => return 1,
            (true, false) => decisions.matched.insert(query),
            (true, true) => self.evaluate_whole(decisions, query),
        }
        0
    }

    /// Reads what remains of queries that are still open, before it is verified.
    fn read_ahead(&mut self, decisions: &Decisions, entries: &[AccessEntry]) {
        let mut last = ConditionId::NONE;
        let open = entries.iter().filter(|entry| !decisions.is_decided(entry.query & !WHOLE));
        let residuals =
            open.map(|entry| entry.residual).filter(|&residual| std::mem::replace(&mut last, residual) != residual);
        self.query_index.shared.read_ahead(residuals, &mut self.memo.reached);
    }
}

impl Decisions {
    #[inline]
    pub(super) fn match_if_open(&mut self, query: u32) {
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
