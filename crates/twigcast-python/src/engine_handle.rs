//! The engine that Python threads share: its newest version, idle matchers, and buffers for reuse.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use twigcast_core::engine as core;
use twigcast_core::engine::{Matcher, Slot, UnreadNumbers};

use crate::borrowed_bytes::CopyBuffer;
use crate::buffers::BufferPool;
use crate::key_objects::KeyObjects;
use crate::keys::NewestTable;
use crate::locks::{self, HeldLock, LockOwner, lock};

/// The most matchers that are kept for the next call; if more threads match at once, theirs are dropped.
const IDLE_MATCHERS_MAX: usize = 16;

/// After so many additions, idle matchers catch up at once instead of with their next message.
const MANY: usize = 128;

/// The changes of a bulk between two turns of readers.
const STEP: usize = 32;

/// Buffers for the answers to batches, for the payloads of single messages, which are far smaller, and for matches that
/// threads have not yet copied into the answer.
#[derive(Default)]
pub struct EngineBuffers {
    pub matches: BufferPool<u32>,
    pub payloads: BufferPool<u8>,
    pub payloads_of_one: BufferPool<u8>,
    pub scratch: BufferPool<u32>,
    pub scratch_payloads: BufferPool<u8>,
}

/// A subscription population. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct Engine(Arc<SharedEngine>);

/// An engine as threads share it.
///
/// Who reads holds the version of the population that was the newest when it began, and nobody changes that one any more.
/// Who changes the population works on the newest version itself if nobody holds it and the change is quick, and on its
/// successor otherwise, which takes its place at the end. So a change never waits for a reader, and a reader waits for
/// quick changes only, [`STEP`] of them at most.
///
/// Each lock is held for moments, without another one, and never while Python code is run or waited for: whoever forks
/// takes all of them first (see [`locks`]).
pub struct SharedEngine {
    newest: Mutex<Arc<core::Engine>>,
    /// `true` while somebody changes the population. No lock, since that may take long.
    is_changing: Mutex<bool>,
    has_changed: Condvar,
    idle: Mutex<Vec<Matcher>>,
    /// The additions that idle matchers have not learnt of.
    added: AtomicUsize,
    copy_buffer: CopyBuffer,
    buffers: EngineBuffers,
    key_table: NewestTable,
    group_table: NewestTable,
    key_objects: KeyObjects,
    /// That of all versions, to be asked after each message without a lock.
    unread_numbers: Arc<UnreadNumbers>,
}

/// The permit of the one thread that changes the population. Dropping it lets the next thread have one.
struct ChangePermit<'a>(&'a SharedEngine);

impl Drop for ChangePermit<'_> {
    fn drop(&mut self) {
        *lock(&self.0.is_changing) = false;
        self.0.has_changed.notify_one();
    }
}

impl LockOwner for SharedEngine {
    fn lock_all(&'static self) -> (MutexGuard<'static, bool>, Vec<HeldLock>) {
        let Self { newest, is_changing, idle, copy_buffer, buffers, key_table, group_table, key_objects, .. } = self;
        let EngineBuffers { matches, payloads, payloads_of_one, scratch, scratch_payloads } = buffers;
        let numbers = [matches, scratch].map(|pool| Box::new(pool.lock()) as HeldLock);
        let bytes = [payloads, payloads_of_one, scratch_payloads].map(|pool| Box::new(pool.lock()) as HeldLock);
        let tables = [key_table, group_table].map(|table| Box::new(table.lock()) as HeldLock);
        let newest = lock(newest);
        // SAFETY: the lock keeps the newest version in its place, and is let go of after the records.
        let version: &'static core::Engine = unsafe { &*Arc::as_ptr(&newest) };
        let others: [HeldLock; 5] = [
            Box::new(version.hold_records()),
            Box::new(newest),
            Box::new(lock(idle)),
            Box::new(copy_buffer.lock()),
            Box::new(key_objects.lock()),
        ];
        (lock(is_changing), others.into_iter().chain(numbers).chain(bytes).chain(tables).collect())
    }
}

