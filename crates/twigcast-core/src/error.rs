//! Every error that the core can return. The binding layer maps each kind to one Python exception.

use std::fmt;

/// A query was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// The reason as a code, for callers that decide by it.
    pub kind: QueryErrorKind,
    /// One sentence that names the construct and, where there is one, what to write instead.
    pub message: String,
    /// The position in the query's text, in characters from 1.
    pub column: u32,
    /// The alternatives that the parser accepts there, most likely first; empty where these do not help.
    pub expected: Vec<String>,
}

/// The reason why a query was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryErrorKind {
    /// The text is no query of the language.
    Syntax,
    /// The query uses something that this version does not evaluate.
    Unsupported,
    /// A prefix has no namespace.
    UndeclaredPrefix,
    /// The query is over a limit.
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
    /// The reason as a code, for callers that decide by it.
    pub kind: MessageErrorKind,
    /// One sentence that says what is wrong.
    pub reason: String,
    /// Line of the place, from 1. Line ends are LF, CR LF or CR.
    pub line: u32,
    /// Column of the place, in characters from 1.
    pub column: u32,
}

/// The reason why a message was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageErrorKind {
    /// The message is not well-formed, or not namespace-well-formed.
    Malformed,
    /// The message is over a limit.
    Limit {
        /// Field name in [`crate::limits::Limits`].
        limit: &'static str,
        /// The limit's value.
        value: usize,
    },
    /// The message is not UTF-8, or its DOCTYPE changes it and the caller needs the message as it is then: convert it and scan
    /// the result.
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
