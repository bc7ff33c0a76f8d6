//! Shapes of subtrees, numbered.

use super::NameMask;
use crate::document::{Document, NodeId, NodeKind};
use crate::util::hash_index::{HashIndex, SeededHasher};
use crate::vocabulary::{Name, NamespaceId};

/// Number of a shape.
pub type ShapeId = u32;
/// "Not numbered": the budget was reached; decide without memory.
pub const NO_SHAPE: ShapeId = u32::MAX;

/// What a shape is looked up by.
#[derive(Debug)]
struct Shape {
    name: Name,
    /// Range of the distinct shapes of the children in `Shapes::children`, ascending.
    start: u32,
    end: u32,
}

/// All shapes met so far: a shape is a name and the set of the children's shapes.
#[derive(Debug, Default)]
pub struct Shapes {
    shapes: Vec<Shape>,
    /// Names of the children and of the descendants, by shape.
    masks: Vec<(NameMask, NameMask)>,
    children: Vec<ShapeId>,
    index: HashIndex,
    hashing: SeededHasher,
    /// By local name, the shape of elements without children that was met first: most elements are such. [`NO_SHAPE`]: none.
    leaves: Vec<(NamespaceId, ShapeId)>,
    scratch: Vec<ShapeId>,
}

impl Shapes {
    /// Forget all.
    pub fn clear(&mut self) {
        self.shapes.clear();
        self.masks.clear();
        self.children.clear();
        self.index.clear();
        self.leaves.clear();
    }

    /// Bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.shapes.len() * (size_of::<Shape>() + size_of::<(NameMask, NameMask)>())
            + self.children.len() * size_of::<ShapeId>()
            + self.index.bytes()
            + self.leaves.len() * size_of::<(NamespaceId, ShapeId)>()
    }

    /// How many shapes there are.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// No shape?
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// The name of elements of this shape.
    #[inline]
    pub fn name(&self, shape: ShapeId) -> Name {
        self.shapes[shape as usize].name
    }

    /// The distinct shapes of the children of elements of this shape. Their numbers are smaller.
    #[inline]
    pub fn children(&self, shape: ShapeId) -> &[ShapeId] {
        let shape = &self.shapes[shape as usize];
        &self.children[shape.start as usize..shape.end as usize]
    }

    /// Names of the children of elements of this shape.
    #[inline]
    pub fn children_mask(&self, shape: ShapeId) -> NameMask {
        self.masks[shape as usize].0
    }

    /// Names of the descendants of elements of this shape.
    #[inline]
    pub fn below_mask(&self, shape: ShapeId) -> NameMask {
        self.masks[shape as usize].1
    }

    /// Number the shapes of all elements of a document; `of_node[n]` is that of node `n`, [`NO_SHAPE`] once `budget`
    /// bytes are in use.
    pub fn number(&mut self, document: &Document, of_node: &mut Vec<ShapeId>, budget: usize) {
        of_node.clear();
        of_node.resize(document.nodes.len(), NO_SHAPE);
        let mut children = std::mem::take(&mut self.scratch);
        // Children come after their parent, so going backwards meets them first.
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
            .find(|&candidate| self.shapes[candidate as usize].name == name && self.children(candidate) == children);
        existing.unwrap_or_else(|| {
            let id = self.add(name, children);
            self.index.insert(hash, id);
            id
        })
    }

    fn add(&mut self, name: Name, children: &[ShapeId]) -> ShapeId {
        let id = self.shapes.len() as ShapeId;
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

/// The distinct shapes of a node's element children, ascending; false if one has no number.
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
