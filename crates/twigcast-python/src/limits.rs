//! Limits as Python passes them.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use twigcast_core::limits::Limits;

/// Reads limits by name, and refuses unknown names.
pub fn limits(input: &BTreeMap<String, usize>) -> PyResult<Limits> {
    let mut limits = Limits::default();
    for (name, &value) in input {
        let field = match name.as_str() {
            "message_bytes_max" => &mut limits.message_bytes_max,
            "depth_max" => &mut limits.depth_max,
            "attributes_max" => &mut limits.attributes_max,
            "query_bytes_max" => &mut limits.query_bytes_max,
            "query_steps_max" => &mut limits.query_steps_max,
            "query_nesting_max" => &mut limits.query_nesting_max,
            "cache_bytes_max" => &mut limits.cache_bytes_max,
            "query_visits_max" => &mut limits.query_visits_max,
            "message_visits_max" => &mut limits.message_visits_max,
            "group_visits_max" => &mut limits.group_visits_max,
            "overruns_max" => &mut limits.overruns_max,
            "message_result_bytes_max" => &mut limits.message_result_bytes_max,
            "result_bytes_max" => &mut limits.result_bytes_max,
            _ => return Err(PyValueError::new_err(format!("there is no limit named {name:?}"))),
        };
        *field = value;
    }
    Ok(limits)
}
