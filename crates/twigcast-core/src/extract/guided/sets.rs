//! Sets of bindings, as bits; equal sets of one list have one number.

use std::hash::{BuildHasher, BuildHasherDefault};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use super::guide::ListId;

/// Number of a set on one message.
pub(super) type SetId = u32;

#[derive(Clone, Copy, Debug)]
struct Entry {
    list: ListId,
    /// Its number among the sets of the list.
    local: u32,
    start: u32,
    end: u32,
    hash: u64,
}

/// The sets of one message.
#[derive(Debug, Default)]
pub(super) struct Sets {
    bits: Vec<u64>,
    entries: Vec<Entry>,
    index: HashTable<SetId>,
    /// By list: how many sets there are.
    counts: Vec<u32>,
}

impl Sets {
    /// Forgets all sets.
    pub fn reset(&mut self, lists: usize) {
        self.bits.clear();
        self.entries.clear();
        self.index.clear();
        self.counts.clear();
        self.counts.resize(lists, 0);
    }

    /// The number of a set among those of its list.
    #[inline]
    pub fn local(&self, set: SetId) -> u32 {
        self.entries[set as usize].local
    }

    /// The bits of a set.
    #[inline]
    pub fn bits(&self, set: SetId) -> &[u64] {
        let Entry { start, end, .. } = self.entries[set as usize];
        &self.bits[start as usize..end as usize]
    }

    /// The number of the set with these bits.
    pub fn intern(&mut self, list: ListId, bits: &[u64]) -> SetId {
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one((list, bits));
        let Self { bits: all, entries, index, .. } = self;
        let is_it = |&set: &SetId| {
            let Entry { list: of, start, end, .. } = entries[set as usize];
            of == list && all[start as usize..end as usize] == *bits
        };
        if let Some(&known) = index.find(hash, is_it) {
            return known;
        }
        let id = entries.len() as SetId;
        let local = self.counts[list as usize];
        self.counts[list as usize] += 1;
        let start = all.len() as u32;
        all.extend_from_slice(bits);
        entries.push(Entry { list, local, start, end: all.len() as u32, hash });
        index.insert_unique(hash, id, |&set| entries[set as usize].hash);
        id
    }

    /// All sets as they are.
    pub fn frozen(&self) -> Frozen {
        let places = self.entries.iter().map(|entry| (entry.start, entry.end));
        Frozen { bits: self.bits.clone(), places: places.collect() }
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

/// Makes this the bits of the set of so many bindings.
pub(super) fn fill(bits: &mut Vec<u64>, count: usize) {
    bits.clear();
    bits.resize(count.div_ceil(64), u64::MAX);
    if let Some(last) = bits.last_mut().filter(|_| !count.is_multiple_of(64)) {
        *last = (1 << (count % 64)) - 1;
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
