//! Deliveries, found in any order, in that of the subscriptions.

use super::query_set::QuerySet;
use super::registry::Slot;
use crate::extract::guided::{Hearer, Member};

/// Who gets which payload, by subscription.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    slots: QuerySet,
    number_of: Vec<u32>,
    /// The number of the first payload that is told.
    first: u32,
}

impl InOrder {
    /// Forget all. There are no subscriptions from `bound` on, and payloads that are told are counted from `first`.
    pub fn begin(&mut self, bound: usize, first: u32) {
        self.slots.reset(bound);
        self.number_of.resize(bound.max(self.number_of.len()), 0);
        self.first = first;
    }

    /// A subscription gets a payload.
    #[inline]
    pub fn put(&mut self, slot: Slot, number: u32) {
        self.slots.insert(slot);
        self.number_of[slot as usize] = number;
    }

    /// Append the subscriptions, ascending, and the number of each one's payload.
    pub fn append_to(&self, slots: &mut Vec<Slot>, numbers: &mut Vec<u32>) {
        let before = slots.len();
        self.slots.append_to(slots, |_, word| word);
        numbers.extend(slots[before..].iter().map(|&slot| self.number_of[slot as usize]));
    }
}

/// For queries of which each has one subscription, of its own number.
impl Hearer for InOrder {
    fn expect(&mut self, _: usize) {}

    fn hear(&mut self, query: u32, number: u32) {
        self.put(query, self.first + number);
    }

    #[inline]
    fn hear_all(&mut self, members: &[Member], mut number_of: impl FnMut(Member) -> u32) {
        for &member in members {
            self.put(member.query, self.first + number_of(member));
        }
    }

    fn end(&mut self) {}
}
