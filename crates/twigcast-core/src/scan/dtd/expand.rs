//! Writes a message again without its DOCTYPE, with what that declares in place.

use std::ops::Range;

use super::content::{DeclarationChain, Expander};
use super::declarations::Declarations;
use super::markup_search::{ContextTracker, MarkupContext, MarkupSearch};
use crate::document::Document;
use crate::error::MessageError;
use crate::limits::Limits;
use crate::scan::bytes::{NAME_START, byte, is, name_at, skip_spaces};
use crate::scan::characters::LegalText;
use crate::scan::fault::{Fault, ScanResult};
use crate::scan::names::ncname_end;
use crate::scan::references;
use crate::scan::{ScanOptions, Scanner, characters, prolog};
use crate::util::packed_name::PackedName;
use crate::vocabulary::Vocabulary;

/// Declarations that do not stand in the message itself.
#[derive(Clone, Copy, Default)]
pub struct OtherDeclarations<'d> {
    /// An external DTD.
    pub external: Option<&'d Declarations>,
    /// The entities of HTML and ISO.
    pub sets: Option<&'d Declarations>,
    /// The sets count whether or not the message has a public identifier for which they are known.
    pub uses_sets: bool,
}

/// A message whose DOCTYPE has taken effect.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpandedMessage {
    /// The message. Where its DOCTYPE stood are spaces, with the same line ends: so lines and columns stay up to the first
    /// change. If it declares ID attributes, a short DOCTYPE remains that declares them.
    pub xml: Vec<u8>,
    /// The part that is left out where nothing is to remain of the DOCTYPE, as when the message is delivered.
    pub remains: Range<usize>,
}

/// Returns a message with its entities expanded, and with the attributes that its DOCTYPE adds or normalises.
///
/// # Errors
/// The prolog is not well-formed, an entity is not declared, external or over a limit. All else is left for the scanner to
/// reject.
pub fn expand(source: &[u8], other: OtherDeclarations<'_>, limits: &Limits) -> Result<ExpandedMessage, MessageError> {
    run(source, other, limits).map_err(|fault| fault.into_error(source))
}

/// Reads what stands before the root element; answers with what the DOCTYPE declares, with where it stands, and with where
/// the root element begins.
///
/// # Errors
/// The prolog is not well-formed, or the bytes are not UTF-8.
pub fn read_prolog(source: &[u8], limits: &Limits) -> ScanResult<(Declarations, Range<usize>, usize)> {
    let opening = prolog::opening(source)?;
    prolog_of(characters::check(source)?, &opening, limits)
}

fn prolog_of(
    checked: LegalText<'_>,
    opening: &prolog::EncodingHint,
    limits: &Limits,
) -> ScanResult<(Declarations, Range<usize>, usize)> {
    let (mut scanner, mut document, vocabulary) = (Scanner::new(), Document::default(), Vocabulary::new());
    let mut pass = scanner.pass(checked, &vocabulary, limits, ScanOptions::ALL, &mut document);
    pass.standalone = opening.standalone;
    let root = pass.before_root(opening.end)?;
    let doctype = pass.doctype.take().unwrap_or(root..root);
    Ok((pass.declarations.take().map_or_else(Declarations::default, |own| *own), doctype, root))
}

fn run(source: &[u8], other: OtherDeclarations<'_>, limits: &Limits) -> ScanResult<ExpandedMessage> {
    let opening = prolog::opening(source)?;
    let checked = characters::check(source)?;
    let (own, doctype, root) = prolog_of(checked, &opening, limits)?;
    let mut out = Vec::with_capacity(source.len() + source.len() / 16);
    // Where there is no DOCTYPE, one stands behind the XML declaration, which is on the first line as a rule.
    let doctype = if doctype.is_empty() { opening.end..opening.end } else { doctype };
    out.extend_from_slice(&source[..doctype.start]);
    blank(source, doctype.clone(), root, &own, other.external, &mut out);
    let behind = if doctype.is_empty() { doctype.end } else { skip_spaces(source, doctype.end) };
    let remains = doctype.start..out.len() + (behind - doctype.end);
    out.extend_from_slice(&source[doctype.end..root]);
    body(checked.text, root, &own, other, limits, &mut out)?;
    Ok(ExpandedMessage { xml: out, remains })
}

/// Returns one element of a message with everything in it expanded as [`expand`] does. `own`: what the message declares.
pub fn expand_element(
    element: &[u8],
    own: &Declarations,
    other: OtherDeclarations<'_>,
    limits: &Limits,
) -> Result<Vec<u8>, MessageError> {
    let mut out = Vec::with_capacity(element.len() + element.len() / 16);
    let expanded = match std::str::from_utf8(element) {
        Ok(text) => body(text, 0, own, other, limits, &mut out),
        Err(error) => Err(Fault::malformed(error.valid_up_to(), "the bytes are not UTF-8")),
    };
    expanded.map(|()| out).map_err(|fault| fault.into_error(element))
}

