//! The values that operands have at elements, read once a message for each element that is asked.

use std::borrow::Cow;
use std::ops::Range;

use super::MessageRun;
use super::condition_memo::{OperandRecord, OperandValues, RecordIndex, span};
use crate::access::entry::{ConditionId, OperandId};
use crate::document::{Message, NodeId, NodeKind};
use crate::eval::text::visits_of;
use crate::eval::{EvalError, NodeRef, Value};
use crate::plan::{NumberRange, Operand, Relation, number_key, ordered};
use crate::predicate::atoms::starts_like_a_number;
use crate::util::number;

/// Operands that are expressions count their visits for themselves, since queries share them: their numbers begin here.
const OPERAND_PAYERS: u32 = 1 << 29;
/// In place of the record of an operand that is too expensive to read at an element.
const FAILED: u32 = u32::MAX;
/// So few values are compared one by one.
const COMPARED_MAX: usize = 2;

/// Returns the string-value of an element. What is looked at for it is added to `visits`.
fn string_value<'a>(message: Message<'a>, element: NodeId, visits: &mut u64) -> Cow<'a, str> {
    let value = message.string_value(element);
    *visits += u64::from(message.document.nodes[element as usize].end - element) + visits_of(&value);
    value
}

impl<'a> MessageRun<'a, '_> {
    /// Reads an operand at a node.
    pub(super) fn operand(&mut self, operand: OperandId, node: NodeId) -> Result<RecordIndex, EvalError> {
        let key = u64::from(operand) << 32 | u64::from(node);
        match self.memo.operands.get(key) {
            Some(FAILED) => return Err(self.budget_exceeded()),
            Some(record) => return Ok(RecordIndex(record)),
            None => {}
        }
        let start = self.values.texts.len();
        let mut record = OperandRecord { operand, ..OperandRecord::default() };
        let read = match self.memo.visits.get(operand.into()) {
            Some(visits) if u64::from(visits) > self.values_max => Err(self.budget_exceeded()),
            _ => self.read(operand, node, &mut record),
        };
        if let Err(error) = read {
            self.values.texts.truncate(start);
            self.memo.operands.insert(key, FAILED);
            return Err(error);
        }
        record.texts = (start as u32, self.values.texts.len() as u32);
        self.values.records.push(record);
        let index = self.values.records.len() as u32 - 1;
        self.memo.operands.insert(key, index);
        Ok(RecordIndex(index))
    }

    /// Returns whether the string-value of an element may be a number, if that is the operand. Its beginning tells, so that nested
    /// elements do not cost the text below them over and over.
    pub(super) fn may_be_number(&self, operand: OperandId, node: NodeId) -> bool {
        let shared = self.population.shared.operand(operand);
        let is_own = shared.is_some_and(|shared| shared.operand == Operand::Own);
        !is_own || starts_like_a_number(self.message, node, &mut 0)
    }

    pub(super) fn budget_exceeded(&self) -> EvalError {
        EvalError::BudgetExceeded { visits_max: self.engine.limits.query_visits_max as u64 }
    }

    fn read(&mut self, operand: OperandId, node: NodeId, record: &mut OperandRecord) -> Result<(), EvalError> {
        let Some(shared) = self.population.shared.operand(operand) else { return Ok(()) };
        let (message, context) = (self.message, NodeRef::Node(node));
        let OperandValues { texts, numbers, .. } = &mut self.values;
        let mut visits = 0;
        match &shared.operand {
            Operand::Own => texts.push(string_value(message, node, &mut visits)),
            Operand::Attribute(name) => {
                let attributes = message.document.attributes_of(node).iter();
                let named = attributes.filter(|attribute| attribute.name == *name);
                texts.extend(named.map(|attribute| message.attribute_value(attribute)));
            }
            Operand::Texts => {
                let children = message.document.children(node);
                let nodes = &message.document.nodes;
                let children = children.filter(|&child| nodes[child as usize].kind == NodeKind::Text);
                texts.extend(children.map(|child| message.text(child)));
            }
            Operand::Children(test) => {
                let nodes = &message.document.nodes;
                for child in message.document.children(node) {
                    let child_node = &nodes[child as usize];
                    visits += 1;
                    if child_node.kind == NodeKind::Element && test.accepts(child_node.name) {
                        texts.push(string_value(message, child, &mut visits));
                    }
                }
            }
            Operand::Nodes(expr) => {
                self.evaluator.resume(OPERAND_PAYERS + operand);
                if let Value::Nodes(nodes) = self.evaluator.value_at(expr, context)? {
                    for node in nodes {
                        texts.push(self.evaluator.string_value(node)?);
                    }
                }
            }
            Operand::Text(expr) => {
                self.evaluator.resume(OPERAND_PAYERS + operand);
                texts.push(self.evaluator.string_at(expr, context)?);
            }
            Operand::Number(expr) => {
                self.evaluator.resume(OPERAND_PAYERS + operand);
                let number = number_key(self.evaluator.number_at(expr, context)?);
                let start = numbers.len() as u32;
                numbers.extend(number.map(ordered));
                record.numbers = Some((start, numbers.len() as u32));
            }
        }
        if visits > 0 {
            let before = self.memo.visits.get(operand.into()).unwrap_or(0);
            let total = u64::from(before) + visits;
            self.memo.visits.insert(operand.into(), u32::try_from(total).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    /// Returns the numbers that the values of a record are, in order.
    pub(super) fn numbers_of(&mut self, record: RecordIndex) -> Range<usize> {
        let OperandRecord { texts, numbers, .. } = self.values.records[record.0 as usize];
        if let Some(numbers) = numbers {
            return span(numbers);
        }
        let start = self.values.numbers.len();
        let values = self.values.texts[span(texts)].iter();
        self.values.numbers.extend(values.filter_map(|text| number_key(number::parse(text))).map(ordered));
        self.values.numbers[start..].sort_unstable();
        let end = self.values.numbers.len();
        self.values.records[record.0 as usize].numbers = Some((start as u32, end as u32));
        start..end
    }

    /// Returns the tests for texts that the values of a record equal, in order.
    pub(super) fn equalities_of(&mut self, record: RecordIndex) -> Range<usize> {
        let OperandRecord { operand, texts, equalities, .. } = self.values.records[record.0 as usize];
        if let Some(equalities) = equalities {
            return span(equalities);
        }
        let OperandValues { texts: all_texts, tests, .. } = &mut self.values;
        let start = tests.len();
        let shared = &self.population.shared;
        tests.extend(all_texts[span(texts)].iter().filter_map(|text| shared.equality(operand, text)));
        tests[start..].sort_unstable();
        let end = tests.len();
        self.values.records[record.0 as usize].equalities = Some((start as u32, end as u32));
        start..end
    }

    /// Returns the tests for texts that the values of a record contain, in order.
    pub(super) fn substrings_of(&mut self, record: RecordIndex) -> Result<Range<usize>, EvalError> {
        let OperandRecord { operand, texts, substrings, .. } = self.values.records[record.0 as usize];
        if let Some(substrings) = substrings {
            return Ok(span(substrings));
        }
        self.evaluator.resume(OPERAND_PAYERS + operand);
        let start = self.values.tests.len();
        for index in span(texts) {
            let text = &self.values.texts[index];
            self.evaluator.charge(visits_of(text))?;
            self.population.shared.append_substrings(operand, text, &mut self.values.tests);
        }
        self.values.tests[start..].sort_unstable();
        let end = self.values.tests.len();
        self.values.records[record.0 as usize].substrings = Some((start as u32, end as u32));
        Ok(start..end)
    }

    /// Returns whether an operand has a value at a node that compares so with a constant.
    pub(super) fn test_holds(
        &mut self,
        test: ConditionId,
        operand: OperandId,
        relation: &Relation,
        node: NodeId,
    ) -> Result<bool, EvalError> {
        let record = self.operand(operand, node)?;
        let texts = self.values.texts(record);
        Ok(match relation {
            Relation::Equals(_) if texts.len() > COMPARED_MAX => {
                let tests = self.equalities_of(record);
                self.values.tests(tests).binary_search(&test).is_ok()
            }
            Relation::Equals(text) => texts.iter().any(|value| *value == **text),
            Relation::Differs(text) => texts.iter().any(|value| *value != **text),
            Relation::StartsWith(prefix) => texts.iter().any(|value| value.starts_with(&**prefix)),
            Relation::Contains(_) => {
                let tests = self.substrings_of(record)?;
                self.values.tests(tests).binary_search(&test).is_ok()
            }
            Relation::Within(NumberRange { low, high }) => {
                let numbers = self.numbers_of(record);
                let numbers = self.values.numbers(numbers);
                let first = numbers.partition_point(|number| number < low);
                numbers.get(first).is_some_and(|number| number <= high)
            }
            Relation::Overlaps(NumberRange { low, high }) => {
                let numbers = self.numbers_of(record);
                let numbers = self.values.numbers(numbers);
                numbers.last().is_some_and(|number| number >= low) && numbers[0] <= *high
            }
            Relation::OtherNumber(bits) => {
                let count = texts.len();
                let is_number = matches!(
                    self.population.shared.operand(operand).map(|shared| &shared.operand),
                    Some(Operand::Number(_))
                );
                let numbers = self.numbers_of(record);
                let count = if is_number { 1 } else { count };
                let (numbers, other) = (self.values.numbers(numbers), ordered(*bits));
                numbers.len() < count || numbers.iter().any(|&number| number != other)
            }
        })
    }
}
