//! The prolog before the root element: the XML declaration, which also says how the bytes are to be read, and the
//! document type declaration.

use std::ops::Range;

use crate::scan::bytes::{SPACE, byte, is, skip_spaces};
use crate::scan::dtd::Declarations;
use crate::scan::dtd::subset::{self, SubsetState, external_id};
use crate::scan::fault::{Fault, ScanResult, describe_input, shown};
use crate::scan::names::qname;
use crate::scan::pass::ScanPass;

pub(super) const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Facts about a message that its first bytes state.
#[derive(Debug, Default)]
pub struct EncodingHint {
    /// The offset behind the XML declaration.
    pub end: usize,
    /// `standalone="yes"`.
    pub standalone: bool,
    /// US-ASCII is declared, so other characters are errors.
    pub ascii_only: bool,
    /// The part of the XML declaration that names an encoding, with the white space before it.
    pub encoding: Range<usize>,
}

/// Reads byte-order mark and XML declaration. A message that is not UTF-8 has to be decoded first.
pub fn opening(source: &[u8]) -> ScanResult<EncodingHint> {
    let utf16 = |reason: &str| Err(Fault::conversion(0, format!("the message {reason}, so it is not UTF-8")));
    let packed = |how: &str| Err(Fault::malformed(0, format!("the message is {how}: unpack it first")));
    match source {
        [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] => return utf16("starts with the byte-order mark of UTF-16"),
        [0, _, ..] | [_, 0, ..] => return utf16("starts as UTF-16 does"),
        // No XML in UTF-8 begins like these.
        [0x1F, 0x8B, ..] => return packed("compressed with gzip"),
        [b'B', b'Z', b'h', ..] => return packed("compressed with bzip2"),
        [0xFD, b'7', b'z', b'X', b'Z', ..] => return packed("compressed with xz"),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => return packed("compressed with zstd"),
        [b'P', b'K', 3, 4, ..] => return packed("in a zip archive"),
        _ => {}
    }
    let start = if source.starts_with(UTF8_MARK) { UTF8_MARK.len() } else { 0 };
    let declared = source[start..].starts_with(b"<?xml")
        && (matches!(byte(source, start + 5), 0 | b'?') || is(byte(source, start + 5), SPACE));
    if !declared {
        return Ok(EncodingHint { end: start, ..EncodingHint::default() });
    }
    xml_declaration(source, start)
}

fn xml_declaration(source: &[u8], start: usize) -> ScanResult<EncodingHint> {
    let mut opening = EncodingHint::default();
    let mut other_encoding = None;
    let mut at = start + b"<?xml".len();
    let mut order = 0;
    loop {
        let before = at;
        at = skip_spaces(source, at);
        if byte(source, at) == b'?' {
            break;
        }
        let field = pseudo_attribute(source, at)?;
        let rank = match field.name {
            b"version" => 1,
            b"encoding" => 2,
            b"standalone" => 3,
            name => return declaration_fault(at, &format!("does not know {:?}", shown(name))),
        };
        if before == at {
            return declaration_fault(at, &format!("needs white space before {:?}", shown(field.name)));
        }
        if rank <= order || (order == 0 && rank != 1) {
            return declaration_fault(at, "must have version, encoding and standalone in this order");
        }
        order = rank;
        match rank {
            1 => version(field.value, at)?,
            2 => {
                opening.encoding = before..field.end;
                match encoding(field.value, at, || source.is_ascii())? {
                    Encoding::Utf8 => {}
                    Encoding::Ascii => opening.ascii_only = true,
                    Encoding::Other(fault) => other_encoding = Some(fault),
                }
            }
            _ => opening.standalone = standalone(field.value, at)?,
        }
        at = field.end;
    }
    if order == 0 {
        return declaration_fault(at, "has no version");
    }
    if byte(source, at + 1) != b'>' {
        return declaration_fault(at, "must end with \"?>\"");
    }
    // Only a declaration that is whole can be trusted.
    if let Some(fault) = other_encoding {
        return Err(fault);
    }
    opening.end = at + 2;
    Ok(opening)
}

fn declaration_fault<T>(at: usize, problem: &str) -> ScanResult<T> {
    Err(Fault::malformed(at, format!("the XML declaration {problem}")))
}

struct PseudoAttribute<'a> {
    name: &'a [u8],
    value: &'a [u8],
    end: usize,
}

