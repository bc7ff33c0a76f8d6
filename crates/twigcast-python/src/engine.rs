//! The methods of the class `Engine`.

use std::collections::BTreeMap;
use std::path::Path;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyList};
use twigcast_core::engine as core;
use twigcast_core::engine::{AddError, Matcher, QueryContext, Slot};
use twigcast_core::explain::{self, ExplainError};
use twigcast_core::rewrite::Payloads;
use twigcast_core::snapshot;

use crate::answer::Answer;
use crate::batch;
use crate::batch_result::BatchResult;
use crate::engine_handle::{Engine, key_of, slots_of};
use crate::errors;
use crate::keys::{GroupBuffers, KeyBuffers, KeyTableVersion};
use crate::limits;
use crate::pairs::{KeyQueryPair, pair, refusals};
use crate::payloads::PythonSink;
use crate::queries;
use crate::results::Results;
use crate::stream::{NameDictionary, with_dictionary};

impl Engine {
    /// Add pairs, and tell what was refused.
    fn add_all<'py>(
        &self,
        py: Python<'py>,
        pairs: &[KeyQueryPair],
        add: impl FnOnce(&mut core::Engine) -> Vec<(usize, AddError)> + Send,
    ) -> PyResult<Bound<'py, PyList>> {
        let refused = py.detach(|| {
            let refused = add(&mut self.write());
            self.note_added(pairs.len());
            refused
        });
        refusals(py, pairs, refused)
    }
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
        key: &str,
        query: &str,
        namespaces: BTreeMap<String, String>,
        dialect: &str,
        replace: bool,
    ) -> PyResult<Vec<String>> {
        let context = queries::context(namespaces, dialect)?;
        let added = py.detach(|| {
            let added = self.write().add(key, query, &context, replace);
            self.note_added(1);
            added
        });
        match added {
            Ok(warning) => Ok(warning.map(queries::warning).into_iter().collect()),
            Err(error) => Err(errors::add(py, key, query, &error)),
        }
    }

    fn add_many<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<PyBackedStr>,
        queries: Vec<PyBackedStr>,
        namespaces: Vec<BTreeMap<String, String>>,
        dialect: &str,
        replace: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        if keys.len() != queries.len() || (namespaces.len() != 1 && namespaces.len() != keys.len()) {
            return Err(PyValueError::new_err("keys, queries and namespaces must be of one length"));
        }
        let contexts: Vec<QueryContext> =
            namespaces.into_iter().map(|map| queries::context(map, dialect)).collect::<PyResult<_>>()?;
        let pairs: Vec<_> = keys.into_iter().zip(queries).collect();
        self.add_all(py, &pairs, |engine| {
            if let [context] = contexts.as_slice() {
                return engine.add_many(&pairs, context, replace);
            }
            let all = pairs.iter().zip(&contexts).enumerate();
            all.filter_map(|(index, ((key, query), context))| {
                engine.add(key, query, context, replace).err().map(|error| (index, error))
            })
            .collect()
        })
    }

    fn add_pairs<'py>(
        &self,
        py: Python<'py>,
        pairs: &Bound<'py, PyList>,
        namespaces: BTreeMap<String, String>,
        dialect: &str,
        replace: bool,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let context = queries::context(namespaces, dialect)?;
        let Some(pairs) = pairs.iter().map(|item| pair(&item)).collect::<PyResult<Option<Vec<_>>>>()? else {
            return Ok(None);
        };
        self.add_all(py, &pairs, |engine| engine.add_many(&pairs, &context, replace)).map(Some)
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

    /// See the stub file.
    #[getter]
    fn keys_at(&self, py: Python<'_>) -> (u64, usize) {
        py.detach(|| {
            let engine = self.read();
            (engine.keys_version(), engine.slot_bound())
        })
    }

    /// See the stub file.
    #[allow(clippy::type_complexity)]
    #[pyo3(signature = (known=(-1, 0, 0)))]
    fn key_table(&self, py: Python<'_>, known: KeyTableVersion) -> PyResult<(u64, usize, Py<PyBytes>, Py<PyBytes>)> {
        let (version, first, keys) = py.detach(|| {
            let engine = self.read();
            let known = if KeyBuffers::are_at_hand(&engine, known) { known } else { (-1, 0, 0) };
            (engine.keys_version(), known.1, KeyBuffers::beyond(&engine, known))
        });
        let (offsets, text) = keys.buffers(py)?;
        Ok((version, first, offsets, text))
    }

    /// See the stub file.
    #[allow(clippy::type_complexity)]
    fn group_table(&self, py: Python<'_>) -> PyResult<(u64, Py<PyBytes>, Py<PyBytes>, Py<PyBytes>)> {
        let (version, groups) = py.detach(|| {
            let engine = self.read();
            (engine.version(), GroupBuffers::by_query(&engine))
        });
        let (ends, offsets, text) = groups.buffers(py)?;
        Ok((version, ends, offsets, text))
    }

    fn slots_of(&self, py: Python<'_>, keys: Vec<pyo3::pybacked::PyBackedStr>) -> Vec<Option<Slot>> {
        py.detach(|| {
            let engine = self.read();
            keys.iter().map(|key| engine.slot_of(key)).collect()
        })
    }

    fn query(&self, py: Python<'_>, key: &str) -> Option<(String, BTreeMap<String, String>, &'static str)> {
        py.detach(|| {
            let engine = self.read();
            let (text, context) = engine.query_of(engine.slot_of(key)?)?;
            Some((text.into_owned(), context.namespaces.clone(), core::dialect_name(context.dialect)))
        })
    }

    fn rewrites(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        let answer = py.detach(|| {
            let engine = self.read();
            engine.slot_of(key).map(|slot| engine.rewrites(slot))
        });
        answer.ok_or_else(|| errors::unknown_key(py, key))
    }

    #[getter]
    fn has_external(&self, py: Python<'_>) -> bool {
        py.detach(|| self.read().has_external())
    }

    fn share_results(&self, py: Python<'_>, share: bool) {
        py.detach(|| self.write().share_results(share));
    }

    /// See the stub file.
    fn external(&self, py: Python<'_>) -> Vec<(Slot, String, String, BTreeMap<String, String>)> {
        py.detach(|| {
            let engine = self.read();
            let slots = (0..engine.slot_bound() as Slot).filter(|&slot| engine.is_external(slot));
            slots
                .filter_map(|slot| {
                    let (text, context) = engine.query_of(slot)?;
                    Some((slot, key_of(&engine, slot), text.into_owned(), context.namespaces.clone()))
                })
                .collect()
        })
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

    #[allow(clippy::type_complexity)]
    #[pyo3(signature = (stream, dictionary=None))]
    fn match_stream(
        &self,
        py: Python<'_>,
        stream: &[u8],
        dictionary: Option<&NameDictionary>,
    ) -> PyResult<(Vec<Slot>, Vec<(Slot, String)>)> {
        py.detach(|| {
            self.with_matcher(|engine, matcher| {
                with_dictionary(dictionary, |names| engine.run_stream(matcher, stream, names))?;
                Ok((slots_of(engine, matcher), engine.failures(matcher)))
            })
        })
        .map_err(|error| errors::message(py, &error))
    }

    /// Like `match`, with what could not be decided.
    #[allow(clippy::type_complexity)]
    fn match_with_failures(&self, py: Python<'_>, xml: &[u8]) -> PyResult<(Vec<Slot>, Vec<(Slot, String)>)> {
        py.detach(|| {
            self.with_matcher(|engine, matcher| {
                engine.run(matcher, xml).map(|()| (slots_of(engine, matcher), engine.failures(matcher)))
            })
        })
        .map_err(|error| errors::message(py, &error))
    }

    /// See the stub file.
    #[allow(clippy::type_complexity)]
    fn answer(slf: &Bound<'_, Self>, xml: &[u8]) -> PyResult<(Answer, Vec<(String, String)>)> {
        let (py, engine) = (slf.py(), slf.get());
        let (answer, failures) = py
            .detach(|| {
                engine.with_matcher(|engine, matcher| {
                    engine.run(matcher, xml)?;
                    let failures = engine.failures(matcher).into_iter();
                    let failures = failures.map(|(slot, reason)| (key_of(engine, slot), reason)).collect();
                    Ok((engine.answer(matcher), failures))
                })
            })
            .map_err(|error| errors::message(py, &error))?;
        Ok((Answer::new(answer, slf.clone().unbind()), failures))
    }

    #[allow(clippy::type_complexity)]
    fn nodes(&self, py: Python<'_>, xml: &[u8], key: &str) -> PyResult<Vec<(String, String, u32, u32, u32, u32)>> {
        // Under one lock with the answer: once it is let go, the slot may become another subscription's.
        let selected = py
            .detach(|| {
                self.with_matcher(|engine, matcher| engine.slot_of(key).map(|slot| engine.selected(matcher, xml, slot)))
            })
            .ok_or_else(|| errors::unknown_key(py, key))?
            .map_err(|error| errors::message(py, &error))?
            .map_err(|reason| errors::undecided(py, key, &reason.to_string()))?;
        Ok(selected.into_iter().map(|n| (n.kind.to_owned(), n.name, n.start, n.end, n.line, n.column)).collect())
    }

    /// See the stub file.
    #[allow(clippy::type_complexity)]
    fn deliver<'py>(
        &self,
        py: Python<'py>,
        xml: &[u8],
    ) -> PyResult<(Vec<Slot>, Vec<Option<u32>>, Bound<'py, PyList>, Vec<(String, String)>)> {
        let sent = PythonSink::default();
        let (slots, numbers, failures) = py
            .detach(|| {
                self.with_matcher(|engine, matcher| {
                    engine.run_delivering(matcher, xml)?;
                    let mut payloads = Payloads::into_sink(Box::new(sent.clone()));
                    let delivered = engine.deliver(matcher, xml, &mut payloads);
                    payloads.close();
                    let unmade = delivered.failures.into_iter().map(|(slot, reason)| (slot, reason.to_string()));
                    let failed = engine.failures(matcher).into_iter().chain(unmade);
                    let failures = failed.map(|(slot, reason)| (key_of(engine, slot), reason)).collect();
                    let number = |number| Some(number).filter(|&number| number != core::MessageDeliveries::WHOLE);
                    Ok((delivered.slots, delivered.numbers.into_iter().map(number).collect(), failures))
                })
            })
            .map_err(|error| errors::message(py, &error))?;
        Ok((slots, numbers, sent.list(py)?, failures))
    }

    /// See the stub file.
    fn results<'py>(&self, py: Python<'py>, xml: Bound<'py, PyBytes>) -> PyResult<(Results, Vec<(String, String)>)> {
        let sent = PythonSink::default();
        let source = xml.as_bytes();
        let (matches_found, keys, failures) = py
            .detach(|| {
                self.with_matcher(|engine, matcher| {
                    let mut payloads = Payloads::into_sink(Box::new(sent.clone()));
                    let matches_found = engine.prepare(matcher, source, &mut payloads)?;
                    payloads.close();
                    let unmade = matches_found.failures().iter().map(|(slot, reason)| (*slot, reason.to_string()));
                    let failed = engine.failures(matcher).into_iter().chain(unmade);
                    let failures = failed.map(|(slot, reason)| (key_of(engine, slot), reason)).collect();
                    Ok((matches_found, engine.keys_now(), failures))
                })
            })
            .map_err(|error| errors::message(py, &error))?;
        let others = sent.list(py)?;
        Ok((Results::new(xml.unbind(), (matches_found, keys), others, &self.buffers().payloads_of_one), failures))
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (offsets, data, count, validity, deliver, nodes, threads, known=None, grouped=false))]
    fn match_batch(
        &self,
        py: Python<'_>,
        offsets: &[u8],
        data: &Bound<'_, PyAny>,
        count: usize,
        validity: Option<&[u8]>,
        deliver: bool,
        nodes: bool,
        threads: usize,
        known: Option<KeyTableVersion>,
        grouped: bool,
    ) -> PyResult<BatchResult> {
        if grouped && (deliver || nodes) {
            return Err(PyValueError::new_err("payloads and nodes are told by key, not by group"));
        }
        let options = batch::BatchOptions { deliver, nodes, grouped };
        let data = self.copy_buffer().borrow(data)?;
        let rows = batch::MessageRows::new(offsets, data.bytes(), count, validity)
            .ok_or_else(|| PyValueError::new_err("offsets do not describe slices of data"))?;
        let answered = py.detach(|| batch::run(self, &rows, options, threads.max(1), known));
        self.copy_buffer().take_back(data);
        BatchResult::new(py, self, answered)
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

    fn describe(&self, py: Python<'_>, key: &str) -> PyResult<BTreeMap<&'static str, String>> {
        // No lock is held when Python code may run: a thread that waits for one keeps the interpreter to itself.
        let (text, context, limits) = py
            .detach(|| {
                let engine = self.read();
                let (text, context) = engine.query_of(engine.slot_of(key)?)?;
                Some((text.into_owned(), context.clone(), engine.limits().clone()))
            })
            .ok_or_else(|| errors::unknown_key(py, key))?;
        let checked = core::check(&text, &context, &limits).map_err(|error| errors::query(py, &text, &error))?;
        Ok(BTreeMap::from([
            ("normal_form", checked.normal_form),
            ("route", checked.route.to_owned()),
            ("reason", checked.reason.to_owned()),
        ]))
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
