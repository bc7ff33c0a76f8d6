//! Many messages in one call, without an object per message.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use twigcast_core::engine as core;
use twigcast_core::engine::{Matcher, Slot};
use twigcast_core::error::{MessageError, MessageErrorKind};

use crate::engine::{Engine, key_of};
use crate::errors;

/// Messages that a thread takes at a time.
const SHARE: usize = 16;

/// Threads that share a batch at most, however many are asked for: each has caches of its own.
const THREADS_MAX: usize = 256;

/// Messages laid out as an Arrow large-binary array.
pub struct Rows<'a> {
    offsets: &'a [u8],
    data: &'a [u8],
    count: usize,
    validity: Option<&'a [u8]>,
}

impl<'a> Rows<'a> {
    /// `None` if the offsets do not describe slices of the data.
    pub fn new(offsets: &'a [u8], data: &'a [u8], count: usize, validity: Option<&'a [u8]>) -> Option<Self> {
        let rows = Self { offsets, data, count, validity };
        if offsets.len() / 8 <= count || validity.is_some_and(|bits| bits.len() * 8 < count) {
            return None;
        }
        let mut previous = rows.offset(0)?;
        for index in 1..=count {
            let next = rows.offset(index)?;
            if next < previous || next > data.len() {
                return None;
            }
            previous = next;
        }
        Some(rows)
    }

    fn offset(&self, index: usize) -> Option<usize> {
        let bytes = self.offsets.get(index * 8..index * 8 + 8)?;
        usize::try_from(i64::from_le_bytes(bytes.try_into().ok()?)).ok()
    }

    /// A message; `None` for a null.
    fn get(&self, index: usize) -> Option<&'a [u8]> {
        if self.validity.is_some_and(|bits| bits[index / 8] >> (index % 8) & 1 == 0) {
            return None;
        }
        self.data.get(self.offset(index)?..self.offset(index + 1)?)
    }
}

/// What is asked for beside the keys.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Payloads.
    pub deliver: bool,
    /// Numbers of selected nodes.
    pub nodes: bool,
}

/// The answers to some messages in a row.
#[derive(Default)]
struct Share {
    /// Number of the first message.
    start: usize,
    /// Where each message's slots end.
    ends: Vec<usize>,
    slots: Vec<Slot>,
    node_counts: Vec<u32>,
    payloads: Vec<Option<Vec<u8>>>,
    /// By number of message.
    errors: Vec<(usize, MessageError)>,
    /// Number of message, key and reason.
    failures: Vec<(usize, String, String)>,
}

/// Answers in the order of the messages.
pub struct Answered(Vec<Share>);

