//! Atoms: the distinct values that conditions of queries ask for, and which of them an element of a message satisfies.

use std::borrow::Cow;
use std::sync::Arc;

use super::attributes::{AttributeAtoms, AttributeValue};
use super::comparisons::{self, Comparisons};
use super::values::{ComparedValues, NONE};
use crate::document::{Attribute, Message, NodeId, NodeKind};
use crate::eval::text::visits_of;
use crate::ids::AtomId;
use crate::plan::{ConditionValue, Constant, number_key};
use crate::util::chunked::Chunked;
use crate::util::cow_map::CowMap;
use crate::util::number;
use crate::vocabulary::Name;

#[derive(Clone, Debug)]
struct Atom {
    value: ConditionValue,
    uses: u32,
}

/// Atoms by half their numbers. Chunks are small, since copying one clones its atoms one by one.
type AtomEntries = Chunked<Option<Atom>, 512>;

/// All atoms in use.
#[derive(Clone, Debug, Default)]
pub struct Atoms {
    /// By half the atom's number.
    atoms: AtomEntries,
    free: Chunked<u32>,
    /// The same for comparisons and negations.
    comparisons: AtomEntries,
    free_comparisons: Chunked<u32>,
    comparison_ids: CowMap<ConditionValue, AtomId>,
    /// The number of negations among these.
    negations: usize,
    attributes: AttributeAtoms,
    texts: Arc<ComparedValues>,
    values: CowMap<Box<str>, AtomId>,
    value_numbers: CowMap<u64, AtomId>,
    ordered_values: Arc<Comparisons>,
    /// Longest text that some value atom has: a longer string-value equals none of them.
    value_bytes_max: usize,
}

impl Atoms {
    /// Returns the atom of a value, with one more use. No atom has the number 0, so that a packed condition is never 0.
    pub fn acquire(&mut self, value: &ConditionValue) -> AtomId {
        if let Some(id) = self.find(value) {
            if let Some(atom) = self.entry_mut(id) {
                atom.uses += 1;
            }
            return id;
        }
        if self.atoms.is_empty() {
            self.atoms.push(None);
        }
        let atom = Atom { value: value.clone(), uses: 1 };
        let id = match value {
            ConditionValue::AttributeCompared(..) | ConditionValue::ValueOrdered(..) | ConditionValue::Not(_) => {
                AtomId::from_u32(insert(&mut self.comparisons, &mut self.free_comparisons, atom) << 1 | 1)
            }
            _ => AtomId::from_u32(insert(&mut self.atoms, &mut self.free, atom) << 1),
        };
        match value {
            ConditionValue::AttributeCompared(name, op, constant) => {
                self.comparison_ids.insert(value.clone(), id);
                self.attributes.set_comparison(*name, *op, constant, id);
            }
            ConditionValue::ValueOrdered(op, bits) => {
                self.comparison_ids.insert(value.clone(), id);
                Arc::make_mut(&mut self.ordered_values).set(*op, &Constant::Number(*bits), id);
            }
            ConditionValue::Not(_) => {
                self.comparison_ids.insert(value.clone(), id);
                self.negations += 1;
            }
            ConditionValue::AttributeExists(name) => self.attributes.set(*name, AttributeValue::Any, id),
            ConditionValue::AttributeText(name, text) => self.attributes.set(*name, AttributeValue::Text(text), id),
            ConditionValue::AttributeNumber(name, bits) => {
                self.attributes.set(*name, AttributeValue::Number(*bits), id)
            }
            ConditionValue::Text(text) => Arc::make_mut(&mut self.texts).set_text(text, id),
            ConditionValue::TextNumber(bits) => Arc::make_mut(&mut self.texts).set_number(*bits, id),
            ConditionValue::Value(text) => {
                self.value_bytes_max = self.value_bytes_max.max(text.len());
                self.values.insert(text.clone(), id);
            }
            ConditionValue::ValueNumber(bits) => {
                self.value_numbers.insert(*bits, id);
            }
        }
        id
    }

