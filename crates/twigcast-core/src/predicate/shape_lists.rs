//! What waits for the keys that an element of some shape has: the lists of the keys, without those whose branch does not
//! hold there.
//!
//! What holds below elements of a shape is always the same. So what is left of the lists is remembered, as one list; where
//! the same keys come again at such an element, neither the table is looked at nor any branch.

use super::packed::PackedCondition;
use super::trigger_table::TriggerTable;
use super::waiters::{MultiConditionWaiters, WaitList, Waiter, WaiterKind};
use crate::ids::ShapeId;
use crate::util::hash_index::{HashIndex, SeededHasher};

/// Lists of which less than a quarter falls away are gone through each time, if they are longer than this.
const KEPT_WORDS_MAX: usize = 64;
/// In place of the length of a list: it is gone through each time.
const AS_IT_IS: u32 = u32::MAX;
/// Words of an entry before its keys.
const HEAD: usize = 4;
/// Words of a line of the processor's cache.
const LINE_WORDS: usize = 16;

/// The lists that are known so far. See the module's documentation.
#[derive(Debug, Default)]
pub struct ShapeWaitLists {
    /// Where entries begin in `words`.
    index: HashIndex,
    hashing: SeededHasher,
    /// Entries. What they are found by: the table's stamp (two words), the shape, the number of keys, the keys. And the
    /// list: how many words there are (or [`AS_IT_IS`]), how many of them are queries of which nothing else is asked, these,
    /// and then the others.
    words: Vec<u32>,
    /// Scratch: those that ask for nothing but a further key, and the others.
    also: Vec<u32>,
    others: Vec<u32>,
}

/// What is looked for: the table, keys of it, and the shape.
pub type ShapeLookup<'a> = (&'a TriggerTable, &'a [PackedCondition], ShapeId);

fn stamp_words(table: &TriggerTable) -> [u32; 2] {
    let stamp = table.stamp();
    [stamp as u32, (stamp >> 32) as u32]
}

impl ShapeWaitLists {
    /// Forget all.
    pub fn clear(&mut self) {
        self.index.clear();
        self.words.clear();
    }

    /// Bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.words.len() * 4
    }

    /// By what it is found.
    #[inline]
    pub fn hash(&self, (table, keys, shape): ShapeLookup<'_>) -> u32 {
        self.hashing.of(table.stamp(), shape.as_u32(), keys)
    }

    /// Look at what [`Self::candidate`] needs for all of many, before the first is waited for: what is not in the
    /// processor's cache comes in at the same time.
    #[inline]
    pub fn prefetch_hashes(&self, hashes: impl Iterator<Item = u32>) {
        std::hint::black_box(hashes.fold(0, |seen, hash| seen ^ self.index.prefetch(hash)));
    }

    /// Where it may stand.
    #[inline]
    pub fn candidate(&self, hash: u32) -> Option<u32> {
        self.index.with_hash(hash).next()
    }

    /// The same for [`Self::find`].
    #[inline]
    pub fn prefetch_candidates(&self, candidates: impl Iterator<Item = u32>) {
        let last = self.words.len().saturating_sub(1);
        let seen = candidates.fold(0, |seen, at| {
            let at = at as usize;
            seen ^ self.words[at] ^ self.words[(at + LINE_WORDS).min(last)]
        });
        std::hint::black_box(seen);
    }

    /// Where the list of an entry begins, if that is the one looked for.
    #[inline]
    fn list_at(&self, at: u32, (table, keys, shape): ShapeLookup<'_>) -> Option<u32> {
        let entry = &self.words[at as usize..];
        let (head, rest) = entry.split_first_chunk::<HEAD>()?;
        let [low, high] = stamp_words(table);
        let is_it = *head == [low, high, shape.as_u32(), keys.len() as u32] && rest.len() > keys.len();
        // Key by key: they are few.
        (is_it && rest.iter().zip(keys).all(|(existing, key)| existing == key)).then(|| at + (HEAD + keys.len()) as u32)
    }

    /// Where the list for some keys of a table at elements of a shape begins, if it is known; first looked for at the
    /// candidate.
    #[inline]
    pub fn find(&self, sought: ShapeLookup<'_>, hash: u32, candidate: u32) -> Option<u32> {
        let list = self.list_at(candidate, sought).or_else(|| self.entry(sought, hash))?;
        (self.words[list as usize] != AS_IT_IS).then_some(list)
    }

    #[cold]
    fn entry(&self, sought: ShapeLookup<'_>, hash: u32) -> Option<u32> {
        self.index.with_hash(hash).find_map(|at| self.list_at(at, sought))
    }

    /// The list that begins at a place.
    #[inline]
    pub fn get(&self, start: u32) -> WaitList<'_> {
        let start = start as usize;
        let (length, lone) = (self.words[start] as usize, self.words[start + 1] as usize);
        let (satisfied, others) = self.words[start + 2..][..length].split_at(lone);
        WaitList { satisfied, multi_condition: MultiConditionWaiters { words: others } }
    }

    /// Remember what is left of what waits at some places of a table, which are those of the keys, at elements of a shape
    /// where a branch holds if `holds` says so; where it begins. `None` if it is to be gone through as it is.
    pub fn insert(
        &mut self,
        sought: ShapeLookup<'_>,
        positions: &[u32],
        mut holds: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let (table, keys, shape) = sought;
        let hash = self.hashing.of(table.stamp(), shape.as_u32(), keys);
        let at = self.words.len();
        if at >= (u32::MAX / 2) as usize || self.entry(sought, hash).is_some() {
            return None;
        }
        self.words.extend(stamp_words(table));
        self.words.extend([shape.as_u32(), keys.len() as u32]);
        self.words.extend_from_slice(keys);
        let list = self.append(table, positions, &mut holds);
        if list.is_none() {
            self.words.push(AS_IT_IS);
        }
        self.index.insert(hash, at as u32);
        list
    }

    /// Append what is left of some lists, as one; where it begins. `None`, and nothing is appended, if it is not worth it.
    fn append(&mut self, table: &TriggerTable, positions: &[u32], holds: &mut impl FnMut(u32) -> bool) -> Option<u32> {
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
            for waiting in list.multi_condition.filter(|waiting| waiting.below.is_none_or(|branch| holds(branch.get())))
            {
                let left = Waiter { below: None, ..waiting };
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
