//! Reads messages that their DOCTYPE changes: what follows the first change is written again, and read from there on.

use super::{Scanner, check_size, open};
use crate::document::Document;
use crate::error::MessageError;
use crate::limits::Limits;
use crate::scan::characters::LegalText;
use crate::scan::dtd::Declarations;
use crate::scan::dtd::expand::expand_from;
use crate::scan::fault::{Fault, ScanResult};
use crate::scan::pass::{ScanOptions, ScanPass};
use crate::vocabulary::Vocabulary;

/// Bytes up to which the memory of an expanded message is kept for the next one: to get it anew from the system takes longer
/// than to write it. A scanner keeps several times as much for the document of such a message.
const KEPT_BYTES_MAX: usize = 16 << 20;

impl Scanner {
    /// Reads `source` as [`Self::scan`] does. If its DOCTYPE changes it, the spans index into the answer, which is `source` with
    /// everything expanded. One that counts on the entities of HTML, which are not known here, still needs conversion.
    pub fn scan_expanding(
        &mut self,
        source: &[u8],
        vocabulary: &Vocabulary,
        limits: &Limits,
        options: ScanOptions,
        document: &mut Document,
    ) -> Result<Option<String>, MessageError> {
        let of_source = |fault: Fault| fault.noting_end(source).into_error(source);
        let opened = open(source, limits).map_err(of_source)?;
        let memory = std::mem::take(&mut self.expanded);
        let mut pass = self.opened_pass((&opened.hint, opened.checked), vocabulary, limits, options, document);
        let fault = match pass.whole(opened.hint.end) {
            Err(fault) if fault.is_conversion() => fault,
            read => {
                self.expanded = memory;
                return read.map(|()| None).map_err(of_source);
            }
        };
        let own = pass.declarations.take().filter(|own| !own.declares_html).ok_or(fault).map_err(of_source)?;
        let expanded = expand_from(opened.checked.text, pass.stopped_at, &own, limits, memory).map_err(of_source)?;
        let read = check_size(expanded.as_bytes(), limits).and_then(|()| pass.resumed(&expanded, own));
        read.map_err(|fault| fault.noting_end(expanded.as_bytes()).into_error(expanded.as_bytes()))?;
        Ok(Some(expanded))
    }

    /// Takes the memory of an expanded message back, for the next one.
    pub fn keep_expanded(&mut self, expanded: String) {
        if expanded.capacity() <= KEPT_BYTES_MAX {
            self.expanded = expanded;
        }
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
