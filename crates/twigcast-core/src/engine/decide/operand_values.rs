//! The values that operands have at elements, read once a message for each element that is asked.

use std::borrow::Cow;
use std::ops::Range;

use super::condition_memo::{OperandRecord, OperandValues, RecordIndex, span};
use super::state::MessageRun;
use crate::access::conditions::{NeededText, hash_needed};
use crate::access::table::AccessTable;
use crate::document::{Message, NodeId, NodeKind};
use crate::eval::text::visits_of;
use crate::eval::{EvalError, NodeRef};
use crate::ids::{ConditionId, OperandId};
use crate::plan::{NumberRange, Operand, Relation, has_text, number_key, order_of, ordered};
use crate::predicate::atoms::starts_like_a_number;
use crate::util::number;
use crate::vocabulary::Name;

/// Operands that are expressions count their visits for themselves, since queries share them: their numbers begin here.
const OPERAND_PAYERS: u32 = 1 << 29;
/// In place of the record of an operand that is too expensive to read at an element.
const FAILED: u32 = u32::MAX;
/// The most values that are compared one by one.
const COMPARED_MAX: usize = 2;

/// Up to so many nodes, attributes and bytes of a value, an element is read anew for each test: that costs less than to
/// remember what was read.
const SHORT_NODES: u32 = 16;
const SHORT_ATTRIBUTES: u32 = 16;
const SHORT_BYTES: usize = 64;

/// The element is not short, so its values have to be remembered.
pub(super) struct TooLong;

/// Returns the string-value of an element that has no child but a short text.
#[inline]
fn short_value(message: Message<'_>, element: NodeId) -> Result<Cow<'_, str>, TooLong> {
    let nodes = &message.document.nodes;
    match nodes[element as usize].end - element {
        1 => Ok(Cow::Borrowed("")),
        2 if nodes[element as usize + 1].kind == NodeKind::Text => short_text(message, element + 1),
        _ => Err(TooLong),
    }
}

#[inline]
fn short_text(message: Message<'_>, text: NodeId) -> Result<Cow<'_, str>, TooLong> {
    let span = message.document.nodes[text as usize].span;
    if (span.end - span.start) as usize <= SHORT_BYTES { Ok(message.text(text)) } else { Err(TooLong) }
}

/// Passes the values of an operand at an element on to `work`, if all of that is short. Some may have been passed on before
/// it turns out not to be.
#[inline]
pub(super) fn read_short(
    message: Message<'_>,
    operand: &Operand,
    node: NodeId,
    mut work: impl FnMut(&str),
) -> Result<(), TooLong> {
    let nodes = &message.document.nodes;
    let element = &nodes[node as usize];
    match operand {
        Operand::Attribute(name) => {
            if element.attributes_end - element.attributes_start > SHORT_ATTRIBUTES {
                return Err(TooLong);
            }
            let mut named = message.document.attributes_of(node).iter().filter(|attribute| attribute.name == *name);
            named.try_for_each(|attribute| {
                if attribute.value.of(message.source).len() > SHORT_BYTES {
                    return Err(TooLong);
                }
                work(&message.attribute_value(attribute));
                Ok(())
            })
        }
        Operand::Own => {
            work(&short_value(message, node)?);
            Ok(())
        }
        _ if element.end - node > SHORT_NODES => Err(TooLong),
        Operand::Texts => {
            for child in message.document.children(node) {
                if nodes[child as usize].kind == NodeKind::Text {
                    work(&short_text(message, child)?);
                }
            }
            Ok(())
        }
        Operand::Children(test) => {
            for child in message.document.children(node) {
                let child_node = &nodes[child as usize];
                if child_node.kind == NodeKind::Element && test.accepts(child_node.name) {
                    work(&short_value(message, child)?);
                }
            }
            Ok(())
        }
        Operand::Nodes(_) | Operand::Text(_) | Operand::Number(_) | Operand::Typed(..) | Operand::Places(_) => {
            Err(TooLong)
        }
    }
}

/// Returns the string-value of an element. What is looked at for it is added to `visits`.
fn string_value<'a>(message: Message<'a>, element: NodeId, visits: &mut u64) -> Cow<'a, str> {
    let value = message.string_value(element);
    *visits += u64::from(message.document.nodes[element as usize].end - element) + visits_of(&value);
    value
}

