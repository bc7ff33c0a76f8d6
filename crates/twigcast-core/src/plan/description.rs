//! A cover as text: what leads to a query, as the query would say it.

use std::sync::Arc;

use super::operand::{NumberRange, Operand, Relation, ValueTest, constant_of, number, ordered};
use super::route::{Access, Action, Route};
use super::value_condition::{ConditionValue, Constant, Distance, ValueCondition};
use crate::query::ast::{Axis, CompareOp, Expr, Function, LinearStep, NameTest, NodeTest, Path, PathStart, Step};
use crate::query::typed::TypedConstant;
use crate::util::number::format;
use crate::util::places::{RegionQuestion, RegionRelation};

/// The most accesses that are described one by one.
const TOLD_MAX: usize = 4;

/// Returns what values lead to a query, in words; `None` if none do. `print` writes an expression.
pub fn cover(routes: &[Route], print: impl Fn(&Expr) -> String) -> Option<String> {
    let (mut listed, mut count) = (Vec::new(), 0);
    for Route { path, action } in routes {
        let tests: Vec<(usize, Expr)> = match action {
            Action::Access { entries, .. } => entries
                .iter()
                .filter_map(|Access { test, .. }| Some((path.len(), test.as_ref().and_then(condition)?)))
                .collect(),
            Action::Trigger { key, .. } => {
                let at = tested_step(path, key);
                at.into_iter().map(|length| (length, condition_of_key(&key.value))).collect()
            }
            Action::Accept | Action::Twig(_) | Action::Always => Vec::new(),
        };
        count += tests.len();
        for (length, test) in tests.into_iter().take(TOLD_MAX - listed.len()) {
            listed.push(print(&with_condition(path, length, test)));
        }
    }
    if count == 0 {
        return None;
    }
    let more = if count > listed.len() { format!(" and {} more", count - listed.len()) } else { String::new() };
    Some(format!("looked up by {}{more}", listed.join(", ")))
}

/// Returns how many steps of a path lead to the element that a key is about.
fn tested_step(path: &[LinearStep], key: &ValueCondition) -> Option<usize> {
    match key.distance {
        Distance::Up(levels) => path.len().checked_sub(usize::from(levels)).filter(|&length| length > 0),
        Distance::Level(level) => Some(usize::from(level)).filter(|&length| length > 0 && length <= path.len()),
    }
}

/// Returns a key as the condition that a query would write.
fn condition_of_key(value: &ConditionValue) -> Expr {
    let path_of = |axis, test| {
        Expr::Path(Path { start: PathStart::Context, steps: vec![Step { axis, test, predicates: Vec::new() }] })
    };
    let attribute = |name| path_of(Axis::Attribute, NodeTest::Name(NameTest::Name(name)));
    let text = || path_of(Axis::Child, NodeTest::Text);
    let itself = || path_of(Axis::SelfAxis, NodeTest::Node);
    let compare = |op, left, right| Expr::Compare { op, left: Box::new(left), right: Box::new(right) };
    let equal = |left, right| compare(CompareOp::Equal, left, right);
    let number_of = |bits| Expr::Number(f64::from_bits(bits));
    match value {
        ConditionValue::AttributeExists(name) => attribute(*name),
        ConditionValue::AttributeText(name, expected) => equal(attribute(*name), Expr::Literal(expected.clone())),
        ConditionValue::AttributeNumber(name, bits) => equal(attribute(*name), number_of(*bits)),
        ConditionValue::AttributeCompared(name, op, Constant::Text(constant)) => {
            compare(*op, attribute(*name), Expr::Literal(constant.clone()))
        }
        ConditionValue::AttributeCompared(name, op, Constant::Number(bits)) => {
            compare(*op, attribute(*name), number_of(*bits))
        }
        ConditionValue::Not(negated) => {
            Expr::Call { function: Function::Not, arguments: vec![condition_of_key(negated)] }
        }
        ConditionValue::Text(expected) => equal(text(), Expr::Literal(expected.clone())),
        ConditionValue::TextNumber(bits) => equal(text(), number_of(*bits)),
        ConditionValue::Value(expected) => equal(itself(), Expr::Literal(expected.clone())),
        ConditionValue::ValueNumber(bits) => equal(itself(), number_of(*bits)),
        ConditionValue::ValueOrdered(op, bits) => compare(*op, itself(), number_of(*bits)),
    }
}

/// Returns a path with a condition on the element to which so many of its steps lead.
fn with_condition(path: &[LinearStep], length: usize, condition: Expr) -> Expr {
    let step = |axis, test| Step { axis, test, predicates: Vec::new() };
    let (mut steps, mut condition) = (Vec::new(), Some(condition));
    for (number, linear) in (1..).zip(path) {
        if linear.descendant {
            steps.push(step(Axis::DescendantOrSelf, NodeTest::Node));
        }
        let predicates = condition.take_if(|_| number == length).into_iter().collect();
        steps.push(Step { predicates, ..step(Axis::Child, NodeTest::Name(linear.test)) });
    }
    Expr::Path(Path { start: PathStart::Root, steps })
}

