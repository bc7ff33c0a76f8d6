//! Hash tables whose clones share all parts that have not changed since.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// Entries of a full shard: of ids, and of entries that are cloned one by one. Its table is full, too, at seven eighths of
/// a power of two.
const SHARD_MAX: usize = 3584;
const PAIRS_MAX: usize = 1792;
/// The most doublings of the directory beyond the mean shard, for entries whose hashes are unusually alike. Beyond that, a
/// shard grows.
const DEEPER_MAX: u32 = 4;

/// A hash table in shards, by bits of the hash. A clone costs a counter a shard; a change to a table that has clones copies
/// the one shard that it touches. As with [`HashTable`], the caller makes the hashes.
///
/// A full shard is divided into two, so that no addition costs more than a shard, and a directory leads to the shards
/// (Fagin et al., "Extendible hashing", 1979).
#[derive(Clone, Debug)]
pub(crate) struct CowHashTable<T, const MAX: usize = SHARD_MAX> {
    shards: Vec<Arc<Shard<T>>>,
    /// The shard by the lowest bits of [`address`]: a power of two of them, or none as long as there was no entry.
    directory: Vec<u32>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Shard<T> {
    table: HashTable<T>,
    /// So many bits of their addresses are the same for all entries.
    depth: u32,
}

impl<T, const MAX: usize> Default for CowHashTable<T, MAX> {
    fn default() -> Self {
        Self { shards: Vec::new(), directory: Vec::new(), len: 0 }
    }
}

/// Returns the bits of a hash by which shards are found. The tables use its lowest and highest bits as they are.
#[inline]
fn address(hash: u64) -> usize {
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36) as usize
}

impl<T, const MAX: usize> CowHashTable<T, MAX> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of entries that there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.shards.iter().map(|shard| shard.table.capacity()).sum()
    }

    /// Returns the entry with a hash that `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        if self.directory.is_empty() {
            return None;
        }
        self.shards[self.shard_of(hash)].table.find(hash, is_it)
    }

    /// Returns the index of the shard for a hash. Only called where there is a shard.
    #[inline]
    fn shard_of(&self, hash: u64) -> usize {
        self.directory[address(hash) & (self.directory.len() - 1)] as usize
    }

    /// Returns all entries, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.shards.iter().flat_map(|shard| shard.table.iter())
    }
}

impl<T: Clone, const MAX: usize> CowHashTable<T, MAX> {
    /// Returns the table for a hash, for a change. Only called where there is a shard.
    fn table_mut(&mut self, hash: u64) -> &mut HashTable<T> {
        let shard = self.shard_of(hash);
        &mut Arc::make_mut(&mut self.shards[shard]).table
    }

    /// Returns the entry with a hash that `is_it` accepts, for a change.
    pub(crate) fn find_mut(&mut self, hash: u64, mut is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        // Without such an entry, no shard is copied.
        self.find(hash, &mut is_it)?;
        self.table_mut(hash).find_mut(hash, is_it)
    }

    /// Adds an entry that is not there yet.
    pub(crate) fn insert_unique(&mut self, hash: u64, entry: T, hasher: impl Fn(&T) -> u64) {
        if self.directory.is_empty() {
            self.shards.push(Arc::new(Shard { table: HashTable::new(), depth: 0 }));
            self.directory.push(0);
        }
        let mut index = self.shard_of(hash);
        while self.is_to_be_divided(index) {
            self.divide(index, address(hash), &hasher);
            index = self.shard_of(hash);
        }
        self.len += 1;
        Arc::make_mut(&mut self.shards[index]).table.insert_unique(hash, entry, hasher);
    }

    /// Removes the entry with a hash that `is_it` accepts, and returns it.
    pub(crate) fn remove(&mut self, hash: u64, mut is_it: impl FnMut(&T) -> bool) -> Option<T> {
        self.find(hash, &mut is_it)?;
        let (entry, _) = self.table_mut(hash).find_entry(hash, is_it).ok()?.remove();
        self.len -= 1;
        Some(entry)
    }

    fn is_to_be_divided(&self, index: usize) -> bool {
        let Shard { table, depth } = &*self.shards[index];
        table.len() >= MAX && *depth <= (self.len / MAX).max(1).ilog2() + DEEPER_MAX
    }

    /// Divides a shard, to which an address leads, by one more bit of the addresses of its entries.
    fn divide(&mut self, index: usize, address_there: usize, hasher: &impl Fn(&T) -> u64) {
        let shard = Arc::make_mut(&mut self.shards[index]);
        let bit = 1 << shard.depth;
        shard.depth += 1;
        let entries = std::mem::replace(&mut shard.table, HashTable::with_capacity(MAX));
        let mut divided = Shard { table: HashTable::with_capacity(MAX), depth: shard.depth };
        for entry in entries {
            let hash = hasher(&entry);
            let shard = if address(hash) & bit == 0 { &mut *shard } else { &mut divided };
            shard.table.insert_unique(hash, entry, hasher);
        }
        if self.directory.len() == bit {
            self.directory.extend_from_within(..);
        }
        let new = self.shards.len() as u32;
        let common = address_there & (bit - 1);
        (common | bit..self.directory.len()).step_by(2 * bit).for_each(|at| self.directory[at] = new);
        self.shards.push(Arc::new(divided));
    }
}

