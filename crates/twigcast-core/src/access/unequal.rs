//! Tests that hold unless certain values occur: `!=`, and negated equalities.
//!
//! Each test waits at one of its constants, and is passed over where that occurs: where nearly all messages have the value
//! that queries exclude, none of these is looked at. A test of several constants waits at the one at which most do, since
//! what many exclude, many messages have; where another of its constants occurs, that is seen when it is visited.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::conditions::{SharedCondition, SharedConditions};
use crate::ids::ConditionId;
use crate::plan::{Relation, has_text};

/// Tests by the constant at which they wait.
type ByConstant<K> = FxHashMap<K, Vec<ConditionId>>;

/// The tests of one operand that ask for other values than theirs. See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct UnequalIndex {
    /// The operand is a number, of which there is always one: if what it is made of is not there, it is none, and other than all.
    is_number: bool,
    /// [`Relation::Differs`].
    differing: ByConstant<Box<str>>,
    /// [`Relation::NoneEquals`].
    none_equal: ByConstant<Box<str>>,
    /// [`Relation::OtherNumber`], by the number in the order of [`crate::plan::ordered`].
    other_numbers: ByConstant<u64>,
    /// [`Relation::NoneWithin`], of ranges that are one number.
    no_numbers: ByConstant<u64>,
}

/// The values that an operand has at an element.
#[derive(Clone, Copy, Debug)]
pub struct UnequalValues<'v, T> {
    /// Texts.
    pub texts: &'v [T],
    /// Numbers, in order.
    pub numbers: &'v [u64],
    /// The number of values, whether these are numbers or not.
    pub count: usize,
}

impl UnequalIndex {
    /// Returns an index without tests; `is_number`: of an operand that is a number.
    pub fn new(is_number: bool) -> Self {
        Self { is_number, ..Self::default() }
    }

    /// Returns whether a test belongs here.
    pub fn serves(relation: &Relation) -> bool {
        match relation {
            Relation::Differs(_) | Relation::NoneEquals(_) | Relation::OtherNumber(_) => true,
            Relation::NoneWithin(range) => range.is_point(),
            _ => false,
        }
    }

    /// Returns whether no test waits.
    pub fn is_empty(&self) -> bool {
        self.differing.is_empty()
            && self.none_equal.is_empty()
            && self.other_numbers.is_empty()
            && self.no_numbers.is_empty()
    }

    /// Returns whether tests hold where there is no value.
    pub fn asks_for_none(&self) -> bool {
        !self.none_equal.is_empty() || !self.no_numbers.is_empty() || self.is_number && !self.other_numbers.is_empty()
    }

    /// Returns whether tests compare values as numbers.
    pub fn asks_for_numbers(&self) -> bool {
        !self.other_numbers.is_empty() || !self.no_numbers.is_empty()
    }

    /// Lets a test wait.
    pub fn insert(&mut self, relation: &Relation, test: ConditionId) {
        match relation {
            Relation::Differs(texts) => insert_at_most_common(&mut self.differing, texts, test),
            Relation::NoneEquals(texts) => insert_at_most_common(&mut self.none_equal, texts, test),
            Relation::OtherNumber(bits) => {
                self.other_numbers.entry(crate::plan::ordered(*bits)).or_default().push(test)
            }
            Relation::NoneWithin(range) => self.no_numbers.entry(range.low).or_default().push(test),
            _ => {}
        }
    }

    /// Removes a test that waits.
    pub fn remove(&mut self, relation: &Relation, test: ConditionId) {
        let of_texts = |index: &mut ByConstant<Box<str>>, texts: &[Box<str>]| {
            _ = texts.iter().any(|text| remove_at(index, text, test));
        };
        match relation {
            Relation::Differs(texts) => of_texts(&mut self.differing, texts),
            Relation::NoneEquals(texts) => of_texts(&mut self.none_equal, texts),
            Relation::OtherNumber(bits) => _ = remove_at(&mut self.other_numbers, &crate::plan::ordered(*bits), test),
            Relation::NoneWithin(range) => _ = remove_at(&mut self.no_numbers, &range.low, test),
            _ => {}
        }
    }

