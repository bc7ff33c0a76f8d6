//! Lists of waiters by shape: the lists of the conditions that an element has, without those whose branch does not hold
//! there.
//!
//! Below elements of one shape, the same branches hold. So the remaining waiters are stored as one list. When the same
//! conditions hold at another element of the shape, neither the table nor any branch need be looked at.

use super::packed::PackedCondition;
use super::trigger_table::TriggerTable;
use super::waiters::{MultiConditionWaiters, WaitList, Waiter, WaiterKind};
use crate::ids::{BranchId, ShapeId};
use crate::util::hash_index::{HashIndex, SeededHasher};

/// Lists longer than this are not stored if less than a quarter of the waiters is removed.
const KEPT_WORDS_MAX: usize = 64;
/// In place of the length of a list that is not stored, since too few waiters are removed. The table is used each time.
const NOT_STORED: u32 = u32::MAX;
/// Words of an entry before its conditions.
const HEAD: usize = 4;
/// Words of a line of the processor's cache.
const LINE_WORDS: usize = 16;

/// The lists that are known so far. See the module's documentation.
#[derive(Debug, Default)]
pub struct ShapeWaitLists {
    /// The indexes in `words` at which entries begin, by hash.
    index: HashIndex,
    hashing: SeededHasher,
    /// Entries. What they are found by: the table's revision (two words), the shape, the number of conditions, the
    /// conditions. And the list: how many words there are (or [`NOT_STORED`]), how many of them are queries of which
    /// nothing else is asked, these, and then the others.
    words: Vec<u32>,
    /// Scratch: those that ask for nothing but a further condition, and the others.
    also: Vec<u32>,
    others: Vec<u32>,
}

/// The three things that a list is found by: the table, the conditions that are looked up in it, and the shape.
pub type ShapeLookup<'a> = (&'a TriggerTable, &'a [PackedCondition], ShapeId);

fn revision_words(table: &TriggerTable) -> [u32; 2] {
    let revision = table.revision();
    [revision as u32, (revision >> 32) as u32]
}

impl ShapeWaitLists {
    /// Removes all lists.
    pub fn clear(&mut self) {
        self.index.clear();
        self.words.clear();
    }

    /// Returns the bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.words.len() * 4
    }

    /// Returns the hash of what a list is found by.
    #[inline]
    pub fn hash(&self, (table, conditions, shape): ShapeLookup<'_>) -> u32 {
        self.hashing.of(table.revision(), shape.as_u32(), conditions)
    }

    /// Reads what [`Self::candidate`] needs for many hashes, before the first is waited for: what is not in the
    /// processor's cache arrives at the same time.
    #[inline]
    pub fn prefetch_hashes(&self, hashes: impl Iterator<Item = u32>) {
        std::hint::black_box(hashes.fold(0, |seen, hash| seen ^ self.index.prefetch(hash)));
    }

    /// Returns the likely position of the entry with a hash.
    #[inline]
    pub fn candidate(&self, hash: u32) -> Option<u32> {
        self.index.with_hash(hash).next()
    }

    /// Reads what [`Self::find`] needs for many candidates.
    #[inline]
    pub fn prefetch_candidates(&self, candidates: impl Iterator<Item = u32>) {
        let last = self.words.len().saturating_sub(1);
        let seen = candidates.fold(0, |seen, at| {
            let at = at as usize;
            seen ^ self.words[at] ^ self.words[(at + LINE_WORDS).min(last)]
        });
        std::hint::black_box(seen);
    }

    /// Returns where the list of an entry begins, if it is the one that is sought.
    #[inline]
    fn list_at(&self, at: u32, (table, conditions, shape): ShapeLookup<'_>) -> Option<u32> {
        let entry = &self.words[at as usize..];
        let (head, rest) = entry.split_first_chunk::<HEAD>()?;
        let [low, high] = revision_words(table);
        let is_it = *head == [low, high, shape.as_u32(), conditions.len() as u32] && rest.len() > conditions.len();
        // One by one: they are few.
        (is_it && rest.iter().zip(conditions).all(|(existing, condition)| existing == condition))
            .then(|| at + (HEAD + conditions.len()) as u32)
    }

    /// Returns where the list of a shape and its conditions begins, if it is stored. The candidate is tried first.
    #[inline]
    pub fn find(&self, sought: ShapeLookup<'_>, hash: u32, candidate: u32) -> Option<u32> {
        let list = self.list_at(candidate, sought).or_else(|| self.entry(sought, hash))?;
        (self.words[list as usize] != NOT_STORED).then_some(list)
    }

    #[cold]
    fn entry(&self, sought: ShapeLookup<'_>, hash: u32) -> Option<u32> {
        self.index.with_hash(hash).find_map(|at| self.list_at(at, sought))
    }

    /// Returns the list that begins at an index.
    #[inline]
    pub fn get(&self, start: u32) -> WaitList<'_> {
        let start = start as usize;
        let (length, lone) = (self.words[start] as usize, self.words[start + 1] as usize);
        let (satisfied, others) = self.words[start + 2..][..length].split_at(lone);
        WaitList { satisfied, multi_condition: MultiConditionWaiters { words: others } }
    }

    /// Stores what is left of the lists at some positions of a table, those of the looked-up conditions, at elements of a
    /// shape where a branch holds if `holds` says so.
    ///
    /// Returns where the new list begins; `None` if storing it does not pay.
    pub fn insert(
        &mut self,
        sought: ShapeLookup<'_>,
        positions: &[u32],
        mut holds: impl FnMut(BranchId) -> bool,
    ) -> Option<u32> {
        let (table, conditions, shape) = sought;
        let hash = self.hashing.of(table.revision(), shape.as_u32(), conditions);
        let at = self.words.len();
        if at >= (u32::MAX / 2) as usize || self.entry(sought, hash).is_some() {
            return None;
        }
        self.words.extend(revision_words(table));
        self.words.extend([shape.as_u32(), conditions.len() as u32]);
        self.words.extend_from_slice(conditions);
        let list = self.append(table, positions, &mut holds);
        if list.is_none() {
            self.words.push(NOT_STORED);
        }
        self.index.insert(hash, at as u32);
        list
    }

    /// Appends the remaining waiters of several lists as one list. Returns where it begins; `None`, without appending
    /// anything, if that does not pay.
    fn append(
        &mut self,
        table: &TriggerTable,
        positions: &[u32],
        holds: &mut impl FnMut(BranchId) -> bool,
    ) -> Option<u32> {
        let start = self.words.len();
        self.words.extend([0, 0]);
        let mut length = 0;
        let Self { words, also, others, .. } = self;
        also.clear();
        others.clear();
        for position in positions {
            let list = table.get(position);
            length += list.satisfied.len() + list.multi_condition.words.len();
            words.extend(list.satisfied());
            for waiting in
                list.multi_condition.filter(|waiting| waiting.below == BranchId::NONE || holds(waiting.below))
            {
                let left = Waiter { below: BranchId::NONE, ..waiting };
                match left.kind() {
                    WaiterKind::Lone => words.push(left.query),
                    WaiterKind::Also => left.write(also),
                    WaiterKind::Below | WaiterKind::Other => left.write(others),
                }
            }
        }
        words[start + 1] = (words.len() - start - 2) as u32;
        words.extend_from_slice(also);
        words.extend_from_slice(others);
        let kept = words.len() - start - 2;
        if kept > KEPT_WORDS_MAX && kept * 4 > length * 3 {
            words.truncate(start);
            return None;
        }
        words[start] = kept as u32;
        Some(start as u32)
    }
}
