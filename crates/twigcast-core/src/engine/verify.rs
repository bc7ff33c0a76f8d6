//! Testing a trigger's candidates: from the accepting element upwards, one step of the path after the other.

use crate::document::{NO_NODE, NodeId};
use crate::eval::{EvalError, Evaluator, NodeRef};
use crate::plan::StepCheck;

/// Is there a choice of ancestors for the steps, ending in `element`, that passes all checks?
///
/// Instead of trying choices one by one, the set of elements that can stand for a step is carried from the last step to
/// the first, so the work is bounded by steps times depth.
pub fn upward<'a>(evaluator: &Evaluator<'a>, checks: &'a [StepCheck], element: NodeId) -> Result<bool, EvalError> {
    let nodes = &evaluator.message().document.nodes;
    let Some((last, above)) = checks.split_last() else { return Ok(true) };
    if !passes(evaluator, last, element)? {
        return Ok(false);
    }
    // Elements that can stand for the step below, deepest first.
    let mut standing = vec![element];
    let mut link = last.step.descendant;
    for check in above.iter().rev() {
        let mut next = Vec::new();
        if link {
            let mut ancestor = nodes[standing[0] as usize].parent;
            while ancestor != 0 && ancestor != NO_NODE {
                if passes(evaluator, check, ancestor)? {
                    next.push(ancestor);
                }
                ancestor = nodes[ancestor as usize].parent;
            }
        } else {
            for &below in &standing {
                let parent = nodes[below as usize].parent;
                if parent != 0 && parent != NO_NODE && passes(evaluator, check, parent)? {
                    next.push(parent);
                }
            }
        }
        if next.is_empty() {
            return Ok(false);
        }
        standing = next;
        link = check.step.descendant;
    }
    Ok(link || standing.iter().any(|&node| nodes[node as usize].parent == 0))
}

fn passes<'a>(evaluator: &Evaluator<'a>, check: &'a StepCheck, element: NodeId) -> Result<bool, EvalError> {
    if !check.step.test.accepts(evaluator.message().document.nodes[element as usize].name) {
        return Ok(false);
    }
    if let Some(step) = &check.positional
        && !evaluator.predicates_hold(step, element)?
    {
        return Ok(false);
    }
    for condition in &check.conditions {
        if !evaluator.condition(condition, NodeRef::Node(element))? {
            return Ok(false);
        }
    }
    Ok(true)
}
