//! Matches records while they are cut, in one pass over their bytes.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyString;
use twigcast_core::engine as core;
use twigcast_core::engine::{Matcher, Slot};
use twigcast_core::error::MessageError;
use twigcast_core::records::cutter::{Cutter, RecordLocation, RecordSink};

use crate::engine_handle::{Engine, key_of};
use crate::errors;

/// The answers of an engine to records, one after the other.
struct RecordMatching<'a> {
    engine: &'a core::Engine,
    matcher: Matcher,
    count: usize,
    /// The slots of the records that match any, by position.
    matched: Vec<(usize, Vec<Slot>)>,
    errors: Vec<(usize, MessageError)>,
    /// Position, key and reason of subscriptions that could not be decided.
    undecided: Vec<(usize, String, String)>,
}

impl RecordMatching<'_> {
    fn run(&mut self, xml: &[u8]) -> Result<(), MessageError> {
        self.engine.run(&mut self.matcher, xml)?;
        let mut slots = Vec::new();
        self.engine.slots(&self.matcher, &mut slots);
        if !slots.is_empty() {
            self.matched.push((self.count, slots));
        }
        for (slot, reason) in self.engine.failures(&self.matcher) {
            self.undecided.push((self.count, key_of(self.engine, slot), reason));
        }
        self.count += 1;
        Ok(())
    }
}

impl RecordSink for RecordMatching<'_> {
    fn offer(&mut self, xml: &[u8]) -> bool {
        self.run(xml).is_ok()
    }

    fn takes_offers(&self) -> bool {
        true
    }

    fn take(&mut self, xml: &[u8], _: Option<String>, place: RecordLocation) {
        if let Err(error) = self.run(xml) {
            self.reject(b"", place.in_document(error), place);
        }
    }

    fn reject(&mut self, _: &[u8], error: MessageError, _: RecordLocation) {
        self.errors.push((self.count, error));
        self.count += 1;
    }
}

/// The answers to records: how many there were; positions of those that match, with keys; positions and errors of those
/// that were rejected; positions and errors of subscriptions that are undecided.
pub type RecordAnswers = (usize, Vec<(usize, Vec<Py<PyString>>)>, Vec<(usize, PyErr)>, Vec<(usize, PyErr)>);

/// Feeds a cutter, and matches the records that end in the bytes.
pub fn run(py: Python<'_>, engine: &Engine, cutter: &mut Cutter, chunk: &[u8], last: bool) -> RecordAnswers {
    let (version, answers) = py.detach(|| {
        // Before the version: see `Engine::take_matcher`.
        let matcher = engine.take_matcher();
        let version = engine.read();
        let mut matching = RecordMatching {
            engine: &version,
            matcher,
            count: 0,
            matched: Vec::new(),
            errors: Vec::new(),
            undecided: Vec::new(),
        };
        cutter.feed_to(chunk, last, &mut matching);
        let RecordMatching { matcher, count, matched, errors, undecided, .. } = matching;
        engine.give_back(matcher);
        (version, (count, matched, errors, undecided))
    });
    let (count, matched, errors, undecided) = answers;
    let mut objects: HashMap<Slot, Py<PyString>> = HashMap::new();
    let mut key = |slot: Slot| {
        objects.entry(slot).or_insert_with(|| PyString::new(py, &key_of(&version, slot)).unbind()).clone_ref(py)
    };
    let matched = matched.into_iter().map(|(at, slots)| (at, slots.into_iter().map(&mut key).collect())).collect();
    let errors = errors.iter().map(|(at, error)| (*at, errors::message(py, error))).collect();
    let undecided = undecided.iter().map(|(at, key, reason)| (*at, errors::undecided(py, key, reason))).collect();
    let is_due = version.is_cover_choice_due();
    drop(version);
    py.detach(|| engine.choose_covers(is_due));
    (count, matched, errors, undecided)
}
