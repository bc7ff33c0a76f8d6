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

/// The answer to one message.
#[derive(Default)]
struct Answer {
    slots: Vec<Slot>,
    node_counts: Vec<u32>,
    payloads: Vec<Option<Vec<u8>>>,
    error: Option<MessageError>,
    /// Keys and reasons.
    failures: Vec<(String, String)>,
}

/// Answers in the order of the messages.
pub struct Answered(Vec<Answer>);

/// Match all rows, on several threads.
pub fn run(engine: &Engine, rows: &Rows<'_>, wanted: Wanted, threads: usize) -> Answered {
    let threads = threads.min(rows.count.div_ceil(SHARE)).clamp(1, THREADS_MAX);
    if threads == 1 {
        return Answered(engine.with_matcher(|core, matcher| {
            (0..rows.count).map(|index| answer(core, matcher, rows.get(index), wanted)).collect()
        }));
    }
    let next = AtomicUsize::new(0);
    let work = || {
        engine.with_matcher(|core, matcher| {
            let mut mine = Vec::new();
            loop {
                let start = next.fetch_add(SHARE, Ordering::Relaxed);
                if start >= rows.count {
                    return mine;
                }
                for index in start..(start + SHARE).min(rows.count) {
                    mine.push((index, answer(core, matcher, rows.get(index), wanted)));
                }
            }
        })
    };
    let mut answers: Vec<(usize, Answer)> = std::thread::scope(|scope| {
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
    answers.sort_unstable_by_key(|(index, _)| *index);
    Answered(answers.into_iter().map(|(_, answer)| answer).collect())
}

fn answer(engine: &core::Engine, matcher: &mut Matcher, row: Option<&[u8]>, wanted: Wanted) -> Answer {
    let mut answer = Answer::default();
    let Some(source) = row else { return answer };
    let run = match (wanted.nodes, wanted.deliver) {
        (true, _) => engine.run_counting(matcher, source),
        (false, true) => engine.run_delivering(matcher, source),
        (false, false) => engine.run(matcher, source),
    };
    if let Err(error) = run {
        answer.error = Some(error);
        return answer;
    }
    answer.failures =
        engine.failures(matcher).into_iter().map(|(slot, reason)| (key_of(engine, slot), reason)).collect();
    if wanted.deliver {
        for (slot, payload) in engine.deliveries(matcher, source) {
            match payload {
                Ok(payload) => {
                    answer.slots.push(slot);
                    answer.payloads.push(payload);
                }
                Err(reason) => answer.failures.push((key_of(engine, slot), reason.to_string())),
            }
        }
    } else {
        engine.slots(matcher, &mut answer.slots);
    }
    if wanted.nodes {
        for &slot in &answer.slots {
            match engine.node_count(matcher, source, slot) {
                Ok(count) => answer.node_counts.push(count as u32),
                Err(reason) => {
                    answer.node_counts.push(0);
                    answer.failures.push((key_of(engine, slot), reason.to_string()));
                }
            }
        }
    }
    answer
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
        let errors = PyList::empty(py);
        let failures = PyList::empty(py);
        let mut needs_conversion = Vec::new();
        let mut key_offsets = Vec::with_capacity(answered.0.len() * 4 + 4);
        key_offsets.extend_from_slice(&0_i32.to_le_bytes());
        let (mut slots, mut node_counts) = (Vec::new(), Vec::new());
        let (mut payload_offsets, mut payload_validity, mut payloads) = (Vec::new(), Vec::new(), Vec::new());
        payload_offsets.extend_from_slice(&0_i64.to_le_bytes());
        for (row, answer) in answered.0.iter().enumerate() {
            match &answer.error {
                Some(error) if error.kind == MessageErrorKind::NeedsConversion => needs_conversion.push(row),
                Some(error) => errors.append((row, errors::message(py, error).into_value(py)))?,
                None => {}
            }
            for (key, reason) in &answer.failures {
                failures.append((row, errors::undecided(py, key, reason).into_value(py)))?;
            }
            slots.extend(answer.slots.iter().flat_map(|slot| slot.to_le_bytes()));
            node_counts.extend(answer.node_counts.iter().flat_map(|count| count.to_le_bytes()));
            for payload in &answer.payloads {
                payload_validity.push(u8::from(payload.is_some()));
                payloads.extend_from_slice(payload.as_deref().unwrap_or_default());
                payload_offsets.extend_from_slice(&(payloads.len() as i64).to_le_bytes());
            }
            let total = i32::try_from(slots.len() / 4).map_err(|_| {
                pyo3::exceptions::PyOverflowError::new_err(
                    "more than 2,147,483,647 matches in one batch; use smaller batches",
                )
            })?;
            key_offsets.extend_from_slice(&total.to_le_bytes());
        }
        let bytes = |data: &[u8]| PyBytes::new(py, data).unbind();
        Ok(Self {
            key_offsets: bytes(&key_offsets),
            slots: bytes(&slots),
            node_counts: bytes(&node_counts),
            payload_offsets: bytes(&payload_offsets),
            payload_validity: bytes(&payload_validity),
            payloads: bytes(&payloads),
            errors: errors.unbind(),
            failures: failures.unbind(),
            needs_conversion,
        })
    }
}
