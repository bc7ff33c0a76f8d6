//! The error of reading.

use std::fmt;

/// Bytes that are no packet, or no span: why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketError(String);

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PacketError {}

#[cold]
pub(crate) fn refused<T>(reason: impl Into<String>) -> Result<T, PacketError> {
    Err(PacketError(reason.into()))
}
