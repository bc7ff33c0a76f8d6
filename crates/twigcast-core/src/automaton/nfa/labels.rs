//! The labels of the NFA's edges.

use rustc_hash::FxHashMap;

use super::state::{NO_EDGE, STAR};
use crate::ids::{EdgeLabelId, LocalId, NamespaceId};
use crate::query::ast::NameTest;
use crate::vocabulary::Name;

/// The name test of an edge as two words: an expanded name, or [`ANY`] in place of the part that is not tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct EdgeLabel {
    namespace: u32,
    local: u32,
}

const ANY: u32 = u32::MAX;

impl EdgeLabel {
    pub(super) fn name(name: Name) -> Self {
        Self { namespace: name.namespace.as_u32(), local: name.local.as_u32() }
    }

    pub(super) fn namespace(namespace: NamespaceId) -> Self {
        Self { namespace: namespace.as_u32(), local: ANY }
    }

    pub(super) fn local(local: LocalId) -> Self {
        Self { namespace: ANY, local: local.as_u32() }
    }

    fn test(self) -> NameTest {
        let (namespace, local) = (NamespaceId::from_u32(self.namespace), LocalId::from_u32(self.local));
        match (self.namespace, self.local) {
            (_, ANY) => NameTest::Namespace(namespace),
            (ANY, _) => NameTest::Local(local),
            _ => NameTest::Name(Name { namespace, local }),
        }
    }
}

/// The labels in use. Like the vocabulary that they are made of, they are never removed.
#[derive(Clone, Debug)]
pub(super) struct EdgeLabels {
    /// The label of each id.
    labels: Vec<EdgeLabel>,
    ids: FxHashMap<EdgeLabel, EdgeLabelId>,
}

impl Default for EdgeLabels {
    fn default() -> Self {
        // The reserved ids stand for no label.
        let none = EdgeLabel { namespace: ANY, local: ANY };
        Self { labels: vec![none; STAR.index() + 1], ids: FxHashMap::default() }
    }
}

impl EdgeLabels {
    /// Returns the id of a label, which is added if it is new.
    pub(super) fn intern(&mut self, label: EdgeLabel) -> EdgeLabelId {
        *self.ids.entry(label).or_insert_with(|| {
            self.labels.push(label);
            EdgeLabelId::new(self.labels.len() - 1)
        })
    }

    pub(super) fn find(&self, label: EdgeLabel) -> Option<EdgeLabelId> {
        self.ids.get(&label).copied()
    }

    /// Returns one past the largest index of a label.
    pub(super) fn bound(&self) -> usize {
        self.labels.len()
    }

    /// Returns the name test that a label stands for.
    pub(super) fn test(&self, label: EdgeLabelId) -> NameTest {
        self.labels[label.index()].test()
    }

    /// Returns the labels that take a name.
    pub(super) fn edges_by_name(&self, name: Name) -> NameEdges {
        let has_local = name.local != LocalId::UNKNOWN;
        let has_namespace = name.namespace != NamespaceId::UNKNOWN;
        let id = |is_possible: bool, label| if is_possible { self.find(label).unwrap_or(NO_EDGE) } else { NO_EDGE };
        NameEdges {
            name: id(has_local && has_namespace, EdgeLabel::name(name)),
            namespace: id(has_namespace, EdgeLabel::namespace(name.namespace)),
            local: id(has_local, EdgeLabel::local(name.local)),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.labels.capacity() * size_of::<EdgeLabel>()
            + self.ids.capacity() * (size_of::<(EdgeLabel, EdgeLabelId)>() + 1)
    }
}

/// The labels that take one name; [`NO_EDGE`] where no state has such an edge.
#[derive(Clone, Copy)]
pub(in crate::automaton) struct NameEdges {
    pub(super) name: EdgeLabelId,
    pub(super) namespace: EdgeLabelId,
    pub(super) local: EdgeLabelId,
}
