//! The triggers of one automaton state by the key they wait for.

use std::num::NonZeroU64;

use rustc_hash::FxHashMap;

use crate::plan::Distance;

/// Number of an atom; fits in 32 bits beside the distance.
pub type AtomId = u32;

/// A distance and an atom in one word.
pub fn pack(distance: Distance, atom: AtomId) -> u64 {
    u64::from(slot(distance)) << 32 | u64::from(atom)
}

/// Distance and atom of a packed key; for one about the accepting element's text, distance 0.
#[inline]
pub fn unpack(key: u64) -> (Distance, AtomId) {
    let distance = match (key >> 32) as u32 {
        ANY_SLOT => Distance::Any,
        CONTENT_SLOT => Distance::Up(0),
        slot if slot > LEVEL_SLOTS => Distance::Level((slot - LEVEL_SLOTS) as u16),
        slot => Distance::Up(slot as u16),
    };
    (distance, key as AtomId)
}

/// Distances take 6 bits.
fn slot(distance: Distance) -> u32 {
    match distance {
        Distance::Up(levels) => u32::from(levels),
        Distance::Level(level) => LEVEL_SLOTS + u32::from(level),
        Distance::Any => ANY_SLOT,
    }
}

const LEVEL_SLOTS: u32 = Distance::UP_MAX as u32 + 1;
const ANY_SLOT: u32 = 63;
/// Atoms about the text of the accepting element are told apart, since finding them out costs more than attributes.
const CONTENT_SLOT: u32 = 62;

/// An atom about the accepting element's text, packed.
pub fn pack_content(atom: AtomId) -> u64 {
    u64::from(CONTENT_SLOT) << 32 | u64::from(atom)
}

/// A trigger and its packed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyedTrigger {
    /// See [`pack`].
    pub key: u64,
    /// What waits for it.
    pub waiting: Waiting,
}

/// What waits for a key: enough to pass over a query that has matched already, to test one further key, and to accept a
/// query of which nothing else remains to be tested, all without looking the trigger up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// The query.
    pub query: u32,
    /// A further key that must hold, as [`pack`] or [`pack_content`] gives it.
    pub also: Option<NonZeroU64>,
    /// Index of the trigger; [`Waiting::SATISFIED`] if nothing else remains to be tested.
    pub trigger: u32,
}

impl Waiting {
    /// Nothing else remains to be tested.
    pub const SATISFIED: u32 = u32::MAX;
}

/// What waits, by key: a hash table of lists, cheap to change an entry at a time.
#[derive(Clone, Debug, Default)]
pub struct KeyTable {
    /// A bit for each key, several keys sharing one now and then: tells most keys that are not there without a look at
    /// the lists, which seldom are in the processor's cache. A power of two of words.
    filter: Box<[u64]>,
    /// First entry of each key's list.
    heads: FxHashMap<u64, u32>,
    entries: Vec<Entry>,
    /// Head of the list of free entries.
    free: u32,
    /// Bit per distance in use (or once in use).
    distances: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    waiting: Waiting,
    /// The next entry of the list, [`END`] after the last.
    next: u32,
}

const END: u32 = u32::MAX;

const FILTER_BITS_PER_KEY: usize = 8;

/// Word and bit of a key in a filter of so many words.
#[inline]
fn filter_place(key: u64, words: usize) -> (usize, u64) {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bit = (mixed >> 32) as usize & (words * 64 - 1);
    (bit >> 6, 1 << (bit & 63))
}

impl KeyTable {
    /// The table of these triggers. Lists come to lie in one piece.
    pub fn new(mut entries: Vec<KeyedTrigger>) -> Self {
        entries.sort_unstable();
        let mut table = Self { entries: Vec::with_capacity(entries.len()), free: END, ..Self::default() };
        for (position, entry) in entries.iter().enumerate() {
            let ends = entries.get(position + 1).is_none_or(|after| after.key != entry.key);
            let next = if ends { END } else { position as u32 + 1 };
            table.entries.push(Entry { waiting: entry.waiting, next });
            table.heads.entry(entry.key).or_insert(position as u32);
            table.distances |= 1 << (entry.key >> 32);
        }
        table.make_filter();
        table
    }

    /// Make the filter afresh, with room for twice the keys there are.
    fn make_filter(&mut self) {
        let words = (self.heads.len() * 2 * FILTER_BITS_PER_KEY).div_ceil(64).next_power_of_two();
        self.filter = vec![0; words].into();
        for &key in self.heads.keys() {
            let (word, bit) = filter_place(key, words);
            self.filter[word] |= bit;
        }
    }

