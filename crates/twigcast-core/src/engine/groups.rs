//! The groups of subscriptions: each has a share of what a message may cost.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::budget::GroupId;
use crate::ids::Slot;
use crate::util::chunked::Chunked;
use crate::util::cow_map::CowHashTable;

/// The group of all subscriptions that were given none.
const DEFAULT: GroupId = 0;

/// The groups of subscriptions by slot. Takes no memory until a subscription is given a group. Clones share what has not
/// changed since.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// By slot; slots beyond the end are in the default group.
    of_slot: Chunked<GroupId>,
    /// By group, its name. The first entry stands for the default group, which has none.
    names: Chunked<Arc<str>>,
    /// By group, the number of its subscriptions.
    counts: Chunked<u32>,
    by_name: CowHashTable<GroupId>,
    free: Chunked<GroupId>,
    hasher: RandomState,
}

impl Groups {
    /// Returns the group of a subscription.
    pub(super) fn of(&self, slot: Slot) -> GroupId {
        self.of_slot.get(slot as usize).copied().unwrap_or(DEFAULT)
    }

    /// Returns the name of a subscription's group; empty for the default group.
    pub(super) fn name(&self, slot: Slot) -> &str {
        self.names.get(self.of(slot) as usize).map_or("", |name| name)
    }

    /// Puts a subscription into the group with a name; the empty name is that of the default group.
    pub(super) fn assign(&mut self, slot: Slot, name: &str) {
        if self.name(slot) == name {
            return;
        }
        self.release(slot);
        if name.is_empty() {
            return;
        }
        let hash = self.hasher.hash_one(name);
        let existing = self.by_name.find(hash, |&group| *self.names[group as usize] == *name).copied();
        let group = existing.unwrap_or_else(|| self.insert(hash, name));
        self.counts[group as usize] += 1;
        while self.of_slot.len() <= slot as usize {
            self.of_slot.push(DEFAULT);
        }
        self.of_slot[slot as usize] = group;
    }

    /// Takes a subscription out of its group.
    pub(super) fn release(&mut self, slot: Slot) {
        let group = self.of(slot);
        if group == DEFAULT {
            return;
        }
        self.of_slot[slot as usize] = DEFAULT;
        self.counts[group as usize] -= 1;
        if self.counts[group as usize] > 0 {
            return;
        }
        let name = std::mem::take(&mut self.names[group as usize]);
        self.by_name.remove(self.hasher.hash_one(&*name), |&other| other == group);
        self.free.push(group);
    }

    fn insert(&mut self, hash: u64, name: &str) -> GroupId {
        if self.names.is_empty() {
            self.names.push(Arc::default());
            self.counts.push(0);
        }
        let group = match self.free.pop() {
            Some(group) => {
                self.names[group as usize] = name.into();
                group
            }
            None => {
                self.names.push(name.into());
                self.counts.push(0);
                self.names.len() as GroupId - 1
            }
        };
        let (names, hasher) = (&self.names, &self.hasher);
        self.by_name.insert_unique(hash, group, |&other| hasher.hash_one(&*names[other as usize]));
        group
    }

    /// Returns the number of groups with subscriptions, but for the default group.
    pub(super) fn count(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn bytes(&self) -> usize {
        // A name takes two words in the list, and about as much where it stands.
        let numbers = self.of_slot.bytes() + self.counts.bytes() + self.free.bytes();
        2 * self.names.bytes() + numbers + self.by_name.capacity() * 5
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use super::*;
    use crate::testing::Random;

    #[test]
    fn groups_come_and_go_with_their_subscriptions() {
        let mut groups = Groups::default();
        assert_eq!((groups.of(5), groups.name(5)), (DEFAULT, ""));
        groups.assign(5, "a");
        groups.assign(2, "a");
        groups.assign(3, "b");
        assert_eq!(groups.of(5), groups.of(2));
        assert_ne!(groups.of(5), groups.of(3));
        groups.assign(3, "");
        assert_eq!((groups.of(3), groups.count()), (DEFAULT, 1));
        groups.assign(9, "c");
        assert_eq!((groups.name(9), groups.name(5), groups.name(3)), ("c", "a", ""));
        groups.release(5);
        groups.release(2);
        groups.release(9);
        assert_eq!(groups.count(), 0);
    }

    #[test]
    fn a_random_history_agrees_with_a_map() {
        let mut random = Random(7);
        let (mut groups, mut expected) = (Groups::default(), FxHashMap::<Slot, String>::default());
        for _ in 0..20_000 {
            let (slot, name): (Slot, u32) = (random.below(50), random.below(12));
            if name < 3 {
                groups.release(slot);
                expected.remove(&slot);
            } else {
                groups.assign(slot, &name.to_string());
                expected.insert(slot, name.to_string());
            }
            let distinct: std::collections::BTreeSet<_> = expected.values().collect();
            assert_eq!(groups.count(), distinct.len());
            assert!((0..50).all(|slot| groups.name(slot) == expected.get(&slot).map_or("", String::as_str)));
        }
    }
}
