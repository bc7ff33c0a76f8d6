//! Operands: what of an element a condition compares with a constant, and how.
//!
//! Whatever depends on the element alone can be an operand: its text, an attribute, child elements, the nodes of any path,
//! and any function of these. So a function of a node is computed once for each node, and indexed like a plain value.

use super::value_condition::number_key;
use crate::query::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart, Step};
use crate::query::functions::ExprType;
use crate::query::position::uses_position;
use crate::util::number;
use crate::vocabulary::Name;

/// A part of an element that is compared. An operand has no value, one, or several; a test holds if some value passes.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Its string-value.
    Own,
    /// The value of an attribute.
    Attribute(Name),
    /// The values of its text children.
    Texts,
    /// The string-values of its child elements of a name.
    Children(NameTest),
    /// The string-values of the nodes that an expression selects from it.
    Nodes(Box<Expr>),
    /// The string that an expression has there.
    Text(Box<Expr>),
    /// The number that an expression has there.
    Number(Box<Expr>),
}

/// A range of numbers, both ends included, in the integers of [`ordered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NumberRange {
    /// The least.
    pub low: u64,
    /// The greatest; below `low` if no number is in the range.
    pub high: u64,
}

/// A comparison of the values of an operand with a constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// Some value is that text.
    Equals(Box<str>),
    /// Some value is another text.
    Differs(Box<str>),
    /// Some value starts with that text, which is not empty.
    StartsWith(Box<str>),
    /// Some value contains that text, which is not empty.
    Contains(Box<str>),
    /// Some value is a number of that range, of which one end is open, or both are the same number.
    Within(NumberRange),
    /// Some value is a number not below the range, and some value one not above it: two conditions in one.
    Overlaps(NumberRange),
    /// Some value is another number than that one (given by its bits), or none.
    OtherNumber(u64),
}

/// A condition on an element that compares an operand with a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueTest {
    /// The operand.
    pub operand: Operand,
    /// The comparison and its constant.
    pub relation: Relation,
}

