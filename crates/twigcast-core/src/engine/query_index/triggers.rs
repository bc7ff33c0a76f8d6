//! Triggers: registering the tests that remain where a path accepts.

use std::num::NonZeroU32;

use super::QueryIndex;
use super::registrations::{CompiledTrigger, RemainingTests, TriggerHome};
use crate::plan::{Distance, ValueCondition, Verify};
use crate::predicate::packed::{self, AtomId, PackedCondition};
use crate::predicate::waiters::{IndexedTrigger, Waiter};

impl QueryIndex {
    /// Returns the packed value condition of a trigger and its waiter; `None` if it is not looked up.
    pub(super) fn keyed_trigger(&self, trigger: u32, entry: &CompiledTrigger) -> Option<IndexedTrigger> {
        if !entry.is_keyed() {
            return None;
        }
        let (distance, atom) = entry.key;
        let key = self.pack(distance, atom);
        let also = entry.also.filter(|&(_, atom)| atom < packed::ATOMS_MAX);
        let also = also.and_then(|(distance, atom)| NonZeroU32::new(self.pack(distance, atom)));
        let remains = entry.rest.is_some() || also.is_some() != entry.also.is_some();
        let (query, below) = (entry.query, NonZeroU32::new(entry.below));
        Some(IndexedTrigger { key, waiting: Waiter { query, also, below, trigger: remains.then_some(trigger) } })
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
        let shapes =
            verify.shapes.iter().map(|(distance, expr)| (*distance, self.shared.structures.acquire(expr))).collect();
        let rest = RemainingTests { also, below: Box::default(), shapes, whole: verify.whole };
        let rest = (!rest.is_empty()).then(|| Box::new(rest));
        CompiledTrigger { query, key, also: first, below: 0, rest, home: TriggerHome::Unregistered }
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

    /// Splits the structural conditions of a trigger's element into branches, if possible. Only for the main segment; see
    /// [`Self::split_twig`].
    pub(super) fn split_trigger(&mut self, number: u32) {
        let Self { triggers, shared, branches, .. } = self;
        let conditions = &mut shared.structures;
        let Some(trigger) = triggers.get_mut(number) else { return };
        let Some(rest) = trigger.rest.as_deref_mut() else { return };
        let (mut kept, mut below) = (Vec::new(), rest.below.to_vec());
        for &(distance, id) in &rest.shapes {
            let expr = conditions.get(id).filter(|_| distance == Distance::Up(0)).map(|condition| &condition.expr);
            match expr.and_then(|expr| branches.acquire(expr)) {
                Some(all) => {
                    branches.unpack(all, &mut below);
                    conditions.release(id);
                }
                None => kept.push((distance, id)),
            }
        }
        if kept.len() == rest.shapes.len() {
            return;
        }
        // The branch with the largest id is likely to be the rarest.
        below.extend((trigger.below != 0).then_some(trigger.below));
        below.sort_unstable();
        trigger.below = below.pop().unwrap_or(0);
        (rest.shapes, rest.below) = (kept.into(), below.into());
        if rest.is_empty() {
            trigger.rest = None;
        }
    }

    /// Removes a trigger that waits nowhere any more, and ends its uses.
    pub(super) fn release_trigger(&mut self, number: u32) {
        let Some(trigger) = self.triggers.remove(number) else { return };
        self.atoms.release(trigger.key.1);
        if let Some((_, atom)) = trigger.also {
            self.atoms.release(atom);
        }
        if trigger.below != 0 {
            self.branches.release_one(trigger.below);
        }
        if let Some(rest) = trigger.rest {
            rest.also.iter().for_each(|&(_, atom)| self.atoms.release(atom));
            rest.below.iter().for_each(|&branch| self.branches.release_one(branch));
            rest.shapes.iter().for_each(|&(_, condition)| self.shared.structures.release(condition));
        }
    }
}