    /// Appends the tests that hold of an element's values.
    pub fn append<T: AsRef<str>>(
        &self,
        values: UnequalValues<'_, T>,
        conditions: &SharedConditions,
        tests: &mut Vec<ConditionId>,
    ) {
        let UnequalValues { texts, numbers, count } = values;
        // None of the texts is in the list of a test.
        let is_other = |test: ConditionId, values: &[T]| match conditions.condition(test) {
            Some(SharedCondition::Test(_, Relation::Differs(listed) | Relation::NoneEquals(listed))) => {
                listed.len() == 1 || !values.iter().any(|value| has_text(listed, value.as_ref()))
            }
            _ => true,
        };
        if let Some((first, rest)) = texts.split_first()
            && !self.differing.is_empty()
        {
            let first = first.as_ref();
            let only: &[T] = if rest.iter().all(|value| value.as_ref() == first) { &texts[..1] } else { &[] };
            append_but(&self.differing, only.iter().map(AsRef::as_ref), |test| is_other(test, only), tests);
        }
        if !self.none_equal.is_empty() {
            let found = texts.iter().map(AsRef::as_ref);
            append_but(&self.none_equal, found, |test| is_other(test, texts), tests);
        }
        if count > 0 && !self.other_numbers.is_empty() {
            let is_only = numbers.len() == count && numbers.first() == numbers.last();
            let only = if is_only { &numbers[..1] } else { &[] };
            append_but(&self.other_numbers, only.iter(), |_| true, tests);
        }
        if !self.no_numbers.is_empty() {
            append_but(&self.no_numbers, numbers.iter(), |_| true, tests);
        }
    }

    /// Returns the bytes on the heap, by estimate.
    pub fn bytes(&self) -> usize {
        let by_text = [&self.differing, &self.none_equal].into_iter();
        let by_number = [&self.other_numbers, &self.no_numbers].into_iter();
        let tests = |tests: &Vec<ConditionId>| tests.capacity() * size_of::<ConditionId>();
        by_text
            .map(|index| {
                index.capacity() * (size_of::<(Box<str>, Vec<ConditionId>)>() + 1)
                    + index.iter().map(|(text, waiting)| text.len() + tests(waiting)).sum::<usize>()
            })
            .chain(by_number.map(|index| {
                index.capacity() * (size_of::<(u64, Vec<ConditionId>)>() + 1) + index.values().map(tests).sum::<usize>()
            }))
            .sum()
    }
}

fn insert_at_most_common(index: &mut ByConstant<Box<str>>, texts: &[Box<str>], test: ConditionId) {
    // Of several alike, the first.
    if let Some(text) = texts.iter().rev().max_by_key(|text| index.get(&***text).map_or(0, Vec::len)).cloned() {
        index.entry(text).or_default().push(test);
    }
}

/// Removes a test at one constant. Returns whether it was there.
fn remove_at<K, Q>(index: &mut ByConstant<K>, constant: &Q, test: ConditionId) -> bool
where
    K: Hash + Eq + std::borrow::Borrow<Q>,
    Q: Hash + Eq + ?Sized,
{
    let Some(waiting) = index.get_mut(constant) else { return false };
    let Some(position) = waiting.iter().rposition(|&existing| existing == test) else { return false };
    waiting.swap_remove(position);
    if waiting.is_empty() {
        index.remove(constant);
    }
    true
}

