//! Byte classes: what the scanner asks of each byte, one table look-up an answer.

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
