//! Sets of bindings as bits. Equal sets of one binding list have one number.

use std::hash::{BuildHasher, BuildHasherDefault};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

/// A set that takes several words or has several members.
#[derive(Clone, Copy, Debug)]
struct SetEntry {
    /// Position of its bits.
    start: u32,
    number: u32,
    hash: u64,
}

/// The number of a set that has not occurred.
const UNUSED: u32 = u32::MAX;

/// The sets of one list, numbered from 0.
#[derive(Debug, Default)]
pub(super) struct BindingSets {
    count: u32,
    /// By binding: the number of the set of this binding alone, if it takes one word; [`UNUSED`] before it occurs.
    single: Vec<u32>,
    bits: Vec<u64>,
    entries: Vec<SetEntry>,
    index: HashTable<u32>,
}

impl BindingSets {
    /// Removes all sets.
    pub fn reset(&mut self) {
        self.count = 0;
        self.single.clear();
        self.single.resize(u64::BITS as usize, UNUSED);
        self.bits.clear();
        self.entries.clear();
        self.index.clear();
    }

    /// Returns the number of sets.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns the number of the set with these bits. All sets have the same number of words.
    #[inline]
    pub fn intern(&mut self, bits: &[u64]) -> u32 {
        let hash = match *bits {
            [word] if word.is_power_of_two() => {
                let set = &mut self.single[word.trailing_zeros() as usize];
                if *set == UNUSED {
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

/// Sets the bits of the first `count` bindings, and no others.
pub(super) fn fill(bits: &mut Vec<u64>, count: usize) {
    bits.clear();
    bits.resize(count.div_ceil(64), u64::MAX);
    if let Some(last) = bits.last_mut().filter(|_| !count.is_multiple_of(64)) {
        *last = (1 << (count % 64)) - 1;
    }
}

/// Iterates over the members of a set, ascending.
#[inline]
pub(super) fn members(bits: &[u64]) -> impl Iterator<Item = u32> + '_ {
    SetMembers { bits, index: 0, rest: bits.first().copied().unwrap_or_default() }
}

/// Calls back with each member of a set, ascending.
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

/// See [`members`].
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
