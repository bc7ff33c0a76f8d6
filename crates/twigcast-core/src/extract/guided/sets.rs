//! Sets of bindings, as bits; equal sets of one list have one number.

use std::hash::{BuildHasher, BuildHasherDefault};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    end: u32,
    /// Where the bits are for whoever asks for the number.
    place: u32,
    hash: u64,
}

/// The sets of one list.
#[derive(Debug, Default)]
pub(super) struct Sets {
    bits: Vec<u64>,
    entries: Vec<Entry>,
    index: HashTable<u32>,
}

impl Sets {
    /// Forgets all sets.
    pub fn reset(&mut self) {
        self.bits.clear();
        self.entries.clear();
        self.index.clear();
    }

    /// The number of the set with these bits, and the place that was told when it was first asked for.
    #[inline]
    pub fn intern(&mut self, bits: &[u64], place: u32) -> (u32, u32) {
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(bits);
        let Self { bits: all, entries, index } = self;
        let is_it = |&set: &u32| {
            let Entry { start, end, .. } = entries[set as usize];
            all[start as usize..end as usize] == *bits
        };
        if let Some(&known) = index.find(hash, is_it) {
            return (known, entries[known as usize].place);
        }
        let number = entries.len() as u32;
        let start = all.len() as u32;
        all.extend_from_slice(bits);
        entries.push(Entry { start, end: all.len() as u32, place, hash });
        index.insert_unique(hash, number, |&set| entries[set as usize].hash);
        (number, place)
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
#[inline]
pub(super) fn members(bits: &[u64]) -> impl Iterator<Item = u32> + '_ {
    Members { bits, index: 0, rest: bits.first().copied().unwrap_or_default() }
}

struct Members<'a> {
    bits: &'a [u64],
    index: usize,
    rest: u64,
}

impl Iterator for Members<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.rest == 0 {
            self.index += 1;
            self.rest = *self.bits.get(self.index)?;
        }
        let bit = self.rest.trailing_zeros();
        self.rest &= self.rest - 1;
        Some(self.index as u32 * u64::BITS + bit)
    }
}
