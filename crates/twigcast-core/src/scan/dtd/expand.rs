//! Writes a message again without its DOCTYPE, with what that declares in place.

use std::ops::Range;

use super::chain::DeclarationChain;
use super::content::{EntityTexts, Expander};
use super::declarations::Declarations;
use super::markup_search::{ContextTracker, MarkupContext, MarkupSearch};
use super::tag_plans::{TagPlans, WrittenPart, prefixed_name_at};
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

impl<'d> OtherDeclarations<'d> {
    /// Returns these declarations behind those of a message.
    pub(super) fn behind(self, own: &'d Declarations) -> DeclarationChain<'d> {
        let sets = self.sets.filter(|_| self.uses_sets || own.declares_html);
        DeclarationChain { own, external: self.external, sets }
    }
}

/// The texts of entities and the plans of elements that were found out for one part of a document and hold for the next.
#[derive(Debug, Default)]
pub(super) struct ExpansionState {
    pub texts: EntityTexts,
    pub plans: TagPlans,
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
    let prolog = prolog_of(checked, &opening, limits)?;
    written(checked, &opening, prolog, other, limits)
}

/// Returns a message with all expanded that stands behind an offset, where a start tag or text behind markup begins. `own`:
/// what the message declares. `memory`: what it is written into.
pub(in crate::scan) fn expand_from(
    text: &str,
    start: usize,
    own: &Declarations,
    limits: &Limits,
    mut memory: String,
) -> ScanResult<String> {
    memory.clear();
    memory.reserve(text.len() + text.len() / 16);
    let (chain, mut found) = (OtherDeclarations::default().behind(own), ExpansionState::default());
    body(text, BodyRange { start, written: 0 }, chain, &mut found, limits, &mut memory)?;
    Ok(memory)
}

fn written(
    checked: LegalText<'_>,
    opening: &prolog::EncodingHint,
    (own, doctype, root): (Declarations, Range<usize>, usize),
    other: OtherDeclarations<'_>,
    limits: &Limits,
) -> ScanResult<ExpandedMessage> {
    let text = checked.text;
    let source = text.as_bytes();
    let mut out = String::with_capacity(source.len() + source.len() / 16);
    // Where there is no DOCTYPE, one stands behind the XML declaration, which is on the first line as a rule.
    let doctype = if doctype.is_empty() { opening.end..opening.end } else { doctype };
    out.push_str(&text[..doctype.start]);
    blank(source, doctype.clone(), root, &own, other.external, &mut out);
    let behind = if doctype.is_empty() { doctype.end } else { skip_spaces(source, doctype.end) };
    let remains = doctype.start..out.len() + (behind - doctype.end);
    out.push_str(&text[doctype.end..root]);
    let (chain, mut found) = (other.behind(&own), ExpansionState::default());
    body(text, BodyRange { start: root, written: root }, chain, &mut found, limits, &mut out)?;
    Ok(ExpandedMessage { xml: out.into_bytes(), remains })
}

/// Writes spaces over a DOCTYPE; what remains of it are the ID attributes, with those of the external DTD.
fn blank(
    source: &[u8],
    doctype: Range<usize>,
    root: usize,
    own: &Declarations,
    external: Option<&Declarations>,
    out: &mut String,
) {
    let mut blanked: String =
        source[doctype.clone()].iter().map(|&b| if matches!(b, b'\n' | b'\r') { char::from(b) } else { ' ' }).collect();
    let external = external.filter(|external| external.declares_ids());
    if own.declares_ids() || external.is_some() {
        let mut ids = Vec::new();
        match external {
            None => own.write_ids(&mut ids),
            Some(_) => DeclarationChain { own, external, sets: None }.write_ids_of(&source[root..], &mut ids),
        }
        let mut short = String::from_utf8(ids).expect("it is put together from text");
        // It is not longer than what it stands for, but for declarations of many attributes at once.
        let lines = blanked.bytes().take(short.len()).filter(|b| matches!(b, b'\n' | b'\r')).count();
        blanked.drain(..short.len().min(blanked.len()));
        short.extend(std::iter::repeat_n('\n', lines));
        out.push_str(&short);
    }
    out.push_str(&blanked);
}

/// The part of a message that is expanded.
pub(super) struct BodyRange {
    /// The offset where it starts, in content.
    pub start: usize,
    /// Everything before this has been written.
    pub written: usize,
}

/// Writes what follows the prolog, or an offset behind it.
pub(super) fn body(
    text: &str,
    BodyRange { start, written }: BodyRange,
    chain: DeclarationChain<'_>,
    ExpansionState { texts, plans }: &mut ExpansionState,
    limits: &Limits,
    out: &mut String,
) -> ScanResult<()> {
    let source = text.as_bytes();
    let expander = Expander::new(chain, source.len(), texts);
    let mut body = BodyWriter { source, text, chain, expander, plans, written };
    if chain.changes_elements() {
        body.write_with_tags(start, limits, out)?
    } else {
        body.write(start, limits, out)?
    };
    out.push_str(&text[body.written..]);
    if out.len() > limits.message_bytes_max {
        let limit = limits.message_bytes_max;
        return Err(Fault::limit(start, "message_bytes_max", limit, "with its entities and defaults more bytes"));
    }
    Ok(())
}

/// Writes the parts of a message that change; what lies between them is copied.
struct BodyWriter<'a, 't, 'd> {
    source: &'a [u8],
    text: &'a str,
    chain: DeclarationChain<'d>,
    expander: Expander<'t, 'd>,
    plans: &'t mut TagPlans,
    /// Everything before this has been written.
    written: usize,
}

