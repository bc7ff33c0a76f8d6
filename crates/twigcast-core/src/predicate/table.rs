//! The triggers of one automaton state by the key they wait for.

use std::num::NonZeroU32;

use crate::plan::Distance;

/// Number of an atom.
pub type AtomId = u32;

/// A distance and an atom in one word: 6 bits and 26. Never 0, since no atom has the number 0.
pub type PackedKey = u32;

const ATOM_BITS: u32 = 26;
/// Atoms from this number on have no packed key of their own; what waits for them is not looked up but tested.
pub const ATOMS_MAX: AtomId = (1 << ATOM_BITS) - 1;
/// Queries from this number on are not looked up but tested: so many always have room in a table.
pub const QUERIES_MAX: u32 = 1 << 28;

/// Distance and atom in one word.
#[inline]
pub fn pack(distance: Distance, atom: AtomId) -> PackedKey {
    slot(distance) << ATOM_BITS | atom.min(ATOMS_MAX)
}

/// Distance and atom of a packed key; for one about the accepting element's text, distance 0.
#[inline]
pub fn unpack(key: PackedKey) -> (Distance, AtomId) {
    let distance = match key >> ATOM_BITS {
        ANY_SLOT => Distance::Any,
        CONTENT_SLOT => Distance::Up(0),
        slot if slot > LEVEL_SLOTS => Distance::Level((slot - LEVEL_SLOTS) as u16),
        slot => Distance::Up(slot as u16),
    };
    (distance, key & ATOMS_MAX)
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
pub fn pack_content(atom: AtomId) -> PackedKey {
    CONTENT_SLOT << ATOM_BITS | atom.min(ATOMS_MAX)
}

/// A set of distances, with the accepting element's text as one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distances(u64);

impl Distances {
    fn insert(&mut self, key: PackedKey) {
        self.0 |= 1 << (key >> ATOM_BITS);
    }

    /// Is this distance a member?
    #[inline]
    pub fn contains(self, distance: Distance) -> bool {
        self.0 >> slot(distance) & 1 == 1
    }

    /// Is the accepting element's text?
    #[inline]
    pub fn content(self) -> bool {
        self.0 >> CONTENT_SLOT & 1 == 1
    }

    /// Is anything but the accepting element's text?
    #[inline]
    pub fn attributes(self) -> bool {
        self.0 & !(1 << CONTENT_SLOT) != 0
    }
}

/// The keys that hold at an element, a few bits each: never misses a member, may hold others. Most queries that ask for
/// a second key are passed over by it, without a look at the message.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyMask([u64; 4]);

impl KeyMask {
    /// Add a key.
    #[inline]
    pub fn insert(&mut self, key: PackedKey) {
        let (word, bit) = Self::place(key);
        self.0[word] |= bit;
    }

    /// May the key be a member?
    #[inline]
    pub fn may_hold(&self, key: PackedKey) -> bool {
        let (word, bit) = Self::place(key);
        self.0[word] & bit != 0
    }

    #[inline]
    fn place(key: PackedKey) -> (usize, u64) {
        let mixed = key.wrapping_mul(MIX) >> 24;
        ((mixed >> 6) as usize, 1 << (mixed & 63))
    }
}

/// An odd number with its bits spread well (2^32 by the golden ratio).
const MIX: u32 = 0x9e37_79b9;

/// A trigger and its packed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyedTrigger {
    /// See [`pack`].
    pub key: PackedKey,
    /// What waits for it.
    pub waiting: Waiting,
}

/// What waits for a key: enough to pass over a query that has matched already, to test one further key, and to accept a
/// query of which nothing else remains to be tested, all without looking the trigger up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// The query, below [`QUERIES_MAX`].
    pub query: u32,
    /// A further key that must hold.
    pub also: Option<NonZeroU32>,
    /// Number of the trigger, if more remains to be tested.
    pub trigger: Option<u32>,
}

