//! Queries that another processor evaluates: the core only finds the messages on which they may have a result.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use twigcast_core::engine as core;
use twigcast_core::engine::Slot;

use crate::engine_handle::key_of;

/// A match that another processor decides. See the stub file.
#[pyclass(frozen, get_all, module = "twigcast._core")]
#[derive(Clone)]
pub struct ExternalMatch {
    row: usize,
    position: usize,
    key: String,
    query: String,
    namespaces: BTreeMap<String, String>,
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
                query: text.into_owned(),
                namespaces: context.namespaces.clone(),
            })
        })
        .collect()
}
