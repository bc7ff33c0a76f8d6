//! The compiled queries: automaton, twigs, triggers, atoms.

mod accesses;
mod slab;
mod triggers;

use std::num::NonZeroU32;

use rustc_hash::FxHashMap;

use crate::access::conditions::SharedConditions;
use crate::access::table::AccessTable;
use crate::automaton::dfa::TriggerConditions;
use crate::automaton::nfa::{AcceptItem, Nfa, StateId};
use crate::plan::{Action, LinearStep, Route};
use crate::predicate::atoms::Atoms;
use crate::predicate::packed;
use crate::predicate::trigger_table::TriggerTable;
use crate::predicate::waiters::{IndexedTrigger, Waiter};
use crate::query::ast::Expr;
use crate::twig::branches::Branches;
use crate::twig::{RequiredNames, Twig, TwigCondition};

use accesses::RegisteredAccess;
pub use slab::Slab;
pub use triggers::CompiledTrigger;

/// Where a trigger waits.
#[derive(Clone, Copy, Debug)]
enum TriggerHome {
    /// As an item of an automaton, by the item's number: each state of the lazily built automaton merges it.
    Item(Segment, u32),
    /// In the table of an automaton's state where many wait (see [`PathIndex::trigger_tables`]).
    TriggerTable(Segment, StateId),
    /// Nowhere yet, or no longer.
    Unregistered,
}

/// Keyed triggers at one automaton state from which on they get a table of their own. Below it, merging them into the
/// states of the lazily built automaton makes one look-up serve many; above it, copies would fill the cache and each
/// change would make tables anew.
const TRIGGER_TABLE_MIN: u32 = 1024;

/// Marks the home of a twig (the number of its item, which is never as large) that waits in the recent layer.
const RECENT: u32 = 1 << 31;

/// A place where a query is registered, for removing it again.
#[derive(Clone, Copy, Debug)]
pub enum Registration {
    /// An item of the automaton (see [`Nfa::insert_item`]).
    Item(Segment, u32, AcceptItem),
    /// A trigger, wherever it waits.
    Trigger(u32),
    /// A twig, wherever it waits.
    Twig(u32),
    /// Accesses of one path, wherever they wait.
    Access(u32),
    /// A place in the list of queries evaluated on each message.
    Always,
}

/// Queries that came while matching was going on are kept apart from the bulk: what the lazily built automaton has
/// learnt of the bulk then stays as it is, and what has to follow the change is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// The bulk. Changes only when matchers start afresh on it.
    Main,
    /// What came since.
    Recent,
}

/// The paths of one layer.
#[derive(Clone, Debug, Default)]
pub struct PathIndex {
    /// The automaton.
    pub nfa: Nfa,
    /// The keyed triggers at states where many wait.
    pub trigger_tables: FxHashMap<StateId, TriggerTable>,
    /// What waits for values at states, by the tests that lead to it.
    pub access_tables: FxHashMap<StateId, AccessTable>,
    /// How many entries of accesses wait as items at a state.
    waiting_accesses: FxHashMap<StateId, usize>,
    /// How many keyed triggers wait as items at a state.
    waiting: FxHashMap<StateId, u32>,
}

impl PathIndex {
    fn has_trigger_table(&self, state: StateId) -> bool {
        self.trigger_tables.contains_key(&state)
            || self.waiting.get(&state).is_some_and(|&count| count >= TRIGGER_TABLE_MIN)
    }

    fn uncount(&mut self, state: StateId) {
        if let Some(count) = self.waiting.get_mut(&state) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&state);
            }
        }
    }
}

/// The shared structures of all queries.
#[derive(Clone, Debug, Default)]
pub struct QueryIndex {
    /// The paths of the bulk.
    pub main: PathIndex,
    /// The paths of what came since.
    pub recent: PathIndex,
    /// Twigs by number.
    pub twigs: Slab<Twig>,
    /// Triggers by number.
    pub triggers: Slab<CompiledTrigger>,
    /// The distinct key values.
    pub atoms: Atoms,
    /// What the conditions of the bulk's twigs are made of.
    pub branches: Branches,
    /// The operands and conditions that accesses test and verify.
    pub shared: SharedConditions,
    accesses: Slab<RegisteredAccess>,
    /// Queries to evaluate on each message.
    pub always: Vec<u32>,
}

impl TriggerConditions for QueryIndex {
    fn keyed(&self, trigger: u32) -> Option<IndexedTrigger> {
        self.keyed_trigger(trigger, self.triggers.get(trigger)?)
    }

    fn insert_access(&self, access: u32, table: &mut AccessTable) {
        self.access_entries(access).for_each(|(test, entry)| table.insert(test, entry, &self.shared));
    }

