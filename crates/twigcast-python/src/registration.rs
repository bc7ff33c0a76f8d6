//! Reads subscriptions that Python passes, and adds them to the core.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use twigcast_core::engine as core;
use twigcast_core::engine::QueryContext;
use twigcast_core::query::{Dialect, Parameters};

use crate::engine_handle::Engine;
use crate::parameters::{parameters, text};
use crate::{errors, queries};

/// The result of adding many subscriptions. See the stub file.
#[pyclass(frozen, get_all, module = "twigcast._core")]
pub struct AddOutcome {
    refused: Py<PyList>,
    warnings: Vec<(usize, String)>,
}

/// Returns the namespaces that Python gives, by prefix.
pub fn namespaces(value: &Bound<'_, PyAny>) -> PyResult<BTreeMap<String, String>> {
    let py = value.py();
    let is_mapping = value.hasattr("keys")?;
    if !is_mapping {
        let message = format!("namespaces must be a mapping of str to str, not {}", value.get_type().name()?);
        return Err(PyTypeError::new_err(message));
    }
    let dictionary = py.get_type::<PyDict>().call1((value,))?.cast_into::<PyDict>()?;
    dictionary
        .iter()
        .map(|(prefix, uri)| {
            let (prefix, uri) = (text(&prefix, "a prefix in namespaces")?, text(&uri, "a namespace in namespaces")?);
            Ok((prefix.to_string(), uri.to_string()))
        })
        .collect()
}

/// Subscriptions to add, in order, without those that are no text.
pub struct SubscriptionBatch {
    pairs: Vec<(PyBackedStr, PyBackedStr)>,
    /// By pair: its index among the items that were passed.
    indices: Vec<usize>,
    /// The first pair of each run of one context.
    runs: Vec<(usize, QueryContext)>,
    /// The groups of pairs that have one.
    groups: Vec<(usize, PyBackedStr)>,
    /// Errors by index of the item.
    refused: Vec<(usize, Py<PyAny>)>,
}

/// A subscription as Python passes it.
struct Item {
    key: PyBackedStr,
    query: PyBackedStr,
    namespaces: Option<BTreeMap<String, String>>,
    dialect: Option<Dialect>,
    group: Option<PyBackedStr>,
    parameters: Parameters,
}

