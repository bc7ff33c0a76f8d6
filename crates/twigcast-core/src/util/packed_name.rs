//! Local names as machine words, and the table that finds them.
//!
//! A scanner looks a name up for each tag and each attribute. Names are short, so two words tell nearly all of them apart:
//! nothing is called to hash them, and nothing to compare them. Longer ones are hashed and compared to their end: in some
//! vocabularies most names begin alike.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::ids::LocalId;

/// Bytes of a word.
const WORD: usize = 8;
/// Bytes of a key.
const KEY: usize = 2 * WORD;
/// The bits of its words that a key keeps, by the length of the name. There is an entry for each number of five bits,
/// so that none has to be checked.
static KEPT: [(u64, u64); 32] = kept();

const fn kept() -> [(u64, u64); 32] {
    let mut table = [(u64::MAX, u64::MAX); 32];
    let mut length = 0;
    while length < KEY {
        let bits = (1u128 << (8 * length)) - 1;
        table[length] = (bits as u64, (bits >> 64) as u64);
        length += 1;
    }
    table
}

/// Slots of the smallest table. There are always at least four times as many as names: a look that
/// is not the last one cannot be foreseen.
const SLOTS_MIN: usize = 16;

/// A name in words. No name holds a zero byte, so up to fifteen bytes are all in the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedName {
    /// The first eight bytes, zeros behind a shorter name.
    pub first: u64,
    /// The next eight bytes, likewise.
    pub second: u64,
}

impl PackedName {
    /// Returns the key of a name.
    pub fn of(name: &[u8]) -> Self {
        let (first, rest) = name.split_at(name.len().min(WORD));
        Self { first: padded(first), second: padded(&rest[..rest.len().min(WORD)]) }
    }

    /// Returns the key of the name that is the first `length` bytes, or of a longer name that begins with all of `bytes`.
    #[inline(always)]
    pub fn of_start(bytes: &[u8; KEY], length: usize) -> Self {
        let (first, second) = KEPT[length & (KEPT.len() - 1)];
        let words = u128::from_le_bytes(*bytes);
        Self { first: words as u64 & first, second: (words >> 64) as u64 & second }
    }

    /// Returns a number of which all bits depend on all of the key.
    #[inline(always)]
    pub fn hash(self) -> u64 {
        // Digits of pi, so that short names do not multiply by nearly nothing.
        let product = u128::from(self.first ^ 0x243F_6A88_85A3_08D3) * u128::from(self.second ^ 0x1319_8A2E_0370_7344);
        product as u64 ^ (product >> 64) as u64
    }

    /// Returns whether the name may have more bytes than the key has.
    #[inline(always)]
    pub fn is_cut(self) -> bool {
        self.second >> 56 != 0
    }

    /// Returns a number of which all bits depend on all of `name`, which is the name of this key.
    #[inline(always)]
    fn hash_of(self, name: &[u8]) -> usize {
        let hash = if self.is_cut() { self.hash() ^ hash_behind_key(name) } else { self.hash() };
        hash as usize
    }

    /// Returns whether the name of this key, which has all of its bytes and so many, stands in `source` at an offset. It may
    /// go on. False as well where the source ends soon.
    #[inline(always)]
    pub fn begins_at(self, source: &[u8], at: usize, length: usize) -> bool {
        let bytes = source.get(at..).and_then(<[u8]>::first_chunk);
        bytes.is_some_and(|bytes| Self::of_start(bytes, length) == self)
    }

    /// Returns whether the name of this key, which is `name`, stands in `source` at an offset.
    #[inline(always)]
    pub fn stands_at(self, source: &[u8], at: usize, name: &[u8]) -> bool {
        let Some(rest) = source.get(at..) else { return false };
        match rest.first_chunk::<WORD>() {
            // Names are not empty, so the shift is by less than a word.
            Some(word) if name.len() <= WORD => {
                u64::from_le_bytes(*word) & u64::MAX >> ((8 * (WORD - name.len())) & 63) == self.first
            }
            _ => rest.starts_with(name),
        }
    }
}

/// Returns a hash of the part of a name that its key does not hold.
#[inline(never)]
fn hash_behind_key(name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name.get(KEY..).unwrap_or_default());
    hasher.finish()
}

/// Returns up to eight bytes as a word.
fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Local names by key. Their ids count from 1.
#[derive(Clone, Debug)]
pub(crate) struct LocalNames {
    /// Ids by hash, each in the first free slot from there on; 0 where there is none.
    slots: Vec<u32>,
    /// By id; entry 0 stands for no name.
    keys: Vec<PackedName>,
    names: Vec<Box<str>>,
}

impl LocalNames {
    /// Creates a table without names. `none` is the name of entry 0.
    pub fn new(none: &str) -> Self {
        Self { slots: vec![0; SLOTS_MIN], keys: vec![PackedName::default()], names: vec![none.into()] }
    }

