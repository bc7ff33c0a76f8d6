//! Payloads on their way to Python: at most a chunk of them is ever in memory twice.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList};
use twigcast_core::extract::Sink;

/// What a sink leaves for the end: what it made, and the first error of Python.
#[derive(Default)]
struct State {
    /// All bytes, as long as they came at once.
    only: Option<Py<PyBytes>>,
    /// The stream that takes the bytes at hand.
    stream: Option<Py<PyAny>>,
    /// Finished payloads, where each is an object of its own.
    finished: Vec<Py<PyBytes>>,
    /// Bytes of finished payloads in the stream, where they stay together.
    finished_bytes: usize,
    error: Option<PyErr>,
}

/// Hands payloads to Python: all in one `bytes`, or one each.
#[derive(Clone)]
pub struct ToPython {
    state: Arc<Mutex<State>>,
    each: bool,
}

impl ToPython {
    /// All payloads in one `bytes`.
    pub fn together() -> Self {
        Self { state: Arc::default(), each: false }
    }

    /// A `bytes` a payload.
    pub fn each() -> Self {
        Self { state: Arc::default(), each: true }
    }

    fn with<T>(&self, work: impl FnOnce(Python<'_>, &mut State) -> PyResult<T>) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.error.is_some() {
            return None;
        }
        Python::attach(|py| work(py, &mut state).map_err(|error| state.error = Some(error)).ok())
    }

    /// All bytes, once the payloads are closed.
    pub fn bytes(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.error.take() {
            Some(error) => Err(error),
            None => match state.only.take() {
                Some(only) => Ok(only),
                None => finish(py, &mut state.stream),
            },
        }
    }

    /// The payloads, once they are closed.
    pub fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.error.take() {
            Some(error) => Err(error),
            None => PyList::new(py, std::mem::take(&mut state.finished)),
        }
    }
}

impl Sink for ToPython {
    fn take(&mut self, bytes: &[u8], ends: &[usize]) {
        let each = self.each;
        self.with(|py, state| {
            if !each {
                return take_together(py, state, bytes, ends);
            }
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
        let each = self.each;
        self.with(|py, state| {
            if each {
                state.stream = None;
            } else {
                spread(py, state)?;
                let Some(stream) = &state.stream else { return Ok(()) };
                stream.call_method1(py, "truncate", (state.finished_bytes,))?;
                stream.call_method1(py, "seek", (state.finished_bytes,))?;
            }
            Ok(())
        });
    }
}

/// Takes the next bytes of all payloads. What comes at once is copied once.
fn take_together(py: Python<'_>, state: &mut State, bytes: &[u8], ends: &[usize]) -> PyResult<()> {
    if state.stream.is_none() && state.only.is_none() {
        state.only = Some(PyBytes::new(py, bytes).unbind());
    } else {
        spread(py, state)?;
        append(py, state, bytes)?;
    }
    if let Some(&end) = ends.last() {
        let taken = length(py, state)?;
        state.finished_bytes = taken - (bytes.len() - end);
    }
    Ok(())
}

/// Moves what came first to a stream.
fn spread(py: Python<'_>, state: &mut State) -> PyResult<()> {
    match state.only.take() {
        Some(only) => append(py, state, only.as_bytes(py)),
        None => Ok(()),
    }
}

/// A stream of Python's: it grows in place, and gives its bytes away without copying them.
fn append(py: Python<'_>, state: &mut State, bytes: &[u8]) -> PyResult<()> {
    static STREAM: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let stream = match state.stream.take() {
        Some(stream) => stream,
        None => STREAM.import(py, "io", "BytesIO")?.call0()?.unbind(),
    };
    stream.call_method1(py, "write", (PyBytes::new(py, bytes),))?;
    state.stream = Some(stream);
    Ok(())
}

fn length(py: Python<'_>, state: &State) -> PyResult<usize> {
    if let Some(only) = &state.only {
        return Ok(only.as_bytes(py).len());
    }
    state.stream.as_ref().map_or(Ok(0), |stream| stream.call_method0(py, "tell")?.extract(py))
}

fn finish(py: Python<'_>, stream: &mut Option<Py<PyAny>>) -> PyResult<Py<PyBytes>> {
    match stream.take() {
        Some(stream) => Ok(stream.call_method0(py, "getvalue")?.extract(py)?),
        None => Ok(PyBytes::new(py, b"").unbind()),
    }
}
