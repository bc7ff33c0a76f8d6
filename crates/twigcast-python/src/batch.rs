//! Many messages in one call, without an object per message.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use twigcast_core::engine as core;
use twigcast_core::engine::{Delivered, Matcher};
use twigcast_core::error::{MessageError, MessageErrorKind};
use twigcast_core::extract::Payloads;

use crate::errors;
use crate::gather::{self, Found, Gathering};
use crate::keys::{Groups, Keys, KeysAtHand};
use crate::numbers::{Bytes, Numbers, Room};
use crate::shared::{Engine, key_of};

/// Messages that a thread takes at a time.
const SHARE: usize = 4;

/// Threads that share a batch at most, however many are asked for: each has caches of its own.
const THREADS_MAX: usize = 256;

/// Messages laid out as an Arrow large-binary array, or a slice of one.
pub struct Rows<'a> {
    offsets: &'a [u8],
    /// The first offset, which is where the data begin.
    base: usize,
    data: &'a [u8],
    count: usize,
    validity: Option<&'a [u8]>,
}

impl<'a> Rows<'a> {
    /// `None` if the offsets do not describe slices of the data.
    pub fn new(offsets: &'a [u8], data: &'a [u8], count: usize, validity: Option<&'a [u8]>) -> Option<Self> {
        let mut rows = Self { offsets, base: 0, data, count, validity };
        if offsets.len() / 8 <= count || validity.is_some_and(|bits| bits.len() * 8 < count) {
            return None;
        }
        rows.base = rows.offset(0)?;
        let mut previous = 0;
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
        usize::try_from(i64::from_le_bytes(bytes.try_into().ok()?)).ok()?.checked_sub(self.base)
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
    /// Queries in place of the subscriptions to them.
    pub grouped: bool,
}

/// The answers to some messages in a row.
#[derive(Default)]
struct Share {
    /// Which of all shares it is, in the order of the messages.
    number: usize,
    /// How many slots, or queries, there are up to the end of each message.
    ends: Vec<usize>,
    /// By message: how many subscriptions it matched, where queries are wanted.
    match_counts: Vec<u32>,
    node_counts: Vec<u32>,
    /// Number of each payload among those that one thread made; [`Delivered::WHOLE`] for the message itself.
    payloads: Vec<u32>,
    /// By number of message.
    errors: Vec<(usize, MessageError)>,
    /// Number of message, key and reason.
    failures: Vec<(usize, String, String)>,
}

/// Answers in the order of the messages, and all payloads.
pub struct Answered {
    shares: Vec<Share>,
    /// The slots that each message matched, one message after the other; queries where these are wanted in place of slots.
    found: Found,
    is_grouped: bool,
    /// What the slots stand for, where they are places in this.
    keys: Option<Keys>,
    /// The keys of the slots that a table has not.
    more_keys: Option<Keys>,
    /// The same for queries.
    groups: Option<Groups>,
    payloads: Made,
}

/// Payloads in the order of their numbers: their bytes, and where each ends. Other bytes may stand behind them.
#[derive(Default)]
struct Made {
    bytes: Vec<u8>,
    ends: Vec<u64>,
}

/// Match all rows, on several threads, against the population as it is at one moment.
///
/// Keys are answered along with the slots, or queries, unless the population is of the version `known`: see
/// [`KeysAtHand`]; for queries, [`core::Engine::version`]. A table that is right but too short gets the rest.
pub fn run(engine: &Engine, rows: &Rows<'_>, wanted: Wanted, threads: usize, known: Option<KeysAtHand>) -> Answered {
    let core = engine.read();
    let mut answered = match_all(engine, &core, rows, wanted, threads);
    let Some(known) = known else { return answered };
    if wanted.grouped {
        if u64::try_from(known.0) != Ok(core.version()) {
            answered.groups = Some(Groups::of(&core, answered.found.numbers()));
        }
    } else if Keys::are_at_hand(&core, known) {
        answered.more_keys = (known.1 < core.slot_bound()).then(|| Keys::beyond(&core, known));
    } else {
        // With so many matches, looking at each costs more than all keys do.
        answered.keys = Some(if answered.found.count() >= core.slot_bound() {
            Keys::by_slot(&core)
        } else {
            Keys::of(&core, answered.found.numbers())
        });
    }
    answered
}

fn match_all(engine: &Engine, core: &core::Engine, rows: &Rows<'_>, wanted: Wanted, threads: usize) -> Answered {
    let threads = threads.min(rows.count.div_ceil(SHARE)).clamp(1, THREADS_MAX);
    let next = AtomicUsize::new(0);
    if threads == 1 {
        let mut found = engine.room().take();
        found.clear();
        let (shares, payloads) = take_shares(engine, core, rows, wanted, &next, &mut found, None);
        return answered(wanted, shares, Found::all(found), payloads);
    }
    let (parts, found) = gather::in_order(engine.room().take(), engine.scratch_room(), |gathering| {
        let work = || {
            let mut list = gathering.take_list();
            let parts = take_shares(engine, core, rows, wanted, &next, &mut list, Some(gathering));
            gathering.give_back(list);
            parts
        };
        on_threads(threads, &work)
    });
    let (mut shares, mut payloads) = (Vec::new(), Made::default());
    for (mut part, made) in parts {
        let before = payloads.ends.len() as u32;
        for share in &mut part {
            let numbers = share.payloads.iter_mut().filter(|number| **number != Delivered::WHOLE);
            numbers.for_each(|number| *number += before);
        }
        shares.append(&mut part);
        payloads.append(made, engine.payload_room());
    }
    shares.sort_unstable_by_key(|share| share.number);
    answered(wanted, shares, found, payloads)
}

fn answered(wanted: Wanted, shares: Vec<Share>, found: Found, payloads: Made) -> Answered {
    Answered { shares, found, is_grouped: wanted.grouped, keys: None, more_keys: None, groups: None, payloads }
}

/// Do the same work on so many threads, this one among them. Where the system gives no more threads, those that there
/// are do all the work.
fn on_threads<T: Send>(threads: usize, work: &(impl Fn() -> T + Sync)) -> Vec<T> {
    std::thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mut all = vec![work()];
        for other in others {
            match other.join() {
                Ok(part) => all.push(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

/// Answer shares of the rows as long as there are any that no other thread took. What they found is gathered in order,
/// or stays in the list where nobody gathers.
fn take_shares(
    engine: &Engine,
    core: &core::Engine,
    rows: &Rows<'_>,
    wanted: Wanted,
    next: &AtomicUsize,
    found: &mut Vec<u32>,
    gathering: Option<&Gathering<'_>>,
) -> (Vec<Share>, Made) {
    let memory = if wanted.deliver && core.has_rewriting() { engine.payload_room().take() } else { Vec::new() };
    let mut payloads = Payloads::default().with_room(memory);
    let mut shares = Vec::new();
    engine.lend_matcher(|matcher| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let start = number * SHARE;
            if start >= rows.count {
                break;
            }
            let before = found.len();
            let mut share = Share { number, ..Share::default() };
            for row in start..(start + SHARE).min(rows.count) {
                if let Some(source) = rows.get(row) {
                    share.answer(core, matcher, (row, source), wanted, (found, &mut payloads));
                }
                share.ends.push(found.len() - before);
                share.match_counts.resize(if wanted.grouped { share.ends.len() } else { 0 }, 0);
            }
            if let Some(gathering) = gathering {
                gathering.put(number, std::mem::replace(found, gathering.take_list()));
            }
            shares.push(share);
        }
    });
    let (bytes, ends) = payloads.into_parts();
    (shares, Made { bytes, ends })
}

impl Made {
    /// How many bytes there are.
    fn count(&self) -> usize {
        self.ends.last().map_or(0, |&end| end as usize)
    }

    /// Adds those of another thread, whose memory goes back to the room.
    fn append(&mut self, others: Self, room: &Room<u8>) {
        if self.ends.is_empty() {
            room.give_back(std::mem::replace(self, others).bytes);
            return;
        }
        let before = self.count() as u64;
        self.bytes.truncate(before as usize);
        self.bytes.extend_from_slice(&others.bytes[..others.count()]);
        self.ends.extend(others.ends.iter().map(|end| before + end));
        room.give_back(others.bytes);
    }
}

impl Share {
    /// How many slots, or queries, its messages matched.
    fn found_count(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    fn answer(
        &mut self,
        engine: &core::Engine,
        matcher: &mut Matcher,
        (row, source): (usize, &[u8]),
        wanted: Wanted,
        (found, payloads): (&mut Vec<u32>, &mut Payloads),
    ) {
        let rewrites = wanted.deliver && engine.has_rewriting();
        let run = match (wanted.nodes, rewrites) {
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
        let first = found.len();
        if wanted.grouped {
            engine.matched_queries(matcher, found);
            self.match_counts.push(engine.match_count(matcher) as u32);
        } else if rewrites {
            let failed = engine.deliver_to(matcher, source, payloads, (found, &mut self.payloads));
            self.failures
                .extend(failed.into_iter().map(|(slot, reason)| (row, key_of(engine, slot), reason.to_string())));
        } else {
            engine.slots(matcher, found);
            let payloads = if wanted.deliver { found.len() - first } else { 0 };
            self.payloads.resize(self.payloads.len() + payloads, Delivered::WHOLE);
        }
        if wanted.nodes {
            for &slot in &found[first..] {
                let count = engine.node_count(matcher, source, slot).unwrap_or_else(|reason| {
                    self.failures.push((row, key_of(engine, slot), reason.to_string()));
                    0
                });
                self.node_counts.push(count as u32);
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
    found: Py<Numbers>,
    is_grouped: bool,
    #[pyo3(get)]
    match_counts: Py<PyBytes>,
    #[pyo3(get)]
    keys: Option<(Py<PyBytes>, Py<PyBytes>)>,
    #[pyo3(get)]
    more_keys: Option<(Py<PyBytes>, Py<PyBytes>)>,
    #[pyo3(get)]
    groups: Option<(Py<PyBytes>, Py<PyBytes>, Py<PyBytes>)>,
    #[pyo3(get)]
    node_counts: Py<PyBytes>,
    #[pyo3(get)]
    payload_numbers: Py<PyBytes>,
    #[pyo3(get)]
    payload_offsets: Py<PyBytes>,
    #[pyo3(get)]
    payload_validity: Py<PyBytes>,
    #[pyo3(get)]
    payloads: Py<Bytes>,
    #[pyo3(get)]
    errors: Py<PyList>,
    #[pyo3(get)]
    failures: Py<PyList>,
    #[pyo3(get)]
    needs_conversion: Vec<usize>,
}

impl BatchResult {
    /// Lay the answers out as Arrow buffers.
    pub fn new(py: Python<'_>, engine: &Engine, answered: Answered) -> PyResult<Self> {
        let Answered { shares, found, is_grouped, keys, more_keys, groups, payloads } = answered;
        let count = payloads.count();
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
        let bytes = |data: &[u8]| PyBytes::new(py, data).unbind();
        Ok(Self {
            key_offsets: bytes(&key_offsets(&shares)?),
            found: Py::new(py, Numbers::new(found, engine.room()))?,
            is_grouped,
            match_counts: integers(py, &shares, |share| &share.match_counts)?,
            groups: groups.map(|groups| groups.buffers(py)).transpose()?,
            keys: keys.map(|keys| keys.buffers(py)).transpose()?,
            more_keys: more_keys.map(|keys| keys.buffers(py)).transpose()?,
            node_counts: integers(py, &shares, |share| &share.node_counts)?,
            payload_numbers: integers(py, &shares, |share| &share.payloads)?,
            payload_validity: bytes(&validity(&shares)),
            payload_offsets: payload_offsets(py, &payloads.ends)?,
            payloads: Py::new(py, Bytes::new(payloads.bytes, count, engine.payload_room()))?,
            errors: errors.unbind(),
            failures: failures.unbind(),
            needs_conversion,
        })
    }
}

#[pymethods]
impl BatchResult {
    #[getter]
    fn slots(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let slots = if self.is_grouped { &[] } else { self.found.get().list() };
        Ok(numbers(py, slots)?.unbind())
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
        before += share.found_count();
    }
    Ok(offsets)
}

/// Integers, written where they are to stay.
pub fn numbers<'py>(py: Python<'py>, numbers: &[u32]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, size_of_val(numbers), |buffer| {
        for (place, number) in buffer.chunks_exact_mut(size_of::<u32>()).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        Ok(())
    })
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

/// A bit per match, set where it has a payload of its own; empty where all have one.
fn validity(shares: &[Share]) -> Vec<u8> {
    let all = || shares.iter().flat_map(|share| &share.payloads);
    let mut bits = Vec::new();
    if all().any(|&number| number == Delivered::WHOLE) {
        bits.resize(all().count().div_ceil(8), 0_u8);
        for (index, _) in all().enumerate().filter(|(_, number)| **number != Delivered::WHOLE) {
            bits[index / 8] |= 1 << (index % 8);
        }
    }
    bits
}

/// Where each payload begins and ends, as the offsets of an Arrow array, written where they are to stay.
fn payload_offsets(py: Python<'_>, ends: &[u64]) -> PyResult<Py<PyBytes>> {
    let bytes = PyBytes::new_with(py, (1 + ends.len()) * size_of::<u64>(), |buffer| {
        // The first offset is 0, as the buffer is.
        for (place, end) in buffer[size_of::<u64>()..].chunks_exact_mut(size_of::<u64>()).zip(ends) {
            place.copy_from_slice(&end.to_le_bytes());
        }
        Ok(())
    })?;
    Ok(bytes.unbind())
}