    fn branching(&self, twig: u32) -> Option<IndexedTrigger> {
        let Twig { query, condition: TwigCondition::Branches(all), .. } = self.twigs.get(twig)? else { return None };
        let is_keyed = *query < packed::QUERIES_MAX && all.lead != 0;
        is_keyed.then(|| {
            let others = self.branches.rest(all);
            let also = others.last().copied().and_then(NonZeroU32::new);
            let waiting = Waiter { query: *query, also, below: None, trigger: (others.len() > 1).then_some(twig) };
            IndexedTrigger { key: all.lead, waiting }
        })
    }
}

impl QueryIndex {
    /// The paths of a layer.
    pub fn paths(&self, layer: Segment) -> &PathIndex {
        match layer {
            Segment::Main => &self.main,
            Segment::Recent => &self.recent,
        }
    }

    /// The automaton of a layer, for a plain path to be added.
    pub fn nfa_mut(&mut self, layer: Segment) -> &mut Nfa {
        &mut self.paths_mut(layer).nfa
    }

    fn paths_mut(&mut self, layer: Segment) -> &mut PathIndex {
        match layer {
            Segment::Main => &mut self.main,
            Segment::Recent => &mut self.recent,
        }
    }

    /// Register the routes of a query in a layer.
    pub fn insert(&mut self, query: u32, routes: Vec<Route>, layer: Segment) -> Vec<Registration> {
        routes.into_iter().map(|route| self.insert_route(query, route, layer)).collect()
    }

    fn insert_route(&mut self, query: u32, route: Route, layer: Segment) -> Registration {
        let item = match route.action {
            Action::Accept => AcceptItem::Accept(query),
            Action::Twig(condition) => {
                let number = self.insert_twig(query, condition, layer);
                self.settle_twig(number, &route.path, layer);
                return Registration::Twig(number);
            }
            Action::Trigger { key, verify } => {
                let key = self.acquire_key(&key);
                let trigger = self.trigger(query, key, verify);
                let number = self.triggers.insert(trigger);
                if layer == Segment::Main {
                    self.split_trigger(number);
                }
                self.settle(number, &route.path, layer);
                return Registration::Trigger(number);
            }
            Action::Access { entries, whole } => {
                return Registration::Access(self.insert_access(query, &route.path, &entries, whole, layer));
            }
            Action::Always => {
                self.always.push(query);
                return Registration::Always;
            }
        };
        self.insert_item(&route.path, item, layer)
    }

    fn insert_item(&mut self, path: &[LinearStep], item: AcceptItem, layer: Segment) -> Registration {
        let nfa = &mut self.paths_mut(layer).nfa;
        let state = nfa.state_of(path);
        Registration::Item(layer, nfa.insert_item(state, item), item)
    }

    /// Let a twig wait where a path accepts.
    fn settle_twig(&mut self, number: u32, path: &[LinearStep], layer: Segment) {
        let nfa = &mut self.paths_mut(layer).nfa;
        let state = nfa.state_of(path);
        let item = nfa.insert_item(state, AcceptItem::Twig(number));
        if let Some(twig) = self.twigs.get_mut(number) {
            twig.home = item | if layer == Segment::Recent { RECENT } else { 0 };
        }
    }

    /// Where a twig waits: layer and item.
    fn home_of_twig(&self, number: u32) -> Option<(Segment, u32)> {
        let home = self.twigs.get(number)?.home;
        Some((if home & RECENT == 0 { Segment::Main } else { Segment::Recent }, home & !RECENT))
    }

    /// Let a trigger wait where a path accepts.
    fn settle(&mut self, number: u32, path: &[LinearStep], layer: Segment) {
        let is_keyed = self.triggers.get(number).is_some_and(CompiledTrigger::is_keyed);
        // A crowd's table is looked up afresh each time, so joining one disturbs nothing that was learnt.
        let joins_bulk = is_keyed
            && layer == Segment::Recent
            && self.main.nfa.find(path).is_some_and(|state| self.main.trigger_tables.contains_key(&state));
        let layer = if joins_bulk { Segment::Main } else { layer };
        let state = self.paths_mut(layer).nfa.state_of(path);
        if is_keyed && self.paths(layer).has_trigger_table(state) {
            self.join_trigger_table(number, layer, state);
            return;
        }
        let paths = self.paths_mut(layer);
        let item = paths.nfa.insert_item(state, AcceptItem::Trigger(number));
        if is_keyed {
            *paths.waiting.entry(state).or_default() += 1;
        }
        self.set_home(number, TriggerHome::Item(layer, item));
    }

    fn set_home(&mut self, number: u32, home: TriggerHome) {
        if let Some(trigger) = self.triggers.get_mut(number) {
            trigger.home = home;
        }
    }

    fn join_trigger_table(&mut self, number: u32, layer: Segment, state: StateId) {
        if !self.paths(layer).trigger_tables.contains_key(&state) {
            self.build_trigger_table(layer, state);
        }
        self.set_home(number, TriggerHome::TriggerTable(layer, state));
        let entry = self.triggers.get(number).and_then(|trigger| self.keyed_trigger(number, trigger));
        let paths = self.paths_mut(layer);
        paths.nfa.attach(state);
        if let (Some(entry), Some(table)) = (entry, paths.trigger_tables.get_mut(&state)) {
            table.insert(entry);
        }
    }

