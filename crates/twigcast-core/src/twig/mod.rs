//! Nested paths that need structure only.
//!
//! Whether such a condition holds at an element depends only on the *shape* of its subtree: the element's name and the set
//! of its children's shapes, whatever their order and number. [`shapes`] gives ids to the shapes that occur; [`memo`]
//! keeps which twigs matched at a DFA state and a shape. So a twig costs nothing at an element of a shape that occurred
//! there before, and shapes stay valid when queries change.
//!
//! At a new shape, conditions that are conjunctions of paths are decided from what holds at the shapes of the children
//! ([`branches`], [`satisfied`]). Other conditions, and those in the recent segment, are evaluated one by one.
//!
//! ```
//! use twigcast_core::document::Document;
//! use twigcast_core::limits::Limits;
//! use twigcast_core::scan::{ScanOptions, Scanner};
//! use twigcast_core::twig::shapes::Shapes;
//! use twigcast_core::vocabulary::Vocabulary;
//!
//! let mut vocabulary = Vocabulary::new();
//! ["a", "b", "c"].map(|name| vocabulary.intern_local(name));
//! let (source, mut document) = (b"<a><b><c/></b><b><c/><c/></b><b/></a>", Document::default());
//! Scanner::new().scan(source, &vocabulary, &Limits::default(), ScanOptions::ALL, &mut document).expect("well-formed");
//!
//! // Of the three elements `b`, two have the same shape: how many children `c` there are makes no difference.
//! let (mut shapes, mut of_node) = (Shapes::default(), Vec::new());
//! shapes.assign(&document, &mut of_node, 1 << 20);
//! let b: Vec<_> = document.children(1).map(|node| of_node[node as usize]).collect();
//! assert!(b[0] == b[1] && b[1] != b[2]);
//! ```

pub mod branches;
pub mod conditions;
pub mod memo;
pub mod satisfied;
pub mod shapes;

use branches::BranchConjunction;

use crate::query::ast::{Axis, Expr, NameTest, NodeTest, PathStart, Step};
use crate::vocabulary::Name;

/// A set of names, one bit of 128 each: it never misses a member, and may have others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameMask(pub u128);

impl NameMask {
    /// Returns the mask of one name.
    pub fn of(name: Name) -> Self {
        Self(1 << (name.local.as_u32().wrapping_mul(31).wrapping_add(name.namespace.as_u32()) & 127))
    }

    /// Returns `false` if some member of `self` is not in `other`.
    #[inline]
    pub fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The names that an element's children and descendants must have for a condition to hold. Testing them costs two
/// instructions and saves most evaluations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequiredNames {
    /// Among the children.
    pub children: NameMask,
    /// Among the descendants, children included.
    pub below: NameMask,
}

impl RequiredNames {
    /// Returns what a structural condition requires.
    pub fn of(condition: &Expr) -> Self {
        let mut required = Self::default();
        required.collect(condition, true);
        required
    }

    /// Adds what a condition requires; `at_element`: the condition is on the element itself, not on a node below it.
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
                // It may select the element itself or a node below; from here on, only descendants are certain.
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

/// A query that is decided by a structural condition at an element.
#[derive(Clone, Debug)]
pub struct Twig {
    /// The query.
    pub query: u32,
    /// The segment and the item where the twig waits, packed by the query index.
    pub home: u32,
    /// The condition that must hold at the element.
    pub condition: TwigCondition,
}

/// The condition of a twig.
#[derive(Clone, Debug)]
pub enum TwigCondition {
    /// All of these branches hold.
    Branches(BranchConjunction),
    /// An expression to be evaluated holds. The names that it requires are tested first.
    Expr(Box<(Expr, RequiredNames)>),
}
