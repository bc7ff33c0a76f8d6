//! The query index: the shared structures of all queries, in two segments.
//!
//! [`registrations`] has the parts and what is registered in them. [`triggers`] and [`accesses`] register the queries that
//! test values.

mod accesses;
mod registrations;
mod slab;
mod triggers;

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::access::conditions::SharedConditions;
use crate::access::samples::ValueSamples;
use crate::access::table::AccessTable;
use crate::automaton::dfa::TriggerConditions;
use crate::automaton::nfa::{AcceptItem, Nfa};
use crate::ids::{AccessId, BranchId, ItemId, StateId, TriggerId, TwigId};
use crate::plan::{Action, LinearStep, Route};
use crate::predicate::atoms::Atoms;
use crate::predicate::packed;
use crate::predicate::trigger_table::TriggerTable;
use crate::predicate::waiters::{IndexedTrigger, Waiter};
use crate::query::ast::Expr;
use crate::twig::branches::Branches;
use crate::twig::{RequiredNames, Twig, TwigCondition};

pub use registrations::{CompiledTrigger, PathIndex, Registration, Segment};
use registrations::{RegisteredAccess, TriggerHome};
pub use slab::Slab;

/// The bit that marks the home of a twig in the recent segment. The rest is the id of its item, which is never as large.
const RECENT: u32 = 1 << 31;

/// The shared structures of all queries.
///
/// Each query has registrations: items of an NFA, triggers, twigs, accesses, or an entry in the list of queries that are
/// evaluated always. Whatever a registration refers to (atoms, branches, conditions) is counted by its uses.
#[derive(Clone, Debug, Default)]
pub struct QueryIndex {
    /// The paths of the main segment.
    pub main: PathIndex,
    /// The paths of the recent segment.
    pub recent: PathIndex,
    /// The twigs.
    pub twigs: Slab<Twig, TwigId>,
    /// The triggers.
    pub triggers: Slab<CompiledTrigger, TriggerId>,
    /// The distinct value conditions.
    pub atoms: Atoms,
    /// The branches of conditions in the main segment.
    pub branches: Branches,
    /// The operands and conditions that accesses test and verify.
    pub shared: SharedConditions,
    accesses: Slab<RegisteredAccess, AccessId>,
    /// The number of triggers that are accesses, each with a residual.
    accesses_as_triggers: usize,
    /// Those of them that exclude values: messages may show that nearly all have what they exclude.
    excluding_accesses: usize,
    /// Samples of values of recent messages.
    pub samples: Arc<ValueSamples>,
    /// Queries that are evaluated on each message.
    pub always: Vec<u32>,
}

impl TriggerConditions for QueryIndex {
    fn keyed(&self, trigger: TriggerId) -> Option<IndexedTrigger> {
        self.keyed_trigger(trigger, self.triggers.get(trigger)?)
    }

    fn insert_access(&self, access: AccessId, table: &mut AccessTable) {
        self.access_entries(access).for_each(|(test, entry)| table.insert(test, entry, &self.shared));
    }

    fn branching(&self, twig: TwigId) -> Option<IndexedTrigger> {
        let Twig { query, condition: TwigCondition::Branches(all), .. } = self.twigs.get(twig)? else { return None };
        let is_keyed = *query < packed::QUERIES_MAX && all.lead != BranchId::NONE;
        is_keyed.then(|| {
            let others = self.branches.rest(all);
            let also = others.last().and_then(|branch| NonZeroU32::new(branch.as_u32()));
            let waiting = Waiter {
                query: *query,
                also,
                below: BranchId::NONE,
                trigger: (others.len() > 1).then_some(twig.as_u32()),
            };
            IndexedTrigger { condition: all.lead.as_u32(), waiting }
        })
    }
}

impl QueryIndex {
    /// Returns the paths of a segment.
    pub fn paths(&self, segment: Segment) -> &PathIndex {
        match segment {
            Segment::Main => &self.main,
            Segment::Recent => &self.recent,
        }
    }

