//! Keys: the value conditions that one hash look-up decides for all queries at once.

use super::condition;
use crate::query::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart, Step};
use crate::util::number;
use crate::vocabulary::Name;

/// A value condition on the trigger element or one of its ancestors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueCondition {
    /// The element that is tested.
    pub distance: Distance,
    /// The value that it must hold.
    pub value: ConditionValue,
}

/// The position of the tested element, seen from the accepting element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distance {
    /// So many levels up; 0 is the accepting element itself.
    Up(u16),
    /// So many levels below the document node; 1 is the root element.
    Level(u16),
}

/// A value that the tested element must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConditionValue {
    /// An attribute of that name.
    AttributeExists(Name),
    /// An attribute of that name with that value.
    AttributeText(Name, Box<str>),
    /// An attribute of that name whose value is that number (bits of the `f64`).
    AttributeNumber(Name, u64),
    /// An attribute of that name that compares so with a constant: by order as numbers, or unequal.
    AttributeCompared(Name, CompareOp, Constant),
    /// Not what the other says, which is about attributes.
    Not(Box<ConditionValue>),
    /// A text child with that value.
    Text(Box<str>),
    /// A text child whose value is that number (bits of the `f64`).
    TextNumber(u64),
    /// That string-value.
    Value(Box<str>),
    /// A string-value that is that number (bits of the `f64`).
    ValueNumber(u64),
    /// A string-value that is a number in that order with another (its bits).
    ValueOrdered(CompareOp, u64),
}

/// A constant that an attribute is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    /// A string.
    Text(Box<str>),
    /// Bits of a number.
    Number(u64),
}

impl Distance {
    /// Largest [`Distance::Up`] in use.
    pub const UP_MAX: usize = 31;
    /// Largest [`Distance::Level`] in use.
    pub const LEVEL_MAX: usize = 29;
}

impl ConditionValue {
    /// Returns how much it narrows the candidates down; more is better, 0 is no better than no key.
    pub(super) fn selectivity(&self) -> u32 {
        match self {
            // Holds without any value that could be looked up.
            Self::Not(_) => 0,
            Self::AttributeExists(_) => 1,
            Self::AttributeCompared(..) | Self::ValueOrdered(..) => 2,
            Self::AttributeNumber(..) | Self::TextNumber(_) | Self::ValueNumber(_) => 3,
            Self::AttributeText(..) | Self::Text(_) | Self::Value(_) => 4,
        }
    }

    /// Returns whether it is a comparison by order, or with what is unequal. Of these many hold at once.
    pub(super) fn is_comparison(&self) -> bool {
        matches!(self, Self::AttributeCompared(..) | Self::ValueOrdered(..))
    }

    /// Returns whether it is about attributes (cheap to test on ancestors too) rather than about text.
    pub fn is_attribute(&self) -> bool {
        match self {
            Self::AttributeExists(_)
            | Self::AttributeText(..)
            | Self::AttributeNumber(..)
            | Self::AttributeCompared(..)
            | Self::Not(_) => true,
            Self::Text(_) | Self::TextNumber(_) | Self::Value(_) | Self::ValueNumber(_) | Self::ValueOrdered(..) => {
                false
            }
        }
    }
}

/// Returns bits of a number, with both zeros alike; `None` for NaN, which equals nothing.
pub fn number_key(value: f64) -> Option<u64> {
    if value.is_nan() { None } else { Some((value + 0.0).to_bits()) }
}

/// What a condition's operand looks at.
enum ConditionOperand {
    Attribute(Name),
    Text,
    Value,
}

