//! Values with a type of XML Schema: constants of a query, and what texts of a message are read as.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use super::functions::{ExprType, Function};
use super::version::Version;
use crate::util::number::{self, constant_bits};
use crate::util::temporal::{Temporal, TemporalType};
use crate::vocabulary::NamespaceId;

/// A type that a comparison reads the texts of nodes as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CastType {
    /// A number, which may have an exponent.
    Double,
    /// A date, a time or a duration.
    Temporal(TemporalType),
    /// A version.
    Version,
}

/// A value with a type.
#[derive(Clone, Debug, PartialEq)]
pub enum TypedValue {
    /// A number.
    Number(f64),
    /// A date, a time or a duration.
    Temporal(Temporal),
    /// A version.
    Version(Version),
    /// An expanded name, as `Q{namespace}local`.
    Name(Box<str>),
}

/// A constant of a type, such as `xs:date('2026-11-30')`.
#[derive(Clone, Debug)]
pub enum TypedConstant {
    /// A number.
    Double(f64),
    /// A date, a time or a duration.
    Temporal(Temporal),
    /// A version, and as the query writes it.
    Version(Version, Box<str>),
    /// A name: its namespace, and the whole of it as `Q{namespace}local`.
    Name(NamespaceId, Box<str>),
}

/// Constants are equal if nothing tells them apart; 0 and -0 are different numbers.
impl PartialEq for TypedConstant {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Double(ours), Self::Double(theirs)) => constant_bits(*ours) == constant_bits(*theirs),
            (Self::Temporal(ours), Self::Temporal(theirs)) => ours == theirs,
            (Self::Version(ours, text), Self::Version(theirs, other)) => (ours, text) == (theirs, other),
            (Self::Name(ours, text), Self::Name(theirs, other)) => (ours, text) == (theirs, other),
            _ => false,
        }
    }
}

impl Hash for TypedConstant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Double(number) => constant_bits(*number).hash(state),
            Self::Temporal(temporal) => temporal.hash(state),
            Self::Version(version, _) => version.hash(state),
            Self::Name(_, name) => name.hash(state),
        }
    }
}

impl CastType {
    /// Returns a text as a value of the type; `None` if it is none.
    pub fn parse(self, text: &str) -> Option<TypedValue> {
        Some(match self {
            Self::Double => TypedValue::Number(number::parse_double(text)?),
            Self::Temporal(kind) => TypedValue::Temporal(Temporal::parse(kind, text)?),
            Self::Version => TypedValue::Version(Version::parse(text)?),
        })
    }
}

impl TypedConstant {
    /// Returns the value.
    pub fn value(&self) -> TypedValue {
        match self {
            Self::Double(number) => TypedValue::Number(*number),
            Self::Temporal(temporal) => TypedValue::Temporal(*temporal),
            Self::Version(version, _) => TypedValue::Version(version.clone()),
            Self::Name(_, name) => TypedValue::Name(name.clone()),
        }
    }

    /// Returns the function and the text that make the constant; of a name, the whole of it.
    pub(super) fn call(&self) -> (&'static str, Cow<'_, str>) {
        match self {
            Self::Double(number) => (Function::XsDouble.name(), number::format_double(*number)),
            Self::Temporal(temporal) => (temporal.kind().name(), temporal.to_string().into()),
            Self::Version(_, text) => (Function::TwigVersion.name(), (&**text).into()),
            Self::Name(_, name) => (Function::XsQName.name(), (&**name).into()),
        }
    }

    /// Returns the type of an expression that is the constant.
    pub fn static_type(&self) -> ExprType {
        match self {
            Self::Double(_) => ExprType::Number,
            Self::Temporal(temporal) => ExprType::Temporal(temporal.kind()),
            Self::Version(..) => ExprType::Version,
            Self::Name(..) => ExprType::QName,
        }
    }
}