/// Match all rows, on several threads.
pub fn run(engine: &Engine, rows: &Rows<'_>, wanted: Wanted, threads: usize) -> Answered {
    let threads = threads.min(rows.count.div_ceil(SHARE)).clamp(1, THREADS_MAX);
    let next = AtomicUsize::new(0);
    let work = || {
        engine.with_matcher(|core, matcher| {
            let mut mine = Vec::new();
            loop {
                let start = next.fetch_add(SHARE, Ordering::Relaxed);
                if start >= rows.count {
                    return mine;
                }
                let mut share = Share { start, ..Share::default() };
                for row in start..(start + SHARE).min(rows.count) {
                    if let Some(source) = rows.get(row) {
                        share.answer(core, matcher, row, source, wanted);
                    }
                    share.ends.push(share.slots.len());
                }
                mine.push(share);
            }
        })
    };
    if threads == 1 {
        return Answered(work());
    }
    let mut answers: Vec<Share> = std::thread::scope(|scope| {
        // Where the system gives no more threads, those that there are do all the work.
        let others: Vec<_> =
            (1..threads).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(mut answers) => all.append(&mut answers),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    answers.sort_unstable_by_key(|share| share.start);
    Answered(answers)
}

impl Share {
    fn answer(&mut self, engine: &core::Engine, matcher: &mut Matcher, row: usize, source: &[u8], wanted: Wanted) {
        let run = match (wanted.nodes, wanted.deliver) {
            (true, _) => engine.run_counting(matcher, source),
            (false, true) => engine.run_delivering(matcher, source),
            (false, false) => engine.run(matcher, source),
        };
        if let Err(error) = run {
            self.errors.push((row, error));
            return;
        }
        for (slot, reason) in engine.failures(matcher) {
            self.failures.push((row, key_of(engine, slot), reason));
        }
        let first = self.slots.len();
        if wanted.deliver {
            self.deliver(engine, matcher, row, source);
        } else {
            engine.slots(matcher, &mut self.slots);
        }
        if wanted.nodes {
            for index in first..self.slots.len() {
                let slot = self.slots[index];
                let count = engine.node_count(matcher, source, slot).unwrap_or_else(|reason| {
                    self.failures.push((row, key_of(engine, slot), reason.to_string()));
                    0
                });
                self.node_counts.push(count as u32);
            }
        }
    }

    fn deliver(&mut self, engine: &core::Engine, matcher: &Matcher, row: usize, source: &[u8]) {
        for (slot, payload) in engine.deliveries(matcher, source) {
            match payload {
                Ok(payload) => {
                    self.slots.push(slot);
                    self.payloads.push(payload);
                }
                Err(reason) => self.failures.push((row, key_of(engine, slot), reason.to_string())),
            }
        }
    }
}

/// See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct BatchResult {
    #[pyo3(get)]
    key_offsets: Py<PyBytes>,
    #[pyo3(get)]
    slots: Py<PyBytes>,
    #[pyo3(get)]
    node_counts: Py<PyBytes>,
    #[pyo3(get)]
    payload_offsets: Py<PyBytes>,
    #[pyo3(get)]
    payload_validity: Py<PyBytes>,
    #[pyo3(get)]
    payloads: Py<PyBytes>,
    #[pyo3(get)]
    errors: Py<PyList>,
    #[pyo3(get)]
    failures: Py<PyList>,
    #[pyo3(get)]
    needs_conversion: Vec<usize>,
}

impl BatchResult {
    /// Lay the answers out as Arrow buffers.
    pub fn new(py: Python<'_>, answered: Answered) -> PyResult<Self> {
        let shares = answered.0;
        let errors = PyList::empty(py);
        let failures = PyList::empty(py);
        let mut needs_conversion = Vec::new();
        for (row, error) in shares.iter().flat_map(|share| &share.errors) {
            match error.kind {
                MessageErrorKind::NeedsConversion => needs_conversion.push(*row),
                _ => errors.append((*row, errors::message(py, error).into_value(py)))?,
            }
        }
        for (row, key, reason) in shares.iter().flat_map(|share| &share.failures) {
            failures.append((*row, errors::undecided(py, key, reason).into_value(py)))?;
        }
        let (mut payload_offsets, mut payload_validity, mut payloads) = (Vec::new(), Vec::new(), Vec::new());
        payload_offsets.extend_from_slice(&0_i64.to_le_bytes());
        for payload in shares.iter().flat_map(|share| &share.payloads) {
            payload_validity.push(u8::from(payload.is_some()));
            payloads.extend_from_slice(payload.as_deref().unwrap_or_default());
            payload_offsets.extend_from_slice(&(payloads.len() as i64).to_le_bytes());
        }
        let bytes = |data: &[u8]| PyBytes::new(py, data).unbind();
        Ok(Self {
            key_offsets: bytes(&key_offsets(&shares)?),
            slots: integers(py, &shares, |share| &share.slots)?,
            node_counts: integers(py, &shares, |share| &share.node_counts)?,
            payload_offsets: bytes(&payload_offsets),
            payload_validity: bytes(&payload_validity),
            payloads: bytes(&payloads),
            errors: errors.unbind(),
            failures: failures.unbind(),
            needs_conversion,
        })
    }
}

/// Where each message's keys begin and end, as the offsets of an Arrow list array.
fn key_offsets(shares: &[Share]) -> PyResult<Vec<u8>> {
    let mut offsets = 0_i32.to_le_bytes().to_vec();
    let mut before = 0;
    for share in shares {
        for end in &share.ends {
            let total = i32::try_from(before + end).map_err(|_| {
                pyo3::exceptions::PyOverflowError::new_err(
                    "more than 2,147,483,647 matches in one batch; use smaller batches",
                )
            })?;
            offsets.extend_from_slice(&total.to_le_bytes());
        }
        before += share.slots.len();
    }
    Ok(offsets)
}

/// Integers of all shares, one after the other, written where they are to stay.
fn integers(py: Python<'_>, shares: &[Share], of: impl Fn(&Share) -> &Vec<u32>) -> PyResult<Py<PyBytes>> {
    let total: usize = shares.iter().map(|share| of(share).len()).sum();
    let bytes = PyBytes::new_with(py, total * size_of::<u32>(), |mut buffer| {
        for share in shares {
            let (mine, rest) = buffer.split_at_mut(of(share).len() * size_of::<u32>());
            for (place, value) in mine.chunks_exact_mut(size_of::<u32>()).zip(of(share)) {
                place.copy_from_slice(&value.to_le_bytes());
            }
            buffer = rest;
        }
        Ok(())
    })?;
    Ok(bytes.unbind())
}
