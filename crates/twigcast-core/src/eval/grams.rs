//! Which short pieces the text of a message has, so that most texts that it does not contain are known not to be in it
//! without reading it again.
//!
//! Of each eight bytes in a row, and each four, a bit is kept under their hash. A text can only be contained if the bits of
//! all its pieces are there. One walk through the text makes the table; it serves all queries, however many texts they ask
//! for, and pays once the message has been searched a few times.

/// Bits for each byte of text, and limits of their number as powers of two.
const BITS_PER_BYTE: usize = 8;
const BITS_MIN: u32 = 12;
const BITS_MAX: u32 = 26;

/// Any odd number whose bits are mixed.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The pieces of one length.
#[derive(Debug)]
struct GramTable<const LENGTH: usize> {
    bits: Box<[u64]>,
    /// What remains of a hash is its highest bits, as many as number the bits.
    shift: u32,
}

impl<const LENGTH: usize> GramTable<LENGTH> {
    fn of(text: &[u8]) -> Self {
        let power = (text.len() * BITS_PER_BYTE).next_power_of_two().ilog2().clamp(BITS_MIN, BITS_MAX);
        let mut pieces = Self { bits: vec![0; 1 << (power - 6)].into(), shift: u64::BITS - power };
        for piece in text.windows(LENGTH) {
            let position = pieces.position(piece);
            pieces.bits[position / 64] |= 1 << (position % 64);
        }
        pieces
    }

    fn position(&self, piece: &[u8]) -> usize {
        let word = piece.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        (word.wrapping_mul(MULTIPLIER) >> self.shift) as usize
    }

    fn has_all(&self, text: &[u8]) -> bool {
        text.windows(LENGTH).all(|piece| {
            let position = self.position(piece);
            self.bits[position / 64] >> (position % 64) & 1 == 1
        })
    }
}

/// The pieces of a text.
#[derive(Debug)]
pub(super) struct Grams {
    long: GramTable<8>,
    short: GramTable<4>,
}

impl Grams {
    pub(super) fn of(text: &str) -> Self {
        Self { long: GramTable::of(text.as_bytes()), short: GramTable::of(text.as_bytes()) }
    }

    /// Returns the most bytes that the table of a text of some length takes.
    pub(super) fn bytes_at_most(length: usize) -> usize {
        let bits = (length * BITS_PER_BYTE).next_power_of_two().clamp(1 << BITS_MIN, 1 << BITS_MAX);
        2 * bits / 8
    }

    /// Returns whether the text may contain another one.
    pub(super) fn may_contain(&self, part: &str) -> bool {
        if part.len() >= 8 { self.long.has_all(part.as_bytes()) } else { self.short.has_all(part.as_bytes()) }
    }
}
