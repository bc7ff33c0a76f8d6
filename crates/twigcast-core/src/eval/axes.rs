//! The thirteen axes from one context node, in axis order (Recommendation, sections 2.2 and 2.3).
//!
//! In the flat tree an element's descendants are a range, `following` is the rest of the document, and only the reverse
//! axes follow parents.

use crate::document::{NO_NODE, NodeId, NodeKind};
use crate::query::ast::{Axis, NameTest, NodeTest};
use crate::vocabulary::{LocalId, Name, NamespaceId};

use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::node::XML_DECLARATION;
use super::value::{EvalError, Halt, Visit};

impl Evaluator<'_> {
    /// Returns `true` if a node that is neither attribute nor namespace passes a test whose principal type is element.
    #[inline]
    pub(super) fn node_passes(&self, test: &NodeTest, id: NodeId) -> bool {
        let node = &self.message.document.nodes[id as usize];
        match test {
            NodeTest::Name(name) => node.kind == NodeKind::Element && name.accepts(node.name),
            NodeTest::Node => true,
            NodeTest::Text => node.kind == NodeKind::Text,
            NodeTest::Comment => node.kind == NodeKind::Comment,
            NodeTest::ProcessingInstruction(target) => {
                node.kind == NodeKind::ProcessingInstruction
                    && target.as_deref().is_none_or(|target| self.instruction(id).0 == target)
            }
        }
    }

    /// Returns `true` if a node of any kind passes a test whose principal type is element (axes `self`,
    /// `ancestor-or-self`, ...).
    #[inline]
    pub(super) fn passes(&self, test: &NodeTest, node: NodeRef) -> bool {
        match node {
            NodeRef::Node(id) => self.node_passes(test, id),
            NodeRef::Attribute(_) | NodeRef::Namespace { .. } | NodeRef::Value(_) => *test == NodeTest::Node,
        }
    }

    /// Visits the nodes on an axis that pass a test, in axis order.
    pub(super) fn walk(&self, from: NodeRef, axis: Axis, test: &NodeTest, visit: Visit<'_>) -> Result<(), Halt> {
        let nodes = &self.message.document.nodes;
        match (axis, from) {
            (Axis::Child, NodeRef::Node(id)) => self.walk_siblings(id + 1, nodes[id as usize].end, test, visit),
            (Axis::Descendant, NodeRef::Node(id)) => self.walk_range(id + 1, nodes[id as usize].end, test, visit),
            (Axis::DescendantOrSelf, NodeRef::Node(id)) => self.walk_range(id, nodes[id as usize].end, test, visit),
            (Axis::SelfAxis | Axis::DescendantOrSelf, _) => {
                self.charge(1)?;
                if self.passes(test, from) { visit(from) } else { Ok(()) }
            }
            (Axis::Attribute, NodeRef::Node(id)) => self.walk_attributes(id, test, visit),
            (Axis::Namespace, NodeRef::Node(id)) => self.walk_namespaces(id, test, visit),
            (Axis::Parent, _) => match self.parent(from) {
                NO_NODE => Ok(()),
                parent => self.walk_range(parent, parent + 1, test, visit),
            },
            (Axis::Ancestor, _) => self.walk_up(self.parent(from), test, visit),
            (Axis::AncestorOrSelf, NodeRef::Node(id)) => self.walk_up(id, test, visit),
            (Axis::AncestorOrSelf, _) => {
                if self.passes(test, from) {
                    visit(from)?;
                }
                self.walk_up(self.parent(from), test, visit)
            }
            (Axis::Following | Axis::Preceding, NodeRef::Value(_)) => Ok(()),
            (Axis::Following, _) => self.walk_range(self.following_start(from), nodes.len() as u32, test, visit),
            (Axis::Preceding, _) => self.walk_preceding(from.tree_node(self.message.document), test, visit),
            (Axis::FollowingSibling, NodeRef::Node(id)) => match nodes[id as usize].parent {
                NO_NODE => Ok(()),
                parent => self.walk_siblings(nodes[id as usize].end, nodes[parent as usize].end, test, visit),
            },
            (Axis::PrecedingSibling, NodeRef::Node(id)) => self.walk_siblings_back(id, test, visit),
            // Attributes and namespace nodes have neither children nor attributes nor siblings.
            (
                Axis::Child
                | Axis::Descendant
                | Axis::Attribute
                | Axis::Namespace
                | Axis::FollowingSibling
                | Axis::PrecedingSibling,
                NodeRef::Attribute(_) | NodeRef::Namespace { .. } | NodeRef::Value(_),
            ) => Ok(()),
        }
    }

    /// Returns the parent of a node, the owner of an attribute or namespace node; `NO_NODE` for the document node.
    pub(super) fn parent(&self, node: NodeRef) -> NodeId {
        match node {
            NodeRef::Node(id) => self.message.document.nodes[id as usize].parent,
            NodeRef::Attribute(_) | NodeRef::Namespace { .. } => node.tree_node(self.message.document),
            NodeRef::Value(_) => NO_NODE,
        }
    }

    /// Returns the node at which `following` starts. The children of an element come after its attributes in document order and are
    /// no descendants of them, so they follow them.
    pub(super) fn following_start(&self, node: NodeRef) -> NodeId {
        match node {
            NodeRef::Node(id) => self.message.document.nodes[id as usize].end,
            NodeRef::Attribute(_) | NodeRef::Namespace { .. } => node.tree_node(self.message.document) + 1,
            // Nothing follows a value.
            NodeRef::Value(_) => self.message.document.nodes.len() as NodeId,
        }
    }

    /// Visits the nodes from `start` up to `end` that pass.
    pub(super) fn walk_range(&self, start: NodeId, end: NodeId, test: &NodeTest, visit: Visit<'_>) -> Result<(), Halt> {
        if let NodeTest::Name(NameTest::Name(expected)) = *test {
            return self.walk_range_named(start, end, expected, visit);
        }
        let mut charged = start;
        for id in start..end {
            if self.node_passes(test, id) {
                self.charge(u64::from(id + 1 - charged))?;
                charged = id + 1;
                visit(NodeRef::Node(id))?;
            }
        }
        Ok(self.charge(u64::from(end.saturating_sub(charged)))?)
    }

    /// Visits the elements of one name in a range: the commonest test, in a loop of its own.
    fn walk_range_named(&self, start: NodeId, end: NodeId, expected: Name, visit: Visit<'_>) -> Result<(), Halt> {
        if start >= end {
            return Ok(());
        }
        let mut charged = start;
        let range = &self.message.document.nodes[start as usize..end as usize];
        for (id, node) in (start..).zip(range) {
            if node.name == expected && node.kind == NodeKind::Element {
                self.charge(u64::from(id + 1 - charged))?;
                charged = id + 1;
                visit(NodeRef::Node(id))?;
            }
        }
        Ok(self.charge(u64::from(end - charged))?)
    }

    /// Visits the siblings from `next` up to the end of their parent.
    fn walk_siblings(&self, mut next: NodeId, end: NodeId, test: &NodeTest, visit: Visit<'_>) -> Result<(), Halt> {
        let nodes = &self.message.document.nodes;
        while next < end {
            self.charge(1)?;
            if self.node_passes(test, next) {
                visit(NodeRef::Node(next))?;
            }
            next = nodes[next as usize].end;
        }
        Ok(())
    }

    /// Visits the siblings before a node, nearest first. There is no pointer to them: the node just before is the last
    /// leaf of the previous sibling, which is found by going up from there.
    fn walk_siblings_back(&self, id: NodeId, test: &NodeTest, visit: Visit<'_>) -> Result<(), Halt> {
        let nodes = &self.message.document.nodes;
        let parent = nodes[id as usize].parent;
        let mut this = id;
        while parent != NO_NODE && this - 1 != parent {
            this -= 1;
            let mut levels = 1;
            while nodes[this as usize].parent != parent {
                this = nodes[this as usize].parent;
                levels += 1;
            }
            self.charge(levels)?;
            if self.node_passes(test, this) {
                visit(NodeRef::Node(this))?;
            }
        }
        Ok(())
    }

    /// Visits a node and its ancestors, innermost first.
    fn walk_up(&self, mut id: NodeId, test: &NodeTest, visit: Visit<'_>) -> Result<(), Halt> {
        while id != NO_NODE {
            self.charge(1)?;
            if self.node_passes(test, id) {
                visit(NodeRef::Node(id))?;
            }
            id = self.message.document.nodes[id as usize].parent;
        }
        Ok(())
    }

    /// Visits the nodes that end before a node starts, last first.
    pub(super) fn walk_preceding(&self, id: NodeId, test: &NodeTest, visit: Visit<'_>) -> Result<(), Halt> {
        let nodes = &self.message.document.nodes;
        for before in (1..id).rev() {
            self.charge(1)?;
            if nodes[before as usize].end <= id && self.node_passes(test, before) {
                visit(NodeRef::Node(before))?;
            }
        }
        Ok(())
    }

    fn walk_attributes(&self, id: NodeId, test: &NodeTest, visit: Visit<'_>) -> Result<(), Halt> {
        let document = self.message.document;
        let node = &document.nodes[id as usize];
        if node.kind != NodeKind::Element {
            return Ok(());
        }
        self.charge(u64::from(node.attributes_end - node.attributes_start))?;
        for attribute in document.attribute_ids(id) {
            let passes = match test {
                NodeTest::Name(name) => name.accepts(document.attributes[attribute.index()].name),
                NodeTest::Node => true,
                NodeTest::Text | NodeTest::Comment | NodeTest::ProcessingInstruction(_) => false,
            };
            if passes {
                visit(NodeRef::Attribute(attribute))?;
            }
        }
        Ok(())
    }

    fn walk_namespaces(&self, id: NodeId, test: &NodeTest, visit: Visit<'_>) -> Result<(), Halt> {
        if self.message.document.nodes[id as usize].kind != NodeKind::Element {
            return Ok(());
        }
        for declaration in self.namespaces_in_scope(id)? {
            if self.namespace_passes(test, declaration) {
                visit(NodeRef::Namespace { owner: id, declaration })?;
            }
        }
        Ok(())
    }

    /// Returns the declarations in scope at an element, in document order, `xml` last.
    fn namespaces_in_scope(&self, element: NodeId) -> Result<Vec<u32>, EvalError> {
        let document = self.message.document;
        if document.declarations.is_empty() {
            return Ok(vec![XML_DECLARATION]);
        }
        let mut scope: Vec<u32> = Vec::new();
        let mut prefixes: Vec<&str> = vec!["xml"];
        let mut ancestor = element;
        while ancestor != 0 {
            self.charge(1 + prefixes.len() as u64)?;
            for declaration in self.declarations_on(ancestor) {
                let prefix = self.declared_prefix(declaration as u32);
                if !prefixes.contains(&prefix) {
                    prefixes.push(prefix);
                    // `xmlns=""` takes the default namespace away.
                    if document.declarations[declaration].namespace != NamespaceId::NONE {
                        scope.push(declaration as u32);
                    }
                }
            }
            ancestor = document.nodes[ancestor as usize].parent;
        }
        scope.sort_unstable();
        scope.push(XML_DECLARATION);
        Ok(scope)
    }

    /// Does a namespace node pass? Its name is the prefix, in no namespace.
    fn namespace_passes(&self, test: &NodeTest, declaration: u32) -> bool {
        match test {
            NodeTest::Name(name) => {
                let prefix = self.declared_prefix(declaration);
                let local = if prefix.is_empty() { LocalId::UNKNOWN } else { self.vocabulary.local(prefix.as_bytes()) };
                name.accepts(Name { namespace: NamespaceId::NONE, local })
            }
            NodeTest::Node => true,
            NodeTest::Text | NodeTest::Comment | NodeTest::ProcessingInstruction(_) => false,
        }
    }
}