/// Appends the texts of an operand that is no expression.
fn append_texts<'a>(
    message: Message<'a>,
    operand: &Operand,
    node: NodeId,
    texts: &mut Vec<Cow<'a, str>>,
    visits: &mut u64,
) {
    let nodes = &message.document.nodes;
    match operand {
        Operand::Own => texts.push(string_value(message, node, visits)),
        Operand::Attribute(name) => {
            let attributes = message.document.attributes_of(node).iter();
            let named = attributes.filter(|attribute| attribute.name == *name);
            texts.extend(named.map(|attribute| message.attribute_value(attribute)));
        }
        Operand::Texts => {
            let children = message.document.children(node);
            let children = children.filter(|&child| nodes[child as usize].kind == NodeKind::Text);
            texts.extend(children.map(|child| message.text(child)));
        }
        Operand::Children(test) => {
            for child in message.document.children(node) {
                let child_node = &nodes[child as usize];
                *visits += 1;
                if child_node.kind == NodeKind::Element && test.accepts(child_node.name) {
                    texts.push(string_value(message, child, visits));
                }
            }
        }
        Operand::Nodes(_) | Operand::Text(_) | Operand::Number(_) | Operand::Typed(..) | Operand::Places(_) => {}
    }
}

/// Passes the texts of a part of the elements to which a path of names leads on to `work`, as [`read_short`] does.
pub(super) fn read_short_below(
    message: Message<'_>,
    node: NodeId,
    path: &[Name],
    key: &Operand,
    work: &mut impl FnMut(&str),
) -> Result<(), TooLong> {
    let Some((name, rest)) = path.split_first() else { return read_short(message, key, node, work) };
    let nodes = &message.document.nodes;
    let is_named = |&child: &NodeId| {
        let child = &nodes[child as usize];
        child.kind == NodeKind::Element && child.name == *name
    };
    let mut children = message.document.children(node).filter(is_named);
    children.try_for_each(|child| read_short_below(message, child, rest, key, work))
}