    /// Returns an id that is above those of all atoms, comparisons excepted.
    #[inline]
    pub fn bound(&self) -> AtomId {
        AtomId::new(self.atoms.len() << 1)
    }

    fn entry(&self, id: AtomId) -> Option<&Atom> {
        let atoms = if id.is_comparison() { &self.comparisons } else { &self.atoms };
        atoms.get(id.index() >> 1)?.as_ref()
    }

    /// Returns the value of an atom.
    pub fn value(&self, id: AtomId) -> Option<&ConditionValue> {
        self.entry(id).map(|atom| &atom.value)
    }

    fn entry_mut(&mut self, id: AtomId) -> Option<&mut Atom> {
        let atoms = if id.is_comparison() { &mut self.comparisons } else { &mut self.atoms };
        atoms.get_mut(id.index() >> 1)?.as_mut()
    }

    fn find(&self, value: &ConditionValue) -> Option<AtomId> {
        match value {
            ConditionValue::AttributeCompared(..) | ConditionValue::ValueOrdered(..) | ConditionValue::Not(_) => {
                self.comparison_ids.get(value).copied()
            }
            ConditionValue::AttributeExists(name) => self.attributes.find(*name, AttributeValue::Any),
            ConditionValue::AttributeText(name, text) => self.attributes.find(*name, AttributeValue::Text(text)),
            ConditionValue::AttributeNumber(name, bits) => self.attributes.find(*name, AttributeValue::Number(*bits)),
            ConditionValue::Text(text) => Some(self.texts.text(text)).filter(|&id| id != NONE),
            ConditionValue::TextNumber(bits) => Some(self.texts.number(*bits)).filter(|&id| id != NONE),
            ConditionValue::Value(text) => self.values.get(text).copied(),
            ConditionValue::ValueNumber(bits) => self.value_numbers.get(bits).copied(),
        }
    }

    /// Ends one use of an atom. The last one removes it.
    pub fn release(&mut self, id: AtomId) {
        let Some(atom) = self.entry_mut(id) else { return };
        atom.uses -= 1;
        if atom.uses > 0 {
            return;
        }
        let (atoms, free) = match id.is_comparison() {
            true => (&mut self.comparisons, &mut self.free_comparisons),
            false => (&mut self.atoms, &mut self.free),
        };
        let Some(atom) = atoms[id.index() >> 1].take() else { return };
        free.push(id.as_u32() >> 1);
        match atom.value {
            ConditionValue::AttributeCompared(name, op, ref constant) => {
                self.attributes.unset_comparison(name, op, constant);
                self.comparison_ids.remove(&atom.value);
            }
            ConditionValue::ValueOrdered(op, bits) => {
                Arc::make_mut(&mut self.ordered_values).unset(op, &Constant::Number(bits));
                self.comparison_ids.remove(&atom.value);
            }
            ConditionValue::Not(_) => {
                self.comparison_ids.remove(&atom.value);
                self.negations -= 1;
            }
            ConditionValue::AttributeExists(name) => self.attributes.unset(name, AttributeValue::Any),
            ConditionValue::AttributeText(name, text) => self.attributes.unset(name, AttributeValue::Text(&text)),
            ConditionValue::AttributeNumber(name, bits) => self.attributes.unset(name, AttributeValue::Number(bits)),
            ConditionValue::Text(text) => Arc::make_mut(&mut self.texts).unset_text(&text),
            ConditionValue::TextNumber(bits) => Arc::make_mut(&mut self.texts).unset_number(bits),
            ConditionValue::Value(text) => {
                self.values.remove(&text);
            }
            ConditionValue::ValueNumber(bits) => {
                self.value_numbers.remove(&bits);
            }
        }
    }

    /// Returns whether any value is excluded.
    pub fn has_negations(&self) -> bool {
        self.negations > 0
    }

    /// Returns how many comparisons by order or inequality there are of attributes of a name.
    pub fn bounds(&self, name: Name) -> usize {
        self.attributes.bounds(name)
    }

