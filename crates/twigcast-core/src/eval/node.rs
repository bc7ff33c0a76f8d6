//! Nodes of all seven kinds, as small values that can be put in document order.

use crate::document::{Document, NO_NODE, NodeId};
use crate::ids::AttributeId;

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
    /// A value in place of a node: a text or a number that the evaluator keeps, by its index there. It comes after all nodes
    /// of the message, and no axis leads away from it.
    Value(u32),
}

impl NodeRef {
    /// Returns the element that an attribute or namespace node belongs to; the node itself otherwise; `NO_NODE` for a value.
    #[inline]
    pub fn tree_node(self, document: &Document) -> NodeId {
        match self {
            Self::Node(node) => node,
            Self::Attribute(attribute) => document.attributes[attribute.index()].owner,
            Self::Namespace { owner, .. } => owner,
            Self::Value(_) => NO_NODE,
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
            Self::Attribute(attribute) => (document.attributes[attribute.index()].owner, 2, attribute.as_u32()),
            // The largest owner is less than 2^31.
            Self::Value(index) => return u64::MAX - u64::from(u32::MAX - index),
        };
        (u64::from(owner) << 33) | (kind << 31) | u64::from(index)
    }
}