impl BodyWriter<'_, '_, '_> {
    /// Returns whether what has been written, up to `at`, is over the limit.
    fn is_over(&self, at: usize, limits: &Limits, out: &str) -> bool {
        out.len() + at.saturating_sub(self.written) > limits.message_bytes_max
    }

    /// Writes what changes from `at` on if only references do: of tags, only those are looked at that have one. What is not
    /// whole is left for the scanner to reject, here and in what follows.
    fn write(&mut self, mut at: usize, limits: &Limits, out: &mut String) -> ScanResult<()> {
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
    fn write_with_tags(&mut self, mut at: usize, limits: &Limits, out: &mut String) -> ScanResult<()> {
        let source = self.source;
        let mut search = MarkupSearch::new(source, at, self.chain.first_changing_byte());
        let mut contexts = ContextTracker::new(at);
        while let Some(found) = search.next(at) {
            at = found + 1;
            match (source[found], byte(source, at)) {
                (b'&', _) => {
                    let Some(reference) = Reference::read(self.text, found) else { continue };
                    contexts.last_tag(source, found);
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
                _ => match self.changed_tag(found, limits, out)? {
                    ChangedTag::Unchanged => {}
                    ChangedTag::EndsAt(end) => {
                        at = end;
                        contexts.content(at);
                    }
                    ChangedTag::Broken => break,
                },
            }
        }
        Ok(())
    }

    /// Writes what a reference stands for. False: it stands where none may.
    #[inline(always)]
    fn reference(&mut self, context: MarkupContext, reference: Reference<'_>, out: &mut String) -> ScanResult<bool> {
        let Reference { start, name, key } = reference;
        if context == MarkupContext::Tag {
            return Ok(false);
        }
        out.push_str(&self.text[self.written..start]);
        self.expander.at = start;
        match context {
            MarkupContext::Content => self.expander.write_content(name, key, out)?,
            _ => self.expander.write_value(name, key, out)?,
        }
        self.written = start + name.len() + 2;
        Ok(true)
    }

    /// Writes what changes in the start tag at `start`.
    #[inline(always)]
    fn changed_tag(&mut self, start: usize, limits: &Limits, out: &mut String) -> ScanResult<ChangedTag> {
        let source = self.source;
        let mut name = self.plans.last_name_at(source, start + 1);
        if name.is_none() && is(byte(source, start + 1), NAME_START) {
            let (end, key) = name_at(source, start + 1);
            let next = byte(source, end);
            if next < 0x80 && !self.chain.may_change(key) {
                return Ok(ChangedTag::Unchanged);
            }
            name = match next {
                b':' => Some(prefixed_name_at(source, start + 1)),
                _ => Some((end, key)).filter(|_| next < 0x80),
            };
        }
        if let Some((name_end, key)) = name
            && !self.is_over(start, limits, out)
        {
            let mut written = WrittenPart(self.written);
            let end = self.plans.write(self.chain, self.text, (start, name_end, key), &mut written, out);
            self.written = written.0;
            if let Some(end) = end {
                return Ok(ChangedTag::EndsAt(end));
            }
        }
        let is_whole = !self.is_over(start, limits, out) && self.start_tag(start, out)?;
        Ok(if is_whole { ChangedTag::EndsAt(self.written) } else { ChangedTag::Broken })
    }

    /// Writes the start tag at `at`. False: it is none.
    fn start_tag(&mut self, at: usize, out: &mut String) -> ScanResult<bool> {
        out.push_str(&self.text[self.written..at]);
        self.written = at;
        let end = self.expander.start_tag(self.text, at, out)?;
        self.written = end.unwrap_or(at);
        Ok(end.is_some())
    }
}

/// What became of a start tag.
enum ChangedTag {
    /// It was not read, since it cannot change.
    Unchanged,
    /// All that changes in it has been written, and it ends there.
    EndsAt(usize),
    /// It is none, or there is no room for it.
    Broken,
}

/// Finds markup that is no tag: `<!` and `<?`.
struct OtherMarkup<'a> {
    source: &'a [u8],
    found: usize,
}

impl<'a> OtherMarkup<'a> {
    fn new(source: &'a [u8], at: usize) -> Self {
        Self { source, found: Self::find(source, at) }
    }

    /// Returns the first one from `at` on, in one pass: text has fewer of the second bytes than there are tags.
    fn find(source: &[u8], at: usize) -> usize {
        let seconds = memchr::memchr2_iter(b'!', b'?', source.get(at + 1..).unwrap_or_default());
        let mut starts = seconds.map(|length| at + length);
        starts.find(|&start| source[start] == b'<').unwrap_or(source.len())
    }

    /// Returns the first one that begins between two contexts, of which the first is never before that of the last call.
    #[inline(always)]
    fn next(&mut self, at: usize, end: usize) -> Option<usize> {
        if self.found < at {
            self.found = Self::find(self.source, at);
        }
        Some(self.found).filter(|&first| first < end)
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
