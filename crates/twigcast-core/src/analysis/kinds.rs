//! Which kinds of nodes a step reaches from which, whether it certainly reaches one, and whether it can reach several
//! (Recommendation, sections 2.2 and 5).

use std::ops::BitOr;

use crate::query::ast::{Axis, NameTest, NodeTest};

/// A set of kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub const NONE: Self = Self(0);
    pub const DOCUMENT: Self = Self(1);
    pub const ELEMENT: Self = Self(2);
    pub const TEXT: Self = Self(4);
    pub const COMMENT: Self = Self(8);
    pub const INSTRUCTION: Self = Self(16);
    pub const ATTRIBUTE: Self = Self(32);
    pub const NAMESPACE: Self = Self(64);
    pub const ALL: Self = Self(127);

    /// What can be a child of an element, or a sibling.
    const CONTENT: Self = Self(2 | 4 | 8 | 16);
    /// What can be a child of the document node.
    const OUTERMOST: Self = Self(2 | 8 | 16);
    /// What can have children.
    const PARENTS: Self = Self(1 | 2);
    /// What always has an element above it.
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

impl BitOr for Kinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The kinds that a step may reach from nodes of some kinds.
pub(super) fn reached(from: Kinds, axis: Axis, test: &NodeTest) -> Kinds {
    let principal = match axis {
        Axis::Attribute => Kinds::ATTRIBUTE,
        Axis::Namespace => Kinds::NAMESPACE,
        _ => Kinds::ELEMENT,
    };
    along(from, axis).only(match test {
        NodeTest::Node => Kinds::ALL,
        NodeTest::Name(_) => principal,
        NodeTest::Text => Kinds::TEXT,
        NodeTest::Comment => Kinds::COMMENT,
        NodeTest::ProcessingInstruction(_) => Kinds::INSTRUCTION,
    })
}

fn along(from: Kinds, axis: Axis) -> Kinds {
    let whenever = |some: Kinds, then: Kinds| if from.has(some) { then } else { Kinds::NONE };
    match axis {
        Axis::Child => whenever(Kinds::ELEMENT, Kinds::CONTENT) | whenever(Kinds::DOCUMENT, Kinds::OUTERMOST),
        Axis::Descendant => whenever(Kinds::PARENTS, Kinds::CONTENT),
        Axis::DescendantOrSelf => from | whenever(Kinds::PARENTS, Kinds::CONTENT),
        Axis::SelfAxis => from,
        Axis::Attribute => whenever(Kinds::ELEMENT, Kinds::ATTRIBUTE),
        Axis::Namespace => whenever(Kinds::ELEMENT, Kinds::NAMESPACE),
        Axis::Parent => whenever(Kinds::INNER, Kinds::ELEMENT) | whenever(Kinds::OUTERMOST, Kinds::PARENTS),
        Axis::Ancestor => above(from),
        Axis::AncestorOrSelf => from | above(from),
        Axis::FollowingSibling | Axis::PrecedingSibling => whenever(Kinds::CONTENT, Kinds::CONTENT),
        Axis::Following | Axis::Preceding => {
            whenever(Kinds::CONTENT | Kinds::ATTRIBUTE | Kinds::NAMESPACE, Kinds::CONTENT)
        }
    }
}

fn above(from: Kinds) -> Kinds {
    if from.within(Kinds::DOCUMENT) { Kinds::NONE } else { Kinds::PARENTS }
}

/// Kinds of which the step certainly reaches a node, from any node of the kinds given; none: perhaps it reaches nothing.
pub(super) fn certain(from: Kinds, axis: Axis, test: &NodeTest) -> Kinds {
    let any_element = match test {
        NodeTest::Node => false,
        NodeTest::Name(NameTest::Any) => true,
        _ => return Kinds::NONE,
    };
    let is_certain = from != Kinds::NONE
        && match axis {
            // The node itself.
            Axis::SelfAxis | Axis::DescendantOrSelf | Axis::AncestorOrSelf if !any_element => return from,
            Axis::SelfAxis => from.within(Kinds::ELEMENT),
            Axis::DescendantOrSelf => from.within(Kinds::PARENTS),
            Axis::AncestorOrSelf => from.within(Kinds::ELEMENT | Kinds::INNER),
            // A document has an element.
            Axis::Child | Axis::Descendant => from.within(Kinds::DOCUMENT),
            Axis::Parent | Axis::Ancestor if any_element => from.within(Kinds::INNER),
            Axis::Parent | Axis::Ancestor => !from.has(Kinds::DOCUMENT),
            _ => false,
        };
    if is_certain { reached(from, axis, test) } else { Kinds::NONE }
}

/// Does the step reach no more than one node from any node of these kinds?
pub(super) fn is_single(from: Kinds, axis: Axis, test: &NodeTest) -> bool {
    match (axis, test) {
        (Axis::SelfAxis | Axis::Parent, _) => true,
        (Axis::Attribute, NodeTest::Name(NameTest::Name(_))) => true,
        // A document has no more than one element.
        (Axis::Child, NodeTest::Name(_)) => from.within(Kinds::DOCUMENT),
        _ => false,
    }
}
