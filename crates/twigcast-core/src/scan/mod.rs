//! Bytes to [`crate::document::Document`], rejecting what is not well-formed.
//!
//! One pass from left to right, after one over the bytes that checks the characters. There is no recursion, every
//! search goes forward, and each byte is looked at a bounded number of times, so time is linear in the message
//! whatever it contains. Control characters are rejected first; from then on a zero byte means the end of the message
//! and no step needs a separate check for it.
//!
//! - [`prolog`]: byte-order mark, XML declaration, DOCTYPE; says when a message has to be decoded first
//! - [`dtd`]: what a DOCTYPE declares, and messages written again with that in place
//! - [`characters`]: which characters may stand in a message at all
//! - [`tags`], [`names`], [`namespaces`], [`references`]: elements and what their tags hold
//! - [`expanding`]: messages that their DOCTYPE changes, expanded before they are read
//! - [`content`]: character data, comments, processing instructions, and the order of it all
//! - [`pass`]: the state of one pass over one message
//! - [`decode`]: raw slices to values; [`position`]: offsets to lines and columns
//!
//! ```
//! use twigcast_core::document::{Document, Message};
//! use twigcast_core::limits::Limits;
//! use twigcast_core::scan::{ScanOptions, Scanner};
//! use twigcast_core::vocabulary::Vocabulary;
//!
//! let source = b"<a><b>fish &amp; chips</b></a>";
//! let mut document = Document::default();
//! Scanner::new().scan(source, &Vocabulary::new(), &Limits::default(), ScanOptions::ALL, &mut document)?;
//! let root = document.first_child(0);
//! assert_eq!(Message { source, document: &document }.string_value(root), "fish & chips");
//! # Ok::<(), twigcast_core::error::MessageError>(())
//! ```

pub(crate) mod bytes;
pub(crate) mod characters;
mod content;
pub mod decode;
pub mod dtd;
mod expanding;
pub(crate) mod fault;
mod lanes;
mod markup;
pub(crate) mod names;
mod namespaces;
mod pass;
pub mod position;
mod prolog;
pub(crate) mod references;
mod tags;
#[cfg(test)]
mod tests;

use crate::document::{ByteRange, Document};
use crate::error::MessageError;
use crate::limits::Limits;
use crate::scan::characters::LegalText;
use crate::scan::dtd::TagRanges;
use crate::scan::fault::{Fault, ScanResult};
use crate::scan::namespaces::PrefixBindings;
use crate::vocabulary::Vocabulary;

pub use expanding::ScannedMessage;
use pass::Prefixed;
pub use pass::ScanOptions;
pub(crate) use pass::{OpenElement, ScanPass, leaf, span};
use prolog::EncodingHint;

/// Reads messages one after the other, reusing its memory.
#[derive(Debug, Default)]
pub struct Scanner {
    bindings: PrefixBindings,
    open: Vec<OpenElement>,
    names: Vec<ByteRange>,
    prefixed: Vec<Prefixed>,
    /// The memory of the last message that was expanded.
    pub(in crate::scan) expanded: String,
}

impl Scanner {
    /// Creates a scanner without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a pass over a source that is read otherwise than by its markup.
    pub(crate) fn pass<'a>(
        &'a mut self,
        checked: LegalText<'a>,
        vocabulary: &'a Vocabulary,
        limits: &'a Limits,
        options: ScanOptions,
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
            doctype: None,
            declarations: None,
            declares_entities: false,
            declares_attributes: false,
            tag: TagRanges::default(),
            text_run: None,
            stopped_at: 0,
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
        options: ScanOptions,
        document: &mut Document,
    ) -> Result<(), MessageError> {
        let read = open(source, limits).and_then(|opened| self.run(&opened, vocabulary, limits, options, document));
        read.map_err(|fault| fault.noting_end(source).into_error(source))
    }

    fn run(
        &mut self,
        OpenedMessage { hint, checked }: &OpenedMessage<'_>,
        vocabulary: &Vocabulary,
        limits: &Limits,
        options: ScanOptions,
        document: &mut Document,
    ) -> ScanResult<()> {
        self.opened_pass((hint, *checked), vocabulary, limits, options, document).whole(hint.end)
    }

    /// Starts a pass over a message that has been opened.
    fn opened_pass<'a>(
        &'a mut self,
        (hint, checked): (&EncodingHint, LegalText<'a>),
        vocabulary: &'a Vocabulary,
        limits: &'a Limits,
        options: ScanOptions,
        document: &'a mut Document,
    ) -> ScanPass<'a> {
        let mut pass = self.pass(checked, vocabulary, limits, options, document);
        pass.standalone = hint.standalone;
        pass.document_node(hint.end);
        pass
    }
}

/// A message whose bytes have been checked.
struct OpenedMessage<'a> {
    hint: EncodingHint,
    checked: LegalText<'a>,
}

/// Checks the bytes of a message.
fn open<'a>(source: &'a [u8], limits: &Limits) -> ScanResult<OpenedMessage<'a>> {
    check_size(source, limits)?;
    let hint = prolog::opening(source)?;
    let checked = characters::check(source)?;
    if hint.ascii_only
        && let Some(at) = source[hint.end..].iter().position(|b| !b.is_ascii())
    {
        return Err(Fault::malformed(hint.end + at, "the message declares US-ASCII but holds other characters"));
    }
    Ok(OpenedMessage { hint, checked })
}

fn check_size(source: &[u8], limits: &Limits) -> ScanResult<()> {
    // Offsets are 32 bits wide and the largest is reserved.
    let bytes_max = limits.message_bytes_max.min(u32::MAX as usize - 1);
    if source.len() > bytes_max {
        return Err(Fault::limit(0, "message_bytes_max", bytes_max, "more bytes"));
    }
    Ok(())
}