// A panic drops the matcher, and the successor that is being changed; a change of the newest version itself changes nothing
// before it has all it needs.
impl SharedEngine {
    fn permit_change(&self) -> ChangePermit<'_> {
        let waited = self.has_changed.wait_while(lock(&self.is_changing), |is_changing| *is_changing);
        *waited.unwrap_or_else(PoisonError::into_inner) = true;
        ChangePermit(self)
    }

    /// Changes the newest version itself, if nobody holds it and `is_quick` says that this takes no longer than a glance.
    /// Otherwise returns the change.
    fn change_newest<T, F: FnOnce(&mut core::Engine) -> T>(
        &self,
        is_quick: impl FnOnce(&core::Engine) -> bool,
        change: F,
    ) -> Result<T, F> {
        let mut newest = lock(&self.newest);
        match Arc::get_mut(&mut newest).filter(|engine| is_quick(engine)) {
            Some(engine) => Ok(change(engine)),
            None => Err(change),
        }
    }

    /// Changes the successor of the newest version, which then is the newest one.
    fn change_successor<T>(&self, change: impl FnOnce(&mut core::Engine) -> T) -> T {
        let newest = Arc::clone(&lock(&self.newest));
        let mut successor = newest.successor();
        drop(newest);
        let result = change(&mut successor);
        let before = std::mem::replace(&mut *lock(&self.newest), Arc::new(successor));
        // To free what only that version had may take a while: nobody should wait for it.
        drop(before);
        result
    }
}

impl Engine {
    /// Returns the newest version of the population, which stays as it is.
    pub fn read(&self) -> Arc<core::Engine> {
        Arc::clone(&lock(&self.0.newest))
    }

    /// Changes the population. `is_quick` says whether the change is as short as a read. Waits for other changes, not for
    /// readers.
    pub fn change<T>(
        &self,
        is_quick: impl FnOnce(&core::Engine) -> bool,
        change: impl FnOnce(&mut core::Engine) -> T,
    ) -> T {
        let _permit = self.0.permit_change();
        match self.0.change_newest(is_quick, change) {
            Ok(result) => result,
            Err(change) => self.0.change_successor(change),
        }
    }

    /// Makes `count` changes, as [`Self::change`] does; `change` makes a range of them, and `quick` says how many of a range
    /// are quick together, from its start on. As long as some are and nobody reads, readers have their turn after these, and
    /// no successor is made, which would copy again what the one before has copied. Otherwise all that are left count at once.
    pub fn change_many(
        &self,
        count: usize,
        quick: impl Fn(&core::Engine, Range<usize>) -> usize,
        mut change: impl FnMut(&mut core::Engine, Range<usize>),
    ) {
        let _permit = self.0.permit_change();
        let mut start = 0;
        while start < count {
            let end = Cell::new(start);
            let made = self.0.change_newest(
                |engine| {
                    end.set(start + quick(engine, start..count.min(start + STEP)));
                    end.get() > start
                },
                |engine| change(engine, start..end.get()),
            );
            if made.is_err() {
                return self.0.change_successor(|engine| change(engine, start..count));
            }
            start = end.get();
        }
    }