    /// Returns how many times an atom that is an attribute's value is asked for; `None` for atoms of other kinds.
    pub fn uses_of_value(&self, id: AtomId) -> Option<u32> {
        let atom = self.entry(id)?;
        matches!(atom.value, ConditionValue::AttributeText(..) | ConditionValue::AttributeNumber(..))
            .then_some(atom.uses)
    }

    /// Appends the attribute atoms that one attribute satisfies.
    #[inline]
    pub fn of_attribute(&self, message: Message<'_>, attribute: &Attribute, atoms: &mut Vec<AtomId>) {
        self.attributes.of(message, attribute, atoms);
    }

    /// Appends the comparisons that one attribute satisfies.
    pub fn comparisons_of(&self, message: Message<'_>, attribute: &Attribute, atoms: &mut Vec<AtomId>) {
        self.attributes.compared(message, attribute, atoms);
    }

    /// Returns whether an element satisfies an atom that is a comparison or a negation. What is read for it is added to
    /// `visits`.
    pub fn comparison_holds(&self, message: Message<'_>, element: NodeId, id: AtomId, visits: &mut u64) -> bool {
        self.entry(id).is_some_and(|atom| holds(message, element, &atom.value, visits))
    }

    /// Appends the comparisons by order that an element's string-value satisfies; where there are more bounds than a
    /// table has conditions, those among the table's: `of_table` is the number of its conditions, and its comparisons.
    /// What is read for it is added to `visits`.
    pub fn ordered_values_of(
        &self,
        message: Message<'_>,
        element: NodeId,
        of_table: (usize, impl Iterator<Item = AtomId>),
        atoms: &mut Vec<AtomId>,
        visits: &mut u64,
    ) {
        if !starts_like_a_number(message, element, visits) {
            return;
        }
        let value = string_value(message, element, visits);
        if self.ordered_values.len() <= of_table.0 {
            self.ordered_values.of(&value, atoms);
            return;
        }
        let number = number::parse(&value);
        atoms.extend(of_table.1.filter(|&id| {
            self.entry(id).is_some_and(|atom| match &atom.value {
                ConditionValue::ValueOrdered(op, bits) => comparisons::is_ordered(*op, number, f64::from_bits(*bits)),
                _ => false,
            })
        }));
    }

    /// Appends the text and value atoms that an element satisfies, comparisons by order excepted. What is read for it is
    /// added to `visits`, text children aside: they are no other element's.
    pub fn of_content(&self, message: Message<'_>, element: NodeId, atoms: &mut Vec<AtomId>, visits: &mut u64) {
        if !self.texts.is_empty() {
            let start = atoms.len();
            for child in message.document.children(element) {
                let node = &message.document.nodes[child as usize];
                match node.kind {
                    NodeKind::Text if node.encoded => self.texts.of(message.text(child).as_bytes(), atoms),
                    NodeKind::Text => self.texts.of_span(message.source, node.span, atoms),
                    _ => {}
                }
            }
            if atoms.len() > start + 1 {
                atoms[start..].sort_unstable();
                dedup_from(atoms, start);
            }
        }
        if !self.values.is_empty()
            && let Some(value) = string_value_up_to(message, element, self.value_bytes_max, visits)
        {
            atoms.extend(self.values.get(value.as_ref()));
        }
        if !self.value_numbers.is_empty() && starts_like_a_number(message, element, visits) {
            let value = string_value(message, element, visits);
            atoms.extend(number_key(number::parse(&value)).and_then(|bits| self.value_numbers.get(&bits)));
        }
    }

    /// Returns whether the atom is about an element's text rather than an attribute.
    pub fn is_content(&self, id: AtomId) -> bool {
        self.entry(id).is_some_and(|atom| {
            matches!(
                atom.value,
                ConditionValue::Text(_)
                    | ConditionValue::TextNumber(_)
                    | ConditionValue::Value(_)
                    | ConditionValue::ValueNumber(_)
                    | ConditionValue::ValueOrdered(..)
            )
        })
    }

