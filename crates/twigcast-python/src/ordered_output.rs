//! Copies the matches of several threads into one list while they work. Matches that a thread has just found are still
//! in its cache, so that copying them is cheap; once all is done, it would cost as much as matching.
//!
//! A lock guards only the handing out of target slices; all threads copy at the same time. What does not fit into the
//! memory of an earlier batch is appended at the end.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use twigcast_core::rewrite::Payloads;

use crate::buffers::{BufferPool, ThreadMatches};

/// Memory that is filled part by part, over whatever was in it.
struct FillBuffer<'a, T> {
    rest: &'a mut [T],
    /// All parts from the first one on that did not fit.
    more: Vec<T>,
}

impl<'a, T: Copy> FillBuffer<'a, T> {
    fn new(rest: &'a mut [T]) -> Self {
        Self { rest, more: Vec::new() }
    }

    /// Returns where to copy the next part to; `None` if it does not fit and was copied elsewhere already.
    fn take(&mut self, part: &[T]) -> Option<&'a mut [T]> {
        if !self.more.is_empty() || part.len() > self.rest.len() {
            self.more.extend_from_slice(part);
            return None;
        }
        let (target, rest) = std::mem::take(&mut self.rest).split_at_mut(part.len());
        self.rest = rest;
        Some(target)
    }

    /// Returns how much of the memory is unused, and the parts that did not fit.
    fn into_parts(self) -> (usize, Vec<T>) {
        (self.rest.len(), self.more)
    }
}

/// Returns a list as long as its capacity; one that an earlier batch has used is that long already.
fn filled<T: Copy + Default>(mut list: Vec<T>) -> Vec<T> {
    list.resize(list.capacity(), T::default());
    list
}

/// Returns the list that was filled, with the parts that did not fit appended.
fn finished<T: Copy>(mut list: Vec<T>, (unused, more): (usize, Vec<T>)) -> ThreadMatches<T> {
    let count = list.len() - unused;
    if more.is_empty() {
        return ThreadMatches::new(list, count);
    }
    list.truncate(count);
    list.reserve_exact(more.len());
    list.extend_from_slice(&more);
    list.into()
}

fn write<T: Copy>(target: Option<&mut [T]>, part: &[T]) {
    if let Some(target) = target {
        target.copy_from_slice(part);
    }
}

/// The matches of messages in a row, and the index of each match's payload if payloads are asked for.
#[derive(Default)]
pub struct Matches {
    pub slots: Vec<u32>,
    pub payloads: Vec<u32>,
}

impl Matches {
    /// Returns an empty list of matches, in memory of the pool.
    pub fn within(pool: &BufferPool<u32>) -> Self {
        let mut matches = Self { slots: pool.take(), payloads: pool.take() };
        matches.slots.clear();
        matches.payloads.clear();
        matches
    }

    fn give_back(self, pool: &BufferPool<u32>) {
        pool.give_back(self.slots);
        pool.give_back(self.payloads);
    }
}

/// Lets threads put what they find into two lists, in the order of the messages. `scratch` has memory for what waits.
pub fn in_order<T>(
    (slots, payloads): (Vec<u32>, Vec<u32>),
    scratch: &BufferPool<u32>,
    work: impl FnOnce(&OrderedOutput<'_>) -> T,
) -> (T, ThreadMatches<u32>, ThreadMatches<u32>) {
    let (mut slots, mut payloads) = (filled(slots), filled(payloads));
    let state = OutputState {
        next: 0,
        slots: FillBuffer::new(&mut slots),
        payloads: FillBuffer::new(&mut payloads),
        early: BTreeMap::new(),
    };
    let gathering = OrderedOutput { turn: Mutex::new(state), scratch };
    let answer = work(&gathering);
    let turn = gathering.turn.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (of_slots, of_payloads) = (turn.slots.into_parts(), turn.payloads.into_parts());
    (answer, finished(slots, of_slots), finished(payloads, of_payloads))
}

/// Collects what threads find, in the order of the messages.
pub struct OrderedOutput<'a> {
    turn: Mutex<OutputState<'a>>,
    scratch: &'a BufferPool<u32>,
}