    /// Make a table for a state and move the keyed triggers that wait there as items into it.
    fn build_trigger_table(&mut self, layer: Segment, state: StateId) {
        let paths = self.paths_mut(layer);
        paths.trigger_tables.insert(state, TriggerTable::default());
        paths.waiting.remove(&state);
        let waiting: Vec<u32> = self
            .paths(layer)
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
            // The new home first: a state without any use would be taken out.
            self.join_trigger_table(number, layer, state);
            self.paths_mut(layer).nfa.remove(item);
        }
    }

    /// Take a trigger away from where it waits; the path that it waited on.
    fn unsettle(&mut self, number: u32) -> Option<Vec<LinearStep>> {
        let trigger = self.triggers.get(number)?;
        let is_keyed = trigger.is_keyed();
        let home = trigger.home;
        let entry = self.keyed_trigger(number, trigger);
        self.set_home(number, TriggerHome::Unregistered);
        match home {
            TriggerHome::Unregistered => None,
            TriggerHome::Item(layer, item) => {
                let paths = self.paths_mut(layer);
                let state = paths.nfa.state_of_item(item);
                let path = paths.nfa.path_of(state);
                if is_keyed {
                    paths.uncount(state);
                }
                paths.nfa.remove(item);
                Some(path)
            }
            TriggerHome::TriggerTable(layer, state) => {
                let paths = self.paths_mut(layer);
                let path = paths.nfa.path_of(state);
                if let (Some(entry), Some(table)) = (entry, paths.trigger_tables.get_mut(&state)) {
                    table.remove(entry);
                    if table.is_empty() {
                        paths.trigger_tables.remove(&state);
                    }
                }
                paths.nfa.detach(state);
                Some(path)
            }
        }
    }

    fn remove_trigger(&mut self, number: u32) {
        self.unsettle(number);
        self.release_trigger(number);
    }

    /// Can a registration be undone without disturbing what matchers have learnt of the bulk, and of the plain paths that
    /// came since, where they follow what is added but not what goes?
    pub fn is_loose(&self, registration: Registration) -> bool {
        match registration {
            Registration::Always => true,
            Registration::Item(..) => false,
            Registration::Twig(number) => self.home_of_twig(number).is_none_or(|(layer, _)| layer == Segment::Recent),
            Registration::Access(number) => self.segment_of_access(number) != Some(Segment::Main),
            Registration::Trigger(number) => self.triggers.get(number).is_none_or(|trigger| {
                !matches!(
                    trigger.home,
                    TriggerHome::Item(Segment::Main, _) | TriggerHome::TriggerTable(Segment::Main, _)
                )
            }),
        }
    }

    /// Move a registration of the recent layer into the bulk.
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
                    |trigger: &CompiledTrigger| trigger.rest.as_ref().is_some_and(|rest| !rest.shapes.is_empty());
                // One that has joined a crowd of the bulk is there already, but maybe not as it would be had it come first.
                if (self.is_loose(registration) || self.triggers.get(number).is_some_and(asks_structure))
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

    fn insert_twig(&mut self, query: u32, condition: Expr, layer: Segment) -> u32 {
        let branches = if layer == Segment::Main { self.branches.acquire(&condition) } else { None };
        let condition = match branches {
            Some(all) => TwigCondition::Branches(all),
            None => {
                let required = RequiredNames::of(&condition);
                TwigCondition::Expr(Box::new((condition, required)))
            }
        };
        self.twigs.insert(Twig { query, home: 0, condition })
    }

    /// Make a twig's condition one of branches, where it can be. Only for the bulk: matchers that know what holds at a
    /// shape would not know it of new branches.
    fn split_twig(&mut self, twig: u32) {
        let Some(Twig { condition, .. }) = self.twigs.get_mut(twig) else { return };
        if let TwigCondition::Expr(evaluated) = condition
            && let Some(all) = self.branches.acquire(&evaluated.0)
        {
            *condition = TwigCondition::Branches(all);
        }
    }

    fn remove_twig(&mut self, twig: u32) {
        if let Some((layer, item)) = self.home_of_twig(twig) {
            self.paths_mut(layer).nfa.remove(item);
        }
        if let Some(Twig { condition: TwigCondition::Branches(all), .. }) = self.twigs.remove(twig) {
            self.branches.release(all);
        }
    }

    /// Undo [`Self::insert`].
    pub fn remove(&mut self, query: u32, registrations: &[Registration]) {
        for &registration in registrations {
            match registration {
                Registration::Always => self.always.retain(|&entry| entry != query),
                Registration::Trigger(trigger) => self.remove_trigger(trigger),
                Registration::Twig(twig) => self.remove_twig(twig),
                Registration::Access(number) => self.remove_access(number),
                Registration::Item(layer, number, _) => self.paths_mut(layer).nfa.remove(number),
            }
        }
    }
}
