//! Queries without an engine.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use twigcast_core::analysis;
use twigcast_core::engine::{self, Engine, QueryContext, QueryWarning, Slot};
use twigcast_core::error::QueryErrorKind;
use twigcast_core::limits::Limits;
use twigcast_core::query::matching::matching_condition;
use twigcast_core::query::notes::{NoteKind, QueryNote};
use twigcast_core::query::{self, Dialect, Parameters, ParseOptions, Query, json, normal};
use twigcast_core::vocabulary::Vocabulary;

use crate::errors;
use crate::parameters::{parameters, parameters_as_dict};

/// A subscription's query as it was registered. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct StoredQuery {
    #[pyo3(get)]
    query: String,
    #[pyo3(get)]
    namespaces: BTreeMap<String, String>,
    #[pyo3(get)]
    dialect: &'static str,
    #[pyo3(get)]
    group: String,
    parameters: Parameters,
}

#[pymethods]
impl StoredQuery {
    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        parameters_as_dict(py, &self.parameters)
    }
}

impl StoredQuery {
    /// Returns the query of a slot, with its context and the group of the subscription; `None` if the slot is free.
    pub fn of(engine: &Engine, slot: Slot) -> Option<Self> {
        let (text, context) = engine.query_of(slot)?;
        Some(Self {
            query: text.into_owned(),
            namespaces: context.namespaces.clone(),
            dialect: engine::dialect_name(context.dialect),
            group: engine.group(slot).to_owned(),
            parameters: context.parameters.clone(),
        })
    }
}

/// Returns the query context that Python describes.
pub fn context(
    namespaces: BTreeMap<String, String>,
    dialect: &str,
    params: Option<&Bound<'_, PyAny>>,
) -> PyResult<QueryContext> {
    Ok(QueryContext { namespaces, dialect: self::dialect(dialect)?, parameters: parameters(params)? })
}

/// Returns a dialect by its name.
pub fn dialect(name: &str) -> PyResult<Dialect> {
    engine::dialect(name).ok_or_else(|| {
        PyValueError::new_err(format!("dialect must be 'xpath', 'legacy', 'doubles' or 'xquery', not {name:?}"))
    })
}

fn note(QueryNote { kind, column }: QueryNote) -> String {
    let what = match kind {
        NoteKind::OrderOfNumber => {
            "the text in quotes is compared as a number, since `<` and `>` compare nothing else; write the number without \
             quotes, or xs:date('2026-11-30') and the like for dates"
        }
        NoteKind::OrderOfText => {
            "the text in quotes is no number, and `<` and `>` compare numbers, so that this never holds; write \
             xs:date('2026-11-30') and the like for dates, and twig:version('2.17.1') for versions"
        }
        NoteKind::InexactNumber => {
            "this number has more digits than a number keeps, so that others compare equal to it; compare texts: @id = '...'"
        }
        NoteKind::NumberOutOfRange => "no number is so great, or so near to zero: this is read as infinity, or as 0",
        NoteKind::SubtractedDate => "this subtracts numbers from a year; a date is written xs:date('2026-11-30')",
        NoteKind::ConstantCondition => {
            "a text or a number alone is true or false of all messages; write a = ('x', 'y') to compare with each of several \
             values"
        }
        NoteKind::OtherCase => {
            "letters are of one case on one side, and the text on the other has letters of the other case, so that they are never \
             equal; write the text in the case of the function"
        }
        NoteKind::TruthOfNodes => {
            "a path that is compared with a truth value asks whether there is a node, whatever it holds; write @a = ('true', '1') \
             for what it holds, exists(a) and empty(a) for its existence"
        }
        NoteKind::SeveralAttributes => {
            "this copies an attribute of each of several elements, and an element has only one of a name, so that the result \
             is undecided where there are two; write string(...), data of one element, or a `for`"
        }
        NoteKind::NameOfConstant => {
            "this is a child element of that name; write 'true' for a text, true() for a truth value, empty(a) where there is \
             nothing, and xs:double('INF') for infinity"
        }
    };
    format!("column {column}: {what}")
}

