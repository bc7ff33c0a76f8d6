//! Testing a trigger's candidates: from the accepting element upwards, one step of the path after the other.

use super::ancestors::{AncestorStack, Level, UNKNOWN};
use crate::document::NodeId;
use crate::eval::{EvalError, Evaluator, NodeRef};
use crate::plan::StepCheck;

/// So many levels may be looked at for one part of a path before they count as visits: messages are seldom as deep.
const FREE_LEVELS: usize = 128;

/// Is there a choice of ancestors for the steps, ending in `element`, that passes all checks?
///
/// The steps fall into parts at the `//` before them: within a part each step is the child of the one before. The last part
/// ends at the element; of each other part the lowest place above the part below it is taken, since that leaves most room
/// for those above. Where that is, is kept for the elements after this one (see [`super::ancestors`]), by the number of the
/// trigger.
pub(super) fn upward<'a>(
    evaluator: &Evaluator<'a>,
    ancestors: &mut AncestorStack,
    trigger: u32,
    checks: &'a [StepCheck],
    element: NodeId,
) -> Result<bool, EvalError> {
    ancestors.move_to(&evaluator.message().document.nodes, element);
    let mut end = checks.len();
    let mut position = ancestors.level();
    let mut is_fixed = true;
    while end > 0 {
        let start = checks[..end].iter().rposition(|check| check.step.descendant).unwrap_or(0);
        let part = &checks[start..end];
        let is_anchored = !part[0].step.descendant;
        if is_anchored {
            if position < part.len() as Level || is_fixed && position > part.len() as Level {
                return Ok(false);
            }
            return part_ends_at(evaluator, ancestors, part, part.len() as Level);
        }
        if !is_fixed {
            position = lowest_match(evaluator, ancestors, (trigger, start as u32), part, position)?;
        } else if !part_ends_at(evaluator, ancestors, part, position)? {
            return Ok(false);
        }
        if position == 0 {
            return Ok(false);
        }
        // The part above ends above the first step of this one.
        position -= part.len() as Level;
        is_fixed = false;
        end = start;
    }
    Ok(true)
}

/// The lowest level, `from` or above it, at which a part of a path ends; 0: there is none.
fn lowest_match<'a>(
    evaluator: &Evaluator<'a>,
    ancestors: &mut AncestorStack,
    key: (u32, u32),
    part: &'a [StepCheck],
    from: Level,
) -> Result<Level, EvalError> {
    let (mut matches, grown) = ancestors.take_matches(key);
    let mut level = from;
    let matched_level = loop {
        match matches[level as usize] {
            _ if (level as usize) < part.len() => break 0,
            UNKNOWN if part_ends_at(evaluator, ancestors, part, level)? => break level,
            UNKNOWN => level -= 1,
            checked => break checked,
        }
    };
    let checked_levels = (from - level) as usize + grown;
    matches[level as usize..=from as usize].fill(matched_level);
    ancestors.keep_matches(key, matches);
    evaluator.charge(checked_levels.saturating_sub(FREE_LEVELS) as u64)?;
    Ok(matched_level)
}

/// Does a part of a path hold, with its last step at the element of a level?
fn part_ends_at<'a>(
    evaluator: &Evaluator<'a>,
    ancestors: &mut AncestorStack,
    part: &'a [StepCheck],
    level: Level,
) -> Result<bool, EvalError> {
    for (up, check) in part.iter().rev().enumerate() {
        ancestors.ancestor_checks += 1;
        let element = (level as usize).checked_sub(up).and_then(|level| ancestors.at(level as Level));
        let Some(element) = element else { return Ok(false) };
        if !passes(evaluator, check, element)? {
            return Ok(false);
        }
    }
    Ok(true)
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