/// What waits, by key: an open hash table of keys and lists. Tables are many and most look-ups go to one that is not in
/// the processor's cache, so what counts is how few lines of it a look-up touches: a bit of the filter for a key that is
/// not there, mostly one bucket for one that is (a lone query stands in the bucket itself), and one list.
#[derive(Clone, Debug, Default)]
pub struct KeyTable {
    /// A bit for each key, several keys sharing one now and then. A power of two of words.
    filter: Box<[u64]>,
    /// Keys and where their lists begin in `lists`, or [`LONE`] and a query. Key 0: free. A power of two of them.
    buckets: Box<[(PackedKey, u32)]>,
    keys: u32,
    /// Lists: the number of words; how many of them are queries of which nothing else is asked; these queries; then the
    /// other [`Waiting`]s as [`Waiting::write`] puts them. Each lies in a block of the power of two of words that it
    /// needs.
    lists: Vec<u32>,
    /// First free block by the logarithm of its size; a free block begins with the next one.
    free: Vec<u32>,
    /// Distances in use (or once in use).
    distances: Distances,
    /// The same for the further keys.
    also_distances: Distances,
}

const FILTER_BITS_PER_KEY: usize = 8;
const LONE: u32 = 1 << 31;
const END: u32 = u32::MAX;

const HAS_ALSO: u32 = 1 << 30;
const HAS_TRIGGER: u32 = 1 << 31;

impl Waiting {
    fn is_lone(&self) -> bool {
        self.also.is_none() && self.trigger.is_none()
    }

    /// How many words it takes, one to three.
    fn words(&self) -> usize {
        1 + usize::from(self.also.is_some()) + usize::from(self.trigger.is_some())
    }

    fn write(self, words: &mut Vec<u32>) {
        let marks =
            if self.also.is_some() { HAS_ALSO } else { 0 } | if self.trigger.is_some() { HAS_TRIGGER } else { 0 };
        words.push(self.query | marks);
        words.extend(self.also.map(NonZeroU32::get));
        words.extend(self.trigger);
    }
}

/// What waits for one key.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    satisfied: &'a [u32],
    /// The others.
    pub others: Others<'a>,
}

impl<'a> List<'a> {
    const EMPTY: Self = Self { satisfied: &[], others: Others { words: &[] } };

    /// The queries of which nothing else is asked.
    #[inline]
    pub fn satisfied(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.satisfied.iter().map(|word| word & (QUERIES_MAX - 1))
    }
}

/// Those that ask for more than one key.
#[derive(Clone, Copy, Debug)]
pub struct Others<'a> {
    words: &'a [u32],
}

impl Iterator for Others<'_> {
    type Item = Waiting;

    #[inline]
    fn next(&mut self) -> Option<Waiting> {
        let (&head, mut rest) = self.words.split_first()?;
        let mut also = None;
        let mut trigger = None;
        if head & HAS_ALSO != 0 {
            let (&word, after) = rest.split_first()?;
            also = NonZeroU32::new(word);
            rest = after;
        }
        if head & HAS_TRIGGER != 0 {
            let (&word, after) = rest.split_first()?;
            trigger = Some(word);
            rest = after;
        }
        self.words = rest;
        Some(Waiting { query: head & (QUERIES_MAX - 1), also, trigger })
    }
}

#[inline]
fn mix(key: PackedKey) -> u64 {
    u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
}

/// Words of the block that a list of so many words lies in.
fn block_of(words: usize) -> usize {
    (words + 1).next_power_of_two()
}

impl KeyTable {
    /// The table of these triggers.
    pub fn new(mut entries: Vec<KeyedTrigger>) -> Self {
        entries.sort_unstable();
        let keys = entries.chunk_by(|a, b| a.key == b.key).count();
        let mut table = Self::default();
        table.make_room(keys);
        let mut words = Vec::new();
        for group in entries.chunk_by(|a, b| a.key == b.key) {
            group.iter().for_each(|entry| table.note_distances(entry));
            let place = match group {
                [only] if only.waiting.is_lone() => only.waiting.query | LONE,
                _ => {
                    let (lone, others) = (0..group.len()).partition::<Vec<_>, _>(|&at| group[at].waiting.is_lone());
                    words.clear();
                    words.push(lone.len() as u32);
                    lone.into_iter().chain(others).for_each(|at| group[at].waiting.write(&mut words));
                    table.new_list(&words)
                }
            };
            table.set(group[0].key, place);
        }
        table.lists.shrink_to_fit();
        table
    }

