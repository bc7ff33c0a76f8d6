//! Nested paths that ask for structure only.
//!
//! Whether such a condition holds at an element depends on nothing but the *shape* of its subtree: names, who is below
//! whom, and neither order nor number. [`shapes`] numbers the shapes that occur; [`memo`] remembers, for a state of the
//! automaton and a shape, which of the waiting queries matched. So a branching query costs nothing at an element whose
//! like was seen before, and changing the queries leaves the shapes valid. At a shape that is new, conditions that are
//! conjunctions of paths are decided from what holds at the shapes below ([`branches`], [`satisfied`]); others, and
//! those of queries that came while matching was going on, are evaluated one by one.

pub mod branches;
pub mod conditions;
pub mod memo;
pub mod satisfied;
pub mod shapes;

use branches::BranchConjunction;

use crate::query::ast::{Axis, Expr, NameTest, NodeTest, PathStart, Step};
use crate::vocabulary::Name;

/// A set of names, by one bit of 128 each: never misses a member, may hold others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameMask(pub u128);

impl NameMask {
    /// The mask of one name.
    pub fn of(name: Name) -> Self {
        Self(1 << (name.local.as_u32().wrapping_mul(31).wrapping_add(name.namespace.as_u32()) & 127))
    }

    /// Is every member of `self` in `other`, as far as the masks tell?
    #[inline]
    pub fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Names that an element's children and descendants must have for a condition to hold: a test that costs two
/// instructions and spares most evaluations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequiredNames {
    /// Among the children.
    pub children: NameMask,
    /// Among the descendants, children included.
    pub below: NameMask,
}

impl RequiredNames {
    /// What a structural condition requires.
    pub fn of(condition: &Expr) -> Self {
        let mut required = Self::default();
        required.collect(condition, true);
        required
    }

    /// `at_element`: the condition is on the element itself, not on something below it.
    fn collect(&mut self, condition: &Expr, at_element: bool) {
        match condition {
            Expr::And(operands) => operands.iter().for_each(|operand| self.collect(operand, at_element)),
            Expr::Path(path) if path.start == PathStart::Context => self.collect_path(&path.steps, at_element),
            _ => {}
        }
    }

    fn collect_path(&mut self, steps: &[Step], at_element: bool) {
        let mut at_element = at_element;
        for step in steps {
            let direct = at_element && step.axis == Axis::Child;
            let stays = step.axis == Axis::SelfAxis;
            if let (false, NodeTest::Name(NameTest::Name(name))) =
                (stays || step.axis == Axis::DescendantOrSelf, &step.test)
            {
                self.below.insert(NameMask::of(*name));
                if direct {
                    self.children.insert(NameMask::of(*name));
                }
            }
            if step.axis == Axis::DescendantOrSelf {
                // It may select the element itself or something below; nothing more is certain of where we are.
                at_element = false;
                for predicate in &step.predicates {
                    self.collect(predicate, false);
                }
                continue;
            }
            at_element = at_element && stays;
            for predicate in &step.predicates {
                self.collect(predicate, at_element);
            }
        }
    }
}

/// A twig: a query that a structural condition at an element decides.
#[derive(Clone, Debug)]
pub struct Twig {
    /// The query.
    pub query: u32,
    /// Where it waits, for the engine.
    pub home: u32,
    /// What must hold at the element.
    pub condition: TwigCondition,
}

/// The condition of a twig.
#[derive(Clone, Debug)]
pub enum TwigCondition {
    /// All of these branches.
    Branches(BranchConjunction),
    /// An expression to be evaluated, and names that it requires.
    Expr(Box<(Expr, RequiredNames)>),
}
