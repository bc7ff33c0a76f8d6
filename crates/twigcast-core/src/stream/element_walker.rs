//! The elements of a stream, one after the other, to somebody who asks for nothing else: nothing is recorded, and of the
//! stream nothing but the structure and the names is read.

use super::fault::{SectionResult, too_deep, wrong};
use super::section::{SectionReader, StringCursor, item};
use super::{COMMENT, DECLARING_ELEMENT, ELEMENT, ELEMENT_WITH_ATTRIBUTES, END, PROCESSING_INSTRUCTION, TEXT};
use crate::error::MessageError;
use crate::scan::ScanPass;
use crate::vocabulary::{Name, NamespaceId};

/// Somebody who is led along the elements of a stream.
pub(crate) trait ElementVisitor {
    /// Enters an element.
    fn enter(&mut self, name: Name) -> VisitNext;

    /// Leaves the element entered last and not left yet; an element that was passed is not left.
    fn leave(&mut self);
}

/// The next position after the start of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VisitNext {
    /// The content of the element.
    In,
    /// The end of the element.
    Past,
    /// Nowhere.
    NoFurther,
}

/// A stream whose elements are looked at.
pub(crate) struct ElementWalker<'a> {
    pub(super) pass: ScanPass<'a>,
    pub(super) structure: SectionReader<'a>,
    pub(super) texts: StringCursor,
    pub(super) markup: StringCursor,
    /// The offset of the message's strings in the source.
    pub(super) strings_start: usize,
    /// Elements that are open.
    pub(super) depth: usize,
    /// The scopes outside the open elements that declare namespaces.
    pub(super) scopes: Vec<NamespaceScope>,
    pub(super) seen_root: bool,
}

/// The scope outside an element that declares namespaces.
pub(super) struct NamespaceScope {
    /// Elements around it.
    depth: usize,
    bindings: u32,
    default: NamespaceId,
}

impl ElementWalker<'_> {
    /// Leads somebody along the elements, until the end or as long as he likes.
    ///
    /// # Errors
    /// As [`super::decode::Decoder::decode`], for what has been read.
    pub(crate) fn lead(mut self, follower: &mut impl ElementVisitor) -> Result<(), MessageError> {
        let read = self.along(follower);
        read.map_err(|error| error.into_error(self.structure.at, self.strings_start))
    }

    #[inline(always)]
    fn along(&mut self, follower: &mut impl ElementVisitor) -> SectionResult<()> {
        let mut after_text = false;
        while !self.structure.is_at_end() {
            let (item, argument) = item(self.structure.number()?);
            match item {
                END => {
                    self.end(argument)?;
                    follower.leave();
                }
                ELEMENT | ELEMENT_WITH_ATTRIBUTES | DECLARING_ELEMENT => {
                    let name = self.element(argument, item == DECLARING_ELEMENT)?;
                    match follower.enter(name) {
                        VisitNext::In => {}
                        VisitNext::Past => self.pass_over_element()?,
                        VisitNext::NoFurther => return Ok(()),
                    }
                }
                TEXT if after_text => return wrong("a text follows a text"),
                TEXT => self.texts.pass_over(u64::from(argument))?,
                COMMENT | PROCESSING_INSTRUCTION => self.markup.pass_over(u64::from(argument))?,
                _ => return wrong(format!("there is no item {item}")),
            }
            after_text = item == TEXT;
        }
        self.finish()
    }

    #[inline(always)]
    fn element(&mut self, reference: u32, declares: bool) -> SectionResult<Name> {
        if self.depth == 0 && std::mem::replace(&mut self.seen_root, true) {
            return wrong("a second root element begins");
        }
        let name = *self.structure.name(reference, &self.pass)?;
        let depth_max = self.pass.limits.depth_max;
        if self.depth >= depth_max {
            return Err(too_deep(self.structure.strings.next, depth_max));
        }
        if declares {
            let bindings = &self.pass.bindings;
            self.scopes.push(NamespaceScope {
                depth: self.depth,
                bindings: bindings.count(),
                default: bindings.default,
            });
            self.structure.declarations(&mut self.pass, 0)?;
        }
        self.depth += 1;
        let namespace = match name.colon {
            0 => self.pass.bindings.default,
            _ => self.pass.bindings.resolve(self.pass.checked.text, name.prefix())?.id,
        };
        Ok(Name { namespace, local: name.local })
    }

    #[inline(always)]
    fn end(&mut self, argument: u32) -> SectionResult<()> {
        if self.depth == 0 || argument != 0 {
            return wrong("an element ends where none is open");
        }
        self.depth -= 1;
        if let Some(&NamespaceScope { depth, bindings, default }) = self.scopes.last()
            && depth == self.depth
        {
            self.scopes.pop();
            self.pass.bindings.truncate(self.pass.checked.text, bindings);
            self.pass.bindings.default = default;
        }
        Ok(())
    }

    /// Passes over what the element that is open holds, and its end. Only names that may be referred to later are of
    /// interest.
    fn pass_over_element(&mut self) -> SectionResult<()> {
        let mut depth = 1;
        while depth > 0 {
            let (item, argument) = item(self.structure.number()?);
            match item {
                END => depth -= 1,
                ELEMENT | ELEMENT_WITH_ATTRIBUTES | DECLARING_ELEMENT => {
                    depth += 1;
                    self.structure.name(argument, &self.pass)?;
                    let count = if item == DECLARING_ELEMENT { self.structure.number()? } else { 0 };
                    for _ in 0..count {
                        let reference = self.structure.reference()?;
                        self.structure.name(reference, &self.pass)?;
                        let length = self.structure.number()?;
                        self.structure.strings.pass_over(length)?;
                    }
                }
                TEXT => self.texts.pass_over(u64::from(argument))?,
                COMMENT | PROCESSING_INSTRUCTION => self.markup.pass_over(u64::from(argument))?,
                _ => return wrong(format!("there is no item {item}")),
            }
        }
        self.end(0)
    }

    fn finish(&self) -> SectionResult<()> {
        if !self.seen_root {
            return wrong("it has no root element");
        }
        if self.depth > 0 {
            return wrong(format!("it ends where {} elements are open", self.depth));
        }
        if ![&self.structure.strings, &self.texts, &self.markup].iter().all(|strings| strings.is_at_end()) {
            return wrong("it has more strings than its structure names");
        }
        Ok(())
    }
}
