//! A scanned message to its element stream.

use std::borrow::Cow;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::dictionary::Dictionary;
use super::{
    COMMENT, DECLARING_ELEMENT, ELEMENT, ELEMENT_WITH_ATTRIBUTES, END, FIRST_NAME, ITEM_BITS, MAGIC, NAME_END,
    PROCESSING_INSTRUCTION, REMEMBERED, SPELLED_OUT, TEXT, WITH_DICTIONARY, number,
};
use crate::document::{ByteRange, Message, NamespaceDeclaration, NodeId, NodeKind};

/// Magic bytes, flags, a dictionary's id, five lengths.
const HEADER_BYTES_MAX: usize = 3 + 1 + 8 + 5 * 5;

/// The form in which names are written.
#[derive(Clone, Copy, Debug)]
pub enum NameEncoding<'a> {
    /// Each time in full: the element stream as published.
    InFull,
    /// Once in full in each message, then by number.
    Once,
    /// By the numbers of a dictionary; names that it lacks, once in full.
    By(&'a Dictionary),
}

/// Returns the stream of a message, which was scanned with all its parts.
pub fn encode(message: Message<'_>, names: NameEncoding<'_>) -> Vec<u8> {
    encode_naming(message, names).0
}

/// Returns the stream of a message, and the names that it spells out to be remembered: those of elements, then those of
/// attributes alone, each in their order.
pub fn encode_naming<'a>(message: Message<'a>, names: NameEncoding<'a>) -> (Vec<u8>, Vec<&'a [u8]>) {
    let mut encoder = Encoder {
        message,
        names,
        structure: SectionWriter::with_capacity(3 * message.document.nodes.len()),
        attributes: SectionWriter::with_capacity(3 * message.document.attributes.len()),
        texts: Vec::with_capacity(message.source.len() / 2),
        markup: Vec::new(),
        declarations: &message.document.declarations,
    };
    encoder.all();
    let mut remembered = encoder.structure.in_order();
    let of_elements = &encoder.structure.remembered;
    remembered.extend(encoder.attributes.in_order().into_iter().filter(|name| !of_elements.contains_key(name)));
    (encoder.finished(), remembered)
}

/// The structure, or the attributes.
#[derive(Default)]
struct SectionWriter<'a> {
    numbers: Vec<u8>,
    /// Names spelled out, and values.
    strings: Vec<u8>,
    remembered: FxHashMap<&'a [u8], u32>,
}

impl<'a> SectionWriter<'a> {
    fn with_capacity(numbers: usize) -> Self {
        Self { numbers: Vec::with_capacity(numbers), strings: Vec::with_capacity(4 * numbers), ..Self::default() }
    }

    fn number(&mut self, number: u64) {
        number::write(number, &mut self.numbers);
    }

    fn item(&mut self, item: u32, argument: u32) {
        self.number(u64::from(argument) << ITEM_BITS | u64::from(item));
    }

    /// Writes a name, alone or as the argument of an item.
    fn name(&mut self, item: Option<u32>, name: &'a [u8], names: NameEncoding<'_>) {
        let (reference, in_full) = self.reference(name, names);
        match item {
            Some(item) => self.item(item, reference),
            None => self.number(u64::from(reference)),
        }
        if in_full {
            self.number(name.len() as u64);
            self.strings.extend_from_slice(name);
            self.strings.push(NAME_END);
        }
    }

    /// Returns how to refer to a name, and whether it has to be spelled out.
    fn reference(&mut self, name: &'a [u8], names: NameEncoding<'_>) -> (u32, bool) {
        let existing = match names {
            NameEncoding::InFull => return (SPELLED_OUT, true),
            NameEncoding::Once => 0,
            NameEncoding::By(dictionary) => {
                if let Some(number) = dictionary.number(name) {
                    return (number + FIRST_NAME, false);
                }
                dictionary.len() as u32
            }
        };
        let next = existing + self.remembered.len() as u32;
        match self.remembered.entry(name) {
            Entry::Occupied(entry) => (entry.get() + FIRST_NAME, false),
            Entry::Vacant(entry) => {
                entry.insert(next);
                (REMEMBERED, true)
            }
        }
    }

    fn value(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.strings.extend_from_slice(value);
    }

    /// Returns the names remembered, in their order.
    fn in_order(&self) -> Vec<&'a [u8]> {
        let mut remembered: Vec<(u32, &[u8])> = self.remembered.iter().map(|(&name, &number)| (number, name)).collect();
        remembered.sort_unstable();
        remembered.into_iter().map(|(_, name)| name).collect()
    }
}

struct Encoder<'a> {
    message: Message<'a>,
    names: NameEncoding<'a>,
    structure: SectionWriter<'a>,
    attributes: SectionWriter<'a>,
    texts: Vec<u8>,
    markup: Vec<u8>,
    /// The declarations of the elements still to come.
    declarations: &'a [NamespaceDeclaration],
}

