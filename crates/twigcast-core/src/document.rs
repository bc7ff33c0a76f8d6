//! One scanned message as a flat tree: nodes in document order, every text a slice of the message.
//!
//! Node 0 is the document node. A node's descendants are the nodes after it up to (not including) `end`, so a subtree is
//! a range, a walk needs no stack and a message of any depth cannot exhaust one. Nothing is copied out of the message:
//! text and attribute values are byte ranges, decoded (references, CDATA, line ends) only when somebody asks.
//!
//! ```
//! use twigcast_core::document::{Document, Message};
//! use twigcast_core::limits::Limits;
//! use twigcast_core::scan::{ScanOptions, Scanner};
//! use twigcast_core::vocabulary::Vocabulary;
//!
//! let (source, mut document) = (b"<a><b>1</b><b>2</b></a>", Document::default());
//! let vocabulary = Vocabulary::new();
//! Scanner::new().scan(source, &vocabulary, &Limits::default(), ScanOptions::ALL, &mut document).expect("well-formed");
//! let message = Message { source, document: &document };
//! let values: Vec<_> = document.children(1).map(|node| message.string_value(node)).collect();
//! assert_eq!(values, ["1", "2"]);
//! // All below the root element is the range from it to its end.
//! assert_eq!(document.nodes[1].end as usize, document.nodes.len());
//! ```

use std::borrow::Cow;

use crate::ids::AttributeId;
use crate::vocabulary::{Name, NamespaceId};

/// Index of a node in [`Document::nodes`], in document order.
///
/// It is a plain number, unlike most ids: subtrees are ranges of these, walks add one, and `end` compares with the length of
/// the table.
pub type NodeId = u32;

/// "No node": parent of the document node, end of a list.
pub const NO_NODE: NodeId = u32::MAX;

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NodeKind {
    /// Node 0.
    Document,
    /// An element.
    Element,
    /// A maximal run of character data and CDATA sections.
    Text,
    /// A comment.
    Comment,
    /// A processing instruction.
    ProcessingInstruction,
}

/// A range of bytes of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ByteRange {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl ByteRange {
    /// Returns the bytes of `source` that the span covers.
    #[inline]
    pub fn of(self, source: &[u8]) -> &[u8] {
        &source[self.start as usize..self.end as usize]
    }
}

/// One node.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// The kind.
    pub kind: NodeKind,
    /// Text: it holds references, CDATA markup or carriage returns, so its value is not the slice as it stands.
    pub encoded: bool,
    /// Element: expanded name. Meaningless for other kinds.
    pub name: Name,
    /// The parent, [`NO_NODE`] for the document node.
    pub parent: NodeId,
    /// One past the last descendant.
    pub end: NodeId,
    /// Element: from `<` of the start tag to `>` of the end tag. Text: the raw run. Comment, processing instruction:
    /// the whole markup.
    pub span: ByteRange,
    /// Element: one past the `>` of the start tag (equals `span.end` when the tag is empty-element).
    pub content_start: u32,
    /// Element: index of the first entry in [`Document::attributes`]; see [`Document::attribute_ids`].
    pub attributes_start: u32,
    /// Element: one past the last attribute.
    pub attributes_end: u32,
}

/// One attribute (namespace declarations are not attributes; see [`NamespaceDeclaration`]).
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// Expanded name.
    pub name: Name,
    /// The value holds references or white space to normalise, so it is not the slice as it stands.
    pub encoded: bool,
    /// The element it belongs to.
    pub owner: NodeId,
    /// The name as written.
    pub qname: ByteRange,
    /// Between the quotes.
    pub value: ByteRange,
}

/// One `xmlns` or `xmlns:p` in a start tag.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceDeclaration {
    /// The element it stands on.
    pub owner: NodeId,
    /// The prefix; empty for the default namespace.
    pub prefix: ByteRange,
    /// The URI between the quotes (may hold references).
    pub uri: ByteRange,
    /// The id of the URI.
    pub namespace: NamespaceId,
}

/// A scanned message. The buffers are reused from message to message (see [`Document::clear`]).
#[derive(Debug, Default)]
pub struct Document {
    /// All nodes in document order; entry 0 is the document node.
    pub nodes: Vec<Node>,
    /// All attributes in document order, grouped by element.
    pub attributes: Vec<Attribute>,
    /// All namespace declarations in document order.
    pub declarations: Vec<NamespaceDeclaration>,
    /// The attributes that the message declares as IDs.
    pub id_attributes: Vec<IdAttribute>,
    /// The time at which the message was published, in the ticks of [`crate::util::temporal`]; `None` where no query asks.
    pub published: Option<i64>,
}

