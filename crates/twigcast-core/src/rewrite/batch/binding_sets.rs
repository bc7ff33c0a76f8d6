//! Sets of bindings, as bits; equal sets of one list have one number.

use std::hash::{BuildHasher, BuildHasherDefault};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use super::super::program::family::NONE;

#[derive(Clone, Copy, Debug)]
struct SetEntry {
    /// Where its bits begin.
    start: u32,
    number: u32,
    hash: u64,
}

/// The sets of one list, numbered from 0.
#[derive(Debug, Default)]
pub(super) struct BindingSets {
    count: u32,
    /// By binding: the set of it alone, if it takes one word; [`NONE`] where nobody asked for it.
    single: Vec<u32>,
    bits: Vec<u64>,
    entries: Vec<SetEntry>,
    index: HashTable<u32>,
}

impl BindingSets {
    /// Forgets all sets.
    pub fn reset(&mut self) {
        self.count = 0;
        self.single.clear();
        self.single.resize(u64::BITS as usize, NONE);
        self.bits.clear();
        self.entries.clear();
        self.index.clear();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// The number of the set with these bits.
    #[inline]
    pub fn intern(&mut self, bits: &[u64]) -> u32 {
        let hash = match *bits {
            [word] if word.is_power_of_two() => {
                let set = &mut self.single[word.trailing_zeros() as usize];
                if *set == NONE {
                    *set = self.count;
                    self.count += 1;
                }
                return *set;
            }
            [word] => BuildHasherDefault::<FxHasher>::default().hash_one(word),
            _ => BuildHasherDefault::<FxHasher>::default().hash_one(bits),
        };
        self.intern_hashed(bits, hash)
    }

    fn intern_hashed(&mut self, bits: &[u64], hash: u64) -> u32 {
        let Self { count, bits: all, entries, index, .. } = self;
        let bits_of = |entry: &SetEntry| &all[entry.start as usize..entry.start as usize + bits.len()];
        if let Some(&existing) = index.find(hash, |&entry| bits_of(&entries[entry as usize]) == bits) {
            return entries[existing as usize].number;
        }
        let number = *count;
        *count += 1;
        let entry = entries.len() as u32;
        entries.push(SetEntry { start: all.len() as u32, number, hash });
        all.extend_from_slice(bits);
        index.insert_unique(hash, entry, |&entry| entries[entry as usize].hash);
        number
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
    SetMembers { bits, index: 0, rest: bits.first().copied().unwrap_or_default() }
}

/// Calls back with the members of a set, ascending.
#[inline(always)]
pub(super) fn for_each_member(bits: &[u64], mut visit: impl FnMut(usize)) {
    for (index, &word) in bits.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            visit(index * u64::BITS as usize + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
}

struct SetMembers<'a> {
    bits: &'a [u64],
    index: usize,
    rest: u64,
}

impl Iterator for SetMembers<'_> {
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
