//! Keys as objects of Python, which answers share: making them anew takes longer than matching does.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use twigcast_core::engine::{Answer, MatchedQueries, Slot};

/// The most keys that are kept as objects, some 60 bytes each besides the text. Others are made for each answer.
const KEPT_MAX: usize = 1 << 18;

/// The answers whose keys are kept together, for the next answers with the same queries: 8 bytes a key, and the queries.
const RECENT_MAX: usize = 4;

/// Fewer keys are put together as fast as they are found.
const RECENT_KEYS_MIN: usize = 32;

/// The objects of the keys that answers have named, by slot, while slots keep their keys.
#[derive(Default)]
pub struct KeyObjects(Mutex<ObjectTable>);

/// A table of objects by slot.
#[derive(Default)]
pub struct ObjectTable {
    /// The version of the engine's keys that the objects are right for.
    version: u64,
    objects: Vec<Option<Py<PyString>>>,
    count: usize,
    /// The newest one last.
    recent: VecDeque<NamedAnswer>,
}

/// The keys of an answer. It does not hold the table of subscribers, which changes of the set would have to copy then.
struct NamedAnswer {
    version: u64,
    queries: MatchedQueries,
    keys: Py<PyTuple>,
}

impl KeyObjects {
    /// Locks the table, for whoever forks.
    pub fn lock(&self) -> MutexGuard<'_, ObjectTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the table for an answer, if it is free and not for a later one. Nobody waits here: a thread that waited would not
    /// let go of the interpreter.
    fn table_for(&self, answer: &Answer) -> Option<MutexGuard<'_, ObjectTable>> {
        let mut table = self.0.try_lock().ok().filter(|table| table.version <= answer.keys_version())?;
        table.renew(answer.keys_version());
        Some(table)
    }

    /// Returns the keys of an answer, as they were when it was given.
    pub fn of_answer<'py>(&self, py: Python<'py>, answer: &Answer) -> PyResult<Bound<'py, PyTuple>> {
        if answer.len() >= RECENT_KEYS_MIN
            && let Some(keys) = self.table_for(answer).and_then(|mut table| table.recent(py, answer))
        {
            return Ok(keys);
        }
        let slots = py.detach(|| answer.slots());
        let make = |slot| PyString::new(py, answer.key(slot).unwrap_or_default());
        let Some(mut table) = self.table_for(answer) else {
            return PyTuple::new(py, slots.iter().map(|&slot| make(slot)));
        };
        let keys = PyTuple::new(py, slots.iter().map(|&slot| table.object(py, slot, || make(slot))))?;
        if (RECENT_KEYS_MIN..=KEPT_MAX).contains(&slots.len()) {
            table.keep(answer, &keys);
        }
        Ok(keys)
    }
}

impl ObjectTable {
    /// Forgets all objects if slots have got other keys.
    fn renew(&mut self, version: u64) {
        if self.version != version {
            *self = Self { version, ..Self::default() };
        }
    }

    /// Returns the keys of a recent answer with the same queries and subscribers.
    fn recent<'py>(&mut self, py: Python<'py>, answer: &Answer) -> Option<Bound<'py, PyTuple>> {
        let (version, queries) = answer.identity();
        let index = self.recent.iter().rposition(|named| named.version == version && named.queries == *queries)?;
        let named = self.recent.remove(index)?;
        let keys = named.keys.bind(py).clone();
        self.recent.push_back(named);
        Some(keys)
    }

    /// Keeps the keys of an answer in place of those of the one that was longest of no use.
    fn keep(&mut self, answer: &Answer, keys: &Bound<'_, PyTuple>) {
        let (version, queries) = answer.identity();
        // Nothing is kept for a population that is no more.
        self.recent.retain(|named| named.version >= version);
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(NamedAnswer { version, queries: queries.clone(), keys: keys.clone().unbind() });
    }

    fn object<'py>(
        &mut self,
        py: Python<'py>,
        slot: Slot,
        make: impl FnOnce() -> Bound<'py, PyString>,
    ) -> Bound<'py, PyString> {
        let index = slot as usize;
        if let Some(Some(kept)) = self.objects.get(index) {
            return kept.bind(py).clone();
        }
        let made = make();
        if self.count < KEPT_MAX {
            if self.objects.len() <= index {
                self.objects.resize_with(index + 1, || None);
            }
            self.objects[index] = Some(made.clone().unbind());
            self.count += 1;
        }
        made
    }
}
