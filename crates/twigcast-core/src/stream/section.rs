//! Sections of a stream: numbers, and the names and strings that they refer to, which the structure and the attributes
//! share.

use super::fault::{SectionResult, StreamFault, wrong};
use super::{FIRST_NAME, ITEM_BITS, NAME_END, REMEMBERED, SPELLED_OUT, number};
use crate::document::{ByteRange, NodeId};
use crate::scan::bytes::{NAME_START, byte, is, name_at, value_stop};
use crate::scan::characters::LegalText;
use crate::scan::fault::{Fault, ScanResult};
use crate::scan::names::{QName, qname};
use crate::scan::{ScanPass, references, span};
use crate::vocabulary::{LocalId, Vocabulary};

/// Returns the item and the argument that a number stands for.
#[inline(always)]
pub(super) fn item(number: u64) -> (u32, u32) {
    // A number has 35 bits.
    (number as u32 & ((1 << ITEM_BITS) - 1), (number >> ITEM_BITS) as u32)
}

/// A name in the source, looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResolvedName {
    pub(super) start: u32,
    pub(super) end: u32,
    /// The same as in [`QName`].
    pub(super) colon: u32,
    pub(super) local: LocalId,
    /// `xmlns`, or `xmlns:` and more.
    pub(super) declares: bool,
}

impl ResolvedName {
    pub(super) fn new(source: &[u8], (start, name): (usize, QName), vocabulary: &Vocabulary) -> Self {
        let local = if name.colon == 0 { start } else { name.colon + 1 };
        Self::of((start, name), vocabulary.local(&source[local..name.end]), source)
    }

    #[inline(always)]
    fn of((start, name): (usize, QName), local: LocalId, source: &[u8]) -> Self {
        let prefix_end = if name.colon == 0 { name.end } else { name.colon };
        let declares = &source[start..prefix_end] == b"xmlns";
        Self { start: start as u32, end: name.end as u32, colon: name.colon as u32, local, declares }
    }

    pub(super) fn span(&self) -> ByteRange {
        ByteRange { start: self.start, end: self.end }
    }

    pub(super) fn prefix(&self) -> ByteRange {
        ByteRange { start: self.start, end: self.colon }
    }

    pub(super) fn qname(&self) -> QName {
        QName { end: self.end as usize, colon: self.colon as usize }
    }
}

/// Strings in the source, one behind the other.
pub(super) struct StringCursor {
    /// The offset of the next one.
    pub(super) next: usize,
    pub(super) end: usize,
    /// None of them needs a look.
    pub(super) plain: bool,
}

impl StringCursor {
    /// Returns the next string, of that many bytes. What was passed over may have ended within a character, so both
    /// ends count.
    #[inline(always)]
    pub(super) fn take(&mut self, length: u64, checked: LegalText<'_>) -> SectionResult<ByteRange> {
        let start = self.next;
        self.pass_over(length)?;
        let bounds = [start, self.next];
        if !checked.ascii && !bounds.iter().all(|&bound| checked.text.is_char_boundary(bound)) {
            return wrong("a string begins or ends within a character");
        }
        Ok(span(start, self.next))
    }

    /// Passes over the next string, which need not be in the source.
    #[inline(always)]
    pub(super) fn pass_over(&mut self, length: u64) -> SectionResult<()> {
        let left = self.end - self.next;
        if length > left as u64 {
            return wrong(format!("a string of {length} bytes is named where {left} are left"));
        }
        self.next += length as usize;
        Ok(())
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.next == self.end
    }
}

/// The structure, or the attributes.
pub(super) struct SectionReader<'a> {
    pub(super) numbers: &'a [u8],
    /// The offset of the next number.
    pub(super) at: usize,
    /// Names by number.
    pub(super) names: &'a mut Vec<ResolvedName>,
    /// The name spelled out last, if it was not remembered.
    pub(super) spelled_out: Option<ResolvedName>,
    /// Names spelled out, and values.
    pub(super) strings: StringCursor,
    /// Names spelled out are checked.
    pub(super) checks: bool,
}

