//! Shapes of subtrees, numbered.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;

use super::NameMask;
use crate::document::{Document, NodeId, NodeKind};
use crate::vocabulary::Name;

/// Number of a shape.
pub type ShapeId = u32;
/// "Not numbered": the budget was reached; decide without memory.
pub const NO_SHAPE: ShapeId = u32::MAX;

#[derive(Debug)]
struct Shape {
    name: Name,
    /// Range of the distinct shapes of the children in `Shapes::children`, ascending.
    start: u32,
    end: u32,
    /// Next shape with the same hash.
    next: ShapeId,
    children: NameMask,
    below: NameMask,
}

/// All shapes met so far: a shape is a name and the set of the children's shapes.
#[derive(Debug, Default)]
pub struct Shapes {
    shapes: Vec<Shape>,
    children: Vec<ShapeId>,
    /// First shape by hash. Keyed per process: what messages hold must not decide how far chains grow.
    by_hash: HashMap<u64, ShapeId, RandomState>,
    hasher: RandomState,
    scratch: Vec<ShapeId>,
}

impl Shapes {
    /// Forget all.
    pub fn clear(&mut self) {
        self.shapes.clear();
        self.children.clear();
        self.by_hash.clear();
    }

    /// Bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.shapes.len() * (size_of::<Shape>() + 28) + self.children.len() * 4
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
        self.shapes[shape as usize].children
    }

    /// Names of the descendants of elements of this shape.
    #[inline]
    pub fn below_mask(&self, shape: ShapeId) -> NameMask {
        self.shapes[shape as usize].below
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

    fn intern(&mut self, name: Name, children: &[ShapeId]) -> ShapeId {
        let hash = self.hasher.hash_one((name, children));
        let first = self.by_hash.get(&hash).copied().unwrap_or(NO_SHAPE);
        let mut candidate = first;
        while candidate != NO_SHAPE {
            let shape = &self.shapes[candidate as usize];
            if shape.name == name && self.children[shape.start as usize..shape.end as usize] == *children {
                return candidate;
            }
            candidate = shape.next;
        }
        let id = self.shapes.len() as ShapeId;
        let start = self.children.len() as u32;
        self.children.extend_from_slice(children);
        let mut direct = NameMask::default();
        let mut below = NameMask::default();
        for &child in children {
            let child = &self.shapes[child as usize];
            direct.insert(NameMask::of(child.name));
            below.insert(child.below);
        }
        below.insert(direct);
        let end = self.children.len() as u32;
        self.shapes.push(Shape { name, start, end, next: first, children: direct, below });
        self.by_hash.insert(hash, id);
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