    /// Returns how many there are, entry 0 included.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the name behind an id.
    pub fn name(&self, id: LocalId) -> &str {
        &self.names[id.index()]
    }

    /// Returns the id of a name, of which the key is known; [`LocalId::UNKNOWN`] if it is not here.
    #[inline(always)]
    pub fn find(&self, key: PackedName, name: &[u8]) -> LocalId {
        let mask = self.slots.len() - 1;
        let mut slot = key.hash_of(name) & mask;
        loop {
            let id = self.slots[slot];
            if id == 0 {
                return LocalId::UNKNOWN;
            }
            if self.keys[id as usize] == key && (!key.is_cut() || self.names[id as usize].as_bytes() == name) {
                return LocalId::from_u32(id);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Returns the id of a name, added when it is new.
    pub fn intern(&mut self, name: &str) -> LocalId {
        let key = PackedName::of(name.as_bytes());
        let existing = self.find(key, name.as_bytes());
        if existing != LocalId::UNKNOWN {
            return existing;
        }
        let id = self.names.len() as u32;
        self.names.push(name.into());
        self.keys.push(key);
        if self.slots.len() < 4 * self.names.len() {
            self.slots = vec![0; 2 * self.slots.len()];
            (1..=id).for_each(|id| self.insert_id(id));
        } else {
            self.insert_id(id);
        }
        LocalId::from_u32(id)
    }

    /// Puts an id where it is looked for.
    fn insert_id(&mut self, id: u32) {
        let mask = self.slots.len() - 1;
        let mut slot = self.keys[id as usize].hash_of(self.names[id as usize].as_bytes()) & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = id;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::testing::Random;

    /// Names of all lengths from few letters, so that many differ in one place only.
    fn name(random: &mut Random) -> String {
        let length = 1 + random.below(40);
        let odd = random.below(length);
        (0..length)
            .map(|position| if position == odd { char::from(b'a' + random.below(20) as u8) } else { 'a' })
            .collect()
    }

    #[test]
    fn names_are_found_as_in_a_map() {
        for seed in 1..=20_u64 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let mut table = LocalNames::new("?");
            let mut expected: HashMap<String, LocalId> = HashMap::new();
            for _ in 0..random.below(2_000) {
                let new = name(&mut random);
                let id = table.intern(&new);
                assert_eq!(*expected.entry(new.clone()).or_insert(id), id, "{new}");
                let other = name(&mut random);
                let result = table.find(PackedName::of(other.as_bytes()), other.as_bytes());
                assert_eq!(result, expected.get(&other).copied().unwrap_or(LocalId::UNKNOWN), "{other}");
            }
            assert_eq!(table.len(), expected.len() + 1);
            assert!(expected.iter().all(|(name, &id)| table.name(id) == name));
        }
    }

    /// Names that begin alike lie as far apart as any: finding one takes few looks.
    #[test]
    fn names_that_begin_alike_are_spread() {
        let mut table = LocalNames::new("?");
        let names: Vec<String> =
            (0..4_096).map(|number| format!("organisation-unit-{number:04}-of-the-year")).collect();
        names.iter().for_each(|name| _ = table.intern(name));
        let mask = table.slots.len() - 1;
        let taken = (0..).zip(&table.slots).filter(|&(_, &id)| id != 0);
        let probes = taken.map(|(slot, &id): (usize, _)| {
            let first = table.keys[id as usize].hash_of(table.name(LocalId::from_u32(id)).as_bytes());
            slot.wrapping_sub(first) & mask
        });
        // At most a quarter of the slots are taken: a sixth of a look too many is what is to be expected.
        let total: usize = probes.sum();
        assert!(total < names.len(), "{total} looks too many for {} names", names.len());
    }

    /// A name stands where its bytes stand, also shortly before the end of the source and where it goes on.
    #[test]
    fn a_key_stands_where_its_name_does() {
        for seed in 1..=2_000_u64 {
            let mut random = Random(seed);
            let (one, other) = (name(&mut random), name(&mut random));
            let source = format!("</{other}{}", &"> and more of it"[..random.below(16) as usize]);
            for name in [&one, &other] {
                let expected = source[2..].starts_with(name.as_str());
                let key = PackedName::of(name.as_bytes());
                assert_eq!(key.stands_at(source.as_bytes(), 2, name.as_bytes()), expected, "{name} in {source}");
                if !key.is_cut() {
                    let expected = expected && source.len() >= 2 + KEY;
                    assert_eq!(key.begins_at(source.as_bytes(), 2, name.len()), expected, "{name} in {source}");
                }
            }
            assert!(!PackedName::of(b"a").stands_at(source.as_bytes(), source.len() + 1, b"a"));
        }
    }
}
