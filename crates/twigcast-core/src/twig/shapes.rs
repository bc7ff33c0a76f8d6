//! The shapes of subtrees that messages have shown.

use super::NameMask;
use crate::document::{Document, NodeId, NodeKind};
use crate::ids::{NamespaceId, ShapeId};
use crate::util::hash_index::{HashIndex, SeededHasher};
use crate::vocabulary::Name;

/// In place of a shape: none was assigned, since the budget was reached. Decisions at the element are not memoised.
pub const NO_SHAPE: ShapeId = ShapeId::ABSENT;

/// A shape: a name and the set of the children's shapes.
#[derive(Debug)]
struct Shape {
    name: Name,
    /// The range in [`Shapes::children`] of the distinct shapes of the children, ascending.
    start: u32,
    end: u32,
}

/// All shapes that have occurred. Shapes of children have smaller ids than those of their parents.
#[derive(Debug, Default)]
pub struct Shapes {
    shapes: Vec<Shape>,
    /// The names of the children and of the descendants of each shape.
    masks: Vec<(NameMask, NameMask)>,
    children: Vec<ShapeId>,
    index: HashIndex,
    hashing: SeededHasher,
    /// For each local name, the first shape of elements without children and its namespace, or [`NO_SHAPE`]. Most elements
    /// have no children.
    leaves: Vec<(NamespaceId, ShapeId)>,
    scratch: Vec<ShapeId>,
}

impl Shapes {
    /// Removes all shapes.
    pub fn clear(&mut self) {
        self.shapes.clear();
        self.masks.clear();
        self.children.clear();
        self.index.clear();
        self.leaves.clear();
    }

    /// Returns the bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.shapes.len() * (size_of::<Shape>() + size_of::<(NameMask, NameMask)>())
            + self.children.len() * size_of::<ShapeId>()
            + self.index.bytes()
            + self.leaves.len() * size_of::<(NamespaceId, ShapeId)>()
    }

    /// Returns the number of shapes.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Returns `true` if no shape has occurred.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Returns the name of elements of a shape.
    #[inline]
    pub fn name(&self, shape: ShapeId) -> Name {
        self.shapes[shape.index()].name
    }

    /// Returns the distinct shapes of the children of elements of a shape.
    #[inline]
    pub fn children(&self, shape: ShapeId) -> &[ShapeId] {
        let shape = &self.shapes[shape.index()];
        &self.children[shape.start as usize..shape.end as usize]
    }

    /// Returns the names of the children of elements of a shape.
    #[inline]
    pub fn children_mask(&self, shape: ShapeId) -> NameMask {
        self.masks[shape.index()].0
    }

    /// Returns the names of the descendants of elements of a shape.
    #[inline]
    pub fn below_mask(&self, shape: ShapeId) -> NameMask {
        self.masks[shape.index()].1
    }

    /// Finds the shapes of all elements of a document: `of_node[n]` becomes that of node `n`, or [`NO_SHAPE`] once `budget`
    /// bytes are in use.
    pub fn assign(&mut self, document: &Document, of_node: &mut Vec<ShapeId>, budget: usize) {
        of_node.clear();
        of_node.resize(document.nodes.len(), NO_SHAPE);
        let mut children = std::mem::take(&mut self.scratch);
        // Children come after their parent, so going backwards visits them first.
        for node in (1..document.nodes.len()).rev() {
            if document.nodes[node].kind != NodeKind::Element {
                continue;
            }
            children.clear();
            let complete = collect_children(document, node as NodeId, of_node, &mut children);
            if complete && self.bytes() < budget {
                of_node[node] = self.intern(document.nodes[node].name, &children);
            }
        }
        self.scratch = children;
    }

    #[inline]
    fn intern(&mut self, name: Name, children: &[ShapeId]) -> ShapeId {
        match self.leaves.get(name.local.index()) {
            Some(&(namespace, leaf)) if children.is_empty() && leaf != NO_SHAPE && namespace == name.namespace => leaf,
            _ => self.find_or_insert(name, children),
        }
    }

    fn find_or_insert(&mut self, name: Name, children: &[ShapeId]) -> ShapeId {
        let Name { namespace, local } = name;
        let hash = self.hashing.of(u64::from(namespace.as_u32()) << 32 | u64::from(local.as_u32()), 0, children);
        let existing = self
            .index
            .with_hash(hash)
            .map(ShapeId::from_u32)
            .find(|&candidate| self.name(candidate) == name && self.children(candidate) == children);
        existing.unwrap_or_else(|| {
            let id = self.add(name, children);
            self.index.insert(hash, id.as_u32());
            id
        })
    }

    fn add(&mut self, name: Name, children: &[ShapeId]) -> ShapeId {
        let id = ShapeId::new(self.shapes.len());
        let start = self.children.len() as u32;
        self.children.extend_from_slice(children);
        let mut direct = NameMask::default();
        let mut below = NameMask::default();
        for &child in children {
            direct.insert(NameMask::of(self.name(child)));
            below.insert(self.below_mask(child));
        }
        below.insert(direct);
        self.masks.push((direct, below));
        self.shapes.push(Shape { name, start, end: self.children.len() as u32 });
        let local = name.local.index();
        if children.is_empty() {
            if self.leaves.len() <= local {
                self.leaves.resize(local + 1, (NamespaceId::NONE, NO_SHAPE));
            }
            if self.leaves[local].1 == NO_SHAPE {
                self.leaves[local] = (name.namespace, id);
            }
        }
        id
    }
}

/// Collects the distinct shapes of a node's element children, ascending. Returns `false` if some child has none.
fn collect_children(document: &Document, node: NodeId, of_node: &[ShapeId], children: &mut Vec<ShapeId>) -> bool {
    let mut child = node + 1;
    let end = document.nodes[node as usize].end;
    while child < end {
        let entry = &document.nodes[child as usize];
        if entry.kind == NodeKind::Element {
            if of_node[child as usize] == NO_SHAPE {
                return false;
            }
            children.push(of_node[child as usize]);
        }
        child = entry.end;
    }
    if children.len() > 1 {
        children.sort_unstable();
        children.dedup();
    }
    true
}
