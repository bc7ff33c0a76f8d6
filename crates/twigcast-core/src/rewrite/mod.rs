//! For-Where-Return results: constant bytes and slices of the message, one after the other.
//!
//! A query is compiled once into a [`Program`] (`program.rs`): constructors become ready-made bytes, conjuncts of `where`
//! move to the earliest clause after which they can be decided, and an expression that speaks about one `for` variable
//! becomes relative to that variable's node. Running it (`run.rs`) walks the bindings and writes the result; elements of
//! the message are copied as they stand there, with the namespace declarations that they need and the place they come
//! to does not have (`copy.rs`). Nothing is parsed or serialised again. A [`Interpreter`] runs many programs on one message;
//! what they have in common is found when they are compiled (`family.rs`) and computed once a message (`shared.rs`).
//! Results go one after the other to one buffer, and from there on before it grows large (`output.rs`).

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

/// A delivery was rejected: the message matches, but the query makes no result of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtractError {
    /// The query could not be evaluated.
    Evaluation(EvalError),
    /// The result is over [`crate::limits::Limits::result_bytes_max`].
    TooLarge {
        /// The limit's value.
        bytes_max: usize,
    },
    /// There is no memory for all results of a message at once.
    NoMemory {
        /// Bytes that were asked for.
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
            Self::NoMemory { bytes } => {
                write!(f, "there is no memory for all results of the message at once, {bytes} bytes")
            }
            Self::AttributeAfterContent { name } => {
                write!(f, "the attribute {name} was selected after content of the element it should go to")
            }
            Self::DuplicateAttribute { name } => {
                write!(f, "the attribute {name} was selected for an element that already has it")
            }
            Self::LoneNode { name } => {
                write!(f, "the attribute or namespace {name} cannot stand on its own in a result")
            }
        }
    }
}

impl std::error::Error for ExtractError {}
