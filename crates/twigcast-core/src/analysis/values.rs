//! Abstract values: what is known of a value on all messages.

use std::borrow::Cow;

use crate::query::ast::{CompareOp, Expr, Function};
use crate::query::functions::{ExprType, ValueWithoutNodes};
use crate::util::number;

use super::kinds::NodeKinds;

/// Facts about a node-set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AbstractNodes {
    /// Kinds that nodes in it may be of; none: it is empty.
    pub kinds: NodeKinds,
    /// Kinds of which one node is certainly in it; none if it may be empty.
    pub sure: NodeKinds,
    /// Certainly no more than one node is in it.
    pub single: bool,
}

impl AbstractNodes {
    pub const NONE: Self = Self { kinds: NodeKinds::NONE, sure: NodeKinds::NONE, single: true };
    pub const ANY: Self = Self { kinds: NodeKinds::ALL, sure: NodeKinds::NONE, single: false };

    /// Returns a set of one node of one of these kinds.
    pub fn one(kinds: NodeKinds) -> Self {
        Self { kinds, sure: kinds, single: true }
    }

    /// Returns `true` if it certainly has a node.
    pub fn is_sure(self) -> bool {
        self.sure != NodeKinds::NONE
    }

    /// Returns `true` if it is certainly empty.
    pub fn is_none(self) -> bool {
        self.kinds == NodeKinds::NONE
    }

    pub fn count(self) -> AbstractNumber {
        let most = match (self.is_none(), self.single) {
            (true, _) => 0.0,
            (false, true) => 1.0,
            (false, false) => f64::INFINITY,
        };
        AbstractNumber::counted(if self.is_sure() { 1.0 } else { 0.0 }, most)
    }
}

/// Facts about a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AbstractNumber {
    /// The number.
    Is(f64),
    /// A whole number, not NaN, from the first bound to the second.
    Whole(f64, f64),
    /// Nothing.
    Any,
}

impl AbstractNumber {
    pub const ANY: Self = Self::Any;

    /// Returns a whole number between two bounds.
    pub fn counted(least: f64, most: f64) -> Self {
        if least == most { Self::Is(least) } else { Self::Whole(least, most) }
    }

    fn bounds(self) -> Option<(f64, f64)> {
        match self {
            Self::Is(number) if !number.is_nan() => Some((number, number)),
            Self::Whole(least, most) => Some((least, most)),
            _ => None,
        }
    }

    fn is_fraction(self) -> bool {
        matches!(self, Self::Is(number) if number.fract() != 0.0)
    }

    /// Returns the truth of a comparison with another number, if the bounds decide it.
    pub fn compare(self, op: CompareOp, other: Self) -> Option<bool> {
        let ((least, most), (other_least, other_most)) = (self.bounds()?, other.bounds()?);
        match op {
            CompareOp::Equal => {
                let apart = most < other_least || other_most < least;
                let unlike = matches!((self, other), (Self::Whole(..), Self::Is(_)) if other.is_fraction())
                    || matches!((self, other), (Self::Is(_), Self::Whole(..)) if self.is_fraction());
                (apart || unlike).then_some(false)
            }
            CompareOp::NotEqual => self.compare(CompareOp::Equal, other).map(|truth| !truth),
            CompareOp::Less if most < other_least => Some(true),
            CompareOp::Less if least >= other_most => Some(false),
            CompareOp::LessOrEqual if most <= other_least => Some(true),
            CompareOp::LessOrEqual if least > other_most => Some(false),
            CompareOp::Greater => other.compare(CompareOp::Less, self),
            CompareOp::GreaterOrEqual => other.compare(CompareOp::LessOrEqual, self),
            CompareOp::Less | CompareOp::LessOrEqual => None,
        }
    }
}

/// Facts about a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AbstractValue<'e> {
    Nodes(AbstractNodes),
    Boolean(Option<bool>),
    Number(AbstractNumber),
    Text(Option<Cow<'e, str>>),
    /// A date, a duration or another value of a type of its own, if it is one.
    Typed,
    /// Of a variable, not even the type.
    Unknown,
}

impl AbstractValue<'_> {
    /// Returns a value of which no more than the type is known.
    pub fn unknown(of: ExprType) -> Self {
        match of {
            ExprType::NodeSet => AbstractValue::Nodes(AbstractNodes::ANY),
            ExprType::Boolean => AbstractValue::Boolean(None),
            ExprType::Number => AbstractValue::Number(AbstractNumber::ANY),
            ExprType::String => AbstractValue::Text(None),
            ExprType::Temporal(_) | ExprType::Version | ExprType::QName => AbstractValue::Typed,
        }
    }

    /// Returns the value that a function has without nodes.
    pub fn of(value: ValueWithoutNodes) -> Self {
        match value {
            ValueWithoutNodes::Boolean(truth) => AbstractValue::Boolean(Some(truth)),
            ValueWithoutNodes::Number(number) => AbstractValue::Number(AbstractNumber::Is(number)),
            ValueWithoutNodes::EmptyString => AbstractValue::Text(Some(Cow::Borrowed(""))),
            ValueWithoutNodes::Nothing => AbstractValue::Nodes(AbstractNodes::NONE),
        }
    }

    /// Returns the value as a boolean, if that is known.
    pub fn truth(&self) -> Option<bool> {
        match self {
            Self::Nodes(nodes) if nodes.is_none() => Some(false),
            Self::Nodes(nodes) => nodes.is_sure().then_some(true),
            Self::Boolean(truth) => *truth,
            Self::Number(AbstractNumber::Is(number)) => Some(*number != 0.0 && !number.is_nan()),
            Self::Number(AbstractNumber::Whole(least, _)) => (*least > 0.0).then_some(true),
            Self::Text(Some(text)) => Some(!text.is_empty()),
            Self::Number(AbstractNumber::Any) | Self::Text(None) | Self::Typed | Self::Unknown => None,
        }
    }

    /// Returns `true` for a node-set that is certainly empty.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Nodes(nodes) if nodes.is_none())
    }

    pub fn is_empty_text(&self) -> bool {
        matches!(self, Self::Text(Some(text)) if text.is_empty())
    }

    /// Returns the value as an expression, where it is known.
    pub fn constant(&self) -> Option<Expr> {
        Some(match self {
            Self::Number(AbstractNumber::Is(number)) => Expr::Number(*number),
            Self::Text(Some(text)) => Expr::Literal(text.as_ref().into()),
            Self::Boolean(Some(truth)) => {
                Expr::Call { function: if *truth { Function::True } else { Function::False }, arguments: Vec::new() }
            }
            _ => return None,
        })
    }

    /// Returns the value as a number, where it is a known text or number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(AbstractNumber::Is(number)) => Some(*number),
            Self::Text(Some(text)) => Some(number::parse(text)),
            _ => None,
        }
    }
}
