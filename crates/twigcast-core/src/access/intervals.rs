//! Ranges of numbers, found by the numbers that they overlap.
//!
//! A sorted list cannot grow cheaply, so there are several, as in an LSM tree: what comes is kept apart until it is much,
//! then sorted; lists of like size are merged. Each list is an implicit tree of distinct ranges: the one in the middle is
//! the root, which knows the greatest end of all, and the two halves are its subtrees.

use std::sync::Arc;

use super::entry::AccessEntry;
use crate::plan::NumberRange;

/// Entries that are gone through one by one.
const UNSORTED_MAX: usize = 64;
/// Subtrees of so few entries too.
const LEAF_MAX: usize = 16;
/// A list is merged with the one before unless that is so many times as long.
const MERGED_FACTOR: usize = 4;

/// A range and what waits for a number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    range: NumberRange,
    entry: AccessEntry,
}

/// Distinct ranges by their least numbers, and the greatest number that each subtree reaches, by its root.
#[derive(Clone, Debug, Default)]
struct SortedIntervals {
    ranges: Vec<NumberRange>,
    greatest: Vec<u64>,
    /// The index at which the entries of each range begin, and one at which those of the last one end.
    starts: Vec<u32>,
    entries: Vec<AccessEntry>,
    /// The number of removed entries. They stay in the list, marked with [`REMOVED`], until it is sorted anew.
    removed: usize,
}

/// In place of the query of an entry that was removed.
const REMOVED: u32 = u32::MAX;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct IntervalIndex {
    /// Longer ones first.
    sorted: Vec<Arc<SortedIntervals>>,
    unsorted: Vec<Interval>,
}

impl SortedIntervals {
    fn of(mut intervals: Vec<Interval>) -> Self {
        intervals.sort_unstable_by_key(|Interval { range, entry }| (range.low, range.high, *entry));
        let mut sorted = Self::default();
        for group in intervals.chunk_by(|a, b| a.range == b.range) {
            sorted.ranges.push(group[0].range);
            sorted.starts.push(sorted.entries.len() as u32);
            sorted.entries.extend(group.iter().map(|interval| interval.entry));
        }
        sorted.starts.push(sorted.entries.len() as u32);
        sorted.greatest = vec![0; sorted.ranges.len()];
        sorted.measure(0, sorted.ranges.len());
        sorted
    }

    /// Sets the greatest numbers of a subtree, and returns that of its root.
    fn measure(&mut self, start: usize, end: usize) -> u64 {
        if start == end {
            return 0;
        }
        let root = usize::midpoint(start, end);
        let own = self.ranges[root].high;
        let greatest = own.max(self.measure(start, root)).max(self.measure(root + 1, end));
        self.greatest[root] = greatest;
        greatest
    }

    fn entries_of(&self, index: usize) -> std::ops::Range<usize> {
        self.starts[index] as usize..self.starts[index + 1] as usize
    }

    fn live(&self) -> impl Iterator<Item = Interval> + '_ {
        let all = self.ranges.iter().enumerate();
        let all = all.flat_map(|(index, &range)| {
            self.entries[self.entries_of(index)].iter().map(move |&entry| Interval { range, entry })
        });
        all.filter(|interval| interval.entry.query != REMOVED)
    }

    fn visit(&self, start: usize, end: usize, sought: NumberRange, visit: &mut impl FnMut(AccessEntry)) {
        let (mut start, end) = (start, end);
        while end - start > LEAF_MAX {
            let root = usize::midpoint(start, end);
            if self.greatest[root] < sought.low {
                return;
            }
            self.visit(start, root, sought, visit);
            if self.ranges[root].low > sought.high {
                return;
            }
            self.visit_leaf(root, sought, visit);
            start = root + 1;
        }
        (start..end).for_each(|index| self.visit_leaf(index, sought, visit));
    }

    #[inline]
    fn visit_leaf(&self, index: usize, sought: NumberRange, visit: &mut impl FnMut(AccessEntry)) {
        let range = self.ranges[index];
        if range.low <= sought.high && range.high >= sought.low {
            let entries = self.entries[self.entries_of(index)].iter();
            entries.filter(|entry| entry.query != REMOVED).for_each(|&entry| visit(entry));
        }
    }

    /// Visits the entries of the ranges between two positions.
    fn visit_ranges(&self, start: usize, end: usize, visit: &mut impl FnMut(AccessEntry)) {
        if start < end {
            let entries = self.entries[self.starts[start] as usize..self.starts[end] as usize].iter();
            entries.filter(|entry| entry.query != REMOVED).for_each(|&entry| visit(entry));
        }
    }

    /// Returns the index of an entry.
    fn position(&self, Interval { range, entry }: Interval) -> Option<usize> {
        let key = |range: &NumberRange| (range.low, range.high);
        let entries = self.entries_of(self.ranges.binary_search_by_key(&key(&range), key).ok()?);
        let position = self.entries[entries.clone()].iter().position(|existing| *existing == entry)?;
        Some(entries.start + position)
    }

    /// Marks an entry as removed.
    fn remove(&mut self, position: usize) {
        self.entries[position].query = REMOVED;
        self.removed += 1;
    }
}

