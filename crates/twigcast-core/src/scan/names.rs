//! Names (XML 1.0, fifth edition; Namespaces in XML 1.0).

use crate::scan::bytes::{NAME_START, byte, is, name_at};
use crate::scan::characters::LegalText;
use crate::scan::fault::{Fault, ScanResult, describe_input, shown};
use crate::util::packed_name::PackedName;

/// The ends of a qualified name and of its prefix.
#[derive(Clone, Copy, Debug)]
pub struct QName {
    /// One past the last byte.
    pub end: usize,
    /// Offset of the colon; 0 (where no name can have one) if there is none.
    pub colon: usize,
}

/// Reads the qualified name at `start`. `what` says what it names.
pub fn qname(checked: LegalText<'_>, start: usize, what: &str) -> ScanResult<QName> {
    keyed_qname(checked, start, what).map(|(name, _)| name)
}

/// Reads a [`qname`], and returns the key of what stands before the colon, which is all of it if there is none.
#[inline(always)]
pub fn keyed_qname(checked: LegalText<'_>, start: usize, what: &str) -> ScanResult<(QName, PackedName)> {
    let source = checked.text.as_bytes();
    let (end, key) = ascii_name(source, start);
    let next = byte(source, end);
    if end > start && next != b':' && next < 0x80 {
        return Ok((QName { end, colon: 0 }, key));
    }
    let name = qname_with_colon(checked, start, end, what)?;
    Ok((name, PackedName::of(&source[start..if name.colon == 0 { name.end } else { name.colon }])))
}

#[inline(never)]
fn qname_with_colon(checked: LegalText<'_>, start: usize, colon: usize, what: &str) -> ScanResult<QName> {
    let source = checked.text.as_bytes();
    if colon > start && byte(source, colon) == b':' {
        let (end, _) = ascii_name(source, colon + 1);
        let next = byte(source, end);
        if end > colon + 1 && next != b':' && next < 0x80 {
            return Ok(QName { end, colon });
        }
    }
    any_qname(checked, start, what)
}

/// Returns the end of the ASCII name without colon at `at`, and its key; `at` if there is none.
#[inline(always)]
fn ascii_name(source: &[u8], at: usize) -> (usize, PackedName) {
    if is(byte(source, at), NAME_START) { name_at(source, at) } else { (at, PackedName::default()) }
}

fn any_qname(checked: LegalText<'_>, start: usize, what: &str) -> ScanResult<QName> {
    let source = checked.text.as_bytes();
    let end = ncname_end(checked, start);
    if end == start {
        let reason = match byte(source, start) {
            b':' => format!("the name of the {what} starts with a colon"),
            _ => format!("expected the name of the {what}, found {}", describe_input(source, start)),
        };
        return Err(Fault::malformed(start, reason));
    }
    if byte(source, end) != b':' {
        return Ok(QName { end, colon: 0 });
    }
    let local_end = ncname_end(checked, end + 1);
    let fault = |at: usize, problem: &str| {
        let name = shown(&source[start..at.min(source.len())]);
        Err(Fault::malformed(at, format!("the name of the {what} {name:?} {problem}")))
    };
    if local_end == end + 1 {
        return fault(local_end, "has no local part that is a name after its colon");
    }
    if byte(source, local_end) == b':' {
        return fault(local_end, "goes on with a second colon");
    }
    Ok(QName { end: local_end, colon: end })
}

/// Returns the end of the name without colon at `start`; `start` if there is none.
pub fn ncname_end(checked: LegalText<'_>, start: usize) -> usize {
    let mut end = start;
    for c in checked.text.get(start..).unwrap_or("").chars() {
        let fits = if end == start { is_name_start(c) } else { is_name_character(c) };
        if !fits {
            break;
        }
        end += c.len_utf8();
    }
    end
}

/// Returns whether a character is a NameStartChar other than the colon.
fn is_name_start(c: char) -> bool {
    matches!(c,
        'A'..='Z' | '_' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

/// Returns whether a character may continue a name (production NameChar without the colon).
pub fn is_name_character(c: char) -> bool {
    is_name_start(c) || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}
