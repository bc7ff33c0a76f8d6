//! Numbers as XPath 1.0 reads, writes and rounds them (Recommendation, sections 3.5, 4.2 and 4.4).

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

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
            b'e' | b'E' => {
                note_exponent(text);
                return f64::NAN;
            }
            _ => return f64::NAN,
        }
    }
    if points > 1 || digits.len() == points {
        return f64::NAN;
    }
    // What is left is a subset of what the standard library reads, and it rounds correctly.
    text.parse().unwrap_or(f64::NAN)
}

/// Returns the bits by which numbers are compared as constants: both zeros are two, since `1 div 0` is not `1 div -0`; NaN is
/// one.
pub(crate) fn constant_bits(number: f64) -> u64 {
    if number.is_nan() { f64::NAN.to_bits() } else { number.to_bits() }
}

/// Texts with exponents that were read as no number.
#[derive(Debug, Default)]
pub(crate) struct UnreadTexts {
    /// The number of times.
    pub(crate) count: u64,
    /// Some of them, each once.
    pub(crate) texts: Vec<Box<str>>,
}

/// The most texts that are noted, and the longest one.
const NOTED_MAX: usize = 4;
const NOTED_BYTES_MAX: usize = 40;

thread_local! {
    /// The texts that this thread has met since they were last taken. Numbers are read deep inside the evaluation, by code
    /// that does not know the query, so they are passed around it.
    static UNREAD: RefCell<UnreadTexts> = const { RefCell::new(UnreadTexts { count: 0, texts: Vec::new() }) };
    static HAS_UNREAD: Cell<bool> = const { Cell::new(false) };
}

/// Notes a text that is no number of XPath 1.0, if an exponent is the reason.
#[cold]
fn note_exponent(text: &str) {
    if !parse_double(text).is_some_and(f64::is_finite) {
        return;
    }
    HAS_UNREAD.set(true);
    UNREAD.with_borrow_mut(|unread| {
        unread.count += 1;
        let is_kept = unread.texts.len() < NOTED_MAX && text.len() <= NOTED_BYTES_MAX;
        if is_kept && !unread.texts.iter().any(|known| **known == *text) {
            unread.texts.push(text.into());
        }
    });
}

/// Returns the texts with exponents that this thread has read as no number since it was last asked; `None` if there are none.
#[inline]
pub(crate) fn take_unread() -> Option<UnreadTexts> {
    HAS_UNREAD.replace(false).then(|| UNREAD.take())
}

/// Returns a text as a number of the type `xs:double`: with a sign, a point or an exponent, or a word for infinity or NaN.
/// `None` if it is none.
pub fn parse_double(text: &str) -> Option<f64> {
    let text = text.trim_matches(SPACES);
    match text {
        "INF" | "+INF" => return Some(f64::INFINITY),
        "-INF" => return Some(f64::NEG_INFINITY),
        "NaN" => return Some(f64::NAN),
        _ => {}
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(a, b)| (a, Some(b)));
    if !is_decimal(mantissa) || !exponent.is_none_or(is_integer) {
        return None;
    }
    // What is left is a subset of what the standard library reads, and it rounds correctly.
    text.parse().ok()
}

/// Returns a text as a number of the type `xs:decimal`: with a sign or a point. `None` if it is none.
pub fn parse_decimal(text: &str) -> Option<f64> {
    let text = text.trim_matches(SPACES);
    if is_decimal(text) { text.parse().ok() } else { None }
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

fn is_decimal(text: &str) -> bool {
    let digits = unsigned(text);
    let points = digits.bytes().filter(|&byte| byte == b'.').count();
    points <= 1 && digits.len() > points && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn is_integer(text: &str) -> bool {
    let digits = unsigned(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the number of the bytes of a text, as [`parse`] does.
pub(crate) fn parse_bytes(text: &[u8]) -> f64 {
    match small_integer(text) {
        Some(small) => f64::from(small),
        None => std::str::from_utf8(text).map_or(f64::NAN, parse),
    }
}

/// Reads a number of few digits and nothing else, as most numbers in messages are.
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

/// Returns a number as a text of the type `xs:double`.
pub(crate) fn format_double(number: f64) -> Cow<'static, str> {
    match number {
        f64::INFINITY => Cow::Borrowed("INF"),
        f64::NEG_INFINITY => Cow::Borrowed("-INF"),
        number => format(number),
    }
}

/// Returns an `xs:double` as XQuery writes it: with an exponent from a million on, and below a millionth.
pub(crate) fn format_xquery(number: f64) -> Cow<'static, str> {
    let size = number.abs();
    if size == 0.0 {
        return Cow::Borrowed(if number.is_sign_negative() { "-0" } else { "0" });
    }
    if !size.is_finite() || (1e-6..1e6).contains(&size) {
        return format_double(number);
    }
    let written = format!("{number:e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let fraction = if digits.contains('.') { "" } else { ".0" };
    Cow::Owned(format!("{digits}{fraction}E{exponent}"))
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
