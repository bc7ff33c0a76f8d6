//! The results of one message, written when they are looked at.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyIndexError, PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyString};
use twigcast_core::engine::{KeySnapshot, MessageDeliveries, PreparedDeliveries};
use twigcast_core::rewrite::{ExtractError, Payloads};

use crate::arrow_export::ExportedArray;
use crate::batch_result::{payload_offsets, validity};
use crate::engine_handle::Engine;
use crate::external::ExternalMatch;
use crate::keys::Keys;
use crate::ordered_output::ThreadPayloads;

/// About the most bytes of memory that are kept for the next result.
const MEMORY_MAX: usize = 1 << 16;

/// See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct Results {
    /// The message.
    source: Py<PyBytes>,
    prepared: PreparedDeliveries,
    /// The keys by slot when the message was matched, and a table of them, if there was one.
    keys: KeySnapshot,
    table: Option<Arc<Keys>>,
    /// The results that were written while matching. They have the first indices.
    immediate: Py<PyList>,
    cache: Mutex<ResultCache>,
    engine: Py<Engine>,
    #[pyo3(get)]
    undecided: Vec<(String, String)>,
    #[pyo3(get)]
    external: Vec<ExternalMatch>,
}

/// The deliveries of a message, before they are wrapped for Python.
pub struct Prepared {
    pub prepared: PreparedDeliveries,
    pub keys: KeySnapshot,
    pub table: Option<Arc<Keys>>,
    pub undecided: Vec<(String, String)>,
    pub external: Vec<ExternalMatch>,
}

/// The results that were looked at.
#[derive(Default)]
struct ResultCache {
    /// By index: subscriptions that get the same result get the same object.
    results: Vec<Option<Py<PyBytes>>>,
    /// Memory for writing results.
    memory: Vec<u8>,
}

impl Drop for Results {
    fn drop(&mut self) {
        if let Some(memory) = self.prepared.take_memory() {
            self.engine.get().keep_memory(memory);
        }
    }
}

impl Results {
    pub fn new(source: Py<PyBytes>, prepared: Prepared, immediate: Bound<'_, PyList>, engine: Py<Engine>) -> Self {
        let Prepared { prepared, keys, table, undecided, external } = prepared;
        let (immediate, cache) = (immediate.unbind(), Mutex::default());
        Self { source, prepared, keys, table, immediate, cache, engine, undecided, external }
    }

    /// Writes all results into one buffer, and lays out who gets which.
    fn exported(&self, source: &[u8], immediate: &[PyBackedBytes]) -> Result<PyResult<ExportedArray>, ExtractError> {
        let engine = self.engine.get();
        let pool = &engine.buffers().payloads_of_one;
        let mut payloads = Payloads::default().with_memory(pool.take());
        self.prepared.write_all(source, immediate.iter().map(|result| &result[..]), &mut payloads)?;
        let ThreadPayloads { bytes, ends } = ThreadPayloads::of(payloads);
        let (slots, indices) = self.prepared.deliveries_in_order();
        let (mut slots, indices) = (slots.into_owned(), indices.into_owned());
        let table = match &self.table {
            Some(table) => Arc::clone(table),
            None => engine.newest_key_table().of_earlier_slots(&self.keys, &mut slots),
        };
        Ok(table.exported().map(|keys| {
            let count = slots.len();
            let results: Vec<Box<dyn crate::arrow_export::Buffer>> =
                vec![Box::new(payload_offsets(&ends)), Box::new(pool.prefix(bytes))];
            let results = ExportedArray::new(c"Z", ends.len(), results);
            let nulls = indices.iter().filter(|&&index| index == MessageDeliveries::WHOLE).count();
            let bits = validity(&indices);
            let key = ExportedArray::new(c"i", count, vec![Box::new(slots)]).with_dictionary(keys).named(c"key");
            let payload = ExportedArray::new(c"i", count, vec![Box::new(indices)])
                .with_dictionary(results)
                .with_validity(bits, nulls)
                .named(c"payload");
            ExportedArray::new(c"+s", count, Vec::new()).with_children(vec![key, payload])
        }))
    }

    /// Returns the index that Python means, which counts from the end if it is negative.
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

    fn document<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let source = self.source.bind(py);
        let Some(parts) = self.prepared.document(source.as_bytes()) else { return Ok(source.clone()) };
        PyBytes::new_with(py, parts.iter().map(|part| part.len()).sum(), |mut document| {
            for part in &parts {
                let (start, rest) = document.split_at_mut(part.len());
                start.copy_from_slice(part);
                document = rest;
            }
            Ok(())
        })
    }

    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (slots, _) = py.detach(|| self.prepared.deliveries_in_order());
        PyList::new(py, slots.iter().map(|&slot| PyString::new(py, self.keys.key(slot).unwrap_or_default())))
    }

    fn payload_indices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (_, indices) = py.detach(|| self.prepared.deliveries_in_order());
        PyList::new(py, indices.iter().map(|&index| Some(index).filter(|&index| index != MessageDeliveries::WHOLE)))
    }

    fn __len__(&self) -> usize {
        self.prepared.result_count()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Py<PyBytes>> {
        let number = self.number(index)?;
        let Some(size) = self.prepared.size(number) else {
            return Ok(self.immediate.bind(py).get_item(number)?.extract()?);
        };
        // No other code of Python runs while this is locked.
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

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The interface leaves it to the producer whether it can meet the request; the importer casts if it does not.
        let _ = requested_schema;
        let immediate: Vec<PyBackedBytes> = self.immediate.extract(py)?;
        let source = self.source.as_bytes(py);
        let exported = py.detach(|| self.exported(source, &immediate)).map_err(|error| match error {
            ExtractError::NoMemory { .. } => PyMemoryError::new_err(error.to_string()),
            error => PyRuntimeError::new_err(error.to_string()),
        })?;
        exported?.capsules(py)
    }
}
