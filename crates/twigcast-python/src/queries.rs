//! Queries without an engine.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use twigcast_core::analysis;
use twigcast_core::engine::{self, QueryContext, QueryWarning};
use twigcast_core::error::QueryErrorKind;
use twigcast_core::limits::Limits;
use twigcast_core::query::matching::matching_condition;
use twigcast_core::query::{self, Dialect, ParseOptions, Query, json, normal};
use twigcast_core::vocabulary::Vocabulary;

use crate::errors;

/// Returns the query context that Python describes.
pub fn context(namespaces: BTreeMap<String, String>, dialect: &str) -> PyResult<QueryContext> {
    Ok(QueryContext { namespaces, dialect: self::dialect(dialect)? })
}

/// Returns a dialect by its name.
pub fn dialect(name: &str) -> PyResult<Dialect> {
    engine::dialect(name)
        .ok_or_else(|| PyValueError::new_err(format!("dialect must be 'xpath', 'legacy' or 'xquery', not {name:?}")))
}

/// Returns what a warning says.
pub fn warning(warning: QueryWarning) -> String {
    match warning {
        QueryWarning::NeverMatches => "no message can match this query".into(),
        QueryWarning::AlwaysMatches => "every message matches this query".into(),
        QueryWarning::EvaluatedAlways => {
            "nothing in this query narrows the messages down, so it is evaluated on each of them".into()
        }
    }
}

/// Returns the algebra of a query as JSON.
#[pyfunction]
pub fn parse_tree(
    py: Python<'_>,
    query: &str,
    namespaces: BTreeMap<String, String>,
    dialect: &str,
) -> PyResult<String> {
    let mut vocabulary = Vocabulary::new();
    let parsed = parsed(py, query, namespaces, dialect, &mut vocabulary)?;
    Ok(json::query(&parsed, &vocabulary))
}

/// Returns the condition under which a query may match, in normal form, as JSON.
#[pyfunction]
pub fn condition_tree(
    py: Python<'_>,
    query: &str,
    namespaces: BTreeMap<String, String>,
    dialect: &str,
) -> PyResult<String> {
    let mut vocabulary = Vocabulary::new();
    let condition = match parsed(py, query, namespaces, dialect, &mut vocabulary)? {
        Query::XPath(expr) => expr,
        Query::Flwr(flwr) => matching_condition(&flwr).expr,
    };
    Ok(json::query(&Query::XPath(normal::normalise(condition)), &vocabulary))
}

/// Returns the truth of an XPath expression where none of its paths selects a node. See the stub file.
#[pyfunction]
pub fn truth_without_nodes(
    py: Python<'_>,
    expression: &str,
    namespaces: BTreeMap<String, String>,
) -> PyResult<Option<bool>> {
    let limits = Limits { query_bytes_max: usize::MAX, query_steps_max: usize::MAX, ..Limits::default() };
    let options = ParseOptions { namespaces: &namespaces, dialect: Dialect::XPath, limits: &limits };
    match query::parse(expression, &options, &mut Vocabulary::new()) {
        Ok(Query::XPath(expr)) => Ok(analysis::truth_without_nodes(&expr)),
        Ok(Query::Flwr(_)) => Err(PyValueError::new_err("the expression must be XPath, not For-Where-Return")),
        // What is nested too deep to be parsed is not known.
        Err(error) if matches!(error.kind, QueryErrorKind::Limit { .. }) => Ok(None),
        Err(error) => Err(errors::query(py, expression, &error)),
    }
}

fn parsed(
    py: Python<'_>,
    query: &str,
    namespaces: BTreeMap<String, String>,
    dialect: &str,
    vocabulary: &mut Vocabulary,
) -> PyResult<Query> {
    let context = context(namespaces, dialect)?;
    let limits = Limits::default();
    let options = ParseOptions { namespaces: &context.namespaces, dialect: context.dialect, limits: &limits };
    query::parse(query, &options, vocabulary).map_err(|error| errors::query(py, query, &error))
}

/// A report on a query. See the stub file.
#[pyclass(frozen, get_all, module = "twigcast._core")]
pub struct QueryCheck {
    query: String,
    normal_form: String,
    route: String,
    reason: String,
    warnings: Vec<String>,
}

impl QueryCheck {
    /// Plans a query alone.
    pub fn of(py: Python<'_>, query: &str, context: &QueryContext, limits: &Limits) -> PyResult<Self> {
        let checked = engine::check(query, context, limits).map_err(|error| errors::query(py, query, &error))?;
        Ok(Self {
            query: query.to_owned(),
            normal_form: checked.normal_form,
            route: checked.route.to_owned(),
            reason: checked.reason,
            warnings: checked.warning.into_iter().map(warning).collect(),
        })
    }
}

/// Plans a query alone.
#[pyfunction]
pub fn check(py: Python<'_>, query: &str, namespaces: BTreeMap<String, String>, dialect: &str) -> PyResult<QueryCheck> {
    QueryCheck::of(py, query, &context(namespaces, dialect)?, &Limits::default())
}
