//! Reads the parameters of queries that Python passes, and gives them back.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use twigcast_core::query::{ParameterValue, Parameters};

/// Returns a string argument; anything else is a `TypeError` that names the argument.
pub fn text(value: &Bound<'_, PyAny>, name: &str) -> PyResult<PyBackedStr> {
    match value.cast::<PyString>() {
        Ok(text) => text.to_owned().try_into(),
        Err(_) => Err(PyTypeError::new_err(format!("{name} must be str, not {}", value.get_type().name()?))),
    }
}

/// Returns the parameters that Python gives, by name; none for `None`.
pub fn parameters(value: Option<&Bound<'_, PyAny>>) -> PyResult<Parameters> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(Parameters::new()) };
    let dictionary = value.py().get_type::<PyDict>().call1((value,))?.cast_into::<PyDict>()?;
    dictionary
        .iter()
        .map(|(name, value)| Ok((text(&name, "a name in params")?.to_string(), parameter(&value)?)))
        .collect()
}

fn parameter(value: &Bound<'_, PyAny>) -> PyResult<ParameterValue> {
    if let Ok(list) = value.cast::<PyList>() {
        return list.iter().map(|one| scalar(&one)).collect::<PyResult<_>>().map(ParameterValue::List);
    }
    if let Ok(list) = value.cast::<PyTuple>() {
        return list.iter().map(|one| scalar(&one)).collect::<PyResult<_>>().map(ParameterValue::List);
    }
    scalar(value)
}

fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ParameterValue> {
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(ParameterValue::Boolean(truth.is_true()));
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        let number: f64 = value.extract()?;
        if !number.is_finite() {
            return Err(PyValueError::new_err("a number in params must be finite"));
        }
        return Ok(ParameterValue::Number(number));
    }
    match value.cast::<PyString>() {
        Ok(text) => {
            let text: PyBackedStr = text.to_owned().try_into()?;
            Ok(ParameterValue::Text((*text).into()))
        }
        Err(_) => Err(PyTypeError::new_err(format!(
            "a value in params must be str, int, float, bool or a list of these, not {}",
            value.get_type().name()?
        ))),
    }
}

/// Returns parameters as Python has them.
pub fn parameters_as_dict<'py>(py: Python<'py>, parameters: &Parameters) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    for (name, value) in parameters {
        dictionary.set_item(name, parameter_as_object(py, value)?)?;
    }
    Ok(dictionary)
}

fn parameter_as_object<'py>(py: Python<'py>, value: &ParameterValue) -> PyResult<Bound<'py, PyAny>> {
    /// Whole numbers up to this are exact.
    const EXACT_MAX: f64 = (1_u64 << 53) as f64;
    Ok(match value {
        ParameterValue::Text(text) => PyString::new(py, text).into_any(),
        ParameterValue::Number(number) if number.fract() == 0.0 && number.abs() <= EXACT_MAX => {
            (*number as i64).into_pyobject(py)?.into_any()
        }
        ParameterValue::Number(number) => PyFloat::new(py, *number).into_any(),
        ParameterValue::Boolean(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        ParameterValue::List(values) => {
            let values = values.iter().map(|value| parameter_as_object(py, value)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, values)?.into_any()
        }
    })
}
