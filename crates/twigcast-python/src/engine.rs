//! The methods of the class `Engine`.

use std::collections::BTreeMap;
use std::path::Path;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use twigcast_core::engine as core;
use twigcast_core::engine::{Matcher, QueryContext, Slot};
use twigcast_core::explain::{self, ExplainError};
use twigcast_core::rewrite::Payloads;
use twigcast_core::snapshot;

use crate::answer::{Answer, Standing};
use crate::batch::{self, BatchOptions, Naming};
use crate::batch_result::BatchResult;
use crate::engine_handle::{Engine, key_of, slots_of};
use crate::errors;
use crate::external::external_matches;
use crate::keys::KeyTable;
use crate::limits;
use crate::payloads::PythonSink;
use crate::queries::{self, QueryCheck};
use crate::registration::{self, AddOutcome};
use crate::results::{Prepared, Results};
use crate::stream::{NameDictionary, with_dictionary};

/// A subscription's query as it was registered. See the stub file.
#[pyclass(frozen, get_all, module = "twigcast._core")]
pub struct StoredQuery {
    query: String,
    namespaces: BTreeMap<String, String>,
    dialect: &'static str,
}

/// A node that a query selects. See the stub file.
#[pyclass(frozen, get_all, module = "twigcast._core")]
pub struct SelectedNode {
    kind: &'static str,
    name: String,
    start: u32,
    end: u32,
    line: u32,
    column: u32,
}

/// Returns keys and reasons in place of slots and reasons.
fn by_key<R: ToString>(engine: &core::Engine, failures: impl Iterator<Item = (Slot, R)>) -> Vec<(String, String)> {
    failures.map(|(slot, reason)| (key_of(engine, slot), reason.to_string())).collect()
}

