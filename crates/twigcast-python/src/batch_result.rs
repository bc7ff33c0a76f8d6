//! The answers to a batch, as Arrow buffers.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyList;
use twigcast_core::engine::MessageDeliveries;
use twigcast_core::error::MessageErrorKind;

use crate::batch::{BatchChunk, BatchOutput};
use crate::buffers::NumberBuffer;
use crate::engine_handle::Engine;
use crate::errors;
use crate::external::ExternalMatch;
use crate::keys::KeyTable;

/// See the stub file.
#[pyclass(frozen, get_all, module = "twigcast._core")]
pub struct BatchResult {
    match_offsets: Py<NumberBuffer>,
    matches: Py<NumberBuffer>,
    keys: Option<Py<KeyTable>>,
    match_counts: Py<NumberBuffer>,
    node_counts: Py<NumberBuffer>,
    payload_indices: Py<NumberBuffer>,
    payload_validity: Py<NumberBuffer>,
    payload_offsets: Py<NumberBuffer>,
    payloads: Py<NumberBuffer>,
    external: Vec<ExternalMatch>,
    errors: Py<PyList>,
    failures: Py<PyList>,
    needs_conversion: Vec<usize>,
}

impl BatchResult {
    /// Lays the answers out as Arrow buffers.
    pub fn new(py: Python<'_>, engine: &Engine, output: BatchOutput) -> PyResult<Self> {
        let BatchOutput { shares, matches, numbers, keys, external, payloads } = output;
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
        let all = |of: fn(&BatchChunk) -> &[u32]| shares.iter().map(of).collect::<Vec<_>>().concat();
        Ok(Self {
            match_offsets: NumberBuffer::lend(py, match_offsets(&shares)?)?,
            match_counts: NumberBuffer::lend(py, all(|share| &share.match_counts))?,
            node_counts: NumberBuffer::lend(py, all(|share| &share.node_counts))?,
            payload_validity: NumberBuffer::lend(py, validity(numbers.all()))?,
            payload_indices: NumberBuffer::lend(py, buffers.matches.prefix(numbers))?,
            payload_offsets: NumberBuffer::lend(py, payload_offsets(&payloads.ends))?,
            payloads: NumberBuffer::lend(py, buffers.payloads.prefix(payloads.bytes))?,
            matches: NumberBuffer::lend(py, buffers.matches.prefix(matches))?,
            keys: keys.map(|keys| Py::new(py, KeyTable(keys))).transpose()?,
            external,
            errors: errors.unbind(),
            failures: failures.unbind(),
            needs_conversion,
        })
    }
}

#[pymethods]
impl BatchResult {
    /// See the stub file.
    fn merge(
        &self,
        py: Python<'_>,
        replies: HashMap<usize, Option<PyBackedBytes>>,
        failures: Bound<'_, PyList>,
    ) -> PyResult<Self> {
        let (matches, indices) = (self.matches.get().int32(), self.payload_indices.get().int32());
        let (counts, offsets) = (self.node_counts.get().int32(), self.match_offsets.get().int32());
        let mut ends = self.payload_offsets.get().int64().to_vec();
        let mut payloads = self.payloads.get().bytes().to_vec();
        let (mut kept, mut kept_indices) = (Vec::new(), Vec::new());
        let mut kept_offsets = vec![0_u32];
        for bounds in offsets.windows(2) {
            for position in bounds[0] as usize..bounds[1] as usize {
                let index = indices.get(position).copied();
                match replies.get(&position) {
                    Some(None) => continue,
                    Some(Some(payload)) if index.is_some() => {
                        kept_indices.push(ends.len() as u32 - 1);
                        payloads.extend_from_slice(payload);
                        ends.push(payloads.len() as u64);
                    }
                    _ => kept_indices.extend(index),
                }
                kept.push(position);
            }
            kept_offsets.push(kept.len() as u32);
        }
        let at_kept = |list: &[u32]| -> Vec<u32> { kept.iter().filter_map(|&at| list.get(at).copied()).collect() };
        let all_failures = PyList::new(py, self.failures.bind(py).iter().chain(failures.iter()))?;
        Ok(Self {
            match_offsets: NumberBuffer::lend(py, kept_offsets)?,
            matches: NumberBuffer::lend(py, at_kept(matches))?,
            keys: self.keys.as_ref().map(|keys| keys.clone_ref(py)),
            match_counts: self.match_counts.clone_ref(py),
            node_counts: NumberBuffer::lend(py, at_kept(counts))?,
            payload_validity: NumberBuffer::lend(py, validity(&kept_indices))?,
            payload_indices: NumberBuffer::lend(py, kept_indices)?,
            payload_offsets: NumberBuffer::lend(py, ends)?,
            payloads: NumberBuffer::lend(py, payloads)?,
            external: Vec::new(),
            errors: self.errors.clone_ref(py),
            failures: all_failures.unbind(),
            needs_conversion: self.needs_conversion.clone(),
        })
    }
}

/// Returns where each message's matches begin and end, as the offsets of an Arrow list array.
fn match_offsets(shares: &[BatchChunk]) -> PyResult<Vec<u32>> {
    let mut offsets = vec![0];
    let mut before = 0;
    for share in shares {
        for end in &share.ends {
            let total = i32::try_from(before + end).map_err(|_| {
                pyo3::exceptions::PyOverflowError::new_err(
                    "more than 2,147,483,647 matches in one batch; use smaller batches",
                )
            })?;
            offsets.push(total as u32);
        }
        before += share.match_count();
    }
    Ok(offsets)
}

/// Returns a bit per match, set if the match has a payload of its own; no bits if all have.
pub fn validity(indices: &[u32]) -> Vec<u8> {
    let mut bits = Vec::new();
    if indices.contains(&MessageDeliveries::WHOLE) {
        bits.resize(indices.len().div_ceil(8), 0_u8);
        for (position, _) in indices.iter().enumerate().filter(|(_, index)| **index != MessageDeliveries::WHOLE) {
            bits[position / 8] |= 1 << (position % 8);
        }
    }
    bits
}

/// Returns where each payload begins and ends, as the offsets of an Arrow array.
pub fn payload_offsets(ends: &[u64]) -> Vec<u64> {
    std::iter::once(0).chain(ends.iter().copied()).collect()
}
