//! Values of attributes whose type is no `CDATA`: without spaces at their ends, and with single ones between.

use crate::scan::decode::attribute as decoded;

/// Returns whether the value of an attribute, as written, is what it is if the attribute is tokenised.
pub(super) fn is_normal(value: &[u8]) -> bool {
    let mut last = b' ';
    for &b in value {
        match b {
            b' ' if last == b' ' => return false,
            b'&' | b'\t' | b'\n' | b'\r' => return is_single(decoded(&String::from_utf8_lossy(value)).as_bytes()),
            _ => last = b,
        }
    }
    last != b' ' || value.is_empty()
}

/// Returns whether a value has single spaces only, and none at its ends.
fn is_single(value: &[u8]) -> bool {
    !value.starts_with(b" ") && !value.ends_with(b" ") && memchr::memmem::find(value, b"  ").is_none()
}

/// Returns a value without spaces at its ends, and with single ones between.
pub(super) fn tokens(value: &str) -> Box<str> {
    let mut tokens = String::with_capacity(value.len());
    write_plain_tokens(value, &mut tokens);
    tokens.into()
}

/// Bytes up to which a value is made anew in one pass without a branch for each byte.
const SHORT_VALUE: usize = 32;

/// Appends a value in which nothing has to be decoded, without spaces at its ends, and with single ones between.
pub fn write_plain_tokens(value: &str, out: &mut String) {
    let mut first = true;
    for token in value.split(' ').filter(|token| !token.is_empty()) {
        if !first {
            out.push(' ');
        }
        out.push_str(token);
        first = false;
    }
}

/// Bytes that begin where a word does.
#[derive(Debug, Default)]
#[repr(align(16))]
struct ShortValue([u8; SHORT_VALUE]);

/// The tokens of a value in which nothing has to be decoded.
#[derive(Debug, Default)]
pub struct PlainTokens {
    short: ShortValue,
    long: String,
}

impl PlainTokens {
    /// Returns a value as [`write_plain_tokens`] writes it; `None` if it is so already.
    #[inline(always)]
    pub fn of<'a>(&'a mut self, value: &str) -> Option<&'a str> {
        let bytes = value.as_bytes();
        if bytes.len() > SHORT_VALUE {
            return self.of_long(value);
        }
        // With zeros behind it, the words of a short value are checked, and not its bytes.
        self.short.0 = [0; SHORT_VALUE];
        let (mut length, mut last) = (0, b' ');
        for &b in bytes {
            self.short.0[length] = b;
            length += usize::from(b != b' ' || last != b' ');
            last = b;
        }
        length -= usize::from(length > 0 && last == b' ');
        if length == bytes.len() {
            return None;
        }
        let text = std::str::from_utf8(&self.short.0).expect("spaces are whole characters");
        Some(&text[..length])
    }

    #[inline(never)]
    fn of_long(&mut self, value: &str) -> Option<&str> {
        if is_normal(value.as_bytes()) {
            return None;
        }
        self.long.clear();
        write_plain_tokens(value, &mut self.long);
        Some(&self.long)
    }
}
