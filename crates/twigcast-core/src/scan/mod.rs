//! Bytes to [`crate::document::Document`], rejecting what is not well-formed.
//!
//! One pass from left to right, after one over the bytes that checks the characters. There is no recursion, every
//! search goes forward, and each byte is looked at a bounded number of times, so time is linear in the message
//! whatever it contains. Control characters are rejected first; from then on a zero byte means the end of the message
//! and no step needs a separate check for it.
//!
//! - [`prolog`]: byte-order mark, XML declaration, DOCTYPE; says when a message has to go to expat instead
//! - [`characters`]: which characters may stand in a message at all
//! - [`tags`], [`names`], [`namespaces`], [`references`]: elements and what their tags hold
//! - this file: character data, comments, processing instructions, and the order of it all
//! - [`decode`]: raw slices to values; [`position`]: offsets to lines and columns

pub(crate) mod bytes;
pub(crate) mod characters;
pub mod decode;
pub(crate) mod fault;
mod lanes;
pub(crate) mod names;
mod namespaces;
pub mod position;
mod prolog;
pub(crate) mod references;
pub(crate) mod tags;
#[cfg(test)]
mod tests;

use crate::document::{ByteRange, Document, NO_NODE, Node, NodeKind};
use crate::error::MessageError;
use crate::limits::Limits;
use crate::scan::bytes::{SPACE, byte, is, plain_text_end, skip_spaces};
use crate::scan::characters::LegalText;
use crate::scan::fault::{Fault, ScanResult, describe_input, shown};
use crate::scan::names::ncname_end;
use crate::scan::namespaces::PrefixBindings;
use crate::scan::tags::{NAMELESS, OpenElement, Prefixed};
use crate::vocabulary::Vocabulary;

/// What to record. Everything is checked regardless, so the same messages are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// Attributes. Namespace declarations are always recorded.
    pub attributes: bool,
    /// Text, comments and processing instructions.
    pub text: bool,
}

impl RecordOptions {
    /// Everything.
    pub const ALL: Self = Self { attributes: true, text: true };
}

/// Reads messages one after the other, reusing its memory.
#[derive(Debug, Default)]
pub struct Scanner {
    bindings: PrefixBindings,
    open: Vec<OpenElement>,
    names: Vec<ByteRange>,
    prefixed: Vec<Prefixed>,
}

impl Scanner {
    /// A scanner without memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A pass over a source that is read in another way than by its markup.
    pub(crate) fn pass<'a>(
        &'a mut self,
        checked: LegalText<'a>,
        vocabulary: &'a Vocabulary,
        limits: &'a Limits,
        options: RecordOptions,
        document: &'a mut Document,
    ) -> ScanPass<'a> {
        self.clear();
        document.clear();
        ScanPass {
            source: checked.text.as_bytes(),
            checked,
            vocabulary,
            limits,
            options,
            document,
            bindings: &mut self.bindings,
            open: &mut self.open,
            names: &mut self.names,
            prefixed: &mut self.prefixed,
            standalone: true,
            skips_undeclared: false,
            text_run: None,
        }
    }

    fn clear(&mut self) {
        self.bindings.clear();
        self.open.clear();
        self.names.clear();
        self.prefixed.clear();
    }

    /// Reads `source`, which may start with a byte-order mark, into `document`. The spans index into all of `source`.
    ///
    /// After an error `document` holds nothing of use.
    pub fn scan(
        &mut self,
        source: &[u8],
        vocabulary: &Vocabulary,
        limits: &Limits,
        options: RecordOptions,
        document: &mut Document,
    ) -> Result<(), MessageError> {
        self.clear();
        document.clear();
        self.run(source, vocabulary, limits, options, document).map_err(|fault| fault.into_error(source))
    }

    fn run(
        &mut self,
        source: &[u8],
        vocabulary: &Vocabulary,
        limits: &Limits,
        options: RecordOptions,
        document: &mut Document,
    ) -> ScanResult<()> {
        // Offsets are 32 bits wide and the largest is reserved.
        let bytes_max = limits.message_bytes_max.min(u32::MAX as usize - 1);
        if source.len() > bytes_max {
            return Err(Fault::limit(0, "message_bytes_max", bytes_max, "more bytes"));
        }
        let opening = prolog::opening(source)?;
        let checked = characters::check(source)?;
        if opening.ascii_only
            && let Some(at) = source[opening.end..].iter().position(|b| !b.is_ascii())
        {
            return Err(Fault::malformed(opening.end + at, "the message declares US-ASCII but holds other characters"));
        }
        let mut pass =
            ScanPass { standalone: opening.standalone, ..self.pass(checked, vocabulary, limits, options, document) };
        pass.document_node(opening.end);
        let root = pass.before_root(opening.end)?;
        let content = pass.start_tag(root)?;
        let end = pass.content(content)?;
        pass.after_root(end)?;
        let nodes = document.nodes.len() as u32;
        document.nodes[0].end = nodes;
        Ok(())
    }
}