impl IntervalIndex {
    /// Returns whether nothing is waiting.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty() && self.unsorted.is_empty()
    }

    /// Adds an entry.
    pub fn insert(&mut self, range: NumberRange, entry: AccessEntry) {
        self.unsorted.push(Interval { range, entry });
        if self.unsorted.len() > UNSORTED_MAX {
            let mut entries = std::mem::take(&mut self.unsorted);
            while let Some(shortest) = self.sorted.pop_if(|list| list.entries.len() < MERGED_FACTOR * entries.len()) {
                entries.extend(shortest.live());
            }
            self.sorted.push(Arc::new(SortedIntervals::of(entries)));
        }
    }

    /// Removes an entry. Returns whether it was there.
    pub fn remove(&mut self, range: NumberRange, entry: AccessEntry) -> bool {
        let sought = Interval { range, entry };
        if let Some(position) = self.unsorted.iter().position(|existing| *existing == sought) {
            self.unsorted.swap_remove(position);
            return true;
        }
        let position = |(index, list): (usize, &Arc<SortedIntervals>)| Some((index, list.position(sought)?));
        let Some((index, position)) = self.sorted.iter().enumerate().find_map(position) else { return false };
        let list = Arc::make_mut(&mut self.sorted[index]);
        list.remove(position);
        if list.removed * 2 > list.entries.len() {
            let mut entries: Vec<_> = list.live().collect();
            if entries.len() <= UNSORTED_MAX / 2 {
                self.unsorted.append(&mut entries);
                self.sorted.remove(index);
            } else {
                self.sorted[index] = Arc::new(SortedIntervals::of(entries));
            }
        }
        true
    }

    /// Visits the entries whose ranges overlap one.
    pub fn for_each_overlapping(&self, sought: NumberRange, mut visit: impl FnMut(AccessEntry)) {
        for list in &self.sorted {
            list.visit(0, list.ranges.len(), sought, &mut visit);
        }
        for Interval { range, entry } in &self.unsorted {
            if range.low <= sought.high && range.high >= sought.low {
                visit(*entry);
            }
        }
    }

    /// Visits the entries of ranges whose least number is above one, if given, and not above another.
    pub fn for_each_from(&self, above: Option<u64>, to: u64, mut visit: impl FnMut(AccessEntry)) {
        let is_seen = |range: &NumberRange| above.is_some_and(|above| range.low <= above);
        for list in &self.sorted {
            let start = list.ranges.partition_point(is_seen);
            let end = list.ranges.partition_point(|range| range.low <= to);
            list.visit_ranges(start, end, &mut visit);
        }
        for Interval { range, entry } in &self.unsorted {
            if range.low <= to && !is_seen(range) {
                visit(*entry);
            }
        }
    }

    /// Visits the entries of ranges whose greatest number is below one, if given, and not below another, where the least
    /// numbers of all are equal.
    pub fn for_each_up_to(&self, from: u64, below: Option<u64>, mut visit: impl FnMut(AccessEntry)) {
        let is_new = |range: &NumberRange| below.is_none_or(|below| range.high < below);
        for list in &self.sorted {
            let start = list.ranges.partition_point(|range| range.high < from);
            let end = list.ranges.partition_point(is_new);
            list.visit_ranges(start, end, &mut visit);
        }
        for Interval { range, entry } in &self.unsorted {
            if range.high >= from && is_new(range) {
                visit(*entry);
            }
        }
    }

    /// Visits all entries.
    pub fn for_each(&self, mut visit: impl FnMut(AccessEntry)) {
        let sorted = self.sorted.iter().flat_map(|list| list.live());
        sorted.chain(self.unsorted.iter().copied()).for_each(|interval| visit(interval.entry));
    }

    /// Returns the bytes on the heap.
    pub fn bytes(&self) -> usize {
        let sorted =
            self.sorted.iter().map(|list| list.entries.capacity() * (size_of::<Interval>() + size_of::<u64>()));
        sorted.sum::<usize>() + self.unsorted.capacity() * size_of::<Interval>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ConditionId;
    use crate::testing::Random;

    /// Numbers in any order lead to each range without one of its bounds once, as soon as one of them is in it.
    #[test]
    fn open_ranges_are_visited_once() {
        for seed in 1..8_u64 {
            println!("seed {seed}");
            let mut numbers = Random(seed);
            let mut random = move |bound: u64| numbers.below(bound);
            let (mut above, mut below) = (IntervalIndex::default(), IntervalIndex::default());
            let bounds: Vec<u64> = (0..500 * seed).map(|_| 1 + random(300)).collect();
            for (query, &bound) in (0..).zip(&bounds) {
                let entry = AccessEntry { query, residual: ConditionId::NONE };
                above.insert(NumberRange { low: bound, high: 1_000 }, entry);
                below.insert(NumberRange { low: 0, high: bound }, entry);
            }
            let (mut seen_above, mut seen_below) = (Vec::new(), Vec::new());
            let (mut greatest, mut least) = (None, None);
            for _ in 0..20 {
                let number = random(310);
                above.for_each_from(greatest, number, |entry| seen_above.push(entry.query));
                below.for_each_up_to(number, least, |entry| seen_below.push(entry.query));
                greatest = greatest.max(Some(number));
                least = Some(least.map_or(number, |least: u64| least.min(number)));
                let expected = |holds: &dyn Fn(u64) -> bool| -> Vec<u32> {
                    (0..).zip(&bounds).filter(|(_, bound)| holds(**bound)).map(|(query, _)| query).collect()
                };
                seen_above.sort_unstable();
                seen_below.sort_unstable();
                assert_eq!(seen_above, expected(&|bound| Some(bound) <= greatest));
                assert_eq!(seen_below, expected(&|bound| Some(bound) >= least));
            }
        }
    }

    #[test]
    fn ranges_are_found_by_the_numbers_they_overlap() {
        for seed in 1..12_u64 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let (mut index, mut live) = (IntervalIndex::default(), Vec::new());
            for query in 0..1_500 {
                let low = random.below(200);
                // Some ranges have no number in them.
                let range = NumberRange { low, high: (low + random.below(60)).saturating_sub(random.below(8)) };
                let entry = AccessEntry { query, residual: ConditionId::from_u32(random.below(3) as u32) };
                index.insert(range, entry);
                live.push(Interval { range, entry });
                while !live.is_empty() && random.below(seed) < 2 && random.below(3) > 0 {
                    let gone = live.swap_remove(random.below(live.len() as u64) as usize);
                    assert!(index.remove(gone.range, gone.entry));
                    assert!(!index.remove(gone.range, gone.entry));
                }
                let low = random.below(220);
                let sought = NumberRange { low, high: low + random.below(3) * random.below(20) };
                let overlaps = |at: &&Interval| at.range.low <= sought.high && at.range.high >= sought.low;
                let mut expected: Vec<u32> = live.iter().filter(overlaps).map(|at| at.entry.query).collect();
                let mut visited = Vec::new();
                index.for_each_overlapping(sought, |entry| visited.push(entry.query));
                expected.sort_unstable();
                visited.sort_unstable();
                assert_eq!(visited, expected);
            }
            assert_eq!(index.is_empty(), live.is_empty());
        }
    }
}
