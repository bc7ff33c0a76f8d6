//! Words to atoms: an open hash table that a look-up leaves after a few instructions.

use super::key::AtomId;

/// A text of at most seven bytes as one word: the bytes, and their number on top, so that no two texts are alike.
#[inline]
pub(super) fn short(text: &[u8]) -> Option<u64> {
    if text.len() > 7 {
        return None;
    }
    let bytes = text.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    Some(bytes | (text.len() as u64) << 56)
}

/// [`short`] for a slice of a larger text: without a branch that depends on the length, where something follows it.
#[inline]
pub(super) fn short_within(text: &[u8], start: usize, end: usize) -> Option<u64> {
    let length = end - start;
    if length > 7 {
        return None;
    }
    match text.get(start..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(bytes) => {
            let kept = (1 << (8 * length)) - 1;
            Some(u64::from_le_bytes(*bytes) & kept | (length as u64) << 56)
        }
        None => short(&text[start..end]),
    }
}

/// The table. Atom 0 stands for none. At most three quarters of the buckets are in use, and their number is a power of
/// two.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    buckets: Box<[(u64, AtomId)]>,
    len: usize,
}

impl Words {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where a word stands, or the free bucket where it would. There has to be a free one.
    #[inline]
    fn bucket(&self, word: u64) -> usize {
        let last = self.buckets.len() - 1;
        let mut at = Self::home(word) & last;
        while self.buckets[at].1 != 0 && self.buckets[at].0 != word {
            at = (at + 1) & last;
        }
        at
    }

    #[inline]
    fn home(word: u64) -> usize {
        // Numbers differ in their high bits, short texts in their low ones and in their lengths.
        ((word ^ word >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }

    /// The atom of a word, 0 if it has none.
    #[inline]
    pub(super) fn get(&self, word: u64) -> AtomId {
        if self.buckets.is_empty() { 0 } else { self.buckets[self.bucket(word)].1 }
    }

    /// Set the atom, not 0, of a word.
    pub(super) fn insert(&mut self, word: u64, atom: AtomId) {
        if (self.len + 1) * 4 > self.buckets.len() * 3 {
            let before = std::mem::take(&mut self.buckets);
            self.buckets = vec![(0, 0); (before.len() * 2).max(4)].into();
            for &(word, atom) in before.iter().filter(|(_, atom)| *atom != 0) {
                let at = self.bucket(word);
                self.buckets[at] = (word, atom);
            }
        }
        let at = self.bucket(word);
        self.len += usize::from(self.buckets[at].1 == 0);
        self.buckets[at] = (word, atom);
    }

    /// Take a word out, and move up those behind it that would not be found any more.
    pub(super) fn remove(&mut self, word: u64) {
        if self.get(word) == 0 {
            return;
        }
        let last = self.buckets.len() - 1;
        let mut hole = self.bucket(word);
        self.buckets[hole] = (0, 0);
        self.len -= 1;
        let mut at = (hole + 1) & last;
        while self.buckets[at].1 != 0 {
            let home = Self::home(self.buckets[at].0) & last;
            if (at.wrapping_sub(home) & last) >= (at.wrapping_sub(hole) & last) {
                self.buckets[hole] = std::mem::take(&mut self.buckets[at]);
                hole = at;
            }
            at = (at + 1) & last;
        }
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<(u64, AtomId)>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn words_come_and_go_as_in_a_map() {
        for seed in 1..20_u64 {
            println!("seed {seed}");
            let mut state = seed;
            let mut random = move |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            };
            let (mut words, mut known) = (Words::default(), HashMap::new());
            for step in 1..2_000 {
                // Numbers as bits differ in their high bits only.
                let word = if seed % 2 == 0 { random(60) } else { (random(60) as f64).to_bits() };
                if random(2) == 0 {
                    words.insert(word, step);
                    known.insert(word, step);
                } else {
                    words.remove(word);
                    known.remove(&word);
                }
                assert_eq!(words.len, known.len());
                assert_eq!(words.get(word), known.get(&word).copied().unwrap_or(0));
            }
            for number in 0..60_u64 {
                for word in [number, (number as f64).to_bits()] {
                    assert_eq!(words.get(word), known.get(&word).copied().unwrap_or(0));
                }
            }
        }
    }

    #[test]
    fn no_two_short_texts_are_alike() {
        let texts = ["", "\0", "\0\0", "a", "a\0", "ab", "ba", "abcdefg", "abcdef", "\u{e9}", "1", "01"];
        for (at, text) in texts.iter().enumerate() {
            assert!(texts[..at].iter().all(|other| short(other.as_bytes()) != short(text.as_bytes())), "{text}");
        }
        assert_eq!(short(b"12345678"), None);
        let all: Vec<u8> = (0..40).collect();
        for start in 0..all.len() {
            for end in start..all.len() {
                assert_eq!(short_within(&all, start, end), short(&all[start..end]));
            }
        }
    }
}
