//! Texts that values may start with, in order. Where they have few lengths, the beginnings of a value that have these are
//! looked up by their hashes instead.

use crate::ids::ConditionId;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The prefixes that an operand is tested for.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefixIndex {
    tests: BTreeMap<Box<str>, ConditionId>,
    /// The lengths in bytes that they have, and how many have each, ascending.
    lengths: Vec<(usize, u32)>,
}

/// So many lengths are few.
const LENGTHS_FEW: usize = 4;

impl PrefixIndex {
    pub(super) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    pub(super) fn insert(&mut self, prefix: &str, test: ConditionId) {
        if self.tests.insert(prefix.into(), test).is_some() {
            return;
        }
        match self.lengths.binary_search_by_key(&prefix.len(), |&(length, _)| length) {
            Ok(position) => self.lengths[position].1 += 1,
            Err(position) => self.lengths.insert(position, (prefix.len(), 1)),
        }
    }

    pub(super) fn remove(&mut self, prefix: &str) {
        if self.tests.remove(prefix).is_none() {
            return;
        }
        if let Ok(position) = self.lengths.binary_search_by_key(&prefix.len(), |&(length, _)| length) {
            self.lengths[position].1 -= 1;
            if self.lengths[position].1 == 0 {
                self.lengths.remove(position);
            }
        }
    }

    /// Returns the lengths in bytes of all prefixes, ascending, if these are few.
    pub(super) fn few_lengths(&self) -> Option<impl Iterator<Item = usize> + '_> {
        (self.lengths.len() <= LENGTHS_FEW).then(|| self.lengths.iter().map(|&(length, _)| length))
    }

    /// Appends the tests for the prefixes of a value.
    ///
    /// Of all texts up to the value, the greatest has as prefixes all those that the value itself has among them, since
    /// whatever lies between a prefix and the value begins with that prefix. So the next one to look for is what the two
    /// have in common, or what is shorter than the prefix that was found.
    pub(super) fn append_of(&self, value: &str, tests: &mut Vec<ConditionId>) {
        let mut rest = value;
        let mut bound = Bound::Included(rest);
        while let Some((text, &test)) = self.tests.range::<str, _>((Bound::Unbounded, bound)).next_back() {
            let common = common_length(text, rest);
            if common == text.len() {
                tests.push(test);
                rest = &value[..common];
                bound = Bound::Excluded(rest);
            } else {
                rest = &value[..common];
                bound = Bound::Included(rest);
            }
        }
    }

    /// Returns the bytes on the heap, by estimate.
    pub(super) fn bytes(&self) -> usize {
        self.tests.keys().map(|prefix| prefix.len() + 40).sum()
    }
}

/// Returns how many bytes two texts have in common at their beginnings, in whole characters.
fn common_length(a: &str, b: &str) -> usize {
    let mut common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    while !b.is_char_boundary(common) {
        common -= 1;
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_tests_of_its_prefixes() {
        let alphabet = ["a", "b", "\u{e9}", "\u{e8}"];
        let mut texts = vec![String::new()];
        for from in 0.. {
            let text: &String = &texts[from];
            if text.chars().count() == 4 {
                break;
            }
            let longer: Vec<String> = alphabet.iter().map(|letter| format!("{text}{letter}")).collect();
            texts.extend(longer);
        }
        for kept in [1, 2, 3, 7, 40] {
            let mut prefixes = PrefixIndex::default();
            texts.iter().enumerate().for_each(|(id, text)| prefixes.insert(text, ConditionId::new(id)));
            let is_kept = |id: usize| id > 0 && id.is_multiple_of(kept);
            texts.iter().enumerate().filter(|(id, _)| !is_kept(*id)).for_each(|(_, text)| prefixes.remove(text));
            for value in &texts {
                let mut tests = Vec::new();
                prefixes.append_of(value, &mut tests);
                tests.sort_unstable();
                let expected = texts.iter().enumerate().filter(|(id, text)| is_kept(*id) && value.starts_with(*text));
                let expected: Vec<_> = expected.map(|(id, _)| ConditionId::new(id)).collect();
                assert_eq!(tests, expected, "{value}, each {kept}th");
            }
        }
    }
}