    fn note_distances(&mut self, entry: &KeyedTrigger) {
        self.distances.insert(entry.key);
        if let Some(also) = entry.waiting.also {
            self.also_distances.insert(also.get());
        }
    }

    /// Make filter and buckets afresh, for so many keys.
    fn make_room(&mut self, keys: usize) {
        let words = (keys * FILTER_BITS_PER_KEY).div_ceil(64).next_power_of_two();
        self.filter = vec![0; words].into();
        let buckets = (keys * 4 / 3 + 1).next_power_of_two();
        let before = std::mem::replace(&mut self.buckets, vec![(0, 0); buckets].into());
        self.keys = 0;
        for &(key, place) in before.iter().filter(|(key, _)| *key != 0) {
            self.set(key, place);
        }
    }

    /// Bucket of a key, or the free one where it would stand.
    #[inline]
    fn bucket(&self, key: PackedKey) -> usize {
        let last = self.buckets.len() - 1;
        let mut at = mix(key) as usize & last;
        while self.buckets[at].0 != 0 && self.buckets[at].0 != key {
            at = (at + 1) & last;
        }
        at
    }

    /// Set the place of a key for which there is room.
    fn set(&mut self, key: PackedKey, place: u32) {
        let at = self.bucket(key);
        self.keys += u32::from(self.buckets[at].0 == 0);
        self.buckets[at] = (key, place);
        let (word, bit) = self.filter_place(key);
        self.filter[word] |= bit;
    }

    /// Take a key out, and move up those behind it that would not be found any more.
    fn unset(&mut self, key: PackedKey) {
        let last = self.buckets.len() - 1;
        let mut hole = self.bucket(key);
        self.buckets[hole] = (0, 0);
        self.keys -= 1;
        let mut at = (hole + 1) & last;
        while self.buckets[at].0 != 0 {
            let home = mix(self.buckets[at].0) as usize & last;
            if (at.wrapping_sub(home) & last) >= (at.wrapping_sub(hole) & last) {
                self.buckets[hole] = std::mem::take(&mut self.buckets[at]);
                hole = at;
            }
            at = (at + 1) & last;
        }
    }

    fn new_list(&mut self, words: &[u32]) -> u32 {
        let size = block_of(words.len());
        let class = size.trailing_zeros() as usize;
        let at = match self.free.get(class) {
            Some(&free) if free != END => {
                self.free[class] = self.lists[free as usize];
                free as usize
            }
            _ => {
                let at = self.lists.len();
                self.lists.resize(at + size, 0);
                at
            }
        };
        self.lists[at] = words.len() as u32;
        self.lists[at + 1..=at + words.len()].copy_from_slice(words);
        at as u32
    }

    fn free_list(&mut self, at: u32) {
        let class = block_of(self.lists[at as usize] as usize).trailing_zeros() as usize;
        if self.free.len() <= class {
            self.free.resize(class + 1, END);
        }
        self.lists[at as usize] = std::mem::replace(&mut self.free[class], at);
    }

    /// Add an entry.
    pub fn insert(&mut self, entry: KeyedTrigger) {
        self.note_distances(&entry);
        if self.buckets.len() * 3 <= (self.keys as usize + 1) * 4 {
            self.make_room((self.keys as usize + 1) * 2);
        }
        let place = match self.place(entry.key) {
            None if entry.waiting.is_lone() => entry.waiting.query | LONE,
            Some(at) if at & LONE == 0 => self.grown(at, entry.waiting),
            known => {
                let lone = known.map(|place| place & !LONE);
                let mut words = vec![u32::from(lone.is_some()) + u32::from(entry.waiting.is_lone())];
                words.extend(lone);
                entry.waiting.write(&mut words);
                self.new_list(&words)
            }
        };
        self.set(entry.key, place);
    }

