//! The attributes of one start tag, by where they stand.

use std::ops::Range;

use crate::scan::bytes::{NAME_START, SPACE, byte, is, name_at, skip_spaces};

/// Returns the end of the name of an element or attribute at `at`, also of one that is not well-formed.
pub(super) fn name_end(source: &[u8], mut at: usize) -> usize {
    let is_name = |b: u8| !is(b, SPACE) && !matches!(b, 0 | b'>' | b'/' | b'=' | b'"' | b'\'' | b'<' | b'&');
    if is(byte(source, at), NAME_START) {
        at = name_at(source, at).0;
    }
    while is_name(byte(source, at)) {
        at += 1;
    }
    at
}

/// One start tag, with the ranges of names and values of its attributes.
#[derive(Debug, Default)]
pub struct TagRanges {
    pub(super) attributes: Vec<(Range<usize>, Range<usize>)>,
}

impl TagRanges {
    /// Returns where the value of an attribute stands.
    pub fn range(&self, source: &[u8], name: &[u8]) -> Option<Range<usize>> {
        let attribute = self.attributes.iter().find(|(attribute, _)| source[attribute.clone()] == *name);
        attribute.map(|(_, value)| value.clone())
    }

    /// Returns the value of an attribute, as written.
    pub fn value<'t>(&self, source: &'t [u8], name: &[u8]) -> Option<&'t [u8]> {
        self.range(source, name).map(|value| &source[value])
    }

    /// Returns the attributes: names, and values with their quotes.
    pub fn iter<'t>(&self, source: &'t [u8]) -> impl Iterator<Item = (&'t [u8], &'t [u8])> + use<'_, 't> {
        let attributes = self.attributes.iter();
        attributes.map(|(name, value)| (&source[name.clone()], &source[value.start - 1..value.end + 1]))
    }

    /// Reads the start tag at `start`; answers with the end of its name, that of its last attribute, and its own. None:
    /// it is none.
    pub fn read(&mut self, source: &[u8], start: usize) -> Option<(usize, usize, usize)> {
        self.attributes.clear();
        let element_end = name_end(source, start + 1);
        let mut last = element_end;
        if last == start + 1 {
            return None;
        }
        loop {
            let at = skip_spaces(source, last);
            match byte(source, at) {
                b'>' => return Some((element_end, last, at + 1)),
                b'/' if byte(source, at + 1) == b'>' => return Some((element_end, last, at + 2)),
                _ if at == last => return None,
                _ => {}
            }
            let end = name_end(source, at);
            let equals = skip_spaces(source, end);
            let quote = skip_spaces(source, equals + 1);
            if end == at || byte(source, equals) != b'=' || !matches!(byte(source, quote), b'"' | b'\'') {
                return None;
            }
            let length = memchr::memchr(source[quote], &source[quote + 1..])?;
            self.attributes.push((at..end, quote + 1..quote + 1 + length));
            last = quote + length + 2;
        }
    }
}
