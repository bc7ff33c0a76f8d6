//! The results of one message, put together when somebody looks at them.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyIndexError, PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyString};
use twigcast_core::engine::{KeySnapshot, PreparedDeliveries};
use twigcast_core::rewrite::{ExtractError, Payloads};

use crate::batch_result::{numbers as numbers_as_bytes, payload_offsets};
use crate::buffers::{BufferPool, ByteBuffer};
use crate::ordered_output::ThreadPayloads;

/// Bytes of memory that are kept for the next result, about.
const MEMORY_MAX: usize = 1 << 16;

/// See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct Results {
    /// The message that they are made of.
    source: Py<PyBytes>,
    prepared: PreparedDeliveries,
    keys: KeySnapshot,
    /// Those that were made at once; they come first.
    immediate: Py<PyList>,
    cache: Mutex<ResultCache>,
    /// Memory for all results at once.
    pool: BufferPool<u8>,
}

/// What was looked at.
#[derive(Default)]
struct ResultCache {
    /// By number: whoever gets the same gets the same object.
    results: Vec<Option<Py<PyBytes>>>,
    /// Memory in which results are put together.
    memory: Vec<u8>,
}

impl Results {
    pub fn new(
        source: Py<PyBytes>,
        (prepared, keys): (PreparedDeliveries, KeySnapshot),
        immediate: Bound<'_, PyList>,
        pool: &BufferPool<u8>,
    ) -> Self {
        Self { source, prepared, keys, immediate: immediate.unbind(), cache: Mutex::default(), pool: pool.clone() }
    }

    /// The number of an index as Python counts, from the end where it is negative.
    fn number(&self, index: isize) -> PyResult<usize> {
        let length = self.__len__();
        let number = if index < 0 { index.checked_add_unsigned(length) } else { Some(index) };
        let number = number.and_then(|number| usize::try_from(number).ok()).filter(|&number| number < length);
        number.ok_or_else(|| PyIndexError::new_err("there is no result of this number"))
    }
}

#[pymethods]
impl Results {
    #[getter]
    fn delivery_count(&self) -> usize {
        self.prepared.len()
    }

    /// See the stub file.
    #[pyo3(signature = (*, in_order=false))]
    fn deliveries<'py>(&self, py: Python<'py>, in_order: bool) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        if in_order {
            let (slots, numbers) = py.detach(|| self.prepared.deliveries_in_order());
            return Ok((numbers_as_bytes(py, &slots), numbers_as_bytes(py, &numbers)));
        }
        let (slots, numbers) = py.detach(|| self.prepared.deliveries());
        Ok((numbers_as_bytes(py, slots), numbers_as_bytes(py, numbers)))
    }

    /// See the stub file.
    #[getter]
    fn keys_version(&self) -> u64 {
        self.keys.version()
    }

    /// See the stub file.
    #[pyo3(signature = (first=0))]
    fn keys<'py>(&self, py: Python<'py>, first: usize) -> PyResult<Bound<'py, PyList>> {
        let (slots, _) = self.prepared.deliveries_in_order();
        let rest = slots.get(first..).unwrap_or_default();
        PyList::new(py, rest.iter().map(|&slot| PyString::new(py, self.keys.key(slot).unwrap_or_default())))
    }

    fn __len__(&self) -> usize {
        self.prepared.result_count()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Py<PyBytes>> {
        let number = self.number(index)?;
        let Some(size) = self.prepared.size(number) else {
            return Ok(self.immediate.bind(py).get_item(number)?.extract()?);
        };
        // Nothing else of Python runs while this is held.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let ResultCache { results, memory } = &mut *cache;
        if results.is_empty() {
            results.resize_with(self.prepared.result_count(), || None);
        }
        let result = results[number].get_or_insert_with(|| {
            let result = PyBytes::new(py, self.prepared.write(number, self.source.as_bytes(py), memory)).unbind();
            if size > MEMORY_MAX {
                *memory = Vec::new();
            }
            result
        });
        Ok(result.clone_ref(py))
    }

    /// See the stub file.
    fn size(&self, py: Python<'_>, index: isize) -> PyResult<usize> {
        let number = self.number(index)?;
        match self.prepared.size(number) {
            Some(size) => Ok(size),
            None => self.immediate.bind(py).get_item(number)?.len(),
        }
    }

    /// See the stub file.
    fn joined<'py>(&self, py: Python<'py>) -> PyResult<(ByteBuffer, Bound<'py, PyBytes>)> {
        let immediate: Vec<PyBackedBytes> = self.immediate.extract(py)?;
        let source = self.source.as_bytes(py);
        let mut payloads = Payloads::default().with_memory(self.pool.take());
        py.detach(|| self.prepared.write_all(source, immediate.iter().map(|result| &result[..]), &mut payloads))
            .map_err(|error| match error {
                ExtractError::NoMemory { .. } => PyMemoryError::new_err(error.to_string()),
                error => PyRuntimeError::new_err(error.to_string()),
            })?;
        let ThreadPayloads { bytes, ends } = ThreadPayloads::of(payloads);
        Ok((ByteBuffer::new(bytes, &self.pool), payload_offsets(py, &ends)?))
    }
}
