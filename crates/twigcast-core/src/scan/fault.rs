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

    /// Returns the fault of a message that is over a limit that cannot be set.
    #[cold]
    pub fn fixed_limit(at: usize, limit: &'static str, value: usize, reason: &str) -> Self {
        Self::new(MessageErrorKind::Limit { limit, value }, at, reason.into())
    }

    /// Returns the offset.
    pub fn at(&self) -> usize {
        self.0.at
    }

    /// Returns whether the message has to be converted first.
    pub fn is_conversion(&self) -> bool {
        self.0.kind == MessageErrorKind::NeedsConversion
    }

    /// Returns the fault of a part of a message as one of the whole, in which the part starts at `start`.
    pub fn behind(mut self, start: usize) -> Self {
        self.0.at += start;
        self
    }

    /// Returns the fault of a message as one of the part of it that starts at `start`.
    pub fn within(mut self, start: usize) -> Self {
        self.0.at = self.0.at.saturating_sub(start);
        self
    }

    /// Returns an error of something made of the message as a fault of the message at `at`.
    #[cold]
    pub fn of_error(at: usize, error: MessageError) -> Self {
        Self::new(error.kind, at, error.reason)
    }

    /// Returns the fault as one at another offset, with what stands there.
    #[cold]
    pub fn moved_to(mut self, at: usize, place: &str) -> Self {
        self.0.reason = format!("{place}: {}", self.0.reason);
        self.0.at = at;
        self
    }

    /// Returns the fault of a message that has to be converted first.
    #[cold]
    pub fn conversion(at: usize, reason: impl Into<String>) -> Self {
        Self::new(MessageErrorKind::NeedsConversion, at, reason.into())
    }

    /// Returns the fault with a note where it is in markup that the message ends in, and does not say so.
    #[cold]
    pub fn noting_end(mut self, source: &[u8]) -> Self {
        let says_so = ["the end of the message", "the message ends", "is not closed"];
        let FaultDetails { kind, at, reason } = &mut *self.0;
        let is_silent = *kind == MessageErrorKind::Malformed && !says_so.iter().any(|text| reason.contains(text));
        if is_silent && ends_at(source, *at) {
            reason.push_str("; the message ends there: it has been cut short");
        }
        self
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
        self.into_error_at(line, column)
    }

    /// Returns the error to show at a place that is known.
    pub fn into_error_at(self, line: u32, column: u32) -> MessageError {
        MessageError { kind: self.0.kind, reason: self.0.reason, line, column }
    }
}

/// Returns whether a source ends in the markup, or the character, at an offset.
fn ends_at(source: &[u8], at: usize) -> bool {
    let rest = &source[at.min(source.len())..];
    let is_last_markup = |start: usize| start <= at && memchr::memchr(b'>', &source[start..]).is_none();
    let cuts_character = std::str::from_utf8(rest).is_err_and(|error| error.error_len().is_none() && rest.len() < 4);
    memchr::memrchr(b'<', source).is_some_and(is_last_markup) || cuts_character
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
