//! Errors of the core as exceptions of `twigcast.errors`.

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;
use twigcast_core::engine::AddError;
use twigcast_core::error::{MessageError, MessageErrorKind, QueryError, QueryErrorKind};

static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

fn build<'py>(py: Python<'py>, class: &str, arguments: impl PyCallArgs<'py>) -> PyErr {
    let instance = ERRORS
        .get_or_try_init(py, || PyModule::import(py, "twigcast.errors").map(Bound::unbind))
        .and_then(|module| module.bind(py).getattr(class)?.call1(arguments));
    match instance {
        Ok(instance) => PyErr::from_value(instance),
        Err(error) => error,
    }
}

/// Returns the exception for a refused query.
pub fn query(py: Python<'_>, text: &str, error: &QueryError) -> PyErr {
    let arguments = (text, error.column, error.message.as_str(), error.expected.clone());
    match error.kind {
        QueryErrorKind::Syntax => build(py, "QuerySyntaxError", arguments),
        QueryErrorKind::Unsupported => build(py, "UnsupportedQuery", arguments),
        QueryErrorKind::UndeclaredPrefix => build(py, "UndeclaredPrefix", arguments),
        QueryErrorKind::Limit { limit, value } => {
            build(py, "QueryLimitExceeded", (limit, value, error.message.as_str(), text, error.column))
        }
    }
}

/// Returns the exception for a subscription that was not added.
pub fn add(py: Python<'_>, key: &str, text: &str, error: &AddError) -> PyErr {
    match error {
        AddError::DuplicateKey => build(py, "DuplicateKey", (key,)),
        AddError::Query(error) => query(py, text, error),
    }
}

/// Returns the exception for a rejected message. The caller tells messages apart that need conversion.
pub fn message(py: Python<'_>, error: &MessageError) -> PyErr {
    match error.kind {
        MessageErrorKind::Malformed => build(py, "MalformedMessage", (error.line, error.column, error.reason.as_str())),
        MessageErrorKind::NeedsConversion => {
            build(py, "NeedsConversion", (error.line, error.column, error.reason.as_str()))
        }
        MessageErrorKind::Limit { limit, value } => {
            build(py, "MessageLimitExceeded", (limit, value, error.reason.as_str(), error.line, error.column))
        }
    }
}

/// Returns the exception for a subscription that could not be decided on a message.
pub fn undecided(py: Python<'_>, key: &str, reason: &str) -> PyErr {
    build(py, "UndecidedSubscription", (key, reason))
}

/// Returns the exception for a key that is not there.
pub fn unknown_key(py: Python<'_>, key: &str) -> PyErr {
    build(py, "UnknownKey", (key,))
}

/// Returns the exception for a subscription that is no longer the one that a message was matched against.
pub fn changed(py: Python<'_>, key: &str) -> PyErr {
    build(py, "SubscriptionChanged", (key,))
}

/// Returns the exception for a snapshot that cannot be used.
pub fn snapshot(py: Python<'_>, path: &str, reason: &str) -> PyErr {
    build(py, "SnapshotError", (path, reason))
}