    /// A list with one entry more; it moves when its block is full.
    fn grown(&mut self, at: u32, waiting: Waiting) -> u32 {
        let mut added = Vec::with_capacity(3);
        waiting.write(&mut added);
        let start = at as usize + 1;
        let length = self.lists[start - 1] as usize;
        let alone = self.lists[start] as usize;
        let from = if waiting.is_lone() { 1 + alone } else { length };
        let count = u32::from(waiting.is_lone());
        if length + added.len() < block_of(length) {
            self.lists.copy_within(start + from..start + length, start + from + added.len());
            self.lists[start + from..][..added.len()].copy_from_slice(&added);
            self.lists[start - 1] += added.len() as u32;
            self.lists[start] += count;
            return at;
        }
        let mut all = self.lists[start..start + length].to_vec();
        all.splice(from..from, added);
        all[0] += count;
        self.free_list(at);
        self.new_list(&all)
    }

    /// Remove an entry; whether it was there.
    pub fn remove(&mut self, entry: KeyedTrigger) -> bool {
        let Some(place) = self.place(entry.key) else { return false };
        if place & LONE != 0 {
            let is_it = entry.waiting.is_lone() && place & !LONE == entry.waiting.query;
            if is_it {
                self.unset(entry.key);
            }
            return is_it;
        }
        let length = self.lists[place as usize] as usize;
        let list = self.list(place);
        let found = if entry.waiting.is_lone() {
            list.satisfied.iter().position(|&query| query == entry.waiting.query).map(|index| index + 2)
        } else {
            let mut others = list.others;
            others.find(|waiting| *waiting == entry.waiting).map(|_| length - others.words.len())
        };
        let Some(end) = found else { return false };
        self.lists[place as usize + 1] -= u32::from(entry.waiting.is_lone());
        self.shorten(entry.key, place, end - entry.waiting.words(), end);
        true
    }

    /// Take words out of a key's list; it moves when a smaller block will do.
    fn shorten(&mut self, key: PackedKey, place: u32, from: usize, to: usize) {
        let start = place as usize + 1;
        let length = self.lists[start - 1] as usize;
        let shorter = length - (to - from);
        self.lists.copy_within(start + to..start + length, start + from);
        if shorter == 1 {
            self.free_list(place);
            self.unset(key);
        } else if block_of(shorter) == block_of(length) {
            self.lists[start - 1] = shorter as u32;
        } else {
            let words = self.lists[start..start + shorter].to_vec();
            self.free_list(place);
            let place = self.new_list(&words);
            self.set(key, place);
        }
    }

    /// No entry at all?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Distances that the keys look at.
    #[inline]
    pub fn distances(&self) -> Distances {
        self.distances
    }

    /// Distances that the keys or the further keys look at.
    #[inline]
    pub fn all_distances(&self) -> Distances {
        Distances(self.distances.0 | self.also_distances.0)
    }

    #[inline]
    fn filter_place(&self, key: PackedKey) -> (usize, u64) {
        let bit = (mix(key) >> 16) as usize & (self.filter.len() * 64 - 1);
        (bit >> 6, 1 << (bit & 63))
    }

    #[inline]
    fn place(&self, key: PackedKey) -> Option<u32> {
        if self.filter.is_empty() {
            return None;
        }
        let (word, bit) = self.filter_place(key);
        if self.filter[word] & bit == 0 {
            return None;
        }
        let (found, place) = self.buckets[self.bucket(key)];
        (found == key).then_some(place)
    }

