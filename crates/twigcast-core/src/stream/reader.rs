//! The items of a stream, one after the other, into a document.

use super::fault::{SectionResult, StreamFault, too_deep, wrong};
use super::section::{ResolvedName, SectionReader, StringCursor, checked_reference, item, too_many_attributes};
use super::{
    COMMENT, DECLARING_ELEMENT, ELEMENT, ELEMENT_WITH_ATTRIBUTES, END, FIRST_NAME, PROCESSING_INSTRUCTION, TEXT,
};
use crate::document::{Attribute, ByteRange, Document, Node, NodeId, NodeKind};
use crate::error::MessageError;
use crate::scan::bytes::{byte, plain_text_end};
use crate::scan::fault::{Fault, ScanResult};
use crate::scan::{OpenElement, ScanPass, leaf};
use crate::util::packed_name::PackedName;
use crate::vocabulary::{Name, NamespaceId};

/// A stream on its way into a document.
pub struct StreamReader<'a> {
    pub(super) pass: ScanPass<'a>,
    pub(super) structure: SectionReader<'a>,
    pub(super) attributes: SectionReader<'a>,
    pub(super) texts: StringCursor,
    pub(super) markup: StringCursor,
    /// By name of the dictionary: the last element that has an attribute of this name.
    pub(super) owners: &'a mut [NodeId],
    /// All is checked, not only what is recorded.
    pub(super) checks_all: bool,
    /// The offset of the message's strings in the source.
    pub(super) strings_start: usize,
    pub(super) seen_root: bool,
    pub(super) after_text: bool,
}

