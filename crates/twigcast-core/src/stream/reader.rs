//! The items of a stream, one after the other, into a document.

use super::decode::malformed;
use super::{
    COMMENT, ELEMENT, ELEMENT_WITH_ATTRIBUTES, END, FIRST_NAME, ITEM_BITS, NAME_END, PROCESSING_INSTRUCTION,
    REMEMBERED, SPELLED_OUT, TEXT, number,
};
use crate::document::{Attribute, Document, Node, NodeId, NodeKind, Span};
use crate::error::MessageError;
use crate::local_names::NameKey;
use crate::scan::bytes::{byte, value_stop};
use crate::scan::characters::Checked;
use crate::scan::fault::{Fault, Step};
use crate::scan::names::{QName, qname};
use crate::scan::tags::Open;
use crate::scan::{Pass, leaf, plain_text_end, references, span};
use crate::vocabulary::{LocalId, Name, NamespaceId, Vocabulary};

/// What is wrong. One word wide, so that the paths without faults pass little around.
enum Wrong {
    #[allow(clippy::box_collection)]
    Structure(Box<String>),
    Strings(Fault),
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Self {
        Self::Strings(fault)
    }
}

type Read<T> = Result<T, Wrong>;

#[cold]
fn wrong<T>(reason: impl Into<String>) -> Read<T> {
    Err(Wrong::Structure(Box::new(reason.into())))
}

/// A name in the source, looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    start: u32,
    end: u32,
    /// As in [`QName`].
    colon: u32,
    local: LocalId,
    /// `xmlns`, or `xmlns:` and more.
    declares: bool,
}

impl Written {
    pub(super) fn new(source: &[u8], (start, name): (usize, QName), vocabulary: &Vocabulary) -> Self {
        let local = if name.colon == 0 { start } else { name.colon + 1 };
        let prefix_end = if name.colon == 0 { name.end } else { name.colon };
        Self {
            start: start as u32,
            end: name.end as u32,
            colon: name.colon as u32,
            local: vocabulary.local(&source[local..name.end]),
            declares: &source[start..prefix_end] == b"xmlns",
        }
    }

    fn span(&self) -> Span {
        Span { start: self.start, end: self.end }
    }

    fn qname(&self) -> QName {
        QName { end: self.end as usize, colon: self.colon as usize }
    }
}

/// Somebody who is led along the elements of a stream.
pub(crate) trait Follow {
    /// Whether what is read is recorded.
    const RECORDS: bool;

    /// An element begins.
    fn enter(&mut self, name: Name) -> Onward;

    /// The element entered last and not left yet ends; one that was passed is not left.
    fn leave(&mut self);
}

/// Where to go from the start of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    /// To what it holds.
    In,
    /// To what follows it.
    Past,
    /// Nowhere.
    NoFurther,
}

/// Nobody follows: all is recorded.
struct Nobody;

impl Follow for Nobody {
    const RECORDS: bool = true;

    #[inline(always)]
    fn enter(&mut self, _: Name) -> Onward {
        Onward::In
    }

    #[inline(always)]
    fn leave(&mut self) {}
}

/// A stream on its way into a document.
pub struct Reader<'a> {
    pub(super) pass: Pass<'a>,
    pub(super) names: &'a mut Vec<Written>,
    /// The name spelled out last, if it was not remembered.
    pub(super) spelled_out: Option<Written>,
    pub(super) structure: &'a [u8],
    /// Where the next number stands.
    pub(super) at: usize,
    pub(super) values: Strings,
    pub(super) texts: Strings,
    pub(super) markup: Strings,
    /// By name of the dictionary: the last element that has an attribute of this name.
    pub(super) owners: &'a mut [NodeId],
    /// All is checked, not only what is recorded.
    pub(super) checks_all: bool,
    /// Where the strings of the message begin in the source.
    pub(super) strings_start: usize,
    pub(super) seen_root: bool,
    pub(super) after_text: bool,
}

/// Strings in the source, one behind the other.
pub(super) struct Strings {
    /// Where the next one starts.
    pub(super) next: usize,
    pub(super) end: usize,
    /// None of them needs a look.
    pub(super) plain: bool,
}

