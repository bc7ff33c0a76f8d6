//! A cover as text: what leads to a query, as the query would say it.

use super::operand::{NumberRange, Operand, Relation, ValueTest, number};
use super::route::{Access, Action, Route};
use crate::query::ast::{Axis, CompareOp, Expr, Function, LinearStep, NodeTest, Path, PathStart, Step};
use crate::util::number::format;

/// Accesses that are told one by one.
const TOLD_MAX: usize = 4;

/// Returns what values lead to a query, in words; `None` if none do. `print` writes an expression.
pub fn cover(routes: &[Route], print: impl Fn(&Expr) -> String) -> Option<String> {
    let (mut listed, mut count) = (Vec::new(), 0);
    for Route { path, action } in routes {
        let tests: Vec<Expr> = match action {
            Action::Access { entries, .. } => {
                entries.iter().filter_map(|Access { test, .. }| test.as_ref().and_then(condition)).collect()
            }
            Action::Trigger { .. } | Action::Accept | Action::Twig(_) | Action::Always => Vec::new(),
        };
        count += tests.len();
        for test in tests.into_iter().take(TOLD_MAX - listed.len()) {
            listed.push(print(&with_condition(path, test)));
        }
    }
    if count == 0 {
        return None;
    }
    let more = if count > listed.len() { format!(" and {} more", count - listed.len()) } else { String::new() };
    Some(format!("looked up by {}{more}", listed.join(", ")))
}

fn with_condition(path: &[LinearStep], condition: Expr) -> Expr {
    let mut steps: Vec<Step> = path
        .iter()
        .map(|step| Step {
            axis: if step.descendant { Axis::Descendant } else { Axis::Child },
            test: NodeTest::Name(step.test),
            predicates: Vec::new(),
        })
        .collect();
    if let Some(last) = steps.last_mut() {
        last.predicates.push(condition);
    }
    Expr::Path(Path { start: PathStart::Root, steps })
}

/// Returns of two ways to write a bound, the one with the shorter number.
fn shorter(inclusive: (CompareOp, u64), exclusive: (CompareOp, u64)) -> (CompareOp, Expr) {
    let length = |bound: u64| format(number(bound)).len();
    let (op, bound) = if length(exclusive.1) < length(inclusive.1) { exclusive } else { inclusive };
    (op, Expr::Number(number(bound)))
}

fn condition(ValueTest { operand, relation }: &ValueTest) -> Option<Expr> {
    let operand = || match operand {
        Operand::Nodes(expr) | Operand::Text(expr) | Operand::Number(expr) => Some((**expr).clone()),
        simple => {
            let itself = Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: Vec::new() };
            let step = simple.as_step()?.unwrap_or(itself);
            Some(Expr::Path(Path { start: PathStart::Context, steps: vec![step] }))
        }
    };
    let compare = |op, constant| Some(Expr::Compare { op, left: Box::new(operand()?), right: Box::new(constant) });
    let call =
        |function, part: &str| Some(Expr::Call { function, arguments: vec![operand()?, Expr::Literal(part.into())] });
    match relation {
        Relation::Equals(text) => compare(CompareOp::Equal, Expr::Literal(text.clone())),
        Relation::Differs(text) => compare(CompareOp::NotEqual, Expr::Literal(text.clone())),
        Relation::StartsWith(text) => call(Function::StartsWith, text),
        Relation::Contains(text) => call(Function::Contains, text),
        Relation::OtherNumber(bits) => compare(CompareOp::NotEqual, Expr::Number(f64::from_bits(*bits))),
        Relation::Within(range) | Relation::Overlaps(range) => {
            let NumberRange { low, high } = *range;
            let mut bounds = Vec::new();
            if range.is_point() {
                bounds.push(compare(CompareOp::Equal, Expr::Number(number(low)))?);
            }
            if !range.is_point() && !range.is_open_below() {
                let (op, bound) = shorter((CompareOp::GreaterOrEqual, low), (CompareOp::Greater, low - 1));
                bounds.push(compare(op, bound)?);
            }
            if !range.is_point() && !range.is_open_above() {
                let (op, bound) = shorter((CompareOp::LessOrEqual, high), (CompareOp::Less, high + 1));
                bounds.push(compare(op, bound)?);
            }
            if bounds.len() > 1 { Some(Expr::And(bounds)) } else { bounds.pop() }
        }
    }
}