impl StreamReader<'_> {
    /// Reads up to so many items more. Returns whether that was the last of them.
    ///
    /// # Errors
    /// As [`super::decode::Decoder::decode`].
    pub fn read(&mut self, items: usize) -> Result<bool, MessageError> {
        let read = self.some(items);
        read.map_err(|error: StreamFault| error.into_error(self.structure.at, self.strings_start))
    }

    /// Returns the document as far as it has been read. Open elements end with their last descendant that has been read, or
    /// before it.
    pub fn document(&self) -> &Document {
        self.pass.document
    }

    fn some(&mut self, items: usize) -> SectionResult<bool> {
        for _ in 0..items {
            if self.structure.is_at_end() {
                return self.finish().map(|()| true);
            }
            let (item, argument) = item(self.structure.number()?);
            match item {
                END => self.end(argument)?,
                ELEMENT | ELEMENT_WITH_ATTRIBUTES | DECLARING_ELEMENT => self.element(item, argument)?,
                TEXT if self.after_text => return wrong("a text follows a text"),
                TEXT => self.text(argument)?,
                COMMENT | PROCESSING_INSTRUCTION => self.markup(item, argument)?,
                _ => return wrong(format!("there is no item {item}")),
            }
            self.after_text = item == TEXT;
        }
        Ok(false)
    }

    fn finish(&mut self) -> SectionResult<()> {
        if !self.seen_root {
            return wrong("it has no root element");
        }
        if !self.pass.open.is_empty() {
            return wrong(format!("it ends where {} elements are open", self.pass.open.len()));
        }
        let mut strings = [&self.structure.strings, &self.texts, &self.markup].into_iter();
        let all_named =
            strings.all(StringCursor::is_at_end) && (!self.reads_attributes() || self.attributes.strings.is_at_end());
        if !all_named {
            return wrong("it has more strings than its structure names");
        }
        if self.reads_attributes() && !self.attributes.is_at_end() {
            return wrong("it has attributes of more elements than its structure names");
        }
        let nodes = self.pass.document.nodes.len() as NodeId;
        self.pass.document.nodes[0].end = nodes;
        Ok(())
    }

    #[inline(always)]
    fn reads_attributes(&self) -> bool {
        self.checks_all || self.pass.options.attributes
    }

    #[inline(always)]
    fn element(&mut self, item: u32, reference: u32) -> SectionResult<()> {
        if self.seen_root && self.pass.open.is_empty() {
            return wrong("a second root element begins");
        }
        self.seen_root = true;
        let name = *self.structure.name(reference, &self.pass)?;
        let depth_max = self.pass.limits.depth_max;
        if self.pass.open.len() >= depth_max {
            return Err(too_deep(self.structure.strings.next, depth_max));
        }
        let node = self.pass.document.nodes.len() as NodeId;
        let outer = (self.pass.bindings.count(), self.pass.bindings.default);
        let attributes_start = self.pass.document.attributes.len() as u32;
        if item != ELEMENT {
            self.attributes(item == DECLARING_ELEMENT, node)?;
        }
        let pass = &mut self.pass;
        let namespace = match name.colon {
            0 => pass.bindings.default,
            _ => pass.bindings.resolve(pass.checked.text, name.prefix())?.id,
        };
        let parent = pass.open.last().map_or(0, |open| open.node);
        let key = PackedName::default(); // no end tags are read here
        pass.open.push(OpenElement { node, name: name.span(), key, bindings: outer.0, default: outer.1 });
        pass.document.nodes.push(Node {
            name: Name { namespace, local: name.local },
            end: node + 1,
            // The name stands one byte behind the start, as in a tag; nothing else of the span is of use.
            content_start: name.end + 1,
            attributes_start,
            attributes_end: pass.document.attributes.len() as u32,
            ..leaf(NodeKind::Element, name.start as usize - 1, name.end as usize, parent)
        });
        Ok(())
    }

    /// Reads what an element declares and its attributes.
    fn attributes(&mut self, declares: bool, owner: NodeId) -> SectionResult<()> {
        let declared = if declares {
            self.structure.declarations(&mut self.pass, owner)?
        } else {
            self.pass.names.clear();
            0
        };
        if !self.reads_attributes() {
            return Ok(());
        }
        let count = self.attributes.number()?;
        let limit = self.pass.limits.attributes_max;
        if count > (limit - declared) as u64 {
            return Err(too_many_attributes(self.attributes.strings.next, limit));
        }
        if count == 0 && declared == 0 {
            return wrong("an element with attributes has none");
        }
        // One declaration has another name than all attributes.
        let mut numbered = declared < 2;
        for _ in 0..count {
            let reference = self.attributes.reference()?;
            let name = *self.attributes.name(reference, &self.pass)?;
            if name.declares {
                return wrong("a namespace declaration stands among the attributes");
            }
            let length = self.attributes.number()?;
            let (value, encoded) = self.attributes.value(length, &self.pass)?;
            if self.checks_all {
                numbered &= self.is_new_by_number(reference, owner)?;
                self.pass.names.push(name.span());
            }
            self.attribute(owner, name, value, encoded);
        }
        if self.checks_all && !numbered {
            self.pass.unique_names()?;
        }
        if !self.pass.prefixed.is_empty() {
            self.pass.resolve_prefixed()?;
        }
        Ok(())
    }

    /// Returns whether the number of an attribute's name shows that the element has no other of this name; `false`: it
    /// does not show.
    #[inline(always)]
    fn is_new_by_number(&mut self, reference: u32, owner: NodeId) -> SectionResult<bool> {
        match self.owners.get_mut(reference.wrapping_sub(FIRST_NAME) as usize) {
            None => Ok(false),
            Some(last) if *last == owner => wrong("an attribute stands twice on one element"),
            Some(last) => {
                *last = owner;
                Ok(true)
            }
        }
    }

    #[inline(always)]
    fn attribute(&mut self, owner: NodeId, name: ResolvedName, value: ByteRange, encoded: bool) {
        let pass = &mut self.pass;
        if name.colon != 0 {
            let prefix = name.prefix().of(pass.source);
            pass.record(owner, name.start as usize, (name.qname(), PackedName::of(prefix)), value, encoded);
        } else if pass.options.attributes {
            let qname = name.span();
            let name = Name { namespace: NamespaceId::NONE, local: name.local };
            pass.document.attributes.push(Attribute { name, encoded, owner, qname, value });
        }
    }

    #[inline(always)]
    fn end(&mut self, argument: u32) -> SectionResult<()> {
        let pass = &mut self.pass;
        let Some(open) = pass.open.pop().filter(|_| argument == 0) else {
            return wrong("an element ends where none is open");
        };
        pass.bindings.truncate(pass.checked.text, open.bindings);
        pass.bindings.default = open.default;
        let end = pass.document.nodes.len() as NodeId;
        pass.document.nodes[open.node as usize].end = end;
        Ok(())
    }

    #[inline(always)]
    fn text(&mut self, length: u32) -> SectionResult<()> {
        if !self.checks_all && !self.pass.options.text {
            return self.texts.pass_over(u64::from(length));
        }
        let text = self.texts.take(u64::from(length), self.pass.checked)?;
        let Some(open) = self.pass.open.last() else {
            return wrong("a text stands outside the root element");
        };
        if length == 0 {
            return wrong("a text is empty");
        }
        let parent = open.node;
        let encoded = !self.texts.plain && self.text_value(text)?;
        if self.pass.options.text {
            let node = leaf(NodeKind::Text, text.start as usize, text.end as usize, parent);
            self.pass.push_leaf(Node { encoded, ..node });
        }
        Ok(())
    }

    /// Checks a text. Returns whether it has to be decoded.
    fn text_value(&self, text: ByteRange) -> ScanResult<bool> {
        let end = text.end as usize;
        let source = &self.pass.source[..end];
        let mut at = text.start as usize;
        let mut encoded = self.pass.checked.carriage_returns && memchr::memchr(b'\r', &source[at..]).is_some();
        loop {
            at = plain_text_end(source, at);
            match byte(source, at) {
                0 => return Ok(encoded),
                b'&' => {
                    encoded = true;
                    at = checked_reference(&self.pass, at, end)?;
                }
                b']' if !source[at..].starts_with(b"]]>") => at += 1,
                _ => return Err(Fault::malformed(at, "\"<\" and \"]]>\" may not stand in text")),
            }
        }
    }

    fn markup(&mut self, item: u32, length: u32) -> SectionResult<()> {
        if !self.checks_all && !self.pass.options.text {
            return self.markup.pass_over(u64::from(length));
        }
        let markup = self.markup.take(u64::from(length), self.pass.checked)?;
        let start = markup.start as usize;
        let opening: &[u8] = if item == COMMENT { b"<!" } else { b"<?" };
        if !markup.of(self.pass.source).starts_with(opening) {
            return wrong("a comment or processing instruction does not begin as one");
        }
        let end = match item {
            COMMENT => self.pass.comment(start)?,
            _ => self.pass.processing_instruction(start)?,
        };
        if end != markup.end as usize {
            return wrong("a comment or processing instruction does not end where its string does");
        }
        Ok(())
    }
}
