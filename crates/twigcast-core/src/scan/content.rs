//! Character data, comments, processing instructions, and the order of it all.

use crate::document::{Node, NodeKind};
use crate::scan::bytes::{SPACE, byte, is, plain_text_end, skip_spaces};
use crate::scan::fault::{Fault, ScanResult, describe_input, shown};
use crate::scan::markup::processing_instruction_end;
use crate::scan::pass::{OpenElement, ScanPass, TextRun, leaf};
use crate::scan::references;

impl ScanPass<'_> {
    /// Reads a message that starts at an offset.
    pub(super) fn whole(&mut self, start: usize) -> ScanResult<()> {
        let root = self.before_root(start)?;
        let content = self.start_tag(root)?;
        self.rest(content)
    }

    /// Reads on after the start tag of the root element, from what the pass has read up to.
    pub(super) fn rest(&mut self, at: usize) -> ScanResult<()> {
        let end = self.content(at)?;
        self.after_root(end)?;
        self.document.nodes[0].end = self.document.nodes.len() as u32;
        if let Some(declarations) = self.declarations.take() {
            declarations.note_ids(self.document);
        }
        Ok(())
    }

    /// Reads up to the root element; answers with the offset of its `<`.
    pub(super) fn before_root(&mut self, mut at: usize) -> ScanResult<usize> {
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
    pub(super) fn content(&mut self, mut at: usize) -> ScanResult<usize> {
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
    pub(super) fn after_root(&mut self, mut at: usize) -> ScanResult<()> {
        loop {
            at = skip_spaces(self.source, at);
            let rest = &self.source[at..];
            at = if rest.is_empty() {
                return Ok(());
            } else if rest.starts_with(b"<!DOCTYPE") {
                return Err(Fault::malformed(at, "a DOCTYPE may not stand after the root element"));
            } else if rest.starts_with(b"<!") {
                self.comment(at)?
            } else if rest.starts_with(b"<?") && !rest.starts_with(b"<?xml ") {
                self.processing_instruction(at)?
            } else {
                let what = match rest[0] {
                    b'<' if rest[1..].starts_with(b"?") => "the XML declaration of another document".into(),
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
                    let read = references::check(self.checked, at, self.undeclared());
                    at = read.inspect_err(|_| self.stopped_at = start)?;
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
        let end = processing_instruction_end(self.checked, start)?;
        self.push_markup(NodeKind::ProcessingInstruction, start, end);
        Ok(end)
    }

    #[inline(always)]
    fn carriage_returns_in(&self, start: usize, end: usize) -> bool {
        self.checked.carriage_returns && memchr::memchr(b'\r', &self.source[start..end]).is_some()
    }

    /// Returns the fault of an entity that is not predefined. Where the DOCTYPE declares any, the conversion finds out.
    #[inline(always)]
    pub(super) fn undeclared(&self) -> impl FnOnce(usize, String) -> Option<Fault> + use<> {
        let is_declared = self.declares_entities;
        move |at, reason| Some(if is_declared { Fault::conversion(at, reason) } else { Fault::malformed(at, reason) })
    }
}
