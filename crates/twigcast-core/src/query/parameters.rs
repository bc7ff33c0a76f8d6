//! Parameters: values that a subscription gives to the variables of its query.
//!
//! A value is put where the query names it when the query is parsed, as a literal of its type: what it holds is never read as
//! text of a query. So a query with parameters runs as if its author had written the values.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use super::ast::{Expr, Function};
use crate::util::number::constant_bits;

/// The values of a subscription's parameters, by name without `$`.
pub type Parameters = BTreeMap<String, ParameterValue>;

/// No parameters.
pub static NO_PARAMETERS: Parameters = BTreeMap::new();

/// The value of a parameter.
#[derive(Clone, Debug)]
pub enum ParameterValue {
    /// A text.
    Text(Box<str>),
    /// A number, which is finite.
    Number(f64),
    /// A truth value.
    Boolean(bool),
    /// Texts, numbers and truth values: what is compared with it is compared with each.
    List(Vec<ParameterValue>),
}

/// Values are equal if nothing tells them apart; 0 and -0 are different numbers.
impl PartialEq for ParameterValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(ours), Self::Text(theirs)) => ours == theirs,
            (Self::Number(ours), Self::Number(theirs)) => constant_bits(*ours) == constant_bits(*theirs),
            (Self::Boolean(ours), Self::Boolean(theirs)) => ours == theirs,
            (Self::List(ours), Self::List(theirs)) => ours == theirs,
            _ => false,
        }
    }
}

impl Eq for ParameterValue {}

impl Hash for ParameterValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Text(text) => text.hash(state),
            Self::Number(number) => constant_bits(*number).hash(state),
            Self::Boolean(truth) => truth.hash(state),
            Self::List(values) => values.hash(state),
        }
    }
}

impl ParameterValue {
    /// Returns the literal of a value that is no list.
    pub(super) fn literal(&self) -> Option<Expr> {
        Some(match self {
            Self::Text(text) => Expr::Literal(text.clone()),
            Self::Number(number) => Expr::Number(*number),
            Self::Boolean(truth) => {
                let function = if *truth { Function::True } else { Function::False };
                Expr::Call { function, arguments: Vec::new() }
            }
            Self::List(_) => return None,
        })
    }
}
