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

/// Checks the reference at `at` (where `&` stands). Answers with the offset after its `;`.
///
/// `undeclared` makes the fault for an entity that is not predefined: whether that is an error depends on the DOCTYPE.
pub fn check(checked: LegalText<'_>, at: usize, undeclared: impl FnOnce(usize, String) -> Fault) -> ScanResult<usize> {
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
    match predefined(name) {
        Some(_) => Ok(end + 1),
        None => Err(undeclared(at, format!("undeclared entity {:?}", shown(name)))),
    }
}

/// Entity names may hold one colon as far as expat is concerned; no declared one does, so it only shapes the reason.
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