/// Writes spaces over a DOCTYPE; what remains of it are the ID attributes, with those of the external DTD.
fn blank(
    source: &[u8],
    doctype: Range<usize>,
    root: usize,
    own: &Declarations,
    external: Option<&Declarations>,
    out: &mut Vec<u8>,
) {
    let mut blanked: Vec<u8> =
        source[doctype.clone()].iter().map(|&b| if matches!(b, b'\n' | b'\r') { b } else { b' ' }).collect();
    let external = external.filter(|external| external.declares_ids());
    if own.declares_ids() || external.is_some() {
        let mut short = Vec::new();
        match external {
            None => own.write_ids(&mut short),
            Some(_) => own.write_ids_of(&source[root..], external, &mut short),
        }
        // It is not longer than what it stands for, but for declarations of many attributes at once.
        let lines = blanked.iter().take(short.len()).filter(|b| matches!(b, b'\n' | b'\r')).count();
        blanked.drain(..short.len().min(blanked.len()));
        short.extend(std::iter::repeat_n(b'\n', lines));
        out.extend_from_slice(&short);
    }
    out.extend_from_slice(&blanked);
}

/// Writes what follows the prolog.
fn body(
    text: &str,
    root: usize,
    own: &Declarations,
    other: OtherDeclarations<'_>,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> ScanResult<()> {
    let source = text.as_bytes();
    let sets = other.sets.filter(|_| other.uses_sets || own.declares_html);
    let chain = DeclarationChain { own, external: other.external, sets };
    let expander = Expander::new(chain, source.len());
    let mut body = BodyWriter { source, text, chain, expander, written: root };
    if chain.changes_elements() {
        body.write_with_tags(root, limits, out)?
    } else {
        body.write(root, limits, out)?
    };
    out.extend_from_slice(&source[body.written..]);
    if out.len() > limits.message_bytes_max {
        let limit = limits.message_bytes_max;
        return Err(Fault::limit(root, "message_bytes_max", limit, "with its entities and defaults more bytes"));
    }
    Ok(())
}

/// Writes the parts of a message that change; what lies between them is copied.
struct BodyWriter<'a, 'd> {
    source: &'a [u8],
    text: &'a str,
    chain: DeclarationChain<'d>,
    expander: Expander<'d>,
    /// Everything before this has been written.
    written: usize,
}

impl BodyWriter<'_, '_> {
    /// Returns whether what has been written, up to `at`, is over the limit.
    fn is_over(&self, at: usize, limits: &Limits, out: &[u8]) -> bool {
        out.len() + at.saturating_sub(self.written) > limits.message_bytes_max
    }

    /// Writes what changes from `at` on if only references do: of tags, only those are looked at that have one. What is not
    /// whole is left for the scanner to reject, here and in what follows.
    fn write(&mut self, mut at: usize, limits: &Limits, out: &mut Vec<u8>) -> ScanResult<()> {
        let source = self.source;
        let mut contexts = ContextTracker::new(at);
        let mut others = OtherMarkup::new(source, at);
        while let Some(skipped) = memchr::memchr(b'&', &source[at..]) {
            let start = at + skipped;
            if let Some(other) = others.next(at, start) {
                let Some(behind) = behind_other(source, other) else { break };
                at = behind;
                contexts.content(at);
                continue;
            }
            at = start + 1;
            let Some(reference) = Reference::read(self.text, start) else { continue };
            contexts.last_tag(source, start);
            if self.is_over(start, limits, out) || !self.reference(contexts.context(source, start), reference, out)? {
                break;
            }
            at = self.written;
        }
        Ok(())
    }

    /// Writes what changes from `at` on if tags do too.
    fn write_with_tags(&mut self, mut at: usize, limits: &Limits, out: &mut Vec<u8>) -> ScanResult<()> {
        let source = self.source;
        let mut search = MarkupSearch::new(source, at);
        let mut contexts = ContextTracker::new(at);
        while let Some(found) = search.next(at) {
            at = found + 1;
            match (source[found], byte(source, at)) {
                (b'&', _) => {
                    let Some(reference) = Reference::read(self.text, found) else { continue };
                    let context = contexts.context(source, found);
                    if self.is_over(found, limits, out) || !self.reference(context, reference, out)? {
                        break;
                    }
                    at = self.written;
                }
                (_, b'!' | b'?') => {
                    let Some(behind) = behind_other(source, found) else { break };
                    at = behind;
                    contexts.content(at);
                }
                (_, b'/') => contexts.tag(found),
                (_, _) if self.may_change(at) => {
                    if self.is_over(found, limits, out) || !self.start_tag(found, out)? {
                        break;
                    }
                    at = self.written;
                    contexts.content(at);
                }
                _ => contexts.tag(found),
            }
        }
        Ok(())
    }