    /// Returns the NFA of a segment, for a plain path to be added.
    pub fn nfa_mut(&mut self, segment: Segment) -> &mut Nfa {
        &mut self.paths_mut(segment).nfa
    }

    fn paths_mut(&mut self, segment: Segment) -> &mut PathIndex {
        match segment {
            Segment::Main => &mut self.main,
            Segment::Recent => &mut self.recent,
        }
    }

    /// Registers the routes of a query in a segment.
    pub fn insert(&mut self, query: u32, routes: Vec<Route>, segment: Segment) -> Vec<Registration> {
        routes.into_iter().map(|route| self.insert_route(query, route, segment)).collect()
    }

    /// Returns the route by which values lead to a query that is registered so, without what remains to be verified; `None`
    /// if none do.
    pub fn keyed_route(&self, registration: Registration) -> Option<Route> {
        match registration {
            Registration::Access(number) => self.access_route(number),
            Registration::Trigger(number) => self.access_of_trigger(number).or_else(|| self.trigger_route(number)),
            Registration::Item(..) | Registration::Twig(_) | Registration::Always => None,
        }
    }

    fn insert_route(&mut self, query: u32, route: Route, segment: Segment) -> Registration {
        let item = match route.action {
            Action::Accept => AcceptItem::Accept(query),
            Action::Twig(condition) => {
                let number = self.insert_twig(query, condition, segment);
                self.settle_twig(number, &route.path, segment);
                return Registration::Twig(number);
            }
            Action::Trigger { key, verify } => {
                let key = self.acquire_key(&key);
                let trigger = self.trigger(query, key, verify);
                let number = self.triggers.insert(trigger);
                if segment == Segment::Main {
                    self.split_trigger(number);
                }
                self.settle(number, &route.path, segment);
                return Registration::Trigger(number);
            }
            Action::Access { entries, whole } => {
                if let (Some(key), [access]) = (self.key_of_access(&entries), entries.as_slice()) {
                    let trigger = self.trigger_of_access(query, &key, access, whole);
                    let number = self.triggers.insert(trigger);
                    self.settle(number, &route.path, segment);
                    return Registration::Trigger(number);
                }
                return Registration::Access(self.insert_access(query, &route.path, &entries, whole, segment));
            }
            Action::Always => {
                self.always.push(query);
                return Registration::Always;
            }
        };
        self.insert_item(&route.path, item, segment)
    }

    fn insert_item(&mut self, path: &[LinearStep], item: AcceptItem, segment: Segment) -> Registration {
        let nfa = &mut self.paths_mut(segment).nfa;
        let state = nfa.state_of(path);
        Registration::Item(segment, nfa.insert_item(state, item), item)
    }

    /// Lets a twig wait where a path accepts.
    fn settle_twig(&mut self, number: TwigId, path: &[LinearStep], segment: Segment) {
        let nfa = &mut self.paths_mut(segment).nfa;
        let state = nfa.state_of(path);
        let item = nfa.insert_item(state, AcceptItem::Twig(number));
        if let Some(twig) = self.twigs.get_mut(number) {
            twig.home = item.as_u32() | if segment == Segment::Recent { RECENT } else { 0 };
        }
    }

    /// Returns where a twig waits.
    fn home_of_twig(&self, number: TwigId) -> Option<(Segment, ItemId)> {
        let home = self.twigs.get(number)?.home;
        Some((if home & RECENT == 0 { Segment::Main } else { Segment::Recent }, ItemId::from_u32(home & !RECENT)))
    }

