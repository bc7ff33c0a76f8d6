//! The methods of the class `Engine`.

use std::collections::BTreeMap;
use std::path::Path;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use twigcast_core::engine as core;
use twigcast_core::engine::{Matcher, Slot};
use twigcast_core::error::MessageError;
use twigcast_core::explain::{self, ExplainError};
use twigcast_core::rewrite::Payloads;
use twigcast_core::snapshot;
use twigcast_core::util::temporal::Temporal;

use crate::answer::{Answer, Standing};
use crate::batch::{self, BatchOptions, Naming};
use crate::batch_result::BatchResult;
use crate::engine_handle::{Engine, key_of, slots_of};
use crate::errors;
use crate::external::external_matches;
use crate::keys::KeyTable;
use crate::limits;
use crate::parameters;
use crate::payloads::PythonSink;
use crate::queries::{self, QueryCheck, StoredQuery};
use crate::reading::RecordCutter;
use crate::record_matching::{self, RecordAnswers};
use crate::registration::{self, AddOutcome, SubscriptionBatch};
use crate::results::{Prepared, Results};
use crate::stream::{NameDictionary, with_dictionary};
use crate::yielding;

/// A subscription that is set aside. See the stub file.
#[pyclass(frozen, get_all, module = "twigcast._core")]
pub struct ThrottledSubscription {
    key: String,
    overruns: u32,
    messages: u64,
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

/// Returns failures with keys in place of slots, and with reasons as text.
fn by_key<R: ToString>(engine: &core::Engine, failures: impl Iterator<Item = (Slot, R)>) -> Vec<(String, String)> {
    failures.map(|(slot, reason)| (key_of(engine, slot), reason.to_string())).collect()
}

/// Returns what the last message matched. `engine` is that of `slf`.
fn answer(slf: &Py<Engine>, engine: &core::Engine, matcher: &Matcher) -> Answer {
    let external = if engine.has_external() { slots_of(engine, matcher) } else { Vec::new() };
    Python::attach(|py| Answer {
        answer: engine.answer(matcher),
        visits: matcher.visits(),
        engine: slf.clone_ref(py),
        undecided: by_key(engine, engine.failures(matcher).into_iter()),
        external: external_matches(engine, 0, 0, &external),
    })
}

/// How near messages come to subscriptions, by key, and the errors of those that were not decided.
type NearnessFields = (Vec<(String, f64)>, Vec<PyErr>);

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (limits=BTreeMap::new()))]
    fn new(limits: BTreeMap<String, usize>) -> PyResult<Self> {
        Ok(Self::wrap(core::Engine::new(limits::limits(&limits)?)))
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (key, query, namespaces, dialect, replace, group="", params=None))]
    fn add(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        query: &Bound<'_, PyAny>,
        namespaces: BTreeMap<String, String>,
        dialect: &str,
        replace: bool,
        group: &str,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<String>> {
        let (key, query) = (parameters::text(key, "key")?, parameters::text(query, "query")?);
        let context = queries::context(namespaces, dialect, params)?;
        let added = py.detach(|| {
            let added = self.change(
                |engine| engine.quick_changes([(&*key, &*query)], replace) == 1,
                |engine| {
                    let added = engine.add(&key, &query, &context, replace);
                    if added.is_ok() && !group.is_empty() {
                        engine.assign_group(&key, group);
                    }
                    added
                },
            );
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
        let context = queries::context(namespaces, dialect, None)?;
        let count = items.len();
        let change = |batch: &SubscriptionBatch| {
            let report = batch.add_to(self, replace);
            self.note_added(count);
            report
        };
        registration::add_many(items, context, change)
    }

    fn remove(&self, py: Python<'_>, key: &str) -> bool {
        py.detach(|| self.change(|engine| engine.quick_changes([(key, "")], true) == 1, |engine| engine.remove(key)))
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
            StoredQuery::of(&engine, engine.slot_of(key)?)
        })
    }

    fn throttled(&self, py: Python<'_>) -> Vec<ThrottledSubscription> {
        py.detach(|| {
            let engine = self.read();
            let throttled = engine.throttled().into_iter();
            throttled
                .map(|(slot, query)| ThrottledSubscription {
                    key: key_of(&engine, slot),
                    overruns: query.overruns,
                    messages: query.messages,
                })
                .collect()
        })
    }

    #[getter]
    fn unread_count(&self) -> u64 {
        self.unread().count()
    }

    fn unread_numbers(&self) -> Vec<(&str, &str)> {
        self.unread().values().map(|unread| (&*unread.path, &*unread.value)).collect()
    }

    #[getter]
    fn has_external(&self, py: Python<'_>) -> bool {
        py.detach(|| self.read().has_external())
    }

    fn share_results(&self, py: Python<'_>, share: bool) {
        py.detach(|| self.change(|_| true, |engine| engine.share_results(share)));
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
    #[pyo3(signature = (xml, published=None))]
    fn answer(slf: &Bound<'_, Self>, xml: &[u8], published: Option<i64>) -> PyResult<Answer> {
        let (py, this) = (slf.py(), slf.clone().unbind());
        py.detach(|| {
            let (answer, is_due) = this.get().with_matcher(|engine, matcher| {
                matcher.published = published.map(Temporal::number_of_microseconds);
                engine.run_expanding(matcher, xml)?;
                Ok((answer(&this, engine, matcher), engine.is_cover_choice_due()))
            })?;
            this.get().choose_covers(is_due);
            Ok(answer)
        })
        .map_err(|error| errors::message(py, &error))
    }

    #[pyo3(signature = (xml, key, since=None, published=None))]
    fn nodes(
        &self,
        py: Python<'_>,
        xml: &[u8],
        key: &str,
        since: Option<&Answer>,
        published: Option<i64>,
    ) -> PyResult<Vec<SelectedNode>> {
        // Under one lock with the answer: once it is let go, the slot may become another subscription's.
        let selected = py.detach(|| {
            self.with_matcher(|engine, matcher| {
                let standing = match since {
                    Some(answer) => answer.standing(engine, key),
                    None => engine.slot_of(key).map_or(Standing::Unknown, Standing::Current),
                };
                matcher.published = published.map(Temporal::number_of_microseconds);
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

    #[pyo3(signature = (xml, published=None))]
    fn node_counts(&self, py: Python<'_>, xml: &[u8], published: Option<i64>) -> PyResult<Vec<(String, usize)>> {
        py.detach(|| {
            self.with_matcher(|engine, matcher| {
                matcher.published = published.map(Temporal::number_of_microseconds);
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
    #[pyo3(signature = (xml, published=None))]
    fn results(slf: &Bound<'_, Self>, xml: Bound<'_, PyBytes>, published: Option<i64>) -> PyResult<Results> {
        let (py, this) = (slf.py(), slf.get());
        let sent = PythonSink::default();
        let source = xml.as_bytes();
        let prepared = py
            .detach(|| {
                this.with_matcher(|engine, matcher| {
                    matcher.published = published.map(Temporal::number_of_microseconds);
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
    #[pyo3(signature = (
        offsets, data, count, *, deliver=false, nodes=false, threads=1, naming="keys", published=None, yields=false
    ))]
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
        published: Option<Vec<i64>>,
        yields: bool,
    ) -> PyResult<BatchResult> {
        if published.as_ref().is_some_and(|times| times.len() != count) {
            return Err(PyValueError::new_err("there is a time of publication for each message, or for none"));
        }
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
            .ok_or_else(|| PyValueError::new_err("offsets do not describe slices of data"))?
            .published(published);
        let work = || batch::run(self, &rows, options, threads.max(1));
        let output = py.detach(|| if yields { yielding::run(&work) } else { work() });
        self.copy_buffer().take_back(data);
        BatchResult::new(py, self, output)
    }

    #[pyo3(signature = (cutter, chunk, *, last=false))]
    fn match_records(&self, py: Python<'_>, cutter: &mut RecordCutter, chunk: &[u8], last: bool) -> RecordAnswers {
        record_matching::run(py, self, &mut cutter.0, chunk, last)
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

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (xml, query, namespaces, dialect, params=None, published=None))]
    fn explain(
        &self,
        py: Python<'_>,
        xml: &[u8],
        query: &str,
        namespaces: BTreeMap<String, String>,
        dialect: &str,
        params: Option<&Bound<'_, PyAny>>,
        published: Option<i64>,
    ) -> PyResult<String> {
        let context = queries::context(namespaces, dialect, params)?;
        let published = published.map_or_else(Temporal::present, Temporal::number_of_microseconds);
        let explained = py.detach(|| {
            let limits = self.read().limits().clone();
            explain::explain_published(xml, query, &context, &limits, published)
                .map(|explanation| explain::json::explanation(&explanation))
        });
        explained.map_err(|error| match error {
            ExplainError::Query(error) => errors::query(py, query, &error),
            ExplainError::Message(error) => errors::message(py, &error),
            ExplainError::Evaluation(error) => errors::undecided(py, query, &error.to_string()),
        })
    }

    fn nearness(&self, py: Python<'_>, xml: &[u8], keys: Vec<String>) -> PyResult<NearnessFields> {
        let outcomes = py.detach(|| {
            let engine = self.read();
            let stored: Vec<_> =
                keys.iter().filter_map(|key| Some((key, engine.query_of(engine.slot_of(key)?)?))).collect();
            let queries: Vec<_> = stored.iter().map(|(_, (text, context))| (&**text, *context)).collect();
            let outcomes = explain::nearness_of_each(xml, &queries, engine.limits())?;
            Ok::<Vec<(String, _)>, MessageError>(stored.iter().map(|(key, _)| (*key).clone()).zip(outcomes).collect())
        });
        let (mut explained, mut undecided) = (Vec::new(), Vec::new());
        for (key, outcome) in outcomes.map_err(|error| errors::message(py, &error))? {
            match outcome {
                Ok(nearness) => explained.push((key, nearness)),
                Err(ExplainError::Evaluation(error)) => undecided.push(errors::undecided(py, &key, &error.to_string())),
                // Only Saxon understands it, and says nothing of its parts.
                Err(ExplainError::Query(_) | ExplainError::Message(_)) => {}
            }
        }
        Ok((explained, undecided))
    }

    fn describe(&self, py: Python<'_>, key: &str) -> PyResult<QueryCheck> {
        // No lock is held when Python code may run: a thread that waits for one keeps the interpreter to itself.
        let (text, described) = py
            .detach(|| {
                let engine = self.read();
                let slot = engine.slot_of(key)?;
                Some((engine.query_of(slot)?.0.into_owned(), engine.describe(slot)?))
            })
            .ok_or_else(|| errors::unknown_key(py, key))?;
        described.map(|checked| QueryCheck::from_core(&text, checked)).map_err(|error| errors::query(py, &text, &error))
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
