//! Sixteen bytes at once: which of them are of a class, a bit each from the first byte on. Where the processor is known
//! to have vector instructions, as each x86-64 one is, these find it out.
//!
//! Lanes are signed, so that those of bytes beyond ASCII are below all others.

use wide::{CmpEq, CmpGt, CmpLt, i8x16};

/// Bytes looked at together.
pub const LANES: usize = 16;

#[inline(always)]
fn load(bytes: &[u8; LANES]) -> i8x16 {
    i8x16::new(bytes.map(|byte| byte as i8))
}

#[inline(always)]
fn all(byte: u8) -> i8x16 {
    i8x16::splat(byte as i8)
}

#[inline(always)]
fn equal(lanes: i8x16, byte: u8) -> i8x16 {
    lanes.cmp_eq(all(byte))
}

/// Returns the lanes between two bytes, which are above 0 and below 0x7F.
#[inline(always)]
fn within(lanes: i8x16, first: u8, last: u8) -> i8x16 {
    lanes.cmp_gt(all(first - 1)) & lanes.cmp_lt(all(last + 1))
}

#[inline(always)]
fn marks(lanes: i8x16) -> u32 {
    lanes.move_mask() as u32 & 0xFFFF
}

/// Returns the bytes that may not continue an ASCII name without colon.
#[inline(always)]
pub fn no_name(bytes: &[u8; LANES]) -> u32 {
    let lanes = load(bytes);
    let letter = within(lanes | all(0x20), b'a', b'z');
    let digit_or_mark = within(lanes, b'0', b'9') | within(lanes, b'-', b'.');
    marks(letter | digit_or_mark | equal(lanes, b'_')) ^ 0xFFFF
}

/// Returns the bytes at which a search in an attribute value stops: quotes, `<`, `&` and control characters.
#[inline(always)]
pub fn no_value(bytes: &[u8; LANES]) -> u32 {
    let lanes = load(bytes);
    let control = lanes.cmp_lt(all(0x20)) & lanes.cmp_gt(i8x16::splat(-1));
    marks(control | equal(lanes, b'"') | within(lanes, b'&', b'\'') | equal(lanes, b'<'))
}

/// Returns the bytes at which a search in character data stops: `<`, `&` and `]`.
#[inline(always)]
pub fn no_text(bytes: &[u8; LANES]) -> u32 {
    let lanes = load(bytes);
    marks(equal(lanes, b'<') | equal(lanes, b'&') | equal(lanes, b']'))
}

/// Returns the bytes at which markup begins, but for end tags. `next`: for each byte, the one behind it.
#[inline(always)]
pub fn markup(bytes: &[u8; LANES], next: &[u8; LANES]) -> u32 {
    let (lanes, next) = (load(bytes), load(next));
    marks(equal(lanes, b'<') & !equal(next, b'/') | equal(lanes, b'&'))
}

/// Returns the same bytes, but of start tags only those whose name begins with a byte.
#[inline(always)]
pub fn markup_of(bytes: &[u8; LANES], next: &[u8; LANES], first: u8) -> u32 {
    let (lanes, next) = (load(bytes), load(next));
    let wanted = equal(next, first) | equal(next, b'!') | equal(next, b'?');
    marks(equal(lanes, b'<') & wanted | equal(lanes, b'&'))
}

/// Returns the bytes that are a given one.
#[inline(always)]
pub fn each(bytes: &[u8; LANES], byte: u8) -> u32 {
    marks(equal(load(bytes), byte))
}
