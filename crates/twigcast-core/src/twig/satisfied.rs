//! What holds at elements of a shape: the bottom-up automaton of XPush (Gupta and Suciu, "Stream processing of XPath
//! queries with predicates", 2003), built lazily, a state for each shape that occurs.
//!
//! Kept are, for each shape, the branches that hold at any element *above* one of that shape. What holds at an element is
//! the union of that over its children, so a new shape costs work in proportion to what holds there, and shapes met
//! before cost nothing.

use super::branches::{BranchId, Branches, Dependencies};
use super::shapes::{ShapeId, Shapes};

/// The branches that hold above shapes, and at one shape at a time.
#[derive(Debug, Default)]
pub struct SatisfiedBranches {
    /// Made when it is first needed.
    dependencies: Option<Dependencies>,
    above: Vec<BranchId>,
    /// Range in `above` by shape.
    ranges: Vec<(u32, u32)>,
    /// The branches that hold at the shape in hand, in no order.
    at_shape: Vec<BranchId>,
    /// The same as a bit by branch.
    marks: Vec<u64>,
    in_hand: Option<ShapeId>,
}

impl SatisfiedBranches {
    /// Forget all.
    pub fn clear(&mut self) {
        self.above.clear();
        self.ranges.clear();
        self.dependencies = None;
        self.in_hand = None;
    }

    /// Bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        (self.above.len() + self.at_shape.len()) * 4
            + (self.ranges.len() + self.marks.len()) * 8
            + self.dependencies.as_ref().map_or(0, Dependencies::bytes)
    }

    /// Is known what holds at this shape?
    #[inline]
    pub fn is_decided(&self, shape: ShapeId) -> bool {
        (shape as usize) < self.ranges.len()
    }

    /// Find out what holds above the shapes that are new, as long as that takes less than `budget` bytes.
    pub fn follow(&mut self, shapes: &Shapes, branches: &Branches, budget: usize) {
        if self.ranges.len() == shapes.len() {
            return;
        }
        let dependencies = self.dependencies.take().unwrap_or_else(|| Dependencies::new(branches));
        // Shapes are numbered children first.
        for shape in self.ranges.len()..shapes.len() {
            if self.bytes() + dependencies.bytes() >= budget {
                break;
            }
            self.find_above(shapes, branches, &dependencies, shape as ShapeId);
        }
        self.dependencies = Some(dependencies);
    }

    fn find_above(&mut self, shapes: &Shapes, branches: &Branches, dependencies: &Dependencies, shape: ShapeId) {
        self.take_in_hand(shapes, branches.bound(), shape);
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

    /// Drop what was found from index `from` on and holds here too: as a branch about descendants it is passed on anyway.
    fn drop_passed_on(&mut self, dependencies: &Dependencies, from: usize) {
        let mut kept = from;
        for index in from..self.above.len() {
            let id = self.above[index];
            self.above[kept] = id;
            kept += usize::from(!(dependencies.is_descendant(id) && self.holds(id)));
        }
        self.above.truncate(kept);
    }

    /// Take a known shape in hand: [`Self::at_shape`] and [`Self::holds`] then tell what holds at its elements.
    pub fn take_in_hand(&mut self, shapes: &Shapes, bound: usize, shape: ShapeId) {
        if self.in_hand == Some(shape) {
            return;
        }
        self.in_hand = Some(shape);
        for branch in self.at_shape.drain(..) {
            self.marks[branch as usize >> 6] = 0;
        }
        self.marks.resize(bound.div_ceil(64), 0);
        for &child in shapes.children(shape) {
            let (start, end) = self.ranges[child as usize];
            for &branch in &self.above[start as usize..end as usize] {
                if !is_marked(&self.marks, branch) {
                    self.marks[branch as usize >> 6] |= 1 << (branch & 63);
                    self.at_shape.push(branch);
                }
            }
        }
    }

    /// The branches that hold at the shape in hand.
    #[inline]
    pub fn at_shape(&self) -> &[BranchId] {
        &self.at_shape
    }

    /// Does a branch hold at the shape in hand?
    #[inline]
    pub fn holds(&self, branch: BranchId) -> bool {
        is_marked(&self.marks, branch)
    }
}

#[inline]
fn is_marked(marks: &[u64], branch: BranchId) -> bool {
    marks[branch as usize >> 6] >> (branch & 63) & 1 == 1
}
