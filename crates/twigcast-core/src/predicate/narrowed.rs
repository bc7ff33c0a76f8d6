//! What waits for the keys that an element of some shape has: the lists of the keys, without those whose branch does not
//! hold there.
//!
//! What holds below elements of a shape is always the same. So what is left of the lists is remembered, as one list; where
//! the same keys come again at such an element, neither the table is looked at nor any branch.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::key::PackedKey;
use super::table::KeyTable;
use super::waiting::{List, Others, Waiting};
use crate::twig::shapes::ShapeId;

/// Lists of which less than a quarter falls away are gone through each time, if they are longer than this.
const KEPT_WORDS_MAX: usize = 64;
/// In place of where a list begins: it is gone through each time.
const AS_IT_IS: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The table's.
    stamp: u64,
    shape: ShapeId,
    /// Where the keys begin in `words`, and how many there are.
    keys: (u32, u32),
    /// Where the list begins in `words`, or [`AS_IT_IS`].
    list: u32,
}

/// The lists that are known so far. See the module's documentation.
#[derive(Debug, Default)]
pub struct Narrowed {
    entries: HashTable<Entry>,
    /// Keyed per process: what messages hold must not decide how far one has to look.
    hasher: RandomState,
    /// Keys; and of each list how many words there are, how many of them are queries of which nothing else is asked,
    /// these, and then the others.
    words: Vec<u32>,
    /// Scratch: those that ask for nothing but a further key, and the others.
    also: Vec<u32>,
    others: Vec<u32>,
}

impl Narrowed {
    /// Forget all.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.words.clear();
    }

    /// Bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.entries.len() * (size_of::<Entry>() + 8) + self.words.len() * 4
    }

    fn words_of(&self, (start, count): (u32, u32)) -> &[u32] {
        &self.words[start as usize..][..count as usize]
    }

    #[inline]
    fn entry(&self, table: &KeyTable, keys: &[PackedKey], shape: ShapeId) -> Option<&Entry> {
        let stamp = table.stamp();
        self.entries.find(self.hasher.hash_one((stamp, shape, keys)), |entry| {
            // Key by key: they are few.
            let known = self.words_of(entry.keys);
            entry.stamp == stamp && entry.shape == shape && known.len() == keys.len() && known.iter().eq(keys)
        })
    }

    /// Where the list for some keys of a table at elements of a shape begins, if that is known.
    #[inline]
    pub fn find(&self, table: &KeyTable, keys: &[PackedKey], shape: ShapeId) -> Option<u32> {
        self.entry(table, keys, shape).map(|entry| entry.list).filter(|&start| start != AS_IT_IS)
    }

    /// The list that begins at a place.
    #[inline]
    pub fn get(&self, start: u32) -> List<'_> {
        let start = start as usize;
        let (length, lone) = (self.words[start] as usize, self.words[start + 1] as usize);
        let (satisfied, others) = self.words[start + 2..][..length].split_at(lone);
        List { satisfied, others: Others { words: others } }
    }

    /// Remember what is left of what waits at some places of a table, which are those of the keys, at elements of a shape
    /// where a branch holds if `holds` says so; where it begins. `None` if it is to be gone through as it is.
    pub fn insert(
        &mut self,
        (table, keys, shape): (&KeyTable, &[PackedKey], ShapeId),
        places: &[u32],
        mut holds: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let first = self.words.len();
        if first >= (u32::MAX / 2) as usize || self.entry(table, keys, shape).is_some() {
            return None;
        }
        self.words.extend_from_slice(keys);
        let list = self.append(table, places, &mut holds).unwrap_or(AS_IT_IS);
        let (stamp, keys) = (table.stamp(), (first as u32, keys.len() as u32));
        let Self { entries, hasher, words, .. } = self;
        let hash = |entry: &Entry| {
            let (start, count) = (entry.keys.0 as usize, entry.keys.1 as usize);
            hasher.hash_one((entry.stamp, entry.shape, &words[start..start + count]))
        };
        let entry = Entry { stamp, shape, keys, list };
        entries.insert_unique(hash(&entry), entry, hash);
        (list != AS_IT_IS).then_some(list)
    }

    /// Append what is left of some lists, as one; where it begins. `None`, and nothing is appended, if it is not worth it.
    fn append(&mut self, table: &KeyTable, places: &[u32], holds: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        let start = self.words.len();
        self.words.extend([0, 0]);
        let mut length = 0;
        let Self { words, also, others, .. } = self;
        also.clear();
        others.clear();
        for place in places {
            let list = table.get(place);
            length += list.satisfied.len() + list.others.words.len();
            words.extend(list.satisfied());
            for waiting in list.others.filter(|waiting| waiting.below.is_none_or(|branch| holds(branch.get()))) {
                let left = Waiting { below: None, ..waiting };
                if left.is_lone() {
                    words.push(left.query);
                } else {
                    left.write(if left.is_also() { also } else { others });
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
