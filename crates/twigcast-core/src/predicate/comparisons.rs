//! Comparisons of an attribute or a string-value with constants by `<`, `<=`, `>`, `>=` and `!=`. Bounds are sorted, so the
//! bounds that a value satisfies are a range of them. A value satisfies all `!=` but the one with the equal constant.

use std::collections::BTreeMap;

use crate::ids::AtomId;
use crate::plan::{Constant, number_key};
use crate::query::ast::CompareOp;
use crate::util::number;

/// The atoms that compare the attributes of one name, or string-values.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparisons {
    /// `@a < b` and `@a <= b` by bound; after the exclusive bound the inclusive one.
    upper: BTreeMap<(u64, bool), AtomId>,
    /// `@a > b` and `@a >= b` by bound; after the inclusive bound the exclusive one.
    lower: BTreeMap<(u64, bool), AtomId>,
    /// `@a != 'v'`.
    other_texts: BTreeMap<Box<str>, AtomId>,
    /// `@a != n` by the bits of the number.
    other_numbers: BTreeMap<u64, AtomId>,
}

/// Returns a number, given by its bits and not NaN, as an integer of the same order.
fn ordered(bits: u64) -> u64 {
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

impl Comparisons {
    /// Returns the number of comparisons.
    pub(super) fn len(&self) -> usize {
        let Self { upper, lower, other_texts, other_numbers } = self;
        upper.len() + lower.len() + other_texts.len() + other_numbers.len()
    }

    /// Sets the atom of a comparison.
    pub(super) fn set(&mut self, op: CompareOp, constant: &Constant, atom: AtomId) {
        match (op, constant) {
            (CompareOp::Less | CompareOp::LessOrEqual, Constant::Number(bits)) => {
                self.upper.insert((ordered(*bits), op == CompareOp::LessOrEqual), atom);
            }
            (CompareOp::Greater | CompareOp::GreaterOrEqual, Constant::Number(bits)) => {
                self.lower.insert((ordered(*bits), op == CompareOp::Greater), atom);
            }
            (_, Constant::Number(bits)) => {
                self.other_numbers.insert(*bits, atom);
            }
            (_, Constant::Text(text)) => {
                self.other_texts.insert(text.clone(), atom);
            }
        }
    }

    /// Removes the atom of a comparison.
    pub(super) fn unset(&mut self, op: CompareOp, constant: &Constant) {
        match (op, constant) {
            (CompareOp::Less | CompareOp::LessOrEqual, Constant::Number(bits)) => {
                self.upper.remove(&(ordered(*bits), op == CompareOp::LessOrEqual));
            }
            (CompareOp::Greater | CompareOp::GreaterOrEqual, Constant::Number(bits)) => {
                self.lower.remove(&(ordered(*bits), op == CompareOp::Greater));
            }
            (_, Constant::Number(bits)) => {
                self.other_numbers.remove(bits);
            }
            (_, Constant::Text(text)) => {
                self.other_texts.remove(text);
            }
        }
    }

    /// Appends the atoms that a value satisfies.
    pub(super) fn of(&self, value: &str, atoms: &mut Vec<AtomId>) {
        atoms.extend(self.other_texts.iter().filter(|(text, _)| ***text != *value).map(|(_, &atom)| atom));
        if self.upper.is_empty() && self.lower.is_empty() && self.other_numbers.is_empty() {
            return;
        }
        let number = number_key(number::parse(value));
        // What is no number is unequal to every number, and in no order with any.
        atoms.extend(self.other_numbers.iter().filter(|(bits, _)| Some(**bits) != number).map(|(_, &atom)| atom));
        if let Some(position) = number.map(ordered) {
            atoms.extend(self.upper.range((position, true)..).map(|(_, &atom)| atom));
            atoms.extend(self.lower.range(..=(position, false)).map(|(_, &atom)| atom));
        }
    }

    /// Returns the bytes on the heap, by estimate.
    pub(super) fn bytes(&self) -> usize {
        let texts: usize = self.other_texts.keys().map(|text| text.len() + 40).sum();
        texts + (self.upper.len() + self.lower.len()) * 32 + self.other_numbers.len() * 24
    }
}

/// Returns whether a value compares so with a constant.
pub(super) fn holds(op: CompareOp, value: &str, constant: &Constant) -> bool {
    let bits = match constant {
        Constant::Text(text) => return *value != **text,
        Constant::Number(bits) => *bits,
    };
    is_ordered(op, number::parse(value), f64::from_bits(bits))
}

/// Returns whether a number compares so with another.
pub(super) fn is_ordered(op: CompareOp, number: f64, bound: f64) -> bool {
    match op {
        CompareOp::Less => number < bound,
        CompareOp::LessOrEqual => number <= bound,
        CompareOp::Greater => number > bound,
        CompareOp::GreaterOrEqual => number >= bound,
        CompareOp::Equal => number == bound,
        CompareOp::NotEqual => number != bound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_satisfies_the_comparisons_that_hold() {
        use CompareOp::{Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let numbers = [-1e300, -2.5, -1.0, 0.0, 0.5, 1.0, 2.0, 10.0, f64::INFINITY];
        let mut all = Vec::new();
        for op in [Less, LessOrEqual, Greater, GreaterOrEqual, NotEqual] {
            all.extend(numbers.iter().filter_map(|&number| Some((op, Constant::Number(number_key(number)?)))));
        }
        all.extend(["", "1", "1.0", "x"].map(|text| (NotEqual, Constant::Text(text.into()))));
        let mut comparisons = Comparisons::default();
        for kept in [1, 2, 3] {
            for (atom, (op, constant)) in all.iter().enumerate() {
                comparisons.unset(*op, constant);
                if atom % kept == 0 {
                    comparisons.set(*op, constant, AtomId::new(atom));
                }
            }
            for value in
                ["", "x", "1", "1.0", " 1 ", "-0", "0", "-1", "-2.50", "0.5", "3", "1e3", "99999999999999999999"]
            {
                let mut atoms = Vec::new();
                comparisons.of(value, &mut atoms);
                atoms.sort_unstable();
                let chosen = all.iter().enumerate().filter(|(atom, _)| atom % kept == 0);
                let expected: Vec<_> = chosen
                    .filter(|(_, (op, constant))| holds(*op, value, constant))
                    .map(|(atom, _)| AtomId::new(atom))
                    .collect();
                assert_eq!(atoms, expected, "{value:?}");
            }
        }
    }
}
