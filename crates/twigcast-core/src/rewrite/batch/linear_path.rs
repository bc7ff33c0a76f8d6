//! Paths of child and descendant steps with name tests, followed on label paths.

use crate::plan::LinearStep;
use crate::query::ast::{Axis, Expr, NameTest, NodeTest, Path, PathStart, Step};
use crate::vocabulary::Name;

/// Steps at most: states of the walk are the bits of a word.
const STEPS_MAX: usize = 63;

/// A path to elements, or to attributes of them.
#[derive(Clone, Debug)]
pub(super) struct LinearPath {
    steps: Box<[LinearStep]>,
    /// The attributes of the elements that the steps lead to are meant.
    pub attribute: Option<NameTest>,
    /// Of those below them, too.
    deep: bool,
}

/// How far a walk has come: bit `i` is set where the first `i` steps are taken and more may follow.
pub(super) type StepProgress = u64;

impl LinearPath {
    /// A path from the document node to elements below it.
    pub fn from_message(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Path(Path { start: PathStart::Root, steps }) => {
                Self::of(steps).filter(|path| !path.steps.is_empty() && path.attribute.is_none())
            }
            _ => None,
        }
    }

    /// A path from an element.
    pub fn from_element(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Path(Path { start: PathStart::Context, steps }) => Self::of(steps),
            _ => None,
        }
    }

    fn of(steps: &[Step]) -> Option<Self> {
        let mut linear = Vec::with_capacity(steps.len());
        let (mut attribute, mut deep) = (None, false);
        let mut descendant = false;
        for step in steps {
            if attribute.is_some() || !step.predicates.is_empty() {
                return None;
            }
            match (step.axis, &step.test) {
                (Axis::DescendantOrSelf, NodeTest::Node) => descendant = true,
                (Axis::SelfAxis, NodeTest::Node) => {}
                (Axis::Child | Axis::Descendant, NodeTest::Name(test)) => {
                    let descendant = std::mem::take(&mut descendant) || step.axis == Axis::Descendant;
                    linear.push(LinearStep { descendant, test: *test });
                }
                (Axis::Attribute, NodeTest::Name(test)) => {
                    attribute = Some(*test);
                    deep = std::mem::take(&mut descendant);
                }
                _ => return None,
            }
        }
        let is_short = linear.len() <= STEPS_MAX;
        (is_short && !descendant).then(|| Self { steps: linear.into(), attribute, deep })
    }

    /// Where a walk begins.
    pub const START: StepProgress = 1;

    /// One level down, to an element of this name.
    pub fn advance(&self, progress: StepProgress, name: Name) -> StepProgress {
        let mut next = if self.deep { progress & 1 << self.steps.len() } else { 0 };
        for (index, step) in self.steps.iter().enumerate() {
            if progress >> index & 1 == 1 {
                next |= StepProgress::from(step.descendant) << index;
                next |= StepProgress::from(step.test.accepts(name)) << (index + 1);
            }
        }
        next
    }

    /// Are all steps taken?
    pub fn accepts(&self, progress: StepProgress) -> bool {
        progress >> self.steps.len() & 1 == 1
    }
}
