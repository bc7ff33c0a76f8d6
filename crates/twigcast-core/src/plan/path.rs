//! The trunk of a location path: its leading element steps.

use super::condition::is_double_slash;
use crate::query::ast::{Axis, Expr, LinearStep, NameTest, NodeTest, Path, PathStart, Step};
use crate::query::position::is_positional;

/// The leading element steps of a path, with all that the path says of each of them. What comes after (an attribute, a
/// text node, another axis) has become a condition on the last step, which is the same for the question of existence.
pub(super) type Trunk = Vec<StepCheck>;

/// The conditions that an element must pass to stand for one step of the path.
#[derive(Clone, Debug)]
pub(super) struct StepCheck {
    /// The relation of the element to the one of the step before.
    pub step: LinearStep,
    /// Conditions that do not depend on the context position.
    pub conditions: Vec<Expr>,
    /// The step itself, where a predicate depends on the position among the parent's children.
    pub positional: Option<Box<Step>>,
}

impl StepCheck {
    pub(super) fn is_trivial(&self) -> bool {
        self.conditions.is_empty() && self.positional.is_none()
    }
}

/// Splits a path into its trunk; `None` when not even its first step is an element below the document node.
pub(super) fn trunk_of(steps: &[Step]) -> Option<Trunk> {
    let mut trunk = Trunk::new();
    let mut descendant = false;
    for (index, step) in steps.iter().enumerate() {
        if is_double_slash(step) {
            descendant = true;
            continue;
        }
        match element_step(step, descendant, leads_on_from_elements(&steps[index + 1..])) {
            Some(check) => trunk.push(check),
            None => {
                let from = if descendant { index - 1 } else { index };
                return with_rest(trunk, steps, from, index, descendant);
            }
        }
        descendant = false;
    }
    // A path that ends in `//`'s own step cannot be written, but an explicit one can: `a/descendant-or-self::node()`.
    // It selects at least the node before it.
    (!trunk.is_empty()).then_some(trunk)
}

/// Returns a step of a linear path for one that leads to elements and can be decided at the element; `None` for any other
/// step. `is_positioned`: a predicate depends on the position.
pub(super) fn linear_step(
    step: &Step,
    is_positioned: bool,
    after_double_slash: bool,
    leads_on: bool,
) -> Option<LinearStep> {
    let test = match &step.test {
        NodeTest::Name(test) => *test,
        // Only elements have something below: `node()` in front of such a step is `*`, but counts differently.
        NodeTest::Node if step.axis == Axis::Child && !is_positioned && leads_on => NameTest::Any,
        _ => return None,
    };
    let descendant = match step.axis {
        Axis::Child => after_double_slash,
        Axis::Descendant if !is_positioned => true,
        _ => return None,
    };
    Some(LinearStep { descendant, test })
}

/// Returns the check for a step that leads to elements and can be decided at the element; `None` for any other step.
pub(super) fn element_step(step: &Step, after_double_slash: bool, leads_on: bool) -> Option<StepCheck> {
    let is_positioned = step.predicates.iter().any(is_positional);
    let linear = linear_step(step, is_positioned, after_double_slash, leads_on)?;
    let mut check = StepCheck { step: linear, conditions: Vec::new(), positional: None };
    if is_positioned {
        check.positional = Some(Box::new(step.clone()));
    } else {
        check.conditions = conjuncts(&step.predicates);
    }
    Some(check)
}

/// Returns whether steps lead on from elements only, and not from text and the like.
pub(super) fn leads_on_from_elements(steps: &[Step]) -> bool {
    steps
        .iter()
        .find(|step| !is_double_slash(step))
        .is_some_and(|step| matches!(step.axis, Axis::Child | Axis::Descendant | Axis::Attribute))
}

/// Turns the steps from `from` on into a condition on the trunk's last step.
fn with_rest(mut trunk: Trunk, steps: &[Step], from: usize, index: usize, descendant: bool) -> Option<Trunk> {
    match trunk.last_mut() {
        Some(last) => last.conditions.push(relative(steps[from..].to_vec())),
        // `//@a`, `//text()`: the document node has neither, so some element has.
        None => {
            let first = on_some_element(&steps[index], descendant)?;
            let rest = std::iter::once(first).chain(steps[index + 1..].iter().cloned()).collect();
            trunk.push(StepCheck {
                step: LinearStep { descendant: true, test: NameTest::Any },
                conditions: vec![relative(rest)],
                positional: None,
            });
        }
    }
    Some(trunk)
}

/// Returns the step as one from an element, if it leads from the document node, by way of `//`, to what only elements have.
pub(super) fn on_some_element(step: &Step, after_double_slash: bool) -> Option<Step> {
    match (step.axis, &step.test) {
        (Axis::Attribute, _) | (Axis::Child, NodeTest::Text) if after_double_slash => Some(step.clone()),
        // `//text()` in its normal form. A position would count in the whole document.
        (Axis::Descendant, NodeTest::Text) if !step.predicates.iter().any(is_positional) => {
            Some(Step { axis: Axis::Child, ..step.clone() })
        }
        _ => None,
    }
}

pub(super) fn relative(steps: Vec<Step>) -> Expr {
    Expr::Path(Path { start: PathStart::Context, steps })
}

fn conjuncts(predicates: &[Expr]) -> Vec<Expr> {
    let mut list = Vec::new();
    for predicate in predicates {
        match predicate {
            Expr::And(operands) => list.extend(conjuncts(operands)),
            other => list.push(other.clone()),
        }
    }
    list
}

pub(super) fn linear(trunk: &[StepCheck]) -> Vec<LinearStep> {
    trunk.iter().map(|check| check.step).collect()
}

/// Returns the trunk's steps as a path expression again.
pub(super) fn steps_of(trunk: &[StepCheck]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(trunk.len());
    for check in trunk {
        let predicates = check.conditions.clone();
        match &check.positional {
            Some(step) => {
                if check.step.descendant && step.axis == Axis::Child {
                    steps.push(Step { axis: Axis::DescendantOrSelf, test: NodeTest::Node, predicates: Vec::new() });
                }
                let mut step = (**step).clone();
                // Conditions beside a positional step come from the rest of the path: they filter after it.
                step.predicates.extend(predicates);
                steps.push(step);
            }
            None => {
                let axis = if check.step.descendant { Axis::Descendant } else { Axis::Child };
                steps.push(Step { axis, test: NodeTest::Name(check.step.test), predicates });
            }
        }
    }
    steps
}
