//! Nodes of all seven kinds, as small values that can be put in document order.

use crate::document::{AttributeId, Document, NodeId};

use super::Evaluator;

/// The index of the namespace node `xml`, which no declaration stands for.
pub(super) const XML_DECLARATION: u32 = u32::MAX >> 1;

/// A node of the XPath data model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeRef {
    /// The document node, an element, a text, a comment or a processing instruction.
    Node(NodeId),
    /// An attribute.
    Attribute(AttributeId),
    /// A namespace node: each element has its own for each namespace in scope.
    Namespace {
        /// The element.
        owner: NodeId,
        /// Index in [`Document::declarations`] of the declaration that it comes from; one reserved value for `xml`.
        declaration: u32,
    },
}

impl NodeRef {
    /// Returns the element that an attribute or namespace node belongs to; the node itself otherwise.
    #[inline]
    pub fn tree_node(self, document: &Document) -> NodeId {
        match self {
            Self::Node(node) => node,
            Self::Attribute(attribute) => document.attributes[attribute as usize].owner,
            Self::Namespace { owner, .. } => owner,
        }
    }

    /// Returns a sort key for document order: an element, its namespace nodes, its attributes, its children.
    ///
    /// A message has less than 2^32 bytes and a node or attribute takes at least two, so 31 bits hold either index.
    #[inline]
    pub fn order(self, document: &Document) -> u64 {
        let (owner, kind, index) = match self {
            Self::Node(node) => (node, 0, 0),
            Self::Namespace { owner, declaration } => (owner, 1, declaration),
            Self::Attribute(attribute) => (document.attributes[attribute as usize].owner, 2, attribute),
        };
        (u64::from(owner) << 33) | (kind << 31) | u64::from(index)
    }
}

impl Evaluator<'_> {
    /// Puts nodes in document order and drops duplicates.
    pub(super) fn sort_unique(&self, nodes: &mut Vec<NodeRef>) {
        let document = self.message.document;
        if nodes.is_sorted_by(|a, b| a.order(document) < b.order(document)) {
            return;
        }
        nodes.sort_unstable_by_key(|node| node.order(document));
        nodes.dedup();
    }
}