impl<'a> MessageRun<'a, '_> {
    /// Reads an operand at a node.
    pub(super) fn operand(&mut self, operand: OperandId, node: NodeId) -> Result<RecordIndex, EvalError> {
        self.operand_for(operand, node, None)
    }

    /// Reads an operand at a node, for a table in which its values are looked up.
    pub(super) fn operand_for(
        &mut self,
        operand: OperandId,
        node: NodeId,
        table: Option<&AccessTable>,
    ) -> Result<RecordIndex, EvalError> {
        let key = u64::from(operand.as_u32()) << 32 | u64::from(node);
        match self.memo.operands.get(key) {
            Some(FAILED) => return Err(self.budget_exceeded()),
            Some(record) => return Ok(RecordIndex(record)),
            None => {}
        }
        let start = self.values.texts.len();
        let mut record = OperandRecord::new(operand);
        let read = match self.memo.visits.get(operand.as_u32().into()) {
            Some(visits) if u64::from(visits) > self.costs.shared(self.memo.values_read) => Err(self.budget_exceeded()),
            _ => self.read(operand, (node, table), &mut record),
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

    /// Returns whether the string-value of an element may be a number, if that is the operand. Its beginning tells, so
    /// that nested elements do not cost the text below them over and over.
    pub(super) fn may_be_number(&self, operand: OperandId, node: NodeId) -> bool {
        let shared = self.query_index.shared.operand(operand);
        let is_own = shared.is_some_and(|shared| shared.operand == Operand::Own);
        !is_own || starts_like_a_number(self.message, node, &mut 0)
    }

    pub(super) fn budget_exceeded(&self) -> EvalError {
        EvalError::BudgetExceeded { visits_max: self.costs.query }
    }

    /// Has all queries pay that use an operand.
    pub(super) fn resume_operand(&self, operand: OperandId) {
        let users = || self.query_index.shared.users_of_operand(operand);
        self.evaluator.resume_shared(OPERAND_PAYERS + operand.as_u32(), users);
    }

    fn read(
        &mut self,
        operand: OperandId,
        (node, table): (NodeId, Option<&AccessTable>),
        record: &mut OperandRecord,
    ) -> Result<(), EvalError> {
        let Some(shared) = self.query_index.shared.operand(operand) else { return Ok(()) };
        let context = NodeRef::Node(node);
        let is_evaluated = match &shared.operand {
            Operand::Own | Operand::Attribute(_) | Operand::Texts | Operand::Children(_) => false,
            Operand::Typed(_, expr) => Operand::typed_source(expr).is_none(),
            Operand::Nodes(_) | Operand::Text(_) | Operand::Number(_) | Operand::Places(_) => true,
        };
        if is_evaluated && self.lacks_needed(shared.needed, node) {
            if let Operand::Number(_) = shared.operand {
                record.numbers = Some((0, 0));
            }
            return Ok(());
        }
        if is_evaluated {
            self.resume_operand(operand);
        }
        let OperandValues { texts, numbers, places, .. } = &mut self.values;
        let mut visits = 0;
        match &shared.operand {
            Operand::Own | Operand::Attribute(_) | Operand::Texts | Operand::Children(_) => {
                append_texts(self.message, &shared.operand, node, texts, &mut visits);
            }
            Operand::Typed(cast, expr) => {
                let start = numbers.len();
                if let Some((source, is_first)) = Operand::typed_source(expr) {
                    let from = texts.len();
                    append_texts(self.message, &source, node, texts, &mut visits);
                    let read = if is_first { texts.len().min(from + 1) } else { texts.len() };
                    let values = texts[from..read].iter().filter_map(|text| cast.parse(text));
                    numbers.extend(values.filter_map(|value| order_of(&value)));
                    texts.truncate(from);
                } else {
                    for value in self.evaluator.typed_values_at(expr, *cast, context)? {
                        numbers.extend(order_of(&value));
                    }
                }
                numbers[start..].sort_unstable();
                record.numbers = Some((start as u32, numbers.len() as u32));
            }
            Operand::Nodes(expr) => match shared.operand.words_of() {
                Some(arguments) => self.read_words(operand, arguments, (node, table), record)?,
                None => self.evaluator.append_texts_at(expr, context, texts)?,
            },
            Operand::Places(expr) => {
                let start = places.len() as u32;
                self.evaluator.append_places_at(expr, context, places)?;
                record.places = (start, places.len() as u32);
            }
            Operand::Text(expr) => {
                texts.push(self.evaluator.string_at(expr, context)?);
            }
            Operand::Number(expr) => {
                let number = number_key(self.evaluator.number_at(expr, context)?);
                let start = numbers.len() as u32;
                numbers.extend(number.map(ordered));
                record.numbers = Some((start, numbers.len() as u32));
            }
        }
        self.count_visits(operand, visits);
        Ok(())
    }

    fn count_visits(&mut self, operand: OperandId, visits: u64) {
        if visits > 0 {
            let before = self.memo.visits.get(operand.as_u32().into()).unwrap_or(0);
            let total = u64::from(before) + visits;
            self.memo.values_read += visits;
            self.memo.visits.insert(operand.as_u32().into(), u32::try_from(total).unwrap_or(u32::MAX));
        }
    }

    /// Returns whether an element has none below it that has a text which an operand needs.
    fn lacks_needed(&mut self, needed: Option<NeededText>, node: NodeId) -> bool {
        let Some(NeededText { elements, hash }) = needed else { return false };
        let Some(wanted) = self.query_index.shared.needed_elements(elements) else { return false };
        let message = self.message;
        let mut read = 0;
        let found = self.memo.needed.entry((elements, node)).or_insert_with(|| {
            let mut hashes = Vec::new();
            let mut append = |value: &str| hashes.push(hash_needed(value));
            read_short_below(message, node, &wanted.path, &wanted.key, &mut append).ok()?;
            read = hashes.len() as u64;
            hashes.sort_unstable();
            hashes.dedup();
            Some(hashes.into())
        });
        let lacks = found.as_ref().is_some_and(|hashes| hashes.binary_search(&hash).is_err());
        self.memo.values_read += read;
        lacks
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

    /// Returns how many values a record has that may be compared with a number, those that are none included.
    pub(super) fn count_of_values(&self, record: RecordIndex) -> usize {
        let OperandRecord { operand, texts, .. } = self.values.records[record.0 as usize];
        let shared = self.query_index.shared.operand(operand);
        match shared.map(|shared| &shared.operand) {
            Some(Operand::Number(_)) => 1,
            // Those of a type that are none of its values compare with nothing.
            Some(Operand::Typed(..)) => {
                self.values.records[record.0 as usize].numbers.map_or(0, |range| span(range).len())
            }
            _ => span(texts).len(),
        }
    }

    /// Returns the tests for texts that the values of a record equal, in order.
    pub(super) fn equalities_of(&mut self, record: RecordIndex) -> Range<usize> {
        let OperandRecord { operand, texts, equalities, .. } = self.values.records[record.0 as usize];
        if let Some(equalities) = equalities {
            return span(equalities);
        }
        let OperandValues { texts: all_texts, tests, .. } = &mut self.values;
        let start = tests.len();
        let shared = &self.query_index.shared;
        tests.extend(all_texts[span(texts)].iter().filter_map(|text| shared.equality(operand, text)));
        tests[start..].sort_unstable();
        // Of words, many come again and again.
        let mut end = start;
        for index in start..tests.len() {
            if end == start || tests[end - 1] != tests[index] {
                tests[end] = tests[index];
                end += 1;
            }
        }
        tests.truncate(end);
        self.values.records[record.0 as usize].equalities = Some((start as u32, end as u32));
        start..end
    }

    /// Returns the tests for texts that the values of a record contain, in order.
    pub(super) fn substrings_of(&mut self, record: RecordIndex) -> Result<Range<usize>, EvalError> {
        let OperandRecord { operand, texts, substrings, .. } = self.values.records[record.0 as usize];
        if let Some(substrings) = substrings {
            return Ok(span(substrings));
        }
        self.resume_operand(operand);
        let start = self.values.tests.len();
        for index in span(texts) {
            let text = &self.values.texts[index];
            self.evaluator.charge(visits_of(text))?;
            self.query_index.shared.append_substrings(operand, text, &mut self.values.tests);
        }
        self.values.tests[start..].sort_unstable();
        let end = self.values.tests.len();
        self.values.records[record.0 as usize].substrings = Some((start as u32, end as u32));
        Ok(start..end)
    }

    /// Returns whether an operand has a value at a node that compares so with a text, if that takes no more than a look.
    #[inline]
    fn short_test(&mut self, operand: OperandId, relation: &Relation, node: NodeId) -> Option<bool> {
        if !matches!(
            relation,
            Relation::Equals(_) | Relation::Differs(_) | Relation::NoneEquals(_) | Relation::StartsWith(_)
        ) {
            return None;
        }
        let shared = self.query_index.shared.operand(operand)?;
        if let Relation::Differs(texts) = relation
            && texts.len() > 1
        {
            return None;
        }
        let mut holds = false;
        let test = |value: &str| {
            holds |= match relation {
                Relation::Equals(text) => *value == **text,
                Relation::Differs(texts) => !has_text(texts, value),
                Relation::NoneEquals(texts) => has_text(texts, value),
                Relation::StartsWith(text) => value.starts_with(&**text),
                _ => false,
            };
        };
        read_short(self.message, &shared.operand, node, test).ok()?;
        self.memo.values_read += 1;
        Some(holds != matches!(relation, Relation::NoneEquals(_)))
    }

    /// Returns whether a value of a record is as a pattern says, or one of its places as a region asks, for which all queries
    /// pay that ask for it.
    fn verified(&self, test: ConditionId, record: RecordIndex, relation: &Relation) -> Result<bool, EvalError> {
        self.resume_condition(test);
        match relation {
            Relation::Matches(pattern) => {
                for value in self.values.texts(record) {
                    self.evaluator.charge((1 + visits_of(value)).saturating_mul(pattern.weight() as u64))?;
                    if pattern.is_match(value) {
                        return Ok(true);
                    }
                }
            }
            Relation::Region(question) => {
                for place in self.values.places_of(record) {
                    if self.evaluator.holds_of_geometry(question, place)? {
                        return Ok(true);
                    }
                }
            }
            _ => {}
        }
        Ok(false)
    }

    /// Returns whether an operand has a value at a node that compares so with a constant.
    pub(super) fn test_holds(
        &mut self,
        test: ConditionId,
        operand: OperandId,
        relation: &Relation,
        node: NodeId,
    ) -> Result<bool, EvalError> {
        if let Some(holds) = self.short_test(operand, relation, node) {
            return Ok(holds);
        }
        let record = self.operand(operand, node)?;
        if let Relation::Equals(_) = relation
            && (self.are_words(record) || self.values.texts(record).len() > COMPARED_MAX)
        {
            return Ok(self.has_equality(record, test));
        }
        self.read_texts(record, node)?;
        let texts = self.values.texts(record);
        Ok(match relation {
            Relation::Equals(text) => texts.iter().any(|value| *value == **text),
            Relation::Differs(others) => match texts {
                [] => false,
                [first, rest @ ..] => rest.iter().any(|value| value != first) || !has_text(others, first),
            },
            Relation::NoneEquals(others) => !texts.iter().any(|value| has_text(others, value)),
            Relation::StartsWith(prefix) => texts.iter().any(|value| value.starts_with(&**prefix)),
            Relation::Contains(_) => {
                let tests = self.substrings_of(record)?;
                self.memo.held.contains(tests.start, self.values.tests(tests), test)
            }
            Relation::Matches(_) | Relation::Region(_) => self.verified(test, record, relation)?,
            Relation::Within(NumberRange { low, high }) => {
                let numbers = self.numbers_of(record);
                let numbers = self.values.numbers(numbers);
                let first = numbers.partition_point(|number| number < low);
                numbers.get(first).is_some_and(|number| number <= high)
            }
            Relation::NoneWithin(NumberRange { low, high }) => {
                let numbers = self.numbers_of(record);
                let numbers = self.values.numbers(numbers);
                let first = numbers.partition_point(|number| number < low);
                numbers.get(first).is_none_or(|number| number > high)
            }
            Relation::Overlaps(NumberRange { low, high }) => {
                let numbers = self.numbers_of(record);
                let numbers = self.values.numbers(numbers);
                numbers.last().is_some_and(|number| number >= low) && numbers[0] <= *high
            }
            Relation::OtherNumber(bits) => {
                let count = self.count_of_values(record);
                let numbers = self.numbers_of(record);
                let (numbers, other) = (self.values.numbers(numbers), ordered(*bits));
                numbers.len() < count || numbers.iter().any(|&number| number != other)
            }
        })
    }
}
