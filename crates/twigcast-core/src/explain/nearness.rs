//! A measure of how near a message comes to a query that it does not match: by the parts of it that hold.

use super::report::{Detail, Explanation, OperandReport, StepReport, Verdict};

/// The nearness of a comparison that is false although both operands have a value.
const COMPARED: f64 = 0.25;

impl Explanation {
    /// Returns how much of the query holds, from 0 to 1: 1 if all of it does.
    pub fn nearness(&self) -> f64 {
        nearness(&self.verdict)
    }
}

/// Returns how much of a query holds, from 0 to 1: 1 if all of it does.
///
/// For a path it is the share of its steps that select something, with that of the predicates at the nearest node; for
/// `and` the mean of its operands, for `or` the best.
pub fn nearness(verdict: &Verdict) -> f64 {
    if verdict.holds {
        return 1.0;
    }
    match &verdict.detail {
        Detail::Path(path) => of_steps(&path.steps),
        Detail::All(operands) => mean(operands),
        Detail::Any(operands) => operands.iter().map(nearness).fold(0.0, f64::max),
        Detail::Comparison { left, right, .. } => of_side(left).min(of_side(right)),
        Detail::Not(_) | Detail::Value(_) | Detail::Omitted => 0.0,
    }
}

fn mean(operands: &[Verdict]) -> f64 {
    operands.iter().map(nearness).sum::<f64>() / operands.len() as f64
}

fn of_side(side: &OperandReport) -> f64 {
    if side.kind != "nodes" || side.count > 0 {
        return COMPARED;
    }
    side.empty.as_ref().map_or(0.0, |path| COMPARED * of_steps(&path.steps))
}

fn of_steps(steps: &[StepReport]) -> f64 {
    if steps.is_empty() {
        return 0.0;
    }
    let leading = steps.iter().position(|step| step.selected == 0).unwrap_or(steps.len());
    (leading as f64 + steps.get(leading).map_or(0.0, of_failing)) / steps.len() as f64
}

/// Returns how near the first step that selects nothing comes: its node test counts as much as a predicate.
fn of_failing(step: &StepReport) -> f64 {
    if step.candidates == 0 {
        return 0.0;
    }
    match step.example.as_ref().map(|example| &example.predicates).filter(|predicates| !predicates.is_empty()) {
        None => COMPARED,
        Some(predicates) => (1.0 + predicates.iter().map(nearness).sum::<f64>()) / (1 + predicates.len()) as f64,
    }
}
