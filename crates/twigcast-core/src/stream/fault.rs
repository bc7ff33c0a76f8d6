//! Faults of a stream.

use crate::error::{MessageError, MessageErrorKind};
use crate::scan::fault::Fault;

/// Returns the error of bytes that are no stream, or not one of a message.
pub(super) fn malformed(reason: String) -> MessageError {
    MessageError { kind: MessageErrorKind::Malformed, reason, line: 1, column: 1 }
}

/// A fault of a stream. It is one word wide, so that the paths without faults pass little around. One word wide, so
/// that the paths without faults pass little around.
pub(super) enum StreamFault {
    #[allow(clippy::box_collection)]
    Structure(Box<String>),
    Strings(Fault),
}

impl StreamFault {
    /// Returns the error to show: the structure has been read up to `at`, and the strings begin at `strings_start` in
    /// the source.
    #[cold]
    pub(super) fn into_error(self, at: usize, strings_start: usize) -> MessageError {
        match self {
            Self::Strings(fault) => fault.into_error_of_stream(strings_start),
            Self::Structure(reason) => malformed(format!("element stream: {reason} (byte {at} of its structure)")),
        }
    }
}

impl From<Fault> for StreamFault {
    fn from(fault: Fault) -> Self {
        Self::Strings(fault)
    }
}

pub(super) type SectionResult<T> = Result<T, StreamFault>;

#[cold]
pub(super) fn wrong<T>(reason: impl Into<String>) -> SectionResult<T> {
    Err(StreamFault::Structure(Box::new(reason.into())))
}

#[cold]
pub(super) fn too_deep(at: usize, limit: usize) -> StreamFault {
    Fault::limit(at, "depth_max", limit, "more open elements").into()
}