    /// Add an entry.
    pub fn insert(&mut self, entry: KeyedTrigger) {
        let next = self.heads.get(&entry.key).copied().unwrap_or(END);
        let new = Entry { waiting: entry.waiting, next };
        let at = if self.entries.is_empty() || self.free == END {
            self.free = END;
            self.entries.push(new);
            self.entries.len() as u32 - 1
        } else {
            let at = self.free;
            self.free = self.entries[at as usize].next;
            self.entries[at as usize] = new;
            at
        };
        self.heads.insert(entry.key, at);
        self.distances |= 1 << (entry.key >> 32);
        if self.heads.len() * FILTER_BITS_PER_KEY > self.filter.len() * 64 {
            self.make_filter();
        } else {
            let (word, bit) = filter_place(entry.key, self.filter.len());
            self.filter[word] |= bit;
        }
    }

    /// Remove an entry; whether it was there.
    pub fn remove(&mut self, entry: KeyedTrigger) -> bool {
        let Some(&head) = self.heads.get(&entry.key) else { return false };
        let (mut before, mut at) = (END, head);
        while at != END && self.entries[at as usize].waiting != entry.waiting {
            (before, at) = (at, self.entries[at as usize].next);
        }
        if at == END {
            return false;
        }
        let after = self.entries[at as usize].next;
        match (before, after) {
            (END, END) => {
                self.heads.remove(&entry.key);
            }
            (END, _) => {
                self.heads.insert(entry.key, after);
            }
            _ => self.entries[before as usize].next = after,
        }
        self.entries[at as usize].next = self.free;
        self.free = at;
        true
    }

    /// No entry at all?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Does some key look at attributes?
    pub fn reads_attributes(&self) -> bool {
        self.distances & !(1 << CONTENT_SLOT) != 0
    }

    /// Does some key use this distance?
    #[inline]
    pub fn uses(&self, distance: Distance) -> bool {
        self.distances >> slot(distance) & 1 == 1
    }

    /// Does some key ask for the accepting element's text?
    pub fn reads_content(&self) -> bool {
        self.distances & (1 << CONTENT_SLOT) != 0
    }

    /// What waits for this packed key.
    #[inline]
    pub fn get(&self, key: u64) -> impl Iterator<Item = Waiting> + '_ {
        let mut at = if self.may_hold(key) { self.heads.get(&key).copied().unwrap_or(END) } else { END };
        std::iter::from_fn(move || {
            if at == END {
                return None;
            }
            let entry = self.entries[at as usize];
            at = entry.next;
            Some(entry.waiting)
        })
    }

    #[inline]
    fn may_hold(&self, key: u64) -> bool {
        if self.filter.is_empty() {
            return false;
        }
        let (word, bit) = filter_place(key, self.filter.len());
        self.filter[word] & bit != 0
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.filter.len() * 8
            + self.heads.capacity() * (size_of::<(u64, u32)>() + 1)
            + self.entries.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u32) -> KeyedTrigger {
        let distance = if n % 7 == 0 { Distance::Any } else { Distance::Up((n % 5) as u16) };
        KeyedTrigger {
            key: pack(distance, n / 3),
            waiting: Waiting { query: n, also: NonZeroU64::new(u64::from(n)), trigger: 2 * n },
        }
    }

    fn check(table: &KeyTable, live: &[KeyedTrigger]) {
        for distance in (0..6).map(Distance::Up).chain([Distance::Any, Distance::Level(2)]) {
            for atom in 0..200 {
                let key = pack(distance, atom);
                let mut expected: Vec<_> = live.iter().filter(|e| e.key == key).map(|e| e.waiting).collect();
                let mut found: Vec<_> = table.get(key).collect();
                expected.sort_unstable();
                found.sort_unstable();
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn every_trigger_is_found_under_its_key_and_no_other() {
        let mut live: Vec<_> = (0..500).map(entry).collect();
        let mut table = KeyTable::new(live.clone());
        check(&table, &live);
        assert!(table.uses(Distance::Up(4)) && table.uses(Distance::Any));
        assert!(!table.uses(Distance::Up(5)) && !table.uses(Distance::Level(1)));
        assert_eq!(KeyTable::default().get(pack(Distance::Any, 0)).count(), 0);

        // Entries go and come in an order unlike that of their making.
        for n in (0..500).rev().filter(|n| n % 3 != 1) {
            assert!(table.remove(entry(n)) && !table.remove(entry(n)));
        }
        live.retain(|e| e.waiting.query % 3 == 1);
        check(&table, &live);
        for n in (0..500).filter(|n| n % 3 == 2) {
            table.insert(entry(n));
            live.push(entry(n));
        }
        check(&table, &live);
        assert!(table.entries.len() <= 500, "free entries are used again");
        for e in &live {
            assert!(table.remove(*e));
        }
        assert!(table.is_empty());
    }
}