/// A map whose clones share what has not changed since: a [`CowHashTable`] of keys and values.
#[derive(Clone, Debug)]
pub(crate) struct CowMap<K, V> {
    table: CowHashTable<(K, V), PAIRS_MAX>,
}

impl<K, V> Default for CowMap<K, V> {
    fn default() -> Self {
        Self { table: CowHashTable::default() }
    }
}

#[inline]
fn hash_of(key: &(impl Hash + ?Sized)) -> u64 {
    FxBuildHasher.hash_one(key)
}

impl<K: Eq + Hash, V> CowMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns the number of entries that there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Returns the value of a key.
    #[inline]
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        if self.is_empty() {
            return None;
        }
        self.table.find(hash_of(key), |(existing, _)| existing.borrow() == key).map(|(_, value)| value)
    }

    /// Returns all keys and values, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> + Clone {
        self.table.iter().map(|(key, value)| (key, value))
    }

    /// Returns all values, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.table.iter().map(|(_, value)| value)
    }
}

impl<K: Clone + Eq + Hash, V: Clone> CowMap<K, V> {
    /// Returns the value of a key, for a change.
    pub(crate) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.table.find_mut(hash_of(key), |(existing, _)| existing.borrow() == key).map(|(_, value)| value)
    }

    /// Sets the value of a key. Returns its former value.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = hash_of(&key);
        match self.table.find_mut(hash, |(existing, _)| *existing == key) {
            Some((_, existing)) => Some(std::mem::replace(existing, value)),
            None => {
                self.table.insert_unique(hash, (key, value), |(key, _)| hash_of(key));
                None
            }
        }
    }

    /// Returns the value of a key, for a change; a key without a value gets the default one.
    pub(crate) fn value_mut(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let hash = hash_of(&key);
        if self.table.find(hash, |(existing, _)| *existing == key).is_none() {
            self.table.insert_unique(hash, (key.clone(), V::default()), |(key, _)| hash_of(key));
        }
        let (_, value) =
            self.table.find_mut(hash, |(existing, _)| *existing == key).expect("it was added if not there");
        value
    }

    /// Removes the keys and values that `is_kept` refuses.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&K, &V) -> bool) {
        let gone: Vec<K> =
            self.iter().filter(|(key, value)| !is_kept(key, value)).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| _ = self.remove(key));
    }

    /// Removes a key. Returns its value.
    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.table.remove(hash_of(key), |(existing, _)| existing.borrow() == key).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::Random;

    /// Keys come and go at random. The map equals a simple one, and each clone stays as it was when it was made.
    #[test]
    fn a_map_and_its_clones_hold_what_was_set() {
        for seed in 1_u64..4 {
            println!("seed {seed}");
            let mut numbers = Random(seed);
            let mut random = move |bound: u64| numbers.below(bound);
            let (mut map, mut model) = (CowMap::<u64, u64>::default(), BTreeMap::new());
            let mut clones = Vec::new();
            for round in 0..60_000 {
                let key = random(30_000) << 12;
                match random(4) {
                    0 => assert_eq!(map.remove(&key), model.remove(&key)),
                    1 => {
                        *map.value_mut(key) += round;
                        *model.entry(key).or_default() += round;
                    }
                    _ => assert_eq!(map.insert(key, round), model.insert(key, round)),
                }
                if round % 20_000 == 7_000 {
                    clones.push((map.clone(), model.clone()));
                }
            }
            assert!(map.table.shards.len() > 1, "shards were split");
            clones.push((map, model));
            for (map, model) in &clones {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_unstable();
                assert!(entries.into_iter().eq(model.iter()));
                assert_eq!(map.len(), model.len());
                assert!((0..30_000).all(|key| map.get(&(key << 12)) == model.get(&(key << 12))));
            }
        }
    }

    #[test]
    fn what_did_not_change_is_shared() {
        let mut map: CowMap<u32, u32> = CowMap::default();
        (0..40_000).for_each(|key| assert_eq!(map.insert(key, key), None));
        let clone = map.clone();
        assert_eq!((map.remove(&50_000), map.get_mut(&50_000)), (None, None));
        map.insert(7, 0);
        let pairs = clone.table.shards.iter().zip(&map.table.shards);
        assert_eq!(pairs.filter(|(before, after)| !Arc::ptr_eq(before, after)).count(), 1);
        assert_eq!((clone.get(&7), map.get(&7)), (Some(&7), Some(&0)));
    }
}
