//! Triggers: registering the tests that remain where a path accepts.

use std::num::NonZeroU32;

use super::QueryIndex;
use super::registrations::{CompiledTrigger, RemainingTests, TriggerHome};
use crate::ids::{AtomId, BranchId, ConditionId, TriggerId};
use crate::plan::{Access, Action, ConditionValue, Distance, Route, ValueCondition, ValueTest, Verify};
use crate::predicate::packed::{self, PackedCondition};
use crate::predicate::waiters::{IndexedTrigger, Waiter};
use crate::query::ast::NameTest;

/// Accesses wait as triggers as long as there is at most one for so many triggers.
const TRIGGERS_FOR_ACCESS: usize = 16;

/// The part of messages that are expected to have a key of which no message has shown anything.
const ASSUMED_OF_KEY: f32 = 0.05;

impl QueryIndex {
    /// Returns the packed value condition of a trigger and its waiter; `None` if it is not looked up.
    pub(super) fn keyed_trigger(&self, trigger: TriggerId, entry: &CompiledTrigger) -> Option<IndexedTrigger> {
        if !entry.is_keyed() {
            return None;
        }
        let (distance, atom) = entry.key;
        let key = self.pack(distance, atom);
        let also = entry.also.filter(|&(_, atom)| atom < packed::ATOMS_MAX);
        let also = also.and_then(|(distance, atom)| NonZeroU32::new(self.pack(distance, atom)));
        let remains = entry.rest.is_some() || also.is_some() != entry.also.is_some();
        let &CompiledTrigger { query, below, .. } = entry;
        Some(IndexedTrigger {
            condition: key,
            waiting: Waiter { query, also, below, trigger: remains.then_some(trigger.as_u32()) },
        })
    }

    fn pack(&self, distance: Distance, atom: AtomId) -> PackedCondition {
        if self.atoms.is_content(atom) { packed::pack_content(atom) } else { packed::pack(distance, atom) }
    }

    /// Returns the atom of a value condition, counting one more use.
    pub(super) fn acquire_key(&mut self, key: &ValueCondition) -> (Distance, AtomId) {
        (key.distance, self.atoms.acquire(&key.value))
    }

    /// Compiles a trigger, which waits nowhere yet.
    pub(super) fn trigger(&mut self, query: u32, mut key: (Distance, AtomId), verify: Verify) -> CompiledTrigger {
        let mut also: Vec<_> = verify.also.iter().map(|key| self.acquire_key(key)).collect();
        self.put_rarest_first(&mut key, &mut also);
        let mut also = also.into_iter();
        let first = also.next();
        let also = also.collect();
        let structures = verify
            .structures
            .iter()
            .map(|(distance, expr)| (*distance, self.shared.structures.acquire(expr)))
            .collect();
        let (below, residual) = (Box::default(), ConditionId::NONE);
        let rest = RemainingTests { also, below, structures, residual, whole: verify.whole };
        let rest = (!rest.is_empty()).then(|| Box::new(rest));
        CompiledTrigger { query, key, also: first, below: BranchId::NONE, rest, home: TriggerHome::Unregistered }
    }

    /// Returns the key under which an access may wait as a trigger; `None` if it has to wait by its test.
    ///
    /// If nearly all queries are decided by triggers, the values of each element are looked up anyway, and a few
    /// accesses more cost nothing. If there are many accesses, tables of their own are better, which verify shared
    /// conditions once.
    pub(super) fn key_of_access(&self, entries: &[Access]) -> Option<ConditionValue> {
        let [Access { test: Some(test), residual: Some(_) }] = entries else { return None };
        let waiting = self.accesses.len() + self.accesses_as_triggers;
        (waiting < self.triggers.len() / TRIGGERS_FOR_ACCESS).then(|| test.as_key())?
    }

    /// Compiles a trigger of an access, which waits nowhere yet.
    pub(super) fn trigger_of_access(
        &mut self,
        query: u32,
        key: &ConditionValue,
        access: &Access,
        whole: bool,
    ) -> CompiledTrigger {
        self.accesses_as_triggers += 1;
        let key = (Distance::Up(0), self.atoms.acquire(key));
        self.shared.begin_query(query);
        let residual = access.residual.as_ref().map_or(ConditionId::NONE, |residual| self.shared.acquire(residual));
        self.excluding_accesses += usize::from(self.shared.excludes(residual));
        let (also, below, structures) = (Box::default(), Box::default(), Box::default());
        let rest = Some(Box::new(RemainingTests { also, below, structures, residual, whole }));
        CompiledTrigger { query, key, also: None, below: BranchId::NONE, rest, home: TriggerHome::Unregistered }
    }

    /// Returns the access that a trigger was made of, without its residual; `None` for a trigger of another origin.
    pub(super) fn access_of_trigger(&self, number: TriggerId) -> Option<Route> {
        let trigger = self.triggers.get(number)?;
        let rest = trigger.rest.as_ref().filter(|rest| rest.residual != ConditionId::NONE)?;
        let (segment, state) = match trigger.home {
            TriggerHome::Item(segment, item) => (segment, self.paths(segment).nfa.state_of_item(item)),
            TriggerHome::TriggerTable(segment, state) => (segment, state),
            TriggerHome::Unregistered => return None,
        };
        let test = self.atoms.value(trigger.key.1).and_then(ValueTest::of_key);
        let action = Action::Access { entries: vec![Access { test, residual: None }], whole: rest.whole };
        Some(Route { path: self.paths(segment).nfa.path_of(state), action })
    }

