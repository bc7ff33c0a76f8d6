//! An element stream to a document. Nothing in a stream is trusted: what comes out could have been scanned from a text.

use super::dictionary::Dictionary;
use super::{
    COMMENT, ELEMENT, ELEMENT_WITH_ATTRIBUTES, END, FIRST_NAME, ITEM_BITS, MAGIC, NAME_END, PROCESSING_INSTRUCTION,
    REMEMBERED, SPELLED_OUT, TEXT, WITH_DICTIONARY, number,
};
use crate::document::{Attribute, Document, Node, NodeId, NodeKind, Span};
use crate::error::{MessageError, MessageErrorKind};
use crate::limits::Limits;
use crate::scan::bytes::{byte, value_stop};
use crate::scan::characters::{self, Checked};
use crate::scan::fault::{Fault, Step};
use crate::scan::names::{QName, qname};
use crate::scan::tags::Open;
use crate::scan::{Pass, Scanner, Want, leaf, plain_text_end, references, span};
use crate::vocabulary::{LocalId, Name, NamespaceId, Vocabulary};

/// A stream's parts.
struct Parts<'a> {
    with_dictionary: bool,
    structure: &'a [u8],
    /// Values, then texts, then markup.
    strings: &'a [u8],
    /// Where texts and markup begin in `strings`.
    starts: [usize; 2],
}

/// What a stream is read with.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// Names by number.
    pub dictionary: &'a Dictionary,
    /// Names that queries mention.
    pub vocabulary: &'a Vocabulary,
    /// Tells the vocabulary from others.
    pub identity: u64,
    /// As for messages that come as text.
    pub limits: &'a Limits,
    /// What to record.
    pub want: Want,
}

/// Reads streams one after the other, reusing its memory.
#[derive(Debug, Default)]
pub struct Decoder {
    scanner: Scanner,
    /// What the spans of the last message index into: the names of `dictionary`, then the message's strings.
    source: String,
    /// The names of the dictionary that `source` begins with, as `known` says; then those remembered.
    names: Vec<Written>,
    /// Of which dictionary, vocabulary and state of the vocabulary.
    known: Option<(u64, u64, usize)>,
    /// By name of the dictionary: the last element that has an attribute of this name.
    owners: Vec<NodeId>,
}

impl Decoder {
    /// A decoder without memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes that the spans of the document last decoded index into.
    pub fn source(&self) -> &[u8] {
        self.source.as_bytes()
    }

    /// Reads `stream` into `document`, whose spans index into [`Self::source`]. A stream that was written without a
    /// dictionary is read without one.
    ///
    /// # Errors
    /// The bytes are no stream of this version or name another dictionary; what they say is no well-formed message, or
    /// one over a limit. Then `document` holds nothing of use.
    pub fn decode(&mut self, stream: &[u8], reading: Reading<'_>, document: &mut Document) -> Result<(), MessageError> {
        let parts = parts(stream, reading.dictionary)?;
        let none = Dictionary::default();
        self.begin(Reading { dictionary: if parts.with_dictionary { reading.dictionary } else { &none }, ..reading });
        let skipped = self.source.len();
        let bytes_max = reading.limits.message_bytes_max.min(u32::MAX as usize - 1);
        if stream.len().max(skipped + parts.strings.len()) > bytes_max {
            return Err(Fault::limit(0, "message_bytes_max", bytes_max, "more bytes").into_error_of_stream(0));
        }
        let strings = characters::check(parts.strings).map_err(|fault| fault.into_error_of_stream(0))?;
        if !parts.starts.iter().all(|&start| strings.text.is_char_boundary(start)) {
            return Err(malformed("element stream: one of its parts ends within a character".into()));
        }
        self.source.push_str(strings.text);
        let checked = Checked { text: &self.source, ..strings };
        let Reading { vocabulary, limits, want, .. } = reading;
        let [texts_start, markup_start] = parts.starts;
        let (values, texts) = (&parts.strings[..texts_start], &parts.strings[texts_start..markup_start]);
        let [texts_start, markup_start] = [skipped + texts_start, skipped + markup_start];
        let mut reader = Reader {
            pass: self.scanner.pass(checked, vocabulary, limits, want, document),
            names: &mut self.names,
            spelled_out: None,
            structure: parts.structure,
            at: 0,
            values: Strings { next: skipped, end: texts_start, plain: is_plain_values(values) },
            texts: Strings { next: texts_start, end: markup_start, plain: is_plain_texts(texts) },
            markup: Strings { next: markup_start, end: self.source.len(), plain: false },
            owners: &mut self.owners,
        };
        match reader.all() {
            Ok(()) => Ok(()),
            Err(Wrong::Strings(fault)) => Err(fault.into_error_of_stream(skipped)),
            Err(Wrong::Structure(reason)) => {
                Err(malformed(format!("element stream: {reason} (byte {} of its structure)", reader.at)))
            }
        }
    }

