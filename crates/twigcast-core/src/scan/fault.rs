//! Faults of a message, as offsets: lines are counted only when an error is shown.

use crate::error::{MessageError, MessageErrorKind};
use crate::scan::position::locate;

/// A fault at a byte offset. Boxed, so that the paths without faults pass a single word around.
#[derive(Debug)]
pub struct Fault(Box<FaultDetails>);

#[derive(Debug)]
struct FaultDetails {
    kind: MessageErrorKind,
    at: usize,
    reason: String,
}

/// Result of a step of the scanner.
pub type ScanResult<T> = Result<T, Fault>;

/// Longest part of a name or value that a reason repeats, in characters.
const QUOTED_CHARACTERS_MAX: usize = 60;

impl Fault {
    /// Returns the fault of a message that is not well-formed.
    #[cold]
    pub fn malformed(at: usize, reason: impl Into<String>) -> Self {
        Self::new(MessageErrorKind::Malformed, at, reason.into())
    }

    /// Returns the fault of a message that is over a limit.
    #[cold]
    pub fn limit(at: usize, limit: &'static str, value: usize, what: &str) -> Self {
        let reason = format!("the message has {what} than the limit {limit} allows ({value})");
        Self::new(MessageErrorKind::Limit { limit, value }, at, reason)
    }

    /// Returns the fault of a message that expat must convert.
    #[cold]
    pub fn conversion(at: usize, reason: impl Into<String>) -> Self {
        Self::new(MessageErrorKind::NeedsConversion, at, reason.into())
    }

    fn new(kind: MessageErrorKind, at: usize, reason: String) -> Self {
        Self(Box::new(FaultDetails { kind, at, reason }))
    }

    /// Returns the error to show where there are no lines: `skipped` is what stands before the message proper.
    pub fn into_error_of_stream(self, skipped: usize) -> MessageError {
        let FaultDetails { kind, at, reason } = *self.0;
        let reason = format!("element stream: {reason} (byte {} of its strings)", at.saturating_sub(skipped));
        MessageError { kind, reason, line: 1, column: 1 }
    }

    /// Returns the error to show, with its line and column in `source`.
    pub fn into_error(self, source: &[u8]) -> MessageError {
        let (line, column) = locate(source, self.0.at);
        MessageError { kind: self.0.kind, reason: self.0.reason, line, column }
    }
}

/// Returns a name or value for use in a reason, cut when it is long.
pub fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * QUOTED_CHARACTERS_MAX)]);
    match text.char_indices().nth(QUOTED_CHARACTERS_MAX) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text.into_owned(),
    }
}

/// Returns a description of the input at an offset, for a reason.
pub fn describe_input(source: &[u8], at: usize) -> String {
    let rest = &source[at.min(source.len())..];
    match String::from_utf8_lossy(&rest[..rest.len().min(4)]).chars().next() {
        None => "the end of the message".into(),
        Some(c) if c.is_control() || c.is_whitespace() => format!("the character U+{:04X}", c as u32),
        Some(c) => format!("{c:?}"),
    }
}