    /// Puts the value condition of the element itself first that the fewest triggers have.
    fn put_rarest_first(&self, key: &mut (Distance, AtomId), also: &mut [(Distance, AtomId)]) {
        let uses = |&(distance, atom): &(Distance, AtomId)| {
            self.atoms.uses_of_value(atom).filter(|_| distance == Distance::Up(0))
        };
        let Some(mut fewest) = uses(key) else { return };
        for other in also {
            if let Some(fewer) = uses(other).filter(|&uses| uses < fewest) {
                std::mem::swap(key, other);
                fewest = fewer;
            }
        }
    }

    /// Returns a trigger as a route, of which only the first value condition is left.
    pub(super) fn trigger_route(&self, number: TriggerId) -> Option<Route> {
        let trigger = self.triggers.get(number)?;
        let (segment, state) = match trigger.home {
            TriggerHome::Item(segment, item) => (segment, self.paths(segment).nfa.state_of_item(item)),
            TriggerHome::TriggerTable(segment, state) => (segment, state),
            TriggerHome::Unregistered => return None,
        };
        let (distance, atom) = trigger.key;
        let key = ValueCondition { distance, value: self.atoms.value(atom)?.clone() };
        let verify = Verify { whole: trigger.asks_whole(), ..Verify::default() };
        Some(Route { path: self.paths(segment).nfa.path_of(state), action: Action::Trigger { key, verify } })
    }

    /// Returns whether there are triggers for which messages may show something better than their key: those that exclude
    /// values.
    pub fn has_learning_triggers(&self) -> bool {
        self.atoms.has_negations() || self.excluding_accesses > 0
    }

    /// Returns the queries of these triggers, each with how often messages are expected to have the key.
    pub fn learning_triggers(&self) -> Vec<(u32, f32)> {
        let excludes = |atom: AtomId| matches!(self.atoms.value(atom), Some(ConditionValue::Not(_)));
        let learning = self.triggers.slots().flatten().filter(|trigger| {
            let rest = trigger.rest.iter().flat_map(|rest| &rest.also);
            let is_excluding_access = trigger.rest.as_ref().is_some_and(|rest| self.shared.excludes(rest.residual));
            is_excluding_access || trigger.also.iter().chain(rest).any(|&(_, atom)| excludes(atom))
        });
        let expected = learning.filter_map(|trigger| {
            let key = ValueTest::of_key(self.atoms.value(trigger.key.1)?)?;
            let part = self.samples.expected(NameTest::Any, &key, ASSUMED_OF_KEY);
            Some((trigger.query, part / (1.0 - part).max(f32::EPSILON)))
        });
        expected.collect()
    }

    /// Splits the structural conditions of a trigger's element into branches, if possible. Only for the main segment; see
    /// [`Self::split_twig`].
    pub(super) fn split_trigger(&mut self, number: TriggerId) {
        let Self { triggers, shared, branches, .. } = self;
        let conditions = &mut shared.structures;
        let Some(trigger) = triggers.get_mut(number) else { return };
        let Some(rest) = trigger.rest.as_deref_mut() else { return };
        let (mut kept, mut below) = (Vec::new(), rest.below.to_vec());
        for &(distance, id) in &rest.structures {
            let expr = conditions.get(id).filter(|_| distance == Distance::Up(0)).map(|condition| &condition.expr);
            match expr.and_then(|expr| branches.acquire(expr)) {
                Some(all) => {
                    branches.unpack(all, &mut below);
                    conditions.release(id);
                }
                None => kept.push((distance, id)),
            }
        }
        if kept.len() == rest.structures.len() {
            return;
        }
        // The branch with the largest id is likely to be the rarest.
        below.extend((trigger.below != BranchId::NONE).then_some(trigger.below));
        below.sort_unstable();
        trigger.below = below.pop().unwrap_or(BranchId::NONE);
        (rest.structures, rest.below) = (kept.into(), below.into());
        if rest.is_empty() {
            trigger.rest = None;
        }
    }

    /// Removes a trigger that waits nowhere any more, and ends its uses.
    pub(super) fn release_trigger(&mut self, number: TriggerId) {
        let Some(trigger) = self.triggers.remove(number) else { return };
        self.atoms.release(trigger.key.1);
        if let Some((_, atom)) = trigger.also {
            self.atoms.release(atom);
        }
        if trigger.below != BranchId::NONE {
            self.branches.release_one(trigger.below);
        }
        if let Some(rest) = trigger.rest {
            rest.also.iter().for_each(|&(_, atom)| self.atoms.release(atom));
            rest.below.iter().for_each(|&branch| self.branches.release_one(branch));
            rest.structures.iter().for_each(|&(_, condition)| self.shared.structures.release(condition));
            self.accesses_as_triggers -= usize::from(rest.residual != ConditionId::NONE);
            self.excluding_accesses -= usize::from(self.shared.excludes(rest.residual));
            self.shared.begin_query(trigger.query);
            self.shared.release(rest.residual);
        }
    }
}