fn pseudo_attribute(source: &[u8], start: usize) -> ScanResult<PseudoAttribute<'_>> {
    let mut at = start;
    while byte(source, at).is_ascii_alphabetic() {
        at += 1;
    }
    let name = &source[start..at];
    if name.is_empty() {
        return declaration_fault(start, &format!("must end with \"?>\", found {}", describe_input(source, start)));
    }
    at = skip_spaces(source, at);
    if byte(source, at) != b'=' {
        return declaration_fault(at, &format!("needs \"=\" after {:?}", shown(name)));
    }
    at = skip_spaces(source, at + 1);
    let quote = byte(source, at);
    if !matches!(quote, b'"' | b'\'') {
        return declaration_fault(at, &format!("needs a quoted value for {:?}", shown(name)));
    }
    let rest = &source[at + 1..];
    match memchr::memchr3(quote, b'<', b'>', rest) {
        Some(length) if rest[length] == quote => {
            Ok(PseudoAttribute { name, value: &rest[..length], end: at + 1 + length + 1 })
        }
        _ => declaration_fault(at, &format!("does not close the value of {:?}", shown(name))),
    }
}

fn version(value: &[u8], at: usize) -> ScanResult<()> {
    match value.strip_prefix(b"1.") {
        Some(minor) if !minor.is_empty() && minor.iter().all(u8::is_ascii_digit) => Ok(()),
        _ => declaration_fault(at, &format!("has the version {:?}, which is not 1.0", shown(value))),
    }
}

enum Encoding {
    Utf8,
    Ascii,
    /// It has to be decoded first.
    Other(Fault),
}

fn encoding(value: &[u8], at: usize, source_is_ascii: impl Fn() -> bool) -> ScanResult<Encoding> {
    let is_name = value.first().is_some_and(u8::is_ascii_alphabetic)
        && value.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if !is_name {
        return declaration_fault(at, &format!("has the encoding {:?}, which is no name of one", shown(value)));
    }
    if value.eq_ignore_ascii_case(b"UTF-8") {
        return Ok(Encoding::Utf8);
    }
    if value.eq_ignore_ascii_case(b"US-ASCII") {
        return Ok(Encoding::Ascii);
    }
    if contains_ascii(value) && source_is_ascii() {
        return Ok(Encoding::Utf8);
    }
    Ok(Encoding::Other(Fault::conversion(at, format!("the message declares the encoding {:?}", shown(value)))))
}

/// Returns whether bytes that are all ASCII mean the same in an encoding: so it is with the parts of ISO 8859 and the code
/// pages of Windows.
fn contains_ascii(encoding: &[u8]) -> bool {
    let number = |prefix: &[u8]| -> Option<u32> {
        let is_prefix = encoding.get(..prefix.len())?.eq_ignore_ascii_case(prefix);
        is_prefix.then(|| std::str::from_utf8(&encoding[prefix.len()..]).ok()?.parse().ok())?
    };
    number(b"ISO-8859-").is_some_and(|part| matches!(part, 1..=11 | 13..=16))
        || number(b"windows-").is_some_and(|page| matches!(page, 1250..=1258))
}

fn standalone(value: &[u8], at: usize) -> ScanResult<bool> {
    match value {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => declaration_fault(at, &format!("has standalone={:?}, which is neither yes nor no", shown(value))),
    }
}

impl ScanPass<'_> {
    /// Reads the document type declaration at `start`, with its internal subset.
    pub(super) fn doctype(&mut self, start: usize) -> ScanResult<usize> {
        let source = self.source;
        let mut at = self.doctype_space(start + b"<!DOCTYPE".len())?;
        at = qname(self.checked, at, "document type")?.end;
        let mut declarations = Declarations::default();
        let spaced = skip_spaces(source, at);
        if spaced > at && matches!(source.get(spaced..spaced + 6), Some(b"SYSTEM" | b"PUBLIC")) {
            let (id, end) = external_id(self.checked, spaced, false)?;
            declarations.external_subset(id, self.standalone);
            at = end;
        }
        at = skip_spaces(source, at);
        if byte(source, at) == b'[' {
            let mut state = SubsetState::new(&mut declarations, self.standalone);
            let end = subset::read(self.checked, at + 1, &mut state)?;
            at = skip_spaces(source, end + 1);
        }
        if byte(source, at) != b'>' {
            let reason = format!("the DOCTYPE must end with \">\", found {}", describe_input(source, at));
            return Err(Fault::malformed(at, reason));
        }
        self.doctype = Some(start..at + 1);
        self.declares_entities = declarations.has_entities();
        self.declares_attributes = declarations.changes_elements();
        if self.declares_entities || declarations.has_attributes() {
            self.declarations = Some(Box::new(declarations));
        }
        Ok(at + 1)
    }

    fn doctype_space(&self, at: usize) -> ScanResult<usize> {
        let after = skip_spaces(self.source, at);
        if after == at {
            let reason = format!("the DOCTYPE needs white space here, found {}", describe_input(self.source, at));
            return Err(Fault::malformed(at, reason));
        }
        Ok(after)
    }
}