    /// Leaves the names of the dictionary alone in `source`.
    fn begin(&mut self, reading: Reading<'_>) {
        let Reading { dictionary, vocabulary, identity, .. } = reading;
        self.owners.clear();
        self.owners.resize(dictionary.len(), 0);
        let state = (dictionary.id(), identity, vocabulary.local_count());
        if self.known == Some(state) {
            self.source.truncate(dictionary.prelude().len());
            self.names.truncate(dictionary.len());
            return;
        }
        self.source.clear();
        self.source.push_str(dictionary.prelude());
        self.names.clear();
        let source = self.source.as_bytes();
        self.names.extend(dictionary.names().iter().map(|&name| Written::new(source, name, vocabulary)));
        self.known = Some(state);
    }
}

fn malformed(reason: String) -> MessageError {
    MessageError { kind: MessageErrorKind::Malformed, reason, line: 1, column: 1 }
}

fn parts<'a>(stream: &'a [u8], dictionary: &Dictionary) -> Result<Parts<'a>, MessageError> {
    let refused = |reason: String| Err(malformed(format!("element stream: {reason}")));
    let Some(([m0, m1, version], rest)) = stream.split_first_chunk::<3>() else {
        return refused("it ends before its header does".into());
    };
    if [*m0, *m1] != MAGIC[..2] {
        return refused("these bytes are no element stream".into());
    }
    if *version != MAGIC[2] {
        return refused(format!("it is of version {version}, this is version {}", MAGIC[2]));
    }
    let Some((&flags, mut rest)) = rest.split_first() else {
        return refused("it ends before its header does".into());
    };
    if flags & !WITH_DICTIONARY != 0 {
        return refused(format!("its flags 0x{flags:02X} are unknown"));
    }
    let with_dictionary = flags == WITH_DICTIONARY;
    if with_dictionary {
        let Some((bytes, behind)) = rest.split_first_chunk::<8>() else {
            return refused("it ends before its header does".into());
        };
        let id = u64::from_le_bytes(*bytes);
        if id != dictionary.id() {
            return refused(format!("it was written with the dictionary {id:016x}, not with {:016x}", dictionary.id()));
        }
        rest = behind;
    }
    let mut at = 0;
    let mut length = || number::read(rest, &mut at).and_then(|length| usize::try_from(length).ok());
    let (Some(structure), Some(values), Some(texts)) = (length(), length(), length()) else {
        return refused("it ends before its header does".into());
    };
    // Each length has at most 35 bits, so this cannot overflow.
    let starts = [values, values + texts];
    match rest[at..].split_at_checked(structure) {
        Some((structure, strings)) if starts[1] <= strings.len() => {
            Ok(Parts { with_dictionary, structure, strings, starts })
        }
        _ => refused("it ends before its parts do".into()),
    }
}

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

/// Whether no value needs a look: no `<`, no reference, no white space to normalise, not both kinds of quotes.
fn is_plain_values(values: &[u8]) -> bool {
    let (mut special, mut double, mut single) = (0u8, 0u8, 0u8);
    for &b in values {
        special |= u8::from(b == b'<') | u8::from(b == b'&') | u8::from(b < 0x20);
        double |= u8::from(b == b'"');
        single |= u8::from(b == b'\'');
    }
    special | (double & single) == 0
}

/// Whether no text needs a look: no `<`, no reference, no end of a CDATA section, no carriage return.
fn is_plain_texts(texts: &[u8]) -> bool {
    let special = |b: u8| u8::from(b == b'<') | u8::from(b == b'&') | u8::from(b == b']') | u8::from(b == b'\r');
    texts.iter().fold(0, |seen, &b| seen | special(b)) == 0
}

