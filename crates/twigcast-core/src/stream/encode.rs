//! A scanned message to its element stream.

use std::borrow::Cow;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::dictionary::Dictionary;
use super::{
    COMMENT, ELEMENT, ELEMENT_WITH_ATTRIBUTES, END, FIRST_NAME, ITEM_BITS, MAGIC, NAME_END, PROCESSING_INSTRUCTION,
    REMEMBERED, SPELLED_OUT, TEXT, WITH_DICTIONARY, number,
};
use crate::document::{Attribute, Message, NamespaceDeclaration, NodeId, NodeKind, Span};

/// Magic bytes, flags, a dictionary's id, three lengths.
const HEADER_BYTES_MAX: usize = 3 + 1 + 8 + 3 * 5;

/// How names are written.
#[derive(Clone, Copy, Debug)]
pub enum Names<'a> {
    /// Each time in full: the element stream as published.
    InFull,
    /// Once in full in each message, then by number.
    Once,
    /// By the numbers of a dictionary; those it does not have, once in full.
    By(&'a Dictionary),
}

/// The stream of a message, which was scanned wanting everything.
pub fn encode(message: Message<'_>, names: Names<'_>) -> Vec<u8> {
    encode_naming(message, names).0
}

/// The stream of a message, and the names that it spells out to be remembered, in their order.
pub fn encode_naming<'a>(message: Message<'a>, names: Names<'a>) -> (Vec<u8>, Vec<&'a [u8]>) {
    let mut encoder = Encoder {
        message,
        names,
        remembered: FxHashMap::default(),
        structure: Vec::with_capacity(4 * message.document.nodes.len()),
        values: Vec::with_capacity(message.source.len() / 2),
        texts: Vec::with_capacity(message.source.len() / 2),
        markup: Vec::new(),
        declarations: &message.document.declarations,
    };
    encoder.all();
    let mut remembered: Vec<(u32, &[u8])> = encoder.remembered.iter().map(|(&name, &number)| (number, name)).collect();
    remembered.sort_unstable();
    (encoder.finished(), remembered.into_iter().map(|(_, name)| name).collect())
}

struct Encoder<'a> {
    message: Message<'a>,
    names: Names<'a>,
    remembered: FxHashMap<&'a [u8], u32>,
    structure: Vec<u8>,
    values: Vec<u8>,
    texts: Vec<u8>,
    markup: Vec<u8>,
    /// Those of the elements still to come.
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
            self.item(END, 0);
        }
    }

    fn element(&mut self, id: NodeId) {
        let name = self.message.qname(id).as_bytes();
        let attributes = self.message.document.attributes_of(id);
        let own = self.declarations.iter().take_while(|declaration| declaration.owner == id).count();
        let (declarations, rest) = self.declarations.split_at(own);
        self.declarations = rest;
        if attributes.is_empty() && own == 0 {
            return self.name(Some(ELEMENT), name);
        }
        self.name(Some(ELEMENT_WITH_ATTRIBUTES), name);
        number::write((attributes.len() + own) as u64, &mut self.structure);
        self.attributes(attributes, declarations);
    }

    /// Both kinds in the order in which they were written.
    fn attributes(&mut self, mut attributes: &'a [Attribute], mut declarations: &'a [NamespaceDeclaration]) {
        loop {
            match (attributes.split_first(), declarations.split_first()) {
                (Some((first, rest)), other) if other.is_none_or(|(d, _)| first.value.start < d.uri.start) => {
                    self.attribute(first.qname.of(self.message.source), first.value);
                    attributes = rest;
                }
                (_, Some((first, rest))) => {
                    let prefix = first.prefix.of(self.message.source);
                    if prefix.is_empty() {
                        self.attribute(b"xmlns", first.uri);
                    } else {
                        // The name as written is the prefix and what stands before it.
                        let name = Span { start: first.prefix.start - b"xmlns:".len() as u32, end: first.prefix.end };
                        self.attribute(name.of(self.message.source), first.uri);
                    }
                    declarations = rest;
                }
                _ => return,
            }
        }
    }

    fn attribute(&mut self, name: &'a [u8], value: Span) {
        self.name(None, name);
        let value = value.of(self.message.source);
        number::write(value.len() as u64, &mut self.structure);
        self.values.extend_from_slice(value);
    }

    fn text(&mut self, span: Span, encoded: bool) {
        let raw = span.of(self.message.source);
        let raw = match encoded && memchr::memchr(b'<', raw).is_some() {
            true => Cow::Owned(without_cdata(raw)),
            false => Cow::Borrowed(raw),
        };
        self.item(TEXT, raw.len() as u32);
        self.texts.extend_from_slice(&raw);
    }

    fn markup(&mut self, item: u32, span: Span) {
        self.item(item, span.end - span.start);
        self.markup.extend_from_slice(span.of(self.message.source));
    }

    fn item(&mut self, item: u32, argument: u32) {
        number::write(u64::from(argument) << ITEM_BITS | u64::from(item), &mut self.structure);
    }

    /// A name, alone or as the argument of an item.
    fn name(&mut self, item: Option<u32>, name: &'a [u8]) {
        let (reference, in_full) = self.reference(name);
        match item {
            Some(item) => self.item(item, reference),
            None => number::write(u64::from(reference), &mut self.structure),
        }
        if in_full {
            number::write(name.len() as u64, &mut self.structure);
            self.values.extend_from_slice(name);
            self.values.push(NAME_END);
        }
    }

    /// How to refer to a name, and whether it has to be spelled out.
    fn reference(&mut self, name: &'a [u8]) -> (u32, bool) {
        let known = match self.names {
            Names::InFull => return (SPELLED_OUT, true),
            Names::Once => 0,
            Names::By(dictionary) => {
                if let Some(number) = dictionary.number(name) {
                    return (number + FIRST_NAME, false);
                }
                dictionary.len() as u32
            }
        };
        let next = known + self.remembered.len() as u32;
        match self.remembered.entry(name) {
            Entry::Occupied(entry) => (entry.get() + FIRST_NAME, false),
            Entry::Vacant(entry) => {
                entry.insert(next);
                (REMEMBERED, true)
            }
        }
    }

    fn finished(self) -> Vec<u8> {
        let strings = self.values.len() + self.texts.len() + self.markup.len();
        let mut stream = Vec::with_capacity(self.structure.len() + strings + HEADER_BYTES_MAX);
        stream.extend_from_slice(&MAGIC);
        match self.names {
            Names::By(dictionary) => {
                stream.push(WITH_DICTIONARY);
                stream.extend_from_slice(&dictionary.id().to_le_bytes());
            }
            Names::InFull | Names::Once => stream.push(0),
        }
        number::write(self.structure.len() as u64, &mut stream);
        number::write(self.values.len() as u64, &mut stream);
        number::write(self.texts.len() as u64, &mut stream);
        for part in [self.structure, self.values, self.texts, self.markup] {
            stream.extend_from_slice(&part);
        }
        stream
    }
}

/// A raw text run with its CDATA sections written as text.
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
