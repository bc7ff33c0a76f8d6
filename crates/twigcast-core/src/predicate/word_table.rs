//! Words to atoms: an open hash table that a look-up leaves after a few instructions.

use crate::ids::AtomId;

/// Packs a text of at most seven bytes into a word: the bytes, and their number on top, so that no two texts are alike.
#[inline]
pub(super) fn short(text: &[u8]) -> Option<u64> {
    if text.len() > 7 {
        return None;
    }
    let bytes = text.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    Some(bytes | (text.len() as u64) << 56)
}

/// Packs a slice of a larger text as [`short`] does, without a branch that depends on the length where eight bytes can
/// be read.
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

/// Returns whether a packed text is an integer without white space, sign or leading zeros.
#[inline]
pub(super) fn is_plain_integer(word: u64) -> bool {
    let length = word >> 56;
    let lanes = (1 << (8 * length)) - 1;
    // Digits become 0 to 9, and all other bytes are 128 or more before or after the addition.
    let digits = (word ^ 0x0030_3030_3030_3030) & lanes;
    let others = (digits | (digits + (0x0076_7676_7676_7676 & lanes))) & 0x0080_8080_8080_8080;
    others == 0 && length > 0 && (word & 0xff != 0x30 || length == 1)
}

/// Returns the value of a packed text that is a plain integer of at most three digits.
#[inline]
pub(super) fn small_integer(word: u64) -> Option<usize> {
    let length = word >> 56;
    if length > 3 || !is_plain_integer(word) {
        return None;
    }
    // The last digit in the third byte, and zeros before the first one.
    let digits = ((word & 0x0f_0f0f) << (8 * (3 - length))) as usize;
    Some((digits & 0xff) * 100 + (digits >> 8 & 0xff) * 10 + (digits >> 16 & 0xff))
}

/// The atoms of a word, of two kinds. 0 stands for none.
pub(super) type WordAtoms = [AtomId; 2];

/// The table. At most three quarters of the buckets are in use, and their number is a power of two.
#[derive(Clone, Debug, Default)]
pub(super) struct WordTable {
    buckets: Box<[(u64, WordAtoms)]>,
    len: usize,
}

pub(super) const NO_ATOMS: WordAtoms = [AtomId::NONE; 2];

impl WordTable {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns where a word stands, or the free bucket where it would. There has to be a free one.
    #[inline]
    fn bucket(&self, word: u64) -> usize {
        let last = self.buckets.len() - 1;
        let mut at = Self::home(word) & last;
        while self.buckets[at].1 != NO_ATOMS && self.buckets[at].0 != word {
            at = (at + 1) & last;
        }
        at
    }

    #[inline]
    fn home(word: u64) -> usize {
        // Numbers differ in their high bits, short texts in their low ones and in their lengths.
        ((word ^ word >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }

    /// Returns the atoms of a word.
    #[inline]
    pub(super) fn get(&self, word: u64) -> WordAtoms {
        if self.buckets.is_empty() { NO_ATOMS } else { self.buckets[self.bucket(word)].1 }
    }

    /// Sets the atom of a word, of one kind; not [`AtomId::NONE`].
    pub(super) fn insert(&mut self, word: u64, kind: usize, atom: AtomId) {
        if (self.len + 1) * 4 > self.buckets.len() * 3 {
            let before = std::mem::take(&mut self.buckets);
            self.buckets = vec![(0, NO_ATOMS); (before.len() * 2).max(4)].into();
            for &(word, atoms) in before.iter().filter(|(_, atoms)| *atoms != NO_ATOMS) {
                let at = self.bucket(word);
                self.buckets[at] = (word, atoms);
            }
        }
        let at = self.bucket(word);
        let (existing, atoms) = &mut self.buckets[at];
        self.len += usize::from(*atoms == NO_ATOMS);
        *existing = word;
        atoms[kind] = atom;
    }

    /// Removes the atom of a word, of one kind. If it was the last one, the word is removed, and those behind it that
    /// would not be found any more are moved up.
    pub(super) fn remove(&mut self, word: u64, kind: usize) {
        if self.get(word)[kind] == AtomId::NONE {
            return;
        }
        let last = self.buckets.len() - 1;
        let mut hole = self.bucket(word);
        self.buckets[hole].1[kind] = AtomId::NONE;
        if self.buckets[hole].1 != NO_ATOMS {
            return;
        }
        self.buckets[hole] = (0, NO_ATOMS);
        self.len -= 1;
        let mut at = (hole + 1) & last;
        while self.buckets[at].1 != NO_ATOMS {
            let home = Self::home(self.buckets[at].0) & last;
            if (at.wrapping_sub(home) & last) >= (at.wrapping_sub(hole) & last) {
                self.buckets[hole] = std::mem::replace(&mut self.buckets[at], (0, NO_ATOMS));
                hole = at;
            }
            at = (at + 1) & last;
        }
    }

    /// Returns the bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<(u64, WordAtoms)>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::testing::Random;

    #[test]
    fn words_come_and_go_as_in_a_map() {
        for seed in 1..20_u64 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let (mut words, mut existing) = (WordTable::default(), HashMap::new());
            for step in 1..2_000 {
                // Numbers as bits differ in their high bits only.
                let word = if seed % 2 == 0 { random.below(60) } else { (random.below(60) as f64).to_bits() };
                let kind = random.below(2) as usize;
                if random.below(2) == 0 {
                    words.insert(word, kind, AtomId::from_u32(step));
                    existing.entry(word).or_insert(NO_ATOMS)[kind] = AtomId::from_u32(step);
                } else {
                    words.remove(word, kind);
                    existing.entry(word).or_insert(NO_ATOMS)[kind] = AtomId::NONE;
                    existing.retain(|_, atoms| *atoms != NO_ATOMS);
                }
                assert_eq!(words.len, existing.len());
                assert_eq!(words.get(word), existing.get(&word).copied().unwrap_or(NO_ATOMS));
            }
            for number in 0..60_u64 {
                for word in [number, (number as f64).to_bits()] {
                    assert_eq!(words.get(word), existing.get(&word).copied().unwrap_or(NO_ATOMS));
                }
            }
        }
    }

    #[test]
    fn plain_integers_are_told_from_all_other_short_texts() {
        let bytes = [b'0', b'1', b'9', b'/', b':', b' ', 0, 0x7f, 0x80, 0xb0, 0xb5, 0xff];
        let mut texts: Vec<Vec<u8>> = vec![Vec::new()];
        for from in 0.. {
            let Some(text) = texts.get(from).cloned() else { break };
            if text.len() < 4 {
                texts.extend(bytes.iter().map(|&byte| [&text[..], &[byte]].concat()));
            }
        }
        texts.extend([b"1234567".to_vec(), b"0234567".to_vec(), b"123456\xb7".to_vec(), b"\xff234567".to_vec()]);
        for text in texts {
            let is_plain =
                text == b"0" || text.iter().all(u8::is_ascii_digit) && text.first().is_some_and(|&first| first > b'0');
            assert_eq!(short(&text).map(is_plain_integer), Some(is_plain), "{text:?}");
            let value = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
            assert_eq!(short(&text).and_then(small_integer), value.filter(|_| is_plain && text.len() < 4), "{text:?}");
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
