//! The transitions known so far: one look at one place in memory tells most of them.

use super::DfaId;
use crate::vocabulary::Name;

#[derive(Clone, Copy, Debug)]
struct Transition {
    from: DfaId,
    name: Name,
    to: DfaId,
}

/// In place of a state: no transition here.
const VACANT: DfaId = DfaId::MAX;
const SIZE_MIN: usize = 64;

/// A hash table with open addressing, at most half full.
#[derive(Debug, Default)]
pub(crate) struct Transitions {
    /// A power of two of them, or none.
    slots: Vec<Transition>,
    count: usize,
}

impl Transitions {
    /// Bytes that one more takes.
    pub(crate) const BYTES: usize = 2 * size_of::<Transition>();

    #[inline]
    pub(crate) fn get(&self, from: DfaId, name: Name) -> Option<DfaId> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = hash(from, name) & mask;
        loop {
            let existing = self.slots.get(slot)?;
            if existing.from == from && existing.name == name {
                return Some(existing.to);
            }
            if existing.from == VACANT {
                return None;
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Add one that is not there.
    pub(crate) fn insert(&mut self, from: DfaId, name: Name, to: DfaId) {
        if self.count * 2 >= self.slots.len() {
            self.grow();
        }
        self.put(Transition { from, name, to });
        self.count += 1;
    }

    /// Change where one leads that is there.
    pub(crate) fn set(&mut self, from: DfaId, name: Name, to: DfaId) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = hash(from, name) & mask;
        while let Some(existing) = self.slots.get_mut(slot).filter(|existing| existing.from != VACANT) {
            if existing.from == from && existing.name == name {
                existing.to = to;
                return;
            }
            slot = (slot + 1) & mask;
        }
    }

    /// All of them: where each is kept until another one comes, where it comes from, its name, and where it leads.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, DfaId, Name, DfaId)> {
        let all = self.slots.iter().enumerate().filter(|(_, existing)| existing.from != VACANT);
        all.map(|(slot, existing)| (slot, existing.from, existing.name, existing.to))
    }

    /// Change where one leads, by where it is kept.
    pub(crate) fn set_at(&mut self, slot: usize, to: DfaId) {
        self.slots[slot].to = to;
    }

    fn put(&mut self, transition: Transition) {
        let mask = self.slots.len() - 1;
        let mut slot = hash(transition.from, transition.name) & mask;
        while self.slots[slot].from != VACANT {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = transition;
    }

    fn grow(&mut self) {
        let vacant = Transition { from: VACANT, name: Name::UNKNOWN, to: VACANT };
        let size = (self.slots.len() * 2).max(SIZE_MIN);
        let before = std::mem::replace(&mut self.slots, vec![vacant; size]);
        before.into_iter().filter(|existing| existing.from != VACANT).for_each(|existing| self.put(existing));
    }

    pub(crate) fn clear(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.from = VACANT);
        self.count = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

#[inline]
fn hash(from: DfaId, name: Name) -> usize {
    let name = u64::from(name.namespace.as_u32()) << 40 ^ u64::from(name.local.as_u32());
    let mixed = (u64::from(from) << 20 ^ name).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::{LocalId, NamespaceId};

    #[test]
    fn every_transition_is_found_again() {
        let name =
            |number: u32| Name { namespace: NamespaceId::from_u32(number % 3), local: LocalId::from_u32(number) };
        let mut table = Transitions::default();
        assert_eq!(table.get(0, name(1)), None);
        for round in 0..2 {
            for from in 0..50 {
                (0..40).for_each(|number| table.insert(from, name(number), from * 40 + number + round));
            }
            assert_eq!((table.get(7, name(39)), table.get(7, name(40))), (Some(7 * 40 + 39 + round), None));
            assert_eq!(table.len(), 2_000);
            table.set(7, name(39), 5);
            table.set(7, name(40), 6);
            assert_eq!((table.get(7, name(39)), table.get(7, name(40))), (Some(5), None));
            table.set(7, name(39), 7 * 40 + 39 + round);
            assert!((0..50).all(|from| (0..40).all(|n| table.get(from, name(n)) == Some(from * 40 + n + round))));
            table.clear();
            assert_eq!((table.get(7, name(39)), table.len()), (None, 0));
        }
    }
}
