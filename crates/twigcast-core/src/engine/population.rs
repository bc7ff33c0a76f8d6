//! The compiled queries: automaton, twigs, triggers, atoms.

use crate::automaton::dfa::TriggerKeys;
use crate::automaton::nfa::{Change, Item, Nfa};
use crate::plan::{Action, Distance, Key, Route, StepCheck, Verify};
use crate::predicate::atoms::Atoms;
use crate::predicate::table::{self, AtomId, KeyedTrigger, Waiting};
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
}

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
    /// An item of the automaton (see [`Nfa::insert`]).
    Item(u32, Item),
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
        let entry = self.triggers.get(trigger)?;
        let (distance, atom) = entry.key?;
        let key = if self.atoms.is_content(atom) { table::pack_content(atom) } else { table::pack(distance, atom) };
        let remains = match &entry.verify {
            Remaining::Exact { also, shapes } => !also.is_empty() || !shapes.is_empty(),
            Remaining::Upward(_) | Remaining::Whole => true,
        };
        let trigger = if remains { trigger } else { Waiting::SATISFIED };
        Some(KeyedTrigger { key, waiting: Waiting { query: entry.query, trigger } })
    }
}

impl Population {
    /// Register the routes of a query.
    pub fn insert(&mut self, query: u32, routes: Vec<Route>, changes: &mut Vec<Change>) -> Vec<Registration> {
        routes.into_iter().map(|route| self.insert_route(query, route, changes)).collect()
    }

    fn insert_route(&mut self, query: u32, route: Route, changes: &mut Vec<Change>) -> Registration {
        let item = match route.action {
            Action::Accept => Item::Accept(query),
            Action::Twig(condition) => Item::Twig(self.insert_twig(query, condition)),
            Action::Trigger { key, verify } => {
                let key = key.map(|key| self.acquire_key(&key));
                let verify = self.remaining(verify);
                Item::Trigger(self.triggers.insert(Trigger { query, key, verify }))
            }
            Action::Always => {
                self.always.push(query);
                return Registration::Always;
            }
        };
        Registration::Item(self.nfa.insert(&route.path, item, changes), item)
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

    fn remove_trigger(&mut self, number: u32) {
        let Some(trigger) = self.triggers.remove(number) else { return };
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

    fn insert_twig(&mut self, query: u32, condition: Expr) -> u32 {
        let required = Required::of(&condition);
        self.twigs.insert(Twig { query, condition, required })
    }

    /// Undo [`Self::insert`].
    pub fn remove(&mut self, query: u32, registrations: &[Registration], changes: &mut Vec<Change>) {
        for &registration in registrations {
            match registration {
                Registration::Always => self.always.retain(|&entry| entry != query),
                Registration::Item(number, item) => {
                    self.nfa.remove(number, changes);
                    match item {
                        Item::Accept(_) => {}
                        Item::Twig(twig) => {
                            self.twigs.remove(twig);
                        }
                        Item::Trigger(trigger) => self.remove_trigger(trigger),
                    }
                }
            }
        }
    }
}
