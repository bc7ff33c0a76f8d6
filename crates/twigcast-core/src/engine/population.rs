//! The compiled queries: automaton, twigs, triggers, atoms.

use std::num::NonZeroU64;

use rustc_hash::FxHashMap;

use crate::automaton::dfa::TriggerKeys;
use crate::automaton::nfa::{Change, Item, Nfa, StateId};
use crate::plan::{Action, Distance, Key, LinearStep, Route, StepCheck, Verify};
use crate::predicate::atoms::Atoms;
use crate::predicate::table::{self, AtomId, KeyTable, KeyedTrigger, Waiting};
use crate::query::ast::Expr;
use crate::twig::conditions::{ConditionId, Conditions};
use crate::twig::{Required, Twig};

/// A trigger: what remains to be tested where its path accepts.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// The query.
    pub query: u32,
    /// Where a value is tested first, and for which atom.
    pub key: Option<(Distance, AtomId)>,
    /// What remains.
    pub verify: Remaining,
    home: Home,
}

/// Where a trigger waits.
#[derive(Clone, Copy, Debug)]
enum Home {
    /// As an item of the automaton, by the item's number: each state of the lazily built automaton merges it.
    Item(u32),
    /// In the table of an automaton's state where many wait (see [`Population::crowded`]).
    Crowd(StateId),
}

/// Keyed triggers at one automaton state from which on they get a table of their own. Below it, merging them into the
/// states of the lazily built automaton makes one look-up serve many; above it, copies would fill the cache and each
/// change would make tables anew.
const CROWD: u32 = 1024;

/// [`Verify`] with its keys and conditions as numbers.
#[derive(Clone, Debug)]
pub enum Remaining {
    /// Look-ups.
    Exact {
        /// Further atoms, each at a known distance.
        also: Box<[(Distance, AtomId)]>,
        /// Conditions on structure, each at a known distance.
        shapes: Box<[(Distance, ConditionId)]>,
    },
    /// See [`Verify::Upward`].
    Upward(Box<[StepCheck]>),
    /// See [`Verify::Whole`].
    Whole,
}

/// A table with holes: entries keep their number while others come and go.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Add an entry; its number.
    pub fn insert(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = Some(entry);
                id
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() as u32 - 1
            }
        }
    }

    /// Take an entry out.
    pub fn remove(&mut self, id: u32) -> Option<T> {
        let entry = self.entries.get_mut(id as usize)?.take();
        if entry.is_some() {
            self.free.push(id);
        }
        entry
    }

    /// Look at an entry.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&T> {
        self.entries.get(id as usize)?.as_ref()
    }

    /// Change an entry.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.entries.get_mut(id as usize)?.as_mut()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// No entry?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A place where a query is registered, for removing it again.
#[derive(Clone, Copy, Debug)]
pub enum Registration {
    /// An item of the automaton (see [`Nfa::insert_item`]).
    Item(u32, Item),
    /// A trigger, wherever it waits.
    Trigger(u32),
    /// A place in the list of queries evaluated on each message.
    Always,
}

/// The shared structures of all queries.
#[derive(Clone, Debug, Default)]
pub struct Population {
    /// The automaton of all routes' paths.
    pub nfa: Nfa,
    /// Twigs by number.
    pub twigs: Slab<Twig>,
    /// Triggers by number.
    pub triggers: Slab<Trigger>,
    /// The keyed triggers at states where many wait.
    pub crowded: FxHashMap<StateId, KeyTable>,
    /// How many keyed triggers wait as items at a state.
    waiting: FxHashMap<StateId, u32>,
    /// The distinct key values.
    pub atoms: Atoms,
    /// The distinct structural conditions of triggers.
    pub conditions: Conditions,
    /// Grows whenever the number of a condition may have come to mean another.
    pub conditions_version: u64,
    /// Queries to evaluate on each message.
    pub always: Vec<u32>,
}

impl TriggerKeys for Population {
    fn keyed(&self, trigger: u32) -> Option<KeyedTrigger> {
        self.keyed_trigger(trigger, self.triggers.get(trigger)?)
    }
}

impl Population {
    fn keyed_trigger(&self, trigger: u32, entry: &Trigger) -> Option<KeyedTrigger> {
        let (distance, atom) = entry.key?;
        let key = self.pack(distance, atom);
        let (also, remains) = match &entry.verify {
            Remaining::Exact { also, shapes } => {
                let first = also.first().and_then(|&(distance, atom)| NonZeroU64::new(self.pack(distance, atom)));
                (first, also.len() > 1 || !shapes.is_empty())
            }
            Remaining::Upward(_) | Remaining::Whole => (None, true),
        };
        let trigger = if remains { trigger } else { Waiting::SATISFIED };
        Some(KeyedTrigger { key, waiting: Waiting { query: entry.query, also, trigger } })
    }

    fn pack(&self, distance: Distance, atom: AtomId) -> u64 {
        if self.atoms.is_content(atom) { table::pack_content(atom) } else { table::pack(distance, atom) }
    }

    /// Register the routes of a query.
    pub fn insert(&mut self, query: u32, routes: Vec<Route>, changes: &mut Vec<Change>) -> Vec<Registration> {
        routes.into_iter().map(|route| self.insert_route(query, route, changes)).collect()
    }

