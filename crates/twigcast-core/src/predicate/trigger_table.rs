//! The triggers of one automaton state by the condition they wait for.

use crate::ids::{AtomId, BranchId};
use std::sync::atomic::{AtomicU64, Ordering};

use super::packed::{self, Distances, PackedCondition};
use super::waiters::{IndexedTrigger, MultiConditionWaiters, WaitList, Waiter, WaiterKind};

/// An open hash table from packed value conditions to lists of waiters.
///
/// There are many tables, and most lookups go to one that is not in the processor's cache, so what counts is how few
/// lines of it a lookup touches: a bit of the filter for a condition that is not there, mostly one bucket for one that is (a
/// lone query stands in the bucket itself), and one list.
#[derive(Clone, Debug, Default)]
pub struct TriggerTable {
    /// A bit for each condition, several conditions sharing one now and then. A power of two of words.
    filter: Box<[u64]>,
    /// Conditions and where their lists begin in `lists`, or [`LONE`] and a query. Condition 0: free. A power of two of them.
    buckets: Box<[(PackedCondition, u32)]>,
    conditions: u32,
    /// Lists: the number of words; how many of them are queries of which nothing else is asked; these queries; then the
    /// other [`Waiter`]s as [`Waiter::write`] puts them, those that ask for nothing but a branch first. Each lies in a
    /// block of the power of two of words that it needs.
    lists: Vec<u32>,
    /// First free block by the logarithm of its size; a free block begins with the next one.
    free: Vec<u32>,
    /// Distances in use (or once in use).
    distances: Distances,
    /// The same for conditions that are comparisons.
    comparisons: Distances,
    /// The same for the further conditions that are none.
    also_distances: Distances,
    /// Some trigger asks (or once asked) for a branch.
    asks_branches: bool,
    /// Another number after each change. No two tables have the same one, unless one is an unchanged clone of the other: so
    /// caches know by it which table, in which state, they are about.
    revision: u64,
}

static NEXT_REVISION: AtomicU64 = AtomicU64::new(1);

const FILTER_BITS_PER_KEY: usize = 8;
/// Tables with so many buckets are in the cache anyhow.
const CACHED_MAX: usize = 128;
const LONE: u32 = 1 << 31;
const END: u32 = u32::MAX;

#[inline]
fn mix(condition: PackedCondition) -> u64 {
    u64::from(condition).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
}

/// Returns the size, in words, of the block for a list of so many words.
fn block_of(words: usize) -> usize {
    (words + 1).next_power_of_two()
}

impl TriggerTable {
    /// Returns the table of these triggers.
    pub fn new(mut entries: Vec<IndexedTrigger>) -> Self {
        // In the order of lists. Whether a query comes before another does not matter, but that it is always the same.
        entries.sort_unstable_by_key(|entry| {
            let Waiter { query, also, below, trigger } = entry.waiting;
            (entry.condition, entry.waiting.kind(), query, also, below, trigger)
        });
        let conditions = entries.chunk_by(|a, b| a.condition == b.condition).count();
        let mut table = Self::default();
        table.rebuild(conditions);
        let mut words = Vec::new();
        for group in entries.chunk_by(|a, b| a.condition == b.condition) {
            group.iter().for_each(|entry| table.note_distances(entry));
            let position = match group {
                [only] if only.waiting.is_lone() => only.waiting.query | LONE,
                _ => {
                    words.clear();
                    words.push(group.partition_point(|entry| entry.waiting.is_lone()) as u32);
                    group.iter().for_each(|entry| entry.waiting.write(&mut words));
                    table.new_list(&words)
                }
            };
            table.set(group[0].condition, position);
        }
        table.lists.shrink_to_fit();
        table.change();
        table
    }

