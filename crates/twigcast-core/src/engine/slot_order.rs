//! Putting slots, and deliveries, in the order of their slots.

use std::cell::RefCell;

use super::query_set::QuerySet;
use super::subscribers::{SharingSlots, Subscribers, SubscribersByQuery};
use crate::ids::Slot;
use crate::rewrite::batch::{IndexedQuery, ResultSink};

/// The density of slots or deliveries below which sorting is faster than setting a bit for each: one slot in so many.
pub(super) const SPARSE: usize = 64;

/// Slots for which a thread keeps memory, at most.
const KEPT_MAX: usize = 1 << 22;

thread_local! {
    /// For prepared deliveries, which are expanded when they are first read, on any thread.
    static IN_ORDER: RefCell<SlotOrder> = RefCell::default();
}

/// Sorts distinct slots below `bound`, each with its payload index.
pub(super) fn put_in_order(slots: &mut Vec<Slot>, numbers: &mut Vec<u32>, bound: usize) {
    if slots.is_sorted() {
        return;
    }
    if slots.len() < bound / SPARSE {
        let mut pairs: Vec<(Slot, u32)> = slots.drain(..).zip(numbers.drain(..)).collect();
        pairs.sort_unstable();
        (*slots, *numbers) = pairs.into_iter().unzip();
        return;
    }
    with_slot_order(|order| {
        order.begin(bound, 0);
        order.put_all(slots, numbers);
        slots.clear();
        numbers.clear();
        order.append_to(slots, numbers);
    });
}

/// The slots of matched queries, collected in any order: in a list while they are few or ascending, then in a set.
pub(super) struct SlotCollector {
    list: Vec<Slot>,
    is_ascending: bool,
    /// Once there are many; the list is empty then.
    set: Option<QuerySet>,
    bound: usize,
}

impl SlotCollector {
    /// Returns an empty one for slots below `bound`.
    pub(super) fn new(bound: usize) -> Self {
        Self { list: Vec::new(), is_ascending: true, set: None, bound }
    }

    /// Returns an empty one for slots below `bound`, of which there will be at least `count`.
    pub(super) fn for_many(bound: usize, count: usize) -> Self {
        let mut collector = Self::new(bound);
        if count > bound / SPARSE {
            collector.all_in_set();
        }
        collector
    }

    /// Adds the slots of a query, which has not been added before.
    #[inline]
    pub(super) fn add(&mut self, subscribers: &SubscribersByQuery, query: u32) {
        let slots = match subscribers.subscribers(query) {
            Subscribers::Sole(slot) => return self.add_one(slot),
            Subscribers::Several(slots) => slots,
        };
        if slots.len() > SPARSE
            && let Some(bits) = subscribers.sharing(query).and_then(SharingSlots::bits)
        {
            self.all_in_set().insert_all(bits);
            return;
        }
        match &mut self.set {
            Some(set) => slots.iter().for_each(|&slot| set.insert(slot)),
            None => self.add_to_list(slots),
        }
    }

    #[inline]
    fn add_one(&mut self, slot: Slot) {
        match &mut self.set {
            Some(set) => set.insert(slot),
            None if self.is_ascending && self.list.last().is_none_or(|&last| last < slot) => self.list.push(slot),
            None => self.add_to_list(&[slot]),
        }
    }

    fn add_to_list(&mut self, slots: &[Slot]) {
        let last = self.list.last().copied();
        self.is_ascending =
            self.is_ascending && slots.is_sorted() && last.is_none_or(|last| slots.first() > Some(&last));
        self.list.extend_from_slice(slots);
        if !self.is_ascending && self.list.len() > self.bound / SPARSE {
            self.all_in_set();
        }
    }

    /// Puts all into the set, which is returned.
    fn all_in_set(&mut self) -> &mut QuerySet {
        let Self { list, set, bound, .. } = self;
        set.get_or_insert_with(|| {
            let mut set = QuerySet::default();
            set.reset(*bound);
            list.drain(..).for_each(|slot| set.insert(slot));
            set
        })
    }

    /// Appends the slots, ascending.
    pub(super) fn append_to(mut self, slots: &mut Vec<Slot>) {
        match &self.set {
            Some(set) => set.append_to(slots),
            None => {
                if !self.is_ascending {
                    self.list.sort_unstable();
                }
                slots.append(&mut self.list);
            }
        }
    }

