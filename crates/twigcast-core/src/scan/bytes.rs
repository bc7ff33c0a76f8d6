//! Byte classes: what the scanner asks of each byte, one table look-up an answer; and the searches that end names and
//! values, eight bytes at a time.
//!
//! Names and values are short and their lengths hard to predict, so a loop over their bytes costs a branch misprediction
//! each. The searches by words have no branch that depends on where in a word they end.

use crate::local_names::NameKey;

/// May start a name (the colon is handled by the caller).
pub const NAME_START: u8 = 1;
/// May continue a name (the colon is handled by the caller).
pub const NAME: u8 = 2;
/// White space.
pub const SPACE: u8 = 4;
/// Ends the uninteresting part of character data: `<`, `&`, `]` and the end of the message.
pub const TEXT_STOP: u8 = 8;
/// Ends the uninteresting part of an attribute value: quotes, `<`, `&`, white space to normalise, end of the message.
pub const VALUE_STOP: u8 = 16;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        let mut class = 0;
        if b.is_ascii_alphabetic() || b == b'_' {
            class |= NAME_START | NAME;
        }
        if b.is_ascii_digit() || b == b'-' || b == b'.' {
            class |= NAME;
        }
        if matches!(b, b' ' | b'\t' | b'\r' | b'\n') {
            class |= SPACE;
        }
        if matches!(b, 0 | b'<' | b'&' | b']') {
            class |= TEXT_STOP;
        }
        if matches!(b, 0 | b'"' | b'\'' | b'<' | b'&' | b'\t' | b'\r' | b'\n') {
            class |= VALUE_STOP;
        }
        table[byte] = class;
        byte += 1;
    }
    table
}

/// Whether a byte belongs to a class.
#[inline(always)]
pub fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// The byte at an offset; 0, which no accepted message contains, at the end.
#[inline(always)]
pub fn byte(source: &[u8], at: usize) -> u8 {
    if at < source.len() { source[at] } else { 0 }
}

/// The first offset from `at` on that is not white space.
#[inline(always)]
pub fn skip_spaces(source: &[u8], mut at: usize) -> usize {
    while is(byte(source, at), SPACE) {
        at += 1;
    }
    at
}

/// A byte in each of the eight places of a word.
const fn all(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

/// The highest bit of each byte, which the functions below answer with.
const HIGH: u64 = all(0x80);

/// Marks the bytes of `word` that are at least `least`. Both are below 0x80.
#[inline(always)]
fn at_least(word: u64, least: u8) -> u64 {
    (word + all(0x80 - least)) & HIGH
}

/// Marks the bytes of `word`, all below 0x80, that differ from `byte`.
#[inline(always)]
fn differ(word: u64, byte: u8) -> u64 {
    ((word ^ all(byte)) + all(0x7F)) & HIGH
}

/// Searches by words for the first byte that `marked` marks; then by bytes for the first of class `class`.
#[inline(always)]
fn search(source: &[u8], mut at: usize, marked: impl Fn(u64) -> u64, stops: impl Fn(u8) -> bool) -> usize {
    while let Some(word) = source.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let marks = marked(u64::from_le_bytes(*word));
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while !stops(byte(source, at)) {
        at += 1;
    }
    at
}

/// Marks the bytes of `word` that may not continue an ASCII name without colon.
#[inline(always)]
fn no_name(word: u64) -> u64 {
    let low = word & !HIGH;
    let lower = low | all(0x20);
    let letter = at_least(lower, b'a') & !at_least(lower, b'z' + 1);
    let digit_or_mark = at_least(low, b'-') & !at_least(low, b'9' + 1) & differ(low, b'/');
    !(letter | digit_or_mark | !differ(low, b'_')) & HIGH | word & HIGH
}

/// The first offset from `at` on whose byte may not continue an ASCII name without colon.
#[inline(always)]
fn name_end(source: &[u8], at: usize) -> usize {
    search(source, at, no_name, |b| !is(b, NAME))
}

/// The end of the ASCII name without colon that starts at `at`, where a byte stands that may start one; and its key.
#[inline(always)]
pub fn name_at(source: &[u8], at: usize) -> (usize, NameKey) {
    let Some(words) = source.get(at..).and_then(|rest| rest.first_chunk::<16>()) else {
        return name_by_bytes(source, at);
    };
    let words = u128::from_le_bytes(*words);
    let (first, second) = (words as u64, (words >> 64) as u64);
    let marks = no_name(first);
    if marks != 0 {
        let length = (marks.trailing_zeros() / 8) as usize;
        return (at + length, NameKey { first: first & before(marks), second: 0 });
    }
    let marks = no_name(second);
    if marks != 0 {
        let length = 8 + (marks.trailing_zeros() / 8) as usize;
        return (at + length, NameKey { first, second: second & before(marks) });
    }
    (name_end(source, at + 16), NameKey { first, second })
}

/// The bits below the byte of the lowest mark.
#[inline(always)]
fn before(marks: u64) -> u64 {
    ((marks & marks.wrapping_neg()) >> 7) - 1
}

#[inline(never)]
fn name_by_bytes(source: &[u8], at: usize) -> (usize, NameKey) {
    let end = name_end(source, at);
    (end, NameKey::of(&source[at..end]))
}

/// The first offset from `at` on whose byte is of class [`VALUE_STOP`]. Other control characters, which no accepted
/// message contains, stop it as well.
#[inline(always)]
pub fn value_stop(source: &[u8], at: usize) -> usize {
    let marked = |word: u64| {
        let low = word & !HIGH;
        // `&` and `'` differ in the lowest bit only.
        let plain = at_least(low, 0x20) & differ(low | all(1), b'\'') & differ(low, b'"') & differ(low, b'<');
        !(plain | word) & HIGH
    };
    search(source, at, marked, |b| is(b, VALUE_STOP))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte in each place of a word and of the rest after the last word.
    #[test]
    fn searches_by_words_agree_with_the_table() {
        for b in 0..=255u8 {
            for length in 1..40 {
                for place in 0..length {
                    let mut source = vec![b'x'; length];
                    source[place] = b;
                    let expected = |class_stops: bool| if class_stops { place } else { length };
                    let end = expected(!is(b, NAME));
                    assert_eq!(name_end(&source, 0), end, "name, {b} at {place} of {length}");
                    assert_eq!(name_at(&source, 0), (end, NameKey::of(&source[..end])), "{b} at {place} of {length}");
                    let control = b < 0x20 && !matches!(b, 0 | b'\t' | b'\n' | b'\r');
                    if !control {
                        assert_eq!(value_stop(&source, 0), expected(is(b, VALUE_STOP)), "value, {b} at {place}");
                    }
                }
            }
        }
    }
}