fn operand(expr: &Expr) -> Option<ConditionOperand> {
    let Expr::Path(Path { start: PathStart::Context, steps }) = expr else { return None };
    match steps.as_slice() {
        [] => Some(ConditionOperand::Value),
        [Step { axis, test, predicates }] if predicates.is_empty() => match (axis, test) {
            (Axis::Attribute, NodeTest::Name(NameTest::Name(name))) => Some(ConditionOperand::Attribute(*name)),
            (Axis::Child, NodeTest::Text) => Some(ConditionOperand::Text),
            (Axis::SelfAxis, NodeTest::Node) => Some(ConditionOperand::Value),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the key of a condition on an element, and whether it is all that the condition says.
pub(super) fn of_condition(expr: &Expr) -> Option<(ConditionValue, bool)> {
    match expr {
        Expr::Path(path) => match operand(expr) {
            Some(ConditionOperand::Attribute(name)) => Some((ConditionValue::AttributeExists(name), true)),
            Some(ConditionOperand::Text | ConditionOperand::Value) => None,
            None => of_condition(&turned_out(path)?),
        },
        Expr::Compare { op: CompareOp::Equal, left, right } => {
            let (path, constant) = if matches!(**left, Expr::Path(_)) { (left, right) } else { (right, left) };
            match (operand(path), &**constant) {
                (Some(ConditionOperand::Attribute(name)), Expr::Literal(text)) => {
                    Some((ConditionValue::AttributeText(name, text.clone()), true))
                }
                (Some(ConditionOperand::Attribute(name)), Expr::Number(number)) => {
                    Some((ConditionValue::AttributeNumber(name, number_key(*number)?), true))
                }
                (Some(ConditionOperand::Text), Expr::Literal(text)) => Some((ConditionValue::Text(text.clone()), true)),
                (Some(ConditionOperand::Text), Expr::Number(number)) => {
                    Some((ConditionValue::TextNumber(number_key(*number)?), true))
                }
                (Some(ConditionOperand::Value), Expr::Literal(text)) => {
                    Some((ConditionValue::Value(text.clone()), true))
                }
                (Some(ConditionOperand::Value), Expr::Number(number)) => {
                    Some((ConditionValue::ValueNumber(number_key(*number)?), true))
                }
                _ => needs_attribute(expr),
            }
        }
        Expr::Compare { op, left, right } => compared(*op, left, right).or_else(|| needs_attribute(expr)),
        Expr::Call { function: Function::Not, arguments } => match of_condition(arguments.first()?)? {
            (ConditionValue::Not(_), _) | (_, false) => None,
            (value, true) if value.is_attribute() => Some((ConditionValue::Not(Box::new(value)), true)),
            (_, true) => None,
        },
        _ => needs_attribute(expr),
    }
}

/// Returns an attribute compared with a constant by order, or unequal to it; a string-value compared by order.
fn compared(op: CompareOp, left: &Expr, right: &Expr) -> Option<(ConditionValue, bool)> {
    let (path, constant, op) =
        if matches!(left, Expr::Path(_)) { (left, right, op) } else { (right, left, op.flipped()) };
    let operand = operand(path)?;
    let constant = match constant {
        Expr::Literal(text) if op == CompareOp::NotEqual => Constant::Text(text.clone()),
        Expr::Literal(text) => Constant::Number(number_key(number::parse(text))?),
        Expr::Number(number) => Constant::Number(number_key(*number)?),
        _ => return None,
    };
    match (operand, constant) {
        (ConditionOperand::Attribute(name), constant) => {
            Some((ConditionValue::AttributeCompared(name, op, constant), true))
        }
        // Whatever is no number is unequal to all numbers: that would be most values.
        (ConditionOperand::Value, Constant::Number(bits)) if op != CompareOp::NotEqual => {
            Some((ConditionValue::ValueOrdered(op, bits), true))
        }
        _ => None,
    }
}

/// `@a[. = 'v']` as `@a = 'v'`, and likewise for `text()`.
fn turned_out(path: &Path) -> Option<Expr> {
    let [Step { axis, test, predicates }] = path.steps.as_slice() else { return None };
    let [Expr::Compare { op, left, right }] = predicates.as_slice() else { return None };
    if !matches!((axis, test), (Axis::Attribute, _) | (Axis::Child, NodeTest::Text)) {
        return None;
    }
    let bare =
        Path { start: path.start.clone(), steps: vec![Step { axis: *axis, test: test.clone(), predicates: vec![] }] };
    let is_self = |expr: &Expr| matches!(operand(expr), Some(ConditionOperand::Value));
    let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(_) | Expr::Number(_));
    if is_self(left) && is_constant(right) {
        Some(Expr::Compare { op: *op, left: Box::new(Expr::Path(bare)), right: right.clone() })
    } else if is_constant(left) && is_self(right) {
        Some(Expr::Compare { op: *op, left: left.clone(), right: Box::new(Expr::Path(bare)) })
    } else {
        None
    }
}

/// Returns a condition that cannot hold without one certain attribute, such as `@a > 5` or `contains(@a, 'x')`.
fn needs_attribute(expr: &Expr) -> Option<(ConditionValue, bool)> {
    let mut names = Vec::new();
    for path in condition::necessary_paths(expr)? {
        match operand(&Expr::Path(path))? {
            ConditionOperand::Attribute(name) => names.push(name),
            ConditionOperand::Text | ConditionOperand::Value => return None,
        }
    }
    names.dedup();
    match names.as_slice() {
        [name] => Some((ConditionValue::AttributeExists(*name), false)),
        _ => None,
    }
}

/// Returns how many values other than those of attributes an expression looks up, if all that it asks for is structure and values
/// that are keys; `None` if it asks for more.
pub(super) fn content_lookups(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::And(operands) => content_lookups_of_all(operands),
        Expr::Path(Path { start: PathStart::Root | PathStart::Context, steps }) => content_lookups_of_steps(steps),
        Expr::Compare { left, right, .. } => {
            let path = if matches!(**left, Expr::Path(_)) { left } else { right };
            let Expr::Path(Path { start: PathStart::Root | PathStart::Context, steps }) = &**path else { return None };
            let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(_) | Expr::Number(_));
            let is_attribute = steps.last().is_some_and(|step| step.axis == Axis::Attribute);
            (is_constant(left) || is_constant(right)).then_some(())?;
            Some(content_lookups_of_steps(steps)? + usize::from(!is_attribute))
        }
        Expr::Call { function: Function::Not, .. } if of_condition(expr).is_some_and(|(_, is_all)| is_all) => Some(0),
        _ => condition::is_structural(expr).then_some(0),
    }
}

fn content_lookups_of_all(operands: &[Expr]) -> Option<usize> {
    operands.iter().map(content_lookups).sum()
}

fn content_lookups_of_steps(steps: &[Step]) -> Option<usize> {
    steps.iter().map(|step| content_lookups_of_all(&step.predicates)).sum()
}
