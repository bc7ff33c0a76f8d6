//! Which bytes and characters may stand in a message at all: checked once, for the whole message, before anything else.

use crate::scan::fault::{Fault, ScanResult};

/// A message of legal characters.
#[derive(Clone, Copy)]
pub struct LegalText<'a> {
    /// The whole source.
    pub text: &'a str,
    /// The text holds carriage returns, so that line ends may have to be normalised.
    pub carriage_returns: bool,
    /// The text is ASCII.
    pub ascii: bool,
}

/// Checks a source: it must be UTF-8, and hold only characters that XML allows.
pub fn check(source: &[u8]) -> ScanResult<LegalText<'_>> {
    let seen = summary(source);
    if seen.control {
        return Err(control_character(source));
    }
    let text = match std::str::from_utf8(source) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to();
            return Err(Fault::malformed(at, format!("byte 0x{:02X} does not belong to UTF-8 here", source[at])));
        }
    };
    if seen.high {
        noncharacters(source)?;
    }
    Ok(LegalText { text, carriage_returns: seen.carriage_return, ascii: !seen.high })
}

#[derive(Default)]
struct CharacterSummary {
    control: bool,
    carriage_return: bool,
    high: bool,
}

/// Makes one pass without branches, which the compiler turns into vector instructions. Where there are no control
/// characters but line feeds, as in most messages, it asks each byte for the least.
fn summary(source: &[u8]) -> CharacterSummary {
    let (mut control, mut high) = (0u8, 0u8);
    for &b in source {
        control |= u8::from(b < 0x20) & u8::from(b != b'\n');
        high |= b;
    }
    if control != 0 {
        return whole_summary(source);
    }
    CharacterSummary { control: false, carriage_return: false, high: high & 0x80 != 0 }
}

fn whole_summary(source: &[u8]) -> CharacterSummary {
    let (mut control, mut carriage_return, mut high) = (0u8, 0u8, 0u8);
    for &b in source {
        let space = u8::from(b == b'\t') | u8::from(b == b'\n') | u8::from(b == b'\r');
        control |= u8::from(b < 0x20) & !space;
        carriage_return |= u8::from(b == b'\r');
        high |= b;
    }
    CharacterSummary { control: control & 1 != 0, carriage_return: carriage_return != 0, high: high & 0x80 != 0 }
}

#[cold]
fn control_character(source: &[u8]) -> Fault {
    let illegal = |b: &u8| *b < 0x20 && !matches!(*b, b'\t' | b'\n' | b'\r');
    let at = source.iter().position(illegal).unwrap_or(source.len());
    Fault::malformed(at, format!("the control character U+{:04X} is not allowed in XML", source.get(at).unwrap_or(&0)))
}

/// Finds U+FFFE and U+FFFF, the only characters beyond ASCII that UTF-8 can write and XML forbids.
fn noncharacters(source: &[u8]) -> ScanResult<()> {
    for at in memchr::memchr_iter(0xEF, source) {
        if let [0xBF, last @ (0xBE | 0xBF), ..] = source[at + 1..] {
            let code = 0xFFC0 + u32::from(last & 0x3F);
            return Err(Fault::malformed(at, format!("the character U+{code:04X} is not allowed in XML")));
        }
    }
    Ok(())
}

/// Returns whether a character may stand in a message (XML 1.0, production Char).
pub fn is_character(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}
