//! Bytes that a call borrows from Python.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The most memory that is kept for the next call.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Bytes that are borrowed for the time of a call.
///
/// The bytes of a `bytes` are read in place. Any other buffer may be written to by another thread while the GIL
/// is released, so it is copied, into memory that has been used before: new memory is slow at first.
pub enum BorrowedBytes<'a> {
    Bytes(&'a [u8]),
    Copied(Vec<u8>),
}

impl BorrowedBytes<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            BorrowedBytes::Bytes(bytes) => bytes,
            BorrowedBytes::Copied(bytes) => bytes,
        }
    }
}

/// Memory for copies, between calls.
#[derive(Default)]
pub struct CopyBuffer(Mutex<Vec<u8>>);

impl CopyBuffer {
    /// Locks the memory.
    pub fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes of a `bytes`, or of another buffer of unsigned bytes.
    pub fn borrow<'a>(&self, input: &'a Bound<'_, PyAny>) -> PyResult<BorrowedBytes<'a>> {
        if let Ok(bytes) = input.cast::<PyBytes>() {
            return Ok(BorrowedBytes::Bytes(bytes.as_bytes()));
        }
        let buffer = PyBuffer::<u8>::get(input)?;
        let mut copy = std::mem::take(&mut *self.lock());
        copy.resize(buffer.item_count(), 0);
        buffer.copy_to_slice(input.py(), &mut copy)?;
        Ok(BorrowedBytes::Copied(copy))
    }

    /// Takes the memory of a copy back.
    pub fn take_back(&self, borrowed: BorrowedBytes<'_>) {
        match borrowed {
            BorrowedBytes::Copied(copy) if copy.capacity() <= KEPT_BYTES_MAX => {
                *self.lock() = copy;
            }
            _ => {}
        }
    }
}