    /// Returns the bytes on the heap, by estimate.
    pub fn bytes(&self) -> usize {
        let strings: usize = self
            .atoms
            .iter()
            .chain(self.comparisons.iter())
            .flatten()
            .map(|atom| match &atom.value {
                ConditionValue::AttributeText(_, text) => text.len(),
                ConditionValue::Text(text) | ConditionValue::Value(text) => 2 * text.len() + 40,
                _ => 20,
            })
            .sum();
        strings + self.atoms.bytes() + self.comparisons.bytes() + self.attributes.bytes() + self.texts.bytes()
    }
}

fn insert(atoms: &mut AtomEntries, free: &mut Chunked<u32>, atom: Atom) -> u32 {
    match free.pop() {
        Some(position) => {
            atoms[position as usize] = Some(atom);
            position
        }
        None => {
            atoms.push(Some(atom));
            atoms.len() as u32 - 1
        }
    }
}

/// Returns whether an element satisfies a value that is about attributes or a comparison by order.
fn holds(message: Message<'_>, element: NodeId, value: &ConditionValue, visits: &mut u64) -> bool {
    let any = |name: Name, test: &dyn Fn(&str) -> bool| {
        let mut attributes = message.document.attributes_of(element).iter();
        attributes.any(|attribute| attribute.name == name && test(&message.attribute_value(attribute)))
    };
    match value {
        ConditionValue::AttributeExists(name) => any(*name, &|_| true),
        ConditionValue::AttributeText(name, text) => any(*name, &|value| *value == **text),
        ConditionValue::AttributeNumber(name, bits) => {
            any(*name, &|value| number_key(number::parse(value)) == Some(*bits))
        }
        ConditionValue::AttributeCompared(name, op, constant) => {
            any(*name, &|value| comparisons::holds(*op, value, constant))
        }
        ConditionValue::Not(value) => !holds(message, element, value, visits),
        ConditionValue::ValueOrdered(op, bits) => {
            starts_like_a_number(message, element, visits)
                && comparisons::holds(*op, &string_value(message, element, visits), &Constant::Number(*bits))
        }
        // Not of these, and never asked.
        ConditionValue::Text(_)
        | ConditionValue::TextNumber(_)
        | ConditionValue::Value(_)
        | ConditionValue::ValueNumber(_) => false,
    }
}

fn dedup_from(list: &mut Vec<AtomId>, start: usize) {
    let mut kept = start;
    for index in start..list.len() {
        if kept == start || list[index] != list[kept - 1] {
            list[kept] = list[index];
            kept += 1;
        }
    }
    list.truncate(kept);
}

/// Returns the string-value of an element.
fn string_value<'a>(message: Message<'a>, element: NodeId, visits: &mut u64) -> Cow<'a, str> {
    let value = message.string_value(element);
    *visits += u64::from(message.document.nodes[element as usize].end - element) + visits_of(&value);
    value
}

/// Returns the string-value of an element, unless it is longer than `bytes_max`.
fn string_value_up_to<'a>(
    message: Message<'a>,
    element: NodeId,
    bytes_max: usize,
    visits: &mut u64,
) -> Option<Cow<'a, str>> {
    let mut value = Cow::Borrowed("");
    for node in element..message.document.nodes[element as usize].end {
        *visits += 1;
        if message.document.nodes[node as usize].kind != NodeKind::Text {
            continue;
        }
        let text = message.text(node);
        if value.len() + text.len() > bytes_max {
            return None;
        }
        *visits += visits_of(&text);
        if value.is_empty() { value = text } else { value.to_mut().push_str(&text) }
    }
    Some(value)
}

/// Returns whether the string-value could be a number. Looks no further than the first character that is not white space,
/// so that nested elements do not cost the text below them over and over.
pub fn starts_like_a_number(message: Message<'_>, element: NodeId, visits: &mut u64) -> bool {
    for node in element..message.document.nodes[element as usize].end {
        *visits += 1;
        if message.document.nodes[node as usize].kind != NodeKind::Text {
            continue;
        }
        let text = message.text(node);
        let rest = text.trim_start_matches([' ', '\t', '\r', '\n']);
        *visits += visits_of(&text[..text.len() - rest.len()]);
        if let Some(first) = rest.chars().next() {
            return first == '-' || first == '.' || first.is_ascii_digit();
        }
    }
    false
}
