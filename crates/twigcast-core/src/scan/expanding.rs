//! Reads messages that their DOCTYPE changes: what follows the first change is written again, and read from there on.

use std::borrow::Cow;
use std::ops::Range;

use super::prolog::UTF8_MARK;
use super::{Scanner, check_size, open};
use crate::document::Document;
use crate::error::MessageError;
use crate::limits::Limits;
use crate::scan::bytes::skip_spaces;
use crate::scan::characters::LegalText;
use crate::scan::dtd::Declarations;
use crate::scan::dtd::expand::expand_from;
use crate::scan::fault::{Fault, ScanResult};
use crate::scan::pass::{ScanOptions, ScanPass};
use crate::vocabulary::Vocabulary;

/// Bytes up to which the memory of an expanded message is kept for the next one: to get it anew from the system takes longer
/// than to write it. A scanner keeps several times as much for the document of such a message.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// A message that has been scanned: what its DOCTYPE has made of it.
#[derive(Debug, Default)]
pub struct ScannedMessage {
    /// The message with everything expanded, if its DOCTYPE changes it. It is the same up to the first change.
    expanded: Option<String>,
    omitted: Option<OmittedParts>,
}

/// The parts of a message with a DOCTYPE that are not in the document that is delivered of it.
#[derive(Debug)]
struct OmittedParts {
    /// What names the encoding: the document is UTF-8. Spaces replace it.
    encoding: Range<usize>,
    /// With the white space behind it.
    doctype: Range<usize>,
}

impl ScannedMessage {
    /// Returns the bytes that the spans of the document index into. `source` is the message as it came.
    pub fn bytes<'m>(&'m self, source: &'m [u8]) -> &'m [u8] {
        self.expanded.as_deref().map_or(source, str::as_bytes)
    }

    /// Returns the document that is delivered of the message, in parts; `None`: the message as it came.
    pub fn document<'m>(&'m self, source: &'m [u8]) -> Option<[Cow<'m, [u8]>; 4]> {
        let OmittedParts { encoding, doctype } = self.omitted.as_ref()?;
        let bytes = self.bytes(source);
        let start = if bytes.starts_with(UTF8_MARK) { UTF8_MARK.len() } else { 0 };
        let encoding = encoding.start.max(start)..encoding.end.max(start);
        let blank = bytes[encoding.clone()].iter().map(|&b| if matches!(b, b'\n' | b'\r') { b } else { b' ' });
        Some([
            Cow::Borrowed(&bytes[start..encoding.start]),
            Cow::Owned(blank.collect()),
            Cow::Borrowed(&bytes[encoding.end..doctype.start]),
            Cow::Borrowed(&bytes[doctype.end..]),
        ])
    }

    /// Takes the expanded message out, for its memory.
    pub fn take_expanded(&mut self) -> Option<String> {
        self.expanded.take()
    }
}

impl Scanner {
    /// Reads `source` as [`Self::scan`] does. If its DOCTYPE changes it and this `expands`, the spans index into the expanded
    /// message. One that counts on the entities of HTML, which are not known here, still needs conversion.
    pub fn scan_message(
        &mut self,
        source: &[u8],
        vocabulary: &Vocabulary,
        limits: &Limits,
        options: ScanOptions,
        document: &mut Document,
        expands: bool,
    ) -> Result<ScannedMessage, MessageError> {
        let of_source = |fault: Fault| fault.noting_end(source).into_error(source);
        let opened = open(source, limits).map_err(of_source)?;
        let memory = std::mem::take(&mut self.expanded);
        let mut pass = self.opened_pass((&opened.hint, opened.checked), vocabulary, limits, options, document);
        let read = pass.whole(opened.hint.end);
        let omitted = pass.doctype.take().map(|doctype| OmittedParts {
            encoding: opened.hint.encoding.clone(),
            doctype: doctype.start..skip_spaces(source, doctype.end),
        });
        let fault = match read {
            Err(fault) if fault.is_conversion() && expands => fault,
            read => {
                self.expanded = memory;
                return read.map(|()| ScannedMessage { expanded: None, omitted }).map_err(of_source);
            }
        };
        let own = pass.declarations.take().filter(|own| !own.declares_html).ok_or(fault).map_err(of_source)?;
        let expanded = expand_from(opened.checked.text, pass.stopped_at, &own, limits, memory).map_err(of_source)?;
        let read = check_size(expanded.as_bytes(), limits).and_then(|()| pass.resumed(&expanded, own));
        read.map_err(|fault| fault.noting_end(expanded.as_bytes()).into_error(expanded.as_bytes()))?;
        Ok(ScannedMessage { expanded: Some(expanded), omitted })
    }

    /// Takes the memory of an expanded message, for the next one. Returns memory that is not needed.
    pub fn keep_memory(&mut self, expanded: String) -> String {
        let is_better = expanded.capacity() <= KEPT_BYTES_MAX && expanded.capacity() > self.expanded.capacity();
        if is_better { std::mem::replace(&mut self.expanded, expanded) } else { expanded }
    }
}

impl<'a> ScanPass<'a> {
    /// Reads on where the pass stopped, in the expanded message, which is the same up to there. It is made of characters
    /// that have been checked, and of references.
    fn resumed(self, expanded: &'a str, own: Box<Declarations>) -> ScanResult<()> {
        let start = self.stopped_at;
        let mut pass = ScanPass {
            source: expanded.as_bytes(),
            checked: LegalText { text: expanded, ascii: false, ..self.checked },
            declares_entities: false,
            declares_attributes: false,
            declarations: Some(own),
            ..self
        };
        pass.document.nodes[0].span.end = expanded.len() as u32;
        // In front of the root element, no other is open.
        let content = if pass.open.is_empty() { pass.start_tag(start)? } else { start };
        pass.rest(content)
    }
}
