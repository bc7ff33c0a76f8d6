//! What several threads find, put together while they work: what one thread has just found lies in its cache, so that
//! putting it in place costs little then, and as much as finding it once all is done.
//!
//! Only places are handed out under a lock; all threads write at once. Where the memory that was used before does not
//! suffice, what is too much is put behind in the end.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use twigcast_core::rewrite::Payloads;

use crate::buffers::BufferPool;

/// What was found, in memory that may hold more.
#[derive(Default)]
pub struct ThreadMatches<T> {
    list: Vec<T>,
    count: usize,
}

impl<T> From<Vec<T>> for ThreadMatches<T> {
    /// All of a list.
    fn from(list: Vec<T>) -> Self {
        Self { count: list.len(), list }
    }
}

impl<T> ThreadMatches<T> {
    /// The first so many of a list.
    pub fn new(list: Vec<T>, count: usize) -> Self {
        Self { list, count }
    }

    /// What was found.
    pub fn all(&self) -> &[T] {
        &self.list[..self.count]
    }

    /// The same, to be changed.
    pub fn all_mut(&mut self) -> &mut [T] {
        &mut self.list[..self.count]
    }

    /// The list, and how much of it was found.
    pub fn into_parts(self) -> (Vec<T>, usize) {
        (self.list, self.count)
    }
}

/// Memory that parts are put into one after the other; whatever was in it is written over.
struct FillBuffer<'a, T> {
    rest: &'a mut [T],
    /// All from where the memory did not suffice.
    more: Vec<T>,
}

impl<'a, T: Copy> FillBuffer<'a, T> {
    fn new(rest: &'a mut [T]) -> Self {
        Self { rest, more: Vec::new() }
    }

    /// The place for the next part; none if the memory does not suffice: then that is taken care of.
    fn take(&mut self, part: &[T]) -> Option<&'a mut [T]> {
        if !self.more.is_empty() || part.len() > self.rest.len() {
            self.more.extend_from_slice(part);
            return None;
        }
        let (target, rest) = std::mem::take(&mut self.rest).split_at_mut(part.len());
        self.rest = rest;
        Some(target)
    }

    /// What is left of the memory, and what found no room.
    fn into_parts(self) -> (usize, Vec<T>) {
        (self.rest.len(), self.more)
    }
}

/// A list of all that it has room for; one that comes back from an earlier batch is that long already.
fn filled<T: Copy + Default>(mut list: Vec<T>) -> Vec<T> {
    list.resize(list.capacity(), T::default());
    list
}

/// The list that was filled, with what found no room behind.
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

/// What messages matched, one after the other, and the number of each match's payload where there are payloads.
#[derive(Default)]
pub struct Matches {
    pub slots: Vec<u32>,
    pub payloads: Vec<u32>,
}

impl Matches {
    /// None yet, in memory that was used before.
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

/// Let threads put what they find in the order of the messages, in the memory of two lists. `scratch` is memory for what
/// is not in place yet.
pub fn in_order<T>(
    (slots, payloads): (Vec<u32>, Vec<u32>),
    scratch: &BufferPool<u32>,
    work: impl FnOnce(&OrderedOutput<'_>) -> T,
) -> (T, ThreadMatches<u32>, ThreadMatches<u32>) {
    let (mut slots, mut payloads) = (filled(slots), filled(payloads));
    let state = Turn {
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

/// Where threads put what they find.
pub struct OrderedOutput<'a> {
    turn: Mutex<Turn<'a>>,
    scratch: &'a BufferPool<u32>,
}

struct Turn<'a> {
    /// The share whose matches come next.
    next: usize,
    slots: FillBuffer<'a, u32>,
    payloads: FillBuffer<'a, u32>,
    /// What was found in shares before one in front of them was done.
    early: BTreeMap<usize, Matches>,
}

impl<'a> OrderedOutput<'a> {
    /// No matches, in memory that was used before.
    pub fn no_matches(&self) -> Matches {
        Matches::within(self.scratch)
    }

    /// Take matches back that are to be put nowhere.
    pub fn give_back(&self, matches: Matches) {
        matches.give_back(self.scratch);
    }

    /// Put what was found in a share in its place. Shares are numbered from 0, and each is put once.
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

impl<'a> Turn<'a> {
    /// The places of what the next share found.
    fn take(&mut self, matches: Matches) -> Placed<'a> {
        self.next += 1;
        ((self.slots.take(&matches.slots), self.payloads.take(&matches.payloads)), matches)
    }

    /// The same, if that share is done already.
    fn take_early(&mut self) -> Option<Placed<'a>> {
        let matches = self.early.remove(&self.next)?;
        Some(self.take(matches))
    }
}

/// Bytes of payloads, and where each ends.
#[derive(Default)]
pub struct ThreadPayloads {
    pub bytes: ThreadMatches<u8>,
    pub ends: Vec<u64>,
}

impl ThreadPayloads {
    /// All that one thread made.
    pub fn of(payloads: Payloads) -> Self {
        let (bytes, ends) = payloads.into_parts();
        let count = ends.last().map_or(0, |&end| end as usize);
        Self { bytes: ThreadMatches::new(bytes, count), ends }
    }
}

/// Let threads put payloads together, in no order, in the memory of a list.
pub fn in_one_buffer<T>(bytes: Vec<u8>, work: impl FnOnce(&OrderedPayloads<'_>) -> T) -> (T, ThreadPayloads) {
    let mut bytes = filled(bytes);
    let together = OrderedPayloads(Mutex::new(OutputParts { bytes: FillBuffer::new(&mut bytes), ends: Vec::new() }));
    let answer = work(&together);
    let OutputParts { bytes: filling, ends } = together.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    let of_bytes = filling.into_parts();
    (answer, ThreadPayloads { bytes: finished(bytes, of_bytes), ends })
}

/// Where threads put payloads.
pub struct OrderedPayloads<'a>(Mutex<OutputParts<'a>>);

struct OutputParts<'a> {
    bytes: FillBuffer<'a, u8>,
    ends: Vec<u64>,
}

impl OrderedPayloads<'_> {
    /// Put payloads with the others, and count on from them in the numbers of those that `numbers` means: [`WHOLE`] is
    /// none. The payloads are gone afterwards, but not their memory.
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