impl<'a> Encoder<'a> {
    fn all(&mut self) {
        let nodes = &self.message.document.nodes;
        let mut open: Vec<NodeId> = Vec::new();
        for id in 1..nodes.len() as NodeId {
            self.close(&mut open, id);
            let node = &nodes[id as usize];
            match node.kind {
                NodeKind::Element => {
                    self.element(id);
                    open.push(node.end);
                }
                NodeKind::Text => self.text(node.span, node.encoded),
                NodeKind::Comment => self.markup(COMMENT, node.span),
                NodeKind::ProcessingInstruction => self.markup(PROCESSING_INSTRUCTION, node.span),
                // Node 0 is the only one of its kind.
                NodeKind::Document => {}
            }
        }
        self.close(&mut open, nodes.len() as NodeId);
    }

    /// Ends the elements that end before the node `next`; `open` holds the ends of those that are open.
    fn close(&mut self, open: &mut Vec<NodeId>, next: NodeId) {
        while open.last().is_some_and(|&end| end <= next) {
            open.pop();
            self.structure.item(END, 0);
        }
    }

    fn element(&mut self, id: NodeId) {
        let name = self.message.qname(id).as_bytes();
        let attributes = self.message.document.attributes_of(id);
        let own = self.declarations.iter().take_while(|declaration| declaration.owner == id).count();
        let (declarations, rest) = self.declarations.split_at(own);
        self.declarations = rest;
        let item = match (declarations, attributes) {
            ([], []) => return self.structure.name(Some(ELEMENT), name, self.names),
            ([], _) => ELEMENT_WITH_ATTRIBUTES,
            _ => DECLARING_ELEMENT,
        };
        self.structure.name(Some(item), name, self.names);
        if item == DECLARING_ELEMENT {
            self.declare(declarations);
        }
        self.attributes.number(attributes.len() as u64);
        for attribute in attributes {
            self.attributes.name(None, attribute.qname.of(self.message.source), self.names);
            self.attributes.value(attribute.value.of(self.message.source));
        }
    }

    fn declare(&mut self, declarations: &[NamespaceDeclaration]) {
        self.structure.number(declarations.len() as u64);
        for declaration in declarations {
            let name: &[u8] = if declaration.prefix.start == declaration.prefix.end {
                b"xmlns"
            } else {
                // The name as written is the prefix and what stands before it.
                let start = declaration.prefix.start - b"xmlns:".len() as u32;
                ByteRange { start, end: declaration.prefix.end }.of(self.message.source)
            };
            self.structure.name(None, name, self.names);
            self.structure.value(declaration.uri.of(self.message.source));
        }
    }

    fn text(&mut self, span: ByteRange, encoded: bool) {
        let raw = span.of(self.message.source);
        let raw = match encoded && memchr::memchr(b'<', raw).is_some() {
            true => Cow::Owned(without_cdata(raw)),
            false => Cow::Borrowed(raw),
        };
        self.structure.item(TEXT, raw.len() as u32);
        self.texts.extend_from_slice(&raw);
    }

    fn markup(&mut self, item: u32, span: ByteRange) {
        self.structure.item(item, span.end - span.start);
        self.markup.extend_from_slice(span.of(self.message.source));
    }

    fn finished(self) -> Vec<u8> {
        let Self { structure, attributes, texts, markup, .. } = self;
        let parts = [structure.numbers, attributes.numbers, structure.strings, attributes.strings, texts, markup];
        let bytes: usize = parts.iter().map(Vec::len).sum();
        let mut stream = Vec::with_capacity(bytes + HEADER_BYTES_MAX);
        stream.extend_from_slice(&MAGIC);
        match self.names {
            NameEncoding::By(dictionary) => {
                stream.push(WITH_DICTIONARY);
                stream.extend_from_slice(&dictionary.id().to_le_bytes());
            }
            NameEncoding::InFull | NameEncoding::Once => stream.push(0),
        }
        // The last part goes on to the end.
        parts[..parts.len() - 1].iter().for_each(|part| number::write(part.len() as u64, &mut stream));
        parts.iter().for_each(|part| stream.extend_from_slice(part));
        stream
    }
}

/// Returns a raw text run with its CDATA sections written as text.
fn without_cdata(raw: &[u8]) -> Vec<u8> {
    const START: &[u8] = b"<![CDATA[";
    const END: &[u8] = b"]]>";
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(start) = memchr::memmem::find(rest, START) {
        out.extend_from_slice(&rest[..start]);
        let inside = &rest[start + START.len()..];
        let end = memchr::memmem::find(inside, END).unwrap_or(inside.len());
        for &byte in &inside[..end] {
            match byte {
                b'&' => out.extend_from_slice(b"&amp;"),
                b'<' => out.extend_from_slice(b"&lt;"),
                b'>' => out.extend_from_slice(b"&gt;"),
                _ => out.push(byte),
            }
        }
        rest = inside.get(end + END.len()..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}