/// One message on its way.
pub(crate) struct ScanPass<'a> {
    pub(crate) source: &'a [u8],
    pub(crate) checked: LegalText<'a>,
    pub(crate) vocabulary: &'a Vocabulary,
    pub(crate) limits: &'a Limits,
    pub(crate) options: RecordOptions,
    pub(crate) document: &'a mut Document,
    pub(crate) bindings: &'a mut PrefixBindings,
    pub(crate) open: &'a mut Vec<OpenElement>,
    /// Names of the attributes of the current tag, as written.
    pub(crate) names: &'a mut Vec<ByteRange>,
    /// Attributes of the current tag whose prefixes are not resolved yet.
    pub(crate) prefixed: &'a mut Vec<Prefixed>,
    standalone: bool,
    /// An external DTD that nobody reads may declare any entity, so only expat can say what an unknown one is.
    skips_undeclared: bool,
    /// The run of character data and CDATA sections that ends where the scanner stands.
    text_run: Option<TextRun>,
}

#[derive(Clone, Copy)]
struct TextRun {
    start: usize,
    encoded: bool,
    /// It holds at least one character: `<![CDATA[]]>` alone is no text.
    filled: bool,
}

impl ScanPass<'_> {
    /// Records node 0; `content_start` is where what may hold nodes begins.
    pub(crate) fn document_node(&mut self, content_start: usize) {
        let node = leaf(NodeKind::Document, 0, self.source.len(), NO_NODE);
        self.document.nodes.push(Node { content_start: content_start as u32, ..node });
    }

    /// Reads up to the root element; answers with the offset of its `<`.
    fn before_root(&mut self, mut at: usize) -> ScanResult<usize> {
        let mut doctype_seen = false;
        loop {
            at = skip_spaces(self.source, at);
            let rest = &self.source[at..];
            at = if rest.starts_with(b"<!DOCTYPE") {
                if doctype_seen {
                    return Err(Fault::malformed(at, "the message has a second DOCTYPE"));
                }
                doctype_seen = true;
                self.doctype(at)?
            } else if rest.starts_with(b"<!") {
                self.comment(at)?
            } else if rest.starts_with(b"<?") {
                self.processing_instruction(at)?
            } else if rest.starts_with(b"<") {
                return Ok(at);
            } else if rest.is_empty() {
                return Err(self.no_root(at));
            } else {
                let reason =
                    format!("only markup may stand before the root element, found {}", describe_input(self.source, at));
                return Err(Fault::malformed(at, reason));
            };
        }
    }

    #[cold]
    fn no_root(&self, at: usize) -> Fault {
        let before = self.checked.text[..at].trim_start_matches('\u{FEFF}');
        let reason = if before.is_empty() {
            "the message is empty: it has no root element"
        } else if before.bytes().all(|b| is(b, SPACE)) {
            "the message is empty but for white space: it has no root element"
        } else {
            "the message has no root element"
        };
        Fault::malformed(at, reason)
    }

    /// Reads the content of the root element and its end tag.
    fn content(&mut self, mut at: usize) -> ScanResult<usize> {
        let source = self.source;
        while let Some(&open) = self.open.last() {
            at = self.character_data(at, open)?;
            at = match byte(source, at + 1) {
                b'/' => {
                    self.finish_text(at, open);
                    self.end_tag(at, open)?
                }
                b'!' if source[at..].starts_with(b"<![CDATA[") => self.cdata(at)?,
                b'!' => {
                    self.finish_text(at, open);
                    self.comment(at)?
                }
                b'?' => {
                    self.finish_text(at, open);
                    self.processing_instruction(at)?
                }
                _ => {
                    self.finish_text(at, open);
                    self.start_tag(at)?
                }
            };
        }
        Ok(at)
    }

    /// Reads what follows the root element.
    fn after_root(&mut self, mut at: usize) -> ScanResult<()> {
        loop {
            at = skip_spaces(self.source, at);
            let rest = &self.source[at..];
            at = if rest.is_empty() {
                return Ok(());
            } else if rest.starts_with(b"<!DOCTYPE") {
                return Err(Fault::malformed(at, "a DOCTYPE may not stand after the root element"));
            } else if rest.starts_with(b"<!") {
                self.comment(at)?
            } else if rest.starts_with(b"<?") {
                self.processing_instruction(at)?
            } else {
                let what = match rest[0] {
                    b'<' => "a second root element or end tag".into(),
                    _ => describe_input(self.source, at),
                };
                return Err(Fault::malformed(at, format!("only comments may follow the root element, found {what}")));
            };
        }
    }

    /// Reads character data up to the next markup, whose offset is the answer.
    #[inline(always)]
    fn character_data(&mut self, start: usize, open: OpenElement) -> ScanResult<usize> {
        let source = self.source;
        let mut at = start;
        let mut encoded = false;
        loop {
            at = plain_text_end(source, at);
            match byte(source, at) {
                b'<' => break,
                b'&' => {
                    encoded = true;
                    at = references::check(self.checked, at, self.undeclared())?;
                }
                b']' => {
                    if source[at..].starts_with(b"]]>") {
                        return Err(Fault::malformed(at, "\"]]>\" may not stand in text"));
                    }
                    at += 1;
                }
                _ => {
                    let name = shown(open.name.of(source));
                    let reason = format!("the message ends before the end tag of the element {name:?}");
                    return Err(Fault::malformed(at, reason));
                }
            }
        }
        if at > start && self.options.text {
            encoded = encoded || self.carriage_returns_in(start, at);
            self.extend_text(start, encoded, true);
        }
        Ok(at)
    }

    /// Reads the CDATA section at `start`, which belongs to the text run.
    #[inline(never)]
    fn cdata(&mut self, start: usize) -> ScanResult<usize> {
        let content = start + b"<![CDATA[".len();
        let rest = &self.source[content..];
        let is_end = |&at: &usize| at >= 2 && rest[at - 1] == b']' && rest[at - 2] == b']';
        let Some(end) = memchr::memchr_iter(b'>', rest).find(is_end) else {
            return Err(Fault::malformed(start, "the CDATA section is not closed with \"]]>\""));
        };
        if self.options.text {
            self.extend_text(start, true, end > 2);
        }
        Ok(content + end + 1)
    }

    fn extend_text(&mut self, start: usize, encoded: bool, filled: bool) {
        let run = self.text_run.get_or_insert(TextRun { start, encoded: false, filled: false });
        run.encoded |= encoded;
        run.filled |= filled;
    }

    /// Records the text run that ends at `end`.
    #[inline(always)]
    fn finish_text(&mut self, end: usize, open: OpenElement) {
        if let Some(run) = self.text_run.take()
            && run.filled
        {
            let node = leaf(NodeKind::Text, run.start, end, open.node);
            self.push_leaf(Node { encoded: run.encoded, ..node });
        }
    }

    /// Reads the comment at `start`, where `<!` stands.
    #[inline(never)]
    pub(crate) fn comment(&mut self, start: usize) -> ScanResult<usize> {
        let source = self.source;
        if !source[start..].starts_with(b"<!--") {
            return Err(Fault::malformed(start, "\"<!\" starts neither a comment nor anything else allowed here"));
        }
        let mut at = start + 4;
        while let Some(skipped) = memchr::memchr(b'-', &source[at..]) {
            at += skipped;
            match (byte(source, at + 1), byte(source, at + 2)) {
                (b'-', b'>') => {
                    self.push_markup(NodeKind::Comment, start, at + 3);
                    return Ok(at + 3);
                }
                (b'-', 0) => break,
                (b'-', _) => return Err(Fault::malformed(at, "\"--\" may not stand in a comment")),
                _ => at += 1,
            }
        }
        Err(Fault::malformed(start, "the comment is not closed with \"-->\""))
    }

    /// Reads the processing instruction at `start`.
    #[inline(never)]
    pub(crate) fn processing_instruction(&mut self, start: usize) -> ScanResult<usize> {
        let source = self.source;
        let target_end = ncname_end(self.checked, start + 2);
        let target = &source[start + 2..target_end];
        let next = byte(source, target_end);
        let reason = if target.is_empty() {
            format!("a processing instruction needs a target, found {}", describe_input(source, target_end))
        } else if target == b"xml" {
            "an XML declaration may only stand at the very start of the message".into()
        } else if target.eq_ignore_ascii_case(b"xml") {
            format!("the target {:?} of a processing instruction is reserved", shown(target))
        } else if next == b':' {
            format!("the target {:?} of a processing instruction may not hold a colon", shown(target))
        } else if next != b'?' && next != 0 && !is(next, SPACE) {
            format!("{} may not stand in the target of a processing instruction", describe_input(source, target_end))
        } else {
            return self.processing_instruction_end(start, target_end);
        };
        Err(Fault::malformed(start, reason))
    }

    fn processing_instruction_end(&mut self, start: usize, target_end: usize) -> ScanResult<usize> {
        let source = self.source;
        for question in memchr::memchr_iter(b'?', &source[target_end..]) {
            let at = target_end + question;
            if byte(source, at + 1) == b'>' {
                self.push_markup(NodeKind::ProcessingInstruction, start, at + 2);
                return Ok(at + 2);
            }
            if question == 0 {
                let reason = "the target of a processing instruction must be followed by white space or \"?>\"";
                return Err(Fault::malformed(at, reason));
            }
        }
        Err(Fault::malformed(start, "the processing instruction is not closed with \"?>\""))
    }

    fn push_markup(&mut self, kind: NodeKind, start: usize, end: usize) {
        if self.options.text {
            let parent = self.open.last().map_or(0, |open| open.node);
            self.push_leaf(leaf(kind, start, end, parent));
        }
    }

    pub(crate) fn push_leaf(&mut self, node: Node) {
        let attributes = self.document.attributes.len() as u32;
        let end = self.document.nodes.len() as u32 + 1;
        self.document.nodes.push(Node { end, attributes_start: attributes, attributes_end: attributes, ..node });
    }

    #[inline(always)]
    fn carriage_returns_in(&self, start: usize, end: usize) -> bool {
        self.checked.carriage_returns && memchr::memchr(b'\r', &self.source[start..end]).is_some()
    }

    /// What to make of an entity that nothing in the message declares.
    #[inline(always)]
    fn undeclared(&self) -> impl FnOnce(usize, String) -> Fault + use<> {
        if self.skips_undeclared { Fault::conversion } else { Fault::malformed }
    }
}

pub(crate) fn leaf(kind: NodeKind, start: usize, end: usize, parent: u32) -> Node {
    Node {
        kind,
        encoded: false,
        name: NAMELESS,
        parent,
        end: 1,
        span: span(start, end),
        content_start: end as u32,
        attributes_start: 0,
        attributes_end: 0,
    }
}

#[inline(always)]
pub(crate) fn span(start: usize, end: usize) -> ByteRange {
    ByteRange { start: start as u32, end: end as u32 }
}
