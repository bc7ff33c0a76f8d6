//! An index from hashes to numbers, for caches of what messages contain.
//!
//! Such an index outgrows the caches of the processor, so a look-up costs as many cache lines as it waits for. Here that is
//! one: hash and number are stored side by side, eight pairs in a line. The caller compares the entries themselves.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use crate::ids::TableId;

/// Makes hashes with a key of the process, so that messages cannot be written to make look-ups slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeededHasher {
    start: u64,
    factor: u64,
}

impl Default for SeededHasher {
    fn default() -> Self {
        let state = RandomState::default();
        Self { start: state.hash_one(0_u64), factor: state.hash_one(1_u64) | 1 }
    }
}

impl SeededHasher {
    #[inline]
    fn mixed(self, hash: u64, word: u64) -> u64 {
        let product = u128::from(hash ^ word) * u128::from(self.factor);
        product as u64 ^ (product >> 64) as u64
    }

    /// Returns the hash of two words and a list.
    #[inline]
    pub(crate) fn of<Id: TableId>(self, first: u64, second: u32, list: &[Id]) -> u32 {
        let mut hash = self.mixed(self.start, first);
        hash = self.mixed(hash, u64::from(second) << 32 | list.len() as u64);
        let mut pairs = list.chunks_exact(2);
        for pair in &mut pairs {
            hash = self.mixed(hash, u64::from(pair[0].as_u32()) << 32 | u64::from(pair[1].as_u32()));
        }
        for &last in pairs.remainder() {
            hash = self.mixed(hash, u64::from(last.as_u32()));
        }
        hash as u32
    }
}

/// An open table of hashes and numbers. At most three quarters of the slots are in use, and their number is a power of two.
#[derive(Debug, Default)]
pub(crate) struct HashIndex {
    /// A hash, and a number and one; 0: free.
    slots: Box<[(u32, u32)]>,
    len: usize,
}

impl HashIndex {
    /// Removes all numbers.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<(u32, u32)>()
    }

    /// Prefetches the first slot of a hash, so that it is in the cache when it is needed.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) -> u32 {
        if self.slots.is_empty() { 0 } else { self.slots[hash as usize & (self.slots.len() - 1)].1 }
    }

    /// Returns the numbers that were inserted with a hash.
    #[inline]
    pub(crate) fn with_hash(&self, hash: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = hash as usize;
        std::iter::from_fn(move || {
            loop {
                let last = self.slots.len().checked_sub(1)?;
                let (existing, number) = self.slots[at & last];
                at += 1;
                if number == 0 {
                    return None;
                }
                if existing == hash {
                    return Some(number - 1);
                }
            }
        })
    }

    /// Inserts a number below the largest there is.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            let before = std::mem::take(&mut self.slots);
            self.slots = vec![(0, 0); (before.len() * 2).max(16)].into();
            before.iter().filter(|slot| slot.1 != 0).for_each(|&slot| self.put(slot));
        }
        self.len += 1;
        self.put((hash, number + 1));
    }

    fn put(&mut self, slot: (u32, u32)) {
        let last = self.slots.len() - 1;
        let mut at = slot.0 as usize & last;
        while self.slots[at].1 != 0 {
            at = (at + 1) & last;
        }
        self.slots[at] = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_hashes() {
        let mut index = HashIndex::default();
        assert_eq!(index.with_hash(7).count(), 0);
        // Hashes that are alike in their low bits, and some that are alike altogether.
        let hash_of = |number: u32| ((number % 700) << 12) | (number % 3);
        for count in 0..3_000 {
            index.insert(hash_of(count), count);
            let sought = hash_of(count / 2);
            let mut result: Vec<u32> = index.with_hash(sought).collect();
            result.sort_unstable();
            let expected: Vec<u32> = (0..=count).filter(|&number| hash_of(number) == sought).collect();
            assert_eq!(result, expected);
        }
        index.clear();
        assert_eq!((index.bytes(), index.with_hash(hash_of(1)).count()), (0, 0));
    }

    #[test]
    fn hashes_depend_on_all_that_is_hashed() {
        let hashing = SeededHasher::default();
        let lists: [&[u32]; 7] = [&[], &[0], &[0, 0], &[1], &[1, 2], &[2, 1], &[1, 2, 3]];
        let mut hashes: Vec<u32> = Vec::new();
        for (first, second) in [(0, 0), (0, 1), (1, 0), (1 << 32, 0), (1, 1)] {
            hashes.extend(lists.iter().map(|list| hashing.of(first, second, list)));
        }
        assert_eq!(hashes[0], hashing.of::<u32>(0, 0, &[]));
        hashes.sort_unstable();
        hashes.dedup();
        assert!(hashes.len() > 32, "{} of 35", hashes.len());
    }
}