impl Item {
    fn of(item: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = item.py();
        let fields: [Bound<'_, PyAny>; 6] = if item.is_exact_instance_of::<PyTuple>() || item.is_instance_of::<PyList>()
        {
            let length = item.len()?;
            if !(2..=6).contains(&length) {
                let message = format!(
                    "a subscription has a key, a query, perhaps namespaces, a dialect, a group and params, not {length} items"
                );
                return Err(PyTypeError::new_err(message));
            }
            let field = |index: usize| if index < length { item.get_item(index) } else { Ok(py.None().into_bound(py)) };
            [field(0)?, field(1)?, field(2)?, field(3)?, field(4)?, field(5)?]
        } else if item.hasattr("query")? {
            [
                item.getattr("key")?,
                item.getattr("query")?,
                item.getattr("namespaces")?,
                item.getattr("dialect")?,
                item.getattr("group")?,
                item.getattr("params")?,
            ]
        } else {
            let kind = item.get_type().name()?.to_string();
            let message = format!("a subscription must be a Subscription or a tuple of key and query, not {kind}");
            return Err(PyTypeError::new_err(message));
        };
        let [key, query, own, dialect, group, params] = fields;
        Ok(Self {
            key: text(&key, "key")?,
            query: text(&query, "query")?,
            namespaces: if own.is_none() { None } else { Some(namespaces(&own)?).filter(|own| !own.is_empty()) },
            dialect: if dialect.is_none() { None } else { Some(queries::dialect(&text(&dialect, "dialect")?)?) },
            group: if group.is_none() { None } else { Some(text(&group, "group")?) },
            parameters: parameters(Some(&params))?,
        })
    }
}

/// Returns the key and the query of an item that is nothing but a tuple of these, as most are.
fn pair(item: &Bound<'_, PyAny>) -> Option<(PyBackedStr, PyBackedStr)> {
    let tuple = item.cast_exact::<PyTuple>().ok().filter(|tuple| tuple.len() == 2)?;
    let text = |index| tuple.get_borrowed_item(index).ok()?.cast::<PyString>().ok()?.to_owned().try_into().ok();
    Some((text(0)?, text(1)?))
}

impl SubscriptionBatch {
    /// Reads items; `shared` is the context of those that say nothing else.
    fn of(items: &Bound<'_, PyList>, shared: &QueryContext) -> PyResult<Self> {
        let count = items.len();
        let mut batch = Self {
            pairs: Vec::with_capacity(count),
            indices: Vec::with_capacity(count),
            runs: Vec::new(),
            groups: Vec::new(),
            refused: Vec::new(),
        };
        for (index, item) in items.iter().enumerate() {
            if let Some((key, query)) = pair(&item) {
                batch.push(index, (key, query), shared);
                continue;
            }
            match Item::of(&item) {
                Ok(Item { key, query, namespaces: None, dialect: None, group, parameters })
                    if parameters.is_empty() =>
                {
                    batch.push_in_group(index, (key, query), (shared, group));
                }
                Ok(Item { key, query, namespaces, dialect, group, parameters }) => {
                    let mut context = QueryContext { parameters, ..shared.clone() };
                    context.namespaces.extend(namespaces.into_iter().flatten());
                    context.dialect = dialect.map_or(context.dialect, native);
                    batch.push_in_group(index, (key, query), (&context, group));
                }
                Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(item.py()) => {
                    batch.refused.push((index, error.into_value(item.py()).into_any()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(batch)
    }

    fn push(&mut self, index: usize, pair: (PyBackedStr, PyBackedStr), context: &QueryContext) {
        if self.runs.last().is_none_or(|(_, last)| last != context) {
            self.runs.push((self.pairs.len(), context.clone()));
        }
        self.pairs.push(pair);
        self.indices.push(index);
    }

    fn push_in_group(
        &mut self,
        index: usize,
        pair: (PyBackedStr, PyBackedStr),
        (context, group): (&QueryContext, Option<PyBackedStr>),
    ) {
        self.groups.extend(group.filter(|group| !group.is_empty()).map(|group| (self.pairs.len(), group)));
        self.push(index, pair, context);
    }

    /// Adds the subscriptions.
    pub fn add_to(&self, engine: &Engine, replace: bool) -> core::BulkReport {
        let mut all = core::BulkReport::default();
        let texts = |range: Range<usize>| self.pairs[range].iter().map(|(key, query)| (&**key, &**query));
        engine.change_many(
            self.pairs.len(),
            |engine, range| engine.quick_changes(texts(range), replace),
            |engine, range| self.add_range(engine, range, replace, &mut all),
        );
        all
    }

    fn add_range(&self, engine: &mut core::Engine, range: Range<usize>, replace: bool, all: &mut core::BulkReport) {
        let first = self.runs.partition_point(|(start, _)| *start <= range.start).saturating_sub(1);
        let refused_before = all.refused.len();
        let mut start = range.start;
        for (number, (_, context)) in self.runs.iter().enumerate().skip(first) {
            let end = self.runs.get(number + 1).map_or(range.end, |(next, _)| range.end.min(*next));
            let report = engine.add_many(&self.pairs[start..end], context, replace);
            all.refused.extend(report.refused.into_iter().map(|(position, error)| (start + position, error)));
            all.warnings.extend(report.warnings.into_iter().map(|(position, warning)| (start + position, warning)));
            start = end;
            if start == range.end {
                break;
            }
        }
        let refused: HashSet<usize> = all.refused[refused_before..].iter().map(|(position, _)| *position).collect();
        let first = self.groups.partition_point(|(position, _)| *position < range.start);
        for (position, group) in self.groups[first..].iter().take_while(|(position, _)| *position < range.end) {
            if !refused.contains(position) {
                engine.assign_group(&self.pairs[*position].0, group);
            }
        }
    }
}

/// Returns the dialect as which the engine reads queries by itself, before another processor is asked.
fn native(dialect: Dialect) -> Dialect {
    if dialect == Dialect::XQuery { Dialect::Native } else { dialect }
}

/// Adds items. `change` adds them to an engine, without the GIL.
pub fn add_many(
    items: &Bound<'_, PyList>,
    shared: QueryContext,
    change: impl FnOnce(&SubscriptionBatch) -> core::BulkReport + Send,
) -> PyResult<AddOutcome> {
    let py = items.py();
    let shared = QueryContext { dialect: native(shared.dialect), ..shared };
    let batch = SubscriptionBatch::of(items, &shared)?;
    let report = py.detach(|| change(&batch));
    let mut refused = batch.refused;
    for (position, error) in report.refused {
        let (key, query) = &batch.pairs[position];
        refused.push((batch.indices[position], errors::add(py, key, query, &error).into_value(py).into_any()));
    }
    refused.sort_by_key(|(index, _)| *index);
    let warnings = report.warnings.into_iter();
    Ok(AddOutcome {
        refused: PyList::new(py, refused)?.unbind(),
        warnings: warnings.map(|(position, warning)| (batch.indices[position], queries::warning(warning))).collect(),
    })
}
