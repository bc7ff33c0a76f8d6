//! Which atoms an attribute satisfies: one look-up by its name, and mostly one by its value.

use std::sync::Arc;

use super::comparisons::Comparisons;
use super::values::{ComparedValues, NONE};
use crate::document::{Attribute, Message};
use crate::ids::AtomId;
use crate::plan::Constant;
use crate::query::ast::CompareOp;
use crate::vocabulary::Name;

/// The atoms about the attributes of one name.
#[derive(Clone, Debug)]
struct AttributeTests {
    name: Name,
    /// The next entry with the same local name, [`END`] if there is none.
    next: u32,
    exists: AtomId,
    values: Arc<ComparedValues>,
    comparisons: Option<Arc<Comparisons>>,
}

const END: u32 = u32::MAX;

/// All that queries ask of attributes.
#[derive(Clone, Debug, Default)]
pub(super) struct AttributeAtoms {
    /// The first entry of a local name. Names are never taken out: the vocabulary keeps them too.
    by_local: Vec<u32>,
    tests: Vec<AttributeTests>,
}

/// A value that an attribute is compared with.
#[derive(Clone, Copy, Debug)]
pub(super) enum AttributeValue<'a> {
    /// No value: the attribute only has to exist.
    Any,
    Text(&'a str),
    /// Bits of the number.
    Number(u64),
}

impl AttributeAtoms {
    #[inline]
    fn tests(&self, name: Name) -> Option<&AttributeTests> {
        let mut at = *self.by_local.get(name.local.index())?;
        loop {
            let asked = self.tests.get(at as usize)?;
            if asked.name == name {
                return Some(asked);
            }
            at = asked.next;
        }
    }

    fn tests_mut(&mut self, name: Name) -> &mut AttributeTests {
        let local = name.local.index();
        if self.by_local.len() <= local {
            self.by_local.resize(local + 1, END);
        }
        let mut at = self.by_local[local];
        while at != END && self.tests[at as usize].name != name {
            at = self.tests[at as usize].next;
        }
        if at == END {
            at = self.tests.len() as u32;
            let next = std::mem::replace(&mut self.by_local[local], at);
            self.tests.push(AttributeTests { name, next, exists: NONE, values: Arc::default(), comparisons: None });
        }
        &mut self.tests[at as usize]
    }

    /// Returns the atom of a value.
    pub(super) fn find(&self, name: Name, value: AttributeValue<'_>) -> Option<AtomId> {
        let asked = self.tests(name)?;
        let atom = match value {
            AttributeValue::Any => asked.exists,
            AttributeValue::Text(text) => asked.values.text(text),
            AttributeValue::Number(bits) => asked.values.number(bits),
        };
        (atom != NONE).then_some(atom)
    }

    /// Sets the atom of a value.
    pub(super) fn set(&mut self, name: Name, value: AttributeValue<'_>, atom: AtomId) {
        let asked = self.tests_mut(name);
        match value {
            AttributeValue::Any => asked.exists = atom,
            AttributeValue::Number(bits) => Arc::make_mut(&mut asked.values).set_number(bits, atom),
            AttributeValue::Text(text) => Arc::make_mut(&mut asked.values).set_text(text, atom),
        }
    }

    /// Removes the atom of a value.
    pub(super) fn unset(&mut self, name: Name, value: AttributeValue<'_>) {
        let asked = self.tests_mut(name);
        match value {
            AttributeValue::Any => asked.exists = NONE,
            AttributeValue::Number(bits) => Arc::make_mut(&mut asked.values).unset_number(bits),
            AttributeValue::Text(text) => Arc::make_mut(&mut asked.values).unset_text(text),
        }
    }

    /// Sets the atom of a comparison that is no equality.
    pub(super) fn set_comparison(&mut self, name: Name, op: CompareOp, constant: &Constant, atom: AtomId) {
        Arc::make_mut(self.tests_mut(name).comparisons.get_or_insert_default()).set(op, constant, atom);
    }

    /// Removes the atom of such a comparison.
    pub(super) fn unset_comparison(&mut self, name: Name, op: CompareOp, constant: &Constant) {
        if let Some(comparisons) = &mut self.tests_mut(name).comparisons {
            Arc::make_mut(comparisons).unset(op, constant);
        }
    }

    /// Returns the number of such comparisons of attributes of a name.
    pub(super) fn bounds(&self, name: Name) -> usize {
        self.tests(name).and_then(|asked| asked.comparisons.as_ref()).map_or(0, |comparisons| comparisons.len())
    }

    /// Appends the atoms of such comparisons that an attribute satisfies.
    pub(super) fn compared(&self, message: Message<'_>, attribute: &Attribute, atoms: &mut Vec<AtomId>) {
        if let Some(comparisons) = self.tests(attribute.name).and_then(|asked| asked.comparisons.as_ref()) {
            comparisons.of(&message.attribute_value(attribute), atoms);
        }
    }

    /// Appends the atoms that an attribute satisfies, but for those of comparisons that are no equality.
    #[inline]
    pub(super) fn of(&self, message: Message<'_>, attribute: &Attribute, atoms: &mut Vec<AtomId>) {
        let Some(asked) = self.tests(attribute.name) else { return };
        if asked.exists != NONE {
            atoms.push(asked.exists);
        }
        if attribute.encoded {
            asked.values.of(message.attribute_value(attribute).as_bytes(), atoms);
        } else {
            asked.values.of_span(message.source, attribute.value, atoms);
        }
    }

    /// Returns the bytes on the heap, by estimate.
    pub(super) fn bytes(&self) -> usize {
        let values: usize = self
            .tests
            .iter()
            .map(|asked| {
                let compared = asked.comparisons.as_ref().map_or(0, |comparisons| comparisons.bytes());
                asked.values.bytes() + compared
            })
            .sum();
        values + self.tests.capacity() * size_of::<AttributeTests>() + self.by_local.capacity() * 4
    }
}
