//! Sets of small numbers as bits, 64 in a word.

/// Returns whether a number is in a set; those behind its last word are not.
#[inline(always)]
pub fn has_bit(words: &[u64], number: usize) -> bool {
    words.get(number >> 6).is_some_and(|word| word >> (number & 63) & 1 == 1)
}
