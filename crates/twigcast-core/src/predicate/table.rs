//! The triggers of one automaton state by the key they wait for.

use crate::plan::Distance;

/// Number of an atom; fits in 32 bits beside the distance.
pub type AtomId = u32;

/// A distance and an atom in one word.
pub fn pack(distance: Distance, atom: AtomId) -> u64 {
    u64::from(slot(distance)) << 32 | u64::from(atom)
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

/// What waits for a key: enough to pass over a query that has matched already, and to accept one of which nothing
/// remains to be tested, without looking the trigger up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// The query.
    pub query: u32,
    /// Index of the trigger; [`Waiting::SATISFIED`] if nothing remains to be tested.
    pub trigger: u32,
}

impl Waiting {
    /// Nothing remains to be tested.
    pub const SATISFIED: u32 = u32::MAX;
}

/// Sorted entries and a small open-addressing index over them.
#[derive(Debug, Default)]
pub struct KeyTable {
    keys: Box<[u64]>,
    waiting: Box<[Waiting]>,
    /// Position of a key's first entry plus one; 0 is free. A power of two in size, at most half full.
    index: Box<[u32]>,
    /// Bit per distance in use.
    distances: u64,
}

impl KeyTable {
    /// The table of these triggers.
    pub fn new(mut entries: Vec<KeyedTrigger>) -> Self {
        if entries.is_empty() {
            return Self::default();
        }
        entries.sort_unstable();
        let mut distances = 0;
        let mut index = vec![0; (entries.len() * 2).next_power_of_two()];
        let mut previous = None;
        for (position, entry) in entries.iter().enumerate() {
            if previous == Some(entry.key) {
                continue;
            }
            previous = Some(entry.key);
            distances |= 1 << (entry.key >> 32);
            let mut at = spread(entry.key) & (index.len() - 1);
            while index[at] != 0 {
                at = (at + 1) & (index.len() - 1);
            }
            index[at] = position as u32 + 1;
        }
        Self {
            keys: entries.iter().map(|entry| entry.key).collect(),
            waiting: entries.iter().map(|entry| entry.waiting).collect(),
            index: index.into(),
            distances,
        }
    }

    /// No trigger at all?
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
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
    pub fn get(&self, key: u64) -> &[Waiting] {
        if self.index.is_empty() {
            return &[];
        }
        let mut at = spread(key) & (self.index.len() - 1);
        loop {
            let Some(first) = (self.index[at] as usize).checked_sub(1) else { return &[] };
            if self.keys[first] == key {
                let run = self.keys[first..].iter().take_while(|&&entry| entry == key).count();
                return &self.waiting[first..first + run];
            }
            at = (at + 1) & (self.index.len() - 1);
        }
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.keys.len() * 16 + self.index.len() * 4
    }
}

#[inline]
fn spread(key: u64) -> usize {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trigger_is_found_under_its_key_and_no_other() {
        let entries: Vec<_> = (0..500u32)
            .map(|n| {
                let distance = if n % 7 == 0 { Distance::Any } else { Distance::Up((n % 5) as u16) };
                KeyedTrigger { key: pack(distance, n / 3), waiting: Waiting { query: n, trigger: 2 * n } }
            })
            .collect();
        let table = KeyTable::new(entries.clone());
        for distance in (0..6).map(Distance::Up).chain([Distance::Any, Distance::Level(2)]) {
            for atom in 0..200 {
                let key = pack(distance, atom);
                let expected: Vec<_> = entries.iter().filter(|e| e.key == key).map(|e| e.waiting).collect();
                assert_eq!(table.get(key), expected);
            }
        }
        assert!(table.uses(Distance::Up(4)) && table.uses(Distance::Any));
        assert!(!table.uses(Distance::Up(5)) && !table.uses(Distance::Level(1)));
        assert!(KeyTable::default().get(pack(Distance::Any, 0)).is_empty());
    }
}
