//! The constants that a value is equal to: as a text, and as a number.
//!
//! Most compared values are short and occur again and again. So the results for short values are cached by their bytes
//! in the message, and a cached value is neither decoded, nor parsed as a number, nor looked up as a text.

use crate::document::ByteRange;
use crate::util::number;

use super::super::program::family::Interner;
use super::condition_index::{ConditionIndex, ConditionRow};

/// Entries of the cache, a power of two.
const CACHE_SIZE: usize = 256;
const CACHE_BITS: u32 = CACHE_SIZE.trailing_zeros();

/// Bytes of a short value at most. The last byte of a key is the length.
const SHORT_MAX: usize = 15;

/// The rows of the constants that a value is equal to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EqualRows {
    pub text: Option<ConditionRow>,
    pub number: Option<ConditionRow>,
}

impl EqualRows {
    /// Returns the rows of a value.
    pub fn of(value: &str, index: &ConditionIndex, interner: &Interner) -> Self {
        let row = |constant| index.row(constant);
        let text = interner.text(value).and_then(row);
        let number = if interner.has_numbers() { interner.number(number::parse(value)) } else { None };
        Self { text, number: number.and_then(row) }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct CachedValue {
    /// The key; 0 is the key of no value.
    key: u128,
    equal: EqualRows,
}

/// A direct-mapped cache of what short values are equal to.
#[derive(Debug, Default)]
pub(super) struct ValueIndex {
    cached: Vec<CachedValue>,
}

impl ValueIndex {
    /// Forgets all values, for a condition index with other rows.
    pub fn clear(&mut self) {
        self.cached.clear();
        self.cached.resize(CACHE_SIZE, CachedValue::default());
    }

    /// Returns what the value in a span of the message is equal to. `find` is called with values that are not cached.
    #[inline]
    pub fn equal(&mut self, (source, span): (&[u8], ByteRange), find: impl FnOnce(&str) -> EqualRows) -> EqualRows {
        let text = || std::str::from_utf8(span.of(source)).expect("the scanner accepts only UTF-8 and cuts at markup");
        let Some(key) = key(source, span) else { return find(text()) };
        let Some(existing) = self.cached.get_mut(cache_index(key)) else { return find(text()) };
        if existing.key != key {
            *existing = CachedValue { key, equal: find(text()) };
        }
        existing.equal
    }
}

/// Returns the key of a short value, its bytes and its length plus 1, or `None` for a longer value.
#[inline]
fn key(source: &[u8], ByteRange { start, end }: ByteRange) -> Option<u128> {
    let (start, length) = (start as usize, (end - start) as usize);
    if length > SHORT_MAX {
        return None;
    }
    let bytes = match source.get(start..start + size_of::<u128>()) {
        Some(bytes) => u128::from_le_bytes(bytes.try_into().expect("the slice has 16 bytes")),
        None => {
            let mut bytes = [0; size_of::<u128>()];
            bytes[..length].copy_from_slice(&source[start..start + length]);
            u128::from_le_bytes(bytes)
        }
    };
    Some(bytes & !(u128::MAX << (8 * length)) | (length as u128 + 1) << (8 * SHORT_MAX))
}

#[inline]
fn cache_index(key: u128) -> usize {
    let folded = key as u64 ^ ((key >> u64::BITS) as u64).rotate_left(23);
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - CACHE_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short values have keys of their own, wherever they stand, and longer ones none.
    #[test]
    fn keys_tell_values_apart() {
        let values = [
            "",
            " ",
            "5",
            " 5",
            "5 ",
            "05",
            "5.0",
            "+5",
            "1e1",
            "é",
            "e\u{301}",
            "00",
            "000",
            "12345678",
            "123456789",
            "123456789012345",
            "1234567890123456",
            "12345678901234567",
        ];
        let mut keys = Vec::new();
        for value in values {
            for (before, behind) in [("", ""), ("<a>", "</a>"), ("", "</a><b>7</b><c>8</c>"), ("<a>", "<")] {
                let source = format!("{before}{value}{behind}");
                let span = ByteRange { start: before.len() as u32, end: (before.len() + value.len()) as u32 };
                keys.push((value, key(source.as_bytes(), span)));
            }
        }
        for (value, of_value) in &keys {
            assert_eq!(of_value.is_some(), value.len() <= SHORT_MAX, "{value}");
            assert_ne!(*of_value, Some(0));
            for (other, of_other) in &keys {
                assert!(of_value.is_none() || (of_value == of_other) == (value == other), "{value} and {other}");
            }
        }
    }
}
