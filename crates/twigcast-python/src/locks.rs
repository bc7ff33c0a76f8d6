//! Locks, and forking a process while its threads use engines.
//!
//! The child has only the thread that forked, and a copy of all memory. A lock that another thread held then would stay
//! locked for ever, and its data could be half changed. So a fork first takes all locks of all engines, each of which
//! is held for moments only, and releases them on both sides. Work of other threads without a lock ends in the child: a
//! successor that a thread was changing is never published there, and its memory is lost.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::prelude::*;

/// Locks what stays consistent even if a thread panics while it holds the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An object with locks that a fork has to respect.
pub trait LockOwner: Send + Sync {
    /// Takes all locks. The first one returned says whether somebody is changing the object. The others are to be let go of
    /// in their order.
    fn lock_all(&'static self) -> (MutexGuard<'static, bool>, Vec<HeldLock>);
}

/// A lock that is held until this is dropped.
pub trait Held {}

impl<T> Held for T {}

/// Any lock that is held.
pub type HeldLock = Box<dyn Held>;

/// All engines of the process, and some that are gone.
static ENGINES: Mutex<Vec<Weak<dyn LockOwner>>> = Mutex::new(Vec::new());

/// Engines of which some are gone are looked through when there are so many, and then when there are twice as many.
const TIDIED_MIN: usize = 64;

thread_local! {
    static HELD: RefCell<Option<HeldLocks>> = const { RefCell::new(None) };
}

/// All locks, held by the thread that forks. What is declared first is dropped first.
struct HeldLocks {
    others: Vec<HeldLock>,
    changing: Vec<MutexGuard<'static, bool>>,
    /// Kept as long as their locks are held.
    engines: Vec<Arc<dyn LockOwner>>,
    _all: MutexGuard<'static, Vec<Weak<dyn LockOwner>>>,
}

/// Lets forks respect the locks of an engine.
pub fn register(engine: Weak<dyn LockOwner>) {
    let mut engines = lock(&ENGINES);
    if engines.len() >= TIDIED_MIN && engines.len() == engines.capacity() {
        engines.retain(|engine| engine.strong_count() > 0);
        let live = engines.len();
        engines.reserve_exact(live.max(TIDIED_MIN));
    }
    engines.push(engine);
}

/// Lets the system call what follows whenever the process forks. Python's own hooks would not do: between them and the fork
/// other threads may run, and wait for a lock while they keep the interpreter to themselves.
#[cfg(unix)]
pub fn install() -> PyResult<()> {
    use std::ffi::c_int;

    use pyo3::exceptions::PyOSError;

    type Handler = extern "C" fn();
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    // SAFETY: the handlers are functions of this module, which Python never unloads.
    match unsafe { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) } {
        0 => Ok(()),
        error => Err(PyOSError::new_err((error, "the locks of engines cannot be prepared for forks"))),
    }
}

/// Does nothing: this system does not fork.
#[cfg(not(unix))]
pub fn install() -> PyResult<()> {
    Ok(())
}

/// Takes all locks.
extern "C" fn before_fork() {
    let all = lock(&ENGINES);
    let engines: Vec<Arc<dyn LockOwner>> = all.iter().filter_map(Weak::upgrade).collect();
    let mut held = HeldLocks { others: Vec::new(), changing: Vec::new(), engines, _all: all };
    for engine in &held.engines {
        // SAFETY: `engines` keeps the engine in its place, and is dropped after the guards that refer to it.
        let engine: &'static dyn LockOwner = unsafe { &*Arc::as_ptr(engine) };
        let (changing, others) = engine.lock_all();
        held.changing.push(changing);
        held.others.extend(others);
    }
    HELD.set(Some(held));
}

/// Lets go of all locks.
extern "C" fn after_fork_in_parent() {
    HELD.take();
}

/// Lets go of all locks. Nobody is changing a population in this process.
extern "C" fn after_fork_in_child() {
    if let Some(mut held) = HELD.take() {
        held.changing.iter_mut().for_each(|is_changing| **is_changing = false);
    }
}