/// Returns a number, given by its bits and not NaN, as an integer of the same order.
pub fn ordered(bits: u64) -> u64 {
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// Returns the number that an integer of [`ordered`] stands for.
pub(super) fn number(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}

impl NumberRange {
    /// Returns the numbers that compare so with a bound, which is not NaN.
    fn of(op: CompareOp, bits: u64) -> Option<Self> {
        let (least, greatest) = (ordered(f64::NEG_INFINITY.to_bits()), ordered(f64::INFINITY.to_bits()));
        let bound = ordered(bits);
        Some(match op {
            CompareOp::Equal => Self { low: bound, high: bound },
            CompareOp::Less => Self { low: least, high: bound - 1 },
            CompareOp::LessOrEqual => Self { low: least, high: bound },
            CompareOp::Greater => Self { low: bound + 1, high: greatest },
            CompareOp::GreaterOrEqual => Self { low: bound, high: greatest },
            CompareOp::NotEqual => return None,
        })
    }

    /// Returns whether it is a single number.
    pub fn is_point(self) -> bool {
        self.low == self.high
    }

    pub(super) fn is_open_below(self) -> bool {
        self.low == ordered(f64::NEG_INFINITY.to_bits())
    }

    pub(super) fn is_open_above(self) -> bool {
        self.high == ordered(f64::INFINITY.to_bits())
    }

    /// Returns the range between a lower and an upper bound, if these are one of each.
    pub(super) fn between(self, other: Self) -> Option<Self> {
        if self.is_point() || other.is_point() {
            None
        } else if self.is_open_above() && other.is_open_below() {
            Some(Self { low: self.low, high: other.high })
        } else if self.is_open_below() && other.is_open_above() {
            Some(Self { low: other.low, high: self.high })
        } else {
            None
        }
    }
}

impl Operand {
    /// Returns where a path leads, as an operand of the node that it starts from; `None` if it starts elsewhere.
    pub(super) fn of_steps(steps: &[Step]) -> Self {
        match steps {
            [] => Self::Own,
            [step] if step.predicates.is_empty() => match (step.axis, &step.test) {
                (Axis::SelfAxis, NodeTest::Node) => Self::Own,
                (Axis::Attribute, NodeTest::Name(NameTest::Name(name))) => Self::Attribute(*name),
                (Axis::Child, NodeTest::Text) => Self::Texts,
                (Axis::Child, NodeTest::Name(test)) => Self::Children(*test),
                _ => Self::nodes(steps),
            },
            _ => Self::nodes(steps),
        }
    }

    fn nodes(steps: &[Step]) -> Self {
        Self::Nodes(Box::new(Expr::Path(Path { start: PathStart::Context, steps: steps.to_vec() })))
    }

    /// Returns the step that leads from an element to the operand's nodes; `None` for the element itself.
    pub(super) fn as_step(&self) -> Option<Option<Step>> {
        let step = |axis, test| Some(Some(Step { axis, test, predicates: Vec::new() }));
        match self {
            Self::Own => Some(None),
            Self::Attribute(name) => step(Axis::Attribute, NodeTest::Name(NameTest::Name(*name))),
            Self::Texts => step(Axis::Child, NodeTest::Text),
            Self::Children(test) => step(Axis::Child, NodeTest::Name(*test)),
            Self::Nodes(_) | Self::Text(_) | Self::Number(_) => None,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Returns the operand of a function that takes a string.
    fn of_string(expr: &Expr) -> Option<Self> {
        if uses_position(expr) {
            return None;
        }
        if let Expr::Path(Path { start: PathStart::Context, steps }) = expr {
            // At most one node: the empty string of none contains no text that is asked for.
            let operand = Self::of_steps(steps);
            if matches!(operand, Self::Own | Self::Attribute(_)) {
                return Some(operand);
            }
        }
        Some(Self::Text(Box::new(expr.clone())))
    }

    /// Returns the operand of a comparison other than a path.
    fn of_value(expr: &Expr) -> Option<Self> {
        if uses_position(expr) || matches!(expr, Expr::Number(_) | Expr::Literal(_)) {
            return None;
        }
        match expr.static_type(&[]) {
            ExprType::String => Some(Self::Text(Box::new(expr.clone()))),
            ExprType::Number => Some(Self::Number(Box::new(expr.clone()))),
            ExprType::NodeSet => Some(Self::Nodes(Box::new(expr.clone()))),
            ExprType::Boolean => None,
        }
    }
}

/// Returns how an operand is compared with a constant; `None` if no value could pass, or every one would.
pub(super) fn relation(operand: &Operand, op: CompareOp, constant: &Expr) -> Option<Relation> {
    let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
    let bits = match constant {
        Expr::Literal(text) if is_equality && !operand.is_number() => {
            let text = text.clone();
            return Some(if op == CompareOp::Equal { Relation::Equals(text) } else { Relation::Differs(text) });
        }
        Expr::Literal(text) => number_key(number::parse(text))?,
        Expr::Number(number) => number_key(*number)?,
        _ => return None,
    };
    Some(NumberRange::of(op, bits).map_or(Relation::OtherNumber(bits), Relation::Within))
}

impl ValueTest {
    /// Returns the test that an expression is, paths compared with constants aside.
    pub(super) fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Compare { op, left, right } => {
                let (value, constant, op) = match (&**left, &**right) {
                    (value, constant @ (Expr::Literal(_) | Expr::Number(_))) => (value, constant, *op),
                    (constant @ (Expr::Literal(_) | Expr::Number(_)), value) => (value, constant, op.flipped()),
                    _ => return None,
                };
                let operand = Operand::of_value(value)?;
                let relation = relation(&operand, op, constant)?;
                Some(Self { operand, relation })
            }
            Expr::Call { function: function @ (Function::Contains | Function::StartsWith), arguments } => {
                let [value, Expr::Literal(part)] = arguments.as_slice() else { return None };
                if part.is_empty() {
                    return None;
                }
                let operand = Operand::of_string(value)?;
                let part = part.clone();
                let relation = match function {
                    Function::Contains => Relation::Contains(part),
                    _ => Relation::StartsWith(part),
                };
                Some(Self { operand, relation })
            }
            _ => None,
        }
    }
}