    /// Gives the table another revision, since what waits has changed.
    fn change(&mut self) {
        self.revision = NEXT_REVISION.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the revision of the table: another one after each change, by which caches know the table as it is now.
    #[inline]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns whether any trigger asks for a branch.
    #[inline]
    pub fn asks_branches(&self) -> bool {
        self.asks_branches
    }

    fn note_distances(&mut self, entry: &IndexedTrigger) {
        self.asks_branches |= entry.waiting.below != BranchId::NONE;
        if packed::is_comparison(entry.condition) { &mut self.comparisons } else { &mut self.distances }
            .insert(entry.condition);
        if let Some(also) = entry.waiting.also
            && !packed::is_comparison(also.get())
        {
            self.also_distances.insert(also.get());
        }
    }

    /// Makes the filter and the buckets anew, for so many conditions.
    fn rebuild(&mut self, conditions: usize) {
        let words = (conditions * FILTER_BITS_PER_KEY).div_ceil(64).next_power_of_two();
        self.filter = vec![0; words].into();
        let buckets = (conditions * 4 / 3 + 1).next_power_of_two();
        let before = std::mem::replace(&mut self.buckets, vec![(0, 0); buckets].into());
        self.conditions = 0;
        for &(condition, position) in before.iter().filter(|(condition, _)| *condition != 0) {
            self.set(condition, position);
        }
    }

    /// Returns the bucket of a condition, or the free one where it would stand.
    #[inline]
    fn bucket(&self, condition: PackedCondition) -> usize {
        let last = self.buckets.len() - 1;
        let mut at = mix(condition) as usize & last;
        while self.buckets[at].0 != 0 && self.buckets[at].0 != condition {
            at = (at + 1) & last;
        }
        at
    }

    /// Sets the place of a condition for which there is room.
    fn set(&mut self, condition: PackedCondition, position: u32) {
        let at = self.bucket(condition);
        self.conditions += u32::from(self.buckets[at].0 == 0);
        self.buckets[at] = (condition, position);
        let (word, bit) = self.filter_position(condition);
        self.filter[word] |= bit;
    }

    /// Removes a condition, and moves up those behind it that would not be found any more.
    fn unset(&mut self, condition: PackedCondition) {
        let last = self.buckets.len() - 1;
        let mut hole = self.bucket(condition);
        self.buckets[hole] = (0, 0);
        self.conditions -= 1;
        let mut at = (hole + 1) & last;
        while self.buckets[at].0 != 0 {
            let home = mix(self.buckets[at].0) as usize & last;
            if (at.wrapping_sub(home) & last) >= (at.wrapping_sub(hole) & last) {
                self.buckets[hole] = std::mem::take(&mut self.buckets[at]);
                hole = at;
            }
            at = (at + 1) & last;
        }
    }

    fn new_list(&mut self, words: &[u32]) -> u32 {
        let size = block_of(words.len());
        let class = size.trailing_zeros() as usize;
        let at = match self.free.get(class) {
            Some(&free) if free != END => {
                self.free[class] = self.lists[free as usize];
                free as usize
            }
            _ => {
                let at = self.lists.len();
                self.lists.resize(at + size, 0);
                at
            }
        };
        self.lists[at] = words.len() as u32;
        self.lists[at + 1..=at + words.len()].copy_from_slice(words);
        at as u32
    }

    fn free_list(&mut self, at: u32) {
        let class = block_of(self.lists[at as usize] as usize).trailing_zeros() as usize;
        if self.free.len() <= class {
            self.free.resize(class + 1, END);
        }
        self.lists[at as usize] = std::mem::replace(&mut self.free[class], at);
    }

    /// Adds an entry.
    pub fn insert(&mut self, entry: IndexedTrigger) {
        self.change();
        self.note_distances(&entry);
        if self.buckets.len() * 3 <= (self.conditions as usize + 1) * 4 {
            self.rebuild((self.conditions as usize + 1) * 2);
        }
        let position = match self.list_position(entry.condition) {
            None if entry.waiting.is_lone() => entry.waiting.query | LONE,
            Some(at) if at & LONE == 0 => self.grown(at, entry.waiting),
            position => {
                let lone = position.map(|lone| lone & !LONE);
                let mut words = vec![u32::from(lone.is_some()) + u32::from(entry.waiting.is_lone())];
                words.extend(lone);
                entry.waiting.write(&mut words);
                self.new_list(&words)
            }
        };
        self.set(entry.condition, position);
    }

    /// Returns a list with one entry more; it moves when its block is full.
    fn grown(&mut self, at: u32, waiting: Waiter) -> u32 {
        let mut added = Vec::with_capacity(3);
        waiting.write(&mut added);
        let start = at as usize + 1;
        let length = self.lists[start - 1] as usize;
        let alone = self.lists[start] as usize;
        let from = if waiting.kind() < WaiterKind::Other { 1 + alone } else { length };
        let count = u32::from(waiting.is_lone());
        if length + added.len() < block_of(length) {
            self.lists.copy_within(start + from..start + length, start + from + added.len());
            self.lists[start + from..][..added.len()].copy_from_slice(&added);
            self.lists[start - 1] += added.len() as u32;
            self.lists[start] += count;
            return at;
        }
        let mut all = self.lists[start..start + length].to_vec();
        all.splice(from..from, added);
        all[0] += count;
        self.free_list(at);
        self.new_list(&all)
    }

    /// Removes an entry. Returns whether it was there.
    pub fn remove(&mut self, entry: IndexedTrigger) -> bool {
        self.change();
        let Some(position) = self.list_position(entry.condition) else { return false };
        if position & LONE != 0 {
            let is_it = entry.waiting.is_lone() && position & !LONE == entry.waiting.query;
            if is_it {
                self.unset(entry.condition);
            }
            return is_it;
        }
        let length = self.lists[position as usize] as usize;
        let list = self.list(position);
        let end = if entry.waiting.is_lone() {
            list.satisfied.iter().position(|&query| query == entry.waiting.query).map(|index| index + 2)
        } else {
            let mut others = list.multi_condition;
            others.find(|waiting| *waiting == entry.waiting).map(|_| length - others.words.len())
        };
        let Some(end) = end else { return false };
        self.lists[position as usize + 1] -= u32::from(entry.waiting.is_lone());
        self.shorten(entry.condition, position, end - entry.waiting.words(), end);
        true
    }

    /// Takes words out of a condition's list; it moves when a smaller block will do.
    fn shorten(&mut self, condition: PackedCondition, position: u32, from: usize, to: usize) {
        let start = position as usize + 1;
        let length = self.lists[start - 1] as usize;
        let shorter = length - (to - from);
        self.lists.copy_within(start + to..start + length, start + from);
        if shorter == 1 {
            self.free_list(position);
            self.unset(condition);
        } else if block_of(shorter) == block_of(length) {
            self.lists[start - 1] = shorter as u32;
        } else {
            let words = self.lists[start..start + shorter].to_vec();
            self.free_list(position);
            let position = self.new_list(&words);
            self.set(condition, position);
        }
    }

    /// Returns the atoms of conditions that compare the accepting element's text by order, behind the number of
    /// conditions of any kind.
    pub fn ordered_content(&self) -> (usize, impl Iterator<Item = AtomId> + '_) {
        let conditions = self.buckets.iter().map(|&(condition, _)| condition);
        let ordered = conditions.filter(|&condition| packed::is_content(condition) && packed::is_comparison(condition));
        (self.conditions as usize, ordered.map(|condition| packed::unpack(condition).1))
    }

    /// Returns the queries that wait for conditions about the accepting element's text.
    pub fn asking_content(&self) -> impl Iterator<Item = u32> + '_ {
        self.buckets.iter().filter(|(condition, _)| packed::is_content(*condition)).flat_map(|(_, position)| {
            let list = self.get(position);
            list.satisfied().chain(list.multi_condition.map(|entry| entry.query))
        })
    }

