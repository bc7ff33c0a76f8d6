//! Many subscriptions at a time, as Python gives them.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyList, PyString, PyTuple};
use twigcast_core::engine::AddError;

use crate::errors;

/// A key and a query.
pub type KeyQueryPair = (PyBackedStr, PyBackedStr);

/// A key and a query, if it is nothing but a tuple of these.
pub fn pair(item: &Bound<'_, PyAny>) -> PyResult<Option<KeyQueryPair>> {
    let Ok(tuple) = item.cast_exact::<PyTuple>() else { return Ok(None) };
    if tuple.len() != 2 {
        return Ok(None);
    }
    let (key, query) = (tuple.get_borrowed_item(0)?, tuple.get_borrowed_item(1)?);
    match (key.cast::<PyString>(), query.cast::<PyString>()) {
        (Ok(key), Ok(query)) => Ok(Some((key.to_owned().try_into()?, query.to_owned().try_into()?))),
        _ => Ok(None),
    }
}

/// Places and errors of what was refused, as Python is told.
pub fn refusals<'py>(
    py: Python<'py>,
    pairs: &[KeyQueryPair],
    refused: Vec<(usize, AddError)>,
) -> PyResult<Bound<'py, PyList>> {
    let answer = PyList::empty(py);
    for (index, error) in refused {
        let (key, query) = &pairs[index];
        answer.append((index, errors::add(py, key, query, &error).into_value(py)))?;
    }
    Ok(answer)
}
