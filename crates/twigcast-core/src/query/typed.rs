//! Expressions that have a type of XML Schema: what they are compared as, and how.

use std::cmp::Ordering;

use super::ast::{ArithmeticOp, CompareOp, Expr};
use super::functions::{ExprType, Function};
use crate::util::number;
use crate::util::temporal::{Component, TemporalType};

pub use super::values::{CastType, TypedConstant, TypedValue};

impl TypedValue {
    /// Returns whether it compares so with another value of its type.
    pub fn holds(&self, op: CompareOp, other: &Self) -> bool {
        let ordering = match (self, other) {
            (Self::Number(a), Self::Number(b)) => return op.holds(*a, *b),
            (Self::Temporal(a), Self::Temporal(b)) if a.kind() == b.kind() => a.number().cmp(&b.number()),
            (Self::Version(a), Self::Version(b)) => a.cmp(b),
            (Self::Name(a), Self::Name(b)) => a.cmp(b),
            _ => return false,
        };
        op.holds_for(ordering)
    }
}

impl CompareOp {
    /// Returns whether the comparison holds between two values of that order.
    pub fn holds_for(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

impl Function {
    /// Returns the part of a date, time or duration that the function returns, and of which type.
    pub fn component(self) -> Option<(TemporalType, Component)> {
        use Component as C;
        use TemporalType::{Date, DateTime, DayTimeDuration, Time, YearMonthDuration};
        Some(match self {
            Self::YearFromDateTime => (DateTime, C::Year),
            Self::MonthFromDateTime => (DateTime, C::Month),
            Self::DayFromDateTime => (DateTime, C::Day),
            Self::HoursFromDateTime => (DateTime, C::Hours),
            Self::MinutesFromDateTime => (DateTime, C::Minutes),
            Self::SecondsFromDateTime => (DateTime, C::Seconds),
            Self::YearFromDate => (Date, C::Year),
            Self::MonthFromDate => (Date, C::Month),
            Self::DayFromDate => (Date, C::Day),
            Self::HoursFromTime => (Time, C::Hours),
            Self::MinutesFromTime => (Time, C::Minutes),
            Self::SecondsFromTime => (Time, C::Seconds),
            Self::YearsFromDuration => (YearMonthDuration, C::Year),
            Self::MonthsFromDuration => (YearMonthDuration, C::Month),
            Self::DaysFromDuration => (DayTimeDuration, C::Day),
            Self::HoursFromDuration => (DayTimeDuration, C::Hours),
            Self::MinutesFromDuration => (DayTimeDuration, C::Minutes),
            Self::SecondsFromDuration => (DayTimeDuration, C::Seconds),
            _ => return None,
        })
    }

    /// Returns the type that the function converts to.
    pub fn cast(self) -> Option<CastType> {
        match (self, self.result_type()) {
            // It reads no text.
            (Self::TwigNow, _) => None,
            (Self::XsDouble | Self::XsDecimal | Self::XsInteger, _) => Some(CastType::Double),
            (_, ExprType::Temporal(kind)) => Some(CastType::Temporal(kind)),
            (Self::TwigVersion, _) => Some(CastType::Version),
            _ => None,
        }
    }

    /// Returns whether a function of numbers has no value where one of its arguments has none.
    pub(crate) fn needs_numbers(self) -> bool {
        matches!(self, Self::Abs | Self::Floor | Self::Ceiling | Self::Round | Self::Min | Self::Max | Self::Avg)
    }

    /// Returns a text as the number that one of the functions for numbers converts it to.
    pub(crate) fn number_of_text(self, text: &str) -> Option<f64> {
        match self {
            Self::XsDouble => number::parse_double(text),
            Self::XsDecimal => number::parse_decimal(text),
            Self::XsInteger => number::parse_decimal(text).filter(|_| !text.contains('.')),
            _ => None,
        }
    }
}

impl Expr {
    /// Returns the type that texts of nodes are read as where they are compared with the expression, whose type is given;
    /// `None`: that of XPath 1.0.
    pub fn cast_type(&self, of: ExprType) -> Option<CastType> {
        match of {
            ExprType::Temporal(kind) => Some(CastType::Temporal(kind)),
            ExprType::Version => Some(CastType::Version),
            ExprType::Number => self.is_double().then_some(CastType::Double),
            ExprType::NodeSet | ExprType::Boolean | ExprType::String | ExprType::QName => None,
        }
    }

    /// Returns whether a number is one of XPath 3.1, which may be missing, and then compares with nothing.
    fn is_double(&self) -> bool {
        match self {
            Self::Typed(TypedConstant::Double(_)) => true,
            Self::Call { function, .. }
                if function.cast() == Some(CastType::Double) || function.component().is_some() =>
            {
                true
            }
            Self::Call { function, arguments } => {
                function.needs_numbers() && arguments.iter().any(Self::is_double_each)
            }
            Self::Arithmetic { op: ArithmeticOp::DivideDurations, .. } => true,
            Self::Arithmetic { left, right, .. } => left.is_double() || right.is_double(),
            Self::Negate(operand) => operand.is_double(),
            _ => false,
        }
    }

    /// Returns whether an argument is such a number, or makes one of each node.
    fn is_double_each(&self) -> bool {
        matches!(self, Self::Map { value, .. } if value.is_double()) || self.is_double()
    }
}

/// The type that XQuery has for a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberForm {
    Integer,
    /// A decimal number that is written in the query, or read from a text: a double holds it as it is written.
    Decimal,
    Double,
    /// A double, or the integer 0 where there is nothing to sum.
    DoubleOrZero,
    /// A decimal number that a double may not hold exactly, or one of a type that is not known.
    Unknown,
}

impl NumberForm {
    /// Returns the form of what an operator makes of two numbers.
    pub(super) fn combined(op: ArithmeticOp, left: Self, right: Self) -> Self {
        match (op, left, right) {
            (_, Self::Unknown, _) | (_, _, Self::Unknown) => Self::Unknown,
            (_, Self::Double, _) | (_, _, Self::Double) => Self::Double,
            (_, Self::DoubleOrZero, _) | (_, _, Self::DoubleOrZero) => Self::Unknown,
            (
                ArithmeticOp::Add | ArithmeticOp::Subtract | ArithmeticOp::Multiply | ArithmeticOp::Modulo,
                Self::Integer,
                Self::Integer,
            ) => Self::Integer,
            _ => Self::Unknown,
        }
    }
}
