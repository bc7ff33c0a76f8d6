//! The class `Answer`.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use twigcast_core::engine as core;
use twigcast_core::engine::Slot;

use crate::engine_handle::Engine;
use crate::external::ExternalMatch;
use crate::queries::StoredQuery;

/// The subscriptions that one message matched. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct Answer {
    pub answer: core::Answer,
    /// The engine that slots are looked up in.
    pub engine: Py<Engine>,
    /// The visits that evaluating queries on the message has cost.
    #[pyo3(get)]
    pub visits: u64,
    #[pyo3(get)]
    pub undecided: Vec<(String, String)>,
    #[pyo3(get)]
    pub external: Vec<ExternalMatch>,
}

/// The relation between an answer and the subscription that a key has now.
pub enum Standing {
    /// The subscription is the one of the answer, and has this slot.
    Current(Slot),
    /// The subscription of the answer was replaced or removed.
    Changed,
    /// The answer knows no subscription with the key.
    Unknown,
}

impl Answer {
    /// Returns how the subscription of a key stands.
    pub fn standing(&self, engine: &core::Engine, key: &str) -> Standing {
        match engine.slot_of(key) {
            Some(slot) if self.answer.is_current(engine, slot) => Standing::Current(slot),
            _ if self.answer.had_key(key) => Standing::Changed,
            _ => Standing::Unknown,
        }
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
            let engine = self.engine.get().read();
            let now = engine.slot_of(&key);
            if now.is_none() && self.answer.identity().0 == engine.version() {
                return false;
            }
            drop(engine);
            match now.filter(|&slot| self.answer.key(slot) == Some(&key)) {
                Some(slot) => self.answer.has(slot),
                None => self.answer.slots().into_iter().any(|slot| self.answer.key(slot) == Some(&key)),
            }
        })
    }

    fn queries(&self, py: Python<'_>) -> Vec<(String, Option<StoredQuery>)> {
        py.detach(|| {
            let engine = self.engine.get().read();
            let stored = |slot| {
                if self.answer.is_current(&engine, slot) { StoredQuery::of(&engine, slot) } else { None }
            };
            let key = |slot| self.answer.key(slot).unwrap_or_default().to_owned();
            self.answer.slots().into_iter().map(|slot| (key(slot), stored(slot))).collect()
        })
    }

    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.engine.get().key_objects().of_answer(py, &self.answer)
    }
}