/// The name of an element and that of its attribute, as written.
pub type IdAttribute = (Box<[u8]>, Box<[u8]>);

/// What a message may cost on top of the limits on visits, for each of its nodes and for each 64 bytes: so a query that takes
/// time in proportion to the message is decided whatever the message's size.
const VISITS_PER_NODE: u64 = 128;
const VISITS_PER_64_BYTES: u64 = 32;

/// A document together with the bytes it was scanned from: what an evaluator works on.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The message, UTF-8, without byte-order mark.
    pub source: &'a [u8],
    /// Its nodes.
    pub document: &'a Document,
}

impl Document {
    /// Removes the message but keeps the memory.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.attributes.clear();
        self.declarations.clear();
        self.id_attributes.clear();
        self.published = None;
    }

    /// Returns the first child, [`NO_NODE`] if there is none.
    #[inline]
    pub fn first_child(&self, node: NodeId) -> NodeId {
        if self.nodes[node as usize].end > node + 1 { node + 1 } else { NO_NODE }
    }

    /// Returns the next sibling, [`NO_NODE`] if there is none.
    #[inline]
    pub fn next_sibling(&self, node: NodeId) -> NodeId {
        let this = &self.nodes[node as usize];
        if this.parent != NO_NODE && this.end < self.nodes[this.parent as usize].end { this.end } else { NO_NODE }
    }

    /// Returns the children of a node, in document order.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let mut next = self.first_child(node);
        std::iter::from_fn(move || {
            if next == NO_NODE {
                return None;
            }
            let this = next;
            next = self.next_sibling(this);
            Some(this)
        })
    }

    /// Returns the ids of the attributes of an element, in document order.
    #[inline]
    pub fn attribute_ids(&self, element: NodeId) -> impl Iterator<Item = AttributeId> + use<> {
        let node = &self.nodes[element as usize];
        (node.attributes_start..node.attributes_end).map(AttributeId::from_u32)
    }

    /// Returns the attributes of an element, in document order.
    #[inline]
    pub fn attributes_of(&self, element: NodeId) -> &[Attribute] {
        let node = &self.nodes[element as usize];
        &self.attributes[node.attributes_start as usize..node.attributes_end as usize]
    }
}

impl<'a> Message<'a> {
    /// Returns what the message may cost on top of the limits on visits, because of its size.
    pub fn visits_of_size(self) -> u64 {
        VISITS_PER_NODE * self.document.nodes.len() as u64 + VISITS_PER_64_BYTES * (self.source.len() as u64 / 64)
    }

    /// Returns the value of a text node.
    pub fn text(&self, node: NodeId) -> Cow<'a, str> {
        let node = &self.document.nodes[node as usize];
        let raw = utf8(node.span.of(self.source));
        if node.encoded { Cow::Owned(crate::scan::decode::text(raw)) } else { Cow::Borrowed(raw) }
    }

    /// Returns the normalised value of an attribute.
    pub fn attribute_value(&self, attribute: &Attribute) -> Cow<'a, str> {
        let raw = utf8(attribute.value.of(self.source));
        if attribute.encoded { Cow::Owned(crate::scan::decode::attribute(raw)) } else { Cow::Borrowed(raw) }
    }

    /// Returns the string-value of an element or the document node: its text descendants, one after the other.
    pub fn string_value(&self, node: NodeId) -> Cow<'a, str> {
        let mut value = Cow::Borrowed("");
        for descendant in node..self.document.nodes[node as usize].end {
            if self.document.nodes[descendant as usize].kind == NodeKind::Text {
                let text = self.text(descendant);
                if value.is_empty() { value = text } else { value.to_mut().push_str(&text) }
            }
        }
        value
    }

    /// Returns the name of an element as written, prefix included.
    pub fn qname(&self, element: NodeId) -> &'a str {
        let start = self.document.nodes[element as usize].span.start as usize + 1;
        let rest = &self.source[start..];
        let length =
            rest.iter().position(|&b| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b'/' | b'>')).unwrap_or(rest.len());
        utf8(&rest[..length])
    }
}

/// Returns bytes as text, which the scanner has accepted as such.
#[inline]
fn utf8(bytes: &[u8]) -> &str {
    // The scanner validated the whole message; a span never cuts a character. Validating again is cheap and keeps this
    // crate free of `unsafe` outside the scanner.
    std::str::from_utf8(bytes).expect("the scanner accepts only UTF-8 and cuts at markup")
}
