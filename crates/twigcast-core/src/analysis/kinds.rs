//! Which kinds of nodes a step reaches from which, whether it certainly reaches one, and whether it can reach several
//! (Recommendation, sections 2.2 and 5).

use std::ops::BitOr;

use crate::query::ast::{Axis, NameTest, NodeTest};

/// A set of kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeKinds(u8);

impl NodeKinds {
    pub const NONE: Self = Self(0);
    pub const DOCUMENT: Self = Self(1);
    pub const ELEMENT: Self = Self(2);
    pub const TEXT: Self = Self(4);
    pub const COMMENT: Self = Self(8);
    pub const INSTRUCTION: Self = Self(16);
    pub const ATTRIBUTE: Self = Self(32);
    pub const NAMESPACE: Self = Self(64);
    pub const ALL: Self = Self(127);

    /// The kinds that can be a child of an element, or a sibling.
    const CONTENT: Self = Self(2 | 4 | 8 | 16);
    /// The kinds that can be a child of the document node.
    const OUTERMOST: Self = Self(2 | 8 | 16);
    /// The kinds that can have children.
    const PARENTS: Self = Self(1 | 2);
    /// The kinds that always have an element above them.
    const INNER: Self = Self(4 | 32 | 64);

    fn has(self, some: Self) -> bool {
        self.0 & some.0 != 0
    }

    fn within(self, all: Self) -> bool {
        self.0 & !all.0 == 0
    }

    fn only(self, some: Self) -> Self {
        Self(self.0 & some.0)
    }
}

impl BitOr for NodeKinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Returns the kinds that a step may reach from nodes of some kinds.
pub(super) fn reached(from: NodeKinds, axis: Axis, test: &NodeTest) -> NodeKinds {
    let principal = match axis {
        Axis::Attribute => NodeKinds::ATTRIBUTE,
        Axis::Namespace => NodeKinds::NAMESPACE,
        _ => NodeKinds::ELEMENT,
    };
    along(from, axis).only(match test {
        NodeTest::Node => NodeKinds::ALL,
        NodeTest::Name(_) => principal,
        NodeTest::Text => NodeKinds::TEXT,
        NodeTest::Comment => NodeKinds::COMMENT,
        NodeTest::ProcessingInstruction(_) => NodeKinds::INSTRUCTION,
    })
}

fn along(from: NodeKinds, axis: Axis) -> NodeKinds {
    let whenever = |some: NodeKinds, then: NodeKinds| if from.has(some) { then } else { NodeKinds::NONE };
    match axis {
        Axis::Child => {
            whenever(NodeKinds::ELEMENT, NodeKinds::CONTENT) | whenever(NodeKinds::DOCUMENT, NodeKinds::OUTERMOST)
        }
        Axis::Descendant => whenever(NodeKinds::PARENTS, NodeKinds::CONTENT),
        Axis::DescendantOrSelf => from | whenever(NodeKinds::PARENTS, NodeKinds::CONTENT),
        Axis::SelfAxis => from,
        Axis::Attribute => whenever(NodeKinds::ELEMENT, NodeKinds::ATTRIBUTE),
        Axis::Namespace => whenever(NodeKinds::ELEMENT, NodeKinds::NAMESPACE),
        Axis::Parent => {
            whenever(NodeKinds::INNER, NodeKinds::ELEMENT) | whenever(NodeKinds::OUTERMOST, NodeKinds::PARENTS)
        }
        Axis::Ancestor => above(from),
        Axis::AncestorOrSelf => from | above(from),
        Axis::FollowingSibling | Axis::PrecedingSibling => whenever(NodeKinds::CONTENT, NodeKinds::CONTENT),
        Axis::Following | Axis::Preceding => {
            whenever(NodeKinds::CONTENT | NodeKinds::ATTRIBUTE | NodeKinds::NAMESPACE, NodeKinds::CONTENT)
        }
    }
}

fn above(from: NodeKinds) -> NodeKinds {
    if from.within(NodeKinds::DOCUMENT) { NodeKinds::NONE } else { NodeKinds::PARENTS }
}

/// Returns the kinds of which the step certainly reaches a node, from any node of some kinds; none if it may reach
/// nothing.
pub(super) fn certain(from: NodeKinds, axis: Axis, test: &NodeTest) -> NodeKinds {
    let any_element = match test {
        NodeTest::Node => false,
        NodeTest::Name(NameTest::Any) => true,
        _ => return NodeKinds::NONE,
    };
    let is_certain = from != NodeKinds::NONE
        && match axis {
            // The node itself.
            Axis::SelfAxis | Axis::DescendantOrSelf | Axis::AncestorOrSelf if !any_element => return from,
            Axis::SelfAxis => from.within(NodeKinds::ELEMENT),
            Axis::DescendantOrSelf => from.within(NodeKinds::PARENTS),
            Axis::AncestorOrSelf => from.within(NodeKinds::ELEMENT | NodeKinds::INNER),
            // A document has an element.
            Axis::Child | Axis::Descendant => from.within(NodeKinds::DOCUMENT),
            Axis::Parent | Axis::Ancestor if any_element => from.within(NodeKinds::INNER),
            Axis::Parent | Axis::Ancestor => !from.has(NodeKinds::DOCUMENT),
            _ => false,
        };
    if is_certain { reached(from, axis, test) } else { NodeKinds::NONE }
}

/// Returns `true` if the step reaches no more than one node from any node of these kinds.
pub(super) fn is_single(from: NodeKinds, axis: Axis, test: &NodeTest) -> bool {
    match (axis, test) {
        (Axis::SelfAxis | Axis::Parent, _) => true,
        (Axis::Attribute, NodeTest::Name(NameTest::Name(_))) => true,
        // A document has no more than one element.
        (Axis::Child, NodeTest::Name(_)) => from.within(NodeKinds::DOCUMENT),
        _ => false,
    }
}
