//! Numbers as XPath 1.0 reads, writes and rounds them (Recommendation, sections 3.5, 4.2 and 4.4).

use std::borrow::Cow;

/// The white space of XML.
pub(crate) const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// Returns `number(string)`: white space, an optional minus, digits with an optional point, white space; NaN otherwise.
/// There is no plus sign, no exponent and no word for infinity.
pub fn parse(text: &str) -> f64 {
    if let Some(small) = small_integer(text.as_bytes()) {
        return f64::from(small);
    }
    let text = text.trim_matches(SPACES);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let mut points = 0;
    for &byte in digits.as_bytes() {
        match byte {
            b'0'..=b'9' => {}
            b'.' => points += 1,
            _ => return f64::NAN,
        }
    }
    if points > 1 || digits.len() == points {
        return f64::NAN;
    }
    // What is left is a subset of what the standard library reads, and it rounds correctly.
    text.parse().unwrap_or(f64::NAN)
}

/// Returns the number of the bytes of a text, as [`parse`] does.
pub(crate) fn parse_bytes(text: &[u8]) -> f64 {
    match small_integer(text) {
        Some(small) => f64::from(small),
        None => std::str::from_utf8(text).map_or(f64::NAN, parse),
    }
}

/// Few digits and nothing else: what most numbers in messages are.
#[inline]
fn small_integer(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    digits.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + u32::from(byte - b'0')))
}

/// Returns `string(number)`: no exponent, as many digits as tell the number from its neighbours, no point for an
/// integer.
pub fn format(number: f64) -> Cow<'static, str> {
    if number.is_nan() {
        Cow::Borrowed("NaN")
    } else if number.is_infinite() {
        Cow::Borrowed(if number > 0.0 { "Infinity" } else { "-Infinity" })
    } else if number == 0.0 {
        Cow::Borrowed("0")
    } else {
        Cow::Owned(number.to_string())
    }
}

/// Returns `round(number)`: the nearest integer, the upper one of two; the sign of zero is kept.
pub fn round(number: f64) -> f64 {
    let below = number.floor();
    // Not `(number + 0.5).floor()`: the sum of 0.49999999999999994 and 0.5 is 1.
    let nearest = if number - below >= 0.5 { below + 1.0 } else { below };
    if nearest == 0.0 { nearest.copysign(number) } else { nearest }
}

/// Returns `boolean(number)`.
#[inline]
pub(crate) fn is_true(number: f64) -> bool {
    number != 0.0 && !number.is_nan()
}