struct OutputState<'a> {
    /// The share whose matches come next.
    next: usize,
    slots: FillBuffer<'a, u32>,
    payloads: FillBuffer<'a, u32>,
    /// The matches of shares that were done before an earlier share.
    early: BTreeMap<usize, Matches>,
}

impl<'a> OrderedOutput<'a> {
    /// Returns an empty list of matches, in memory of the pool.
    pub fn no_matches(&self) -> Matches {
        Matches::within(self.scratch)
    }

    /// Takes the memory of matches back.
    pub fn give_back(&self, matches: Matches) {
        matches.give_back(self.scratch);
    }

    /// Adds the matches of a share. Shares are numbered from 0, and each is added once.
    pub fn put(&self, share: usize, matches: Matches) {
        let mut turn = lock(&self.turn);
        if share != turn.next {
            turn.early.insert(share, matches);
            return;
        }
        let mut placed = vec![turn.take(matches)];
        while let Some(early) = turn.take_early() {
            placed.push(early);
        }
        drop(turn);
        for ((slots, payloads), matches) in placed {
            write(slots, &matches.slots);
            write(payloads, &matches.payloads);
            self.give_back(matches);
        }
    }
}

type Placed<'a> = ((Option<&'a mut [u32]>, Option<&'a mut [u32]>), Matches);

impl<'a> OutputState<'a> {
    /// Returns where to copy the matches of the next share to.
    fn take(&mut self, matches: Matches) -> Placed<'a> {
        self.next += 1;
        ((self.slots.take(&matches.slots), self.payloads.take(&matches.payloads)), matches)
    }

    /// Does the same if the next share is done already.
    fn take_early(&mut self) -> Option<Placed<'a>> {
        let matches = self.early.remove(&self.next)?;
        Some(self.take(matches))
    }
}

/// Payloads one after the other, and where each ends.
#[derive(Default)]
pub struct ThreadPayloads {
    pub bytes: ThreadMatches<u8>,
    pub ends: Vec<u64>,
}

impl ThreadPayloads {
    /// Takes all payloads of one thread.
    pub fn of(payloads: Payloads) -> Self {
        let (bytes, ends) = payloads.into_parts();
        let count = ends.last().map_or(0, |&end| end as usize);
        Self { bytes: ThreadMatches::new(bytes, count), ends }
    }
}

/// Lets threads put payloads into one list, in any order.
pub fn in_one_buffer<T>(bytes: Vec<u8>, work: impl FnOnce(&OrderedPayloads<'_>) -> T) -> (T, ThreadPayloads) {
    let mut bytes = filled(bytes);
    let together = OrderedPayloads(Mutex::new(OutputParts { bytes: FillBuffer::new(&mut bytes), ends: Vec::new() }));
    let answer = work(&together);
    let OutputParts { bytes: filling, ends } = together.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    let of_bytes = filling.into_parts();
    (answer, ThreadPayloads { bytes: finished(bytes, of_bytes), ends })
}

/// Collects the payloads of threads.
pub struct OrderedPayloads<'a>(Mutex<OutputParts<'a>>);

struct OutputParts<'a> {
    bytes: FillBuffer<'a, u8>,
    ends: Vec<u64>,
}

impl OrderedPayloads<'_> {
    /// Moves payloads behind those collected so far, and shifts the indices of matches accordingly; [`WHOLE`] stays.
    /// `payloads` is empty afterwards, and keeps its memory.
    ///
    /// [`WHOLE`]: twigcast_core::engine::MessageDeliveries::WHOLE
    pub fn put(&self, payloads: &mut Payloads, numbers: &mut [u32]) {
        if payloads.is_empty() {
            return;
        }
        let ThreadPayloads { bytes, ends } = ThreadPayloads::of(std::mem::take(payloads));
        let mut parts = lock(&self.0);
        let (first, before) = (parts.ends.len() as u32, parts.ends.last().copied().unwrap_or_default());
        parts.ends.extend(ends.iter().map(|end| before + end));
        let target = parts.bytes.take(bytes.all());
        drop(parts);
        write(target, bytes.all());
        for number in numbers.iter_mut().filter(|number| **number != twigcast_core::engine::MessageDeliveries::WHOLE) {
            *number += first;
        }
        *payloads = Payloads::default().with_memory(bytes.into_parts().0);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