/// Appends the tests that wait at other constants than those that were found, if they hold.
fn append_but<'c, K, Q>(
    index: &ByConstant<K>,
    found: impl Iterator<Item = &'c Q>,
    holds: impl Fn(ConditionId) -> bool,
    tests: &mut Vec<ConditionId>,
) where
    K: Hash + Eq + std::borrow::Borrow<Q>,
    Q: Hash + Eq + ?Sized + 'c,
{
    let address = |waiting: &Vec<ConditionId>| std::ptr::from_ref(waiting).addr();
    let mut passed_over: Vec<usize> = found.filter_map(|constant| index.get(constant)).map(address).collect();
    passed_over.sort_unstable();
    passed_over.dedup();
    if passed_over.len() == index.len() {
        return;
    }
    for waiting in index.values().filter(|waiting| passed_over.binary_search(&address(waiting)).is_err()) {
        tests.extend(waiting.iter().copied().filter(|&test| holds(test)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{NumberRange, Operand, ValueTest, number_key, ordered};
    use crate::query::ast::{Expr, Path, PathStart};
    use crate::testing::Random;
    use crate::util::number::parse;

    fn texts(random: &mut Random) -> Box<[Box<str>]> {
        let mut texts: Vec<Box<str>> = (0..random.below(4) + 1).map(|_| random.below(5).to_string().into()).collect();
        texts.sort_unstable();
        texts.dedup();
        texts.into()
    }

    fn holds(relation: &Relation, values: &[String], numbers: &[u64], count: usize) -> bool {
        match relation {
            Relation::Differs(texts) => texts.iter().all(|text| values.iter().any(|value| *value != **text)),
            Relation::NoneEquals(texts) => texts.iter().all(|text| values.iter().all(|value| *value != **text)),
            Relation::OtherNumber(bits) => {
                numbers.len() < count || numbers.iter().any(|number| *number != ordered(*bits))
            }
            Relation::NoneWithin(range) => !numbers.contains(&range.low),
            _ => false,
        }
    }

    /// Tests come and go; those that hold of some values are found, whatever these are.
    #[test]
    fn tests_are_found_unless_values_exclude_them() {
        for seed in 1..200 {
            let (mut random, is_number) = (Random(seed), seed % 4 == 0);
            let number = Expr::Path(Path { start: PathStart::Root, steps: Vec::new() });
            let operand = if is_number { Operand::Number(Box::new(number)) } else { Operand::Own };
            let (mut conditions, mut index) = (SharedConditions::default(), UnequalIndex::new(is_number));
            let mut waiting: Vec<(ConditionId, Relation)> = Vec::new();
            for _ in 0..60 {
                let number = number_key(random.below(5) as f64).expect("a number");
                let point = NumberRange { low: ordered(number), high: ordered(number) };
                let relation = match random.below(if is_number { 2 } else { 4 }) {
                    0 => Relation::OtherNumber(number),
                    1 => Relation::NoneWithin(point),
                    2 => Relation::Differs(texts(&mut random)),
                    _ => Relation::NoneEquals(texts(&mut random)),
                };
                assert!(UnequalIndex::serves(&relation));
                let test = conditions.acquire_test(&ValueTest { operand: operand.clone(), relation: relation.clone() });
                if !waiting.iter().any(|(known, _)| *known == test) {
                    index.insert(&relation, test);
                    waiting.push((test, relation));
                }
                if random.below(3) == 0 {
                    let gone = random.below(waiting.len() as u64) as usize;
                    let (test, relation) = waiting.swap_remove(gone);
                    index.remove(&relation, test);
                }
                let values = ["0", "1", "2", "3", "4", "x", "1.0"];
                let texts: Vec<String> =
                    (0..random.below(4)).map(|_| values[random.below(7) as usize].to_owned()).collect();
                let texts = if is_number { texts.into_iter().take(1).collect() } else { texts };
                let count = if is_number { 1 } else { texts.len() };
                let mut numbers: Vec<u64> =
                    texts.iter().filter_map(|text| number_key(parse(text))).map(ordered).collect();
                numbers.sort_unstable();
                let mut found = Vec::new();
                index.append(UnequalValues { texts: &texts, numbers: &numbers, count }, &conditions, &mut found);
                found.sort_unstable();
                let holding = waiting.iter().filter(|(_, relation)| holds(relation, &texts, &numbers, count));
                let mut expected: Vec<ConditionId> = holding.map(|(test, _)| *test).collect();
                expected.sort_unstable();
                assert_eq!(found, expected, "seed {seed}: {texts:?}");
                assert!(!texts.is_empty() || index.asks_for_none() || expected.is_empty(), "seed {seed}");
            }
            waiting.drain(..).for_each(|(test, relation)| index.remove(&relation, test));
            assert!(index.is_empty());
        }
    }
}
