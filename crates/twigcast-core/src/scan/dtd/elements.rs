//! Expands the elements of a document one by one, as its records are.

use super::Declarations;
use super::expand::{BodyRange, ExpansionState, OtherDeclarations, body};
use crate::error::MessageError;
use crate::limits::Limits;
use crate::scan::fault::Fault;

/// Bytes of texts that are kept from one element for the next.
const KEPT_TEXT_BYTES: usize = 1 << 20;
/// Names of elements that are kept likewise.
const KEPT_NAMES: usize = 1 << 12;

/// Expands elements of one document: what it finds out about the declarations for one, it knows for the next.
#[derive(Debug, Default)]
pub struct ElementExpander {
    own: Declarations,
    found: ExpansionState,
    expanded: String,
}

impl ElementExpander {
    /// Creates an expander for a document that declares this.
    pub fn new(own: Declarations) -> Self {
        Self { own, ..Self::default() }
    }

    /// Returns whether declarations may change an element or another part of the document.
    pub fn may_change(&self, part: &[u8], other: OtherDeclarations<'_>) -> bool {
        other.behind(&self.own).may_change_part(part)
    }

    /// Writes an element, or another part of content, with everything in it expanded.
    ///
    /// # Errors
    /// An entity is not declared, external or over a limit, or the bytes are not UTF-8. All else is left for the scanner to
    /// reject.
    pub fn expand(
        &mut self,
        element: &[u8],
        other: OtherDeclarations<'_>,
        limits: &Limits,
    ) -> Result<(), MessageError> {
        if self.found.texts.bytes > KEPT_TEXT_BYTES || self.found.plans.len() > KEPT_NAMES {
            self.found = ExpansionState::default();
        }
        self.expanded.clear();
        let chain = other.behind(&self.own);
        let expanded = match std::str::from_utf8(element) {
            Ok(text) => {
                let range = BodyRange { start: 0, written: 0 };
                body(text, range, chain, &mut self.found, limits, &mut self.expanded)
            }
            Err(error) => Err(Fault::malformed(error.valid_up_to(), "the bytes are not UTF-8")),
        };
        expanded.map_err(|fault| fault.into_error(element))
    }

    /// Returns what was written last.
    pub fn expanded(&self) -> &[u8] {
        self.expanded.as_bytes()
    }

    /// Writes a short DOCTYPE that declares the ID attributes that it may have; nothing if it has none.
    pub fn write_ids(&self, other: OtherDeclarations<'_>, out: &mut Vec<u8>) {
        other.behind(&self.own).write_ids_of(self.expanded(), out);
    }
}