    /// Lets a trigger wait where a path accepts.
    fn settle(&mut self, number: TriggerId, path: &[LinearStep], segment: Segment) {
        let is_keyed = self.triggers.get(number).is_some_and(CompiledTrigger::is_keyed);
        // Trigger tables are looked up at each element, so an addition to one invalidates no cache.
        let joins_main = is_keyed
            && segment == Segment::Recent
            && self.main.nfa.find(path).is_some_and(|state| self.main.trigger_tables.contains_key(&state));
        let segment = if joins_main { Segment::Main } else { segment };
        let state = self.paths_mut(segment).nfa.state_of(path);
        if is_keyed && self.paths(segment).has_trigger_table(state) {
            self.join_trigger_table(number, segment, state);
            return;
        }
        let paths = self.paths_mut(segment);
        let item = paths.nfa.insert_item(state, AcceptItem::Trigger(number));
        if is_keyed {
            *paths.keyed_counts.value_mut(state) += 1;
        }
        self.set_home(number, TriggerHome::Item(segment, item));
    }

    fn set_home(&mut self, number: TriggerId, home: TriggerHome) {
        if let Some(trigger) = self.triggers.get_mut(number) {
            trigger.home = home;
        }
    }

    fn join_trigger_table(&mut self, number: TriggerId, segment: Segment, state: StateId) {
        if !self.paths(segment).trigger_tables.contains_key(&state) {
            self.build_trigger_table(segment, state);
        }
        self.set_home(number, TriggerHome::TriggerTable(segment, state));
        let entry = self.triggers.get(number).and_then(|trigger| self.keyed_trigger(number, trigger));
        let paths = self.paths_mut(segment);
        paths.nfa.attach(state);
        if let (Some(entry), Some(table)) = (entry, paths.trigger_tables.get_mut(&state)) {
            Arc::make_mut(table).insert(entry);
        }
    }

    /// Creates the trigger table of a state, and moves the keyed triggers that wait there as items into it.
    fn build_trigger_table(&mut self, segment: Segment, state: StateId) {
        let paths = self.paths_mut(segment);
        paths.trigger_tables.insert(state, Arc::new(TriggerTable::default()));
        paths.keyed_counts.remove(&state);
        let waiting: Vec<TriggerId> = self
            .paths(segment)
            .nfa
            .items(state)
            .filter_map(|item| match item {
                AcceptItem::Trigger(number) if self.triggers.get(number).is_some_and(CompiledTrigger::is_keyed) => {
                    Some(number)
                }
                _ => None,
            })
            .collect();
        for number in waiting {
            let Some(TriggerHome::Item(_, item)) = self.triggers.get(number).map(|trigger| trigger.home) else {
                continue;
            };
            // The new home comes first: a state without uses would be removed.
            self.join_trigger_table(number, segment, state);
            self.paths_mut(segment).nfa.remove(item);
        }
    }

    /// Removes a trigger from where it waits. Returns the path that it waited on.
    fn unsettle(&mut self, number: TriggerId) -> Option<Vec<LinearStep>> {
        let trigger = self.triggers.get(number)?;
        let is_keyed = trigger.is_keyed();
        let home = trigger.home;
        let entry = self.keyed_trigger(number, trigger);
        self.set_home(number, TriggerHome::Unregistered);
        match home {
            TriggerHome::Unregistered => None,
            TriggerHome::Item(segment, item) => {
                let paths = self.paths_mut(segment);
                let state = paths.nfa.state_of_item(item);
                let path = paths.nfa.path_of(state);
                if is_keyed {
                    paths.uncount(state);
                }
                paths.nfa.remove(item);
                Some(path)
            }
            TriggerHome::TriggerTable(segment, state) => {
                let paths = self.paths_mut(segment);
                let path = paths.nfa.path_of(state);
                if let (Some(entry), Some(table)) = (entry, paths.trigger_tables.get_mut(&state)) {
                    Arc::make_mut(table).remove(entry);
                    if table.is_empty() {
                        paths.trigger_tables.remove(&state);
                    }
                }
                paths.nfa.detach(state);
                Some(path)
            }
        }
    }

    fn remove_trigger(&mut self, number: TriggerId) {
        self.unsettle(number);
        self.release_trigger(number);
    }