/// Returns the constant of an operand that an integer of its order stands for, and how long it is.
fn constant(operand: &Operand, order: u64) -> Option<(usize, Expr)> {
    match operand {
        Operand::Typed(cast, _) => {
            let constant = constant_of(*cast, order)?;
            let length = match &constant {
                Expr::Typed(TypedConstant::Temporal(temporal)) => temporal.to_string().len(),
                Expr::Typed(TypedConstant::Double(number)) => format(*number).len(),
                _ => 0,
            };
            Some((length, constant))
        }
        _ => Some((format(number(order)).len(), Expr::Number(number(order)))),
    }
}

/// Returns the one with the shorter constant of two ways to write a bound.
fn shorter(operand: &Operand, inclusive: (CompareOp, u64), exclusive: (CompareOp, u64)) -> Option<(CompareOp, Expr)> {
    let (length, bound) = constant(operand, inclusive.1)?;
    Some(match constant(operand, exclusive.1) {
        Some((shorter, bound)) if shorter < length => (exclusive.0, bound),
        _ => (inclusive.0, bound),
    })
}

/// Returns a question about a region as a condition on places.
fn region_condition(places: Expr, question: &RegionQuestion) -> Expr {
    let ask = |function| Expr::Call { function, arguments: vec![places, Expr::Region(Arc::clone(&question.region))] };
    match question.relation {
        RegionRelation::Intersects => ask(Function::GeoIntersects),
        RegionRelation::Within => ask(Function::GeoWithin),
        RegionRelation::Contains => ask(Function::GeoContains),
        RegionRelation::Nearer { kilometres, inclusive } => Expr::Compare {
            op: if inclusive { CompareOp::LessOrEqual } else { CompareOp::Less },
            left: Box::new(ask(Function::GeoDistance)),
            right: Box::new(Expr::Number(f64::from_bits(kilometres))),
        },
    }
}

fn condition(ValueTest { operand: operand_of, relation }: &ValueTest) -> Option<Expr> {
    let operand = || match operand_of {
        Operand::Nodes(expr)
        | Operand::Text(expr)
        | Operand::Number(expr)
        | Operand::Typed(_, expr)
        | Operand::Places(expr) => Some((**expr).clone()),
        simple => {
            let itself = Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: Vec::new() };
            let step = simple.as_step()?.unwrap_or(itself);
            Some(Expr::Path(Path { start: PathStart::Context, steps: vec![step] }))
        }
    };
    let compare = |op, constant| Some(Expr::Compare { op, left: Box::new(operand()?), right: Box::new(constant) });
    let compare_each = |op, texts: &[Box<str>], joined: fn(Vec<Expr>) -> Expr| {
        let each = texts.iter().map(|text| compare(op, Expr::Literal(text.clone())));
        let mut all = each.collect::<Option<Vec<_>>>()?;
        if all.len() > 1 { Some(joined(all)) } else { all.pop() }
    };
    let call =
        |function, part: &str| Some(Expr::Call { function, arguments: vec![operand()?, Expr::Literal(part.into())] });
    match relation {
        Relation::Equals(text) => compare(CompareOp::Equal, Expr::Literal(text.clone())),
        Relation::Differs(texts) => compare_each(CompareOp::NotEqual, texts, Expr::And),
        Relation::NoneEquals(texts) => {
            let any = compare_each(CompareOp::Equal, texts, Expr::Or)?;
            Some(Expr::Call { function: Function::Not, arguments: vec![any] })
        }
        Relation::StartsWith(text) => call(Function::StartsWith, text),
        Relation::Contains(text) => call(Function::Contains, text),
        Relation::Region(question) => Some(region_condition(operand()?, question)),
        // It leads to no query.
        Relation::Matches(_) => None,
        Relation::OtherNumber(bits) => compare(CompareOp::NotEqual, constant(operand_of, ordered(*bits))?.1),
        Relation::NoneWithin(range) => {
            let within = ValueTest { operand: operand_of.clone(), relation: Relation::Within(*range) };
            Some(Expr::Call { function: Function::Not, arguments: vec![condition(&within)?] })
        }
        Relation::Within(range) | Relation::Overlaps(range) => {
            let NumberRange { low, high } = *range;
            let mut bounds = Vec::new();
            if range.is_point() {
                bounds.push(compare(CompareOp::Equal, constant(operand_of, low)?.1)?);
            }
            if !range.is_point() && !range.is_open_below() {
                let (op, bound) = shorter(operand_of, (CompareOp::GreaterOrEqual, low), (CompareOp::Greater, low - 1))?;
                bounds.push(compare(op, bound)?);
            }
            if !range.is_point() && !range.is_open_above() {
                let (op, bound) = shorter(operand_of, (CompareOp::LessOrEqual, high), (CompareOp::Less, high + 1))?;
                bounds.push(compare(op, bound)?);
            }
            if bounds.len() > 1 { Some(Expr::And(bounds)) } else { bounds.pop() }
        }
    }
}
