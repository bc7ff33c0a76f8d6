//! The engine that threads of Python share: its lock, idle matchers, and memory that is used again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pyo3::prelude::*;
use twigcast_core::engine as core;
use twigcast_core::engine::{Matcher, Slot};

use crate::borrowed_bytes::CopyBuffer;
use crate::buffers::BufferPool;
use crate::keys::NewestTable;

/// The most matchers that are kept for the next call; if more threads match at once, theirs are dropped.
const IDLE_MATCHERS_MAX: usize = 16;

/// After so many additions, idle matchers learn of them at once rather than with their next message.
const MANY: usize = 128;

/// Memory for the answers to batches, for the payloads of single messages, which are far fewer, and for what threads have
/// found and not yet put into the answer.
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
pub struct Engine {
    engine: RwLock<core::Engine>,
    idle: Mutex<Vec<Matcher>>,
    /// The additions that idle matchers have not learnt of.
    added: AtomicUsize,
    copy_buffer: CopyBuffer,
    buffers: EngineBuffers,
    key_table: NewestTable,
    group_table: NewestTable,
}

// A panic while a lock was held leaves the lock poisoned but the data as consistent as Rust keeps it: matchers are
// dropped rather than returned on a panic, and registration changes nothing before it has all it needs.
impl Engine {
    /// Locks the population for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, core::Engine> {
        self.engine.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the population for changing.
    pub fn write(&self) -> RwLockWriteGuard<'_, core::Engine> {
        self.engine.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the idle matchers.
    pub fn idle(&self) -> MutexGuard<'_, Vec<Matcher>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with a matcher of the calling thread's own, while the population stays as it is.
    pub fn with_matcher<T>(&self, work: impl FnOnce(&core::Engine, &mut Matcher) -> T) -> T {
        self.with_idle_matcher(|matcher| work(&self.read(), matcher))
    }

    /// Runs `work` with a matcher of the calling thread's own.
    pub fn with_idle_matcher<T>(&self, work: impl FnOnce(&mut Matcher) -> T) -> T {
        let mut matcher = self.idle().pop().unwrap_or_default();
        let answer = work(&mut matcher);
        let mut idle = self.idle();
        if idle.len() < IDLE_MATCHERS_MAX {
            idle.push(matcher);
        }
        answer
    }

    /// Counts additions; after many, lets the idle matchers learn of them. They learn one after the other, so that a thread
    /// that needs a matcher meanwhile waits for one of them at most, no longer than its own matcher would take.
    pub fn note_added(&self, count: usize) {
        if self.added.fetch_add(count, Ordering::Relaxed) + count < MANY {
            return;
        }
        self.added.store(0, Ordering::Relaxed);
        let count = self.idle().len();
        // The last ones are taken first.
        for index in (0..count).rev() {
            let engine = self.read();
            if let Some(matcher) = self.idle().get_mut(index) {
                engine.follow(matcher);
            }
        }
    }

    /// Returns the memory for copies of what Python lends.
    pub fn copy_buffer(&self) -> &CopyBuffer {
        &self.copy_buffer
    }

    /// Returns the memory for answers.
    pub fn buffers(&self) -> &EngineBuffers {
        &self.buffers
    }

    /// Returns the newest table of keys by slot.
    pub fn newest_key_table(&self) -> &NewestTable {
        &self.key_table
    }

    /// Returns the newest table of keys by query.
    pub fn newest_group_table(&self) -> &NewestTable {
        &self.group_table
    }

    /// Wraps a population, without matchers yet.
    pub fn wrap(engine: core::Engine) -> Self {
        Self {
            engine: RwLock::new(engine),
            idle: Mutex::new(Vec::new()),
            added: AtomicUsize::new(0),
            copy_buffer: CopyBuffer::default(),
            buffers: EngineBuffers::default(),
            key_table: NewestTable::default(),
            group_table: NewestTable::default(),
        }
    }
}

/// Returns the key of a slot in an answer. The lock must be the one of the answer, since slots are used again.
pub fn key_of(engine: &core::Engine, slot: Slot) -> String {
    engine.key(slot).unwrap_or_default().to_owned()
}

/// Returns the slots of the subscriptions that the last message matched.
pub fn slots_of(engine: &core::Engine, matcher: &Matcher) -> Vec<Slot> {
    let mut slots = Vec::new();
    engine.slots(matcher, &mut slots);
    slots
}