    /// Appends the slots, and the members of a set that a mask has, too, ascending.
    pub(super) fn append_with(mut self, slots: &mut Vec<Slot>, more: &QuerySet, mask: &[u64]) {
        if self.set.is_none() {
            let start = slots.len();
            more.append_admitted_to(slots, |block, word| word & mask[block]);
            if self.list.is_empty() {
                return;
            }
            if slots.len() == start {
                return self.append_to(slots);
            }
            if slots.len() - start + self.list.len() <= self.bound / SPARSE {
                slots.append(&mut self.list);
                slots[start..].sort_unstable();
                return;
            }
            slots.truncate(start);
        }
        let set = self.all_in_set();
        set.insert_common(more, mask);
        set.append_to(slots);
    }
}

/// Calls `work` with the slot order of this thread.
pub(super) fn with_slot_order<T>(work: impl FnOnce(&mut SlotOrder) -> T) -> T {
    IN_ORDER.with_borrow_mut(|order| {
        let done = work(order);
        if order.number_of.len() > KEPT_MAX {
            *order = SlotOrder::default();
        }
        done
    })
}

/// The payload index of each slot that has a delivery. Writing it in any order and reading it by slot sorts deliveries.
#[derive(Debug, Default)]
pub(super) struct SlotOrder {
    slots: QuerySet,
    number_of: Vec<u32>,
    /// The index of the first payload of the message.
    first: u32,
}

impl SlotOrder {
    /// Removes all deliveries. Slots are below `bound`, and the payloads of the message begin at `first`.
    pub fn begin(&mut self, bound: usize, first: u32) {
        self.slots.reset(bound);
        self.number_of.resize(bound.max(self.number_of.len()), 0);
        self.first = first;
    }

    /// Adds a delivery; the payload is counted from the first of the message.
    #[inline]
    fn put(&mut self, slot: Slot, number: u32) {
        self.slots.insert(slot);
        self.number_of[slot as usize] = number;
    }

    /// Adds deliveries.
    pub fn put_all(&mut self, slots: &[Slot], numbers: &[u32]) {
        slots.iter().zip(numbers).for_each(|(&slot, &number)| self.put(slot, number.wrapping_sub(self.first)));
    }

    /// Appends the slots, ascending, and the payload index of each.
    pub fn append_to(&self, slots: &mut Vec<Slot>, numbers: &mut Vec<u32>) {
        let before = slots.len();
        self.slots.append_to(slots);
        numbers.extend(slots[before..].iter().map(|&slot| self.number_of[slot as usize].wrapping_add(self.first)));
    }
}

/// Takes results as deliveries, where each query has one subscription whose slot is the query's number.
impl ResultSink for SlotOrder {
    fn reserve(&mut self, _: usize) {}

    fn push(&mut self, query: u32, number: u32) {
        self.put(query, number);
    }

    #[inline]
    fn push_all(&mut self, members: &[IndexedQuery], mut number_of: impl FnMut(IndexedQuery) -> u32) {
        for &member in members {
            self.put(member.query, number_of(member));
        }
    }

    fn finish(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Few and many of all slots, in any order, come out sorted, each with its number.
    #[test]
    fn deliveries_are_put_in_order() {
        for seed in 1..80_u64 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let bound = 1 + random.below(3_000);
            let one_in = [1, 2, 40, 200, 1_000][seed as usize % 5];
            let mut pairs: Vec<(Slot, u32)> = (0..bound as u32)
                .filter(|_| random.below(one_in) == 0)
                .map(|slot| (slot, (slot / 3).wrapping_sub(slot % 2)))
                .collect();
            let expected = pairs.clone();
            for at in 0..if seed % 7 == 0 { 0 } else { pairs.len() } {
                pairs.swap(at, seed as usize * at % (at + 1));
            }
            pairs.reverse();
            let (mut slots, mut numbers) = pairs.into_iter().unzip();
            put_in_order(&mut slots, &mut numbers, bound);
            assert!(slots.into_iter().zip(numbers).eq(expected));
        }
    }
}
