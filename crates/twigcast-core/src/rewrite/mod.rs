//! Results of For-Where-Return queries: constant bytes and slices of the message, one after the other.
//!
//! A query is compiled once into a [`Program`] ([`program`]). The [`Interpreter`] runs programs on one message
//! ([`interpreter`]): it visits the bindings and writes the results. Elements of the message are copied as they stand
//! there; nothing is parsed or serialised again. What programs have in common is computed once per message
//! ([`sharing`]). Thousands of queries of the most frequent form are decided and rewritten together instead
//! ([`batch`]). Results are written to one buffer one after the other, which is passed on before it grows large
//! ([`output`], [`run_buffer`]).
//!
//! ```
//! use twigcast_core::engine::{Engine, Matcher, QueryContext};
//! use twigcast_core::limits::Limits;
//! use twigcast_core::rewrite::Payloads;
//!
//! let mut engine = Engine::new(Limits::default());
//! let query = "for $b in /books/book where $b/year = 1999 return <hit>{$b/title}</hit>";
//! engine.add("alice", query, &QueryContext::default(), false).unwrap();
//!
//! let message = b"<books><book><year>1999</year><title>Iliad</title></book></books>";
//! let (mut matcher, mut payloads) = (Matcher::new(), Payloads::default());
//! engine.run_delivering(&mut matcher, message).unwrap();
//! let deliveries = engine.deliver(&mut matcher, message, &mut payloads);
//! assert_eq!(deliveries.slots.len(), 1);
//! assert_eq!(payloads.get(deliveries.numbers[0] as usize), Some(&b"<hit><title>Iliad</title></hit>"[..]));
//! ```

pub(crate) mod batch;
mod interpreter;
mod output;
pub(crate) mod program;
mod run_buffer;
mod sharing;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::eval::EvalError;

#[cfg(target_arch = "x86_64")]
pub(crate) use batch::use_avx2;
pub use batch::{PreparedResults, ResultIds};
pub use interpreter::Interpreter;
pub use output::{Payloads, Sink};
pub use program::Program;
pub use program::family::Interner;

/// The reason why a query that matches a message has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtractError {
    /// The query could not be evaluated.
    Evaluation(EvalError),
    /// The result is over [`crate::limits::Limits::result_bytes_max`].
    TooLarge {
        /// The value of the limit.
        bytes_max: usize,
    },
    /// The results of the message are over [`crate::limits::Limits::message_result_bytes_max`] together, and this is one of
    /// those that came last.
    OverMessageLimit {
        /// The value of the limit.
        message_bytes_max: usize,
    },
    /// The memory for all results of a message at once is not available.
    NoMemory {
        /// Bytes requested.
        bytes: usize,
    },
    /// An attribute was selected where the element already has content.
    AttributeAfterContent {
        /// Its name as written in the message.
        name: String,
    },
    /// An attribute was selected that the element already has.
    DuplicateAttribute {
        /// Its name as written in the message.
        name: String,
    },
    /// A name was computed from what is no name.
    NoName {
        /// The value.
        value: String,
    },
    /// An attribute or namespace was selected outside any element.
    LoneNode {
        /// Its name as written in the message.
        name: String,
    },
}

impl From<EvalError> for ExtractError {
    fn from(error: EvalError) -> Self {
        Self::Evaluation(error)
    }
}

impl fmt::Display for ExtractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evaluation(error) => error.fmt(f),
            Self::TooLarge { bytes_max } => {
                write!(f, "the result is over the limit result_bytes_max = {bytes_max}")
            }
            Self::OverMessageLimit { message_bytes_max } => {
                write!(
                    f,
                    "the results of the message together are over the limit message_result_bytes_max = \
                     {message_bytes_max}, and this one came last"
                )
            }
            Self::NoMemory { bytes } => {
                write!(f, "there is no memory for all results of the message at once, {bytes} bytes")
            }
            Self::AttributeAfterContent { name } => {
                write!(f, "the attribute {name} was selected after content of the element it should go to")
            }
            Self::DuplicateAttribute { name } => {
                write!(f, "the attribute {name} was selected for an element that already has it")
            }
            Self::NoName { value } => {
                let shown: String = value.chars().take(40).collect();
                write!(
                    f,
                    "the computed name of an element or attribute is {shown:?}, which is no name without a prefix"
                )
            }
            Self::LoneNode { name } => {
                write!(f, "the attribute or namespace {name} cannot stand on its own in a result")
            }
        }
    }
}

impl std::error::Error for ExtractError {}
