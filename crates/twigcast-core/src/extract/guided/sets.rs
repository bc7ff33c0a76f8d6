//! Sets of bindings, as bits; equal sets of one list have one number.

use std::hash::{BuildHasher, BuildHasherDefault};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use super::guide::ListId;

/// Number of a set on one message.
pub(super) type SetId = u32;

/// The set without bindings.
pub(super) const EMPTY: SetId = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    list: ListId,
    /// Its number among the sets of the list.
    local: u32,
    start: u32,
    hash: u64,
}

/// The sets of one message, and how many words those of each list take.
#[derive(Debug, Default)]
pub(super) struct Sets {
    bits: Vec<u64>,
    entries: Vec<Entry>,
    index: HashTable<SetId>,
    /// By list: how many words a set takes, and how many sets there are.
    words: Vec<usize>,
    counts: Vec<u32>,
}

impl Sets {
    /// Forgets all sets.
    pub fn reset(&mut self, lists: usize) {
        self.bits.clear();
        self.entries.clear();
        self.index.clear();
        self.words.clear();
        self.words.resize(lists, 0);
        self.counts.clear();
        self.counts.resize(lists, 0);
    }

    /// Sets of this list are of so many bindings.
    pub fn size(&mut self, list: ListId, bindings: usize) {
        self.words[list as usize] = bindings.div_ceil(u64::BITS as usize);
    }

    /// How many words sets of the list take.
    #[inline]
    pub fn words(&self, list: ListId) -> usize {
        self.words[list as usize]
    }

    /// The set of all bindings of a list, of which there are so many.
    pub fn all(&mut self, list: ListId, count: usize) -> SetId {
        let mut bits = vec![u64::MAX; count.div_ceil(64)];
        if let Some(last) = bits.last_mut().filter(|_| !count.is_multiple_of(64)) {
            *last = (1 << (count % 64)) - 1;
        }
        self.intern(list, &bits)
    }

    /// The number of a set among those of its list.
    #[inline]
    pub fn local(&self, set: SetId) -> u32 {
        self.entries[set as usize].local
    }

    /// The bits of a set.
    #[inline]
    pub fn bits(&self, set: SetId) -> &[u64] {
        let entry = self.entries[set as usize];
        let start = entry.start as usize;
        &self.bits[start..start + self.words[entry.list as usize]]
    }

    /// The number of the set with these bits.
    pub fn intern(&mut self, list: ListId, bits: &[u64]) -> SetId {
        if bits.iter().all(|&word| word == 0) {
            return EMPTY;
        }
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one((list, bits));
        let Self { bits: all, entries, index, .. } = self;
        let is_it = |&set: &SetId| {
            let Entry { list: of, start, .. } = entries[set as usize];
            of == list && all[start as usize..].starts_with(bits)
        };
        if let Some(&known) = index.find(hash, is_it) {
            return known;
        }
        let id = entries.len() as SetId;
        let local = self.counts[list as usize];
        self.counts[list as usize] += 1;
        entries.push(Entry { list, local, start: all.len() as u32, hash });
        all.extend_from_slice(bits);
        index.insert_unique(hash, id, |&set| entries[set as usize].hash);
        id
    }

    /// All sets as they are.
    pub fn frozen(&self) -> Frozen {
        let place = |entry: &Entry| (entry.start, entry.start + self.words(entry.list) as u32);
        Frozen { bits: self.bits.clone(), places: self.entries.iter().map(place).collect() }
    }
}

/// The bits of the sets of one message, for keeping.
#[derive(Clone, Debug, Default)]
pub(super) struct Frozen {
    bits: Vec<u64>,
    /// Where each set begins and ends.
    places: Vec<(u32, u32)>,
}

impl Frozen {
    /// The bits of a set.
    pub fn bits(&self, set: SetId) -> &[u64] {
        let (start, end) = self.places[set as usize];
        &self.bits[start as usize..end as usize]
    }
}

/// The members of a set, ascending.
pub(super) fn members(bits: &[u64]) -> impl Iterator<Item = u32> + '_ {
    bits.iter().enumerate().flat_map(|(index, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            Some(index as u32 * u64::BITS + bit)
        })
    })
}
