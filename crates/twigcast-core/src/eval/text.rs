//! String-values and names of nodes (Recommendation, section 5).
//!
//! The vocabulary knows only what queries mention, so names come from the message as written.

use std::borrow::Cow;

use crate::document::{Attribute, NodeId, NodeKind, Span};
use crate::vocabulary::{NamespaceId, XML_NAMESPACE};

use super::node::XML_DECLARATION;
use super::{EvalError, Evaluator, NodeRef, number};

/// Bytes of text whose handling counts as one visit.
const BYTES_PER_VISIT: usize = 64;

/// The visits that handling a text counts as.
pub(crate) fn visits_of(text: &str) -> u64 {
    (text.len() / BYTES_PER_VISIT) as u64
}

impl<'a> Evaluator<'a> {
    /// The text that a span of the message covers.
    fn slice(&self, span: Span) -> &'a str {
        // The scanner accepts only UTF-8, and spans end at markup.
        std::str::from_utf8(span.of(self.message.source)).unwrap_or_default()
    }

    /// Count the handling of a text.
    #[inline]
    pub(super) fn charge_text(&self, bytes: usize) -> Result<(), EvalError> {
        self.charge((bytes / BYTES_PER_VISIT) as u64)
    }

    /// The string-value of a node.
    pub fn string_value(&self, node: NodeRef) -> Result<Cow<'a, str>, EvalError> {
        let value = match node {
            NodeRef::Node(id) => {
                let node = &self.message.document.nodes[id as usize];
                match node.kind {
                    NodeKind::Document | NodeKind::Element => {
                        self.charge(u64::from(node.end - id))?;
                        self.message.string_value(id)
                    }
                    NodeKind::Text => self.message.text(id),
                    NodeKind::Comment => {
                        let markup = self.slice(node.span);
                        unix_lines(markup.strip_prefix("<!--").and_then(|m| m.strip_suffix("-->")).unwrap_or(markup))
                    }
                    NodeKind::ProcessingInstruction => unix_lines(self.instruction(id).1),
                }
            }
            NodeRef::Attribute(attribute) => self.message.attribute_value(self.attribute(attribute)),
            NodeRef::Namespace { declaration, .. } => self.declared_uri(declaration),
        };
        self.charge_text(value.len())?;
        Ok(value)
    }

    /// `number()` of a node's string-value.
    pub(super) fn number_value(&self, node: NodeRef) -> Result<f64, EvalError> {
        Ok(number::parse(&self.string_value(node)?))
    }

    /// Does a node have this string-value? Compares piece by piece, so that a large subtree is left at the first
    /// difference.
    pub(super) fn has_value(&self, node: NodeRef, wanted: &str) -> Result<bool, EvalError> {
        let NodeRef::Node(id) = node else {
            return Ok(self.string_value(node)? == wanted);
        };
        let nodes = &self.message.document.nodes;
        if !matches!(nodes[id as usize].kind, NodeKind::Element | NodeKind::Document) {
            return Ok(self.string_value(node)? == wanted);
        }
        let mut rest = wanted.as_bytes();
        let mut visited = 0;
        let mut equal = true;
        for descendant in id + 1..nodes[id as usize].end {
            visited += 1;
            let this = &nodes[descendant as usize];
            if this.kind != NodeKind::Text {
                continue;
            }
            let remaining = if this.encoded {
                rest.strip_prefix(self.message.text(descendant).as_bytes())
            } else {
                rest.strip_prefix(this.span.of(self.message.source))
            };
            match remaining {
                Some(remaining) => rest = remaining,
                None => {
                    equal = false;
                    break;
                }
            }
        }
        self.charge(visited)?;
        self.charge_text(wanted.len() - rest.len())?;
        Ok(equal && rest.is_empty())
    }

    pub(super) fn attribute(&self, attribute: u32) -> &'a Attribute {
        &self.message.document.attributes[attribute as usize]
    }

    /// Target and content of a processing instruction.
    pub(super) fn instruction(&self, node: NodeId) -> (&'a str, &'a str) {
        let markup = self.slice(self.message.document.nodes[node as usize].span);
        let inside = markup.strip_prefix("<?").and_then(|m| m.strip_suffix("?>")).unwrap_or(markup);
        let (target, content) = inside.split_once(number::SPACES).unwrap_or((inside, ""));
        (target, content.trim_start_matches(number::SPACES))
    }

    /// The prefix that a namespace node is called by.
    pub(super) fn declared_prefix(&self, declaration: u32) -> &'a str {
        if declaration == XML_DECLARATION {
            "xml"
        } else {
            self.slice(self.message.document.declarations[declaration as usize].prefix)
        }
    }

    /// The namespace URI that a declaration binds.
    pub(super) fn declared_uri(&self, declaration: u32) -> Cow<'a, str> {
        if declaration == XML_DECLARATION {
            return Cow::Borrowed(XML_NAMESPACE);
        }
        let raw = self.slice(self.message.document.declarations[declaration as usize].uri);
        if raw.contains(['&', '\t', '\r', '\n']) {
            Cow::Owned(crate::scan::decode::attribute(raw))
        } else {
            Cow::Borrowed(raw)
        }
    }

    /// `name()`: the name as written, prefix included; empty for nodes without one.
    pub fn qualified_name(&self, node: NodeRef) -> &'a str {
        match node {
            NodeRef::Node(id) => match self.message.document.nodes[id as usize].kind {
                NodeKind::Element => self.message.qname(id),
                NodeKind::ProcessingInstruction => self.instruction(id).0,
                NodeKind::Document | NodeKind::Text | NodeKind::Comment => "",
            },
            NodeRef::Attribute(attribute) => self.slice(self.attribute(attribute).qname),
            NodeRef::Namespace { declaration, .. } => self.declared_prefix(declaration),
        }
    }

    /// `local-name()`.
    pub fn local_name(&self, node: NodeRef) -> &'a str {
        let name = self.qualified_name(node);
        match node {
            // The target of a processing instruction has no colon in a namespace-well-formed message.
            NodeRef::Node(_) | NodeRef::Attribute(_) => name.split_once(':').map_or(name, |(_, local)| local),
            NodeRef::Namespace { .. } => name,
        }
    }

    /// `namespace-uri()`: empty for nodes whose name has none.
    pub fn namespace_uri(&self, node: NodeRef) -> Cow<'a, str> {
        let document = self.message.document;
        let id = match node {
            NodeRef::Node(id) if document.nodes[id as usize].kind == NodeKind::Element => {
                document.nodes[id as usize].name.namespace
            }
            NodeRef::Attribute(attribute) => self.attribute(attribute).name.namespace,
            NodeRef::Node(_) | NodeRef::Namespace { .. } => NamespaceId::NONE,
        };
        if id != NamespaceId::UNKNOWN {
            return Cow::Borrowed(self.vocabulary.namespace_uri(id));
        }
        let prefix = self.qualified_name(node).split_once(':').map_or("", |(prefix, _)| prefix);
        self.declaration_in_scope(node.tree_node(document), prefix)
            .map_or(Cow::Borrowed(""), |declaration| self.declared_uri(declaration))
    }

    /// The indices of the declarations on one element.
    pub(super) fn declarations_on(&self, element: NodeId) -> std::ops::Range<usize> {
        let declarations = &self.message.document.declarations;
        let start = declarations.partition_point(|d| d.owner < element);
        let length = declarations[start..].iter().take_while(|d| d.owner == element).count();
        start..start + length
    }

    /// The declaration that binds a prefix at an element.
    fn declaration_in_scope(&self, element: NodeId, prefix: &str) -> Option<u32> {
        let document = self.message.document;
        let mut ancestor = element;
        while ancestor != 0 {
            for declaration in self.declarations_on(ancestor) {
                if document.declarations[declaration].prefix.of(self.message.source) == prefix.as_bytes() {
                    return Some(declaration as u32);
                }
            }
            ancestor = document.nodes[ancestor as usize].parent;
        }
        None
    }
}

/// Line ends as XML passes them on: LF.
fn unix_lines(text: &str) -> Cow<'_, str> {
    if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")) } else { Cow::Borrowed(text) }
}
