//! Hands payloads to Python in chunks, so that at most one chunk is in memory twice.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList};
use twigcast_core::rewrite::Sink;

/// The payloads that a sink has finished, and the first error of Python.
#[derive(Default)]
struct SinkState {
    /// The stream of the payload that is not finished.
    stream: Option<Py<PyAny>>,
    finished: Vec<Py<PyBytes>>,
    error: Option<PyErr>,
}

/// Hands each payload to Python as a `bytes`.
#[derive(Clone, Default)]
pub struct PythonSink {
    state: Arc<Mutex<SinkState>>,
}

impl PythonSink {
    fn with<T>(&self, work: impl FnOnce(Python<'_>, &mut SinkState) -> PyResult<T>) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.error.is_some() {
            return None;
        }
        Python::attach(|py| work(py, &mut state).map_err(|error| state.error = Some(error)).ok())
    }

    /// Returns the payloads, once they are closed.
    pub fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.error.take() {
            Some(error) => Err(error),
            None => PyList::new(py, std::mem::take(&mut state.finished)),
        }
    }
}

impl Sink for PythonSink {
    fn take(&mut self, bytes: &[u8], ends: &[usize]) {
        self.with(|py, state| {
            let mut start = 0;
            for &end in ends {
                let rest = &bytes[start..end];
                let payload = if state.stream.is_some() {
                    append(py, state, rest)?;
                    finish(py, &mut state.stream)?
                } else {
                    PyBytes::new(py, rest).unbind()
                };
                state.finished.push(payload);
                start = end;
            }
            if start < bytes.len() { append(py, state, &bytes[start..]) } else { Ok(()) }
        });
    }

    fn drop_open(&mut self) {
        self.with(|_, state| {
            state.stream = None;
            Ok(())
        });
    }
}

/// Appends bytes to the stream of a payload. A `BytesIO` grows in place, and gives its bytes away without copying.
fn append(py: Python<'_>, state: &mut SinkState, bytes: &[u8]) -> PyResult<()> {
    static STREAM: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let stream = match state.stream.take() {
        Some(stream) => stream,
        None => STREAM.import(py, "io", "BytesIO")?.call0()?.unbind(),
    };
    stream.call_method1(py, "write", (PyBytes::new(py, bytes),))?;
    state.stream = Some(stream);
    Ok(())
}

fn finish(py: Python<'_>, stream: &mut Option<Py<PyAny>>) -> PyResult<Py<PyBytes>> {
    match stream.take() {
        Some(stream) => Ok(stream.call_method0(py, "getvalue")?.extract(py)?),
        None => Ok(PyBytes::new(py, b"").unbind()),
    }
}