    fn insert_route(&mut self, query: u32, route: Route, changes: &mut Vec<Change>) -> Registration {
        let item = match route.action {
            Action::Accept => Item::Accept(query),
            Action::Twig(condition) => Item::Twig(self.insert_twig(query, condition)),
            Action::Trigger { key, verify } => {
                return Registration::Trigger(self.insert_trigger(query, &route.path, key, verify, changes));
            }
            Action::Always => {
                self.always.push(query);
                return Registration::Always;
            }
        };
        let state = self.nfa.state_of(&route.path, changes);
        Registration::Item(self.nfa.insert_item(state, item, changes), item)
    }

    fn insert_trigger(
        &mut self,
        query: u32,
        path: &[LinearStep],
        key: Option<Key>,
        verify: Verify,
        changes: &mut Vec<Change>,
    ) -> u32 {
        let key = key.map(|key| self.acquire_key(&key));
        let verify = self.remaining(verify);
        let state = self.nfa.state_of(path, changes);
        let is_keyed = key.is_some();
        let number = self.triggers.insert(Trigger { query, key, verify, home: Home::Crowd(state) });
        if is_keyed && (self.crowded.contains_key(&state) || self.waiting.get(&state).is_some_and(|&n| n >= CROWD)) {
            self.join_crowd(number, state, changes);
        } else {
            let item = self.nfa.insert_item(state, Item::Trigger(number), changes);
            self.set_home(number, Home::Item(item));
            if is_keyed {
                *self.waiting.entry(state).or_default() += 1;
            }
        }
        number
    }

    fn set_home(&mut self, number: u32, home: Home) {
        if let Some(trigger) = self.triggers.get_mut(number) {
            trigger.home = home;
        }
    }

    fn join_crowd(&mut self, number: u32, state: StateId, changes: &mut Vec<Change>) {
        if !self.crowded.contains_key(&state) {
            self.gather_crowd(state, changes);
        }
        self.nfa.attach(state, changes);
        let entry = self.triggers.get(number).and_then(|trigger| self.keyed_trigger(number, trigger));
        if let (Some(entry), Some(table)) = (entry, self.crowded.get_mut(&state)) {
            table.insert(entry);
        }
    }

    /// Make a table for a state and move the keyed triggers that wait there as items into it.
    fn gather_crowd(&mut self, state: StateId, changes: &mut Vec<Change>) {
        self.crowded.insert(state, KeyTable::default());
        self.waiting.remove(&state);
        let waiting: Vec<u32> = self
            .nfa
            .items(state)
            .filter_map(|item| match item {
                Item::Trigger(number) if self.triggers.get(number).is_some_and(|t| t.key.is_some()) => Some(number),
                _ => None,
            })
            .collect();
        for number in waiting {
            let Some(Home::Item(item)) = self.triggers.get(number).map(|trigger| trigger.home) else { continue };
            // The new home first: a state without any use would be taken out.
            self.set_home(number, Home::Crowd(state));
            self.join_crowd(number, state, changes);
            self.nfa.remove(item, changes);
        }
    }

    fn acquire_key(&mut self, key: &Key) -> (Distance, AtomId) {
        (key.distance, self.atoms.acquire(&key.value))
    }

    fn remaining(&mut self, verify: Verify) -> Remaining {
        match verify {
            Verify::Exact { also, shapes } => Remaining::Exact {
                also: also.iter().map(|key| self.acquire_key(key)).collect(),
                shapes: shapes.iter().map(|(distance, expr)| (*distance, self.conditions.acquire(expr))).collect(),
            },
            Verify::Upward(checks) => Remaining::Upward(checks.into()),
            Verify::Whole => Remaining::Whole,
        }
    }

    fn remove_trigger(&mut self, number: u32, changes: &mut Vec<Change>) {
        let Some(trigger) = self.triggers.remove(number) else { return };
        match trigger.home {
            Home::Item(item) => {
                let state = self.nfa.state_of_item(item);
                self.nfa.remove(item, changes);
                if trigger.key.is_some() {
                    self.uncount(state);
                }
            }
            Home::Crowd(state) => {
                let entry = self.keyed_trigger(number, &trigger);
                if let (Some(entry), Some(table)) = (entry, self.crowded.get_mut(&state)) {
                    table.remove(entry);
                    if table.is_empty() {
                        self.crowded.remove(&state);
                    }
                }
                self.nfa.detach(state);
            }
        }
        if let Some((_, atom)) = trigger.key {
            self.atoms.release(atom);
        }
        if let Remaining::Exact { also, shapes } = trigger.verify {
            also.iter().for_each(|&(_, atom)| self.atoms.release(atom));
            for &(_, condition) in &shapes {
                self.conditions_version += u64::from(self.conditions.release(condition));
            }
        }
    }

    fn uncount(&mut self, state: StateId) {
        if let Some(count) = self.waiting.get_mut(&state) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&state);
            }
        }
    }

    fn insert_twig(&mut self, query: u32, condition: Expr) -> u32 {
        let required = Required::of(&condition);
        self.twigs.insert(Twig { query, condition, required })
    }

    /// Undo [`Self::insert`].
    pub fn remove(&mut self, query: u32, registrations: &[Registration], changes: &mut Vec<Change>) {
        for &registration in registrations {
            match registration {
                Registration::Always => self.always.retain(|&entry| entry != query),
                Registration::Trigger(trigger) => self.remove_trigger(trigger, changes),
                Registration::Item(number, item) => {
                    self.nfa.remove(number, changes);
                    if let Item::Twig(twig) = item {
                        self.twigs.remove(twig);
                    }
                }
            }
        }
    }
}
