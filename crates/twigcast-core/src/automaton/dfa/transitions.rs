//! A table of transitions. One memory access finds most of them.

use crate::ids::TableId;
use crate::vocabulary::Name;

#[derive(Clone, Copy, Debug)]
struct Transition<Id, To> {
    /// The state that the transition leaves; [`TableId::ABSENT`]: the entry is vacant.
    from: Id,
    name: Name,
    to: To,
}

const CAPACITY_MIN: usize = 64;

/// A hash table of transitions with open addressing, at most half full.
#[derive(Debug)]
pub(crate) struct Transitions<Id, To> {
    /// Either none, or a power of two of them.
    entries: Vec<Transition<Id, To>>,
    count: usize,
}

impl<Id, To> Default for Transitions<Id, To> {
    fn default() -> Self {
        Self { entries: Vec::new(), count: 0 }
    }
}

impl<Id: TableId, To: Copy> Transitions<Id, To> {
    /// Bytes that one more transition takes.
    pub(crate) const BYTES: usize = 2 * size_of::<Transition<Id, To>>();

    #[inline]
    pub(crate) fn get(&self, from: Id, name: Name) -> Option<To> {
        let mask = self.entries.len().wrapping_sub(1);
        let mut index = hash(from, name) & mask;
        loop {
            let entry = self.entries.get(index)?;
            if entry.from == from && entry.name == name {
                return Some(entry.to);
            }
            if entry.from == Id::ABSENT {
                return None;
            }
            index = (index + 1) & mask;
        }
    }

    /// Adds a transition that is not there.
    pub(crate) fn insert(&mut self, from: Id, name: Name, to: To) {
        if self.count * 2 >= self.entries.len() {
            let vacant = Transition { from: Id::ABSENT, name: Name::UNKNOWN, to };
            let capacity = (self.entries.len() * 2).max(CAPACITY_MIN);
            let before = std::mem::replace(&mut self.entries, vec![vacant; capacity]);
            before.into_iter().filter(|entry| entry.from != Id::ABSENT).for_each(|entry| self.put(entry));
        }
        self.put(Transition { from, name, to });
        self.count += 1;
    }

    /// Changes where a transition leads, if it is there.
    pub(crate) fn set(&mut self, from: Id, name: Name, to: To) {
        let mask = self.entries.len().wrapping_sub(1);
        let mut index = hash(from, name) & mask;
        while let Some(entry) = self.entries.get_mut(index).filter(|entry| entry.from != Id::ABSENT) {
            if entry.from == from && entry.name == name {
                entry.to = to;
                return;
            }
            index = (index + 1) & mask;
        }
    }

    /// Returns all transitions: the index of each, which stays until one is added, its state, name and target.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Id, Name, To)> {
        let all = self.entries.iter().enumerate().filter(|(_, entry)| entry.from != Id::ABSENT);
        all.map(|(index, entry)| (index, entry.from, entry.name, entry.to))
    }

    /// Changes where the transition at an index leads.
    pub(crate) fn set_at(&mut self, index: usize, to: To) {
        self.entries[index].to = to;
    }

    fn put(&mut self, transition: Transition<Id, To>) {
        let mask = self.entries.len() - 1;
        let mut index = hash(transition.from, transition.name) & mask;
        while self.entries[index].from != Id::ABSENT {
            index = (index + 1) & mask;
        }
        self.entries[index] = transition;
    }

    pub(crate) fn clear(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.from = Id::ABSENT);
        self.count = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

#[inline]
fn hash<Id: TableId>(from: Id, name: Name) -> usize {
    let name = u64::from(name.namespace.as_u32()) << 40 ^ u64::from(name.local.as_u32());
    let mixed = (u64::from(from.as_u32()) << 20 ^ name).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{DfaId, LocalId, NamespaceId};

    #[test]
    fn every_transition_is_found_again() {
        let name =
            |number: u32| Name { namespace: NamespaceId::from_u32(number % 3), local: LocalId::from_u32(number) };
        let id = DfaId::from_u32;
        let mut table: Transitions<DfaId, u32> = Transitions::default();
        assert_eq!(table.get(id(0), name(1)), None);
        for round in 0..2 {
            for from in 0..50 {
                (0..40).for_each(|number| table.insert(id(from), name(number), from * 40 + number + round));
            }
            assert_eq!((table.get(id(7), name(39)), table.get(id(7), name(40))), (Some(7 * 40 + 39 + round), None));
            assert_eq!(table.len(), 2_000);
            table.set(id(7), name(39), 5);
            table.set(id(7), name(40), 6);
            assert_eq!((table.get(id(7), name(39)), table.get(id(7), name(40))), (Some(5), None));
            table.set(id(7), name(39), 7 * 40 + 39 + round);
            assert!((0..50).all(|from| (0..40).all(|n| table.get(id(from), name(n)) == Some(from * 40 + n + round))));
            table.clear();
            assert_eq!((table.get(id(7), name(39)), table.len()), (None, 0));
        }
    }
}