    /// Locks the idle matchers.
    pub fn idle(&self) -> MutexGuard<'_, Vec<Matcher>> {
        lock(&self.0.idle)
    }

    /// Returns a matcher for the calling thread. It was used with no later version than [`Self::read`] returns from now on:
    /// a matcher that goes back to an earlier version has to forget what it has learnt.
    pub fn take_matcher(&self) -> Matcher {
        self.idle().pop().unwrap_or_default()
    }

    /// Takes a matcher back, for the next call.
    pub fn give_back(&self, mut matcher: Matcher) {
        matcher.release_message();
        let mut idle = self.idle();
        if idle.len() < IDLE_MATCHERS_MAX {
            idle.push(matcher);
        }
    }

    /// Lets the next matcher have the memory of an expanded message.
    pub fn keep_memory(&self, expanded: String) {
        let unneeded = match self.idle().last_mut() {
            Some(matcher) => matcher.keep_memory(expanded),
            None => expanded,
        };
        // To give memory back to the system takes long: nobody should wait for that.
        drop(unneeded);
    }

    /// Runs `work` with the newest version of the population and a matcher of the calling thread's own.
    pub fn with_matcher<T>(&self, work: impl FnOnce(&core::Engine, &mut Matcher) -> T) -> T {
        let mut matcher = self.take_matcher();
        let answer = work(&self.read(), &mut matcher);
        self.give_back(matcher);
        answer
    }

    /// Counts additions; after many, lets the idle matchers learn of them. They learn one after the other, so that a thread
    /// that needs a matcher meanwhile waits for one of them at most, no longer than its own matcher would take.
    pub fn note_added(&self, count: usize) {
        if self.0.added.fetch_add(count, Ordering::Relaxed) + count < MANY {
            return;
        }
        self.0.added.store(0, Ordering::Relaxed);
        let count = self.idle().len();
        // The last ones are taken first.
        for index in (0..count).rev() {
            let engine = self.read();
            if let Some(matcher) = self.idle().get_mut(index) {
                engine.follow(matcher);
            }
        }
    }

    /// Lets the population choose covers anew, if matching has found that this is due.
    pub fn choose_covers(&self, is_due: bool) {
        if is_due {
            // It plans queries anew, which takes longer than a read.
            self.change(|_| false, core::Engine::choose_covers);
        }
    }

    /// Returns the memory for copies of what Python lends.
    pub fn copy_buffer(&self) -> &CopyBuffer {
        &self.0.copy_buffer
    }

    /// Returns the memory for answers.
    pub fn buffers(&self) -> &EngineBuffers {
        &self.0.buffers
    }

    /// Returns the newest table of keys by slot.
    pub fn newest_key_table(&self) -> &NewestTable {
        &self.0.key_table
    }

    /// Returns the keys that answers have named, as objects of Python.
    pub fn key_objects(&self) -> &KeyObjects {
        &self.0.key_objects
    }

    /// Returns the newest table of keys by query.
    pub fn newest_group_table(&self) -> &NewestTable {
        &self.0.group_table
    }

    /// Returns the values with exponents that comparisons have read as no number.
    pub fn unread(&self) -> &UnreadNumbers {
        &self.0.unread_numbers
    }

    /// Wraps a population, without matchers yet.
    pub fn wrap(engine: core::Engine) -> Self {
        let shared = Arc::new(SharedEngine {
            unread_numbers: Arc::clone(engine.unread_numbers()),
            newest: Mutex::new(Arc::new(engine)),
            is_changing: Mutex::new(false),
            has_changed: Condvar::new(),
            idle: Mutex::new(Vec::new()),
            added: AtomicUsize::new(0),
            copy_buffer: CopyBuffer::default(),
            buffers: EngineBuffers::default(),
            key_table: NewestTable::default(),
            group_table: NewestTable::default(),
            key_objects: KeyObjects::default(),
        });
        let registered: Arc<dyn LockOwner> = shared.clone();
        locks::register(Arc::downgrade(&registered));
        Self(shared)
    }
}

/// Returns the key of a slot in an answer. The version must be that of the answer, since slots are used again.
pub fn key_of(engine: &core::Engine, slot: Slot) -> String {
    engine.key(slot).unwrap_or_default().to_owned()
}

/// Returns the slots of the subscriptions that the last message matched.
pub fn slots_of(engine: &core::Engine, matcher: &Matcher) -> Vec<Slot> {
    let mut slots = Vec::new();
    engine.slots(matcher, &mut slots);
    slots
}