impl Strings {
    /// The next string, of that many bytes. What was passed over may have ended within a character, so both ends count.
    #[inline(always)]
    fn take(&mut self, length: u64, checked: Checked<'_>) -> Read<Span> {
        let start = self.next;
        let left = self.end - start;
        if length > left as u64 {
            return wrong(format!("a string of {length} bytes is named where {left} are left"));
        }
        self.next = start + length as usize;
        let bounds = [start, self.next];
        if !checked.ascii && !bounds.iter().all(|&bound| checked.text.is_char_boundary(bound)) {
            return wrong("a string begins or ends within a character");
        }
        Ok(span(start, self.next))
    }

    /// Passes over the next string, which need not be in the source.
    #[inline(always)]
    fn pass_over(&mut self, length: u64) -> Read<()> {
        let left = self.end - self.next;
        if length > left as u64 {
            return wrong(format!("a string of {length} bytes is named where {left} are left"));
        }
        self.next += length as usize;
        Ok(())
    }
}

impl Reader<'_> {
    /// Reads up to so many items more; whether that was the last of them.
    ///
    /// # Errors
    /// As [`super::decode::Decoder::decode`].
    pub fn read(&mut self, items: usize) -> Result<bool, MessageError> {
        let read = self.some(items, &mut Nobody);
        read.map_err(|error| self.error(error))
    }

    /// Leads somebody along the elements, until the end or as long as he likes, and records nothing.
    ///
    /// # Errors
    /// As [`super::decode::Decoder::decode`], for what has been read.
    pub(crate) fn lead(&mut self, follower: &mut impl Follow) -> Result<(), MessageError> {
        let read = self.some(usize::MAX, follower);
        read.map(|_| ()).map_err(|error| self.error(error))
    }

    fn error(&self, error: Wrong) -> MessageError {
        match error {
            Wrong::Strings(fault) => fault.into_error_of_stream(self.strings_start),
            Wrong::Structure(reason) => {
                malformed(format!("element stream: {reason} (byte {} of its structure)", self.at))
            }
        }
    }

    /// What has been read so far: elements still open end with their last descendant that has been read, or before it.
    pub fn document(&self) -> &Document {
        self.pass.document
    }

    #[inline(always)]
    fn some<F: Follow>(&mut self, items: usize, follower: &mut F) -> Read<bool> {
        for _ in 0..items {
            if self.at == self.structure.len() {
                return self.finish().map(|()| true);
            }
            let number = self.number()?;
            let (item, argument) = (number as u32 & ((1 << ITEM_BITS) - 1), (number >> ITEM_BITS) as u32);
            match item {
                END => {
                    self.end(argument, F::RECORDS)?;
                    follower.leave();
                }
                ELEMENT | ELEMENT_WITH_ATTRIBUTES => {
                    let name = self.element(argument, item == ELEMENT_WITH_ATTRIBUTES, F::RECORDS)?;
                    match follower.enter(name) {
                        Onward::In => {}
                        Onward::Past => self.pass_over_element()?,
                        Onward::NoFurther => return Ok(true),
                    }
                }
                TEXT if self.after_text => return wrong("a text follows a text"),
                TEXT => self.text(argument)?,
                COMMENT | PROCESSING_INSTRUCTION => self.markup(item, argument)?,
                _ => return wrong(format!("there is no item {item}")),
            }
            self.after_text = item == TEXT;
        }
        Ok(false)
    }

    /// Passes over what the element that is open holds, and its end. Only names that may be referred to later are of
    /// interest.
    fn pass_over_element(&mut self) -> Read<()> {
        let mut depth = 1;
        while depth > 0 {
            let number = self.number()?;
            let (item, argument) = (number as u32 & ((1 << ITEM_BITS) - 1), (number >> ITEM_BITS) as u32);
            match item {
                END => depth -= 1,
                ELEMENT | ELEMENT_WITH_ATTRIBUTES => {
                    depth += 1;
                    self.name(argument)?;
                    let count = if item == ELEMENT { 0 } else { self.number()? };
                    for _ in 0..count {
                        let reference = self.number()?;
                        self.name(u32::try_from(reference).unwrap_or(u32::MAX))?;
                        let length = self.number()?;
                        self.values.pass_over(length)?;
                    }
                }
                TEXT => self.texts.pass_over(u64::from(argument))?,
                COMMENT | PROCESSING_INSTRUCTION => self.markup.pass_over(u64::from(argument))?,
                _ => return wrong(format!("there is no item {item}")),
            }
        }
        self.end(0, false)
    }

    fn finish(&mut self) -> Read<()> {
        if !self.seen_root {
            return wrong("it has no root element");
        }
        if !self.pass.open.is_empty() {
            return wrong(format!("it ends where {} elements are open", self.pass.open.len()));
        }
        if [&self.values, &self.texts, &self.markup].iter().any(|strings| strings.next != strings.end) {
            return wrong("it has more strings than its structure names");
        }
        let nodes = self.pass.document.nodes.len() as NodeId;
        self.pass.document.nodes[0].end = nodes;
        Ok(())
    }

    #[inline(always)]
    fn number(&mut self) -> Read<u64> {
        match number::read(self.structure, &mut self.at) {
            Some(number) => Ok(number),
            None => wrong("a number is cut off or too long"),
        }
    }

    /// The name that is referred to, until the next.
    #[inline(always)]
    fn name(&mut self, reference: u32) -> Read<&Written> {
        if reference < FIRST_NAME {
            return self.spelled_out(reference);
        }
        let number = reference - FIRST_NAME;
        match self.names.get(number as usize) {
            Some(name) => Ok(name),
            None => wrong(format!("there is no name {number} yet")),
        }
    }

    #[inline(never)]
    fn spelled_out(&mut self, reference: u32) -> Read<&Written> {
        debug_assert!(matches!(reference, SPELLED_OUT | REMEMBERED));
        let length = self.number()?;
        let name = self.values.take(length, self.pass.checked)?;
        let behind = self.values.take(1, self.pass.checked)?;
        let read = if self.checks_all {
            let read = qname(self.pass.checked, name.start as usize, "element or attribute")?;
            if read.end != name.end as usize || behind.of(self.pass.source) != [NAME_END] {
                return wrong("what should be a name is none");
            }
            read
        } else {
            let colon = memchr::memchr(b':', name.of(self.pass.source));
            QName { end: name.end as usize, colon: colon.map_or(0, |colon| name.start as usize + colon) }
        };
        let written = Written::new(self.pass.source, (name.start as usize, read), self.pass.vocabulary);
        if reference == REMEMBERED {
            self.names.push(written);
            return Ok(&self.names[self.names.len() - 1]);
        }
        Ok(self.spelled_out.insert(written))
    }

    #[inline(always)]
    fn element(&mut self, reference: u32, with_attributes: bool, records: bool) -> Read<Name> {
        if self.seen_root && self.pass.open.is_empty() {
            return wrong("a second root element begins");
        }
        self.seen_root = true;
        let name = *self.name(reference)?;
        let depth_max = self.pass.limits.depth_max;
        if self.pass.open.len() >= depth_max {
            return Err(Fault::limit(self.values.next, "depth_max", depth_max, "more open elements").into());
        }
        let node = self.pass.document.nodes.len() as NodeId;
        let outer = (self.pass.bindings.count(), self.pass.bindings.default);
        let attributes_start = self.pass.document.attributes.len() as u32;
        if with_attributes {
            self.attributes(node)?;
        }
        let pass = &mut self.pass;
        let namespace = match name.colon {
            0 => pass.bindings.default,
            colon => pass.bindings.resolve(pass.checked.text, Span { start: name.start, end: colon })?.id,
        };
        let expanded = Name { namespace, local: name.local };
        let parent = pass.open.last().map_or(0, |open| open.node);
        let key = NameKey::default(); // no end tags are read here
        pass.open.push(Open { node, name: name.span(), key, bindings: outer.0, default: outer.1 });
        if records {
            pass.document.nodes.push(Node {
                name: expanded,
                end: node + 1,
                // The name stands one byte behind the start, as in a tag; nothing else of the span is of use.
                content_start: name.end + 1,
                attributes_start,
                attributes_end: pass.document.attributes.len() as u32,
                ..leaf(NodeKind::Element, name.start as usize - 1, name.end as usize, parent)
            });
        }
        Ok(expanded)
    }

    fn attributes(&mut self, owner: NodeId) -> Read<()> {
        let count = self.number()?;
        let limit = self.pass.limits.attributes_max;
        if count > limit as u64 {
            return Err(
                Fault::limit(self.values.next, "attributes_max", limit, "more attributes on one element").into()
            );
        }
        if count == 0 {
            return wrong("an element with attributes has none");
        }
        self.pass.names.clear();
        let mut numbered = true;
        for _ in 0..count {
            let reference = self.number()?;
            let Ok(reference) = u32::try_from(reference) else {
                return wrong("the number of a name is too large");
            };
            let name = *self.name(reference)?;
            let length = self.number()?;
            if !self.checks_all && !self.pass.want.attributes && !name.declares {
                self.values.pass_over(length)?;
                continue;
            }
            let value = self.values.take(length, self.pass.checked)?;
            let encoded = !self.values.plain && self.value(value)?;
            if !self.checks_all {
                self.attribute(owner, name, value, encoded)?;
                continue;
            }
            numbered &= self.is_new_by_number(reference, owner)?;
            self.pass.names.push(name.span());
            self.attribute(owner, name, value, encoded)?;
        }
        if !numbered {
            self.pass.unique_names()?;
        }
        if !self.pass.prefixed.is_empty() {
            self.pass.resolve_prefixed()?;
        }
        Ok(())
    }

    /// Whether the number of an attribute's name shows that the element has no other of this name; false: no telling.
    #[inline(always)]
    fn is_new_by_number(&mut self, reference: u32, owner: NodeId) -> Read<bool> {
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
    fn attribute(&mut self, owner: NodeId, name: Written, value: Span, encoded: bool) -> Step<()> {
        let pass = &mut self.pass;
        if name.declares {
            return pass.declaration(owner, name.start as usize, name.qname(), value, encoded);
        }
        if name.colon != 0 {
            let prefix = Span { start: name.start, end: name.colon }.of(pass.source);
            pass.record(owner, name.start as usize, (name.qname(), NameKey::of(prefix)), value, encoded);
            return Ok(());
        }
        if pass.want.attributes {
            let qname = name.span();
            let name = Name { namespace: NamespaceId::NONE, local: name.local };
            pass.document.attributes.push(Attribute { name, encoded, owner, qname, value });
        }
        Ok(())
    }

    /// Checks an attribute value; whether it has to be decoded.
    #[inline(always)]
    fn value(&self, value: Span) -> Step<bool> {
        let end = value.end as usize;
        let source = &self.pass.source[..end];
        let mut at = value.start as usize;
        let (mut encoded, mut quotes) = (false, [false; 2]);
        loop {
            at = value_stop(source, at);
            match byte(source, at) {
                0 => return Ok(encoded),
                quote @ (b'"' | b'\'') => {
                    quotes[usize::from(quote == b'\'')] = true;
                    if quotes[0] && quotes[1] {
                        return Err(Fault::malformed(at, "an attribute value holds both kinds of quotes"));
                    }
                    at += 1;
                }
                b'\t' | b'\n' | b'\r' => {
                    encoded = true;
                    at += 1;
                }
                b'&' => {
                    encoded = true;
                    at = self.reference(at, end)?;
                }
                _ => return Err(Fault::malformed(at, "\"<\" may not stand in an attribute value")),
            }
        }
    }

    /// Checks the reference at `at`, which has to end by `end`; answers with its end.
    fn reference(&self, at: usize, end: usize) -> Step<usize> {
        let behind = references::check(self.pass.checked, at, Fault::malformed)?;
        if behind > end { Err(Fault::malformed(at, "a reference runs over the end of its string")) } else { Ok(behind) }
    }

    #[inline(always)]
    fn end(&mut self, argument: u32, records: bool) -> Read<()> {
        let pass = &mut self.pass;
        let Some(open) = pass.open.pop().filter(|_| argument == 0) else {
            return wrong("an element ends where none is open");
        };
        pass.bindings.truncate(pass.checked.text, open.bindings);
        pass.bindings.default = open.default;
        if records {
            let end = pass.document.nodes.len() as NodeId;
            pass.document.nodes[open.node as usize].end = end;
        }
        Ok(())
    }

    #[inline(always)]
    fn text(&mut self, length: u32) -> Read<()> {
        if !self.checks_all && !self.pass.want.text {
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
        if self.pass.want.text {
            let node = leaf(NodeKind::Text, text.start as usize, text.end as usize, parent);
            self.pass.push_leaf(Node { encoded, ..node });
        }
        Ok(())
    }

    /// Checks a text; whether it has to be decoded.
    fn text_value(&self, text: Span) -> Step<bool> {
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
                    at = self.reference(at, end)?;
                }
                b']' if !source[at..].starts_with(b"]]>") => at += 1,
                _ => return Err(Fault::malformed(at, "\"<\" and \"]]>\" may not stand in text")),
            }
        }
    }

    fn markup(&mut self, item: u32, length: u32) -> Read<()> {
        if !self.checks_all && !self.pass.want.text {
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
