//! The state of one pass over one message.

use std::ops::Range;

use crate::document::{ByteRange, Document, NO_NODE, Node, NodeId, NodeKind};
use crate::limits::Limits;
use crate::scan::characters::LegalText;
use crate::scan::dtd::{Declarations, TagRanges};
use crate::scan::namespaces::PrefixBindings;
use crate::util::packed_name::PackedName;
use crate::vocabulary::{LocalId, Name, NamespaceId, Vocabulary};

/// The parts of a message that are recorded. Everything is checked regardless, so the same messages are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOptions {
    /// Attributes. Namespace declarations are always recorded.
    pub attributes: bool,
    /// Text, comments and processing instructions.
    pub text: bool,
}

impl ScanOptions {
    /// Everything.
    pub const ALL: Self = Self { attributes: true, text: true };
}

/// An element whose end tag is still to come.
#[derive(Clone, Copy, Debug)]
pub struct OpenElement {
    pub node: NodeId,
    /// The name as written.
    pub name: ByteRange,
    /// Its key, where end tags are compared with it.
    pub key: PackedName,
    /// Bindings outside it.
    pub bindings: u32,
    /// Default namespace outside it.
    pub default: NamespaceId,
}

/// An attribute whose prefix waits for the end of the tag, since its declaration may follow.
#[derive(Clone, Copy, Debug)]
pub struct Prefixed {
    pub prefix: ByteRange,
    pub local: ByteRange,
    /// Index in the document, or `u32::MAX` if it is not recorded.
    pub attribute: u32,
}

/// One message on its way.
pub(crate) struct ScanPass<'a> {
    pub(crate) source: &'a [u8],
    pub(crate) checked: LegalText<'a>,
    pub(crate) vocabulary: &'a Vocabulary,
    pub(crate) limits: &'a Limits,
    pub(crate) options: ScanOptions,
    pub(crate) document: &'a mut Document,
    pub(crate) bindings: &'a mut PrefixBindings,
    pub(crate) open: &'a mut Vec<OpenElement>,
    /// Names of the attributes of the current tag, as written.
    pub(crate) names: &'a mut Vec<ByteRange>,
    /// Attributes of the current tag whose prefixes are not resolved yet.
    pub(crate) prefixed: &'a mut Vec<Prefixed>,
    pub(super) standalone: bool,
    /// The place of the document type declaration.
    pub(super) doctype: Option<Range<usize>>,
    /// Its declarations, if they can change the message.
    pub(super) declarations: Option<Box<Declarations>>,
    /// Entities are declared, or may be in something that is not read.
    pub(super) declares_entities: bool,
    /// Attributes are declared that may not be as they are written.
    pub(super) declares_attributes: bool,
    pub(super) tag: TagRanges,
    /// The run of character data and CDATA sections that ends where the scanner stands.
    pub(super) text_run: Option<TextRun>,
    /// The beginning of what has to be converted: a start tag, or text behind markup. All before it has been read.
    pub(super) stopped_at: usize,
}

/// A run of character data and CDATA sections, which become one text node.
#[derive(Clone, Copy)]
pub(crate) struct TextRun {
    pub(super) start: usize,
    pub(super) encoded: bool,
    /// The run holds at least one character: `<![CDATA[]]>` alone is no text.
    pub(super) filled: bool,
}

impl ScanPass<'_> {
    /// Records node 0; `content_start` is where what may hold nodes begins.
    pub(crate) fn document_node(&mut self, content_start: usize) {
        let node = leaf(NodeKind::Document, 0, self.source.len(), NO_NODE);
        self.document.nodes.push(Node { content_start: content_start as u32, ..node });
    }

    pub(super) fn push_markup(&mut self, kind: NodeKind, start: usize, end: usize) {
        if self.options.text {
            let parent = self.open.last().map_or(0, |open| open.node);
            self.push_leaf(leaf(kind, start, end, parent));
        }
    }

    pub(crate) fn push_leaf(&mut self, node: Node) {
        let attributes = self.document.attributes.len() as u32;
        let end = self.document.nodes.len() as u32 + 1;
        self.document.nodes.push(Node { end, attributes_start: attributes, attributes_end: attributes, ..node });
    }
}

/// The id that stands for names nobody asks for.
pub const NAMELESS: Name = Name { namespace: NamespaceId::NONE, local: LocalId::UNKNOWN };

pub(crate) fn leaf(kind: NodeKind, start: usize, end: usize, parent: u32) -> Node {
    Node {
        kind,
        encoded: false,
        name: NAMELESS,
        parent,
        end: 1,
        span: span(start, end),
        content_start: end as u32,
        attributes_start: 0,
        attributes_end: 0,
    }
}

#[inline(always)]
pub(crate) fn span(start: usize, end: usize) -> ByteRange {
    ByteRange { start: start as u32, end: end as u32 }
}
