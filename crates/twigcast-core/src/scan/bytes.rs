//! Byte classes: what the scanner asks of each byte, one table look-up an answer; and the searches that end names, values
//! and texts, sixteen bytes at a time.
//!
//! These are short and their lengths hard to predict, so a loop over their bytes costs a branch misprediction each. The
//! searches by [`lanes`] have no branch that depends on where among sixteen bytes they end.

use crate::scan::lanes::{self, LANES};
use crate::util::packed_name::PackedName;

/// The class of bytes that may start a name (the caller handles the colon).
pub const NAME_START: u8 = 1;
/// The class of bytes that may continue a name (the caller handles the colon).
pub const NAME: u8 = 2;
/// White space.
pub const SPACE: u8 = 4;
/// Ends the uninteresting part of character data: `<`, `&`, `]` and the end of the message.
pub const TEXT_STOP: u8 = 8;
/// Ends the uninteresting part of an attribute value: quotes, `<`, `&`, white space to normalise, end of the message.
pub const VALUE_STOP: u8 = 16;

/// Plain bytes of a text after which a search that has to be called pays off.
const SHORT_TEXT: usize = 2 * LANES;

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

/// Returns whether a byte belongs to a class.
#[inline(always)]
pub fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// Returns the byte at an offset; 0, which no accepted message contains, at the end.
#[inline(always)]
pub fn byte(source: &[u8], at: usize) -> u8 {
    if at < source.len() { source[at] } else { 0 }
}

/// Returns the first offset from `at` on that is not white space.
#[inline(always)]
pub fn skip_spaces(source: &[u8], mut at: usize) -> usize {
    while is(byte(source, at), SPACE) {
        at += 1;
    }
    at
}

/// Returns the lanes from `at` on, where the source has as many.
#[inline(always)]
fn lanes_at(source: &[u8], at: usize) -> Option<&[u8; LANES]> {
    source.get(at..).and_then(|rest| rest.first_chunk())
}

/// Searches by lanes for the first byte that `marked` marks; then by bytes for the first of class `class`.
#[inline(always)]
fn search(source: &[u8], mut at: usize, marked: impl Fn(&[u8; LANES]) -> u32, stops: impl Fn(u8) -> bool) -> usize {
    while let Some(bytes) = lanes_at(source, at) {
        let marks = marked(bytes);
        if marks != 0 {
            return at + marks.trailing_zeros() as usize;
        }
        at += LANES;
    }
    while !stops(byte(source, at)) {
        at += 1;
    }
    at
}

/// Returns the first offset from `at` on whose byte may not continue an ASCII name without colon.
#[inline(always)]
fn name_end(source: &[u8], at: usize) -> usize {
    search(source, at, lanes::no_name, |b| !is(b, NAME))
}

/// Returns the end of the ASCII name without colon that starts at `at`, where a byte stands that may start one; and its
/// key.
#[inline(always)]
pub fn name_at(source: &[u8], at: usize) -> (usize, PackedName) {
    let Some(bytes) = lanes_at(source, at) else { return name_by_bytes(source, at) };
    let length = (lanes::no_name(bytes) | 1 << LANES).trailing_zeros() as usize;
    let key = PackedName::of_start(bytes, length);
    if length < LANES { (at + length, key) } else { (name_end(source, at + LANES), key) }
}

#[inline(never)]
fn name_by_bytes(source: &[u8], at: usize) -> (usize, PackedName) {
    let end = name_end(source, at);
    (end, PackedName::of(&source[at..end]))
}

/// Returns the first offset from `at` on whose byte is of class [`VALUE_STOP`]. Other control characters, which no
/// accepted message contains, stop it as well.
#[inline(always)]
pub fn value_stop(source: &[u8], at: usize) -> usize {
    search(source, at, lanes::no_value, |b| is(b, VALUE_STOP))
}

/// Returns the first offset from `at` on that may not be plain character data; where the source ends, if there is none.
#[inline(always)]
pub fn plain_text_end(source: &[u8], mut at: usize) -> usize {
    for _ in 0..SHORT_TEXT / LANES {
        let Some(bytes) = lanes_at(source, at) else { break };
        let marks = lanes::no_text(bytes);
        if marks != 0 {
            return at + marks.trailing_zeros() as usize;
        }
        at += LANES;
    }
    long_text_end(source, at)
}

#[inline(never)]
fn long_text_end(source: &[u8], at: usize) -> usize {
    let rest = source.get(at..).unwrap_or_default();
    memchr::memchr3(b'<', b'&', b']', rest).map_or(source.len(), |skipped| at + skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte in each of the lanes and of the rest behind them.
    #[test]
    fn searches_by_lanes_agree_with_the_table() {
        for b in 0..=255u8 {
            for length in 1..50 {
                for position in 0..length {
                    let mut source = vec![b'x'; length];
                    source[position] = b;
                    let expected = |class_stops: bool| if class_stops { position } else { length };
                    let end = expected(!is(b, NAME));
                    assert_eq!(name_end(&source, 0), end, "name, {b} at {position} of {length}");
                    assert_eq!(
                        name_at(&source, 0),
                        (end, PackedName::of(&source[..end])),
                        "{b} at {position} of {length}"
                    );
                    let control = b < 0x20 && !matches!(b, 0 | b'\t' | b'\n' | b'\r');
                    if !control {
                        assert_eq!(value_stop(&source, 0), expected(is(b, VALUE_STOP)), "value, {b} at {position}");
                        let stops = is(b, TEXT_STOP) && b != 0;
                        assert_eq!(plain_text_end(&source, 0), expected(stops), "text, {b} at {position} of {length}");
                    }
                }
            }
        }
    }
}