    /// Writes what a reference stands for. False: it stands where none may.
    #[inline(always)]
    fn reference(&mut self, context: MarkupContext, reference: Reference<'_>, out: &mut Vec<u8>) -> ScanResult<bool> {
        let Reference { start, name, key } = reference;
        if context == MarkupContext::Tag {
            return Ok(false);
        }
        out.extend_from_slice(&self.source[self.written..start]);
        self.expander.at = start;
        match context {
            MarkupContext::Content => self.expander.write_content(name, key, out)?,
            _ => self.expander.write_value(name, key, out)?,
        }
        self.written = start + name.len() + 2;
        Ok(true)
    }

    /// Returns whether attributes may be declared for an element whose name stands at `at`.
    #[inline(always)]
    fn may_change(&self, at: usize) -> bool {
        if !is(byte(self.source, at), NAME_START) {
            return true;
        }
        let (end, key) = name_at(self.source, at);
        byte(self.source, end) >= 0x80 || self.chain.may_change(key)
    }

    /// Writes the start tag at `at`. False: it is none.
    fn start_tag(&mut self, at: usize, out: &mut Vec<u8>) -> ScanResult<bool> {
        out.extend_from_slice(&self.source[self.written..at]);
        self.written = at;
        let end = self.expander.start_tag(self.text, at, out)?;
        self.written = end.unwrap_or(at);
        Ok(end.is_some())
    }
}

/// Finds markup that is no tag.
struct OtherMarkup<'a> {
    source: &'a [u8],
    /// The next `<!` and the next `<?`.
    declaration: usize,
    instruction: usize,
}

impl<'a> OtherMarkup<'a> {
    fn new(source: &'a [u8], at: usize) -> Self {
        let mut this = Self { source, declaration: 0, instruction: 0 };
        (this.declaration, this.instruction) = (this.find(at, b"<!"), this.find(at, b"<?"));
        this
    }

    fn find(&self, at: usize, start: &[u8]) -> usize {
        memchr::memmem::find(&self.source[at..], start).map_or(self.source.len(), |length| at + length)
    }

    /// Returns the first one that begins between two contexts, of which the first is never before that of the last call.
    fn next(&mut self, at: usize, end: usize) -> Option<usize> {
        if self.declaration < at {
            self.declaration = self.find(at, b"<!");
        }
        if self.instruction < at {
            self.instruction = self.find(at, b"<?");
        }
        Some(self.declaration.min(self.instruction)).filter(|&first| first < end)
    }
}

/// Returns the end of the comment, CDATA section or processing instruction at `at`.
fn behind_other(source: &[u8], at: usize) -> Option<usize> {
    if byte(source, at + 1) == b'?' {
        return memchr::memmem::find(&source[at..], b"?>").map(|length| at + length + 2);
    }
    behind_declaration(source, at)
}

/// Returns the end of the comment or CDATA section at `at`.
fn behind_declaration(source: &[u8], at: usize) -> Option<usize> {
    let (start, end): (usize, &[u8]) = if source[at..].starts_with(b"<!--") { (4, b"-->") } else { (2, b"]]>") };
    memchr::memmem::find(source.get(at + start..)?, end).map(|length| at + start + length + end.len())
}

/// A reference to an entity that is not predefined.
struct Reference<'a> {
    start: usize,
    name: &'a [u8],
    key: PackedName,
}

impl<'a> Reference<'a> {
    /// Reads the reference at `start`, where `&` stands. None: it is none, or one to a predefined entity.
    #[inline(always)]
    fn read(text: &'a str, start: usize) -> Option<Self> {
        let source = text.as_bytes();
        let at = start + 1;
        if is(byte(source, at), NAME_START) {
            let (end, key) = name_at(source, at);
            match byte(source, end) {
                b';' => {
                    let name = &source[at..end];
                    let is_predefined = name.len() < 5 && references::predefined(name).is_some();
                    return (!is_predefined).then_some(Self { start, name, key });
                }
                b if b < 0x80 => return None,
                _ => {}
            }
        }
        if byte(source, at) < 0x80 && !is(byte(source, at), NAME_START) {
            return None;
        }
        Self::read_any(text, start)
    }

    #[cold]
    fn read_any(text: &'a str, start: usize) -> Option<Self> {
        let checked = characters::LegalText { text, carriage_returns: true, ascii: false };
        let end = ncname_end(checked, start + 1);
        let name = &text.as_bytes()[start + 1..end];
        let is_whole = !name.is_empty() && byte(text.as_bytes(), end) == b';';
        is_whole.then(|| Self { start, name, key: PackedName::of(name) })
    }
}
