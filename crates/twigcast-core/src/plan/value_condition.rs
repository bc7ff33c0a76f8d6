//! The value conditions that one hash look-up decides for all queries at once.

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
    /// A number of levels up; 0 is the accepting element itself.
    Up(u16),
    /// A number of levels below the document node; 1 is the root element.
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
    /// The negation of another, which is about attributes.
    Not(Box<ConditionValue>),
    /// A text child with that value.
    Text(Box<str>),
    /// A text child whose value is that number (bits of the `f64`).
    TextNumber(u64),
    /// A string-value.
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
    /// Returns how much it narrows the candidates down; more is better, 0 is no better than no condition.
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

/// Returns the bits of a number, with both zeros alike; `None` for NaN, which equals nothing.
pub fn number_key(value: f64) -> Option<u64> {
    if value.is_nan() { None } else { Some((value + 0.0).to_bits()) }
}

/// The value that a condition compares.
enum ConditionOperand {
    Attribute(Name),
    Text,
    Value,
}

fn operand(expr: &Expr) -> Option<ConditionOperand> {
    let Expr::Path(Path { start: PathStart::Context, steps }) = expr else { return None };
    match steps.as_slice() {
        [] => Some(ConditionOperand::Value),
        [step] if step.predicates.is_empty() => operand_of_step(step),
        _ => None,
    }
}

/// Returns where a step leads, its predicates aside.
fn operand_of_step(step: &Step) -> Option<ConditionOperand> {
    match (step.axis, &step.test) {
        (Axis::Attribute, NodeTest::Name(NameTest::Name(name))) => Some(ConditionOperand::Attribute(*name)),
        (Axis::Child, NodeTest::Text) => Some(ConditionOperand::Text),
        (Axis::SelfAxis, NodeTest::Node) => Some(ConditionOperand::Value),
        _ => None,
    }
}

/// Returns the value condition that a condition on an element is; `None` if it is another, or asks for more.
pub(super) fn of_condition(expr: &Expr) -> Option<ConditionValue> {
    match expr {
        Expr::Path(path) => match operand(expr) {
            Some(ConditionOperand::Attribute(name)) => Some(ConditionValue::AttributeExists(name)),
            Some(ConditionOperand::Text | ConditionOperand::Value) => None,
            None => turned_out(path),
        },
        Expr::Compare { .. } => {
            let (value, op, constant) = expr.compared_with_constant()?;
            compared(operand(value)?, op, constant)
        }
        Expr::Call { function: Function::Not, arguments } => match of_condition(arguments.first()?)? {
            ConditionValue::Not(_) => None,
            value => value.is_attribute().then(|| ConditionValue::Not(Box::new(value))),
        },
        _ => None,
    }
}

/// Returns the value condition of a comparison with a constant.
fn compared(operand: ConditionOperand, op: CompareOp, constant: &Expr) -> Option<ConditionValue> {
    let constant = match constant {
        Expr::Literal(text) if op.is_equality() => Constant::Text(text.clone()),
        Expr::Literal(text) => Constant::Number(number_key(number::parse(text))?),
        Expr::Number(number) => Constant::Number(number_key(*number)?),
        _ => return None,
    };
    Some(match (operand, op, constant) {
        (ConditionOperand::Attribute(name), CompareOp::Equal, Constant::Text(text)) => {
            ConditionValue::AttributeText(name, text)
        }
        (ConditionOperand::Attribute(name), CompareOp::Equal, Constant::Number(bits)) => {
            ConditionValue::AttributeNumber(name, bits)
        }
        (ConditionOperand::Attribute(name), op, constant) => ConditionValue::AttributeCompared(name, op, constant),
        (ConditionOperand::Text, CompareOp::Equal, Constant::Text(text)) => ConditionValue::Text(text),
        (ConditionOperand::Text, CompareOp::Equal, Constant::Number(bits)) => ConditionValue::TextNumber(bits),
        (ConditionOperand::Value, CompareOp::Equal, Constant::Text(text)) => ConditionValue::Value(text),
        (ConditionOperand::Value, CompareOp::Equal, Constant::Number(bits)) => ConditionValue::ValueNumber(bits),
        // Whatever is no number is unequal to all numbers: that would be most values.
        (ConditionOperand::Value, op, Constant::Number(bits)) if op != CompareOp::NotEqual => {
            ConditionValue::ValueOrdered(op, bits)
        }
        _ => return None,
    })
}

/// Returns the value condition of `@a[. = 'v']`, which is that of `@a = 'v'`, and likewise for `text()`.
fn turned_out(path: &Path) -> Option<ConditionValue> {
    let Path { start: PathStart::Context, steps } = path else { return None };
    let [step @ Step { predicates, .. }] = steps.as_slice() else { return None };
    let [predicate] = predicates.as_slice() else { return None };
    let (this, op, constant) = predicate.compared_with_constant()?;
    match (operand_of_step(step)?, operand(this)?) {
        (ConditionOperand::Value, _) => None,
        (operand, ConditionOperand::Value) => compared(operand, op, constant),
        _ => None,
    }
}

/// Returns how many values other than those of attributes an expression looks up, if all that it asks for is structure
/// and values that are value conditions; `None` if it asks for more.
pub(super) fn content_lookups(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::And(operands) => content_lookups_of_all(operands),
        Expr::Path(Path { start: PathStart::Root | PathStart::Context, steps }) => content_lookups_of_steps(steps),
        Expr::Compare { .. } => {
            let (Expr::Path(Path { start: PathStart::Root | PathStart::Context, steps }), ..) =
                expr.compared_with_constant()?
            else {
                return None;
            };
            let is_attribute = steps.last().is_some_and(|step| step.axis == Axis::Attribute);
            Some(content_lookups_of_steps(steps)? + usize::from(!is_attribute))
        }
        Expr::Call { function: Function::Not, .. } if of_condition(expr).is_some() => Some(0),
        _ => condition::is_structural(expr).then_some(0),
    }
}

fn content_lookups_of_all(operands: &[Expr]) -> Option<usize> {
    operands.iter().map(content_lookups).sum()
}

fn content_lookups_of_steps(steps: &[Step]) -> Option<usize> {
    steps.iter().map(|step| content_lookups_of_all(&step.predicates)).sum()
}
