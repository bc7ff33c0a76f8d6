//! The branches that hold at elements of each shape: the bottom-up automaton of XPush (Gupta and Suciu, "Stream processing
//! of XPath queries with predicates", 2003), built lazily, with a state for each shape that occurs.
//!
//! For each shape, the branches are kept that hold at the *parent* of any element of that shape. What holds at an element
//! is their union over its children. So a new shape costs work in proportion to what holds there, and others cost nothing.

use super::branches::{Branches, Dependencies};
use super::shapes::Shapes;
use crate::ids::{BranchId, ShapeId};

/// The branches that hold above each shape, and at one current shape.
#[derive(Debug, Default)]
pub struct SatisfiedBranches {
    /// Built when it is first needed.
    dependencies: Option<Dependencies>,
    above: Vec<BranchId>,
    /// For each shape, the range in `above` of the branches that hold at parents of its elements.
    ranges: Vec<(u32, u32)>,
    /// The branches that hold at the current shape, in no order.
    at_shape: Vec<BranchId>,
    /// The same, as one bit for each branch.
    marks: Vec<u64>,
    current: Option<ShapeId>,
}

impl SatisfiedBranches {
    /// Removes everything.
    pub fn clear(&mut self) {
        self.above.clear();
        self.ranges.clear();
        self.dependencies = None;
        self.current = None;
    }

    /// Returns the bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        (self.above.len() + self.at_shape.len()) * 4
            + (self.ranges.len() + self.marks.len()) * 8
            + self.dependencies.as_ref().map_or(0, Dependencies::bytes)
    }

    /// Returns `true` if it is known what holds at a shape.
    #[inline]
    pub fn is_decided(&self, shape: ShapeId) -> bool {
        shape.index() < self.ranges.len()
    }

    /// Finds what holds above the shapes that are new, while fewer than `budget` bytes are in use.
    pub fn extend(&mut self, shapes: &Shapes, branches: &Branches, budget: usize) {
        if self.ranges.len() == shapes.len() {
            return;
        }
        let dependencies = self.dependencies.take().unwrap_or_else(|| Dependencies::new(branches));
        // Shapes of children have smaller ids.
        for shape in self.ranges.len()..shapes.len() {
            if self.bytes() + dependencies.bytes() >= budget {
                break;
            }
            self.find_above(shapes, branches, &dependencies, ShapeId::new(shape));
        }
        self.dependencies = Some(dependencies);
    }

    fn find_above(&mut self, shapes: &Shapes, branches: &Branches, dependencies: &Dependencies, shape: ShapeId) {
        self.make_current(shapes, branches.bound(), shape);
        let name = shapes.name(shape);
        let start = self.above.len();
        self.above.extend(dependencies.leaves(name));
        let marks = &self.marks;
        for &branch in &self.at_shape {
            dependencies.dependents(branches, branch, name, |id| is_marked(marks, id), &mut self.above);
        }
        self.drop_passed_on(dependencies, start);
        self.above.extend(self.at_shape.iter().filter(|&&branch| dependencies.is_descendant(branch)));
        self.ranges.push((start as u32, self.above.len() as u32));
    }

    /// Removes branches about descendants found since index `from` that hold at the current shape: they are passed on anyway.
    fn drop_passed_on(&mut self, dependencies: &Dependencies, from: usize) {
        let mut kept = from;
        for index in from..self.above.len() {
            let id = self.above[index];
            self.above[kept] = id;
            kept += usize::from(!(dependencies.is_descendant(id) && self.holds(id)));
        }
        self.above.truncate(kept);
    }

    /// Makes a decided shape the current one, of which [`Self::at_shape`] and [`Self::holds`] tell.
    pub fn make_current(&mut self, shapes: &Shapes, bound: usize, shape: ShapeId) {
        if self.current == Some(shape) {
            return;
        }
        self.current = Some(shape);
        for branch in self.at_shape.drain(..) {
            self.marks[branch.index() >> 6] = 0;
        }
        self.marks.resize(bound.div_ceil(64), 0);
        for &child in shapes.children(shape) {
            let (start, end) = self.ranges[child.index()];
            for &branch in &self.above[start as usize..end as usize] {
                if !is_marked(&self.marks, branch) {
                    self.marks[branch.index() >> 6] |= 1 << (branch.index() & 63);
                    self.at_shape.push(branch);
                }
            }
        }
    }

    /// Returns the branches that hold at the current shape.
    #[inline]
    pub fn at_shape(&self) -> &[BranchId] {
        &self.at_shape
    }

    /// Returns `true` if a branch holds at the current shape.
    #[inline]
    pub fn holds(&self, branch: BranchId) -> bool {
        is_marked(&self.marks, branch)
    }
}

#[inline]
fn is_marked(marks: &[u64], branch: BranchId) -> bool {
    marks[branch.index() >> 6] >> (branch.index() & 63) & 1 == 1
}