/// A name in the source, looked up.
#[derive(Clone, Copy, Debug)]
struct Written {
    start: u32,
    end: u32,
    /// As in [`QName`].
    colon: u32,
    local: LocalId,
    /// `xmlns`, or `xmlns:` and more.
    declares: bool,
}

impl Written {
    fn new(source: &[u8], (start, name): (usize, QName), vocabulary: &Vocabulary) -> Self {
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

struct Reader<'a> {
    pass: Pass<'a>,
    names: &'a mut Vec<Written>,
    /// The name spelled out last, if it was not remembered.
    spelled_out: Option<Written>,
    structure: &'a [u8],
    /// Where the next number stands.
    at: usize,
    values: Strings,
    texts: Strings,
    markup: Strings,
    owners: &'a mut [NodeId],
}

/// Strings in the source, one behind the other.
struct Strings {
    /// Where the next one starts.
    next: usize,
    end: usize,
    /// None of them needs a look.
    plain: bool,
}

impl Strings {
    /// The next string, of that many bytes.
    #[inline(always)]
    fn take(&mut self, length: u64, checked: Checked<'_>) -> Read<Span> {
        let start = self.next;
        let left = self.end - start;
        if length > left as u64 {
            return wrong(format!("a string of {length} bytes is named where {left} are left"));
        }
        self.next = start + length as usize;
        if !checked.ascii && !checked.text.is_char_boundary(self.next) {
            return wrong("a string ends within a character");
        }
        Ok(span(start, self.next))
    }
}

impl Reader<'_> {
    fn all(&mut self) -> Read<()> {
        self.pass.document_node(self.values.next);
        let mut seen_root = false;
        let mut after_text = false;
        while self.at < self.structure.len() {
            let number = self.number()?;
            let (item, argument) = (number as u32 & ((1 << ITEM_BITS) - 1), (number >> ITEM_BITS) as u32);
            if self.pass.open.is_empty() && seen_root && matches!(item, ELEMENT | ELEMENT_WITH_ATTRIBUTES) {
                return wrong("a second root element begins");
            }
            match item {
                END => self.end(argument)?,
                ELEMENT => self.element(argument, false)?,
                ELEMENT_WITH_ATTRIBUTES => self.element(argument, true)?,
                TEXT if after_text => return wrong("a text follows a text"),
                TEXT => self.text(argument)?,
                COMMENT | PROCESSING_INSTRUCTION => self.markup(item, argument)?,
                _ => return wrong(format!("there is no item {item}")),
            }
            seen_root |= item == ELEMENT || item == ELEMENT_WITH_ATTRIBUTES;
            after_text = item == TEXT;
        }
        if !seen_root {
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
        let read = qname(self.pass.checked, name.start as usize, "element or attribute")?;
        if read.end != name.end as usize || behind.of(self.pass.source) != [NAME_END] {
            return wrong("what should be a name is none");
        }
        let written = Written::new(self.pass.source, (name.start as usize, read), self.pass.vocabulary);
        if reference == REMEMBERED {
            self.names.push(written);
            return Ok(&self.names[self.names.len() - 1]);
        }
        Ok(self.spelled_out.insert(written))
    }

    fn element(&mut self, reference: u32, with_attributes: bool) -> Read<()> {
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
        pass.document.nodes.push(Node {
            name: Name { namespace, local: name.local },
            end: node + 1,
            // The name stands one byte behind the start, as in a tag; nothing else of the span is of use.
            content_start: name.end + 1,
            attributes_start,
            attributes_end: pass.document.attributes.len() as u32,
            ..leaf(
                NodeKind::Element,
                name.start as usize - 1,
                name.end as usize,
                pass.open.last().map_or(0, |open| open.node),
            )
        });
        pass.open.push(Open { node, name: name.span(), bindings: outer.0, default: outer.1 });
        Ok(())
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
            let value = self.values.take(length, self.pass.checked)?;
            let encoded = !self.values.plain && self.value(value)?;
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
            return pass.record(owner, name.start as usize, name.qname(), value, encoded);
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

    fn end(&mut self, argument: u32) -> Read<()> {
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
    fn text(&mut self, length: u32) -> Read<()> {
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
