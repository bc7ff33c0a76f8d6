//! Sets queries aside for some messages after they overran on several, and then tries them again.
//!
//! Time is counted in messages, so that the outcome depends only on the messages and their order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

/// For how many messages a query is set aside the first time. Each further time doubles it, up to the maximum.
const PAUSE_MIN: u64 = 16;
const PAUSE_MAX: u64 = 1 << 14;

/// The work on a message that a query may overrun on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Deciding whether it matches.
    Matching,
    /// Making its result.
    Delivering,
}

/// The overruns of a query at one stage so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OverrunRecord {
    /// The number of messages on which it overran since it was last decided in a turn.
    overruns: u32,
    /// For how many messages it was last set aside; 0 if never.
    pause: u64,
    /// The number of the message from which on it is tried again.
    until: u64,
}

/// A query that is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottledQuery {
    /// Its number.
    pub(super) query: u32,
    /// The stage that is not tried.
    pub(super) stage: Stage,
    /// On how many messages it overran.
    pub overruns: u32,
    /// For how many messages more it is set aside.
    pub messages: u64,
}

/// The queries of an engine that overran. All threads that match share it, and so do all versions of the population: a
/// reader of an earlier version may record a query whose number stands for another one now, which then steps aside once too
/// often, and is reported so.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// Whether there is any record: nearly always there is none, and no lock is taken.
    has_records: AtomicBool,
    state: Mutex<ThrottleState>,
}

#[derive(Debug, Default)]
struct ThrottleState {
    /// The number of messages since there were records.
    messages: u64,
    records: FxHashMap<(u32, Stage), OverrunRecord>,
}

impl ThrottleState {
    fn set_aside(&self) -> impl Iterator<Item = ThrottledQuery> + '_ {
        let set_aside = self.records.iter().filter(|(_, record)| record.until > self.messages);
        set_aside.map(|(&(query, stage), record)| ThrottledQuery {
            query,
            stage,
            overruns: record.overruns,
            messages: record.until - self.messages,
        })
    }
}

impl Throttle {
    fn state(&self) -> MutexGuard<'_, ThrottleState> {
        // A panic elsewhere leaves whole records.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the records as they are, until the guard is dropped.
    pub(super) fn hold(&self) -> impl Sized + '_ {
        self.state()
    }

    /// Begins with a message: calls back for each query that is set aside on it.
    pub(super) fn begin_message(&self, each: impl FnMut(ThrottledQuery)) {
        if !self.has_records.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        state.set_aside().for_each(each);
        state.messages += 1;
    }

    /// Records the queries that overran in their turns at a stage of a message, and those that were done. A query that
    /// overran on `overruns_max` messages is set aside, and again each time that it overruns when it is tried; 0 stands
    /// for never.
    pub(super) fn record(
        &self,
        stage: Stage,
        overrun: impl Iterator<Item = u32>,
        done: impl Iterator<Item = u32>,
        overruns_max: usize,
    ) {
        if overruns_max == 0 {
            return;
        }
        let mut state = self.state();
        let ThrottleState { messages, records } = &mut *state;
        for query in done {
            records.remove(&(query, stage));
        }
        for query in overrun {
            let record = records.entry((query, stage)).or_default();
            record.overruns = record.overruns.saturating_add(1);
            if record.overruns as usize >= overruns_max {
                record.pause = (2 * record.pause).clamp(PAUSE_MIN, PAUSE_MAX);
                record.until = *messages + record.pause;
            }
        }
        let has_records = !state.records.is_empty();
        self.has_records.store(has_records, Ordering::Relaxed);
    }

    /// Forgets what is recorded of a query, whose number may be used again.
    pub(super) fn forget(&self, query: u32) {
        if self.has_records.load(Ordering::Relaxed) {
            let mut state = self.state();
            state.records.remove(&(query, Stage::Matching));
            state.records.remove(&(query, Stage::Delivering));
        }
    }

    /// Returns the queries that are set aside on the next message, in no order.
    pub(super) fn set_aside(&self) -> Vec<ThrottledQuery> {
        if self.has_records.load(Ordering::Relaxed) { self.state().set_aside().collect() } else { Vec::new() }
    }

    /// Returns how many queries are set aside on the next message, at one stage or both.
    pub(super) fn set_aside_count(&self) -> usize {
        let mut queries: Vec<u32> = self.set_aside().into_iter().map(|throttled| throttled.query).collect();
        queries.sort_unstable();
        queries.dedup();
        queries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a message on which a query overruns wherever it is evaluated. Returns whether it was.
    fn overrun(throttle: &Throttle, overruns_max: usize) -> bool {
        let mut is_set_aside = false;
        throttle.begin_message(|throttled| is_set_aside |= throttled.query == 7);
        if !is_set_aside {
            throttle.record(Stage::Matching, [7].into_iter(), [].into_iter(), overruns_max);
        }
        !is_set_aside
    }

    #[test]
    fn pauses_double_and_end_in_trials() {
        let throttle = Throttle::default();
        let evaluated: Vec<usize> = (0..150).filter(|_| overrun(&throttle, 3)).collect();
        // Three overruns, then trials after 16, 32 and 64 messages.
        assert_eq!(evaluated, [0, 1, 2, 19, 52, 117]);
    }

    #[test]
    fn a_trial_that_succeeds_ends_it() {
        let throttle = Throttle::default();
        (0..3).for_each(|_| assert!(overrun(&throttle, 3)));
        assert_eq!(
            throttle.set_aside(),
            [ThrottledQuery { query: 7, stage: Stage::Matching, overruns: 3, messages: 16 }]
        );
        throttle.record(Stage::Delivering, [].into_iter(), [7].into_iter(), 3);
        assert_eq!(throttle.set_aside().len(), 1, "another stage says nothing of this one");
        throttle.record(Stage::Matching, [].into_iter(), [7].into_iter(), 3);
        assert_eq!(throttle.set_aside(), []);
        assert!(overrun(&throttle, 3) && overrun(&throttle, 3), "it starts anew");
    }

    #[test]
    fn nothing_is_set_aside_where_that_is_switched_off() {
        let throttle = Throttle::default();
        assert!((0..100).all(|_| overrun(&throttle, 0)));
    }

    #[test]
    fn a_number_that_is_used_again_has_no_record() {
        let throttle = Throttle::default();
        (0..3).for_each(|_| assert!(overrun(&throttle, 3)));
        throttle.forget(7);
        assert_eq!(throttle.set_aside(), []);
    }
}
