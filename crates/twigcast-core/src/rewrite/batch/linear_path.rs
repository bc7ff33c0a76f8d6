//! Paths of child and descendant steps with name tests, which select elements by their label path alone.

use crate::plan::LinearStep;
use crate::query::ast::{Axis, Expr, NameTest, NodeTest, Path, PathStart, Step};
use crate::vocabulary::Name;

/// Number of steps at most: [`StepProgress`] has a bit for each and one more.
const STEPS_MAX: usize = 63;

/// A path to elements, or to attributes of them.
#[derive(Clone, Debug)]
pub(super) struct LinearPath {
    steps: Box<[LinearStep]>,
    /// The path selects attributes of the elements that the steps select.
    pub attribute: Option<NameTest>,
    /// The path selects attributes of the descendants of these elements too.
    is_deep: bool,
}

/// The positions that a path can be at on an element: bit `i` is set if the first `i` steps lead there.
pub(super) type StepProgress = u64;

impl LinearPath {
    /// Converts a path from the document node to elements below it. Returns `None` for other paths.
    pub fn from_message(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Path(Path { start: PathStart::Root, steps }) => {
                Self::of(steps).filter(|path| !path.steps.is_empty() && path.attribute.is_none())
            }
            _ => None,
        }
    }

    /// Converts a path from an element. Returns `None` for paths of another form.
    pub fn from_element(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Path(Path { start: PathStart::Context, steps }) => Self::of(steps),
            _ => None,
        }
    }

    fn of(steps: &[Step]) -> Option<Self> {
        let mut linear = Vec::with_capacity(steps.len());
        let (mut attribute, mut is_deep) = (None, false);
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
                    is_deep = std::mem::take(&mut descendant);
                }
                _ => return None,
            }
        }
        let is_short = linear.len() <= STEPS_MAX;
        (is_short && !descendant).then(|| Self { steps: linear.into(), attribute, is_deep })
    }

    /// The progress at the node that the path starts from.
    pub const START: StepProgress = 1;

    /// Returns the progress at a child element of this name.
    pub fn advance(&self, progress: StepProgress, name: Name) -> StepProgress {
        let mut next = if self.is_deep { progress & 1 << self.steps.len() } else { 0 };
        for (index, step) in self.steps.iter().enumerate() {
            if progress >> index & 1 == 1 {
                next |= StepProgress::from(step.descendant) << index;
                next |= StepProgress::from(step.test.accepts(name)) << (index + 1);
            }
        }
        next
    }

    /// Returns `true` if the path selects the element at this progress.
    pub fn accepts(&self, progress: StepProgress) -> bool {
        progress >> self.steps.len() & 1 == 1
    }
}