/// Returns what the last message matched. `engine` is that of `slf`.
fn answer(slf: &Py<Engine>, engine: &core::Engine, matcher: &Matcher) -> Answer {
    let external = if engine.has_external() { slots_of(engine, matcher) } else { Vec::new() };
    Python::attach(|py| Answer {
        answer: engine.answer(matcher),
        engine: slf.clone_ref(py),
        undecided: by_key(engine, engine.failures(matcher).into_iter()),
        external: external_matches(engine, 0, 0, &external),
    })
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (limits=BTreeMap::new()))]
    fn new(limits: BTreeMap<String, usize>) -> PyResult<Self> {
        Ok(Self::wrap(core::Engine::new(limits::limits(&limits)?)))
    }

    fn add(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        query: &Bound<'_, PyAny>,
        namespaces: BTreeMap<String, String>,
        dialect: &str,
        replace: bool,
    ) -> PyResult<Option<String>> {
        let (key, query) = (registration::text(key, "key")?, registration::text(query, "query")?);
        let context = queries::context(namespaces, dialect)?;
        let added = py.detach(|| {
            let added = self.write().add(&key, &query, &context, replace);
            self.note_added(1);
            added
        });
        added.map(|warning| warning.map(queries::warning)).map_err(|error| errors::add(py, &key, &query, &error))
    }

    fn add_many(
        &self,
        items: &Bound<'_, PyList>,
        namespaces: BTreeMap<String, String>,
        dialect: &str,
        replace: bool,
    ) -> PyResult<AddOutcome> {
        let context = queries::context(namespaces, dialect)?;
        let count = items.len();
        let change = |add: &(dyn Fn(&mut core::Engine) -> core::BulkReport + Sync)| {
            let report = add(&mut self.write());
            self.note_added(count);
            report
        };
        registration::add_many(items, context, change, replace)
    }

    fn remove(&self, py: Python<'_>, key: &str) -> bool {
        py.detach(|| self.write().remove(key))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.read().len())
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> bool {
        match key.extract::<String>() {
            Ok(key) => py.detach(|| self.read().slot_of(&key).is_some()),
            Err(_) => false,
        }
    }

    fn keys(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| {
            let engine = self.read();
            (0..engine.slot_bound() as Slot).filter_map(|slot| engine.key(slot).map(str::to_owned)).collect()
        })
    }

    fn key_table(&self, py: Python<'_>) -> KeyTable {
        KeyTable(py.detach(|| self.newest_key_table().all(&self.read())))
    }

    fn slots_of(&self, py: Python<'_>, keys: Vec<pyo3::pybacked::PyBackedStr>) -> Vec<Option<Slot>> {
        py.detach(|| {
            let engine = self.read();
            keys.iter().map(|key| engine.slot_of(key)).collect()
        })
    }

    fn query(&self, py: Python<'_>, key: &str) -> Option<StoredQuery> {
        py.detach(|| {
            let engine = self.read();
            let (text, context) = engine.query_of(engine.slot_of(key)?)?;
            Some(StoredQuery {
                query: text.into_owned(),
                namespaces: context.namespaces.clone(),
                dialect: core::dialect_name(context.dialect),
            })
        })
    }

    #[getter]
    fn has_external(&self, py: Python<'_>) -> bool {
        py.detach(|| self.read().has_external())
    }

    fn share_results(&self, py: Python<'_>, share: bool) {
        py.detach(|| self.write().share_results(share));
    }

    #[getter]
    fn version(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.read().version())
    }

    /// `bytes` arguments stay as they are while the GIL is released: they are immutable.
    #[pyo3(name = "match")]
    fn match_(&self, py: Python<'_>, xml: &[u8]) -> PyResult<Vec<Slot>> {
        py.detach(|| self.with_matcher(|engine, matcher| engine.run(matcher, xml).map(|()| slots_of(engine, matcher))))
            .map_err(|error| errors::message(py, &error))
    }

    #[pyo3(signature = (stream, dictionary=None))]
    fn match_stream(slf: &Bound<'_, Self>, stream: &[u8], dictionary: Option<&NameDictionary>) -> PyResult<Answer> {
        let (py, this) = (slf.py(), slf.clone().unbind());
        py.detach(|| {
            this.get().with_matcher(|engine, matcher| {
                with_dictionary(dictionary, |names| engine.run_stream(matcher, stream, names))?;
                Ok(answer(&this, engine, matcher))
            })
        })
        .map_err(|error| errors::message(py, &error))
    }

    /// See the stub file.
    fn answer(slf: &Bound<'_, Self>, xml: &[u8]) -> PyResult<Answer> {
        let (py, this) = (slf.py(), slf.clone().unbind());
        py.detach(|| {
            this.get().with_matcher(|engine, matcher| {
                engine.run(matcher, xml)?;
                Ok(answer(&this, engine, matcher))
            })
        })
        .map_err(|error| errors::message(py, &error))
    }

    #[pyo3(signature = (xml, key, since=None))]
    fn nodes(&self, py: Python<'_>, xml: &[u8], key: &str, since: Option<&Answer>) -> PyResult<Vec<SelectedNode>> {
        // Under one lock with the answer: once it is let go, the slot may become another subscription's.
        let selected = py.detach(|| {
            self.with_matcher(|engine, matcher| {
                let standing = match since {
                    Some(answer) => answer.standing(engine, key),
                    None => engine.slot_of(key).map_or(Standing::Unknown, Standing::Current),
                };
                match standing {
                    Standing::Current(slot) => Ok(engine.selected(matcher, xml, slot)),
                    other => Err(other),
                }
            })
        });
        let nodes = selected
            .map_err(|standing| match standing {
                Standing::Changed => errors::changed(py, key),
                _ => errors::unknown_key(py, key),
            })?
            .map_err(|error| errors::message(py, &error))?
            .map_err(|reason| errors::undecided(py, key, &reason.to_string()))?;
        let node = |n: core::SelectedNode| SelectedNode {
            kind: n.kind,
            name: n.name,
            start: n.start,
            end: n.end,
            line: n.line,
            column: n.column,
        };
        Ok(nodes.into_iter().map(node).collect())
    }

    fn node_counts(&self, py: Python<'_>, xml: &[u8]) -> PyResult<Vec<(String, usize)>> {
        py.detach(|| {
            self.with_matcher(|engine, matcher| {
                engine.run_counting(matcher, xml)?;
                let slots = slots_of(engine, matcher).into_iter();
                // A query that cannot be evaluated within the limits counts no nodes, as in a batch.
                let count = |slot| (key_of(engine, slot), engine.node_count(matcher, xml, slot).unwrap_or_default());
                Ok(slots.map(count).collect())
            })
        })
        .map_err(|error| errors::message(py, &error))
    }

    /// See the stub file.
    fn results(slf: &Bound<'_, Self>, xml: Bound<'_, PyBytes>) -> PyResult<Results> {
        let (py, this) = (slf.py(), slf.get());
        let sent = PythonSink::default();
        let source = xml.as_bytes();
        let prepared = py
            .detach(|| {
                this.with_matcher(|engine, matcher| {
                    let mut payloads = Payloads::into_sink(Box::new(sent.clone()));
                    let prepared = engine.prepare(matcher, source, &mut payloads)?;
                    payloads.close();
                    let mut undecided = by_key(engine, engine.failures(matcher).into_iter());
                    undecided.extend(by_key(engine, prepared.failures().iter().map(|(slot, reason)| (*slot, reason))));
                    let external = if engine.has_external() {
                        external_matches(engine, 0, 0, &prepared.deliveries_in_order().0)
                    } else {
                        Vec::new()
                    };
                    let (keys, table) = (engine.keys_now(), this.newest_key_table().ready(engine));
                    Ok(Prepared { prepared, keys, table, undecided, external })
                })
            })
            .map_err(|error| errors::message(py, &error))?;
        Ok(Results::new(xml.unbind(), prepared, sent.list(py)?, slf.clone().unbind()))
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (offsets, data, count, *, deliver=false, nodes=false, threads=1, naming="keys"))]
    fn match_batch(
        &self,
        py: Python<'_>,
        offsets: &[u8],
        data: &Bound<'_, PyAny>,
        count: usize,
        deliver: bool,
        nodes: bool,
        threads: usize,
        naming: &str,
    ) -> PyResult<BatchResult> {
        let naming = match naming {
            "slots" => Naming::Slots,
            "keys" => Naming::Keys,
            "groups" if !deliver && !nodes => Naming::Groups,
            "groups" => {
                return Err(PyValueError::new_err(
                    "an answer in groups has neither payloads nor nodes, which go by key",
                ));
            }
            _ => return Err(PyValueError::new_err(format!("naming must be slots, keys or groups, not {naming:?}"))),
        };
        let options = BatchOptions { deliver, nodes, naming };
        let data = self.copy_buffer().borrow(data)?;
        let rows = batch::MessageRows::new(offsets, data.bytes(), count)
            .ok_or_else(|| PyValueError::new_err("offsets do not describe slices of data"))?;
        let output = py.detach(|| batch::run(self, &rows, options, threads.max(1)));
        self.copy_buffer().take_back(data);
        BatchResult::new(py, self, output)
    }

    fn save(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        py.detach(|| snapshot::save(&self.read(), Path::new(path)))
            .map_err(|reason| errors::snapshot(py, path, &reason.to_string()))
    }

    #[staticmethod]
    #[pyo3(signature = (path, limits=BTreeMap::new()))]
    fn load(py: Python<'_>, path: &str, limits: BTreeMap<String, usize>) -> PyResult<Self> {
        let limits = limits::limits(&limits)?;
        py.detach(|| snapshot::load(Path::new(path), limits))
            .map(Self::wrap)
            .map_err(|reason| errors::snapshot(py, path, &reason.to_string()))
    }

    fn explain(
        &self,
        py: Python<'_>,
        xml: &[u8],
        query: &str,
        namespaces: BTreeMap<String, String>,
        dialect: &str,
    ) -> PyResult<String> {
        let context = queries::context(namespaces, dialect)?;
        let explained = py.detach(|| {
            let limits = self.read().limits().clone();
            explain::explain(xml, query, &context.namespaces, context.dialect, &limits)
                .map(|explanation| explain::json::explanation(&explanation))
        });
        explained.map_err(|error| match error {
            ExplainError::Query(error) => errors::query(py, query, &error),
            ExplainError::Message(error) => errors::message(py, &error),
            ExplainError::Evaluation(error) => errors::undecided(py, query, &error.to_string()),
        })
    }

    fn describe(&self, py: Python<'_>, key: &str) -> PyResult<QueryCheck> {
        // No lock is held when Python code may run: a thread that waits for one keeps the interpreter to itself.
        let (text, context, limits): (String, QueryContext, _) = py
            .detach(|| {
                let engine = self.read();
                let (text, context) = engine.query_of(engine.slot_of(key)?)?;
                Some((text.into_owned(), context.clone(), engine.limits().clone()))
            })
            .ok_or_else(|| errors::unknown_key(py, key))?;
        QueryCheck::of(py, &text, &context, &limits)
    }

    fn statistics(&self, py: Python<'_>) -> BTreeMap<&'static str, usize> {
        py.detach(|| {
            let mut statistics = self.read().statistics();
            let idle = self.idle();
            statistics.insert("matchers", idle.len());
            statistics.insert("cache_bytes", idle.iter().map(Matcher::cache_bytes).sum());
            statistics.insert("cache_overflows", idle.iter().map(|m| m.overflows as usize).sum());
            statistics.insert("dfa_states", idle.iter().map(Matcher::dfa_state_count).sum());
            statistics
        })
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("an Engine is not pickled; save it to a file, or pickle the SubscriptionSet"))
    }
}
