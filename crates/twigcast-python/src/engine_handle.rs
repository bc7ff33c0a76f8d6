//! An engine as several threads of Python share it: its lock, matchers that are free, memory that is used again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pyo3::prelude::*;
use twigcast_core::engine as core;
use twigcast_core::engine::{Matcher, Slot};

use crate::borrowed_bytes::CopyBuffer;
use crate::buffers::BufferPool;
use crate::keys::NewestTable;

/// Matchers kept for the next call; more are made and dropped when more threads match at once.
const IDLE_MATCHERS_MAX: usize = 16;

/// After so many additions, matchers learn of them at once rather than before their next message.
const MANY: usize = 128;

/// Memory for what batches find, for payloads of single messages, which are far fewer, and for what several threads have
/// found and not put in its place.
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
    /// Additions since matchers learnt of them.
    added: AtomicUsize,
    copy_buffer: CopyBuffer,
    buffers: EngineBuffers,
    key_table: NewestTable,
    group_table: NewestTable,
}

// A panic while a lock was held leaves the lock poisoned but the data as consistent as Rust keeps it: matchers are
// dropped rather than returned on a panic, and registration changes nothing before it has all it needs.
impl Engine {
    /// The population, to be looked at.
    pub fn read(&self) -> RwLockReadGuard<'_, core::Engine> {
        self.engine.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The population, to be changed.
    pub fn write(&self) -> RwLockWriteGuard<'_, core::Engine> {
        self.engine.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The matchers that are free.
    pub fn idle(&self) -> MutexGuard<'_, Vec<Matcher>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Run `work` with a matcher of the calling thread's own, while the population stays as it is.
    pub fn with_matcher<T>(&self, work: impl FnOnce(&core::Engine, &mut Matcher) -> T) -> T {
        self.with_idle_matcher(|matcher| work(&self.read(), matcher))
    }

    /// Run `work` with a matcher of the calling thread's own.
    pub fn with_idle_matcher<T>(&self, work: impl FnOnce(&mut Matcher) -> T) -> T {
        let mut matcher = self.idle().pop().unwrap_or_default();
        let answer = work(&mut matcher);
        let mut idle = self.idle();
        if idle.len() < IDLE_MATCHERS_MAX {
            idle.push(matcher);
        }
        answer
    }

    /// Subscriptions were added; after many, let the matchers that are free learn of them. One after the other, with no lock
    /// that keeps others from matching: who wants a matcher meanwhile waits for one to learn at most, as it would itself.
    pub fn note_added(&self, count: usize) {
        if self.added.fetch_add(count, Ordering::Relaxed) + count < MANY {
            return;
        }
        self.added.store(0, Ordering::Relaxed);
        let count = self.idle().len();
        // Those that are taken first are the last.
        for index in (0..count).rev() {
            let engine = self.read();
            if let Some(matcher) = self.idle().get_mut(index) {
                engine.follow(matcher);
            }
        }
    }

    /// What copies bytes that Python lends.
    pub fn copy_buffer(&self) -> &CopyBuffer {
        &self.copy_buffer
    }

    /// Memory for what batches find.
    pub fn buffers(&self) -> &EngineBuffers {
        &self.buffers
    }

    /// The newest table of keys by slot.
    pub fn newest_key_table(&self) -> &NewestTable {
        &self.key_table
    }

    /// The newest table of keys by query.
    pub fn newest_group_table(&self) -> &NewestTable {
        &self.group_table
    }

    /// A population with no matchers yet.
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

/// The key of a slot that an answer names, under the lock that it was given under: slots are used again.
pub fn key_of(engine: &core::Engine, slot: Slot) -> String {
    engine.key(slot).unwrap_or_default().to_owned()
}

/// The slots of the subscriptions that the last message matched.
pub fn slots_of(engine: &core::Engine, matcher: &Matcher) -> Vec<Slot> {
    let mut slots = Vec::new();
    engine.slots(matcher, &mut slots);
    slots
}
