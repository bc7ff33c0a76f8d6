//! Finds the ends of markup that may not have arrived as a whole yet.

use crate::scan::bytes::{byte, skip_spaces};

/// Returns the end of the start tag at `start`; none if it has not arrived.
pub fn start_tag_end(source: &[u8], start: usize) -> Option<usize> {
    // A quote in what stands for the name begins no value: wherever a tag is passed over, it ends at the same place.
    tag_end(source, name_end(source, start + 1))
}

/// Returns the end of a start tag, from behind its name on; none if it has not arrived.
#[inline]
pub fn tag_end(source: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr3(b'>', b'"', b'\'', source.get(at..)?)?;
        if source[at] == b'>' {
            return Some(at + 1);
        }
        at += 2 + memchr::memchr(source[at], &source[at + 1..])?;
    }
}

/// Returns the end of what ends in `ending`, from `start` on.
pub fn end_of(source: &[u8], start: usize, ending: &[u8]) -> Option<usize> {
    memchr::memmem::find(source.get(start..)?, ending).map(|length| start + length + ending.len())
}

/// Returns the end of a name as written: of whatever is no white space and no part of other markup.
pub fn name_end(source: &[u8], start: usize) -> usize {
    let rest = source.get(start..).unwrap_or_default();
    let stop = |b: &u8| matches!(b, b' ' | b'>' | b'/' | b'\n' | b'\t' | b'\r');
    start + rest.iter().position(stop).unwrap_or(rest.len())
}

/// Returns whether an XML declaration stands at the beginning.
pub fn is_xml_declaration(source: &[u8]) -> bool {
    source.starts_with(b"<?xml") && source.get(5).is_some_and(u8::is_ascii_whitespace)
}

/// Returns whether a name may begin with a byte, so that `<` before it begins a tag.
#[inline]
pub fn is_name_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || matches!(b, b'_' | b':') || b >= 0x80
}

/// Returns where the prolog that starts at `at` ends: at the root element, or at what may not stand in a prolog. None if
/// that has not arrived.
pub fn prolog_end(source: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = skip_spaces(source, at);
        let rest = &source[at..];
        at = match rest {
            [] | [b'<'] => return None,
            [b'<', b'?', ..] => end_of(source, at, b"?>")?,
            _ if b"<!DOCTYPE".starts_with(&rest[..rest.len().min(9)]) && rest.len() < 9 => return None,
            _ if rest.starts_with(b"<!DOCTYPE") => doctype_end(source, at + 9)?,
            [b'<', b'!', ..] if rest.len() < 4 => return None,
            _ if rest.starts_with(b"<!--") => end_of(source, at + 4, b"-->")?,
            _ => return Some(at),
        };
    }
}

fn doctype_end(source: &[u8], mut at: usize) -> Option<usize> {
    let mut in_subset = false;
    loop {
        let stop = |b: &u8| matches!(b, b'>' | b'"' | b'\'' | b'[' | b']' | b'<');
        at += source.get(at..)?.iter().position(stop)?;
        at = match source[at] {
            b'>' if !in_subset => return Some(at + 1),
            quote @ (b'"' | b'\'') => at + 2 + memchr::memchr(quote, &source[at + 1..])?,
            b'<' if source[at..].starts_with(b"<!--") => end_of(source, at + 4, b"-->")?,
            b'<' if byte(source, at + 1) == b'?' => end_of(source, at, b"?>")?,
            b'<' if source.len() < at + 4 => return None,
            bracket => {
                in_subset = (in_subset || bracket == b'[') && bracket != b']';
                at + 1
            }
        };
    }
}
