//! What several threads find, put in the order of the messages while they work: what one thread has just found lies in
//! its cache, so that putting it in place costs little then, and as much as a tenth of matching once all is done.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::numbers::Room;

/// Numbers that were found, in memory that may hold more.
pub struct Found {
    list: Vec<u32>,
    count: usize,
}

impl Found {
    /// All of a list.
    pub fn all(list: Vec<u32>) -> Self {
        Self { count: list.len(), list }
    }

    /// What was found.
    pub fn numbers(&mut self) -> &mut [u32] {
        &mut self.list[..self.count]
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The list and how much of it was found.
    pub fn into_parts(self) -> (Vec<u32>, usize) {
        (self.list, self.count)
    }
}

/// Let threads put what they find in order, in the memory of a list; whatever is in it is written over. `scratch` is
/// memory for what is not in place yet.
pub fn in_order<T>(mut list: Vec<u32>, scratch: &Room<u32>, work: impl FnOnce(&Gathering<'_>) -> T) -> (T, Found) {
    // A list that comes back from an earlier batch is that long already.
    list.resize(list.capacity(), 0);
    let state = State { next: 0, rest: &mut list, more: Vec::new(), early: BTreeMap::new() };
    let gathering = Gathering { state: Mutex::new(state), scratch };
    let answer = work(&gathering);
    let State { rest, more, .. } = gathering.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (unused, all) = (rest.len(), list.len());
    let mut found = Found { list, count: all - unused };
    if !more.is_empty() {
        found.list.truncate(found.count);
        found.list.reserve_exact(more.len());
        found.list.extend_from_slice(&more);
        found.count = found.list.len();
    }
    (answer, found)
}

/// Where threads put what they find.
pub struct Gathering<'a> {
    state: Mutex<State<'a>>,
    scratch: &'a Room<u32>,
}

struct State<'a> {
    /// The share whose numbers come next.
    next: usize,
    /// What is left of the memory.
    rest: &'a mut [u32],
    /// All from where the memory did not suffice.
    more: Vec<u32>,
    /// What was found in shares before one in front of them was done.
    early: BTreeMap<usize, Vec<u32>>,
}

impl<'a> Gathering<'a> {
    /// A list for what is found in a share; empty.
    pub fn take_list(&self) -> Vec<u32> {
        let mut list = self.scratch.take();
        list.clear();
        list
    }

    /// Take a list back that nothing is to be put in place of.
    pub fn give_back(&self, list: Vec<u32>) {
        self.scratch.give_back(list);
    }

    /// Put what was found in a share in its place. Shares are numbered from 0, and each is put once.
    pub fn put(&self, share: usize, found: Vec<u32>) {
        let mut state = self.state();
        if share != state.next {
            state.early.insert(share, found);
            return;
        }
        // Only the places are taken under the lock; all threads write at once.
        let mut placed = vec![(state.take(&found), found)];
        while let Some(early) = state.take_early() {
            placed.push((state.take(&early), early));
        }
        drop(state);
        for (place, list) in placed {
            if let Some(place) = place {
                place.copy_from_slice(&list);
            }
            self.give_back(list);
        }
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> State<'a> {
    /// The place for what the next share found; none if the memory does not suffice: then that is taken care of.
    fn take(&mut self, found: &[u32]) -> Option<&'a mut [u32]> {
        self.next += 1;
        if !self.more.is_empty() || found.len() > self.rest.len() {
            self.more.extend_from_slice(found);
            return None;
        }
        let (place, rest) = std::mem::take(&mut self.rest).split_at_mut(found.len());
        self.rest = rest;
        Some(place)
    }

    /// What the next share found, if it is done already.
    fn take_early(&mut self) -> Option<Vec<u32>> {
        self.early.remove(&self.next)
    }
}