impl SectionReader<'_> {
    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.numbers.len()
    }

    #[inline(always)]
    pub(super) fn number(&mut self) -> SectionResult<u64> {
        match number::read(self.numbers, &mut self.at) {
            Some(number) => Ok(number),
            None => wrong("a number is cut off or too long"),
        }
    }

    /// Returns the name that is referred to; it is valid until the next call. To hand out a copy, of which one part or
    /// the other is read at once, takes several times as long.
    #[inline(always)]
    pub(super) fn name(&mut self, reference: u32, pass: &ScanPass<'_>) -> SectionResult<&ResolvedName> {
        if reference < FIRST_NAME {
            return self.spell_out(reference, pass);
        }
        let number = reference - FIRST_NAME;
        match self.names.get(number as usize) {
            Some(name) => Ok(name),
            None => wrong(format!("there is no name {number} yet")),
        }
    }

    /// Reads a reference to a name that stands alone.
    #[inline(always)]
    pub(super) fn reference(&mut self) -> SectionResult<u32> {
        match u32::try_from(self.number()?) {
            Ok(reference) => Ok(reference),
            Err(_) => wrong("the number of a name is too large"),
        }
    }

    #[inline(never)]
    fn spell_out(&mut self, reference: u32, pass: &ScanPass<'_>) -> SectionResult<&ResolvedName> {
        debug_assert!(matches!(reference, SPELLED_OUT | REMEMBERED));
        let length = self.number()?;
        let name = self.strings.take(length, pass.checked)?;
        let behind = self.strings.take(1, pass.checked)?;
        let written = self.written(name, behind, pass)?;
        if reference == REMEMBERED {
            self.names.push(written);
            return Ok(&self.names[self.names.len() - 1]);
        }
        Ok(self.spelled_out.insert(written))
    }

    /// Reads a name that is spelled out, and looks it up.
    #[inline(always)]
    fn written(&self, name: ByteRange, behind: ByteRange, pass: &ScanPass<'_>) -> SectionResult<ResolvedName> {
        let (start, end) = (name.start as usize, name.end as usize);
        let (stops, key) = name_at(pass.source, start);
        // As most names are, it is of letters of ASCII and has no colon.
        let is_name = is(byte(pass.source, start), NAME_START) && behind.of(pass.source) == [NAME_END];
        if stops == end && is_name {
            let local = pass.vocabulary.local_of(key, name.of(pass.source));
            return Ok(ResolvedName::of((start, QName { end, colon: 0 }), local, pass.source));
        }
        let read = if self.checks {
            let read = qname(pass.checked, start, "element or attribute")?;
            if read.end != end || behind.of(pass.source) != [NAME_END] {
                return wrong("what should be a name is none");
            }
            read
        } else {
            let colon = memchr::memchr(b':', name.of(pass.source));
            QName { end, colon: colon.map_or(0, |colon| start + colon) }
        };
        Ok(ResolvedName::new(pass.source, (start, read), pass.vocabulary))
    }

    /// Returns the value of an attribute or declaration, and whether it has to be decoded.
    #[inline(always)]
    pub(super) fn value(&mut self, length: u64, pass: &ScanPass<'_>) -> SectionResult<(ByteRange, bool)> {
        let value = self.strings.take(length, pass.checked)?;
        let encoded = !self.strings.plain && checked_value(pass, value)?;
        Ok((value, encoded))
    }

    /// Reads the number of namespace declarations of an element.
    #[inline(never)]
    pub(super) fn declarations(&mut self, pass: &mut ScanPass<'_>, owner: NodeId) -> SectionResult<usize> {
        let count = self.number()?;
        pass.names.clear();
        let limit = pass.limits.attributes_max;
        if count > limit as u64 {
            return Err(too_many_attributes(self.strings.next, limit));
        }
        if count == 0 {
            return wrong("an element that declares namespaces declares none");
        }
        for _ in 0..count {
            let reference = self.reference()?;
            let name = *self.name(reference, pass)?;
            if !name.declares {
                return wrong("an attribute stands among the namespace declarations");
            }
            let length = self.number()?;
            let (uri, encoded) = self.value(length, pass)?;
            pass.names.push(name.span());
            pass.declaration(owner, name.start as usize, name.qname(), uri, encoded)?;
        }
        Ok(count as usize)
    }
}

#[cold]
pub(super) fn too_many_attributes(at: usize, limit: usize) -> StreamFault {
    Fault::limit(at, "attributes_max", limit, "more attributes on one element").into()
}

/// Checks the value of an attribute. Returns whether it has to be decoded.
#[inline(always)]
fn checked_value(pass: &ScanPass<'_>, value: ByteRange) -> ScanResult<bool> {
    let end = value.end as usize;
    let source = &pass.source[..end];
    let mut at = value.start as usize;
    let (mut encoded, mut quotes) = (false, [false; 2]);
    loop {
        at = value_stop(source, at);
        match byte(source, at) {
            0 => return Ok(encoded),
            quote @ (b'"' | b'\'') => {
                quotes[usize::from(quote == b'\'')] = true;
                if quotes[0] && quotes[1] {
                    return Err(Fault::malformed(at, "an attribute value holds both kinds of quotes"));
                }
                at += 1;
            }
            b'\t' | b'\n' | b'\r' => {
                encoded = true;
                at += 1;
            }
            b'&' => {
                encoded = true;
                at = checked_reference(pass, at, end)?;
            }
            _ => return Err(Fault::malformed(at, "\"<\" may not stand in an attribute value")),
        }
    }
}

/// Checks the reference at `at`, which has to end by `end`; answers with its end.
pub(super) fn checked_reference(pass: &ScanPass<'_>, at: usize, end: usize) -> ScanResult<usize> {
    let behind = references::check(pass.checked, at, |at, reason| Some(Fault::malformed(at, reason)))?;
    if behind > end { Err(Fault::malformed(at, "a reference runs over the end of its string")) } else { Ok(behind) }
}
