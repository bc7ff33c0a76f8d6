//! Every error that the core can return. The binding layer maps each kind to one Python exception.

use std::fmt;

/// A query was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// Why, for the caller that wants to decide.
    pub kind: QueryErrorKind,
    /// What is wrong, in one sentence, naming the construct and (where there is one) what to write instead.
    pub message: String,
    /// Where in the query's text, in characters from 1.
    pub column: u32,
    /// What the parser would have accepted there, most likely first; empty when that is not the point.
    pub expected: Vec<String>,
}

/// Why a query was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryErrorKind {
    /// It is no query of the language.
    Syntax,
    /// It is one, but uses something that this version does not evaluate.
    Unsupported,
    /// It hangs on a prefix that has no namespace.
    UndeclaredPrefix,
    /// It is over a limit.
    Limit {
        /// Field name in [`crate::limits::Limits`].
        limit: &'static str,
        /// The limit's value.
        value: usize,
    },
}

/// A message was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageError {
    /// Why, for the caller that wants to decide.
    pub kind: MessageErrorKind,
    /// What is wrong, in one sentence.
    pub reason: String,
    /// Line of the place, from 1. Line ends are LF, CR LF or CR.
    pub line: u32,
    /// Column of the place, in characters from 1.
    pub column: u32,
}

/// Why a message was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageErrorKind {
    /// It is not well-formed, or not namespace-well-formed.
    Malformed,
    /// It is over a limit.
    Limit {
        /// Field name in [`crate::limits::Limits`].
        limit: &'static str,
        /// The limit's value.
        value: usize,
    },
    /// It is not UTF-8, or declares entities or attribute defaults: convert it with expat and scan the result.
    NeedsConversion,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.reason)
    }
}

impl std::error::Error for QueryError {}
impl std::error::Error for MessageError {}