    #[inline]
    fn list(&self, place: u32) -> List<'_> {
        let start = place as usize + 1;
        let words = &self.lists[start..start + self.lists[start - 1] as usize];
        let (satisfied, others) = words[1..].split_at(words[0] as usize);
        List { satisfied, others: Others { words: others } }
    }

    /// Keep those keys that something may wait for.
    #[inline]
    pub fn select(&self, keys: &mut Vec<PackedKey>) {
        if self.filter.is_empty() {
            keys.clear();
            return;
        }
        // Without a branch: whether a key is there is as good as random.
        let mut kept = 0;
        for index in 0..keys.len() {
            let key = keys[index];
            let (word, bit) = self.filter_place(key);
            keys[kept] = key;
            kept += usize::from(self.filter[word] & bit != 0);
        }
        keys.truncate(kept);
        // Look at all buckets before any answer is waited for: what is not in the cache comes in at the same time.
        let last = self.buckets.len() - 1;
        let seen = keys.iter().fold(0, |seen, &key| seen ^ self.buckets[mix(key) as usize & last].1);
        std::hint::black_box(seen);
    }

    /// What waits for this packed key, which [`Self::select`] has kept.
    #[inline]
    pub fn get(&self, key: PackedKey) -> List<'_> {
        let (found, place) = &self.buckets[self.bucket(key)];
        if *found != key {
            List::EMPTY
        } else if place & LONE != 0 {
            List { satisfied: std::slice::from_ref(place), ..List::EMPTY }
        } else {
            self.list(*place)
        }
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        (self.filter.len() + self.buckets.len()) * 8 + (self.lists.capacity() + self.free.capacity()) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u32) -> KeyedTrigger {
        let distance = if n % 7 == 0 { Distance::Any } else { Distance::Up((n % 5) as u16) };
        KeyedTrigger {
            key: pack(distance, n / 3 + 1),
            waiting: Waiting { query: n, also: NonZeroU32::new(n % 2 * 77), trigger: (n % 3 == 0).then_some(2 * n) },
        }
    }

    fn check(table: &KeyTable, live: &[KeyedTrigger]) {
        for distance in (0..6).map(Distance::Up).chain([Distance::Any, Distance::Level(2)]) {
            for atom in 0..200 {
                let key = pack(distance, atom);
                let mut expected: Vec<_> = live.iter().filter(|e| e.key == key).map(|e| e.waiting).collect();
                let mut kept = vec![key];
                table.select(&mut kept);
                let mut found = Vec::new();
                for key in kept {
                    let list = table.get(key);
                    found.extend(list.satisfied().map(|query| Waiting { query, also: None, trigger: None }));
                    found.extend(list.others);
                }
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
        assert!(table.distances().contains(Distance::Up(4)) && table.distances().contains(Distance::Any));
        assert!(!table.distances().contains(Distance::Up(5)) && !table.distances().contains(Distance::Level(1)));
        check(&KeyTable::default(), &[]);

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
        for e in &live {
            assert!(table.remove(*e));
        }
        assert!(table.is_empty());
    }

    #[test]
    fn long_lists_grow_and_shrink_within_their_memory() {
        let long = |n| KeyedTrigger {
            key: pack(Distance::Up(u16::from(n % 50 == 0)), 5),
            waiting: Waiting { query: n, also: None, trigger: (n % 4 == 0).then_some(n) },
        };
        let mut table = KeyTable::default();
        let mut sizes = Vec::new();
        for _ in 0..3 {
            (0..1_000).for_each(|n| table.insert(long(n)));
            check(&table, &(0..1_000).map(long).collect::<Vec<_>>());
            sizes.push(table.bytes());
            for n in (0..1_000).filter(|n| n % 10 != 0) {
                assert!(table.remove(long(n)));
            }
            check(&table, &(0..1_000).filter(|n| n % 10 == 0).map(long).collect::<Vec<_>>());
            for n in (0..1_000).filter(|n| n % 10 == 0) {
                assert!(table.remove(long(n)));
            }
            assert!(table.is_empty());
        }
        assert_eq!(sizes[1], sizes[2], "free blocks are used again");
    }

    #[test]
    fn a_mask_holds_its_members_and_atoms_beyond_the_last_share_a_key_that_nothing_waits_for() {
        let mut mask = KeyMask::default();
        let keys: Vec<_> = (1..40).map(|n| pack(Distance::Up(n % 3), u32::from(n) * 31)).collect();
        keys.iter().for_each(|&key| mask.insert(key));
        assert!(keys.iter().all(|&key| mask.may_hold(key)));
        assert!((1000..2000).filter(|&atom| mask.may_hold(pack(Distance::Any, atom))).count() < 500);
        assert_eq!(pack(Distance::Up(3), u32::MAX), pack(Distance::Up(3), ATOMS_MAX));
        assert_eq!(unpack(pack(Distance::Level(3), 9)), (Distance::Level(3), 9));
        assert_eq!(unpack(pack_content(9)), (Distance::Up(0), 9));
    }
}