    /// Returns `true` if a registration can be removed without invalidating the caches of matchers: those of the main
    /// segment, and those of plain paths in the recent segment, which follow additions only.
    pub fn is_cheap_to_remove(&self, registration: Registration) -> bool {
        match registration {
            Registration::Always => true,
            Registration::Item(..) => false,
            Registration::Twig(number) => {
                self.home_of_twig(number).is_none_or(|(segment, _)| segment == Segment::Recent)
            }
            Registration::Access(number) => self.segment_of_access(number) != Some(Segment::Main),
            Registration::Trigger(number) => self.triggers.get(number).is_none_or(|trigger| {
                !matches!(
                    trigger.home,
                    TriggerHome::Item(Segment::Main, _) | TriggerHome::TriggerTable(Segment::Main, _)
                )
            }),
        }
    }

    /// Moves a registration of the recent segment into the main segment. Returns its new form.
    pub fn promote(&mut self, registration: Registration) -> Registration {
        match registration {
            Registration::Item(Segment::Recent, number, item) => {
                let nfa = &mut self.recent.nfa;
                let path = nfa.path_of(nfa.state_of_item(number));
                nfa.remove(number);
                self.insert_item(&path, item, Segment::Main)
            }
            Registration::Twig(number) => {
                if let Some((Segment::Recent, item)) = self.home_of_twig(number) {
                    let nfa = &mut self.recent.nfa;
                    let path = nfa.path_of(nfa.state_of_item(item));
                    nfa.remove(item);
                    self.split_twig(number);
                    self.settle_twig(number, &path, Segment::Main);
                }
                registration
            }
            Registration::Trigger(number) => {
                let asks_structure =
                    |trigger: &CompiledTrigger| trigger.rest.as_ref().is_some_and(|rest| !rest.structures.is_empty());
                // A trigger that was added to a table of the main segment is there already, but its structural conditions
                // may not have been split into branches.
                if (self.is_cheap_to_remove(registration) || self.triggers.get(number).is_some_and(asks_structure))
                    && let Some(path) = self.unsettle(number)
                {
                    self.split_trigger(number);
                    self.settle(number, &path, Segment::Main);
                }
                registration
            }
            Registration::Access(number) => {
                self.promote_access(number);
                registration
            }
            _ => registration,
        }
    }

    fn insert_twig(&mut self, query: u32, condition: Expr, segment: Segment) -> TwigId {
        let branches = if segment == Segment::Main { self.branches.acquire(&condition) } else { None };
        let condition = match branches {
            Some(all) => TwigCondition::Branches(all),
            None => {
                let required = RequiredNames::of(&condition);
                TwigCondition::Expr(Box::new((condition, required)))
            }
        };
        self.twigs.insert(Twig { query, home: 0, condition })
    }

    /// Splits the condition of a twig into branches, if possible. Only for the main segment: new branches invalidate what
    /// matchers know of shapes.
    fn split_twig(&mut self, twig: TwigId) {
        let Some(Twig { condition, .. }) = self.twigs.get_mut(twig) else { return };
        if let TwigCondition::Expr(evaluated) = condition
            && let Some(all) = self.branches.acquire(&evaluated.0)
        {
            *condition = TwigCondition::Branches(all);
        }
    }

    fn remove_twig(&mut self, twig: TwigId) {
        if let Some((segment, item)) = self.home_of_twig(twig) {
            self.paths_mut(segment).nfa.remove(item);
        }
        if let Some(Twig { condition: TwigCondition::Branches(all), .. }) = self.twigs.remove(twig) {
            self.branches.release(all);
        }
    }

    /// Removes the registrations of a query.
    pub fn remove(&mut self, query: u32, registrations: &[Registration]) {
        for &registration in registrations {
            match registration {
                Registration::Always => self.always.retain(|&entry| entry != query),
                Registration::Trigger(trigger) => self.remove_trigger(trigger),
                Registration::Twig(twig) => self.remove_twig(twig),
                Registration::Access(number) => self.remove_access(number),
                Registration::Item(segment, number, _) => self.paths_mut(segment).nfa.remove(number),
            }
        }
    }
}
