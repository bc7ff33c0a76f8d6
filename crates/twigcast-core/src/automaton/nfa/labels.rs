//! What the edges of the automaton are labelled with.

use rustc_hash::FxHashMap;

use super::state::{EdgeLabelId, NO_EDGE, STAR};
use crate::query::ast::NameTest;
use crate::vocabulary::{LocalId, Name, NamespaceId};

/// An edge's label as two words: name, namespace or local name, told apart by a reserved value.
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

/// The labels in use, by number. Like the vocabulary that they are made of, they stay.
#[derive(Clone, Debug)]
pub(super) struct EdgeLabels {
    labels: Vec<EdgeLabel>,
    ids: FxHashMap<EdgeLabel, EdgeLabelId>,
}

impl Default for EdgeLabels {
    fn default() -> Self {
        // The reserved numbers stand for no label.
        let none = EdgeLabel { namespace: ANY, local: ANY };
        Self { labels: vec![none; STAR as usize + 1], ids: FxHashMap::default() }
    }
}

impl EdgeLabels {
    pub(super) fn intern(&mut self, label: EdgeLabel) -> EdgeLabelId {
        *self.ids.entry(label).or_insert_with(|| {
            self.labels.push(label);
            self.labels.len() as EdgeLabelId - 1
        })
    }

    pub(super) fn find(&self, label: EdgeLabel) -> Option<EdgeLabelId> {
        self.ids.get(&label).copied()
    }

    /// One past the largest number of a label.
    pub(super) fn bound(&self) -> usize {
        self.labels.len()
    }

    /// The test that a label stands for.
    pub(super) fn test(&self, label: EdgeLabelId) -> NameTest {
        self.labels[label as usize].test()
    }

    /// The labels that the edges of a name may have.
    pub(super) fn edges_by_name(&self, name: Name) -> NameEdges {
        let known_local = name.local != LocalId::UNKNOWN;
        let known_namespace = name.namespace != NamespaceId::UNKNOWN;
        let id = |existing: bool, label| if existing { self.find(label).unwrap_or(NO_EDGE) } else { NO_EDGE };
        NameEdges {
            name: id(known_local && known_namespace, EdgeLabel::name(name)),
            namespace: id(known_namespace, EdgeLabel::namespace(name.namespace)),
            local: id(known_local, EdgeLabel::local(name.local)),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.labels.capacity() * size_of::<EdgeLabel>()
            + self.ids.capacity() * (size_of::<(EdgeLabel, EdgeLabelId)>() + 1)
    }
}

/// The labels that the edges of a name may have; [`NO_EDGE`] where no state has any.
#[derive(Clone, Copy)]
pub(in crate::automaton) struct NameEdges {
    pub(super) name: EdgeLabelId,
    pub(super) namespace: EdgeLabelId,
    pub(super) local: EdgeLabelId,
}
