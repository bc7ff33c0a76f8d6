//! The class `ConjunctionIndex`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use twigcast_core::engine::routing::{self as core, Targets};
use twigcast_core::engine::{Matcher, QueryContext};
use twigcast_core::ids::{ConjunctionId, RouteLabel};

use crate::locks::{self, HeldLock, LockOwner, lock};
use crate::stream::{NameDictionary, with_dictionary};
use crate::{errors, limits};

/// The most matchers that are kept for the next call.
const IDLE_MATCHERS_MAX: usize = 16;

/// Labels that many messages ask for, and the target that each stands for. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct LabelRequest {
    labels: Vec<(RouteLabel, u32)>,
}

#[pymethods]
impl LabelRequest {
    #[new]
    fn new(labels: Vec<(u32, u32)>) -> Self {
        Self { labels: labels.into_iter().map(|(label, target)| (RouteLabel::from_u32(label), target)).collect() }
    }

    fn __len__(&self) -> usize {
        self.labels.len()
    }
}

/// A label request, as an object or as a list.
#[derive(FromPyObject)]
enum LabelsInput<'py> {
    Ready(PyRef<'py, LabelRequest>),
    Listed(#[pyo3(from_py_with = read_labels)] Vec<(RouteLabel, u32)>),
}

fn read_labels(listed: &Bound<'_, PyAny>) -> PyResult<Vec<(RouteLabel, u32)>> {
    Ok(LabelRequest::new(listed.extract()?).labels)
}

impl LabelsInput<'_> {
    fn labels(&self) -> &[(RouteLabel, u32)] {
        match self {
            Self::Ready(request) => &request.labels,
            Self::Listed(labels) => labels,
        }
    }
}

/// Conjunctions of linear paths with labels. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct ConjunctionIndex(Arc<SharedTable>);

/// The state of an index that all threads share.
struct SharedTable {
    table: RwLock<core::ConjunctionIndex>,
    /// Boxed, since a matcher is large to move.
    idle: Mutex<Vec<Box<Matcher>>>,
    /// Always false: a change takes place under the lock of the table.
    is_changing: Mutex<bool>,
}

impl LockOwner for SharedTable {
    fn lock_all(&'static self) -> (MutexGuard<'static, bool>, Vec<HeldLock>) {
        let table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        (lock(&self.is_changing), vec![Box::new(table), Box::new(lock(&self.idle))])
    }
}

// As with `Engine`: a panic leaves the data as consistent as Rust keeps it.
impl ConjunctionIndex {
    fn read(&self) -> RwLockReadGuard<'_, core::ConjunctionIndex> {
        self.0.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, core::ConjunctionIndex> {
        self.0.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with a matcher of the calling thread's own.
    fn with_matcher<T>(&self, work: impl FnOnce(&core::ConjunctionIndex, &mut Matcher) -> T) -> T {
        let matcher = lock(&self.0.idle).pop();
        let mut matcher = matcher.unwrap_or_default();
        let answer = work(&self.read(), &mut matcher);
        let mut idle = lock(&self.0.idle);
        if idle.len() < IDLE_MATCHERS_MAX {
            idle.push(matcher);
        }
        answer
    }
}

#[pymethods]
impl ConjunctionIndex {
    #[new]
    #[pyo3(signature = (limits=BTreeMap::new()))]
    fn new(limits: BTreeMap<String, usize>) -> PyResult<Self> {
        let table = core::ConjunctionIndex::new(limits::limits(&limits)?);
        let shared = Arc::new(SharedTable {
            table: RwLock::new(table),
            idle: Mutex::new(Vec::new()),
            is_changing: Mutex::new(false),
        });
        let registered: Arc<dyn LockOwner> = shared.clone();
        locks::register(Arc::downgrade(&registered));
        Ok(Self(shared))
    }

    fn add(
        &self,
        py: Python<'_>,
        paths: Vec<(PyBackedStr, BTreeMap<String, String>)>,
        labels: Vec<u32>,
    ) -> PyResult<u32> {
        let paths: Vec<(PyBackedStr, QueryContext)> = paths
            .into_iter()
            .map(|(text, namespaces)| (text, QueryContext { namespaces, ..QueryContext::default() }))
            .collect();
        let added = py.detach(|| {
            let paths: Vec<(&str, QueryContext)> =
                paths.iter().map(|(text, context)| (&**text, context.clone())).collect();
            self.write().add(&paths, labels.into_iter().map(RouteLabel::from_u32).collect())
        });
        added.map(ConjunctionId::as_u32).map_err(|(index, error)| errors::query(py, &paths[index].0, &error))
    }

    fn set_labels(&self, py: Python<'_>, conjunction: u32, labels: Vec<u32>) -> bool {
        let labels = labels.into_iter().map(RouteLabel::from_u32).collect();
        py.detach(|| self.write().set_labels(ConjunctionId::from_u32(conjunction), labels))
    }

    fn remove(&self, py: Python<'_>, conjunction: u32) -> bool {
        py.detach(|| self.write().remove(ConjunctionId::from_u32(conjunction)))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.read().len())
    }

    fn route(&self, py: Python<'_>, xml: &[u8], wanted: LabelsInput<'_>) -> PyResult<Targets> {
        let wanted = wanted.labels();
        py.detach(|| self.with_matcher(|table, matcher| table.route(matcher, xml, wanted)))
            .map_err(|error| errors::message(py, &error))
    }

    fn route_stream(
        &self,
        py: Python<'_>,
        stream: &[u8],
        dictionary: Option<&NameDictionary>,
        wanted: LabelsInput<'_>,
    ) -> PyResult<Targets> {
        let labels = wanted.labels();
        py.detach(|| {
            with_dictionary(dictionary, |names| {
                self.with_matcher(|table, matcher| table.route_stream(matcher, stream, names, labels))
            })
        })
        .map_err(|error| errors::message(py, &error))
    }

    fn holding(&self, py: Python<'_>, xml: &[u8]) -> PyResult<Vec<u32>> {
        py.detach(|| self.with_matcher(|table, matcher| table.holding(matcher, xml)))
            .map(|ids| ids.into_iter().map(ConjunctionId::as_u32).collect())
            .map_err(|error| errors::message(py, &error))
    }

    fn statistics(&self, py: Python<'_>) -> BTreeMap<&'static str, usize> {
        py.detach(|| {
            let table = self.read();
            let mut counts = table.engine().statistics();
            counts.insert("conjunctions", table.len());
            counts.insert("label_sets", table.label_set_count());
            counts
        })
    }
}
