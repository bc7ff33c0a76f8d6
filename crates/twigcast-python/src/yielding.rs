//! Runs work on a thread that leaves the processor to others: it never waits for the interpreter or holds it, so that
//! nobody waits for a thread that has to wait itself. There are such threads on Linux.

use std::cell::Cell;

use pyo3::prelude::*;

thread_local! {
    /// The processor time, in seconds, that such threads have used for this one.
    static YIELDED_SECONDS: Cell<f64> = const { Cell::new(0.0) };
}

/// Returns the processor time that threads which yield have used for the thread that asks.
#[pyfunction]
pub fn yielded_seconds() -> f64 {
    YIELDED_SECONDS.get()
}

/// Runs `work` on a thread of its own that yields; on this one if the system gives no such thread.
#[cfg(target_os = "linux")]
pub fn run<T: Send>(work: &(impl Fn() -> T + Sync)) -> T {
    std::thread::scope(|scope| {
        let apart = std::thread::Builder::new().name("twigcast-yields".to_owned()).spawn_scoped(scope, || {
            linux::lower_priority();
            (work(), linux::thread_seconds())
        });
        match apart.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok((result, seconds))) => {
                YIELDED_SECONDS.set(YIELDED_SECONDS.get() + seconds);
                result
            }
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => work(),
        }
    })
}

/// Runs `work`.
#[cfg(not(target_os = "linux"))]
pub fn run<T: Send>(work: &(impl Fn() -> T + Sync)) -> T {
    work()
}

#[cfg(target_os = "linux")]
mod linux {
    /// How much less of a processor a thread gets: beside one that is not so, a quarter.
    const NICENESS: libc::c_int = 5;

    /// Makes this thread yield.
    pub(super) fn lower_priority() {
        // SAFETY: both calls take and return numbers, and 0 stands for the thread that calls. What an error would tell
        // changes nothing here: the thread goes on with the priority that it has.
        unsafe {
            let before = libc::getpriority(libc::PRIO_PROCESS, 0);
            libc::setpriority(libc::PRIO_PROCESS, 0, before + NICENESS);
        }
    }

    /// Returns the processor time that this thread has used.
    pub(super) fn thread_seconds() -> f64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call fills the time, which outlives it. This clock is there on every Linux.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }
}
