//! Texts by name, found without calling anything for names of less than sixteen bytes.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::util::packed_name::PackedName;

/// The texts of entities, once they have been expanded.
#[derive(Debug, Default)]
pub struct TextTable {
    /// Those with names that are all in their keys.
    short: HashTable<(PackedName, Arc<str>)>,
    long: HashMap<Box<[u8]>, Arc<str>, RandomState>,
}

impl TextTable {
    /// Returns the text of a name; `key` is that of the name.
    #[inline(always)]
    pub fn get(&self, name: &[u8], key: PackedName) -> Option<&Arc<str>> {
        if key.is_cut() {
            return self.long.get(name);
        }
        self.short.find(key.hash(), |(other, _)| *other == key).map(|(_, text)| text)
    }

    /// Adds the text of a name that has none.
    pub fn insert(&mut self, name: &[u8], text: Arc<str>) {
        let key = PackedName::of(name);
        if key.is_cut() {
            self.long.insert(name.into(), text);
        } else {
            self.short.insert_unique(key.hash(), (key, text), |(key, _)| key.hash());
        }
    }
}

/// A set of names that says of most others that they are not in it, at the cost of one look.
#[derive(Debug, Default)]
pub struct NameFilter {
    /// A bit for each hash; empty while there is no name.
    words: Vec<u64>,
    keys: Vec<PackedName>,
    /// The byte that all names begin with, unless they begin with different ones.
    first: Option<u8>,
}

/// Bits for each name.
const BITS: usize = 16;

impl NameFilter {
    /// Adds a name; of one with a colon, what stands before that.
    pub fn add(&mut self, name: &[u8]) {
        let colon = memchr::memchr(b':', name).unwrap_or(name.len());
        let key = PackedName::of(&name[..colon]);
        let first = key.first as u8;
        self.first = Some(first).filter(|_| self.keys.is_empty() || self.first == Some(first));
        self.keys.push(key);
        if self.words.len() * 64 < self.keys.len() * BITS {
            self.words = vec![0; (2 * self.keys.len() * BITS).div_ceil(64).next_power_of_two()];
            for index in 0..self.keys.len() {
                self.set(self.keys[index]);
            }
        } else {
            self.set(key);
        }
    }

    fn set(&mut self, key: PackedName) {
        let hash = key.hash();
        let word = hash as usize >> 6 & (self.words.len() - 1);
        self.words[word] |= 1 << (hash & 63);
    }

    /// Returns whether a name with this key before its colon may have been added.
    #[inline(always)]
    pub fn may_have(&self, key: PackedName) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let hash = key.hash();
        self.words[hash as usize >> 6 & (self.words.len() - 1)] >> (hash & 63) & 1 == 1
    }

    /// Returns the byte that all names begin with; none if they begin with different ones.
    pub fn first_byte(&self) -> Option<u8> {
        self.first
    }

    /// Returns whether no name was added.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}
