//! The answers to a batch, as Arrow buffers.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use twigcast_core::engine::MessageDeliveries;
use twigcast_core::error::MessageErrorKind;

use crate::batch::{BatchChunk, BatchOutput};
use crate::buffers::{ByteBuffer, Int32Buffer};
use crate::engine_handle::Engine;
use crate::errors;

/// See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct BatchResult {
    #[pyo3(get)]
    key_offsets: Py<PyBytes>,
    #[pyo3(get)]
    matches: Py<Int32Buffer>,
    is_grouped: bool,
    #[pyo3(get)]
    match_counts: Py<PyBytes>,
    #[pyo3(get)]
    keys: Option<(Py<PyBytes>, Py<PyBytes>)>,
    #[pyo3(get)]
    more_keys: Option<(Py<PyBytes>, Py<PyBytes>)>,
    #[pyo3(get)]
    groups: Option<(Py<PyBytes>, Py<PyBytes>, Py<PyBytes>)>,
    #[pyo3(get)]
    node_counts: Py<PyBytes>,
    #[pyo3(get)]
    payload_numbers: Py<Int32Buffer>,
    #[pyo3(get)]
    payload_offsets: Py<PyBytes>,
    #[pyo3(get)]
    payload_validity: Py<PyBytes>,
    #[pyo3(get)]
    payloads: Py<ByteBuffer>,
    #[pyo3(get)]
    errors: Py<PyList>,
    #[pyo3(get)]
    failures: Py<PyList>,
    #[pyo3(get)]
    needs_conversion: Vec<usize>,
}

impl BatchResult {
    /// Lay the answers out as Arrow buffers.
    pub fn new(py: Python<'_>, engine: &Engine, answered: BatchOutput) -> PyResult<Self> {
        let BatchOutput { shares, matches, numbers, is_grouped, keys, more_keys, groups, payloads } = answered;
        let buffers = engine.buffers();
        let errors = PyList::empty(py);
        let failures = PyList::empty(py);
        let mut needs_conversion = Vec::new();
        for (row, error) in shares.iter().flat_map(|share| &share.errors) {
            match error.kind {
                MessageErrorKind::NeedsConversion => needs_conversion.push(*row),
                _ => errors.append((*row, errors::message(py, error).into_value(py)))?,
            }
        }
        for (row, key, reason) in shares.iter().flat_map(|share| &share.failures) {
            failures.append((*row, errors::undecided(py, key, reason).into_value(py)))?;
        }
        let bytes = |data: &[u8]| PyBytes::new(py, data).unbind();
        Ok(Self {
            key_offsets: bytes(&key_offsets(&shares)?),
            matches: Py::new(py, Int32Buffer::new(matches, &buffers.matches))?,
            is_grouped,
            match_counts: integers(py, &shares, |share| &share.match_counts)?,
            groups: groups.map(|groups| groups.buffers(py)).transpose()?,
            keys: keys.map(|keys| keys.buffers(py)).transpose()?,
            more_keys: more_keys.map(|keys| keys.buffers(py)).transpose()?,
            node_counts: integers(py, &shares, |share| &share.node_counts)?,
            payload_validity: bytes(&validity(numbers.all())),
            payload_numbers: Py::new(py, Int32Buffer::new(numbers, &buffers.matches))?,
            payload_offsets: payload_offsets(py, &payloads.ends)?.unbind(),
            payloads: Py::new(py, ByteBuffer::new(payloads.bytes, &buffers.payloads))?,
            errors: errors.unbind(),
            failures: failures.unbind(),
            needs_conversion,
        })
    }
}

#[pymethods]
impl BatchResult {
    #[getter]
    fn slots(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let slots = if self.is_grouped { &[] } else { self.matches.get().list() };
        Ok(numbers(py, slots).unbind())
    }
}

/// Where each message's keys begin and end, as the offsets of an Arrow list array.
fn key_offsets(shares: &[BatchChunk]) -> PyResult<Vec<u8>> {
    let mut offsets = 0_i32.to_le_bytes().to_vec();
    let mut before = 0;
    for share in shares {
        for end in &share.ends {
            let total = i32::try_from(before + end).map_err(|_| {
                pyo3::exceptions::PyOverflowError::new_err(
                    "more than 2,147,483,647 matches in one batch; use smaller batches",
                )
            })?;
            offsets.extend_from_slice(&total.to_le_bytes());
        }
        before += share.match_count();
    }
    Ok(offsets)
}

/// Integers, as they are in memory.
pub fn numbers<'py>(py: Python<'py>, numbers: &[u32]) -> Bound<'py, PyBytes> {
    // SAFETY: all bytes of numbers are bytes, and these are looked at no longer than the numbers.
    let bytes = unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast::<u8>(), size_of_val(numbers)) };
    PyBytes::new(py, bytes)
}

/// Integers of all shares, one after the other, written where they are to stay.
fn integers(py: Python<'_>, shares: &[BatchChunk], of: impl Fn(&BatchChunk) -> &Vec<u32>) -> PyResult<Py<PyBytes>> {
    let total: usize = shares.iter().map(|share| of(share).len()).sum();
    let bytes = PyBytes::new_with(py, total * size_of::<u32>(), |mut buffer| {
        for share in shares {
            let (mine, rest) = buffer.split_at_mut(of(share).len() * size_of::<u32>());
            for (target, value) in mine.chunks_exact_mut(size_of::<u32>()).zip(of(share)) {
                target.copy_from_slice(&value.to_le_bytes());
            }
            buffer = rest;
        }
        Ok(())
    })?;
    Ok(bytes.unbind())
}

/// A bit per match, set where it has a payload of its own; empty where all have one.
fn validity(numbers: &[u32]) -> Vec<u8> {
    let mut bits = Vec::new();
    if numbers.contains(&MessageDeliveries::WHOLE) {
        bits.resize(numbers.len().div_ceil(8), 0_u8);
        for (index, _) in numbers.iter().enumerate().filter(|(_, number)| **number != MessageDeliveries::WHOLE) {
            bits[index / 8] |= 1 << (index % 8);
        }
    }
    bits
}

/// Where each payload begins and ends, as the offsets of an Arrow array, written where they are to stay.
pub fn payload_offsets<'py>(py: Python<'py>, ends: &[u64]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, (1 + ends.len()) * size_of::<u64>(), |buffer| {
        // The first offset is 0, as the buffer is.
        for (target, end) in buffer[size_of::<u64>()..].chunks_exact_mut(size_of::<u64>()).zip(ends) {
            target.copy_from_slice(&end.to_le_bytes());
        }
        Ok(())
    })
}
