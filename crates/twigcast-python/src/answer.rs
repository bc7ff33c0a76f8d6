//! The class `Answer`.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use twigcast_core::engine as core;

use crate::engine_handle::Engine;

/// The subscriptions that one message matched. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct Answer {
    answer: core::Answer,
    /// Where keys are looked up.
    engine: Py<Engine>,
}

impl Answer {
    pub fn new(answer: core::Answer, engine: Py<Engine>) -> Self {
        Self { answer, engine }
    }
}

#[pymethods]
impl Answer {
    fn __len__(&self) -> usize {
        self.answer.len()
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> bool {
        let Ok(key) = key.extract::<String>() else { return false };
        py.detach(|| {
            // Nearly always the subscription still has the slot that it had.
            let now = self.engine.get().read().slot_of(&key);
            match now.filter(|&slot| self.answer.key(slot) == Some(&key)) {
                Some(slot) => self.answer.has(slot),
                None => self.answer.slots().into_iter().any(|slot| self.answer.key(slot) == Some(&key)),
            }
        })
    }

    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let slots = py.detach(|| self.answer.slots());
        PyList::new(py, slots.into_iter().map(|slot| PyString::new(py, self.answer.key(slot).unwrap_or_default())))
    }
}
