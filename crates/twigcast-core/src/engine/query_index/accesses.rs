//! Accesses: registering queries at the values that lead to them.

use super::QueryIndex;
use super::registrations::{RegisteredAccess, Segment};
use crate::access::conditions::NO_CONDITION;
use crate::access::table::WHOLE;
use crate::plan::{Access, LinearStep};
use crate::predicate::packed::QUERIES_MAX;

impl QueryIndex {
    /// Registers accesses of a query on a path. Returns their id.
    pub(super) fn insert_access(
        &mut self,
        query: u32,
        path: &[LinearStep],
        entries: &[Access],
        whole: bool,
        segment: Segment,
    ) -> u32 {
        // Alternatives share what has to be verified of the rest of their query.
        let mut last = None;
        let mut acquired = Vec::with_capacity(entries.len());
        for access in entries {
            let test = access.test.as_ref().map_or(NO_CONDITION, |test| self.shared.acquire_test(test));
            let residual = match (&access.residual, last) {
                (None, _) => NO_CONDITION,
                (Some(residual), Some((shared, id))) if std::ptr::eq(shared, &raw const **residual) => {
                    self.shared.acquire_again(id)
                }
                (Some(residual), _) => {
                    let id = self.shared.acquire(residual);
                    last = Some((&raw const **residual, id));
                    id
                }
            };
            acquired.push((test, residual));
        }
        let query = query | if whole { WHOLE } else { 0 };
        let number = self.accesses.insert(RegisteredAccess { query, home: None, entries: acquired.into() });
        self.settle_access(number, path, segment);
        number
    }

    fn settle_access(&mut self, number: u32, path: &[LinearStep], segment: Segment) {
        // Access tables are looked up at each element, so an addition to one invalidates no cache.
        let main = self.main.nfa.find(path).filter(|state| self.main.access_tables.contains_key(state));
        let segment = if main.is_some() { Segment::Main } else { segment };
        let paths = match segment {
            Segment::Main => &mut self.main,
            Segment::Recent => &mut self.recent,
        };
        let state = paths.nfa.state_of(path);
        paths.nfa.attach(state);
        let table = paths.access_tables.entry(state).or_default();
        let Some(access) = self.accesses.get_mut(number) else { return };
        access.home = Some((segment, state));
        access.entries().for_each(|(test, entry)| table.insert(test, entry, &self.shared));
    }

    /// Removes accesses from where they wait. Returns the path that they waited on.
    fn unsettle_access(&mut self, number: u32) -> Option<Vec<LinearStep>> {
        let access = self.accesses.get_mut(number)?;
        let (segment, state) = access.home.take()?;
        let paths = match segment {
            Segment::Main => &mut self.main,
            Segment::Recent => &mut self.recent,
        };
        let path = paths.nfa.path_of(state);
        if let Some(table) = paths.access_tables.get_mut(&state) {
            access.entries().for_each(|(test, entry)| table.remove(test, entry, &self.shared));
            if table.is_empty() {
                paths.access_tables.remove(&state);
            }
        }
        paths.nfa.detach(state);
        Some(path)
    }

    /// Returns the segment in which accesses wait.
    pub(super) fn segment_of_access(&self, number: u32) -> Option<Segment> {
        Some(self.accesses.get(number)?.home?.0)
    }

    /// Moves accesses of the recent segment into the main one.
    pub(super) fn promote_access(&mut self, number: u32) {
        if self.segment_of_access(number) == Some(Segment::Recent)
            && let Some(path) = self.unsettle_access(number)
        {
            self.settle_access(number, &path, Segment::Main);
        }
    }

    pub(super) fn remove_access(&mut self, number: u32) {
        self.unsettle_access(number);
        if let Some(access) = self.accesses.remove(number) {
            for &(test, residual) in &access.entries {
                self.shared.release(test);
                self.shared.release(residual);
            }
        }
    }

    /// Returns the number of registered accesses, one for each query and path.
    pub fn access_count(&self) -> usize {
        self.accesses.len()
    }

    /// Returns the size in bytes of everything that accesses need, by estimate.
    pub fn access_bytes(&self) -> usize {
        let tables = [&self.main, &self.recent].into_iter().flat_map(|paths| paths.access_tables.values());
        let entries = self.accesses.slots().flatten().map(|access| size_of_val(&*access.entries));
        tables.map(|table| table.bytes()).sum::<usize>()
            + entries.sum::<usize>()
            + self.accesses.bytes()
            + self.shared.bytes()
    }
}

const _: () = assert!(QUERIES_MAX <= WHOLE);
