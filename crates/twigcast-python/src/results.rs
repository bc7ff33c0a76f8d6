//! The results of one message, put together when somebody looks at them.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use twigcast_core::extract::Prepared;

/// See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct Results {
    /// The message that they are made of.
    source: Py<PyBytes>,
    prepared: Prepared,
    /// Those that were made at once, after the prepared ones.
    others: Py<PyList>,
    /// Prepared ones that were looked at: whoever gets the same gets the same object.
    made: Mutex<Vec<Option<Py<PyBytes>>>>,
}

impl Results {
    pub fn new(source: Py<PyBytes>, prepared: Prepared, others: Bound<'_, PyList>) -> Self {
        Self { source, prepared, others: others.unbind(), made: Mutex::default() }
    }

    /// The number of an index as Python counts, from the end where it is negative.
    fn number(&self, py: Python<'_>, index: isize) -> PyResult<usize> {
        let length = self.__len__(py);
        let number = if index < 0 { index.checked_add_unsigned(length) } else { Some(index) };
        let number = number.and_then(|number| usize::try_from(number).ok()).filter(|&number| number < length);
        number.ok_or_else(|| PyIndexError::new_err("there is no result of this number"))
    }
}

#[pymethods]
impl Results {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.prepared.len() + self.others.bind(py).len()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Py<PyBytes>> {
        let number = self.number(py, index)?;
        if let Some(other) = number.checked_sub(self.prepared.len()) {
            return Ok(self.others.bind(py).get_item(other)?.extract()?);
        }
        // Nothing else of Python runs while this is held.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.is_empty() {
            made.resize_with(self.prepared.len(), || None);
        }
        let result = made[number].get_or_insert_with(|| {
            let mut bytes = Vec::with_capacity(self.prepared.size(number));
            self.prepared.write(number, self.source.as_bytes(py), &mut bytes);
            PyBytes::new(py, &bytes).unbind()
        });
        Ok(result.clone_ref(py))
    }

    /// See the stub file.
    fn size(&self, py: Python<'_>, index: isize) -> PyResult<usize> {
        let number = self.number(py, index)?;
        match number.checked_sub(self.prepared.len()) {
            Some(other) => self.others.bind(py).get_item(other)?.len(),
            None => Ok(self.prepared.size(number)),
        }
    }
}