    /// Returns whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.conditions == 0
    }

    /// Returns the distances of the conditions that are comparisons.
    #[inline]
    pub fn comparisons(&self) -> Distances {
        self.comparisons
    }

    /// Returns the distances of the other conditions.
    #[inline]
    pub fn distances(&self) -> Distances {
        self.distances
    }

    /// Returns the distances of the further conditions, except of those that are comparisons.
    #[inline]
    pub fn also_distances(&self) -> Distances {
        self.also_distances
    }

    #[inline]
    fn filter_position(&self, condition: PackedCondition) -> (usize, u64) {
        let bit = (mix(condition) >> 16) as usize & (self.filter.len() * 64 - 1);
        (bit >> 6, 1 << (bit & 63))
    }

    #[inline]
    fn list_position(&self, condition: PackedCondition) -> Option<u32> {
        if self.filter.is_empty() {
            return None;
        }
        let (word, bit) = self.filter_position(condition);
        if self.filter[word] & bit == 0 {
            return None;
        }
        let (existing, position) = self.buckets[self.bucket(condition)];
        (existing == condition).then_some(position)
    }

    #[inline]
    fn list(&self, position: u32) -> WaitList<'_> {
        let start = position as usize + 1;
        let words = &self.lists[start..start + self.lists[start - 1] as usize];
        let (satisfied, others) = words[1..].split_at(words[0] as usize);
        WaitList { satisfied, multi_condition: MultiConditionWaiters { words: others } }
    }

    /// Looks at the table itself, not at what it points to; to be waited for later.
    #[inline]
    pub fn prefetch_table(&self) -> u64 {
        self.revision ^ (self.filter.len() ^ self.buckets.len() ^ self.lists.len()) as u64 ^ u64::from(self.conditions)
    }

    /// Looks at all that [`Self::sieve`] needs for some conditions; to be waited for later.
    #[inline]
    pub fn prefetch_filter(&self, conditions: &[PackedCondition]) -> u64 {
        if self.filter.is_empty() {
            return 0;
        }
        conditions.iter().fold(0, |seen, &condition| seen ^ self.filter[self.filter_position(condition).0])
    }

    /// Moves the conditions that something may wait for to the front. Returns their number.
    #[inline]
    pub fn sieve(&self, conditions: &mut [PackedCondition]) -> usize {
        if self.filter.is_empty() {
            return 0;
        }
        // Without a branch: whether a condition is there is as good as random.
        let mut kept = 0;
        for index in 0..conditions.len() {
            let condition = conditions[index];
            let (word, bit) = self.filter_position(condition);
            conditions[kept] = condition;
            kept += usize::from(self.filter[word] & bit != 0);
        }
        kept
    }

    /// Looks at the buckets of all conditions before any answer is waited for: what is not in the cache comes in at the
    /// same time.
    #[inline]
    fn prefetch_buckets(&self, conditions: &[PackedCondition]) {
        if self.buckets.len() > CACHED_MAX {
            let last = self.buckets.len() - 1;
            let seen =
                conditions.iter().fold(0, |seen, &condition| seen ^ self.buckets[mix(condition) as usize & last].1);
            std::hint::black_box(seen);
        }
    }

    /// Writes the positions of what waits for conditions that [`Self::sieve`] has kept. Returns their number. The list
    /// must have as many as there are conditions.
    #[inline]
    pub fn locate(&self, conditions: &[PackedCondition], positions: &mut [u32]) -> usize {
        self.prefetch_buckets(conditions);
        let mut kept = 0;
        for &condition in conditions {
            let (existing, position) = self.buckets[self.bucket(condition)];
            positions[kept] = position;
            kept += usize::from(existing == condition);
        }
        kept
    }

    /// Looks at the lists at all places before any is waited for.
    #[inline]
    pub fn prefetch_lists(&self, positions: &[u32]) {
        let lists = positions.iter().filter(|&position| position & LONE == 0);
        std::hint::black_box(lists.fold(0, |seen, &position| seen ^ self.lists[position as usize]));
    }

    /// Replaces conditions by the places of what waits for them.
    #[inline]
    pub fn select(&self, conditions: &mut Vec<PackedCondition>) {
        let sieved = self.sieve(conditions);
        self.prefetch_buckets(&conditions[..sieved]);
        let mut kept = 0;
        for index in 0..sieved {
            let condition = conditions[index];
            let (existing, position) = self.buckets[self.bucket(condition)];
            conditions[kept] = position;
            kept += usize::from(existing == condition);
        }
        conditions.truncate(kept);
        self.prefetch_lists(conditions);
    }

    /// Returns what waits at a place.
    #[inline]
    pub fn get<'a>(&'a self, position: &'a u32) -> WaitList<'a> {
        if position & LONE != 0 {
            WaitList {
                satisfied: std::slice::from_ref(position),
                multi_condition: MultiConditionWaiters { words: &[] },
            }
        } else {
            self.list(*position)
        }
    }

    /// Returns the bytes on the heap.
    pub fn bytes(&self) -> usize {
        (self.filter.len() + self.buckets.len()) * 8 + (self.lists.capacity() + self.free.capacity()) * 4
    }
}