/// Returns what a warning says.
pub fn warning(warning: QueryWarning) -> String {
    match warning {
        QueryWarning::Noted(noted) => note(noted),
        QueryWarning::NeverMatches => "no message can match this query".into(),
        QueryWarning::AlwaysMatches => "every message matches this query".into(),
        QueryWarning::EvaluatedAlways => {
            "nothing in this query narrows the messages down, so it is evaluated on each of them (cost class: always); \
             begin it with an element that the message must have, as in /feed[not(//draft)]"
                .into()
        }
        QueryWarning::NoCover => {
            "no value leads to this query, so its conditions are verified at each element where its path leads (cost \
             class: candidate); put a condition on a value beside them, such as [@kind = 'x'] or [symbol = 'XYZ'], which \
             the engine looks up"
                .into()
        }
        QueryWarning::LosesDefault => {
            "a path in a constructor with xmlns=\"...\" reads names without a prefix by that, and not by the default \
             namespace of the query; give these names a prefix, or bind the path by `let` before `return`"
                .into()
        }
        QueryWarning::GainsDefault => {
            "a path in a constructor with xmlns=\"...\" reads names without a prefix by that, though outside of it they are \
             in no namespace; write *:name for them, or bind the path by `let` before `return`; if they are meant to be in \
             that namespace, give it a prefix"
                .into()
        }
    }
}

/// Returns the algebra of a query as JSON.
#[pyfunction]
#[pyo3(signature = (query, namespaces, dialect, params=None))]
pub fn parse_tree(
    py: Python<'_>,
    query: &str,
    namespaces: BTreeMap<String, String>,
    dialect: &str,
    params: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let mut vocabulary = Vocabulary::new();
    let parsed = parsed(py, query, &context(namespaces, dialect, params)?, &mut vocabulary)?;
    Ok(json::query(&parsed, &vocabulary))
}

/// Returns the condition under which a query may match, in normal form, as JSON.
#[pyfunction]
#[pyo3(signature = (query, namespaces, dialect, params=None))]
pub fn condition_tree(
    py: Python<'_>,
    query: &str,
    namespaces: BTreeMap<String, String>,
    dialect: &str,
    params: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let mut vocabulary = Vocabulary::new();
    let condition = match parsed(py, query, &context(namespaces, dialect, params)?, &mut vocabulary)? {
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
    let options = ParseOptions::new(&namespaces, Dialect::XPath, &limits);
    match query::parse(expression, &options, &mut Vocabulary::new()) {
        Ok(Query::XPath(expr)) => Ok(analysis::truth_without_nodes(&expr)),
        Ok(Query::Flwr(_)) => Err(PyValueError::new_err("the expression must be XPath, not For-Where-Return")),
        // What is nested too deep to be parsed is not known.
        Err(error) if matches!(error.kind, QueryErrorKind::Limit { .. }) => Ok(None),
        Err(error) => Err(errors::query(py, expression, &error)),
    }
}

fn parsed(py: Python<'_>, query: &str, context: &QueryContext, vocabulary: &mut Vocabulary) -> PyResult<Query> {
    let limits = Limits::default();
    let options = context.parse_options(&limits);
    query::parse(query, &options, vocabulary).map_err(|error| errors::query(py, query, &error))
}

/// A report on a query. See the stub file.
#[pyclass(frozen, get_all, module = "twigcast._core")]
pub struct QueryCheck {
    query: String,
    normal_form: String,
    route: String,
    reason: String,
    cover: Option<String>,
    cost: String,
    warnings: Vec<String>,
}

impl QueryCheck {
    /// Plans a query alone, without the GIL: of a query of a megabyte that takes seconds.
    pub fn of(py: Python<'_>, query: &str, context: &QueryContext, limits: &Limits) -> PyResult<Self> {
        py.detach(|| engine::check(query, context, limits))
            .map(|checked| Self::from_core(query, checked))
            .map_err(|error| errors::query(py, query, &error))
    }

    /// Wraps a report.
    pub fn from_core(query: &str, checked: engine::QueryCheck) -> Self {
        Self {
            query: query.to_owned(),
            normal_form: checked.normal_form,
            route: checked.route.to_owned(),
            reason: checked.reason.to_owned(),
            cover: checked.cover,
            cost: checked.cost.to_owned(),
            warnings: checked.warning.into_iter().map(warning).collect(),
        }
    }
}

/// Plans a query alone.
#[pyfunction]
#[pyo3(signature = (query, namespaces, dialect, params=None, limits=BTreeMap::new()))]
pub fn check(
    py: Python<'_>,
    query: &str,
    namespaces: BTreeMap<String, String>,
    dialect: &str,
    params: Option<&Bound<'_, PyAny>>,
    limits: BTreeMap<String, usize>,
) -> PyResult<QueryCheck> {
    QueryCheck::of(py, query, &context(namespaces, dialect, params)?, &crate::limits::limits(&limits)?)
}
