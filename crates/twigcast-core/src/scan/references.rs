//! Character and entity references.

use crate::scan::bytes::byte;
use crate::scan::characters::{LegalText, is_character};
use crate::scan::fault::{Fault, ScanResult, describe_input, shown};
use crate::scan::names::ncname_end;

/// Returns the character behind a predefined entity.
pub fn predefined(name: &[u8]) -> Option<char> {
    match name {
        b"amp" => Some('&'),
        b"lt" => Some('<'),
        b"gt" => Some('>'),
        b"quot" => Some('"'),
        b"apos" => Some('\''),
        _ => None,
    }
}

/// Returns the character that the inside of a character reference (`#65`, `#x41`) stands for, if XML allows it.
pub fn numbered(inside: &[u8]) -> Option<char> {
    let (digits, radix) = match inside.strip_prefix(b"#x") {
        Some(digits) => (digits, 16),
        None => (inside.strip_prefix(b"#")?, 10),
    };
    if digits.is_empty() {
        return None;
    }
    let mut code = 0u32;
    for &digit in digits {
        // Stays far below overflow: one step beyond the last code point is already refused.
        code = code * radix + (digit as char).to_digit(radix)?;
        if code > char::MAX as u32 {
            return None;
        }
    }
    char::from_u32(code).filter(|&c| is_character(c))
}

/// Says what may be done about an entity that nothing declares.
pub const UNDECLARED_CURE: &str = "declare it, or read the message with a DTD that does (--dtd FILE, dtd=FILE)";
/// Says what may be done about it besides, where the entities of HTML are not used.
pub const UNDECLARED_HTML: &str =
    " or, if this is a name of HTML, with the entities of HTML (--entities html, entities=\"html\")";

/// Returns what is wrong with a reference to an entity that is not declared, and what to do.
pub fn undeclared_reason(name: &[u8]) -> String {
    format!("undeclared entity {:?}: {UNDECLARED_CURE}{UNDECLARED_HTML}", shown(name))
}

/// Checks the reference at `at` (where `&` stands). Answers with the offset after its `;`.
///
/// `undeclared` makes the fault for an entity that is not predefined, if it is one: that depends on the place.
pub fn check(
    checked: LegalText<'_>,
    at: usize,
    undeclared: impl FnOnce(usize, String) -> Option<Fault>,
) -> ScanResult<usize> {
    let source = checked.text.as_bytes();
    if byte(source, at + 1) == b'#' {
        return check_numbered(source, at);
    }
    let end = entity_name_end(checked, at + 1);
    if end == at + 1 {
        let reason = format!("\"&\" starts a reference, so a name must follow, not {}", describe_input(source, end));
        return Err(Fault::malformed(at, reason));
    }
    let name = &source[at + 1..end];
    if byte(source, end) != b';' {
        let reason =
            format!("the reference \"&{}\" must end with \";\", found {}", shown(name), describe_input(source, end));
        return Err(Fault::malformed(at, reason));
    }
    if predefined(name).is_some() {
        return Ok(end + 1);
    }
    match undeclared(at, undeclared_reason(name)) {
        Some(fault) => Err(fault),
        None => Ok(end + 1),
    }
}

/// Returns the end of an entity's name. It may hold one colon as far as expat is concerned; no declared one does, so
/// that only shapes the reason.
fn entity_name_end(checked: LegalText<'_>, start: usize) -> usize {
    let end = ncname_end(checked, start);
    if end > start && byte(checked.text.as_bytes(), end) == b':' {
        return ncname_end(checked, end + 1).max(end);
    }
    end
}

fn check_numbered(source: &[u8], at: usize) -> ScanResult<usize> {
    let mut end = at + 2;
    let hexadecimal = byte(source, end) == b'x';
    if hexadecimal {
        end += 1;
    }
    let digits_start = end;
    let is_digit = |b: u8| if hexadecimal { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
    while is_digit(byte(source, end)) {
        end += 1;
    }
    if end == digits_start || byte(source, end) != b';' {
        let reason = format!(
            "the character reference \"{}\" must consist of digits and end with \";\", found {}",
            shown(&source[at..end]),
            describe_input(source, end)
        );
        return Err(Fault::malformed(at, reason));
    }
    if numbered(&source[at + 1..end]).is_none() {
        let reason =
            format!("the reference \"{}\" stands for a character that XML does not allow", shown(&source[at..=end]));
        return Err(Fault::malformed(at, reason));
    }
    Ok(end + 1)
}
