//! Accesses: registering queries at the values that lead to them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::QueryIndex;
use super::registrations::{AccessHome, RegisteredAccess, Registration, Segment};
use crate::access::conditions::SharedCondition;
use crate::access::entry::{AccessEntry, WHOLE};
use crate::automaton::nfa::AcceptItem;
use crate::ids::{AccessId, ConditionId, StateId};
use crate::plan::{Access, Action, Frequencies, Operand, Route, ValueTest};
use crate::predicate::packed::QUERIES_MAX;
use crate::query::ast::{LinearStep, NameTest};
use crate::vocabulary::Name;

/// Entries at one state of the automaton from which on they get a table of their own. Below it, one look-up serves all
/// states that an element is in.
const TABLE_ENTRIES_MIN: usize = 1024;

impl Frequencies for QueryIndex {
    fn equality(&self, operand: &Operand, text: &str) -> f32 {
        self.shared.frequency(operand, text)
    }

    fn expected(&self, element: NameTest, test: &ValueTest, assumed: f32) -> f32 {
        self.samples.expected(element, test, assumed)
    }

    fn bounds(&self, name: Name) -> usize {
        self.atoms.bounds(name)
    }
}

impl QueryIndex {
    /// Registers accesses of a query on a path. Returns their id.
    pub(super) fn insert_access(
        &mut self,
        query: u32,
        path: &[LinearStep],
        entries: &[Access],
        whole: bool,
        segment: Segment,
    ) -> AccessId {
        self.shared.begin_query(query);
        // Alternatives share what has to be verified of the rest of their query.
        let mut last = None;
        let mut acquired = Vec::with_capacity(entries.len());
        for access in entries {
            let test = access.test.as_ref().map_or(ConditionId::NONE, |test| self.shared.acquire_test(test));
            let residual = match (&access.residual, last) {
                (None, _) => ConditionId::NONE,
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
        let number =
            self.accesses.insert(RegisteredAccess { query, home: AccessHome::Unregistered, entries: acquired.into() });
        self.settle_access(number, path, segment);
        number
    }

    fn settle_access(&mut self, number: AccessId, path: &[LinearStep], segment: Segment) {
        // Access tables are looked up at each element, so an addition to one invalidates no cache.
        let main = self.main.nfa.find(path).filter(|state| self.main.access_tables.contains_key(state));
        let segment = if main.is_some() { Segment::Main } else { segment };
        let count = self.access_entries(number).count();
        let paths = self.paths_mut(segment);
        let state = paths.nfa.state_of(path);
        let waiting = paths.access_counts.get(&state).copied().unwrap_or(0);
        if paths.access_tables.contains_key(&state) || waiting + count >= TABLE_ENTRIES_MIN {
            self.join_access_table(number, segment, state);
            return;
        }
        let item = paths.nfa.insert_item(state, AcceptItem::Access(number));
        paths.access_counts.insert(state, waiting + count);
        self.set_access_home(number, AccessHome::Item(segment, item));
    }

    fn set_access_home(&mut self, number: AccessId, home: AccessHome) {
        if let Some(access) = self.accesses.get_mut(number) {
            access.home = home;
        }
    }

    fn join_access_table(&mut self, number: AccessId, segment: Segment, state: StateId) {
        let paths = match segment {
            Segment::Main => &mut self.main,
            Segment::Recent => &mut self.recent,
        };
        paths.nfa.attach(state);
        let is_new = !paths.access_tables.contains_key(&state);
        let table = Arc::make_mut(paths.access_tables.entry(state).or_default());
        if let Some(access) = self.accesses.get_mut(number) {
            access.home = AccessHome::Table(segment, state);
            access.entries().for_each(|(test, entry)| table.insert(test, entry, &self.shared));
        }
        if is_new {
            self.move_into_access_table(segment, state);
        }
    }

    /// Moves the accesses that wait at a state as items into its table.
    fn move_into_access_table(&mut self, segment: Segment, state: StateId) {
        let paths = self.paths_mut(segment);
        paths.access_counts.remove(&state);
        let items = paths.nfa.items(state);
        let waiting: Vec<AccessId> =
            items.filter_map(|item| if let AcceptItem::Access(number) = item { Some(number) } else { None }).collect();
        for number in waiting {
            let Some(AccessHome::Item(_, item)) = self.accesses.get(number).map(|access| access.home) else { continue };
            // The new home first: a state without any use would be taken out.
            self.join_access_table(number, segment, state);
            self.paths_mut(segment).nfa.remove(item);
        }
    }

    /// Removes accesses from where they wait. Returns the path that they waited on.
    fn unsettle_access(&mut self, number: AccessId) -> Option<Vec<LinearStep>> {
        let count = self.access_entries(number).count();
        let access = self.accesses.get_mut(number)?;
        match std::mem::replace(&mut access.home, AccessHome::Unregistered) {
            AccessHome::Unregistered => None,
            AccessHome::Item(segment, item) => {
                let paths = self.paths_mut(segment);
                let state = paths.nfa.state_of_item(item);
                let path = paths.nfa.path_of(state);
                if let Some(waiting) = paths.access_counts.get_mut(&state) {
                    *waiting -= count;
                    if *waiting == 0 {
                        paths.access_counts.remove(&state);
                    }
                }
                paths.nfa.remove(item);
                Some(path)
            }
            AccessHome::Table(segment, state) => {
                let paths = match segment {
                    Segment::Main => &mut self.main,
                    Segment::Recent => &mut self.recent,
                };
                let path = paths.nfa.path_of(state);
                if let Some(table) = paths.access_tables.get_mut(&state) {
                    let table = Arc::make_mut(table);
                    access.entries().for_each(|(test, entry)| table.remove(test, entry, &self.shared));
                    if table.is_empty() {
                        paths.access_tables.remove(&state);
                    }
                }
                paths.nfa.detach(state);
                Some(path)
            }
        }
    }

    /// Returns the tests and entries of accesses.
    pub fn access_entries(&self, number: AccessId) -> impl Iterator<Item = (ConditionId, AccessEntry)> + '_ {
        self.accesses.get(number).into_iter().flat_map(RegisteredAccess::entries)
    }

    /// Returns the segment in which accesses wait.
    pub(super) fn segment_of_access(&self, number: AccessId) -> Option<Segment> {
        match self.accesses.get(number)?.home {
            AccessHome::Item(segment, _) | AccessHome::Table(segment, _) => Some(segment),
            AccessHome::Unregistered => None,
        }
    }

    /// Moves accesses of the recent segment into the main one.
    pub(super) fn promote_access(&mut self, number: AccessId) {
        if self.segment_of_access(number) == Some(Segment::Recent)
            && let Some(path) = self.unsettle_access(number)
        {
            self.settle_access(number, &path, Segment::Main);
        }
    }

    pub(super) fn remove_access(&mut self, number: AccessId) {
        self.unsettle_access(number);
        if let Some(access) = self.accesses.remove(number) {
            self.shared.begin_query(access.query & !WHOLE);
            for &(test, residual) in &access.entries {
                self.shared.release(test);
                self.shared.release(residual);
            }
        }
    }

    /// Returns whether a registration has the query verified at elements to which no value leads.
    pub fn lacks_cover(&self, registration: Registration) -> bool {
        let Registration::Access(number) = registration else { return false };
        self.accesses.get(number).is_some_and(|access| {
            access.entries.iter().any(|&(test, residual)| test == ConditionId::NONE && residual != ConditionId::NONE)
        })
    }

    /// Returns accesses as a route, whose residuals are left out.
    pub(super) fn access_route(&self, number: AccessId) -> Option<Route> {
        let access = self.accesses.get(number)?;
        let (segment, state) = match access.home {
            AccessHome::Item(segment, item) => (segment, self.paths(segment).nfa.state_of_item(item)),
            AccessHome::Table(segment, state) => (segment, state),
            AccessHome::Unregistered => return None,
        };
        let entries = access.entries.iter().map(|&(test, _)| Access { test: self.test(test), residual: None });
        let whole = access.query & WHOLE != 0;
        let action = Action::Access { entries: entries.collect(), whole };
        Some(Route { path: self.paths(segment).nfa.path_of(state), action })
    }

    fn test(&self, test: ConditionId) -> Option<ValueTest> {
        let Some(SharedCondition::Test(operand, relation)) = self.shared.condition(test) else { return None };
        let operand = self.shared.operand(*operand)?.operand.clone();
        Some(ValueTest { operand, relation: relation.clone() })
    }

    /// Notes how often tests held in a message (see [`ValueSamples::observe`](crate::access::samples::ValueSamples::observe)).
    pub fn observe(&self, tests: &FxHashMap<ConditionId, f32>) {
        let observed: Vec<_> = tests.iter().filter_map(|(&test, &times)| Some((self.test(test)?, times))).collect();
        self.samples.observe(observed.iter().map(|(test, times)| (test, *times)));
    }

    /// Returns the queries that wait for some tests, each with the greatest number that one of its tests has.
    pub fn waiting_for(&self, tests: &FxHashMap<ConditionId, f32>) -> Vec<(u32, f32)> {
        let registered = self.accesses.slots().flatten();
        let waiting = registered.filter_map(|access| {
            let numbers = access.entries.iter().filter_map(|(test, _)| tests.get(test).copied());
            Some((access.query & !WHOLE, numbers.max_by(f32::total_cmp)?))
        });
        waiting.collect()
    }

    /// Returns whether it depends on the values of messages by which of their values queries are found best.
    pub fn learns_from_values(&self) -> bool {
        self.access_count() > 0 || self.has_learning_triggers()
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
            + self.samples.bytes()
    }
}

const _: () = assert!(QUERIES_MAX <= WHOLE);
