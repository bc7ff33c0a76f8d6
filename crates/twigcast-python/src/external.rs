//! Queries that another processor evaluates: the core only finds the messages on which they may have a result.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use twigcast_core::engine as core;
use twigcast_core::engine::Slot;
use twigcast_core::query::{self, Parameters};

use crate::engine_handle::key_of;
use crate::parameters::parameters_as_dict;

/// A match that another processor decides. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
#[derive(Clone)]
pub struct ExternalMatch {
    #[pyo3(get)]
    row: usize,
    #[pyo3(get)]
    position: usize,
    #[pyo3(get)]
    key: String,
    #[pyo3(get)]
    query: String,
    #[pyo3(get)]
    namespaces: BTreeMap<String, String>,
    #[pyo3(get)]
    is_condition: bool,
    parameters: Parameters,
}

#[pymethods]
impl ExternalMatch {
    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        parameters_as_dict(py, &self.parameters)
    }
}

/// Returns those among the slots that a message matched. `row` is the message, `first` the position of its first match.
pub fn external_matches(engine: &core::Engine, row: usize, first: usize, slots: &[Slot]) -> Vec<ExternalMatch> {
    let external = slots.iter().enumerate().filter(|&(_, &slot)| engine.is_external(slot));
    external
        .filter_map(|(index, &slot)| {
            let (text, context) = engine.query_of(slot)?;
            Some(ExternalMatch {
                row,
                position: first + index,
                key: key_of(engine, slot),
                is_condition: query::is_condition(&text),
                query: text.into_owned(),
                namespaces: context.namespaces.clone(),
                parameters: context.parameters.clone(),
            })
        })
        .collect()
}
