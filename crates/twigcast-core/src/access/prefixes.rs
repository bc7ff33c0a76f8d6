//! Texts that values may start with, in order.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::entry::ConditionId;

/// The prefixes that an operand is tested for.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefixIndex {
    tests: BTreeMap<Box<str>, ConditionId>,
}

impl PrefixIndex {
    pub(super) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    pub(super) fn insert(&mut self, prefix: &str, test: ConditionId) {
        self.tests.insert(prefix.into(), test);
    }

    pub(super) fn remove(&mut self, prefix: &str) {
        self.tests.remove(prefix);
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

    /// Returns bytes on the heap, by estimate.
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
            texts.iter().enumerate().for_each(|(id, text)| prefixes.insert(text, id as ConditionId));
            let is_kept = |id: usize| id > 0 && id.is_multiple_of(kept);
            texts.iter().enumerate().filter(|(id, _)| !is_kept(*id)).for_each(|(_, text)| prefixes.remove(text));
            for value in &texts {
                let mut tests = Vec::new();
                prefixes.append_of(value, &mut tests);
                tests.sort_unstable();
                let expected = texts.iter().enumerate().filter(|(id, text)| is_kept(*id) && value.starts_with(*text));
                let expected: Vec<_> = expected.map(|(id, _)| id as ConditionId).collect();
                assert_eq!(tests, expected, "{value}, each {kept}th");
            }
        }
    }
}
